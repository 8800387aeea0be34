"""Which arrays does a file of fields hold, and how are a few samples of one read without the others?

NPZ, NPY, HDF5, MATLAB and torch files are told apart by content. Nothing is unpickled beyond tensors; headers are
compared with what is there, and what one sample may unpack to is bounded by the size of the file.
"""

import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from probes.errors import InputError
from probes.files.names import nearest_name, suggest
from probes.files.pickles import entries_of, read_pickle
from probes.files.sniffing import impostor
from probes.loading.field_arrays import Refusal, Stored, Window, damaged, npy_stream, open_member
from probes.loading.field_hdf5 import SIGNATURE, read_hdf5
from probes.loading.field_matlab import read_mat

# Deflate can make a thousand zeros of one byte; below 256 MiB that does no harm.
_UNPACKED = 2**28
_EXPANSION = 100
_HINT = "Give an NPZ, NPY, HDF5, MATLAB or torch file with the input and target fields."


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
    """

    path: Path
    form: str
    arrays: Mapping[str, Stored]
    refused: Mapping[str, Refusal]
    most: int

    def find(self, name: str) -> Stored:
        """Return an array of numbers.

        Raises
        ------
        InputError
            Where there is none of this name, or it may not be read.
        """
        where = f"{self.path}, {name}"
        if name in self.refused:
            refusal = self.refused[name]
            raise InputError(f"The array {name!r} {refusal.reason}.", where=where, hint=refusal.hint or _HINT)
        if name not in self.arrays:
            raise InputError(
                f"The file has no array {name!r}. {self.listing()}",
                where=str(self.path),
                hint=suggest(name, tuple(self.arrays)),
            )
        array = self.arrays[name]
        if array.dtype.kind not in "biuf":
            what = {"c": "complex numbers", "O": "Python objects"}.get(
                array.dtype.kind, f"values of type {array.dtype}"
            )
            raise InputError(f"The array {name!r} holds {what}.", where=where, hint="Save real numbers, plain arrays.")
        if math.prod(array.shape[1:]) * array.dtype.itemsize > self.most:
            raise InputError(
                f"The array {name!r} has the shape {array.shape}: one sample is too large for a file of this size.",
                where=where,
                hint="Save it uncompressed if it really holds so little.",
            )
        return array

    def listing(self) -> str:
        """Return a sentence that names all arrays with their shapes."""
        shown = [f"{name} {tuple(array.shape)}" for name, array in self.arrays.items()]
        shown += [f"{name} (not readable)" for name in self.refused]
        return f"It holds {', '.join(shown[:30]) or 'no arrays'}{', ...' if len(shown) > 30 else ''}."


def open_archive(path: Path) -> Archive:
    """Open a file of arrays; its form follows from its content.

    Raises
    ------
    InputError
        Where it cannot be read or is none of the forms that are known.
    """
    head, size = _head(path)
    most = max(_UNPACKED, _EXPANSION * size)
    reader: Callable[[Path, int], tuple[Mapping[str, Stored], Mapping[str, Refusal], str]]
    # Before the signature MATLAB 7.3 puts a header of its own, of 512 bytes.
    if SIGNATURE in (head[:8], head[512:520]):
        reader = read_hdf5
    elif head.startswith(b"\x93NUMPY"):
        reader = _read_npy
    # Version and byte order end the header of MATLAB 5.
    elif head[124:126] in (b"\x00\x01", b"\x01\x00") and head[126:128] in (b"IM", b"MI"):
        reader = read_mat
    # torch.save writes a zip archive too, and wrote a bare pickle (0x80) before.
    elif head.startswith(b"PK") and not _is_torch(path):
        reader = _read_npz
    elif head.startswith((b"PK", b"\x80")) or path.suffix.lower() in (".pt", ".pth"):
        reader = _read_torch
    else:
        raise InputError("This is no file of arrays that is known here.", where=str(path), hint=_HINT)
    try:
        arrays, refused, form = reader(path, most)
    except InputError:
        raise
    except Exception as error:
        # Hostile or damaged bytes: every reader fails in many ways.
        raise damaged(path, error) from error
    return Archive(path=path, form=form, arrays=arrays, refused=refused, most=most)


def _head(path: Path) -> tuple[bytes, int]:
    """Return the first bytes and the size of an ordinary file that holds something."""
    where = str(path)
    try:
        if not path.exists():
            near = nearest_name(path)
            raise InputError(
                "There is no such file.", where=where, hint=f"Did you mean {near}?" if near else "Check the path."
            )
        if not path.is_file():
            raise InputError("This is not an ordinary file.", where=where, hint=_HINT)
        with path.open("rb") as file:
            head, size = file.read(1024), path.stat().st_size
    except (OSError, ValueError) as error:
        raise InputError(f"The file cannot be read: {error}.", where=where, hint="Check the path.") from error
    if not head:
        raise InputError("The file is empty.", where=where, hint=_HINT)
    disguise = impostor(head[:512])
    if disguise:
        raise InputError(f"This is {disguise.what}, not a file of arrays.", where=where, hint=disguise.hint)
    return head, size


def _read_npy(path: Path, most: int) -> tuple[Mapping[str, Stored], Mapping[str, Refusal], str]:
    try:
        return {"array": npy_stream(lambda: path.open("rb"), path.stat().st_size, most)}, {}, "NPY"
    except Refusal as refusal:
        return {}, {"array": refusal}, "NPY"


def _is_torch(path: Path) -> bool:
    return any(entry.filename.endswith(("/data.pkl", "/constants.pkl")) for entry in entries_of(path))


def _read_npz(path: Path, most: int) -> tuple[Mapping[str, Stored], Mapping[str, Refusal], str]:
    arrays: dict[str, Stored] = {}
    refused: dict[str, Refusal] = {}
    with zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    for info in infos:
        name = info.filename.removesuffix(".npy")
        try:
            if name in arrays:
                raise Refusal("stands in the archive twice", "Save it again.")
            arrays[name] = npy_stream(partial(open_member, path, info), info.file_size, most)
        except Refusal as refusal:
            refused[name] = refusal
    return arrays, refused, "NPZ"


@dataclass(slots=True)
class _Tensor:
    tensor: torch.Tensor
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        piece = self.tensor[start:stop]
        if window:
            piece = piece.narrow(window[0], window[1], window[2] - window[1])
        values: NDArray[Any] = piece.to(torch.float32).numpy()
        return values


def _numpy_type(tensor: torch.Tensor) -> np.dtype[Any]:
    try:
        return np.dtype(str(tensor.dtype).removeprefix("torch."))
    except TypeError:
        # bfloat16 and narrower floats.
        return np.dtype(np.float32)


def _read_torch(path: Path, most: int) -> tuple[Mapping[str, Stored], Mapping[str, Refusal], str]:
    content = read_pickle(path)
    if not isinstance(content, dict):
        raise InputError(
            f"The file holds a {type(content).__name__}, not named tensors.",
            where=str(path),
            hint='Save torch.save({"x": inputs, "y": targets}, file).',
        )
    arrays: dict[str, Stored] = {}
    refused: dict[str, Refusal] = {}
    for name, value in content.items():
        if not isinstance(value, torch.Tensor):
            refused[str(name)] = Refusal(f"is no tensor but a {type(value).__name__}")
        elif value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
            refused[str(name)] = Refusal("is no plain tensor", "Save it dense and unquantised.")
        elif value.is_complex():
            refused[str(name)] = Refusal("holds complex numbers", "Save real numbers.")
        else:
            arrays[str(name)] = _Tensor(value.detach(), tuple(value.shape), _numpy_type(value))
    return arrays, refused, "torch"
