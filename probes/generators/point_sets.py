"""Sets of points (members, non-members, samples, a reference), read as float32 block by block.

A folder of images, an NPY, an NPZ or a CSV becomes one record, whose points stay in their files until a block of them
is needed. All are looked at once on reading: none may hold a number that is not finite.
"""

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.arrays import Archive, StoredArray, open_archive
from probes.files.names import suggest
from probes.generators.point_files import Singles, Source, read_image_files, read_number_rows

_NAMES = ("img_r01", "x", "images", "samples", "data", "arr_0")
_UNIT = "img_r01"
_ROUNDING = 1e-5
_PIECE = 2**22
_HINT = "Give a folder of PNG or JPEG images, an NPY or NPZ of arrays, or a CSV of numbers."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointSet:
    """Points that are read from their files on demand.

    Parameters
    ----------
    sha256
        Of the content: shape, values as used and their order.
    shape
        Of one point, (c, h, w) or (d,).
    pixels
        Values are those of images of 8 bits, or of an array `img_r01`: they lie in [0, 1].
    names
        What identifies each point: its row from 0 on, or its path relative to the folder.
    span
        Smallest and largest value of all points.
    layout
        What was read, in words.
    notes
        Decisions that a user should see.
    """

    path: str
    sha256: str
    shape: tuple[int, ...]
    pixels: bool
    names: tuple[str, ...]
    span: tuple[float, float]
    layout: str
    notes: tuple[str, ...]
    rows: Callable[[int, int], Singles] = field(repr=False)
    hashes: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.names)

    def block(self, start: int, stop: int) -> Singles:
        """Return points `start` to `stop`, shape (stop - start, *shape)."""
        if not 0 <= start <= stop <= len(self):
            raise ValueError(f"points {start} to {stop} of {len(self)}")
        return self.rows(start, stop)

    def digests(self) -> tuple[str, ...]:
        """Return the SHA-256 of each point: of its shape and its float32 bytes."""
        return tuple(self.hashes[index : index + 32].hex() for index in range(0, len(self.hashes), 32))

    def take(self, indices: NDArray[np.integer]) -> "PointSet":
        """Return the points of some indices, in ascending order."""
        chosen = np.asarray(indices, dtype=np.int64)
        if len(chosen) and (chosen[0] < 0 or chosen[-1] >= len(self) or (np.diff(chosen) <= 0).any()):
            raise ValueError(f"places that do not rise, or are not among {len(self)} points")
        hashes = b"".join(self.hashes[32 * index : 32 * index + 32] for index in chosen.tolist())
        return replace(
            self,
            sha256=_content(self.shape, self.pixels, hashes),
            names=tuple(self.names[index] for index in chosen.tolist()),
            rows=partial(_gathered, self, chosen),
            hashes=hashes,
        )


def read_points(path: Path, *, role: str, shape: tuple[int, ...] | None = None) -> PointSet:
    """Read points: a folder of images, an NPY, an NPZ or a CSV with a point a row.

    Parameters
    ----------
    role
        The option that names them, for messages.
    shape
        What every point must have, (c, h, w) or (d,); None: any.

    Images and arrays of bytes are divided by 255; other numbers are taken as they are. Arrays (n, h, w) become
    (n, 1, h, w), and (n, h, w, c) becomes (n, c, h, w) where its last axis is 1 or 3 and its second is not.

    Raises
    ------
    InputError
        Where the points cannot be read, are of another shape, or hold numbers that float32 does not.
    """
    try:
        source = _source(path)
        if shape is not None and source.shape != tuple(shape):
            raise InputError(
                f"The points have the shape {source.shape}; {tuple(shape)} is needed here.",
                where=str(path),
                hint="Give points of one shape throughout: (c, h, w) for images, (d,) for vectors.",
            )
        span, hashes = _survey(source)
    except InputError as error:
        raise InputError(error.message, where=f"{role} {error.where}", hint=error.hint) from error
    return PointSet(
        path=str(path),
        sha256=_content(source.shape, source.pixels, hashes),
        shape=source.shape,
        pixels=source.pixels,
        names=source.names,
        span=span,
        layout=source.layout,
        notes=source.notes,
        rows=source.rows,
        hashes=hashes,
    )


def joined(parts: Sequence[PointSet]) -> PointSet:
    """Return several sets of one shape and kind as one, in their order."""
    first = parts[0]
    if any((one.shape, one.pixels) != (first.shape, first.pixels) for one in parts):
        raise ValueError("sets of one shape and kind can be joined")
    hashes = b"".join(one.hashes for one in parts)
    return replace(
        first,
        path=", ".join(one.path for one in parts),
        sha256=_content(first.shape, first.pixels, hashes),
        names=tuple(name for one in parts for name in one.names),
        span=(min(one.span[0] for one in parts), max(one.span[1] for one in parts)),
        layout="; ".join(dict.fromkeys(one.layout for one in parts)),
        notes=tuple(dict.fromkeys(note for one in parts for note in one.notes)),
        rows=partial(_in_turn, tuple(parts)),
        hashes=hashes,
    )


def _in_turn(parts: tuple[PointSet, ...], start: int, stop: int) -> Singles:
    """Read points of several sets that are concatenated."""
    values = np.empty((stop - start, *parts[0].shape), dtype=np.float32)
    begin = 0
    for one in parts:
        low, high = max(start, begin), min(stop, begin + len(one))
        if low < high:
            values[low - start : high - start] = one.block(low - begin, high - begin)
        begin += len(one)
    return values


