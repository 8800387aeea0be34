"""Read files written by torch.save, in a child that can neither harm the machine nor exhaust it."""

import struct
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.contained import ContainedError, LimitError, Limits, call
from probes.core.errors import InputError
from probes.files import zips
from probes.files.opening import reading, stamp, unchanged
from probes.files.weight_errors import damaged, needless, refused

if TYPE_CHECKING:
    from torch import Tensor

_ZIP = b"PK\x03\x04"
_HEAD = 30
"""Bytes of the header before an entry; its last four say how long its name and the field behind it are."""
_MEMORY, _SECONDS, _SPEED = 2**29, 5, 2**25
"""Of a file, besides twice its size; seconds besides those that so many bytes take each."""
_AHEAD = 2**30
"""Bytes of the largest file whose numbers are read here while the child checks it."""
_NOT_TORCH = "it is cut off, or not a file written by torch.save"


class Other:
    """An object in a file that is not a plain value."""


def is_torchscript(path: Path) -> bool:
    """Tell whether a file is a program saved by torch.jit.save; nothing of it is run."""
    return any(entry.filename.partition("/")[2] == "constants.pkl" for entry in entries_of(path))


def entries_of(path: Path) -> list[zipfile.ZipInfo]:
    """Return the entries of a zip; [] for a file that is not one, or could be read in two ways."""
    try:
        return zips.entries(path)
    except InputError:
        return []


def read_pickle(path: Path, *, standins: Sequence[tuple[type, str]] = (), held: bool = True) -> object:
    """Return the content of a file written by torch.save, if it needs no code; tensors are on the CPU.

    Single numbers of numpy, which training loops leave beside the weights, become numbers of Python. Tensors that are
    no plain arrays in memory (sparse, quantised) come without numbers, on the device "meta".

    Parameters
    ----------
    standins
        Replacements for further dotted names in the file.
    held
        False leaves the numbers of all tensors out.

    Raises
    ------
    InputError
        Where the file is damaged, makes too much of its bytes, or holds more than tensors, numbers and containers, or
        where it was changed while it was read.
    """
    # A child reads its form, this process its numbers.
    with unchanged(path, stamp(path)):
        return _read(path, standins, held)


def _read(path: Path, standins: Sequence[tuple[type, str]], held: bool) -> object:
    where = str(path)
    records = _records(path)
    names = {name: one for one, name in standins}
    size = path.stat().st_size
    limits = Limits(memory=_MEMORY + 2 * size, seconds=_SECONDS + size // _SPEED)
    from probes.files import torch_contents

    job = (torch_contents.read, where, list(names), held, records is not None)
    ready: dict[int, Tensor] = {}

    def read_ahead() -> None:
        # If anything is wrong with it, the child says what.
        with suppress(InputError, RuntimeError):
            ready.update(_storages(path, records) if held and records and size <= _AHEAD else {})

    try:
        found = call(*job, reads=[path], limits=limits, meanwhile=read_ahead)
    except LimitError as error:
        if error.what == "memory":
            raise damaged("it asks for more memory than a file of its size may take", where) from None
        raise needless(f"what cannot be read: {error.text}", where) from None
    except ContainedError as error:
        raise damaged(f"reading it fails with {error.kind}", where) from error
    try:
        storages = []
        for one in found["storages"]:
            if isinstance(one, tuple):
                early = ready.pop(one[0], None)
                one = early if early is not None and len(early) == one[1] else _stored(path, records, *one)
            storages.append(one)
        return _Rebuilt(names, storages).value(found["tree"])
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError):
        # The child has read the file, which may have taken it over, so its answer is checked.
        raise damaged(_NOT_TORCH, where) from None


