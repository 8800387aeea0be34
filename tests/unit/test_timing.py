"""The child that measures times: it survives what user code does, and ends with its parent."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from audits.scaling.contention import contention
from probes.core.errors import IncompleteError, InputError
from probes.scaling.timing import Allocator, Stopwatch, order
from probes.scaling.workloads import Case, TargetSpec

KEPT = {"attention": (256, 512, 1024), "pom": (512, 1024)}
MINE = """
import os, sys

def noisy(batch, n, width, device):
    print("{not an answer")
    sys.stdout.flush()
    os.write(1, b"nor this\\n")
    print(sys.stdin.read(), file=sys.stderr)
    if n == 32:
        raise ValueError("no module of length 32\\nat all")
    if n == 64:
        os._exit(3)
    if n == 128:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory")
    return lambda x: print("called") or 2 * x
"""

SIZES = [256, 512, 1024, 2048]
FAULTS = """
import resource, torch

def make(batch, n, width, device):
    calls = []
    def call(x):
        for _ in range(9):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            torch.zeros(2**24)
            calls.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        if min(calls) > 1000:
            raise ValueError("faults")
    return call
"""


def test_each_round_has_an_order_of_its_own_and_equal_seeds_have_equal_ones() -> None:
    orders = [order(KEPT, number, 7) for number in range(9)]
    assert len({tuple(one) for one in orders}) > 7
    assert orders == [order(KEPT, number, 7) for number in range(9)]
    assert orders != [order(KEPT, number, 8) for number in range(9)]
    assert all(Counter(one) == Counter((name, n) for name, sizes in KEPT.items() for n in sizes) for one in orders)


def built_in(*names: str) -> list[TargetSpec]:
    return [TargetSpec(name=name, kind="built-in", source=name) for name in names]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine_of_timing.py").write_text(MINE)
    # None of these may stand in for ours or for a library's.
    for name in ("probes", "torch", "json", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_user_code_does_the_child_no_harm(here: Path) -> None:
    mine = TargetSpec(name="mine", kind="factory", source="mine_of_timing:noisy")
    with Stopwatch([mine, *built_in("attention")], Case(n=0, width=8), allow_code=True) as watch:
        plan = watch.plan({"mine": [16, 32, 48], "attention": [16]}, budget_seconds=60, rounds=2, memory={})
        full = watch.plan({"mine": [128, 256]}, budget_seconds=60, rounds=2, memory={})
        big = watch.plan({"mine": [16, 512]}, budget_seconds=60, rounds=2, memory={("mine", 512): 2**60})
        cells = watch.round(1, 0, plan.kept)
    assert plan.kept == {"mine": (16, 48), "attention": (16,)}
    assert [(one.n, one.kind, one.reason) for one in plan.left_out] == [
        (32, "error", "fails with ValueError: no module of length 32")
    ]
    assert [(one.n, one.kind) for one in full.left_out] == [(128, "memory"), (256, "memory")]
    assert (big.kept, [(one.n, one.kind) for one in big.left_out]) == ({"mine": (16,)}, [(512, "memory")])
    assert "needs 1.07e+09 GiB, more than half of the" in big.left_out[0].reason
    assert {(one.target, one.n, one.round) for one in cells} == {("mine", 16, 1), ("mine", 48, 1), ("attention", 16, 1)}
    for cell in cells:
        assert cell.cpu is not None
        assert 0 < cell.cpu < 1
        assert 0 < cell.wall < 1
        assert 0 < cell.reference < 1
        assert cell.repeats >= 3
        assert cell.memory is None


@pytest.mark.slow
def test_a_child_that_dies_is_started_anew(here: Path) -> None:
    mine = TargetSpec(name="mine", kind="factory", source="mine_of_timing:noisy")
    with Stopwatch([mine, *built_in("attention")], Case(n=0, width=8), allow_code=True) as watch:
        plan = watch.plan({"mine": [16, 64, 96], "attention": [16]}, budget_seconds=60, rounds=2, memory={})
        child = watch._child
        # A length whose process dies in a round gives no cell, the others do.
        cells = watch.round(0, 0, {"mine": [16, 64], "attention": [16]})
    assert plan.kept == {"mine": (16,), "attention": (16,)}
    why = "the process ended with status 3, for want of memory or after 3600 s"
    assert [(one.n, one.kind, one.reason) for one in plan.left_out] == [(64, "memory", why), (96, "memory", why)]
    assert {(cell.target, cell.n) for cell in cells} == {("mine", 16), ("attention", 16)}
    assert child is not None
    assert child.poll() is not None


@pytest.mark.slow
def test_a_call_that_does_not_end_is_given_up(here: Path) -> None:
    (here / "sleeps.py").write_text(
        "import time\n\n\ndef make(batch, n, width, device):\n    time.sleep(600 * (n > 16))\n    return lambda x: x\n"
    )
    mine = TargetSpec(name="mine", kind="factory", source="sleeps:make")
    with Stopwatch([mine], Case(n=0, width=8), allow_code=True, patience=15.0) as watch:
        plan = watch.plan({"mine": [16, 64]}, budget_seconds=60, rounds=2, memory={})
    assert plan.kept == {"mine": (16,)}
    assert [one.reason for one in plan.left_out] == [
        "the process ended with status -9, for want of memory or after 15 s"
    ]


@pytest.mark.slow
def test_a_child_that_cannot_begin_is_no_reason_to_wait() -> None:
    # A kind of device that torch has and no machine.
    with Stopwatch(built_in("attention"), Case(n=0, device="vulkan")) as watch:
        with pytest.raises(IncompleteError, match="ended with status 1"):
            watch.round(0, 0, {"attention": [16]})
        assert watch._child is None


@pytest.mark.slow
def test_a_target_that_cannot_be_opened_is_the_users_concern(here: Path) -> None:
    mine = TargetSpec(name="mine", kind="factory", source="mine_of_timing:absent")
    with Stopwatch([mine], Case(n=0), allow_code=True) as watch:
        with pytest.raises(InputError, match="was not found") as caught:
            watch.round(0, 0, {"mine": [16]})
        assert watch._child is None
    assert caught.value.where == "mine=mine_of_timing:absent"


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_the_child_ends_with_its_parent(here: Path, sent: signal.Signals) -> None:
    (here / "endless.py").write_text(
        "import os, time\ndef make(*_):\n    open('child', 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
    )
    code = (
        "from probes.scaling.timing import Stopwatch; from probes.scaling.workloads import Case, TargetSpec\n"
        "mine = TargetSpec(name='mine', kind='factory', source='endless:make')\n"
        "with Stopwatch([mine], Case(n=0), allow_code=True) as watch: watch.round(0, 0, {'mine': [16]})"
    )
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    with subprocess.Popen([sys.executable, "-P", "-c", code], env=settings, stderr=subprocess.DEVNULL) as parent:
        try:
            assert until(lambda: (here / "child").is_file() and (here / "child").read_text() != "", 60)
            child = int((here / "child").read_text())
            os.kill(child, signal.SIGINT)
            time.sleep(1)
            assert alive(child)
            parent.send_signal(sent)
            assert until(lambda: not alive(child), 30)
        finally:
            parent.kill()


@pytest.mark.slow
def test_the_child_ends_when_its_input_closes(here: Path) -> None:
    with Stopwatch(built_in("attention"), Case(n=0)) as watch:
        watch.round(0, 0, {"attention": [16]})
        assert watch._child is not None
        assert watch._child.stdin is not None
        watch._child.stdin.close()
        assert watch._child.wait(30) == 0


@pytest.mark.slow
@pytest.mark.parametrize("allocator", ["default", "held"])
def test_the_allocator_is_held_where_it_is_asked_for(here: Path, allocator: Allocator) -> None:
    (here / "faults.py").write_text(FAULTS)
    mine = TargetSpec(name="mine", kind="factory", source="faults:make")
    with Stopwatch([mine], Case(n=0), allocator=allocator, allow_code=True) as watch:
        cells = watch.round(0, 0, {"mine": [16]})
    # 64 MiB are 16,384 pages, which are faulted in anew by each call unless the process keeps them. How many calls the
    # heap grows for depends on what lies in it.
    assert (cells != []) is (allocator == "held")


@pytest.mark.slow
def test_busy_loops_beside_a_run_are_noticed() -> None:
    specs, kept = built_in("attention", "linear-attention"), dict.fromkeys(["attention", "linear-attention"], SIZES)
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        with Stopwatch(specs, Case(n=0), allocator="held") as watch:
            cells = [cell for number in range(3) for cell in watch.round(number, 0, kept)]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert contention(cells).contended


APPENDS = """
class Mixer:
    def __call__(self, x):
        return x

    def prefill(self, x):
        return x, [x]

    def step(self, token, state):
        state.append(token)
        if len(state) != 2:
            raise ValueError("state of another call")
        return token, state