def _content(shape: tuple[int, ...], pixels: bool, hashes: bytes) -> str:
    return sha256_json({"shape": shape, "pixels": pixels, "points": hashlib.sha256(hashes).hexdigest()})


def _gathered(points: PointSet, indices: NDArray[np.int64], start: int, stop: int) -> Singles:
    """Read points of ascending indices run by run, so that a packed file is read forwards and nothing unused."""
    chosen = indices[start:stop]
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1) if len(chosen) else []
    values = np.empty((len(chosen), *points.shape), dtype=np.float32)
    done = 0
    for run in runs:
        values[done : done + len(run)] = points.block(int(run[0]), int(run[-1]) + 1)
        done += len(run)
    return values


def _survey(source: Source) -> tuple[tuple[float, float], bytes]:
    """Read every point once, and return the range of all values and the hash of each point."""
    hashes = bytearray()
    low, high = math.inf, -math.inf
    head = ",".join(map(str, source.shape)).encode()
    step = max(1, _PIECE // math.prod(source.shape))
    for start in range(0, len(source.names), step):
        values = source.rows(start, min(start + step, len(source.names)))
        bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        if bad.any():
            raise InputError(
                "The point holds a number that is not finite, or is too large for float32.",
                where=source.spot(start + int(bad.argmax())),
                hint="Mend the point, or leave it out.",
            )
        low, high = min(low, float(values.min())), max(high, float(values.max()))
        if source.pixels and not -_ROUNDING <= low <= high <= 1 + _ROUNDING:
            raise InputError(
                f"The array {_UNIT!r} holds values from {low:g} to {high:g}; its name promises 0 to 1.",
                where=source.spot(start),
                hint="Rescale the values, or call the array x.",
            )
        for value in values.astype("<f4", copy=False):
            own = hashlib.sha256(head)
            # A large image is not copied for its hash.
            own.update(np.ascontiguousarray(value).data)
            hashes += own.digest()
    return (low, high), bytes(hashes)


def _source(path: Path) -> Source:
    # For a path without permission os.path says that it is no folder; the reader then raises the refusal.
    if os.path.isdir(path):  # noqa: PTH112
        return read_image_files(path)
    try:
        if path.exists() and not path.is_file():
            raise InputError("This is not an ordinary file.", where=str(path), hint=_HINT)
        with path.open("rb") as file:
            head = file.read(6)
    except (OSError, ValueError):
        # Reading it as text raises the refusal.
        head = b""
    if head == b"\x93NUMPY" or head[:2] == b"PK":
        return _from_arrays(path)
    if path.suffix.lower() in (".npy", ".npz") and path.exists():
        raise InputError(f"The file is no {path.suffix[1:].upper()} by its content.", where=str(path), hint=_HINT)
    return read_number_rows(path)


def _from_arrays(path: Path) -> Source:
    archive = open_archive(path, forms=("NPY", "NPZ"), hint=_HINT)
    name = _chosen(archive)
    array = archive.find(name)
    where = f"{path}, {name}" if archive.form == "NPZ" else str(path)
    if not 2 <= len(array.shape) <= 4 or not array.size:
        raise InputError(
            f"The array has the shape {array.shape}.", where=where, hint="Give (n, d), (n, h, w) or (n, c, h, w)."
        )
    archive.check_expansion((name,))
    shape, last = _axes(array.shape)
    notes = ["The channels stood last and were put first."] if last else []
    unused = [other for other in (*archive.arrays, *archive.refused) if other != name]
    if unused:
        notes.append(f"Of the arrays {name!r} was taken, not {', '.join(map(repr, unused))}.")
    if array.dtype.kind in "biu" and array.dtype != np.uint8 and name != _UNIT:
        notes.append(f"The numbers of type {array.dtype} were taken as they stand: only uint8 is divided by 255.")
    return Source(
        shape=shape,
        pixels=array.dtype == np.uint8 or name == _UNIT,
        names=tuple(map(str, range(array.shape[0]))),
        layout=f"{archive.form} array of {array.dtype}, shape {tuple(array.shape)}",
        notes=tuple(notes),
        rows=partial(_converted, array, shape, last),
        spot=lambda index: f"{where}, row {index}",
    )


def _chosen(archive: Archive) -> str:
    names = (*archive.arrays, *archive.refused)
    found = next((name for name in _NAMES if name in names), None)
    if found is None and len(names) == 1:
        return names[0]
    if found is None:
        raise InputError(
            f"Which array holds the points is not clear. {archive.listing()}",
            where=str(archive.path),
            hint=f"Call it x, or save it alone. {suggest('x', names)}",
        )
    return found


def _axes(shape: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Return the shape of a point as used, and whether the file has the channels last.

    >>> _axes((9, 8, 8, 3)), _axes((9, 28, 28)), _axes((9, 5))
    (((3, 8, 8), True), ((1, 28, 28), False), ((5,), False))
    """
    if len(shape) == 4 and shape[3] in (1, 3) and shape[1] not in (1, 3):
        return (shape[3], shape[1], shape[2]), True
    return ((1, *shape[1:]) if len(shape) == 3 else shape[1:]), False


def _converted(array: StoredArray, shape: tuple[int, ...], last: bool, start: int, stop: int) -> Singles:
    values = array.rows(start, stop)
    if last:
        values = values.transpose(0, 3, 1, 2)
    # Values beyond float32 become infinite, and are refused with their row.
    with np.errstate(over="ignore"):
        singles = np.array(values, dtype=np.float32, order="C").reshape(stop - start, *shape)
    if values.dtype == np.uint8:
        singles /= np.float32(255)
    return singles
