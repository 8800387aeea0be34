"""Read arrays of numpy's format, of which nothing is unpickled, piece by piece."""

import math
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from probes.files.stored import Refusal, Window, cut

SIGNATURE = b"\x93NUMPY"
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class Header:
    """The header of an array, which precedes its values.

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
    # With one axis both orders are the same, and numpy may write either.
    header = Header(shape, fortran and len(shape) > 1, dtype, file.tell())
    if dtype.hasobject:
        raise Refusal("holds Python objects, which are not unpickled here", "Save plain numbers.")
    if header.size != size - header.start or min(shape, default=0) < 0:
        message = f"promises {header.size} bytes in its header and holds {size - header.start}"
        raise Refusal(message, "Fetch or save it again.")
    return header


class _Headed:
    """An array that follows a header."""

    __slots__ = ()
    header: Header

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of its axes."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a stored value."""
        return self.header.dtype


@dataclass(frozen=True, slots=True)
class Plain(_Headed):
    """An array whose values are stored uncompressed in a file, from its byte `start` on; each call opens the file."""

    path: Path
    header: Header
    start: int

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
        """Return values by their indices in the order of the file."""
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


class Bytes(Protocol):
    """A stream of bytes that is read forwards."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; b"" at the end."""

    def close(self) -> None:
        """End the reading."""


@dataclass(frozen=True, slots=True)
class Part:
    """The range of a file that holds a member uncompressed, and its check sum."""

    path: Path
    start: int
    size: int
    crc: int

    def open(self) -> "_OpenPart":
        """Open it for reading forwards."""
        file = self.path.open("rb", buffering=0)
        file.seek(self.start)
        return _OpenPart(file, self.size, self.crc)


@dataclass(slots=True)
class _OpenPart:
    file: IO[bytes]
    left: int
    crc: int
    _sum: int = 0

    def read(self, size: int, /) -> bytes:
        data = self.file.read(min(size, self.left))
        self.left -= len(data)
        self._sum = zlib.crc32(data, self._sum)
        if not self.left and self._sum != self.crc:
            raise ValueError("its check sum is wrong")
        return data

    def close(self) -> None:
        self.file.close()


@dataclass(slots=True, weakref_slot=True)
class Stream(_Headed):
    """An array that can only be read forwards; going back opens it again, and its end closes it.

    Parameters
    ----------
    opener
        Opens it at its header.
    part
        Its range in the file, if it is stored uncompressed.
    """

    opener: Callable[[], Bytes]
    header: Header
    part: Part | None = None
    _file: Bytes | None = field(default=None, init=False)
    _closing: Callable[[], object] | None = field(default=None, init=False)
    _position: int = field(default=0, init=False)
    _whole: NDArray[Any] | None = field(default=None, init=False)

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
        """Return values by their indices in the order of the file."""
        width = self.dtype.itemsize
        if self._file is None or start < self._position:
            self._close()
            self._file, self._position = self.opener(), 0
            # Of a stream that waits for the garbage to be collected, `__del__` may run after that of its open file.
            self._closing = weakref.finalize(self, self._file.close)
            _skip(self._file, self.header.start)
        try:
            # Read and discarded: seeking in compressed data would unpack it as well.
            _skip(self._file, (start - self._position) * width)
            data = np.empty((stop - start) * width, dtype=np.uint8)
            filled = 0
            for block in _blocks(self._file, len(data)):
                data[filled : filled + len(block)] = np.frombuffer(block, dtype=np.uint8)
                filled += len(block)
        except BaseException:
            # After a failure the position in the stream is unknown.
            self._close()
            raise
        self._position = stop
        if stop == math.prod(self.shape):
            self._close()
        return data.view(self.dtype)

    def straight(self, start: int, stop: int) -> NDArray[Any]:
        """Return what `values` does, where possible without the check sum and without reading what precedes them."""
        if self.part is None:
            return self.values(start, stop)
        return Plain(self.part.path, self.header, self.part.start + self.header.start).values(start, stop)

    def __reduce__(self) -> tuple[Any, ...]:
        # An open file is not sent to another process.
        return type(self), (self.opener, self.header, self.part)

    def _close(self) -> None:
        if self._closing is not None:
            self._closing()
        self._file = self._closing = None


def _skip(file: Bytes, size: int) -> None:
    for _ in _blocks(file, size):
        continue


def _blocks(file: Bytes, size: int) -> Iterator[bytes]:
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
            return {}, {"array": refusal.without_traceback()}, "NPY"
    return {"array": Plain(path, header, header.start)}, {}, "NPY"
