"""Limits of memory and time on a block of code in this process, where a child would be too expensive."""

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from probes.contained.limits import LimitError, Limits
from probes.contained.sandbox import held_memory
from probes.core.systems import TIMER, resource

_LEAST = 0.02
"""Seconds of computing between two looks at the time, where other threads compute too."""
_AGAIN = 0.2
"""Seconds of computing after which the end of a block is asked for once more, where something kept it from ending."""
_CHANGING = frozenset({"__enter__", "__exit__", "enter_context"})
"""Functions that enter or leave a context."""
_LOCK = threading.RLock()
"""A limit of memory is the process's, so one thread at a time has one."""


class _Expired(BaseException):
    """Raised when the time is up; no Exception, so that code that catches errors does not catch it."""


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """Limit the memory and the processor time that a block of Python may take in addition.

    Memory is counted on Linux, for all threads together; another thread's block waits for the end of this one. Time is
    that of the main thread, and ends what runs there, between two steps of Python. Against a reader that was taken over
    it is no help.

    Raises
    ------
    LimitError
        Where it would take more.
    MemoryError
        Where the process itself may take no more, under a limit of its user's.
    """
    ours = False
    try:
        with _memory(limits.memory) as ours, _time(limits.seconds):
            yield
    except _Expired:
        raise LimitError("time", f"it takes more than {limits.seconds} seconds of computing") from None
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise
        if not ours:
            raise MemoryError(str(error)) from error
        raise LimitError("memory", "it asks for more memory than it may take") from None


@contextmanager
def _memory(size: int) -> Iterator[bool]:
    """Limit memory; the value says whether this limit is the lowest that stands."""
    if resource is None:
        yield False
        return
    with _LOCK:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = held_memory() + size
        if sys.platform != "linux" or (soft != resource.RLIM_INFINITY and soft <= most):
            yield False
            return
        stands = False
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
            stands = _free_addresses() > size
        try:
            yield stands
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _free_addresses() -> float:
    """Return the bytes that the user's limit of addresses, as of `ulimit -v`, still lets this process take."""
    soft: float = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft == resource.RLIM_INFINITY:
        return float("inf")
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return float(soft - pages * resource.getpagesize())


@contextmanager
def _time(seconds: float) -> Iterator[None]:
    if not TIMER:
        with _time_by_thread(seconds):
            yield
        return
    # Only the main thread can handle signals, and a profiler may already use the timer.
    if threading.current_thread() is not threading.main_thread() or any(signal.getitimer(signal.ITIMER_PROF)):
        yield
        return
    running, raised, end = True, False, time.thread_time() + seconds
    caller = _caller(sys._getframe())

    def expire(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        # The clock counts every thread of the process, and others than this one may be at work.
        if (left := end - time.thread_time()) > 0:
            signal.setitimer(signal.ITIMER_PROF, max(left, _LEAST), _AGAIN)
        elif running and _between_contexts(frame, caller):
            signal.setitimer(signal.ITIMER_PROF, _LEAST, _AGAIN)
        elif running:
            raised = True
            raise _Expired

    report = sys.unraisablehook

    def ignored(lost: Any) -> None:
        # A finalizer or a collection of garbage was interrupted, where Python goes on: the end is asked for again.
        if isinstance(lost.exc_value, _Expired):
            signal.setitimer(signal.ITIMER_PROF, _LEAST, _AGAIN)
        else:
            report(lost)

    before = signal.signal(signal.SIGPROF, expire)
    sys.unraisablehook = ignored
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN)
    try:
        yield
        if raised:
            raise _Expired
    except Exception:
        # What follows from an interruption is none of the block's own errors.
        if raised:
            raise _Expired from None
        raise
    finally:
        running = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL if before is None else before)
        sys.unraisablehook = report


@contextmanager
def _time_by_thread(seconds: float) -> Iterator[None]:
    """Limit time where no signal comes after so much computing: a thread looks at it, and asks Python to end the block.

    The time of all threads of the process counts, for that of another thread cannot be asked for.
    """
    end, over, lock, home = time.process_time() + seconds, threading.Event(), threading.Lock(), threading.get_ident()
    caller = _caller(sys._getframe())
    raised = False

    def look() -> None:
        nonlocal raised
        while not over.wait(_LEAST):
            with lock:
                frame = sys._current_frames().get(home)
                if over.is_set() or time.process_time() <= end or _between_contexts(frame, caller):
                    continue
                raised = True
                _raise_in(home, _Expired)
            # It is asked for again, where something kept it from ending.
            over.wait(_AGAIN)

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
        if raised:
            raise _Expired
    except Exception:
        # What follows from an interruption is none of the block's own errors.
        if raised:
            raise _Expired from None
        raise
    finally:
        try:
            over.set()
        finally:
            # Again, where the interruption came at this very step.
            over.set()
        with lock:
            # One that was asked for and has not come would come behind the block.
            _raise_in(home, None)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Let a thread raise an error at its next step of Python, or none that was asked for before."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error) if error is not None else None
    )


def _caller(frame: FrameType) -> FrameType:
    """Return the frame whose `with` statement entered this context manager, through any others around it."""
    while frame.f_back is not None and frame.f_back.f_code.co_name in _CHANGING:
        outer = frame.f_back
        while outer.f_back is not None and outer.f_code.co_name in _CHANGING:
            outer = outer.f_back
        frame = outer
    return frame


def _between_contexts(frame: FrameType | None, caller: FrameType) -> bool:
    """Whether the block enters or leaves a context now: one interrupted there would stay open for good."""
    while frame is not None and frame is not caller:
        if frame.f_code.co_name in _CHANGING:
            return True
        frame = frame.f_back
    return False
