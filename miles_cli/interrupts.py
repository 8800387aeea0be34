"""Interrupts that reach the run even through libraries that swallow them."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Remember an interrupt; the yielded function raises KeyboardInterrupt if one was swallowed.

    Libraries run code from which no exception gets out, such as finalisers and imports that may fail; an interrupt
    in there would be lost, and Python would print a traceback of it. Where interrupts are ignored, as under nohup, they
    stay so.
    """
    came = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    def lost(what: "sys.UnraisableHookArgs") -> None:
        if what.exc_type is not KeyboardInterrupt:
            report(what)

    before, report = signal.getsignal(signal.SIGINT), sys.unraisablehook
    try:
        ours = before is signal.default_int_handler and signal.signal(signal.SIGINT, remember) is before
    except ValueError:
        # Only the main thread may set a handler.
        ours = False
    if ours:
        sys.unraisablehook = lost
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
            sys.unraisablehook = report