def make(*_):
    return Mixer()
"""


@pytest.mark.slow
def test_a_step_begins_at_its_length_in_each_repeat(here: Path) -> None:
    (here / "appends.py").write_text(APPENDS)
    mine = TargetSpec(name="mine", kind="factory", source="appends:make")
    sizes = {"mine": [16], "linear-attention": [16]}
    with Stopwatch([mine, *built_in("linear-attention")], Case(n=0, mode="decode"), allow_code=True) as watch:
        repeats = {cell.target: cell.repeats for cell in watch.round(0, 0, sizes)}
    assert repeats["mine"] == 3
    assert repeats["linear-attention"] > 3


@pytest.mark.slow
def test_a_table_of_positions_ends_the_lengths_of_a_folder(here: Path) -> None:
    sizes = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32, "vocab_size": 50}
    (here / "small").mkdir()
    (here / "small" / "config.json").write_text(json.dumps(sizes))
    small = TargetSpec(name="small", kind="folder", source=str(here / "small"))
    encoder = {**sizes, "model_type": "bert", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    (here / "encoder").mkdir()
    (here / "encoder" / "config.json").write_text(json.dumps(encoder))
    other = TargetSpec(name="encoder", kind="folder", source=str(here / "encoder"))
    with Stopwatch([small, other], Case(n=0, mode="decode")) as watch:
        plan = watch.plan({"small": [16, 31, 32], "encoder": [16]}, budget_seconds=60, rounds=1, memory={})
        cells = watch.round(0, 0, plan.kept)
    assert plan.kept == {"small": (16, 31), "encoder": ()}
    assert [(one.target, one.n, one.kind) for one in plan.left_out] == [
        ("small", 32, "length"),
        ("encoder", 16, "mode"),
    ]
    assert "32 learned positions, and 33 are needed" in plan.left_out[0].reason
    assert {cell.n for cell in cells} == {16, 31}


def alive(process: int) -> bool:
    """Say whether a process runs; one that ended and is not collected yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(true: Callable[[], bool], seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while not true() and time.monotonic() < limit:
        time.sleep(0.05)
    return true()
