"""Turn a file of torch.save into a plain tree; this runs in a contained child.

torch's restricted reader (`weights_only`) runs no code, but a file can make it take any time and memory, which the
child has not. What it makes is turned into a plain tree here; objects that are none of it are named, not handed over.
"""

import pickle
import re
import struct
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from probes.core.errors import InputError, escaped
from probes.files.weight_errors import damaged, needless, refused

_MOST_VALUES = 2**18
"""Of any file; of a larger one as many more as it has bytes, and containers and tensors one for eight bytes."""
_NUMBERS = {
    "f2": "e", "f4": "f", "f8": "d", "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
}  # fmt: skip
_MOST_LOOSE, _LARGEST_KEY = 2**13, 2**60
"""Keys whose hashes a file can choose: they may all collide, which takes steps by the square of their number."""
_AGAIN = "the same parts again and again, or one in another"
_SCALARS = (str, int, float, bool, bytes)


class _NumberKind:
    """Replacement of numpy.dtype while a checkpoint is read: plain numbers only."""

    def __init__(self, name: str, align: bool = False, copy: bool = False) -> None:
        # The text of anything else can be longer than the memory.
        if not isinstance(name, str) or name not in _NUMBERS:
            shown = repr(name[:20]) if isinstance(name, str) else ""
            raise pickle.UnpicklingError(f"GLOBAL numpy.dtype({shown})")
        self.form = _NUMBERS[name]

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if state[1] == ">":
            raise pickle.UnpicklingError("GLOBAL numpy.dtype(big-endian)")


def _read_number(kind: _NumberKind, data: bytes) -> float | int | bool:
    """Replacement of the function with which numpy restores a single number."""
    value: float | int | bool = struct.unpack(f"<{kind.form}", data)[0]
    return value


_NUMBER_READERS: list[tuple[Any, str]] = [
    (_NumberKind, "numpy.dtype"),
    (_read_number, "numpy.core.multiarray.scalar"),
    (_read_number, "numpy._core.multiarray.scalar"),
]


