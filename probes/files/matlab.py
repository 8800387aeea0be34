"""Read the arrays of a MATLAB file of version 5 to 7: headers here, values by scipy."""

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.files.stored import Refusal, Stored, Window, cut

_HEAD = 4096
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_COMPLEX = 0x0800


@dataclass(slots=True)
class _MatArray:
    """A variable of a MATLAB 5 file, read as a whole when it is first wanted: its columns run through all samples."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    whole: NDArray[Any] | None = field(default=None)

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        if self.whole is None:
            from scipy.io import loadmat

            whole: NDArray[Any] = loadmat(self.path, variable_names=[self.name])[self.name]
            if whole.shape != self.shape or whole.dtype.kind not in "biuf":
                raise ValueError(f"its header promises the shape {self.shape}, it holds {whole.shape}")
            self.whole = whole
        return cut(self.whole[start:stop], window)


def read_mat(path: Path, most: int) -> tuple[Mapping[str, Stored], Mapping[str, Refusal], str]:
    """Return the arrays of a file by name, those that are refused, and the form in words.

    Parameters
    ----------
    most
        Bytes to which one array may unpack.
    """
    arrays: dict[str, Stored] = {}
    refused: dict[str, Refusal] = {}
    for head, order in _elements(path):
        name, shape, kind = _header(head, order)
        if isinstance(kind, Refusal):
            refused[name] = kind
        elif name in arrays:
            refused[name] = Refusal("stands in the file twice", "Save it again.")
        elif math.prod(shape) * kind.itemsize > most:
            refused[name] = Refusal(f"unpacks to {math.prod(shape) * kind.itemsize} bytes", "Save it uncompressed.")
        else:
            arrays[name] = _MatArray(path, name, shape, kind)
    return arrays, refused, "MATLAB 5"


def _elements(path: Path) -> Iterator[tuple[bytes, str]]:
    """Yield the unpacked beginning of every variable of a MATLAB 5 file, and the byte order."""
    size = path.stat().st_size
    with path.open("rb") as file:
        order = "<" if file.read(128)[126:] == b"IM" else ">"
        offset = 128
        while offset < size:
            file.seek(offset)
            tag = file.read(8)
            kind, length = struct.unpack(f"{order}II", tag) if len(tag) == 8 else (0, 0)
            # miMATRIX, or miCOMPRESSED around one.
            if kind not in (14, 15) or offset + 8 + length > size:
                raise ValueError(f"the variable at byte {offset} is cut off or damaged")
            head = file.read(min(length, _HEAD))
            yield (zlib.decompressobj().decompress(head, _HEAD)[8:] if kind == 15 else head), order
            offset += 8 + length


def _header(head: bytes, order: str) -> tuple[str, tuple[int, ...], np.dtype[Any] | Refusal]:
    """Return name, shape and stored type of a variable whose parts, after the outer tag, begin with `head`."""
    flags, offset = _part(head, 0, order)
    sizes, offset = _part(head, offset, order)
    label, offset = _part(head, offset, order)
    name = label.decode("latin-1") or "(no name)"
    shape = tuple(int(size) for size in np.frombuffer(sizes, dtype=f"{order}i4"))
    flag = struct.unpack(f"{order}I", flags[:4])[0]
    # mxDOUBLE_CLASS to mxUINT64_CLASS; the others are cells, structures, texts and sparse arrays.
    if not 6 <= (flag & 0xFF) <= 15:
        return name, shape, Refusal("is no numeric array", "Save plain arrays.")
    if flag & _COMPLEX:
        return name, shape, Refusal("holds complex numbers", "Save real numbers.")
    first = struct.unpack(f"{order}I", head[offset : offset + 4])[0]
    # A few bytes stand in the tag itself, whose upper half then is their number.
    number, length = (first & 0xFFFF, first >> 16) if first >> 16 else struct.unpack_from(f"{order}II", head, offset)
    kind = np.dtype(_NUMBERS.get(number, "V1"))
    if min(shape, default=-1) < 0 or math.prod(shape) * kind.itemsize != length:
        return name, shape, Refusal(f"promises the shape {shape} and holds {length} bytes", "Fetch or save it again.")
    return name, shape, kind


def _part(head: bytes, offset: int, order: str) -> tuple[bytes, int]:
    """Return the content of a data element and the offset of the next one."""
    first, length = struct.unpack_from(f"{order}II", head, offset)
    if first >> 16:
        return head[offset + 4 : offset + 4 + (first >> 16)], offset + 8
    if offset + 8 + length > len(head):
        raise ValueError("the header of a variable is too long")
    # Parts are padded to eight bytes.
    return head[offset + 8 : offset + 8 + length], offset + 8 + -(-length // 8) * 8
