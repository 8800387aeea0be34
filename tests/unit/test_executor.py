"""Does every job run once, on one core, does a dead worker cost its own job only, and does none outlive its parent?"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from audits.core import option_groups
from probes.core import executor
from probes.core.errors import InputError
from probes.core.executor import BACKENDS, Workers, one_thread, run_jobs
from probes.core.worker_processes import loky_pool

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
    finally:
        pool.close(at_once=True)
