"""The reader of arrays of scores in an NPZ or an NPY file, neither of which is trusted."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.arrays import StoredArray, open_archive
from probes.files.safe_paths import RootedPaths

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
MAX_NUMBERS = 2**28
FORMS = (
    "An NPZ holds scores (n,) with member (n,) or included (n,); loss_train and loss_test; in_scores and out_scores; "
    "or scores (models, n) with keep (models, n)."
)


class ScoreArchive:
    """An NPZ of scores; an array is read on request, after its header was compared with the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = open_archive(path, forms=("NPZ",), hint=FORMS)
        self._archive.check_expansion(tuple(self._archive.arrays))

    @property
    def names(self) -> Collection[str]:
        """Names of all arrays, read or not."""
        return dict.fromkeys((*self._archive.arrays, *self._archive.refused))

    def numbers(self, key: str, dims: Sequence[int]) -> Floats:
        """Return an array of real numbers with one of these numbers of axes."""
        return _numbers(self._archive.find(key, "biuf"), dims, self.where(key))

    def flags(self, key: str, dims: int) -> Flags:
        """Return an array of 0 and 1 as truth values."""
        return truth_values(self.numbers(key, (dims,)), self.where(key))

    def texts(self, key: str, count: int) -> tuple[str, ...]:
        """Return one text for each of `count` points, from an array of texts or integers."""
        array = self._archive.find(key, "USiufbcV")
        if array.shape != (count,) or array.dtype.kind not in "USiu" or not array.dtype.itemsize:
            message = f"{key} has the shape {array.shape} and the type {array.dtype}, for {count} points."
            raise InputError(message, where=self.where(key), hint="Save one text or integer for each point.")
        items = array.items(0, count)
        try:
            found = tuple(item.decode() if isinstance(item, bytes) else str(item) for item in items)
            # A lone surrogate could not be written to a report.
            "".join(found).encode()
        except UnicodeError as error:
            message = f"A text of {key} is no UTF-8: {error}."
            raise InputError(message, where=self.where(key), hint="Save texts as str.") from None
        return found

    def where(self, key: str) -> str:
        """Return the location of an array, for a refusal."""
        return f"{self.path}, {key}"


def folder_array(root: Path, name: str, dims: Sequence[int]) -> Floats:
    """Return the numbers of an NPY file inside a folder, and refuse one outside it."""
    where = str(root / name)
    try:
        path = RootedPaths(root).resolve(name, where)
    except InputError as error:
        raise InputError(error.message, where=where, hint="Copy the file into the folder.") from None
    try:
        return _numbers(open_archive(path, forms=("NPY",), hint="Each model needs it.").find("array"), dims, where)
    except InputError as error:
        # The path of a link's target is none that the user gave.
        raise InputError(error.message, where=where, hint=error.hint) from None


def _numbers(array: StoredArray, dims: Sequence[int], where: str) -> Floats:
    """Return a whole array of real numbers after a check of its shape and size."""
    if len(array.shape) not in dims:
        message = f"The array has the shape {array.shape}; it needs {' or '.join(map(str, dims))} axes."
        raise InputError(message, where=where, hint=FORMS)
    if not 0 < math.prod(array.shape) <= MAX_NUMBERS:
        message = f"The array has the shape {array.shape}; 1 to {MAX_NUMBERS} numbers can be read."
        raise InputError(message, where=where, hint="Save one score for each point.")
    return array.whole().astype(np.float64, copy=False)


def truth_values(values: Floats, where: str) -> Flags:
    """Return numbers that are all 0 or 1 as truth values."""
    wrong = np.argwhere((values != 0) & (values != 1))
    if len(wrong):
        index = wrong[0].tolist()
        message = f"{values[tuple(index)]:g} is neither 0 nor 1."
        raise InputError(message, where=f"{where}{index}", hint="Write 1 for a member and 0 for a non-member.")
    return values.astype(np.bool_)
