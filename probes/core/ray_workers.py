"""Workers of a Ray cluster, which is started here for one run or is running already."""

import os
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from probes.core.cluster_errors import lost_cluster, unreachable, without_gpus
from probes.core.errors import IncompleteError, first_line
from probes.core.graphics_cards import VISIBLE
from probes.core.worker_processes import LostError, Outcome, Pool, call

_ANY = 10_000
_SETTINGS = b"\x04"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
"""What both sides of HTTP/2 begin with (RFC 9113, section 3.4), here with an empty frame of settings."""
_TRIES = 3
"""How many workers with a GPU may die one after the other before any has begun."""
_STARTS = 2
"""How often Ray is started: on a busy machine its processes give each other up after 15 seconds."""
_QUIET: dict[str, Any] = {"logging_level": 50, "log_to_driver": False}
_TOKEN = secrets.token_hex(32)
"""What a cluster of this process asks of everybody who gives it work; it stays in the memory of its processes."""


def ray_pool(
    lanes: int, scheduler: str | None, patience: float, *, cards: Sequence[str] = (), gpu: bool = False
) -> Pool:
    """Return a Ray cluster: of processes on this machine, or the one whose head is named.

    Parameters
    ----------
    lanes
        Jobs in hand at once; 0: as many as a named cluster has cores, or GPUs.
    patience
        Seconds within which it has to answer.
    cards
        The GPUs of this machine, one for each lane; a GPU that is named twice is shared.
    gpu
        Whether each job needs a GPU.

    Raises
    ------
    InputError
        Where the head cannot be reached, or its cluster has no GPU.
    IncompleteError
        Where Ray does not start on this machine.
    """
    with ExitStack() as stack:
        ray = stack.enter_context(connected_ray(lanes, scheduler, patience, cards))
        pool = _Workers(ray, lanes, cards, scheduler) if gpu else _Tasks(ray, lanes)
        pool.connection = stack.pop_all()
    return pool


class _Tasks:
    """Jobs as tasks of Ray, which has processes for them and queues those for which there is no core."""

    def __init__(self, ray: Any, lanes: int) -> None:
        self.connection = ExitStack()
        self._ray = ray
        self._lanes = lanes or _ANY
        self._call = ray.remote(num_cpus=1, max_retries=0)(call)
        self._flying: set[Any] = set()

    def room(self, busy: int) -> int:
        return self._lanes - busy

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        ticket = self._call.remote(function, job)
        self._flying.add(ticket)
        return ticket

    def wait(self, tickets: Sequence[Any]) -> Sequence[Any]:
        return list(self._ray.wait(tickets)[0])

    def outcome(self, ticket: Any) -> Outcome:
        self._flying.discard(ticket)
        return _outcome(self._ray, ticket)

    def close(self, *, at_once: bool) -> None:
        with self.connection:
            for ticket in self._flying if at_once else ():
                self._ray.cancel(ticket, force=True)


class _Lane:
    """A worker that keeps its GPU, and what it has loaded there, from job to job; a task of Ray ends with its process.

    Ray gives it the GPU: it alone sees it, as its only one.
    """

    def ready(self) -> None:
        """Do nothing; what this returns is there when the worker has begun."""

    def call(self, function: Callable[[Any], Any], job: Any) -> Outcome:
        return call(function, job)


