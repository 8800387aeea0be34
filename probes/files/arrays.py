"""List the arrays of a file, and read a few samples of one without the others.

NPZ, NPY, HDF5, MATLAB and torch files are distinguished by content. Nothing is unpickled beyond tensors; headers are
compared with what is there, and what is read may take only so much as the size of the file allows. NPZ, HDF5 and
MATLAB files are opened in a contained child, which hands over names, shapes and the samples that are needed;
uncompressed members of an NPZ are read here, at the offsets that the child gives.
"""

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.contents import ContainedContents, Contents, open_contents
from probes.files.names import suggest
from probes.files.npy import SIGNATURE as NPY
from probes.files.npy import Header, Part, Stream
from probes.files.npz import TORCH
from probes.files.opening import check_unchanged, read_head, stamp, unchanged
from probes.files.stored import Refusal, Window, damaged

UNPACKED, EXPANSION = 2**28, 100
"""Bytes that any file may unpack to, and times its size that it may: deflate makes a thousand zeros of one byte."""
_HINT = "Give an NPZ, NPY, HDF5, MATLAB or torch file of arrays."
_HDF5 = b"\x89HDF\r\n\x1a\n"
PIECE = 2**24
"""Bytes of an array that are read at a time."""
FORMS = ("NPZ", "NPY", "HDF5", "MATLAB 5", TORCH)
"""Forms of files of arrays; MATLAB 7.3 is HDF5."""


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array of a file, samples on its first axis.

    Parameters
    ----------
    fortran
        The first axis is the fastest in the file.
    stamp
        Of the file when its arrays were listed.
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    source: Contents | ContainedContents
    stamp: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return math.prod(self.shape) * self.dtype.itemsize

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given.

        Raises
        ------
        InputError
            Where the file is cut off or damaged there, or changed since its arrays were listed.
        """
        sizes = [stop - start, *self.shape[1:]]
        if window is not None:
            sizes[window[0]] = window[2] - window[1]
        return self._read(start, stop, window, tuple(sizes))

    def values(self, start: int, stop: int, *, checked: bool = True) -> NDArray[Any]:
        """Return values of an NPZ or NPY by their indices in the order of the file.

        Parameters
        ----------
        checked
            Whether check sums are compared, which takes a reading from the beginning.
        """
        return self._read(start, stop, "checked" if checked else "straight", (stop - start,))

    def whole(self, *, piece: int = PIECE) -> NDArray[Any]:
        """Return the whole array, read in pieces of so many bytes."""
        if not self.shape:
            return self.rows(0, 1).reshape(())
        count = self.shape[0]
        step = max(1, piece // max(1, self.size // max(1, count)))
        if step >= count:
            return self.rows(0, count)
        first = self.rows(0, step)
        values = np.empty(self.shape, dtype=first.dtype)
        values[:step] = first
        for start in range(step, count, step):
            values[start : start + step] = self.rows(start, min(start + step, count))
        return values

    def items(self, start: int, stop: int) -> list[Any]:
        """Return entries of the first axis as plain Python values."""
        values = self.rows(start, stop)
        # numpy accepts any numbers as characters of strings.
        if values.dtype.kind == "U" and values.size and values.view(_character(values)).max() > sys.maxunicode:
            raise damaged(self.path, ValueError("it holds what is no character"), self.name)
        return list(values.tolist())

    def _read(self, start: int, stop: int, how: Window | str | None, shape: tuple[int, ...]) -> NDArray[Any]:
        # A child may hold the file that was there, while its numbers are read from the one that is there now.
        with unchanged(self.path, self.stamp):
            values = self.source.read(self.name, start, stop, how)
        # The child has read the file, which may have taken it over, so its answer is checked.
        if not isinstance(values, np.ndarray) or values.shape != shape:
            raise damaged(self.path, ValueError("it holds another shape than it promised"), self.name)
        return values


def _character(texts: NDArray[Any]) -> str:
    return f"{texts.dtype.str[0]}u4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The arrays of a file.

    Parameters
    ----------
    form
        In words.
    refused
        Arrays that are there but are not read, and why.
    most
        Bytes to which one sample may unpack.
    hint
        The hint for an array that is refused without a hint of its own.
    """

    path: Path
    form: str
    arrays: Mapping[str, StoredArray]
    refused: Mapping[str, Refusal]
    most: int
    hint: str

    def find(self, name: str, kinds: str = "biuf") -> StoredArray:
        """Return an array by name, of numbers or of other kinds of values.

        Raises
        ------
        InputError
            Where there is none of this name, or it may not be read.
        """
        if name in self.refused:
            refusal = self.refused[name]
            raise self.refusal(name, refusal.reason, refusal.hint or self.hint)
        if name not in self.arrays:
            raise InputError(
                f"The file has no array {name!r}. {self.listing()}",
                where=str(self.path),
                hint=suggest(name, tuple(self.arrays)),
            )
        array = self.arrays[name]
        if array.dtype.kind not in kinds:
            what = f"{'complex numbers' if array.dtype.kind == 'c' else 'values'} of type {array.dtype}"
            raise self.refusal(name, f"holds {what}", "Save real numbers, plain arrays.")
        if math.prod(array.shape[1:]) * array.dtype.itemsize > self.most:
            message = f"has the shape {array.shape}: one sample is too large for a file of this size"
            raise self.refusal(name, message, "Save it uncompressed if it really holds so little.")
        return array

    def refusal(self, name: str, message: str, hint: str) -> InputError:
        """Return the refusal of an array; `message` goes on from its name."""
        return InputError(f"The array {name!r} {message}.", where=f"{self.path}, {name}", hint=hint)

    def check_expansion(self, names: Collection[str]) -> None:
        """Refuse arrays that together unpack to far more than the size of the file.

        Raises
        ------
        InputError
            Where they do.
        """
        total = sum(self.arrays[name].size for name in names if name in self.arrays)
        if total > self.most:
            what = "The file" if len(names) > 1 else f"The array {next(iter(names))!r}"
            message = f"{what} unpacks to {total} bytes, over {EXPANSION} times its size."
            hint = "Save it uncompressed (numpy.savez) if it really holds so little."
            raise InputError(message, where=str(self.path), hint=hint)

    def listing(self) -> str:
        """Return a sentence that names all arrays with their shapes."""
        shown = [f"{name} {tuple(array.shape)}" for name, array in self.arrays.items()]
        shown += [f"{name} (not readable)" for name in self.refused]
        return f"It holds {', '.join(shown[:30]) or 'no arrays'}{', ...' if len(shown) > 30 else ''}."


