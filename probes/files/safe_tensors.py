"""Read safetensors files, which hold tensors and nothing else.

A file is checked by its header alone: its length, its JSON, and that the tensors fill the rest of the file exactly.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.core.errors import InputError
from probes.files.json_values import parse_json
from probes.files.opening import reading
from probes.files.weight_errors import damaged

if TYPE_CHECKING:
    from torch import Tensor

Refusal = Callable[[str, str], InputError]
"""Makes the refusal of a damaged file from how it is damaged, and where it lies."""

_LARGEST_HEADER = 2**25
_MOST_AXES, _LONGEST_AXIS, _MOST_NUMBERS = 64, 2**48, 2**60
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64,
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
        raise damaged(f"reading it fails with {type(error).__name__}", str(path)) from error
    return tensors


def check_safetensors(path: Path, damaged: Refusal = damaged) -> tuple[int, dict[str, Any]]:
    """Check a safetensors file without loading it; return where its numbers begin, and its header.

    `damaged` makes the refusal of what and where, of a file that holds no weights.

    Raises
    ------
    InputError
        Where the header is broken, or does not account for every byte of the file.
    """
    where = str(path)
    size = path.stat().st_size
    with reading(path), path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(_LARGEST_HEADER, size - 8):
            raise damaged(f"its header would be {length} bytes long in a file of {size}", where)
        text = file.read(length)
    try:
        header = parse_json(text.decode("utf-8"), where, once=True)
    except (UnicodeDecodeError, InputError):
        raise damaged("its header is not JSON that can be read", where) from None
    if not isinstance(header, dict):
        raise damaged("its header is not an object", where)
    spans = sorted(_span(name, entry, where, damaged) for name, entry in header.items() if name != "__metadata__")
    expected = 0
    for begin, end in spans:
        if begin != expected:
            raise damaged("its tensors overlap or leave gaps", where)
        expected = end
    if 8 + length + expected != size:
        raise damaged(f"its tensors need {8 + length + expected} bytes, the file has {size}", where)
    return 8 + length, header


def _span(name: str, entry: object, where: str, damaged: Refusal) -> tuple[int, int]:
    """Return where the bytes of a tensor begin and end, after checking their number against its shape."""
    match entry:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
            count = _count(shape)
            # A kind that is not in the table is newer than it: then only the place is checked.
            if count is not None and 0 <= begin <= end:
                needed = count * _BITS[kind] // 8 if kind in _BITS else end - begin
                if needed == end - begin:
                    return begin, end
    raise damaged(f"its entry {ascii(name)[:200]} contradicts itself", where)


def _count(shape: list[object]) -> int | None:
    """Return how many numbers a shape has; None where it is not the shape of a tensor that a file could hold."""
    if len(shape) > _MOST_AXES:
        return None
    count = 1
    for size in shape:
        if type(size) is not int or not 0 <= size <= _LONGEST_AXIS:
            return None
        # Step by step: a product of numbers without bounds takes time that grows with its digits.
        count *= size
        if count > _MOST_NUMBERS:
            return None
    return count
