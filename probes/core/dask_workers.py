"""Workers of a Dask cluster, which is started here for one run or is running already."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from probes.core.cluster_errors import connected, unreachable, without_gpus
from probes.core.errors import IncompleteError, InputError, first_line
from probes.core.graphics_cards import VISIBLE
from probes.core.systems import end_at_once
from probes.core.worker_processes import ONE_CORE, PULSE, LostError, Outcome, call

ABANDONED = 300.0
"""Seconds for which a cluster may have no worker at all before a run gives up: nodes come back, or others start."""
LOOK = 10.0
"""Seconds between two looks at whether there is a worker, where nothing else asks for it."""
_ONE = {"GPU": 1}
_SETTINGS: dict[str, Any] = {
    # A job whose worker died is retried by us, who count attempts.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.nanny.pre-spawn-environ": ONE_CORE,
    # No pages either: whoever is on this machine could read there what runs, without a key.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


class DaskPool:
    """A Dask cluster: `client` speaks to it, `own` is the cluster itself where it was started here.

    Parameters
    ----------
    lanes
        Jobs in hand at once; 0: as many as a named cluster has threads, or GPUs.
    patience
        Seconds within which it has to answer and to have a worker.
    cards
        The GPU of each worker of an own cluster.
    gpu
        Whether each job needs a worker's resource GPU.

    Raises
    ------
    InputError
        Where the scheduler cannot be reached, has no worker, or none with a GPU.
    """

    def __init__(
        self, lanes: int, scheduler: str | None, patience: float, *, cards: Sequence[str] = (), gpu: bool = False
    ) -> None:
        import dask
        from distributed import Client

        self.own: Any = None
        self._lanes = lanes
        self._needs = _ONE if gpu else None
        self._idle: list[str] = []
        self._assigned: dict[Any, str] = {}
        with ExitStack() as stack:
            address: Any = scheduler
            if address is None:
                stack.enter_context(dask.config.set(_SETTINGS))
                self.own = address = stack.enter_context(_own_cluster(list(cards) or [None] * lanes))
            self.client = stack.enter_context(_client(Client, address, patience))
            stack.enter_context(self.client.as_current())
            self._seen = time.monotonic()
            if gpu and scheduler is not None and not self._workers():
                raise without_gpus("Dask", scheduler)
            self._stack = stack.pop_all()

    def room(self, busy: int) -> int:
        """Return how many more jobs can be submitted while `busy` are running.

        Raises
        ------
        IncompleteError
            Where the scheduler is gone, or has had no worker for `ABANDONED` seconds.
        """
        there = self._workers()
        if self.own is None:
            # One waits even where there is no worker now: clusters that scale start some for it.
            return max(1, self._lanes or sum(there.values())) - busy
        # A result stays with its worker until it is collected, so a job that came there before could lose it.
        self._idle = sorted(set(there) - set(self._assigned.values()))
        return len(self._idle)

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        """Begin a job and return its ticket."""
        more: dict[str, Any] = {"pure": False, "resources": self._needs}
        if self.own is None:
            return self.client.submit(call, function, job, **more)
        worker = self._idle.pop()
        # Another worker is allowed, since this one may be gone by now.
        ticket = self.client.submit(call, function, job, **more, workers=[worker], allow_other_workers=True)
        self._assigned[ticket] = worker
        return ticket

    def wait(self, tickets: Sequence[Any]) -> Sequence[Any]:
        """Wait a while, and return the tickets of the jobs that have ended, if any.

        Raises
        ------
        IncompleteError
            Where the scheduler is gone, or has had no worker for `ABANDONED` seconds.
        """
        from distributed import CancelledError, wait

        if not tickets:
            time.sleep(PULSE)
            return []
        try:
            with connected("Dask", CancelledError):
                return list(wait(tickets, timeout=PULSE, return_when="FIRST_COMPLETED").done)
        except TimeoutError:
            if time.monotonic() - self._seen > LOOK:
                self._workers()
            return []

    def outcome(self, ticket: Any) -> Outcome:
        """Return the outcome of a job that has ended.

        Raises
        ------
        LostError
            Where its worker died.
        IncompleteError
            Where the scheduler is gone.
        """
        from distributed import CancelledError, KilledWorker

        try:
            with connected("Dask", OSError, CancelledError):
                outcome: Outcome = ticket.result()
        except KilledWorker as error:
            raise LostError("its worker died") from error
        finally:
            self._assigned.pop(ticket, None)
            ticket.release()
        return outcome

    def close(self, *, at_once: bool) -> None:
        """End the workers of an own cluster, and leave a named one; `at_once` also ends running jobs."""
        if at_once and self.own is not None:
            # A worker that is asked to close first finishes its job, or has some seconds to.
            for nanny in self.own.workers.values():
                nanny.auto_restart = False
                if nanny.pid:
                    end_at_once(nanny.pid)
        self._stack.close()

    def _workers(self) -> Mapping[str, int]:
        """Return how many jobs each worker takes at once."""
        with connected("Dask", OSError):
            there = self._with_gpus() if self._needs and self.own is None else self.client.nthreads()
        now = time.monotonic()
        self._seen = now if there else self._seen
        if now - self._seen > ABANDONED:
            raise IncompleteError(
                "The Dask cluster has had no worker for minutes.",
                where="--scheduler",
                hint="Start some, then run the same command again: it resumes.",
            )
        return there

    def _with_gpus(self) -> Mapping[str, int]:
        try:
            info = self.client.scheduler_info(n_workers=-1)
        except TypeError:
            # Before 2025.2 it had no limit.
            info = self.client.scheduler_info()
        slots = {
            address: min(int(worker["resources"].get("GPU", 0)), worker["nthreads"])
            for address, worker in info["workers"].items()
        }
        return {address: count for address, count in slots.items() if count > 0}


def _own_cluster(cards: Sequence[str | None]) -> Any:
    """Start a worker with one thread for each card, or None: a process of this machine, reached by TLS alone.

    Raises
    ------
    InputError
        Where the library that makes keys is missing.
    IncompleteError
        Where a process does not start.
    """
    from distributed import Nanny, Scheduler, SpecCluster

    common = {"host": "127.0.0.1", "protocol": "tls://", "security": _temporary_keys(), "dashboard": False}
    worker = {**common, "nthreads": 1, "memory_limit": 0, "silence_logs": 50, "dashboard_address": None}

    def spec(card: str | None) -> dict[str, Any]:
        gpu = {} if card is None else {"env": {VISIBLE: card}, "resources": _ONE}
        return {"cls": Nanny, "options": {**worker, **gpu}}

    try:
        return SpecCluster(
            workers={lane: spec(card) for lane, card in enumerate(cards)},
            scheduler={"cls": Scheduler, "options": {**common, "dashboard_address": "127.0.0.1:0"}},
            security=common["security"],
            silence_logs=50,
        )
    except (RuntimeError, OSError) as error:
        raise IncompleteError(
            f"Dask did not start on this machine: {first_line(error)}",
            where="--backend dask",
            hint='Try again when the machine does less. A script needs if __name__ == "__main__": around what it runs.',
        ) from error


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


def _client(client: Any, address: Any, patience: float) -> Any:
    refused = None
    try:
        made = client(address, timeout=patience, set_as_default=False)
    except (OSError, ValueError) as error:
        refused = unreachable("Dask", address, error)
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
