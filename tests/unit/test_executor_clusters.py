"""Do jobs on a Dask and a Ray cluster come to the same as here, at the same cost of a dead worker, and in silence?"""

import gc
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest

from probes.core.errors import IncompleteError, InputError
from probes.core.executor import Workers, run_jobs

SUPPORT = Path(__file__).parents[1] / "support"
CLUSTERS = ("dask", "ray")
REFUSED = InputError("The file is empty.", where="points.csv, line 1", hint="Give points.")


@pytest.fixture(scope="module")
def jobs() -> Iterator[Any]:
    """Return the functions of the jobs, in a module that workers find too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SUPPORT))
        yield import_module("jobs_of_executor")


@pytest.mark.parametrize("backend", CLUSTERS)
def test_a_dead_worker_costs_its_own_job_only(
    jobs: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], backend: str
) -> None:
    found: dict[int, int] = {}
    given = [(str(tmp_path), number, {1: 1, 3: 9}.get(number, 0)) for number in range(6)]
    lost = run_jobs(jobs.dies, given, Workers(count=2, backend=backend), done=found.__setitem__)
    assert lost == {3: "its worker died"}
    assert found == {number: number**3 for number in (0, 1, 2, 4, 5)}
    assert jobs.marks(tmp_path, range(6)) == [1, 2, 1, 2, 1, 1]
    assert os.getpid() not in jobs.workers_of(tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("backend", CLUSTERS)
def test_what_a_job_raises_ends_the_others_and_comes_back_whole(
    jobs: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], backend: str
) -> None:
    with pytest.raises(InputError) as caught:
        run_jobs(jobs.refuses, [(str(tmp_path), number) for number in range(4)], Workers(count=2, backend=backend))
    assert vars(caught.value) == vars(REFUSED) and caught.value.args == REFUSED.args
    assert not any(jobs.alive(process) for process in jobs.workers_of(tmp_path))
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def port() -> int:
    """Return one at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("backend", CLUSTERS)
def test_a_scheduler_that_does_not_answer_is_told(
    jobs: Any, capfd: pytest.CaptureFixture[str], port: int, backend: str
) -> None:
    address = f"127.0.0.1:{port}"
    with pytest.raises(InputError, match="cluster answers there") as caught:
        run_jobs(jobs.process, [1], Workers(backend=backend, scheduler=address, patience=1.0))
    assert caught.value.where == f"--scheduler {address}" and caught.value.hint
    assert capfd.readouterr() == ("", "")


def test_a_listener_that_is_no_head_is_told(jobs: Any, capfd: pytest.CaptureFixture[str]) -> None:
    def answer() -> None:
        with listener.accept()[0] as line:
            line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = Thread(target=answer)
        answering.start()
        with pytest.raises(InputError, match="is no head of a cluster"):
            run_jobs(jobs.process, [1], Workers(backend="ray", scheduler=f"127.0.0.1:{listener.getsockname()[1]}"))
        answering.join()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:ten", ""])
@pytest.mark.parametrize("backend", CLUSTERS)
def test_what_is_no_address_is_told(jobs: Any, backend: str, address: str) -> None:
    with pytest.raises(InputError):
        run_jobs(jobs.process, [1], Workers(backend=backend, scheduler=address, patience=1.0))


def test_nothing_is_left_of_a_client_that_was_refused(jobs: Any) -> None:
    """It would be closed when memory is next collected, in any thread: two clients then lock each other out."""
    from distributed import Client

    def clients() -> list[int]:
        return [id(one) for one in gc.get_objects() if type(one) is Client]

    before = clients()
    with pytest.raises(InputError):
        run_jobs(jobs.process, [1], Workers(backend="dask", scheduler="127.0.0.1:1", patience=1.0))
    assert clients() == before


def test_nobody_else_can_send_work_to_a_dask_cluster_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, Security

    from probes.core.cluster_pools import dask_pool

    pool: Any = dask_pool(1, None)
    try:
        address = pool.own.scheduler_address
        assert address.startswith("tls://127.0.0.1:")
        assert [worker["nanny"][:6] for worker in pool.client.scheduler_info()["workers"].values()] == ["tls://"]
        plain = address.replace("tls://", "tcp://")
        for where, keys in ((plain, None), (address, Security.temporary())):
            with pytest.raises(OSError):
                Client(where, security=keys, timeout=2, set_as_default=False)
    finally:
        pool.close(at_once=True)
    # Without the library that makes keys there is no cluster rather than an open one.
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InputError, match="cryptography"):
        dask_pool(1, None)


@pytest.mark.slow
def test_a_running_dask_cluster_serves(jobs: Any) -> None:
    import dask
    from distributed import LocalCluster

    more: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
    several = {"distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}}
    # What workers are started with stays in the variables of this process, which those of later tests would inherit.
    with (
        patch.dict(os.environ),
        dask.config.set(several),
        LocalCluster(n_workers=0, threads_per_worker=2, silence_logs=50, **more) as cluster,
    ):
        # A busy machine takes its time to start one.
        there = Workers(backend="dask", scheduler=cluster.scheduler_address, patience=60.0)
        with pytest.raises(InputError, match="has no workers"):
            run_jobs(jobs.process, [1], replace(there, patience=2.0))
        cluster.scale(1)
        found: dict[int, list[int]] = {}
        assert run_jobs(jobs.threads_of, range(3), there, done=found.__setitem__) == {}
        # One job at a time, for threads would share what torch keeps for all of a process.
        assert sorted(found) == [0, 1, 2] and {count for counts in found.values() for count in counts} == {1}
        # It is left running, and a lost one is no fault of a job; it is waited for as long as for one that starts.
        assert len(cluster.scheduler_info["workers"]) == 1
        short = replace(there, patience=10.0)
        with pytest.raises(IncompleteError, match="The Dask cluster is gone"):
            run_jobs(jobs.process, range(3), short, done=lambda *_: cluster.close(5))
