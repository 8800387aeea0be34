"""Worker processes: one that dies costs no other job, and none outlives its parent."""

import os
import pickle
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from probes.core.errors import MilesError, first_line
from probes.core.systems import wait_for_parent

PULSE = 0.5
"""Seconds between two looks at whether others are alive."""
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
"""Environment of a process that computes on one core."""
_ALONE = threading.Lock()


class LostError(Exception):
    """The worker of a job is gone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job: its result, or the error that it raised."""

    result: Any = None
    error: BaseException | None = None


def call(function: Callable[[Any], Any], job: Any) -> Outcome:
    """Run one job in a worker. What it raises is a result too: libraries would wrap it, each in a way of its own."""
    # Threads of a cluster's worker share the state of torch.
    with _ALONE:
        _keep_to_one_core()
        try:
            return Outcome(result=function(job))
        except Exception as error:
            return Outcome(error=_sendable(error))


def _keep_to_one_core() -> None:
    os.environ.update(ONE_CORE)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    if "numpy" in sys.modules:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)


def _sendable(error: Exception) -> Exception:
    trace = "".join(traceback.format_exception(error))
    if not isinstance(error, MilesError):
        error.add_note(f"In a worker:\n{trace}")
    try:
        return error if isinstance(pickle.loads(pickle.dumps(error)), type(error)) else RuntimeError(trace)
    except Exception:
        return RuntimeError(trace)


class Pool(Protocol):
    """Workers of one library; a ticket stands for a submitted job."""

    def room(self, busy: int) -> int:
        """Return how many more jobs can be submitted while `busy` are running."""

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        """Begin a job and return its ticket."""

    def wait(self, tickets: Sequence[Any]) -> Sequence[Any]:
        """Wait a while, and return the tickets of the jobs that have ended, if any."""

    def outcome(self, ticket: Any) -> Outcome:
        """Return the outcome of a job that has ended; raises LostError where its worker died."""

    def close(self, *, at_once: bool) -> None:
        """End the workers; `at_once` also ends running jobs."""


def loky_pool(lanes: int) -> Pool:
    """Return processes of this machine, each in a pool of its own: loky ends a whole pool with any of its processes."""
    return _LokyPool(lanes)


class _LokyPool:
    def __init__(self, lanes: int) -> None:
        self._free: list[Any] = [self._lane() for _ in range(lanes)]
        self._busy: dict[Any, Any] = {}

    @staticmethod
    def _lane() -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(max_workers=1, env=ONE_CORE, initializer=settle, initargs=(os.getpid(),))

    def room(self, busy: int) -> int:
        return len(self._free)

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        from concurrent.futures import BrokenExecutor

        lane = self._free.pop()
        try:
            ticket = lane.submit(call, function, job)
        except BrokenExecutor:
            # Its worker died while it had nothing to do.
            lane.shutdown(kill_workers=True)
            lane = self._lane()
            ticket = lane.submit(call, function, job)
        self._busy[ticket] = lane
        return ticket

    def wait(self, tickets: Sequence[Any]) -> Sequence[Any]:
        from concurrent.futures import FIRST_COMPLETED, wait

        return list(wait(tickets, return_when=FIRST_COMPLETED).done)

    def outcome(self, ticket: Any) -> Outcome:
        from concurrent.futures import BrokenExecutor

        lane = self._busy.pop(ticket)
        try:
            outcome: Outcome = ticket.result()
        except BrokenExecutor as error:
            lane.shutdown(wait=True, kill_workers=True)
            self._free.append(self._lane())
            codes = re.search(r"\{(.*)\}", str(error))
            raise LostError(f"its worker died ({codes[1] if codes else first_line(error)})") from error
        self._free.append(lane)
        return outcome

    def close(self, *, at_once: bool) -> None:
        for lane in (*self._free, *self._busy.values()):
            lane.shutdown(wait=True, kill_workers=at_once)


def settle(parent: int) -> None:
    """Make this process a worker: it ignores Ctrl-C, which the parent handles, and ends when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    # PR_SET_PDEATHSIG would do on Linux alone, and fires already when the thread ends that started the process.
    wait_for_parent(parent)
    os._exit(1)
