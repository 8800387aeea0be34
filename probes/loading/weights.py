"""Is a file of weights whole, and can it be read without running anything?

A safetensors file is checked by its header alone: its length, its JSON, and that the tensors fill the rest of the
file exactly. A pickle goes through torch's restricted reader, which knows tensors and plain containers; one that
asks for more is refused, since an ordinary reader would run whatever the file says.
"""

import io
import math
import pickle
import re
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from probes.errors import InputError
from probes.files.json_values import parse_json
from probes.files.zips import has_one_list
from probes.loading.archives import is_archive, sizes_of
from probes.loading.pickle_values import NeedlessError
from probes.loading.pickles import check_calls

if TYPE_CHECKING:
    from torch import Tensor

_MAX_HEADER = 100_000_000
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip

_NUMBERS = {
    "f2": "e", "f4": "f", "f8": "d", "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
}  # fmt: skip


def read_safetensors(path: Path) -> "dict[str, Tensor]":
    """Return the tensors of a safetensors file, after checking it.

    Raises
    ------
    InputError
        Where the header is broken, does not account for every byte, or names a kind of number that is not known.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_safetensors(path)
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise _damaged(f"reading it fails with {type(error).__name__}", str(path)) from error
    return tensors


def check_safetensors(path: Path) -> None:
    """Check a safetensors file without loading it.

    Raises
    ------
    InputError
        Where the header is broken, or does not account for every byte of the file.
    """
    where = str(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(_MAX_HEADER, size - 8):
            raise _damaged(f"its header would be {length} bytes long in a file of {size}", where)
        text = file.read(length)
    try:
        header = parse_json(text.decode("utf-8"), where)
    except (UnicodeDecodeError, InputError):
        raise _damaged("its header is not JSON", where) from None
    if not isinstance(header, dict):
        raise _damaged("its header is not an object", where)
    spans = sorted(_span(name, entry, where) for name, entry in header.items() if name != "__metadata__")
    place = 0
    for begin, end in spans:
        if begin != place:
            raise _damaged("its tensors overlap or leave gaps", where)
        place = end
    if 8 + length + place != size:
        raise _damaged(f"its tensors need {8 + length + place} bytes, the file has {size}", where)


def _span(name: str, entry: object, where: str) -> tuple[int, int]:
    """Return the bytes that a tensor takes, after checking that they are as many as its shape needs."""
    match entry:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
            sizes = [size for size in shape if type(size) is int and size >= 0]
            # A kind that is not in the table is newer than it: then only the place is checked.
            needed = math.prod(sizes) * _BITS[kind] // 8 if kind in _BITS else end - begin
            if len(sizes) == len(shape) and 0 <= begin <= end and needed == end - begin:
                return begin, end
    raise _damaged(f"its entry {name!r} contradicts itself", where)


class _NumberKind:
    """Stands for numpy.dtype while a checkpoint is read: it knows plain numbers only."""

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
    """Stands for the function with which numpy restores a single number."""
    value: float | int | bool = struct.unpack(f"<{kind.form}", data)[0]
    return value


_NUMBER_READERS: tuple[tuple[Callable[..., object], str], ...] = (
    (_NumberKind, "numpy.dtype"),
    (_read_number, "numpy.core.multiarray.scalar"),
    (_read_number, "numpy._core.multiarray.scalar"),
)


def is_torchscript(path: Path) -> bool:
    """Tell whether a file is a program saved by torch.jit.save; nothing of it is run."""
    return any(entry.filename.partition("/")[2] == "constants.pkl" for entry in entries_of(path))


def entries_of(path: Path) -> list[zipfile.ZipInfo]:
    """Return what a zip lists; nothing for a file that is none, or is cut off: torch's own reader tells which."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return []


def _check_archive(path: Path) -> None:
    """Refuse a zip whose entries are larger than the file: torch.save never compresses."""
    entries = entries_of(path)
    if any(entry.filename.endswith(".npy") for entry in entries):
        raise InputError(
            "This is an NPZ of arrays, not a checkpoint.",
            where=str(path),
            hint="Are model and data the wrong way round?",
        )
    size = sum(entry.file_size for entry in entries)
    held = path.stat().st_size
    if size > held:
        raise _damaged(f"its entries would be {size} bytes long in a file of {held}", str(path))


