"""Limits of memory and time on a block of code in this process, where a child would be too expensive."""

import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from probes.contained.limits import LimitError, Limits
from probes.contained.sandbox import held_memory

_AGAIN = 1.0
"""Seconds of computing after which a block that did not end is interrupted again."""


class _Expired(BaseException):
    """Raised when the time is up; no Exception, so that code that catches errors does not catch it."""


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """Limit the memory and the processor time that a block of Python may take in addition.

    Memory is counted on Linux. Time ends what runs in the main thread, between two steps of Python. Against a reader
    that was taken over it is no help.

    Raises
    ------
    LimitError
        Where it would take more.
    """
    try:
        with _memory(limits.memory), _time(limits.seconds):
            yield
    except _Expired:
        raise LimitError("time", f"it takes more than {limits.seconds} seconds of computing") from None
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise
        raise LimitError("memory", "it asks for more memory than it may take") from None


@contextmanager
def _memory(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = held_memory() + size
    if sys.platform != "linux" or (soft != resource.RLIM_INFINITY and soft <= most):
        yield
        return
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def _time(seconds: float) -> Iterator[None]:
    # Only the main thread can handle signals, and a profiler may already use the timer.
    if threading.current_thread() is not threading.main_thread() or any(signal.getitimer(signal.ITIMER_PROF)):
        yield
        return
    running = True

    def expire(number: int, frame: FrameType | None) -> None:
        if running:
            raise _Expired

    before = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL if before is None else before)
