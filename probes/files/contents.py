"""Open a file of arrays, here or in a contained child, and read parts of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.contained import ContainedError, LimitError, Limits, Session
from probes.core.errors import InputError
from probes.files.npy import Plain, Stream, read_npy
from probes.files.npz import TORCH, read_npz
from probes.files.stored import Refusal, Stored, Window, damaged

_BASE_MEMORY, _BASE_SECONDS = 2**29, 10
_PER_SECOND = 2**26
"""Bytes that are unpacked in a second at the least."""

_Found = tuple[Mapping[str, Stored], Mapping[str, Refusal], str]


class Contents:
    """The arrays of an open file."""

    def __init__(self, path: Path, arrays: Mapping[str, Stored], refused: Mapping[str, Refusal], form: str) -> None:
        self.path, self.arrays, self.refused, self.form = path, arrays, refused, form

    def listed(self) -> tuple[str, list[Any], list[Any]]:
        """Return the form, arrays as `_described`, and refused ones as name, reason and hint."""
        arrays = [_described(name, array) for name, array in self.arrays.items()]
        return self.form, arrays, [(name, why.reason, why.hint) for name, why in self.refused.items()]

    def read(self, name: str, start: int, stop: int, how: Window | str | None) -> NDArray[Any]:
        """Return entries of the first axis, or values by their indices in the file, with check sums or without.

        Parameters
        ----------
        how
            A window or nothing for entries; "checked" or "straight" for values.
        """
        try:
            array = self.arrays[name]
            if not isinstance(how, str):
                return array.rows(start, stop, how)
            if isinstance(array, Stream) and how == "straight":
                return array.straight(start, stop)
            assert isinstance(array, Stream | Plain)
            return array.values(start, stop)
        except InputError:
            raise
        except MemoryError:
            # numpy raises a subclass, which the other process may not know.
            raise MemoryError from None
        except Refusal as refusal:
            hint = refusal.hint or "Fetch or save it again."
            raise InputError(f"The array {name!r}: {refusal.reason}.", where=str(self.path), hint=hint) from None
        except Exception as error:
            # Hostile or damaged bytes: every reader fails in many ways.
            raise damaged(self.path, error, name) from error


def _described(name: str, array: Stored) -> tuple[str, tuple[int, ...], Any, bool, tuple[int, ...]]:
    """Return name, shape, type and order of an array, and where its values lie if they are stored uncompressed."""
    kind = np.dtype(array.dtype.str) if array.dtype.names is None else array.dtype
    fortran = isinstance(array, Stream | Plain) and array.header.fortran
    part = array.part if isinstance(array, Stream) else None
    numbers = (part.start, part.size, part.crc, array.header.start) if isinstance(array, Stream) and part else ()
    return name, tuple(map(int, array.shape)), np.lib.format.dtype_to_descr(kind), fortran, numbers


def open_contents(path: Path, form: str, most: int) -> Contents:
    """Open a file in the process that is to read it.

    Parameters
    ----------
    most
        Bytes to which what is read at once may unpack.
    """
    reader = _reader(form)
    try:
        return Contents(path, *reader(path, most))
    except (InputError, MemoryError):
        raise
    except Exception as error:
        # Hostile or damaged bytes: every reader fails in many ways.
        raise damaged(path, error) from error


def _reader(form: str) -> Callable[[Path, int], _Found]:
    # Each may need a library that the others do without.
    if form == "HDF5":
        from probes.files.hdf5 import read_hdf5

        return read_hdf5
    if form == "MATLAB 5":
        from probes.files.matlab import read_mat

        return read_mat
    if form == TORCH:
        from probes.files.tensors import read_tensors

        return read_tensors
    return read_npy if form == "NPY" else read_npz


class ContainedContents:
    """The arrays of a file that is open in a contained child."""

    def __init__(self, path: Path, form: str, most: int) -> None:
        self.path = path
        self.limits = Limits(memory=_BASE_MEMORY + 2 * most, seconds=_BASE_SECONDS + most // _PER_SECOND)
        loads = {"HDF5": ("h5py",), "MATLAB 5": ("scipy.io",)}.get(form, ())
        try:
            self.session = Session(open_contents, path, form, most, reads=[path], limits=self.limits, loads=loads)
        except ContainedError as error:
            raise self.refusal(error) from None

    def listed(self) -> tuple[str, list[Any], list[Any]]:
        """Return what `Contents.listed` does."""
        answer: tuple[str, list[Any], list[Any]] = self._ask("listed")
        return answer

    def read(self, name: str, start: int, stop: int, how: Window | str | None) -> NDArray[Any]:
        """Return what `Contents.read` does."""
        values: NDArray[Any] = self._ask("read", name, start, stop, how)
        return values

    def _ask(self, method: str, *args: Any) -> Any:
        try:
            return self.session.ask(method, *args)
        except ContainedError as error:
            raise self.refusal(error) from None

    def refusal(self, error: ContainedError) -> InputError:
        """Return the refusal of a file whose child met a limit or died."""
        what = error.what if isinstance(error, LimitError) else ""
        taken = {"memory": f"{self.limits.memory >> 20:,} MiB of memory", "time": f"{self.limits.seconds} seconds"}
        if what not in taken:
            return damaged(self.path, ValueError(error.text or error.kind))
        message = f"Reading the file takes more than {taken[what]}, the limit for one of its size."
        return InputError(message, where=str(self.path), hint="Save it uncompressed, in more and smaller arrays.")
