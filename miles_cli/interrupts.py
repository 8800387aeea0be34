"""Interrupts that reach the run even through libraries that swallow them."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Remember an interrupt; the yielded function raises KeyboardInterrupt if one was swallowed.

    Libraries run code from which no exception gets out, such as finalisers and imports that may fail; an interrupt
    in there would be lost. Where interrupts are ignored, as under nohup, they stay so.
    """
    came = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    try:
        ours = before is signal.default_int_handler and signal.signal(signal.SIGINT, remember) is before
    except ValueError:
        # Only the main thread may set a handler.
        ours = False
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
