"""Do jobs on a Dask and a Ray cluster come to the same as here, at the same cost of a dead worker, and in silence?"""

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from probes.core import dask_workers, ray_workers
from probes.core.errors import IncompleteError, InputError
from probes.core.executor import Workers, opened, run_jobs
from probes.core.worker_processes import Outcome, Pool

SUPPORT = Path(__file__).parents[1] / "support"
CLUSTERS = ("dask", "ray")
CARDS = ("2", "GPU-8932f937")
REFUSED = InputError("The file is empty.", where="points.csv, line 1", hint="Give points.")


@pytest.fixture(scope="module")
def jobs() -> Iterator[Any]:
    """Return the functions of the jobs, in a module that workers find too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SUPPORT))
        yield import_module("jobs_of_executor")


def test_without_the_library_that_makes_keys_there_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InputError, match="cryptography"):
        dask_workers.DaskPool(1, None, 20.0)


def test_a_worker_that_starts_late_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where no job is left for it; each further wait would return at once, and take a core until the last job."""
    names = count()
    waited: list[int] = []

    def wait(tickets: list[int], **_: object) -> tuple[list[int], list[int]]:
        waited.append(len(tickets))
        return tickets[-1:], tickets[:-1]

    def begun() -> SimpleNamespace:
        return SimpleNamespace(ready=method, call=method)

    method = SimpleNamespace(remote=lambda *_: next(names))
    monkeypatch.setitem(
        sys.modules,
        "ray",
        SimpleNamespace(
            is_initialized=lambda: True,
            cluster_resources=lambda: {"GPU": 2.0},
            remote=lambda **_: lambda kind: SimpleNamespace(remote=begun),
            wait=wait,
            get=lambda ticket: Outcome(result=ticket),
            kill=lambda lane: None,
            exceptions=SimpleNamespace(RayError=RuntimeError),
        ),
    )
    pool = ray_workers.ray_pool(2, None, 20.0, cards=CARDS, gpu=True)
    assert pool.room(0) == 0 and pool.wait([]) == [] and pool.room(0) == 1
    job = pool.submit(abs, 3)
    assert pool.wait([job]) == [] and pool.wait([job]) == [job] and waited == [2, 2, 1]


def test_a_ray_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    calls: list[object] = []

    def late(**given: object) -> None:
        calls.append(given)
        raise Exception("The current node timed out during startup.\nMore.")

    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(IncompleteError, match="Ray did not start on this machine: The current node timed out"):
        ray_workers.ray_pool(2, None, 20.0)
    assert len(calls) == 2 and "RAY_AUTH_TOKEN" not in os.environ


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


def until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def has_pages(port: int) -> bool:
    asked = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        asked.request("GET", "/sitemap.json")
        return b"health" in asked.getresponse().read()
    except (OSError, HTTPException):
        return False
    finally:
        asked.close()


