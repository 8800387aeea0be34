"""Which lines does a large text file hold, and is it text at all?

The file is read once, in blocks of whole lines, so that its size does not matter to memory. What is not UTF-8 text is
refused with the line that shows it.
"""

import errno
import hashlib
import stat
from collections.abc import Iterator
from pathlib import Path
from string import ascii_letters
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError
from probes.files.names import nearest_name
from probes.files.sniffing import impostor

LONGEST_LINE = 2**20
"""Bytes of the longest line that is read."""
HINT = "Give UTF-8 text with one sentence a line."
"""The mend for most of what a text file can have wrong."""

_BLOCK = 2**22
_NEWLINE, _RETURN = b"\n", b"\r"
_MARK = b"\xef\xbb\xbf"
_OLD_ENDS = " Its lines may end in CR alone, as on old Macs: write LF."
_WIDE = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"%PDF-": "a PDF document",
    b"PAR1": "a Parquet file",
}
_SPACES = [character.encode() for character in map(chr, range(0x80, 0xD800)) if character.isspace()]
_SPACE_CODES = [int.from_bytes(space.ljust(3, b"\0"), "big") for space in _SPACES]
_AROUND = 2**15


def ordinary_size(path: Path) -> int:
    """Return the bytes of an ordinary file that is not empty.

    Raises
    ------
    InputError
        Where there is none. A pipe or a device is refused unopened, since reading it might never end.
    """
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        near = nearest_name(path)
        hint = f"Did you mean {near}?" if near and near != path.name else "Check the name."
        said = f"The file cannot be read: {error}."
        if isinstance(error, OSError) and error.errno == errno.ENOENT:
            said = "It is a link to nothing." if path.is_symlink() else "There is no such file."
        raise InputError(said, where=str(path), hint=hint) from None
    said = ""
    if not stat.S_ISREG(found.st_mode):
        said = "This is a folder, not a file." if stat.S_ISDIR(found.st_mode) else "This is not an ordinary file."
    if said or not found.st_size:
        raise InputError(said or "The file is empty.", where=str(path), hint=HINT)
    return found.st_size


class Block(NamedTuple):
    """Whole lines in UTF-8, each ended by LF, and where each begins and ends, shape (lines,)."""

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def texts(self, lines: NDArray[np.int64]) -> list[str]:
        """Return some of the lines without surrounding white space."""
        places = zip(self.starts[lines].tolist(), self.ends[lines].tolist(), strict=True)
        return [self.data[start:end].decode().strip() for start, end in places]

    def blank(self) -> NDArray[np.int64]:
        """Return the lines that hold nothing but white space."""
        values = np.frombuffer(self.data, np.uint8)
        first, second, third = (values.take(self.starts + place, mode="clip").astype(np.int32) for place in range(3))
        # Only lines that begin as white space does need be looked at one by one.
        pair = (first << 16) + (second << 8)
        doubtful = np.flatnonzero(
            (first <= ord(" ")) | np.isin(np.where(first < 0xE0, pair, pair + third), _SPACE_CODES)
        )
        return doubtful[[not text for text in self.texts(doubtful)]]


