"""Limits that a thread of a child looks at, where the system keeps none: of memory on macOS, of both on Windows.

The process ends where it meets one. Between two looks it may take more, and code that never lets other threads run is
ended by whoever waits for it alone, after `Limits.patience`.
"""

import os
import threading
import time
from dataclasses import dataclass

from probes.contained.limits import MEMORY_ENDED, TIME_ENDED
from probes.core.systems import peak_memory

_PULSE = 0.02
"""Seconds between two looks."""


@dataclass(slots=True)
class _Watch:
    """What this process may take: bytes that it may have held at most, and seconds of computing, of all its threads."""

    memory: float = float("inf")
    seconds: float = float("inf")
    thread: threading.Thread | None = None

    def begin(self) -> None:
        if self.thread is None:
            self.thread = threading.Thread(target=self._look, daemon=True)
            self.thread.start()

    def _look(self) -> None:
        while True:
            if (peak_memory() or 0) > self.memory:
                os._exit(MEMORY_ENDED)
            if time.process_time() > self.seconds:
                os._exit(TIME_ENDED)
            time.sleep(_PULSE)


_WATCH = _Watch()


def watch_memory(size: int) -> bool:
    """End this process where it takes so many bytes more than its peak so far; False where that is not known."""
    held = peak_memory()
    if held is None:
        return False
    _WATCH.memory = held + size
    _WATCH.begin()
    return True


def watch_time(seconds: float) -> None:
    """End this process after so many more seconds of computing."""
    _WATCH.seconds = time.process_time() + seconds
    _WATCH.begin()
