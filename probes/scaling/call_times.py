"""Seconds of a call: which clocks are read, how often the call is repeated, and what of that is kept."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from probes.core.systems import physical_memory
from probes.scaling.workloads import Workload

LEAST = 0.01
"""Seconds that the repeats of a call take together at least."""
FEWEST = 3
"""Repeats at least: the least of them leaves out an interruption."""
MOST = 1000
_SIDE, _SIDE_CUDA = 512, 4096
"""Of the reference; a small product on a GPU would take no longer than its launch."""
_REFERENCES = 5


@dataclass(frozen=True, slots=True)
class Taken:
    """What a call took: seconds of the processor and of the wall clock, and bytes at its peak where they are known."""

    cpu: float | None
    wall: float
    memory: int | None = None


Clock = Callable[[Callable[[], object]], Taken]
"""Calls something and says what that took; the result is freed after the clocks are read."""


def repeated(make: Callable[[], Workload], clock: Clock, *, anew: bool) -> tuple[Taken, int]:
    """Return the least that a call took, and its repeats: three, or enough for 10 ms. A first call is not counted.

    Parameters
    ----------
    make
        Makes weights and inputs, outside the clock.
    anew
        Whether each call needs new ones, since it appends to its own state: three calls are made then.

    Examples
    --------
    >>> seconds = iter([9.0, 0.002, 0.003, 0.001, 0.005, 0.001])
    >>> repeated(lambda: Workload(int), lambda run: Taken(next(seconds), 1.0), anew=False)
    (Taken(cpu=0.001, wall=1.0, memory=None), 4)
    """
    run = make().run
    clock(run)
    taken: list[Taken] = []
    total = 0.0
    while len(taken) < FEWEST or (total < LEAST and len(taken) < MOST and not anew):
        if anew:
            # The old state goes first: two would need twice the memory.
            del run
            run = make().run
        taken.append(clock(run))
        total += taken[-1].wall if taken[-1].cpu is None else taken[-1].cpu
    cpu = [one.cpu for one in taken if one.cpu is not None]
    memory = [one.memory for one in taken if one.memory is not None]
    return Taken(min(cpu, default=None), min(one.wall for one in taken), max(memory, default=None)), len(taken)


def clock_of(device: str, threads: int) -> Clock:
    """Return the clock of calls on a device."""
    return cuda_clock(device) if device.startswith("cuda") else cpu_clock(threads)


def cpu_clock(threads: int) -> Clock:
    """Return a clock of calls on the CPU: with one thread its own time, with more that of the process."""
    processor = time.thread_time if threads == 1 else time.process_time

    def clock(run: Callable[[], object]) -> Taken:
        wall, cpu = time.perf_counter(), processor()
        result = run()
        cpu, wall = processor() - cpu, time.perf_counter() - wall
        del result
        return Taken(cpu, wall)

    return clock


def cuda_clock(device: str) -> Clock:
    """Return a clock of calls on a GPU: seconds between two events, and bytes at the peak beyond those before it."""

    def clock(run: Callable[[], object]) -> Taken:
        with torch.cuda.device(device):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            begin.record()
            result = run()
            end.record()
            torch.cuda.synchronize()
            memory = torch.cuda.max_memory_allocated() - before
            del result
            return Taken(None, begin.elapsed_time(end) / 1000, memory)

    return clock


def free_memory(device: str) -> int:
    """Return the bytes that can be allocated on a device; a container's limit counts too."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    # Where the system does not tell, as much as a small machine has.
    free = physical_memory() or 2**32
    known, limit = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")
    if known.is_file():
        rows = dict(line.split(":", 1) for line in known.read_text(encoding="utf-8").splitlines())
        free = int(rows["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in rows else free
    if limit.is_file() and (most := limit.read_text(encoding="utf-8").strip()).isdigit():
        free = min(free, int(most))
    return free


def running_others() -> float | None:
    """Return how many other threads are running, by the cores of the machine; None where the system does not tell."""
    known = Path("/proc/stat")
    if not known.is_file():
        return None
    lines = known.read_text(encoding="utf-8").splitlines()
    found = next((line.split()[1] for line in lines if line.startswith("procs_running")), "1")
    return max(int(found) - 1, 0) / (os.cpu_count() or 1)


def reference_kernel(device: str) -> Callable[[], object]:
    """Return a fixed call, a product of matrices, by which one sees that a machine is slowed by others."""
    side = _SIDE_CUDA if device.startswith("cuda") else _SIDE
    factor = torch.ones(side, side, device=device)
    return lambda: factor @ factor


def reference_seconds(kernel: Callable[[], object], clock: Clock) -> float:
    """Return the mean wall seconds of a few calls of the reference: a single one may fit between two interruptions."""
    return sum(clock(kernel).wall for _ in range(_REFERENCES)) / _REFERENCES
