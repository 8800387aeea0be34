"""Pools of workers on a Dask or a Ray cluster, which is started here for one run or is running already."""

import gc
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from probes.core.errors import IncompleteError, InputError, first_line
from probes.core.systems import end_at_once
from probes.core.worker_processes import ONE_CORE, PULSE, LostError, Outcome, Pool, call

PATIENCE = 20.0
"""Seconds within which a scheduler has to answer and to have a worker."""
_ANY = 10_000
_SETTINGS = b"\x04"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
"""What both sides of HTTP/2 begin with (RFC 9113, section 3.4), here with an empty frame of settings."""

_HINTS = {
    "Dask": "Give what dask scheduler prints, such as tcp://192.0.2.1:8786, or nothing for a cluster on this machine.",
    "Ray": "Give what ray start prints, such as 192.0.2.1:6379, or nothing for a cluster on this machine. "
    "One that asks for a token needs RAY_AUTH_MODE=token.",
}


def dask_pool(lanes: int, scheduler: str | None, patience: float | None = None) -> Pool:
    """Return a Dask cluster: of processes with one thread each on this machine, or the one that is named.

    Parameters
    ----------
    lanes
        Jobs in hand at once; 0: as many as a named cluster has threads.
    patience
        Seconds within which it has to answer and to have a worker; None: `PATIENCE`.

    Raises
    ------
    InputError
        Where the scheduler cannot be reached, or has no worker.
    """
    return _DaskPool(lanes, scheduler, PATIENCE if patience is None else patience)


def ray_pool(lanes: int, scheduler: str | None, patience: float | None = None) -> Pool:
    """Return a Ray cluster: of processes on this machine, or the one whose head is named.

    Parameters
    ----------
    lanes
        Jobs in hand at once; 0: as many as a named cluster has cores.
    patience
        Seconds within which it has to answer; None: `PATIENCE`.

    Raises
    ------
    InputError
        Where the head cannot be reached.
    """
    return _RayPool(lanes, scheduler, PATIENCE if patience is None else patience)


class _DaskPool:
    """A Dask cluster: `client` speaks to it, `own` is the cluster itself where it was started here."""

    def __init__(self, lanes: int, scheduler: str | None, patience: float) -> None:
        import dask
        from distributed import Client, LocalCluster

        self.own: Any = None
        self._lanes = lanes
        self._idle: list[str] = []
        self._assigned: dict[Any, str] = {}
        with ExitStack() as opened:
            address: Any = scheduler
            if address is None:
                # A job whose worker died is retried by us, who count attempts.
                own = {"distributed.scheduler.allowed-failures": 0}
                opened.enter_context(dask.config.set({**own, "distributed.nanny.pre-spawn-environ": ONE_CORE}))
                self.own = address = opened.enter_context(
                    LocalCluster(
                        n_workers=lanes,
                        threads_per_worker=1,
                        processes=True,
                        memory_limit=0,
                        dashboard_address="127.0.0.1:0",
                        scheduler_kwargs={"dashboard": False},
                        silence_logs=50,
                        security=_temporary_keys(),
                    )
                )
            self.client = opened.enter_context(_dask_client(Client, address, patience))
            opened.enter_context(self.client.as_current())
            self._stack = opened.pop_all()

    def room(self, busy: int) -> int:
        with _connected("Dask", OSError):
            alive = self.client.nthreads()
        if self.own is None:
            return (self._lanes or sum(alive.values())) - busy
        # A result stays with its worker until it is collected, so a job that came there before could lose it.
        self._idle = sorted(set(alive) - set(self._assigned.values()))
        return len(self._idle)

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        if self.own is None:
            return self.client.submit(call, function, job, pure=False)
        worker = self._idle.pop()
        # Another worker is allowed, since this one may be gone by now.
        ticket = self.client.submit(call, function, job, pure=False, workers=[worker], allow_other_workers=True)
        self._assigned[ticket] = worker
        return ticket

    def wait(self, tickets: Sequence[Any]) -> Sequence[Any]:
        from distributed import wait

        if not tickets:
            time.sleep(PULSE)
            return []
        try:
            return list(wait(tickets, timeout=PULSE, return_when="FIRST_COMPLETED").done)
        except TimeoutError:
            return []

    def outcome(self, ticket: Any) -> Outcome:
        from distributed import CancelledError, KilledWorker

        try:
            with _connected("Dask", OSError, CancelledError):
                outcome: Outcome = ticket.result()
        except KilledWorker as error:
            raise LostError("its worker died") from error
        finally:
            self._assigned.pop(ticket, None)
            ticket.release()
        return outcome

    def close(self, *, at_once: bool) -> None:
        if at_once and self.own is not None:
            # A worker that is asked to close first finishes its job, or has some seconds to.
            for nanny in self.own.workers.values():
                nanny.auto_restart = False
                if nanny.pid:
                    end_at_once(nanny.pid)
        self._stack.close()


