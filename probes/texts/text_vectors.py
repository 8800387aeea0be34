"""Reader of text embeddings in an NPZ or NPY file, and of the texts beside them.

Headers are judged before an array is read, and numbers and texts are read in pieces.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.arrays import PIECE, Archive, StoredArray, open_archive
from probes.vectors.token_arrays import MAX_WIDTH

_SAVE = "Save numpy.savez(file, embeddings=vectors), vectors of the shape (texts, width)."


def open_vectors(path: Path) -> tuple[Archive, str, StoredArray]:
    """Open an NPZ or NPY of embeddings; return the archive, and name and header of the array of embeddings.

    Raises
    ------
    InputError
        Where it is neither, no array or more than one could be meant, or the header promises what cannot be read.
    """
    archive = open_archive(path, forms=("NPZ", "NPY"), hint=_SAVE)
    name = _embeddings_name(archive)
    return archive, name, _checked(archive, name)


def _embeddings_name(archive: Archive) -> str:
    if archive.form == "NPY":
        return "array"
    if "embeddings" in archive.arrays or "embeddings" in archive.refused:
        return "embeddings"
    tables = [name for name, there in archive.arrays.items() if len(there.shape) == 2 and there.dtype.kind in "iuf"]
    if len(tables) != 1:
        message = f"The file has no array 'embeddings', and {len(tables)} others could be meant. {archive.listing()}"
        raise InputError(message, where=str(archive.path), hint=_SAVE)
    return tables[0]


def _checked(archive: Archive, name: str) -> StoredArray:
    """Check the header of the array of embeddings and return the array."""
    stored = archive.find(name)
    shape = stored.shape
    if len(shape) != 2 or not shape[0] or not 0 < shape[1] <= MAX_WIDTH:
        message = f"has the shape {shape}, not (texts, width) with a width of 1 to {MAX_WIDTH}"
        raise archive.refusal(name, message, _SAVE)
    if stored.dtype.kind == "b":
        raise archive.refusal(name, "holds values of type bool", _SAVE)
    _check_size(archive, name, stored)
    return stored


def _check_size(archive: Archive, name: str, stored: StoredArray) -> None:
    unpacked = math.prod(stored.shape) * stored.dtype.itemsize
    if unpacked > archive.most:
        hint = "Save it uncompressed (numpy.savez) if it really holds so little."
        raise archive.refusal(name, f"unpacks to {unpacked} bytes, far more than the file's size", hint)


def vectors_of(stored: StoredArray, where: str, *, piece: int = PIECE) -> NDArray[np.float32]:
    """Read embeddings as float32, shape (texts, width), so many bytes at a time; refuse numbers that are not finite."""
    count, width = stored.shape
    values = np.empty((count, width), dtype=np.float32)
    step = max(1, piece // (width * stored.dtype.itemsize))
    for start in range(0, count, step):
        rows = stored.rows(start, min(start + step, count))
        # Numbers beyond float32 become infinite, and are refused below with their position.
        with np.errstate(over="ignore", invalid="ignore"):
            values[start : start + step] = rows
        for row, number in np.argwhere(~np.isfinite(values[start : start + step]))[:1].tolist():
            large = ", beyond the range of float32" if np.isfinite(rows[row, number]) else ""
            message, position = (
                f"A number is {rows[row, number]:g}{large}.",
                f"row {start + row + 1}, column {number + 1}",
            )
            raise InputError(message, where=f"{where}, {position}", hint="Embed the text again, or leave it out.")
    return values


def texts_beside(archive: Archive, beside: str, count: int, *, piece: int = PIECE) -> Iterator[str] | None:
    """Read the texts of the `count` embeddings in the array `beside`, so many bytes at a time; None without any."""
    names = {**archive.arrays, **archive.refused}
    label = next((label for label in ("text", "texts") if label in names), None)
    return None if label is None else _strings(archive, label, beside, count, piece)


def _strings(archive: Archive, name: str, beside: str, count: int, piece: int) -> Iterator[str]:
    hint = "Save one text for each embedding: numpy.array(texts, dtype=str)."
    if name in archive.refused:
        raise archive.refusal(name, archive.refused[name].reason, hint)
    stored = archive.arrays[name]
    if stored.dtype.kind != "U" or not stored.dtype.itemsize:
        raise archive.refusal(name, f"holds values of type {stored.dtype}, not texts", hint)
    if stored.shape != (count,):
        raise archive.refusal(name, f"has the shape {stored.shape}, but {beside!r} holds {count} embeddings", hint)
    _check_size(archive, name, stored)
    step = max(1, piece // stored.dtype.itemsize)
    for start in range(0, count, step):
        yield from stored.items(start, min(start + step, count))