def open_archive(path: Path, *, forms: Sequence[str] = FORMS, hint: str = _HINT) -> Archive:
    """Open a file of arrays; its form follows from its content.

    Parameters
    ----------
    forms
        Those that are wanted.
    hint
        The hint where it has another form.

    Raises
    ------
    InputError
        Where it cannot be read or is none of the wanted forms.
    """
    head = read_head(path, wanted="a file of arrays", hint=hint, size=1024)
    # Without the time of the last change of its status: a run may take hours, and a backup may link to the file.
    opened = stamp(path)[:-1]
    form = _form(path, head)
    most = max(UNPACKED, EXPANSION * path.stat().st_size)
    source: Contents | ContainedContents | None = None
    if form in ("NPZ", "HDF5", "MATLAB 5") and form in forms:
        source = ContainedContents(path, form, most)
        if form == "NPZ" and source.listed()[0] == TORCH:
            form, source = TORCH, None
    if form not in forms:
        wanted = "a file of arrays that is known here" if forms == FORMS else f"an {' or an '.join(forms)}"
        message = f"This is a file of the form {form}, not {wanted}." if form else f"This is not {wanted}."
        raise InputError(message, where=str(path), hint=hint)
    if source is None:
        source = open_contents(path, form, most)
    form, arrays, refused = source.listed()
    check_unchanged(path, opened)
    return Archive(
        path=path,
        form=form,
        arrays={entry[0]: listed_array(path, source, opened, *entry) for entry in arrays},
        refused={name: Refusal(reason, advice) for name, reason, advice in refused},
        most=most,
        hint=hint,
    )


def listed_array(
    path: Path,
    source: Contents | ContainedContents,
    opened: tuple[int, ...],
    name: str,
    shape: tuple[int, ...],
    kind: Any,
    fortran: bool,
    numbers: tuple[int, ...],
) -> StoredArray:
    """Return an array as `Contents.listed` describes it.

    Parameters
    ----------
    kind
        The type of its values, as numpy writes it into a header.
    numbers
        Where its values lie if they are stored uncompressed: offset, bytes, check sum, bytes of the header.

    Raises
    ------
    InputError
        Where those numbers contradict each other.
    """
    dtype = np.lib.format.descr_to_dtype(kind)
    if numbers:
        # The values are read here, without a zip reader.
        start, size, crc, before = numbers
        header, part = Header(shape, fortran, dtype, before), Part(path, start, size, crc)
        # The child that says this has read the file, which may have taken it over.
        if min(*numbers, *shape, 0) < 0 or dtype.hasobject or before + header.size != size:
            raise damaged(path, ValueError("its numbers contradict each other"), name)
        source = Contents(path, {name: Stream(part.open, header, part)}, {}, "NPZ")
    return StoredArray(path, name, shape, dtype, fortran, source, opened)


def _form(path: Path, head: bytes) -> str:
    """Return the format that the first bytes show, or ""."""
    # MATLAB 7.3 puts a header of 512 bytes before the signature.
    if _HDF5 in (head[:8], head[512:520]):
        return "HDF5"
    if head.startswith(NPY):
        return "NPY"
    # The header of MATLAB 5 ends with version and byte order.
    if head[124:126] in (b"\x00\x01", b"\x01\x00") and head[126:128] in (b"IM", b"MI"):
        return "MATLAB 5"
    # torch.save writes a zip too, recognised by its entries; older releases wrote a bare pickle (0x80).
    if head.startswith(b"PK"):
        return "NPZ"
    return TORCH if head.startswith(b"\x80") or path.suffix.lower() in (".pt", ".pth") else ""