class TextLines:
    """A file that is read line by line, and what has been counted so far.

    Parameters
    ----------
    count, size, characters
        Lines, bytes as they stand in the file, and characters without the ends of lines.
    digest
        SHA-256 of the bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = self.size = self.characters = 0
        self.digest = hashlib.sha256()
        self._returns, self._marked, self._lone_returns = 0, False, False

    def blocks(self) -> Iterator[Block]:
        """Yield the lines of the file, counted and checked.

        Raises
        ------
        InputError
            Where they are not UTF-8 text, or one is longer than `LONGEST_LINE`.
        """
        rest = b""
        try:
            with self.path.open("rb") as file:
                while data := file.read(_BLOCK):
                    self.digest.update(data)
                    rest += data if self.size else self._opened(data)
                    self.size += len(data)
                    end = rest.rfind(_NEWLINE) + 1
                    if end:
                        yield self._checked(rest[:end])
                        rest = rest[end:]
                    if len(rest) > LONGEST_LINE:
                        raise self._too_long(rest, self.count + 1)
        except OSError as error:
            raise InputError(f"The file cannot be read: {error}.", where=str(self.path), hint=HINT) from error
        if rest:
            yield self._checked(rest + _NEWLINE)

    def notes(self) -> Iterator[str]:
        """Yield what was mended on the way, in sentences."""
        if self._marked:
            yield "The file begins with a byte order mark, which was skipped."
        if self._returns:
            yield f"{self._returns} of {self.count} lines end in CR LF; the CR was taken off."

    def refusal(self, said: str, hint: str) -> InputError:
        """Return the error that says what is wrong with the lines of the file as a whole."""
        return InputError(said, where=str(self.path), hint=hint + _OLD_ENDS * self._lone_returns)

    def _opened(self, data: bytes) -> bytes:
        """Return the first bytes less a byte order mark; other forms of file show in them."""
        disguise = impostor(data[:512])
        what = disguise.what if disguise else next((_MAGIC[start] for start in _MAGIC if data.startswith(start)), None)
        if what:
            hint = disguise.hint if disguise else HINT
            raise InputError(f"This is {what}, not text.", where=str(self.path), hint=hint)
        wide = next((_WIDE[start] for start in _WIDE if data.startswith(start)), None)
        if wide:
            raise InputError(f"The text is in {wide}.", where=f"{self.path}:1", hint="Save it as UTF-8.")
        self._marked = data.startswith(_MARK)
        return data.removeprefix(_MARK)

    def _checked(self, data: bytes) -> Block:
        zero = data.find(b"\0")
        if zero >= 0:
            raise self._not_utf8("The file holds a NUL byte: it is not text, or not in UTF-8.", data, zero)
        try:
            characters = len(data if data.isascii() else data.decode())
        except UnicodeDecodeError as error:
            near = data[max(0, error.start - _AROUND) : error.start + _AROUND]
            said = f"The byte 0x{data[error.start]:02x} is not UTF-8 text: {_likely(near)}."
            raise self._not_utf8(said, data, error.start) from None
        values = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(values == ord(_NEWLINE))
        starts = np.append(0, ends[:-1] + 1)
        longest = int((ends - starts).argmax())
        if ends[longest] - starts[longest] > LONGEST_LINE:
            raise self._too_long(data[starts[longest] : ends[longest]], self.count + longest + 1)
        # Before the end of an empty line stands another LF.
        returns = int(np.count_nonzero(values[ends - 1] == ord(_RETURN)))
        self._lone_returns |= data.count(_RETURN) > returns
        self._returns += returns
        self.count += len(ends)
        self.characters += characters - len(ends) - returns
        return Block(data, starts, ends)

    def _not_utf8(self, said: str, data: bytes, at: int) -> InputError:
        line = self.count + data.count(_NEWLINE, 0, at) + 1
        return InputError(said, where=f"{self.path}:{line}", hint="Save it as UTF-8.")

    def _too_long(self, data: bytes, line: int) -> InputError:
        said = f"The line is longer than {LONGEST_LINE:,} bytes."
        hint = "Write one sentence a line." + _OLD_ENDS * (_RETURN in data)
        return InputError(said, where=f"{self.path}:{line}", hint=hint)


def _likely(data: bytes) -> str:
    """Return what a text that is not UTF-8 may be."""
    text = data.decode(errors="replace")
    bad, latin = text.count("\ufffd"), sum(letter in ascii_letters for letter in text)
    if sum(not letter.isascii() for letter in text) > 2 * bad:
        return "the rest looks like UTF-8, so it may be damaged there"
    if 2 * bad < latin:
        return "it looks like Latin-1 or Windows-1252"
    return "it looks like an older encoding of its script, such as Windows-1251 or GB18030"