def _temporary_keys() -> Any:
    """Return TLS keys of this process alone, so that nobody else who reaches the cluster's ports can run code.

    Raises
    ------
    InputError
        Where the library that makes them is missing.
    """
    from distributed import Security

    try:
        return Security.temporary()
    except ImportError as error:
        raise InputError(
            "A Dask cluster on this machine needs the package cryptography, which makes its keys.",
            where="--backend dask",
            hint="pip install 'miles-audit[cluster]', or leave out --backend: processes of this machine do the work.",
        ) from error


def _dask_client(client: Any, address: Any, patience: float) -> Any:
    refused = None
    try:
        made = client(address, timeout=patience, set_as_default=False)
    except (OSError, ValueError) as error:
        refused = _unreachable("Dask", address, error)
    if refused is not None:
        # A client stops its thread when it is garbage-collected. If that happens while the next client starts its own,
        # the two deadlock. The error refers to the client, so the new error is not raised from it.
        gc.collect()
        raise refused
    try:
        made.wait_for_workers(1, timeout=patience)
    except TimeoutError as error:
        made.close()
        raise InputError(
            "The scheduler has no workers.", where=f"--scheduler {address}", hint="Start some, such as dask worker."
        ) from error
    return made


@contextmanager
def _connected(backend: str, *errors: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise _lost_cluster(backend, error) from error


def _lost_cluster(backend: str, error: BaseException) -> IncompleteError:
    return IncompleteError(
        f"The {backend} cluster is gone: {first_line(error)}",
        where="--scheduler",
        hint="Look after the cluster, then run the same command again: it resumes.",
    )


def _unreachable(backend: str, address: str, error: BaseException) -> InputError:
    return InputError(
        f"No {backend} cluster answers there: {first_line(error)}",
        where=f"--scheduler {address}",
        hint=_HINTS[backend],
    )


class _RayPool:
    def __init__(self, lanes: int, scheduler: str | None, patience: float) -> None:
        # No usage statistics, and no warning of a future change.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray

        self._ray = ray
        self._ours = not ray.is_initialized()
        # Ray queues jobs where there are more than cores.
        self._lanes = lanes or _ANY
        if self._ours:
            # Ray prints about dead workers to stdout, where a report may be.
            ray._private.worker._worker_logs_enabled = False
            _start_ray(ray, scheduler, lanes, patience)
        self._call = ray.remote(num_cpus=1, max_retries=0)(call)

    def room(self, busy: int) -> int:
        return self._lanes - busy

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        return self._call.remote(function, job)

    def wait(self, tickets: Sequence[Any]) -> Sequence[Any]:
        return list(self._ray.wait(tickets)[0])

    def outcome(self, ticket: Any) -> Outcome:
        exceptions = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(ticket)
        except (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError, exceptions.NodeDiedError) as error:
            raise LostError("its worker died") from error
        except exceptions.RayError as error:
            raise _lost_cluster("Ray", error) from error
        return outcome

    def close(self, *, at_once: bool) -> None:
        if self._ours:
            self._ray.shutdown()
            self._ray._private.worker._worker_logs_enabled = True


def _start_ray(ray: Any, address: str | None, count: int, patience: float) -> None:
    quiet = {"logging_level": 50, "log_to_driver": False}
    if address is None:
        # Without "local" Ray would join a cluster that it finds on this machine, or wait for one that is gone.
        ray.init("local", num_cpus=count, include_dashboard=False, **quiet)
        return
    if address != "auto":
        _check_listening(address, patience)
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise _unreachable("Ray", address, error) from error


def _check_listening(address: str, patience: float) -> None:
    """Check that an HTTP/2 server listens at the address: Ray itself would try for minutes, then end the process."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=patience) as line:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                line.sendall(_PREFACE)
                if line.recv(4)[3:] != _SETTINGS:
                    raise OSError(f"what listens at {address} is no head of a cluster")
    except (OSError, ValueError) as error:
        raise _unreachable("Ray", address, error) from error