class _Workers:
    """Jobs in workers that each keep a GPU; one that waits for a GPU, which others have, keeps no job waiting."""

    def __init__(self, ray: Any, lanes: int, cards: Sequence[str], scheduler: str | None) -> None:
        there = int(ray.cluster_resources().get("GPU", 0))
        if there < 1:
            raise without_gpus("Ray", scheduler)
        self.connection = ExitStack()
        self._ray = ray
        shared = max(Counter(cards).values(), default=1)
        self._lane = ray.remote(num_cpus=1, num_gpus=1 / shared, max_restarts=0)(_Lane)
        self._free: list[Any] = []
        self._busy: dict[Any, Any] = {}
        self._starting: dict[Any, Any] = {}
        self._failed = 0
        for _ in range(min(lanes or there, there * shared)):
            self._start()

    def room(self, busy: int) -> int:
        return len(self._free)

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        lane = self._free.pop()
        ticket = lane.call.remote(function, job)
        self._busy[ticket] = lane
        return ticket

    def wait(self, tickets: Sequence[Any]) -> Sequence[Any]:
        ended = self._ray.wait([*tickets, *self._starting])[0]
        # At once, even where no job is left for it: waiting for it again would return without a pause.
        for one in ended:
            if one in self._starting:
                self._begin(one)
        return [one for one in ended if one in self._busy]

    def outcome(self, ticket: Any) -> Outcome:
        lane = self._busy.pop(ticket)
        try:
            outcome = _outcome(self._ray, ticket)
        except LostError:
            self._ray.kill(lane)
            self._start()
            raise
        self._free.append(lane)
        return outcome

    def close(self, *, at_once: bool) -> None:
        with self.connection:
            for lane in (*self._free, *self._busy.values(), *self._starting.values()):
                self._ray.kill(lane)

    def _start(self) -> None:
        lane = self._lane.remote()
        self._starting[lane.ready.remote()] = lane

    def _begin(self, ready: Any) -> None:
        lane = self._starting.pop(ready)
        try:
            self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            self._failed += 1
            if self._failed >= _TRIES:
                raise lost_cluster("Ray", error) from error
            self._start()
            return
        self._failed = 0
        self._free.append(lane)


def _outcome(ray: Any, ticket: Any) -> Outcome:
    exceptions = ray.exceptions
    # A result that was lost with its worker's machine is made again, as a job whose worker died.
    died = (
        exceptions.WorkerCrashedError,
        exceptions.OutOfMemoryError,
        exceptions.NodeDiedError,
        exceptions.RayActorError,
        exceptions.ObjectLostError,
    )
    try:
        outcome: Outcome = ray.get(ticket)
    except died as error:
        raise LostError("its worker died") from error
    except exceptions.RayError as error:
        raise lost_cluster("Ray", error) from error
    return outcome


@contextmanager
def connected_ray(lanes: int, scheduler: str | None, patience: float, cards: Sequence[str]) -> Iterator[Any]:
    """Connect this process to a cluster, if it is not connected, and yield the library; what was started ends after.

    Raises
    ------
    InputError
        Where the head cannot be reached.
    IncompleteError
        Where Ray does not start on this machine.
    """
    # No usage statistics, and no warning of a future change.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if ray.is_initialized():
        yield ray
        return
    # Ray prints about dead workers to stdout, where a report may be.
    ray._private.worker._worker_logs_enabled = False
    try:
        with _variables(_own_token() if scheduler is None else {}):
            _forget_settings()
            if scheduler is None:
                with _variables({VISIBLE: ",".join(dict.fromkeys(cards))} if cards else {}):
                    _start(ray, lanes, len(set(cards)))
            else:
                _reach(ray, scheduler, patience)
            yield ray
    finally:
        ray.shutdown()
        ray._private.worker._worker_logs_enabled = True


def _own_token() -> dict[str, str]:
    # Newer versions would else write one into a file at home, and older ones ask for none.
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _TOKEN}


def _forget_settings() -> None:
    """Have Ray read its variables anew: it keeps what they were when it was imported."""
    with suppress(ImportError, AttributeError):
        from ray import _raylet

        inner: Any = _raylet
        inner.Config.initialize("")
        inner.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _variables(given: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start(ray: Any, lanes: int, gpus: int) -> None:
    """Start a cluster on this machine.

    Raises
    ------
    IncompleteError
        Where it does not start.
    """
    # Without "local" Ray would join a cluster that it finds on this machine, or wait for one that is gone.
    given: dict[str, Any] = {"address": "local", "num_cpus": lanes, "include_dashboard": False, **_QUIET}
    for tried in range(_STARTS):
        try:
            ray.init(**given, **({"num_gpus": gpus} if gpus else {}))
            return
        except Exception as error:
            # It raises no narrower class where its processes are late.
            ray.shutdown()
            if tried == _STARTS - 1:
                raise IncompleteError(
                    f"Ray did not start on this machine: {first_line(error)}",
                    where="--backend ray",
                    hint="Try again when the machine does less, or leave out --backend.",
                ) from error


def _reach(ray: Any, address: str, patience: float) -> None:
    if address != "auto":
        _check_listening(address, patience)
    try:
        ray.init(address, **_QUIET)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise unreachable("Ray", address, error) from error


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
        raise unreachable("Ray", address, error) from error
