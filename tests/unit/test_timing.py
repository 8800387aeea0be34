"""The child that measures times: it survives what user code does, and ends with its parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from probes.core.errors import InputError
from probes.scaling.contention import by_size, contention, varies
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
    too_much = {("mine", 256): 2**60}
    with Stopwatch([mine, *built_in("attention")], Case(n=0, width=8), allow_code=True) as watch:
        plan = watch.plan({"mine": [16, 32, 48, 64, 96], "attention": [16]}, budget_seconds=60, rounds=2, memory={})
        big = watch.plan({"mine": [16, 256, 512]}, budget_seconds=60, rounds=2, memory=too_much)
        full = watch.plan({"mine": [128]}, budget_seconds=60, rounds=2, memory={})
        child = watch._child
        cells = watch.round(1, 0, plan.kept)
    # A child that dies takes the longer sequences with it.
    assert plan.kept == {"mine": (16, 48), "attention": (16,)}
    assert [(one.n, one.kind, one.reason) for one in plan.left_out] == [
        (32, "error", "fails with ValueError: no module of length 32"),
        (64, "memory", "the process ended with status 3, most often for want of memory"),
        (96, "memory", "the process ended with status 3, most often for want of memory"),
    ]
    assert (big.kept, [one.kind for one in big.left_out]) == ({"mine": (16,)}, ["memory", "memory"])
    assert "1.1e+09 GiB, more than half" in big.left_out[0].reason
    assert [one.kind for one in full.left_out] == ["memory"]
    assert {(cell.target, cell.n, cell.round) for cell in cells} == {("mine", 16, 1), ("mine", 48, 1), ("attention", 16, 1)}
    for cell in cells:
        assert cell.cpu is not None
        assert 0 < cell.cpu < 1
        assert 0 < cell.wall < 1
        assert 0 < cell.reference < 1
        assert cell.repeats >= 3
        assert cell.memory is None
    assert child is not None
    assert child.poll() == -signal.SIGKILL


def test_a_target_that_cannot_be_opened_is_the_users_concern(here: Path) -> None:
    mine = TargetSpec(name="mine", kind="factory", source="mine_of_timing:absent")
    with Stopwatch([mine], Case(n=0), allow_code=True) as watch, pytest.raises(InputError, match="was not found") as caught:
        watch.round(0, 0, {"mine": [16]})
    assert caught.value.where == "mine=mine_of_timing:absent"
    assert watch._child is None


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_the_child_ends_with_its_parent(here: Path, sent: signal.Signals) -> None:
    (here / "endless.py").write_text(
        "import os, time\ndef make(*_):\n    open('child', 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
    )
    code = (
        "import sys; from probes.scaling.timing import Stopwatch; from probes.scaling.workloads import Case, TargetSpec\n"
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


def test_the_child_ends_when_its_input_closes(here: Path) -> None:
    with Stopwatch(built_in("attention"), Case(n=0)) as watch:
        watch.round(0, 0, {"attention": [16]})
        assert watch._child is not None
        assert watch._child.stdin is not None
        watch._child.stdin.close()
        assert watch._child.wait(30) == 0


def alive(process: int) -> bool:
    """Say whether a process runs; one that ended and is not collected yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(true: object, seconds: float) -> bool:
    assert callable(true)
    limit = time.monotonic() + seconds
    while not true() and time.monotonic() < limit:
        time.sleep(0.05)
    return bool(true())
