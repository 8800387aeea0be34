"""Worker processes: one that dies costs no other job, and none outlives its parent."""

import builtins
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from probes.core.errors import AbsentError, IncompleteError, InputError, MilesError, first_line
from probes.core.graphics_cards import VISIBLE
from probes.core.holding import keep_only_for
from probes.core.systems import wait_for_parent

PULSE = 0.5
"""Seconds between two looks at whether others are alive."""
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
"""Environment of a process that computes on one core."""
_ALONE = threading.Lock()
_OURS = {one.__name__: one for one in (InputError, AbsentError, IncompleteError, MilesError)}


class LostError(Exception):
    """The worker of a job is gone."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What a job raised, as plain data: no exception is unpickled from a worker, whose classes may be missing here.

    Parameters
    ----------
    kind
        Name of the class, or of the one of ours that it derives from; empty where it is neither ours nor Python's.
    arguments
        With which it was made, where they are plain.
    trace
        The traceback of the worker.
    """

    kind: str
    arguments: tuple[Any, ...]
    where: str
    hint: str
    trace: str

    @classmethod
    def of(cls, error: Exception) -> "Fault":
        """Return what a job raised as plain data."""
        return cls(
            kind=_kind(error),
            arguments=_plain_arguments(error),
            where=getattr(error, "where", ""),
            hint=getattr(error, "hint", ""),
            trace="".join(traceback.format_exception(error)),
        )

    def error(self) -> Exception:
        """Return the error again: one of ours whole, one of Python's with the worker's traceback as a note.

        Any other is a RuntimeError that holds that traceback.

        >>> Fault("LookupError", ("no 3",), "", "", "Traceback ...").error()
        LookupError('no 3')
        """
        known = _known(self.kind)
        try:
            if known is not None and issubclass(known, MilesError):
                return known(str(self.arguments[0]), where=self.where, hint=self.hint)
            if known is not None:
                made = known(*self.arguments)
                made.add_note(f"In a worker:\n{self.trace}")
                return made
        except TypeError:
            # Some are made from more than they tell.
            pass
        return RuntimeError(self.trace)


def _known(kind: str) -> type[Exception] | None:
    found = _OURS.get(kind) or getattr(builtins, kind, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _kind(error: Exception) -> str:
    if isinstance(error, MilesError):
        return next(one.__name__ for one in type(error).__mro__ if _OURS.get(one.__name__) is one)
    name = type(error).__name__
    return name if _known(name) is type(error) else ""


def _plain_arguments(error: Exception) -> tuple[Any, ...]:
    given = error.args
    if isinstance(error, OSError) and len(given) == 2 and error.filename is not None:
        given = (*given, str(error.filename))
    plain = all(one is None or type(one) in (str, int, float, bool) for one in given)
    return given if plain and given else (str(error),)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job: its result, or what it raised."""

    result: Any = None
    fault: Fault | None = None


def call(function: Callable[[Any], Any], job: Any) -> Outcome:
    """Run one job in a worker. What it raises is a result too: libraries would wrap it, each in a way of its own."""
    # Threads of a cluster's worker share the state of torch.
    with _ALONE:
        _keep_to_one_core()
        try:
            keep_only_for(function)
            return Outcome(result=function(job))
        except Exception as error:
            return Outcome(fault=Fault.of(error))


def _keep_to_one_core() -> None:
    os.environ.update(ONE_CORE)
    # As the command line sets it for itself. MKL reads it at its first sum, and the workers of somebody's cluster were
    # started without: theirs would be rounded by the size of a batch.
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    if "numpy" in sys.modules:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)


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


def loky_pool(lanes: int, cards: Sequence[str] = ()) -> Pool:
    """Return processes of this machine, each in a pool of its own: loky ends a whole pool with any of its processes.

    Parameters
    ----------
    cards
        The GPU of each, as `CUDA_VISIBLE_DEVICES` names it; empty: they see what this process sees.
    """
    return _LokyPool(list(cards) or [None] * lanes)


@dataclass(frozen=True, slots=True, eq=False)
class _Lane:
    """A process for one job at a time, and the GPU that it has."""

    executor: Any
    card: str | None

    @classmethod
    def made(cls, card: str | None) -> "_Lane":
        from joblib.externals.loky import ProcessPoolExecutor

        # They are set before Python starts, so before anything could start CUDA.
        variables = ONE_CORE if card is None else {**ONE_CORE, VISIBLE: card}
        started = ProcessPoolExecutor(max_workers=1, env=variables, initializer=_begin, initargs=(os.getpid(),))
        return cls(started, card)

    def again(self) -> "_Lane":
        """Return a new one in its place, on the same GPU."""
        self.executor.shutdown(wait=True, kill_workers=True)
        return self.made(self.card)


class _LokyPool:
    def __init__(self, cards: Sequence[str | None]) -> None:
        self._free = [_Lane.made(card) for card in cards]
        self._busy: dict[Any, _Lane] = {}

    def room(self, busy: int) -> int:
        return len(self._free)

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        from concurrent.futures import BrokenExecutor

        lane = self._free.pop()
        try:
            ticket = lane.executor.submit(call, function, job)
        except BrokenExecutor:
            # Its worker died while it had nothing to do.
            lane = lane.again()
            ticket = lane.executor.submit(call, function, job)
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
            self._free.append(lane.again())
            codes = re.search(r"\{(.*)\}", str(error))
            raise LostError(f"its worker died ({codes[1] if codes else first_line(error)})") from error
        self._free.append(lane)
        return outcome

    def close(self, *, at_once: bool) -> None:
        for lane in (*self._free, *self._busy.values()):
            lane.executor.shutdown(wait=True, kill_workers=at_once)


def _begin(parent: int) -> None:
    from joblib.externals.loky import process_executor

    # loky ends a process whose memory grew by 300 MB, and warns; ours keep a model on purpose.
    process_executor._MAX_MEMORY_LEAK_SIZE = sys.maxsize
    settle(parent)


def settle(parent: int) -> None:
    """Make this process a worker: it ignores Ctrl-C, which the parent handles, and ends when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    # PR_SET_PDEATHSIG would do on Linux alone, and fires already when the thread ends that started the process.
    wait_for_parent(parent)
    os._exit(1)
