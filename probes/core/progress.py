"""The interface through which an engine reports progress, and a listener that ignores it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """The interface by which an engine announces each phase of its work, whoever displays it."""

    def phase(self, name: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """Open a phase of `total` steps; the value is called with the number of steps just done."""


class Silent:
    """Progress that is not displayed, for tests and users of the library."""

    @contextmanager
    def phase(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Open a phase that reports nothing."""
        yield lambda steps: None