def read_pickle(path: Path, *, device: str, standins: Sequence[tuple[Callable[..., object], str]] = ()) -> object:
    """Return the content of a file written by torch.save, if it needs no code; tensors go to `device`.

    Single numbers of numpy, which training loops leave beside the weights, become numbers of Python.

    Parameters
    ----------
    standins
        What to give the file for further dotted names. The file may call it with anything: it must do no harm.

    Raises
    ------
    InputError
        Where the file is damaged, or is not made of tensors, numbers and plain containers.
    """
    import torch

    where = str(path)
    if is_torchscript(path):
        raise _refused("a TorchScript program", where)
    _check_archive(path)
    try:
        _check_calls(path, [name for _, name in (*_NUMBER_READERS, *standins)])
        with warnings.catch_warnings(), torch.serialization.safe_globals([*_NUMBER_READERS, *standins]):
            # Old files make torch warn about its own storage classes.
            warnings.simplefilter("ignore")
            return _bared(torch.load(path, map_location=device, weights_only=True))
    except NeedlessError as error:
        raise _needless(str(error), where) from None
    except pickle.UnpicklingError as error:
        wanted = re.search(r"GLOBAL (\S+)", str(error))
        if wanted:
            raise _refused(f"an object of {_shown(wanted[1])}", where) from None
        if _is_plain_pickle(path):
            raise _refused("a plain pickle, not one of torch.save", where) from None
        raise _damaged("it is cut off, or not a file written by torch.save", where) from None
    except RuntimeError:
        raise _damaged("it is cut off, or not a file written by torch.save", where) from None
    except MemoryError:
        raise _damaged("it asks for more memory than there is", where) from None
    except Exception as error:
        # The reader meets hostile bytes: whatever it raises means that they are not a checkpoint.
        raise _damaged(f"reading it fails with {type(error).__name__}", where) from error


def _check_calls(path: Path, names: Sequence[str]) -> None:
    if not is_archive(path):
        # The form before the zip: a number, a version, sizes of numbers, the content, keys of the storages.
        with path.open("rb") as file:
            if _is_tar(file.read(512)):
                raise pickle.UnpicklingError("a tar")
            file.seek(0)
            check_calls(file, names, pickles=5, room=path.stat().st_size)
        return
    entries = entries_of(path)
    sizes = sizes_of(entries)
    if not entries or sizes is None or not has_one_list(path):
        raise pickle.UnpicklingError("a zip that can be read in two ways")
    folder = entries[0].filename.partition("/")[0].lower()
    inside = [entry for entry in entries if entry.filename.lower() == f"{folder}/data.pkl"]
    if not inside:
        raise pickle.UnpicklingError("a zip without a pickle")
    head = f"{folder}/data/"
    records = {name.removeprefix(head): size for name, size in sizes.items() if name.startswith(head)}
    with zipfile.ZipFile(path) as archive, io.BytesIO(archive.read(inside[0])) as file:
        check_calls(file, names, room=path.stat().st_size, records=records)


def _is_tar(head: bytes) -> bool:
    """Tell whether torch would take a file for one of its first form, whose headers it follows wherever they lead."""
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


_HOLD_NOTHING = (str, int, float, bool, bytes)


def _bared(content: object) -> object:
    """Take from tensors and dictionaries what a file wrote onto them: it could stand where their own methods do."""
    from torch import Tensor

    seen, waiting = set[int](), [content]
    while waiting:
        value = waiting.pop()
        if value is None or type(value) in _HOLD_NOTHING:
            continue
        if isinstance(value, Tensor):
            vars(value).clear()
        elif isinstance(value, dict) and id(value) not in seen:
            seen.add(id(value))
            notes = getattr(value, "__dict__", {})
            kept = {name: notes[name] for name in ("_metadata",) if name in notes}
            notes.clear()
            notes.update(kept)
            waiting += [*dict.keys(value), *dict.values(value), *kept.values()]
        elif isinstance(value, list | tuple | set) and value and id(value) not in seen:
            seen.add(id(value))
            waiting += value
    return content


def _is_plain_pickle(path: Path) -> bool:
    """Tell whether a file begins as a pickle of a protocol that torch.save does not use."""
    with path.open("rb") as file:
        head = file.read(2)
    return len(head) == 2 and head[0] == 0x80 and head[1] > 2


def _refused(what: str, where: str) -> InputError:
    return InputError(
        f"The file was refused: it holds {what}, and loading that would run code from the file.",
        where=where,
        hint="Where you trust it, convert it once: load it there and save model.state_dict() with "
        "safetensors.torch.save_file.",
    )


def _needless(what: str, where: str) -> InputError:
    return InputError(
        f"The file was refused: it holds {_shown(what)}, more than a checkpoint needs.",
        where=where,
        hint="Where you trust it, save model.state_dict() alone, with safetensors.torch.save_file.",
    )


def _shown(text: str) -> str:
    return ascii(text)[1:-1][:120]


def _damaged(how: str, where: str) -> InputError:
    return InputError(f"The file of weights is damaged: {how}.", where=where, hint="Fetch or save it again.")
