"""Read arrays of numpy's format, of which nothing is unpickled, piece by piece."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from probes.files.stored import Refusal, Window, cut

SIGNATURE = b"\x93NUMPY"
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the values of an array.

    Parameters
    ----------
    fortran
        The first axis is the fastest in the file.
    start
        Bytes before the first value.
    """

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes], size: int) -> Header:
    """Read a header and compare it with the `size` bytes that are there.

    Raises
    ------
    Refusal
        Where the array holds objects or another number of bytes.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    # On one axis both orders are the same, and numpy may note either.
    header = Header(shape, fortran and len(shape) > 1, dtype, file.tell())
    if dtype.hasobject:
        raise Refusal("holds Python objects, which are not unpickled here", "Save plain numbers.")
    if header.size != size - header.start or min(shape, default=0) < 0:
        said = f"promises {header.size} bytes in its header and holds {size - header.start}"
        raise Refusal(said, "Fetch or save it again.")
    return header


@dataclass(frozen=True, slots=True)
class Plain:
    """An array whose values stand as they are in a file, from its byte `start` on; each call opens the file."""

    path: Path
    header: Header
    start: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of its axes."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a stored value."""
        return self.header.dtype

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given."""
        if self.header.fortran:
            if not self.header.size:
                return cut(np.empty(self.shape, self.dtype)[start:stop], window)
            mapped = np.memmap(self.path, self.dtype, "r", self.start, self.shape, "F")
            return np.array(cut(mapped[start:stop], window))
        width = math.prod(self.shape[1:])
        return cut(self.values(start * width, stop * width).reshape(stop - start, *self.shape[1:]), window)

    def values(self, start: int, stop: int) -> NDArray[Any]:
        """Return values by their places in the file."""
        data = np.empty((stop - start) * self.dtype.itemsize, dtype=np.uint8)
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.start + start * self.dtype.itemsize)
            filled = 0
            while filled < len(data):
                count = file.readinto(data[filled : filled + 2**28].data)
                if not count:
                    raise ValueError("it ends in the middle of an array")
                filled += count
        return data.view(self.dtype)


@dataclass(slots=True)
class Stream:
    """An array that is read forwards; going back opens it again.

    Parameters
    ----------
    opener
        Opens it at its header.
    plain
        Where its values stand as they are in the file, if they do.
    """

    opener: Callable[[], IO[bytes]]
    header: Header
    plain: Plain | None = None
    _file: IO[bytes] | None = field(default=None, init=False)
    _place: int = field(default=0, init=False)
    _whole: NDArray[Any] | None = field(default=None, init=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of its axes."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a stored value."""
        return self.header.dtype

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given."""
        if self.header.fortran:
            # The first axis runs through the whole.
            if self._whole is None:
                self._whole = self.values(0, math.prod(self.shape)).reshape(self.shape[::-1]).T
            return cut(self._whole[start:stop], window)
        width = math.prod(self.shape[1:])
        return cut(self.values(start * width, stop * width).reshape(stop - start, *self.shape[1:]), window)

    def values(self, start: int, stop: int) -> NDArray[Any]:
        """Return values by their places in the file."""
        width = self.dtype.itemsize
        if self._file is None or start < self._place:
            self._close()
            self._file, self._place = self.opener(), 0
            _skip(self._file, self.header.start)
        try:
            # Read and dropped: seeking in what is packed would unpack it all the same.
            _skip(self._file, (start - self._place) * width)
            data = np.empty((stop - start) * width, dtype=np.uint8)
            filled = 0
            for block in _blocks(self._file, len(data)):
                data[filled : filled + len(block)] = np.frombuffer(block, dtype=np.uint8)
                filled += len(block)
        except BaseException:
            # What failed half-way stands nowhere known.
            self._close()
            raise
        self._place = stop
        return data.view(self.dtype)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _skip(file: IO[bytes], size: int) -> None:
    for _ in _blocks(file, size):
        continue


def _blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size:
        block = file.read(min(size, _BLOCK))
        if not block:
            raise ValueError("it ends in the middle of an array")
        size -= len(block)
        yield block


def read_npy(path: Path, most: int) -> tuple[dict[str, Plain], dict[str, Refusal], str]:
    """Return the array of an NPY file under the name "array", or why it is refused, and the form in words."""
    del most
    with path.open("rb") as file:
        try:
            header = read_header(file, path.stat().st_size)
        except Refusal as refusal:
            return {}, {"array": refusal.kept()}, "NPY"
    return {"array": Plain(path, header, header.start)}, {}, "NPY"