@dataclass(frozen=True)
class Cluster:
    """One that is started for several tests; `pool` are workers that are there already."""

    backend: str
    workers: Workers
    pool: Pool | None

    @contextmanager
    def named(self) -> Iterator[Workers]:
        """Yield workers as they are asked of a cluster that is running, without GPUs."""
        if self.backend == "ray":
            yield Workers(backend="ray", count=2)
            return
        import dask

        own = self.pool.own  # type: ignore[union-attr]
        keys = {"ca-file": "tls_ca_file", "client.cert": "tls_client_cert", "client.key": "tls_client_key"}
        with dask.config.set(
            {f"distributed.comm.tls.{one}": getattr(own.security, kept) for one, kept in keys.items()}
        ):
            yield Workers(backend="dask", scheduler=own.scheduler_address, patience=60.0)


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(jobs: Any, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Start one with two GPUs, as if they were there: to start it is most of what these tests cost."""
    workers = Workers(backend=request.param, gpus=2, cards=CARDS)
    if request.param == "dask":
        with opened(workers, 2) as pool:
            yield Cluster("dask", workers, pool)
        return
    # With cores for workers beside those that have the GPUs.
    with ray_workers.connected_ray(4, None, 60.0, CARDS):
        yield Cluster("ray", workers, None)


def test_each_worker_has_a_gpu_and_a_dead_one_costs_its_own_job_only(
    jobs: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    found: dict[int, tuple[str, int]] = {}
    given = [(str(tmp_path), number, {1: 1, 3: 9}.get(number, 0)) for number in range(6)]
    lost = run_jobs(jobs.card, given, cluster.workers, done=found.__setitem__, pool=cluster.pool)
    assert lost == {3: "its worker died"} and sorted(found) == [0, 1, 2, 4, 5]
    assert jobs.marks(tmp_path, range(6)) == [1, 2, 1, 2, 1, 1]
    # Three processes died, and each had a successor on its own GPU.
    assert {card for card, _ in found.values()} == set(CARDS)
    assert os.getpid() not in jobs.workers_of(tmp_path)
    # Those of Dask are kept for the next tests.
    assert cluster.pool or until(lambda: not any(jobs.alive(process) for process in jobs.workers_of(tmp_path)), 10)
    assert capfd.readouterr() == ("", "")


def test_jobs_without_gpus_run_beside_them(jobs: Any, tmp_path: Path, cluster: Cluster) -> None:
    found: dict[int, int] = {}
    given = [(str(tmp_path), number, int(number == 1)) for number in range(4)]
    with cluster.named() as named:
        assert run_jobs(jobs.dies, given, named, done=found.__setitem__) == {}
    assert found == {0: 0, 1: 1, 2: 8, 3: 27} and os.getpid() not in jobs.workers_of(tmp_path)


def test_a_result_that_is_lost_with_its_worker_is_made_again(jobs: Any, tmp_path: Path, cluster: Cluster) -> None:
    if cluster.backend == "ray":
        # Small results are kept by this process from the moment when they are there.
        return
    found: dict[int, tuple[str, int]] = {}

    def done(index: int, result: tuple[str, int]) -> None:
        if not found:
            # By now the other has ended too, and its result is not collected.
            time.sleep(1.0)
            for process in set(jobs.workers_of(tmp_path)) - {result[1]}:
                os.kill(process, signal.SIGKILL)
        found[index] = result

    given = [(str(tmp_path), number, 0) for number in range(2)]
    assert run_jobs(jobs.card, given, cluster.workers, done=done, pool=cluster.pool) == {}
    assert sorted(found) == [0, 1]


def test_a_cluster_without_gpus_is_told(jobs: Any, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    plain = {"workers": {"tls://192.0.2.1:1": {"resources": {}, "nthreads": 4}}}
    monkeypatch.setattr("distributed.Client.scheduler_info", lambda *_, **more: plain)
    if cluster.backend == "ray":
        monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 4.0})
    with cluster.named() as named, pytest.raises(InputError, match="has a GPU") as caught:
        run_jobs(jobs.process, [1], replace(named, gpus=2, cards=CARDS))
    assert {"dask": "--resources GPU=1", "ray": "--num-gpus="}[cluster.backend] in caught.value.hint


def test_nobody_else_can_send_work_to_a_cluster_of_this_machine(cluster: Cluster) -> None:
    if cluster.backend == "ray":
        # Its ports are open to the network, and ask for a token that is nowhere but in the memory of its processes.
        assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
        address = import_module("ray").get_runtime_context().gcs_address
        script = f"from ray._raylet import GcsClient; GcsClient(address={address!r}).get_all_node_info()"
        stranger = {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
        ended = subprocess.run([sys.executable, "-c", script], env=stranger, capture_output=True, text=True)
        assert ended.returncode and "Unauthenticated" in ended.stderr
        return
    from distributed import Client, Security

    pool: Any = cluster.pool
    address = pool.own.scheduler_address
    assert address.startswith("tls://127.0.0.1:")
    told = pool.client.scheduler_info()["workers"]
    assert told and all(
        one["nanny"].startswith("tls://127.0.0.1:") and there.startswith("tls://127.0.0.1:")
        for there, one in told.items()
    )
    # Nor are there pages on what runs, which would ask for no key.
    this = import_module("psutil").Process()
    processes = (this, *this.children(recursive=True))
    ports = {one.laddr.port for each in processes for one in each.net_connections("tcp") if one.status == "LISTEN"}
    assert len(ports) >= 4 and not any(map(has_pages, ports))
    plain = address.replace("tls://", "tcp://")
    for where, keys in ((plain, None), (address, Security.temporary())):
        with pytest.raises(OSError):
            Client(where, security=keys, timeout=2, set_as_default=False)


def test_what_a_job_raises_ends_the_others_and_comes_back_whole(
    jobs: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> None:
    """The last with this cluster, which ends with it."""
    given = [(str(tmp_path), number) for number in range(4)]
    # This process stays connected to Ray, whose tasks it therefore has to end one by one.
    workers = replace(cluster.workers, gpus=0, cards=(), count=2)
    with pytest.raises(InputError) as caught:
        run_jobs(jobs.refuses, given, workers, pool=cluster.pool)
    if cluster.pool is not None:
        cluster.pool.close(at_once=True)
    assert vars(caught.value) == vars(REFUSED) and caught.value.args == REFUSED.args
    # The one that raised may be kept for others; the other would sleep for ten minutes.
    (sleeping,) = (int(path.name.rpartition("-")[2]) for path in tmp_path.glob("0-*"))
    assert until(lambda: not jobs.alive(sleeping), 10)
    assert capfd.readouterr() == ("", "")


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
        # A machine that leaves with a job costs that job alone, which another does when there is one.
        seen: dict[int, int] = {}

        def leave(index: int, result: int) -> None:
            if not seen:
                cluster.scale(0)
                cluster.sync(cluster._correct_state)
                cluster.scale(1)
            seen[index] = result

        assert run_jobs(jobs.process, range(4), there, done=leave) == {}
        assert sorted(seen) == [0, 1, 2, 3] and len(set(seen.values())) == 2
        # It is left running, and a lost one is no fault of a job; it is waited for as long as for one that starts.
        assert len(cluster.scheduler_info["workers"]) == 1
        with pytest.raises(IncompleteError, match="has had no worker"), pytest.MonkeyPatch.context() as soon:
            soon.setattr(dask_workers, "ABANDONED", 1.0)
            soon.setattr(dask_workers, "LOOK", 0.5)
            run_jobs(jobs.process, range(4), there, done=lambda *_: cluster.scale(0))
        cluster.scale(1)
        short = replace(there, patience=10.0)
        with pytest.raises(IncompleteError, match="The Dask cluster is gone"):
            run_jobs(jobs.process, range(3), short, done=lambda *_: cluster.close(5))
