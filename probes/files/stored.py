"""Arrays as every reader returns them, samples on the first axis, and refusals of others."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError

Window = tuple[int, int, int]
"""A part of an axis: its number, and from where to where."""


class Refusal(Exception):
    """Why an array is not read, in a clause, with the hint."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint

    def without_traceback(self) -> "Refusal":
        """Return a copy without the traceback, whose frames would keep files open."""
        return Refusal(self.reason, self.hint)


class Stored(Protocol):
    """An array in a file, samples on its first axis."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of its axes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a stored value."""

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given."""


def cut(values: NDArray[Any], window: Window | None) -> NDArray[Any]:
    """Return the part of an array that lies in a window."""
    return values if window is None else values[(slice(None),) * window[0] + (slice(*window[1:]),)]


def damaged(path: Path | str, error: Exception, key: str = "") -> InputError:
    """Return the refusal of a file whose reader failed."""
    message = f"{error}".strip().split("\n")[0].rstrip(".") or type(error).__name__
    where = f"{path}, {key}" if key else str(path)
    return InputError(f"The file cannot be read: {message}.", where=where, hint="Fetch or save it again.")
