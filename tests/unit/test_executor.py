"""Does every job run once, on one core, does a dead worker cost its own job only, and does none outlive its parent?"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from audits.core import option_groups
from probes.core import executor, graphics_cards
from probes.core.errors import InputError
from probes.core.executor import BACKENDS, DEATHS, Workers, one_thread, opened, run_jobs
from probes.core.worker_processes import LostError, Outcome, call, loky_pool

SUPPORT = Path(__file__).parents[1] / "support"
TWO = Workers(count=2)


@pytest.fixture(scope="module")
def jobs() -> Iterator[Any]:
    """Return the functions of the jobs, in a module that workers find too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SUPPORT))
        yield import_module("jobs_of_executor")


def until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"backend": "slurm"}, "--backend"),
        ({"count": -1}, "--workers"),
        ({"scheduler": "tcp://head:8786"}, "--scheduler"),
        ({"gpus": -1}, "--device"),
        ({"gpus": 2, "cards": ("3",)}, "--device"),
    ],
)
def test_workers_that_cannot_be_are_refused(asked: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        Workers(**asked)
    assert caught.value.where == where and caught.value.hint


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr(executor, "find_spec", lambda package: None)
    with pytest.raises(InputError, match="not installed") as caught:
        Workers(backend=backend)
    assert caught.value.where == f"--backend {backend}" and "miles-audit[cluster]" in caught.value.hint
    assert Workers().backend == "loky"


def test_options_offer_what_there_is() -> None:
    assert option_groups.BACKENDS == BACKENDS


@pytest.mark.parametrize("count", [1, 2])
def test_every_job_runs_once(jobs: Any, count: int) -> None:
    found: dict[int, int] = {}
    calls: list[int] = []

    def done(index: int, result: int) -> None:
        calls.append(index)
        found[index] = result

    assert run_jobs(jobs.process, list(range(5)), Workers(count=count), done=done) == {}
    assert sorted(calls) == list(range(5))
    assert (set(found.values()) == {os.getpid()}) == (count == 1) and len(set(found.values())) == count
    if count == 1:
        assert calls == list(range(5))


def test_there_are_no_more_workers_than_jobs(jobs: Any) -> None:
    assert Workers(count=4).lanes(2) == 2 and Workers(count=2).lanes(5) == 2 and Workers().lanes(10**6) >= 1
    assert run_jobs(jobs.process, [], TWO) == {}


def test_jobs_have_one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    seen: list[int] = []
    try:
        run_jobs(lambda _: torch.get_num_threads(), [0], Workers(count=1), done=lambda _, found: seen.append(found))
        with pytest.raises(LookupError), one_thread():
            raise LookupError
        assert seen == [1] and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_dead_worker_costs_its_own_job_only(jobs: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found: dict[int, int] = {}
    given = [(str(tmp_path), number, {1: 1, 3: 9}.get(number, 0)) for number in range(6)]
    lost = run_jobs(jobs.dies, given, TWO, done=found.__setitem__)
    assert lost == {3: "its worker died (SIGKILL(-9))"}
    assert found == {number: number**3 for number in (0, 1, 2, 4, 5)}
    assert jobs.marks(tmp_path, range(6)) == [1, 2, 1, 2, 1, 1]
    assert capfd.readouterr() == ("", "")


def test_each_worker_has_a_gpu_and_so_has_the_one_in_its_place(jobs: Any, tmp_path: Path) -> None:
    found: dict[int, tuple[str, int]] = {}
    given = [(str(tmp_path), number, int(number < 2)) for number in range(5)]
    workers = Workers(gpus=2, cards=("2", "GPU-8932f937"))
    with opened(workers, len(given)) as pool:
        assert run_jobs(jobs.card, given, workers, done=found.__setitem__, pool=pool) == {}
        assert (
            run_jobs(jobs.card, given, workers, done=lambda index, one: found.update({index + 5: one}), pool=pool) == {}
        )
    # Both died at once; the two in their place have the same GPUs, for as many calls as there are.
    assert sorted(card for card, _ in set(found.values())) == ["2", "GPU-8932f937"]


def test_workers_are_as_many_as_gpus_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphics_cards, "cards", lambda: ("4", "5", "6"))
    two, several = Workers(gpus=2), Workers(gpus=2, count=3)
    assert (two.lanes(9), several.lanes(9), Workers(gpus=3, count=1).lanes(9)) == (2, 3, 1)
    assert (two.dealt(2), several.dealt(3), TWO.dealt(2)) == (("4", "5"), ("4", "5", "4"), ())
    # One GPU needs no other process than this, unless it is named: this one may see others.
    assert Workers(gpus=1).here and not Workers(gpus=1, cards=("6",)).here and not two.here
    with pytest.raises(InputError, match="4 GPUs are asked for, and this process sees 3") as caught:
        Workers(gpus=4).dealt(4)
    assert caught.value.where == "--device"


class Doomed:
    """Workers that die with their jobs, but for every so many."""

    def __init__(self, lanes: int, good: int) -> None:
        self.lanes, self.good, self.begun = lanes, good, 0

    def room(self, busy: int) -> int:
        return self.lanes - busy

    def submit(self, function: Callable[[int], int], job: int) -> int:
        self.begun += 1
        return self.begun

    def wait(self, tickets: Sequence[int]) -> Sequence[int]:
        return tickets[:1]

    def outcome(self, ticket: int) -> Outcome:
        if ticket % self.good == 0:
            return Outcome(result=0)
        raise LostError("its worker died")

    def close(self, *, at_once: bool) -> None:
        raise AssertionError


def test_what_ends_every_worker_is_not_tried_with_every_job() -> None:
    pool = Doomed(lanes=4, good=10**6)
    lost = run_jobs(abs, range(1000), TWO, pool=pool)
    # Those that were begun by then are waited for.
    assert len(lost) == 1000 and pool.begun == DEATHS + 3
    assert lost[999] == "25 workers died one after the other"
    # With one that lives now and then all are begun.
    pool = Doomed(lanes=4, good=20)
    assert run_jobs(abs, range(100), TWO, pool=pool, attempts=1).keys() == {one for one in range(100) if (one + 1) % 20}


def test_a_job_is_begun_as_often_as_asked(jobs: Any, tmp_path: Path) -> None:
    found: dict[int, int] = {}
    given = [(str(tmp_path), number, 2) for number in (0, 1)]
    assert run_jobs(jobs.dies, given, TWO, done=found.__setitem__, attempts=3) == {}
    assert found == {0: 0, 1: 1} and jobs.marks(tmp_path, (0, 1)) == [3, 3]


def test_what_a_job_raises_ends_the_others_and_comes_back_whole(jobs: Any, tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match=r"The file is empty\.") as caught:
        run_jobs(jobs.refuses, [(str(tmp_path), number) for number in range(4)], TWO)
    assert (caught.value.where, caught.value.hint) == ("points.csv, line 1", "Give points.")
    # The other sleeps for ten minutes.
    assert time.monotonic() - start < 300 and jobs.marks(tmp_path, (2, 3)) == [0, 0]
    assert not any(jobs.alive(process) for process in jobs.workers_of(tmp_path))


def test_faults_of_ours_are_told_with_their_place(jobs: Any) -> None:
    with pytest.raises(LookupError, match="no 0") as caught:
        run_jobs(jobs.fails, [0, 0], TWO)
    assert "in fails" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="OddError: 1 and 2"):
        run_jobs(jobs.fails, [2, 2], TWO)


