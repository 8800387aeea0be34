"""How an engine tells that long work moves on, without knowing whether anybody watches."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """A listener to which an engine announces each phase of its work."""

    def phase(self, name: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """Open a phase of `total` steps; the value is called with the number of steps just done."""


class Silent:
    """The listener that does nothing; what tests and library users pass."""

    @contextmanager
    def phase(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Accept the phase and forget it."""
        yield lambda steps: None
