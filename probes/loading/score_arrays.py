"""How are arrays of scores read from an NPZ or an NPY file, neither of which is trusted?

Nothing is unpickled. The header of an array is compared with what is there before memory is taken.
"""

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError
from probes.loading.field_arrays import Refusal, Stream, damaged, npy_stream, open_member
from probes.loading.places import Places

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
MAX_NUMBERS = 2**28
FORMS = (
    "An NPZ holds scores (n,) with member (n,) or included (n,); loss_train and loss_test; in_scores and out_scores; "
    "or scores (models, n) with keep (models, n)."
)
# Deflate can make a thousand zeros of one byte; below 256 MiB that does no harm.
_UNPACKED, _EXPANSION = 2**28, 100


class ScoreArchive:
    """An NPZ of scores; an array is read when it is asked for, after its header was compared with what is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.infos: dict[str, zipfile.ZipInfo] = {}
        self._most = max(_UNPACKED, _EXPANSION * path.stat().st_size)
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
        except Exception as error:
            raise damaged(path, error) from error
        for info in members:
            name = info.filename.removesuffix(".npy")
            if name in self.infos:
                said = f"The array {name!r} stands in the file twice."
                raise InputError(said, where=str(path), hint="Save it again.")
            self.infos[name] = info
        total = sum(info.file_size for info in members)
        if total > self._most:
            said = f"The archive unpacks to {total} bytes, over {_EXPANSION} times its size."
            raise InputError(said, where=str(path), hint="Save it uncompressed (numpy.savez) if it holds so little.")

    def numbers(self, key: str, dims: Sequence[int]) -> Floats:
        """Return an array of real numbers that has one of these numbers of axes."""
        with _guarded(self.where(key)):
            return _numbers(self._stream(key), dims, self.where(key))

    def flags(self, key: str, dims: int) -> Flags:
        """Return an array of 0 and 1 as truth values."""
        return truth_values(self.numbers(key, (dims,)), self.where(key))

    def texts(self, key: str, count: int) -> tuple[str, ...]:
        """Return one text for each of `count` points, from an array of texts or integers."""
        with _guarded(self.where(key)):
            stream = self._stream(key)
            if stream.shape != (count,) or stream.dtype.kind not in "USiu" or not stream.dtype.itemsize:
                said = f"{key} has the shape {stream.shape} and the type {stream.dtype}, for {count} points."
                raise InputError(said, where=self.where(key), hint="Save one text or integer for each point.")
            items = stream.rows(0, count).tolist()
            found = tuple(item.decode() if isinstance(item, bytes) else str(item) for item in items)
            # A lone surrogate could not be written to a report.
            "".join(found).encode()
            return found

    def where(self, key: str) -> str:
        """Say where an array stands."""
        return f"{self.path}, {key}"

    def _stream(self, key: str) -> Stream:
        info = self.infos[key]
        return npy_stream(partial(open_member, self.path, info), info.file_size, self._most)


def folder_array(root: Path, name: str, dims: Sequence[int]) -> Floats:
    """Return the numbers of an NPY file that stands in a folder, and nowhere else."""
    where = str(root / name)
    try:
        path = Places(root).resolve(name, where)
    except InputError as error:
        raise InputError(error.message, where=where, hint="Copy the file into the folder.") from None
    with _guarded(where):
        if not path.is_file():
            raise InputError("There is no such file.", where=where, hint="Each model needs it.")
        size = path.stat().st_size
        return _numbers(npy_stream(lambda: path.open("rb"), size, max(_UNPACKED, size)), dims, where)


def _numbers(stream: Stream, dims: Sequence[int], where: str) -> Floats:
    """Return a whole array of real numbers after looking at its type, its shape and its size."""
    if stream.dtype.kind not in "biuf":
        said = f"The array holds values of the type {stream.dtype}."
        raise InputError(said, where=where, hint="Save plain real numbers.")
    if len(stream.shape) not in dims:
        said = f"The array has the shape {stream.shape}; it needs {' or '.join(map(str, dims))} axes."
        raise InputError(said, where=where, hint=FORMS)
    if not 0 < math.prod(stream.shape) <= MAX_NUMBERS:
        said = f"The array has the shape {stream.shape}; 1 to {MAX_NUMBERS} numbers can be read."
        raise InputError(said, where=where, hint="Save one score for each point.")
    values = stream.rows(0, stream.shape[0] if stream.shape else 1).reshape(stream.shape)
    return values.astype(np.float64, copy=False)


def truth_values(values: Floats, where: str) -> Flags:
    """Return numbers that are all 0 or 1 as truth values."""
    wrong = np.argwhere((values != 0) & (values != 1))
    if len(wrong):
        place = wrong[0].tolist()
        said = f"{values[tuple(place)]:g} is neither 0 nor 1."
        raise InputError(said, where=f"{where}{place}", hint="Write 1 for a member and 0 for a non-member.")
    return values.astype(np.bool_)


@contextmanager
def _guarded(where: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Refusal as refusal:
        hint = refusal.hint or "Save it again."
        raise InputError(f"The array {refusal.reason}.", where=where, hint=hint) from None
    except Exception as error:
        # Hostile or damaged bytes: zip, deflate and numpy's headers fail in many ways.
        raise damaged(where, error) from error
