"""List the entries of a zip, refusing one that two readers could read differently.

Readers of zips differ in where they look for the list of entries, in how many they expect, and in how they decode
names. A file that shows one list to whoever checks it and another to whoever loads it has not been checked.
"""

import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from probes.core.errors import InputError
from probes.files.opening import unreadable

MOST_ENTRIES = 2**16
"""Entries that a zip may list."""
_END, _END_64, _LOCATOR_64, _ENTRY = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x01\x02"
_HEADER = b"PK\x03\x04"
_LONG_END, _LONG_LOCATOR, _LONG_END_64, _LONG_ENTRY, _LONG_HEADER = 22, 20, 56, 46, 30
_UTF8, _OTHER_NAME = 0x800, 0x7075
_HINT = "Fetch or save it again."


def entries(path: Path, *, most: int = MOST_ENTRIES, unicode: bool = False) -> list[zipfile.ZipInfo]:
    """Return the entries of a zip, whose raw names are distinct and ASCII.

    Parameters
    ----------
    most
        Entries that it may list; a longer list is refused before it is read.
    unicode
        Whether names may also be UTF-8 that is marked as such, and differ in the case of their letters alone.
        The reader of torch finds its entries whatever the case.

    Raises
    ------
    InputError
        Where it cannot be read, or readers could read it in two ways.
    """
    try:
        listed = _directory(path)
        if listed is None:
            raise _damaged(path, "its list of entries is cut off, or could be read in two ways")
        start, length, count = listed
        if count > most:
            hint = "Save fewer and larger arrays."
            raise InputError(f"The zip lists {count} entries; {most} can be read.", where=str(path), hint=hint)
        names = _checked_names(path, _raw_names(path, start, length, count), unicode)
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
        misplaced = _misplaced(path, infos, start)
    except OSError as error:
        raise unreadable(path, error) from error
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise _damaged(path, f"{error}".rstrip(".") or type(error).__name__) from error
    # zipfile has read the same bytes in its own way.
    if names != [info.filename for info in infos] or names != [info.orig_filename for info in infos]:
        raise _damaged(path, "readers see different names in it")
    if misplaced:
        raise _damaged(path, misplaced)
    # The reader of torch makes up bytes for a folder.
    if any(info.is_dir() and info.file_size for info in infos):
        raise _damaged(path, "a folder in it has bytes")
    return infos


def _directory(path: Path) -> tuple[int, int, int] | None:
    """Return offset, bytes and entries of the central directory; None where it is not the only one."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LONG_END - _LONG_LOCATOR - _LONG_END_64))
        tail = file.read()
    end = tail[-_LONG_END:]
    if len(end) < _LONG_END or not end.startswith(_END) or end[-2:] != b"\0\0":
        return None
    count, length, start = struct.unpack("<HII", end[10:20])
    stop = size - _LONG_END
    locator, end_64 = tail[-_LONG_END - _LONG_LOCATOR : -_LONG_END], tail[:_LONG_END_64]
    if locator.startswith(_LOCATOR_64):
        stop -= _LONG_LOCATOR + _LONG_END_64
        if len(tail) < _LONG_END + _LONG_LOCATOR + _LONG_END_64 or not end_64.startswith(_END_64):
            return None
        if struct.unpack("<Q", locator[8:16])[0] != stop or struct.unpack("<Q", end_64[4:12])[0] != _LONG_END_64 - 12:
            return None
        count, length, start = struct.unpack("<QQQ", end_64[32:56])
    return (start, length, count) if start + length == stop else None


def _raw_names(path: Path, start: int, length: int, count: int) -> Iterator[tuple[bytes, int]]:
    """Yield the bytes and the flags of every name in the central directory: readers count its entries or its bytes."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(length)
    offset = 0
    for _ in range(count):
        head = data[offset : offset + _LONG_ENTRY]
        if len(head) < _LONG_ENTRY or not head.startswith(_ENTRY):
            raise ValueError("its list of entries is shorter than the file says")
        (flags,) = struct.unpack("<H", head[8:10])
        name, extra, comment = struct.unpack("<HHH", head[28:34])
        end = offset + _LONG_ENTRY + name
        if _has_other_name(data[end : end + extra]):
            raise ValueError("an entry has two names")
        yield data[offset + _LONG_ENTRY : end], flags
        offset = end + extra + comment
    if offset != length:
        raise ValueError("its list of entries is longer than the file says")


def _misplaced(path: Path, infos: Sequence[zipfile.ZipInfo], start: int) -> str:
    """Return what is wrong where entries do not stand one behind the other before the list of entries."""
    stop = start
    with path.open("rb") as file:
        for info in sorted(infos, key=lambda info: info.header_offset, reverse=True):
            data = info.header_offset + _LONG_HEADER
            if data <= stop:
                file.seek(info.header_offset)
                head = file.read(_LONG_HEADER)
                if not head.startswith(_HEADER):
                    return "an entry in it has no header"
                # Readers take these lengths from here, not from the list.
                data += sum(struct.unpack("<HH", head[26:]))
            if data + info.compress_size > stop:
                return "two entries in it share bytes" if stop < start else "an entry in it stands outside of the file"
            stop = info.header_offset
    return ""


def _has_other_name(extra: bytes) -> bool:
    """Tell whether an extra field holds a name in Unicode, which some readers prefer."""
    offset = 0
    while offset + 4 <= len(extra):
        kind, length = struct.unpack("<HH", extra[offset : offset + 4])
        if kind == _OTHER_NAME:
            return True
        offset += 4 + length
    return False


def _checked_names(path: Path, raw: Iterator[tuple[bytes, int]], unicode: bool) -> list[str]:
    """Return names as text, after comparing their bytes."""
    names: list[str] = []
    seen: set[bytes] = set()
    for name, flags in raw:
        shown = ascii(name)[1:][:80]
        # Without the mark some readers decode cp437, others UTF-8; to some a control character ends a name.
        if min(name, default=0) < 0x20 or not (name.isascii() or (unicode and flags & _UTF8)):
            raise _damaged(path, f"the name {shown} of an entry can be read in two ways")
        # Of bytes, lower() changes ASCII letters alone.
        same = name if unicode else name.lower()
        if same in seen:
            raise InputError(f"The zip lists {shown} twice.", where=str(path), hint="Save it again.")
        seen.add(same)
        names.append(name.decode())
    return names


def _damaged(path: Path, how: str) -> InputError:
    return InputError(f"The file cannot be read: {how}.", where=str(path), hint=_HINT)
