"""Single entries of a zip of JSON, unpacked within a limit; Zstandard too, which Python's own reader does not know."""

import hashlib
import struct
import zipfile
import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from probes.core.errors import InputError
from probes.files.json_values import parse_json
from probes.files.opening import unreadable

ZSTANDARD = 93
"""The number of the method in a zip (APPNOTE 6.3.8, section 4.4.5)."""
MOST_VALUES = 2**24
"""Objects and lists that the JSON of a log may hold."""
_HEADER, _ENCRYPTED = 30, 0x1
_HINT = "Fetch or save it again."


class Parts:
    """A zip whose entries were listed and checked by `probes.files.zips.entries`.

    Parameters
    ----------
    most
        Bytes to which all entries that are read may unpack together.
    archive
        The same zip, opened.

    Attributes
    ----------
    names
        The entries by name.
    digest
        SHA-256 of what was read.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, infos: Sequence[zipfile.ZipInfo], most: int) -> None:
        self.path, self._archive = path, archive
        self.names, self._left, self._most = {info.filename: info for info in infos}, most, most
        self.digest = hashlib.sha256()

    def json(self, name: str) -> object:
        """Return the JSON of an entry.

        Raises
        ------
        InputError
            Where it is damaged, too large, no JSON, or packed in a way that is not read here.
        """
        text = self._bytes(self.names[name])
        where = f"{self.path}, {name}"
        try:
            decoded = text.decode()
        except UnicodeDecodeError as error:
            message = f"The byte 0x{text[error.start]:02x} at offset {error.start} is not UTF-8 text."
            raise InputError(message, where=where, hint=_HINT) from None
        return parse_log(decoded, where)

    def _bytes(self, info: zipfile.ZipInfo) -> bytes:
        where = f"{self.path}, {info.filename}"
        if max(info.file_size, info.compress_size) > self._left:
            raise self._too_large(where)
        if info.flag_bits & _ENCRYPTED:
            raise InputError("The entry is encrypted.", where=where, hint="Give the log as the harness wrote it.")
        try:
            with self._opened(info, where) as file:
                # One byte more, since an entry may hold more than its size says.
                data = file.read(info.file_size + 1)
        except OSError as error:
            # pyarrow's errors of damaged bytes are errors of the system without a number.
            raise unreadable(self.path, error) if error.errno else _damaged(where) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, struct.error) as error:
            raise _damaged(where) from error
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise _damaged(where)
        self._left -= len(data)
        self.digest.update(data)
        return data

    def _opened(self, info: zipfile.ZipInfo, where: str) -> IO[bytes] | Any:
        if info.compress_type != ZSTANDARD:
            return self._archive.open(info)
        if find_spec("pyarrow") is None:
            raise InputError(
                "The log is packed by Zstandard, which pyarrow unpacks, and pyarrow is not installed.",
                where=where,
                hint="pip install 'miles-audit[tables]', or `inspect log convert --to json`.",
            )
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.BufferReader(self._packed(info)), "zstd")

    def _packed(self, info: zipfile.ZipInfo) -> bytes:
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            # The fixed part ends with the lengths of the name and the extra field.
            name, extra = struct.unpack("<26xHH", file.read(_HEADER))
            file.seek(info.header_offset + _HEADER + name + extra)
            return file.read(info.compress_size)

    def _too_large(self, where: str) -> InputError:
        message = f"The scores unpack to more than {self._most:,} bytes."
        return InputError(message, where=where, hint="Give logs of fewer samples, or with smaller metadata.")


def parse_log(text: str, where: str) -> object:
    """Return the JSON of a log.

    Raises
    ------
    InputError
        Where it is none, or holds more than `MOST_VALUES` objects and lists.
    """
    # Counted before any is made: three bytes of an empty list take sixty of memory.
    if text.count("{") + text.count("[") > MOST_VALUES:
        message = f"The log holds more than {MOST_VALUES:,} objects and lists."
        raise InputError(message, where=where, hint="Give logs of fewer samples.")
    return parse_json(text, where, lone=True)


def _damaged(where: str) -> InputError:
    return InputError("The entry is damaged.", where=where, hint=_HINT)