def _records(path: Path) -> dict[int, zipfile.ZipInfo] | None:
    """Return the entries of a zip by the offset of their bytes; None where the numbers are not read from offsets.

    Raises
    ------
    InputError
        Where readers may read it differently, or its entries are larger than the file.
    """
    where = str(path)
    with reading(path), path.open("rb") as file:
        # torch takes a file for a zip by its beginning, whatever stands at its end.
        if file.read(4) != _ZIP:
            return None
    try:
        entries = zips.entries(path)
    except InputError:
        raise damaged(_NOT_TORCH, where) from None
    if any(entry.filename.endswith(".npy") for entry in entries):
        raise InputError(
            "This is an NPZ of arrays, not a checkpoint.",
            where=where,
            hint="Are model and data the wrong way round?",
        )
    if is_torchscript(path):
        raise refused("a TorchScript program", where)
    # torch.save never compresses.
    size, held = sum(entry.file_size for entry in entries), path.stat().st_size
    if size > held:
        raise damaged(f"its entries would be {size} bytes long in a file of {held}", where)
    if any(entry.filename.lower().endswith("/byteorder") and entry.file_size != len("little") for entry in entries):
        # Numbers of another machine have to be turned around, which torch does where it does not map the file.
        return None
    return _by_offset(path, entries)


def _by_offset(path: Path, entries: Sequence[zipfile.ZipInfo]) -> dict[int, zipfile.ZipInfo]:
    found: dict[int, zipfile.ZipInfo] = {}
    with reading(path), path.open("rb") as file:
        for entry in entries:
            file.seek(entry.header_offset)
            head = file.read(_HEAD)
            if len(head) == _HEAD and head.startswith(_ZIP) and entry.compress_type == zipfile.ZIP_STORED:
                found[entry.header_offset + _HEAD + sum(struct.unpack("<HH", head[26:]))] = entry
    return found


def _storages(path: Path, records: Mapping[int, zipfile.ZipInfo]) -> "dict[int, Tensor]":
    """Return the bytes of all storages by their offsets in a file of torch.save."""
    return {
        offset: _stored(path, records, offset, entry.file_size)
        for offset, entry in records.items()
        if "/data/" in entry.filename
    }


def _stored(path: Path, records: Mapping[int, zipfile.ZipInfo] | None, offset: int, size: int) -> "Tensor":
    """Return the bytes of a storage: those of one entry of a zip, or of a range of a file of the older format."""
    import torch

    room = path.stat().st_size - offset
    if records is not None:
        room = records[offset].file_size if offset in records else 0
    if not 0 <= size <= room:
        raise damaged(_NOT_TORCH, str(path))
    data = torch.empty(size, dtype=torch.uint8)
    view = data.numpy().data
    with reading(path), path.open("rb", buffering=0) as file:
        file.seek(offset)
        filled = 0
        while filled < len(view) and (count := file.readinto(view[filled:])):
            filled += count
    # Like torch, do not compare check sums: it may have written none.
    if filled < len(view):
        raise damaged(_NOT_TORCH, str(path))
    return data


class _Rebuilt:
    """Rebuild values from the tree that a child sends."""

    def __init__(self, names: Mapping[str, type], storages: Sequence["Tensor"]) -> None:
        self._names, self._storages = names, storages

    def value(self, tree: Any) -> Any:
        """Return the value that a tree represents."""
        if not isinstance(tree, tuple):
            return tree
        kind, *parts = tree
        match kind:
            case "dict":
                return dict(zip(map(self.value, parts[0]), map(self.value, parts[1]), strict=True))
            case "list" | "tuple" | "set":
                return {"list": list, "tuple": tuple, "set": set}[kind](map(self.value, parts[0]))
            case "complex":
                return complex(*parts)
            case "name":
                return self._names[parts[0]]
            case "odd":
                import torch

                return torch.empty(parts[1], dtype=getattr(torch, parts[0]), device="meta")
            case "tensor":
                return self._tensor(*parts)
        return Other()

    def _tensor(self, kind: str, index: int, offset: int, shape: list[int], stride: list[int]) -> "Tensor":
        import torch

        flat, dtype = self._storages[index], getattr(torch, kind)
        whole = flat[: flat.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        return whole.as_strided(shape, stride, offset)