def read(path: str, names: Sequence[str], held: bool, mapped: bool) -> dict[str, Any]:
    """Return the content of a file as a tree of pairs (kind, parts), and its storages.

    A storage is its bytes, or the offset of its bytes in the file and their number: the caller reads them there,
    which is faster than handing them over.

    Parameters
    ----------
    names
        Dotted names that are allowed in the file and returned as names.
    held
        Whether tensors come with their numbers.
    mapped
        Whether the file is mapped into memory, which that before the zip cannot be.

    Raises
    ------
    InputError
        Where the file is damaged, or is not made of tensors, numbers and plain containers.
    """
    size = Path(path).stat().st_size
    standins = [(type("Standin", (_Standin,), {"name": name}), name) for name in names]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals([*_NUMBER_READERS, *standins]):
            # Old files make torch warn about its own storage classes.
            warnings.simplefilter("ignore")
            with _recorded_ranges(path) as ranges:
                content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
            tree = _Tree(held, _MOST_VALUES + size, _MOST_VALUES + size // 8, ranges)
            found = tree.plain(content)
    except InputError:
        raise
    except Exception as error:
        raise _refusal(error, path) from None
    claimed = sum(tree.claimed.values())
    if claimed > size:
        raise damaged(f"its tensors would be {claimed} bytes long in a file of {size}", path)
    return {"tree": found, "storages": tree.storages}


@dataclass(slots=True)
class _Ranges:
    """The ranges of the file that a reader has mapped or read into storages; none of them twice."""

    path: str
    starts: list[int] = field(default_factory=list)
    recorded: list[tuple[Any, int, int]] = field(default_factory=list)
    swapped: bool = False

    def record(self, storage: Any, offset: int) -> None:
        """Record the offset of a storage by its address; the storage is kept, so that no other gets the address.

        Raises
        ------
        InputError
            Where it was read before: which of its numbers count is for each reader to say.
        """
        start, size = storage.data_ptr(), storage.nbytes()
        if not size:
            return
        index = bisect_right(self.starts, start)
        runs_into = index < len(self.starts) and self.starts[index] < start + size
        if runs_into or (index and self.starts[index - 1] + self.recorded[index - 1][1] > start):
            raise damaged("it fills the same tensor twice", self.path)
        self.starts.insert(index, start)
        self.recorded.insert(index, (storage, size, offset))

    def find(self, start: int, size: int) -> int | None:
        """Return the offset of bytes in the file; None where they were not read from it."""
        index = bisect_right(self.starts, start) - 1
        if self.swapped or not size or index < 0:
            return None
        _, length, offset = self.recorded[index]
        inside = start - self.starts[index]
        return offset + inside if inside + size <= length else None


@contextmanager
def _recorded_ranges(path: str) -> Iterator[_Ranges]:
    """Yield the ranges of the file that are mapped or read meanwhile."""
    ranges = _Ranges(path)
    storages = torch.UntypedStorage
    from_file, set_from_file, swap = storages.from_file, storages._set_from_file, storages.byteswap

    def mapped(*args: Any, **options: Any) -> Any:
        made = from_file(*args, **options)
        ranges.record(made, 0)
        return made

    def filled(storage: Any, file: Any, offset: int | None, *args: Any) -> Any:
        # The count of the numbers precedes them.
        start = (file.tell() if offset is None else offset) + 8
        made = set_from_file(storage, file, offset, *args)  # type: ignore[no-untyped-call]
        ranges.record(storage, start)
        return made

    def swapped(storage: Any, *args: Any) -> Any:
        ranges.swapped = True
        return swap(storage, *args)  # type: ignore[no-untyped-call]

    with (
        patch.object(storages, "from_file", mapped),
        patch.object(storages, "_set_from_file", filled),
        patch.object(storages, "byteswap", swapped),
    ):
        yield ranges


class _Standin:
    """Replacement of a class or function that a file names; it can be neither made nor called."""

    name = ""

    def __new__(cls, *args: object, **kwargs: object) -> "_Standin":
        raise pickle.UnpicklingError(f"GLOBAL {cls.name}")


@dataclass(slots=True)
class _Tree:
    held: bool
    most: int
    most_parts: int
    ranges: _Ranges
    count: int = 0
    parts: int = 0
    loose: int = 0
    claimed: dict[tuple[int, int], int] = field(default_factory=dict)
    storages: list[Any] = field(default_factory=list)
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    def plain(self, value: Any) -> Any:
        """Return a value as a tree: values of Python as they are, all others as pairs."""
        self.counted(value)
        if value is None or type(value) in _SCALARS:
            return value
        if isinstance(value, Tensor):
            return self.tensor(value)
        # Methods are taken from the classes: a file may set attributes of objects.
        if isinstance(value, dict):
            keys, values = list(dict.keys(value)), list(dict.values(value))
            return ("dict", [self.key(key) for key in keys], [self.plain(one) for one in values])
        for kind in (list, tuple, set):
            if isinstance(value, kind):
                inside = list(kind.__iter__(value))  # type: ignore[arg-type]
                return (kind.__name__, [self.plain(one) for one in inside])
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, complex):
            return ("complex", value.real, value.imag)
        if isinstance(value, type) and issubclass(value, _Standin):
            return ("name", value.name)
        return ("other", type(value).__name__)

    def counted(self, value: Any) -> None:
        """Count a value against the limit: a few bytes can refer to the same part again and again."""
        self.count += 1
        self.parts += value is not None and type(value) not in _SCALARS
        if self.count > self.most:
            raise pickle.UnpicklingError(f"NEEDLESS more than {self.most} values, or the same again and again")
        if self.parts > self.most_parts:
            what = f"more than {self.most_parts} containers and tensors, or the same again and again"
            raise pickle.UnpicklingError(f"NEEDLESS {what}")

    def key(self, value: Any) -> Any:
        """Return a key as a tree; the text of a tensor can be longer than anything."""
        self.counted(value)
        # Hashes of texts are salted, except that of the empty text.
        texts = type(value) is tuple and all(type(one) is str and one for one in value)
        self.loose += type(value) in (tuple, float) and not texts
        if self.loose > _MOST_LOOSE:
            what = f"more than {_MOST_LOOSE} keys that are fractions or tuples of numbers"
            raise pickle.UnpicklingError(f"NEEDLESS {what}")
        if type(value) is tuple:
            return ("tuple", [self.key(one) for one in value])
        if (value is not None and type(value) not in _SCALARS) or (type(value) is int and abs(value) >= _LARGEST_KEY):
            raise pickle.UnpicklingError(f"NEEDLESS a {type(value).__name__} as a key that nobody can tell from others")
        return value

    def tensor(self, value: Tensor) -> Any:
        """Return a tensor by its storage, since several may share one, or as one without numbers."""
        kind = str(value.dtype).removeprefix("torch.")
        plain = type(value) in (Tensor, torch.nn.Parameter) and value.layout == torch.strided
        if not plain or value.device.type != "cpu" or value.is_quantized or value.is_nested:
            # A quantised one on no device could not even be shown.
            return ("odd", "uint8" if value.is_quantized else kind, [])
        if not self.held:
            return ("odd", kind, list(value.shape))
        value = value.detach()
        self.claimed[_key(value)] = value.untyped_storage().nbytes()
        value = value.resolve_conj().resolve_neg()
        storage, key = value.untyped_storage(), _key(value)
        if key not in self.known:
            self.known[key] = len(self.storages)
            self.storages.append(self.stored(storage, *key))
        return ("tensor", kind, self.known[key], value.storage_offset(), list(value.shape), list(value.stride()))

    def stored(self, storage: Any, address: int, size: int) -> Any:
        """Return the bytes of a storage, or their offset in the file and their number."""
        offset = self.ranges.find(address, size)
        if offset is not None:
            return (offset, size)
        return torch.empty(0, dtype=torch.uint8).set_(storage)


def _key(value: Tensor) -> tuple[int, int]:
    storage = value.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def _refusal(error: Exception, where: str) -> Exception:
    """Return the refusal for any error that the reader raises on hostile bytes."""
    message = str(error)
    if isinstance(error, MemoryError) or "allocate memory" in message:
        return MemoryError()
    if isinstance(error, RecursionError) or message.startswith("NEEDLESS"):
        return needless(
            escaped(message.removeprefix("NEEDLESS "), 120) if message.startswith("NEEDLESS") else _AGAIN, where
        )
    if isinstance(error, pickle.UnpicklingError | RuntimeError):
        wanted = re.search(r"GLOBAL (\S+)", message)
        if wanted and isinstance(error, pickle.UnpicklingError):
            return refused(f"an object of {escaped(wanted[1], 120)}", where)
        if _is_plain_pickle(Path(where)):
            return refused("a plain pickle, not one of torch.save", where)
        return damaged("it is cut off, or not a file written by torch.save", where)
    return damaged(f"reading it fails with {type(error).__name__}", where)


def _is_plain_pickle(path: Path) -> bool:
    """Tell whether a file begins as a pickle of a protocol that torch.save does not use."""
    with path.open("rb") as file:
        head = file.read(2)
    return len(head) == 2 and head[0] == 0x80 and head[1] > 2
