"""Is a zip what torch.save writes: one list of entries at its end, which every reader finds at the same place?

Readers of zips differ in where they look for the list of entries. A file that shows one list to whoever checks it and
another to whoever loads it has not been checked.
"""

import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

_START = b"PK\x03\x04"
_END, _END_64, _PLACE_64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_LONG_END, _LONG_PLACE, _LONG_END_64 = 22, 20, 56


def is_archive(path: Path) -> bool:
    """Tell whether torch takes a file for a zip: by its beginning, whatever stands at its end."""
    with path.open("rb") as file:
        return file.read(4) == _START


def has_one_list(path: Path) -> bool:
    """Tell whether the list of entries ends where the end of the file says, and nothing else could be taken for it."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LONG_END - _LONG_PLACE - _LONG_END_64))
        tail = file.read()
    end = tail[-_LONG_END:]
    if len(end) < _LONG_END or not end.startswith(_END) or end[-2:] != b"\0\0":
        return False
    length, start = struct.unpack("<II", end[12:20])
    stop = size - _LONG_END
    place, end_64 = tail[-_LONG_END - _LONG_PLACE : -_LONG_END], tail[:_LONG_END_64]
    if place.startswith(_PLACE_64):
        stop -= _LONG_PLACE + _LONG_END_64
        if len(tail) < _LONG_END + _LONG_PLACE + _LONG_END_64 or not end_64.startswith(_END_64):
            return False
        if struct.unpack("<Q", place[8:16])[0] != stop or struct.unpack("<Q", end_64[4:12])[0] != _LONG_END_64 - 12:
            return False
        length, start = struct.unpack("<QQ", end_64[40:56])
    return bool(start + length == stop)


def sizes_of(entries: Sequence[zipfile.ZipInfo]) -> dict[str, int] | None:
    """Return the bytes of each entry by its name in lower case; None where two entries share one.

    The reader of torch finds its entries whatever the case of their letters.
    """
    sizes = {entry.filename.lower(): entry.file_size for entry in entries}
    return sizes if len(sizes) == len(entries) else None