def test_what_the_listener_raises_ends_all(jobs: Any, tmp_path: Path) -> None:
    def done(index: int, result: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs.dies, [(str(tmp_path), number, 0) for number in range(9)], TWO, done=done)
    assert sum(jobs.marks(tmp_path, range(9))) <= 4
    assert not any(jobs.alive(process) for process in jobs.workers_of(tmp_path))


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_parent(jobs: Any, tmp_path: Path, sent: signal.Signals) -> None:
    script = "import sys, jobs_of_executor as jobs; jobs.train_forever(sys.argv[1], 'loky')"
    # Ctrl-C reaches all processes of a terminal.
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], start_new_session=True, stderr=subprocess.DEVNULL
    ) as parent:
        try:
            assert until(lambda: len(list(tmp_path.iterdir())) == 2, 60)
            working = jobs.workers_of(tmp_path)
            assert all(jobs.alive(process) for process in working)
            (os.killpg if sent == signal.SIGINT else os.kill)(parent.pid, sent)
            assert until(lambda: not any(jobs.alive(process) for process in working), 30)
            assert parent.wait(60) == (-signal.SIGKILL if sent == signal.SIGKILL else -signal.SIGINT)
        finally:
            # It trains forever, and would be waited for.
            parent.kill()


def test_a_worker_that_dies_with_nothing_to_do_costs_no_job(jobs: Any) -> None:
    pool = loky_pool(1)
    try:
        first = pool.submit(jobs.process, 0)
        pool.wait([first])
        idle = pool.outcome(first).result
        os.kill(idle, signal.SIGKILL)
        assert until(lambda: not jobs.alive(idle), 10)
        # The library notices a moment after the process is gone.
        time.sleep(1)
        second = pool.submit(jobs.process, 1)
        pool.wait([second])
        assert pool.outcome(second).result not in (idle, os.getpid())
        third = pool.submit(jobs.growth_that_ends_it, 2)
        pool.wait([third])
        assert pool.outcome(third).result > 2**50
    finally:
        pool.close(at_once=True)


@pytest.mark.parametrize(("before", "after"), [(None, "AUTO,STRICT"), ("COMPATIBLE", "COMPATIBLE")])
def test_a_worker_that_others_started_adds_up_in_one_order(
    monkeypatch: pytest.MonkeyPatch, before: str | None, after: str
) -> None:
    monkeypatch.setattr(os, "environ", {} if before is None else {"MKL_CBWR": before})
    call(abs, -1)
    assert os.environ["MKL_CBWR"] == after and os.environ["OMP_NUM_THREADS"] == "1"
