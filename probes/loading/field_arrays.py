"""How is an array in a file seen, before any of it is read? And how are a few samples of a large NPY array read?"""

import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError

FAULTS = (OSError, EOFError, ValueError, RuntimeError, SystemError, zipfile.BadZipFile, zlib.error, struct.error)
"""What damaged bytes raise once the headers have been read; SystemError: numpy met what is no character."""
_BLOCK = 2**20

Window = tuple[int, int, int]
"""A part of an axis: its number, and from where to where."""


class Refusal(Exception):
    """Why an array is not read, in a clause; and the mend."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint

    def kept(self) -> "Refusal":
        """Return the same without the frames in which it was raised: they would keep files open."""
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


def damaged(path: Path | str, error: Exception, key: str = "") -> InputError:
    """Return what is said of a file whose reader failed."""
    said = f"{error}".strip().split("\n")[0].rstrip(".") or type(error).__name__
    where = f"{path}, {key}" if key else str(path)
    return InputError(f"The file cannot be read: {said}.", where=where, hint="Fetch or save it again.")


def open_member(path: Path, info: zipfile.ZipInfo) -> IO[bytes]:
    """Open one member of a zip archive for reading."""
    # The member keeps the file open after the archive is closed.
    with zipfile.ZipFile(path) as archive:
        return archive.open(info)


def cut(values: NDArray[Any], window: Window | None) -> NDArray[Any]:
    """Return the part of an array that a window shows."""
    return values if window is None else values[(slice(None),) * window[0] + (slice(*window[1:]),)]


@dataclass(slots=True)
class Stream:
    """An array of numpy's format, read forwards; going back opens it again.

    Parameters
    ----------
    fortran
        The first axis is the fastest in the file: only the whole can be read.
    """

    opener: Callable[[], IO[bytes]]
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    file: IO[bytes] | None = None
    place: int = 0
    whole: NDArray[Any] | None = None

    def __del__(self) -> None:
        self._close()

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given."""
        if self.fortran:
            if self.whole is None:
                self.whole = self._entries(0, self.shape[0]).reshape(self.shape[::-1]).T
            values = self.whole[start:stop]
        else:
            values = self._entries(start, stop).reshape(stop - start, *self.shape[1:])
        return cut(values, window)

    def _close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def _entries(self, start: int, stop: int) -> NDArray[Any]:
        width = math.prod(self.shape[1:]) * self.dtype.itemsize
        if self.file is None or start < self.place:
            self._close()
            self.file, self.place = self.opener(), 0
            _npy_header(self.file)
        try:
            # Read and dropped: seeking in what is packed would unpack it all the same.
            for _ in _blocks(self.file, (start - self.place) * width):
                continue
            data = np.empty((stop - start) * width, dtype=np.uint8)
            filled = 0
            for block in _blocks(self.file, len(data)):
                data[filled : filled + len(block)] = np.frombuffer(block, dtype=np.uint8)
                filled += len(block)
        except BaseException:
            # What failed half-way stands nowhere known.
            self._close()
            raise
        self.place = stop
        return data.view(self.dtype)


def _blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size:
        block = file.read(min(size, _BLOCK))
        if not block:
            raise ValueError("it ends in the middle of an array")
        size -= len(block)
        yield block


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    # On one axis both orders are the same, and numpy may note either.
    return shape, fortran and len(shape) > 1, dtype


def npy_stream(opener: Callable[[], IO[bytes]], size: int, most: int) -> Stream:
    """Return an array after comparing its header with the `size` bytes that are there.

    Raises
    ------
    Refusal
        Where it holds objects, another number of bytes, or, with its first axis fastest, more than `most`.
    """
    with opener() as file:
        shape, fortran, dtype = _npy_header(file)
        start = file.tell()
    if dtype.hasobject:
        raise Refusal("holds Python objects, which are not unpickled here", "Save plain numbers.")
    needed = math.prod(shape) * dtype.itemsize
    if needed != size - start or min(shape, default=0) < 0:
        raise Refusal(f"promises {needed} bytes in its header and holds {size - start}", "Fetch or save it again.")
    if fortran and needed > most:
        raise Refusal(f"unpacks to {needed} bytes", "Save it in C order: numpy.ascontiguousarray(x).")
    return Stream(opener, shape, fortran, dtype)
