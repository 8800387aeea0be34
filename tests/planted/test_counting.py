"""Counted growth of the twelve modules and of planted ones against their laws; counted memory against the process's."""

import math
import os
import subprocess
import sys

import pytest

from probes.scaling.counting import Count, count
from probes.scaling.planted_modules import growing_chunk, hidden_mask, leaking_cache
from probes.scaling.reference_modules import built_in_target, factory_target
from probes.scaling.workloads import Case, Target

LINEAR, SQUARE, LOGARITHMIC, CONSTANT = (1.0, 0.0), (2.0, 0.0), (1.0, 1.0), (0.0, 0.0)
# Name, power of two of the first length, and (p, q) of the laws n^p (log n)^q of operations, memory and state.
LAWS = {
    "attention": (18, SQUARE, SQUARE, LINEAR),
    "sdpa": (18, SQUARE, LINEAR, LINEAR),
    "linear-attention": (10, LINEAR, LINEAR, CONSTANT),
    "window-w": (10, LINEAR, LINEAR, CONSTANT),
    "fft-conv": (10, LOGARITHMIC, LINEAR, LINEAR),
    "ssm-scan": (6, LINEAR, LINEAR, CONSTANT),
    "ssm-parallel": (20, LOGARITHMIC, LINEAR, CONSTANT),
    "pom": (10, LINEAR, LINEAR, CONSTANT),
    "multipole": (12, LINEAR, LINEAR, None),
    "blockwise": (34, (4 / 3, 0.0), (4 / 3, 0.0), None),
    "dyadic": (12, LOGARITHMIC, LINEAR, None),
    "square-lag": (10, (1.5, 0.0), LINEAR, None),
}


def counted(target: Target, power: int) -> Count:
    return count(target, Case(n=2**power))


def exponent(one: float, other: float, powers: tuple[int, int], logs: float) -> float:
    """Return the exponent of n that is left where a power of log n is taken off."""
    first, last = powers
    return (math.log2(other / one) - logs * math.log2(last / first)) / (last - first)


@pytest.mark.parametrize("name", LAWS)
def test_growth_is_that_of_the_law(name: str) -> None:
    first, *laws = LAWS[name]
    powers = (first, first + 2)
    one, other = (counted(built_in_target(name), power) for power in powers)
    for quantity, law in zip(("operations", "memory", "state"), laws, strict=True):
        if law is None:
            assert getattr(one, quantity) is None
        else:
            found = exponent(getattr(one, quantity), getattr(other, quantity), powers, law[1])
            assert found == pytest.approx(law[0], abs=0.02), quantity


def test_five_modules_up_to_two_to_the_thirty() -> None:
    for name, first, last in (("attention", 2, 2), ("sdpa", 2, 2), ("linear-attention", 1, 1), ("pom", 1, 1)):
        for power, wanted in ((18, first), (29, last)):
            one, other = (counted(built_in_target(name), p).operations for p in (power, power + 1))
            assert math.log2(other / one) == pytest.approx(wanted, abs=2e-3)


def growth(target: Target, quantity: str, powers: tuple[int, int]) -> float:
    one, other = (getattr(counted(target, power), quantity) for power in powers)
    return exponent(one, other, powers, 0.0)


def test_planted_modules_break_their_claims() -> None:
    hidden = factory_target("hidden", hidden_mask)
    assert growth(hidden, "operations", (18, 20)) == pytest.approx(1, abs=0.02)
    assert growth(hidden, "memory", (18, 20)) == pytest.approx(2, abs=0.02)
    growing = factory_target("growing", growing_chunk)
    assert growth(growing, "operations", (7, 9)) == pytest.approx(1, abs=0.02)
    assert growth(growing, "operations", (18, 20)) == pytest.approx(2, abs=0.02)
    leaking = factory_target("leaking", leaking_cache)
    assert growth(leaking, "state", (18, 20)) == pytest.approx(1, abs=0.02)
    assert growth(leaking, "operations", (18, 20)) == pytest.approx(1, abs=0.02)
    honest = built_in_target("linear-attention")
    assert growth(honest, "memory", (18, 20)) == growth(honest, "operations", (18, 20)) == 1
    assert growth(honest, "state", (18, 20)) == 0


# Each tensor is given back to the system when it is freed, so that no gaps of the heap count.
MAPPED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
CHILD = """
import resource, sys, threading
import torch
from probes.scaling.reference_modules import built_in_target
from probes.scaling.workloads import Case
torch.set_num_threads(1)
name, *sizes = sys.argv[1:]
built_in_target(name).workload(Case(n=256)).run()
def high():
    text = open("/proc/self/status").read()
    return int(text.split("VmHWM:")[1].split()[0]), int(text.split("VmRSS:")[1].split()[0])
for n in map(int, sizes):
    work = built_in_target(name).workload(Case(n=n))
    open("/proc/self/clear_refs", "w").write("5")
    before = high()[1]
    result = work.run()
    print((high()[0] - before) * 1024)
    del result, work
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the high-water mark of Linux")
@pytest.mark.parametrize("name", ["attention", "linear-attention", "window-w", "fft-conv", "ssm-parallel"])
def test_counted_memory_is_the_high_water_mark_of_a_process(name: str) -> None:
    target = built_in_target(name)
    # A square grows fast: half doublings keep the largest below 1 GiB.
    halves = range(18, 40, 1 if name == "attention" else 2)
    counts = {n: count(target, Case(n=n)).memory for n in (int(2 ** (half / 2)) for half in halves)}
    sizes = [n for n, memory in counts.items() if memory >= 2**24][:4]
    made = [counts[n] for n in sizes]
    command = [sys.executable, "-c", CHILD, name, *map(str, sizes)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | MAPPED)
    assert [int(line) for line in run.stdout.split()] == pytest.approx(made, rel=0.1)
