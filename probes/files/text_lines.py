"""Lines of a large text file, read and counted block by block, in constant memory."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.gzips import is_gzip
from probes.files.text import MARK, OLD_ENDS, byte_blocks, too_long

LONGEST_LINE = 2**20
"""Bytes of the longest line that is read."""
HINT = "Give UTF-8 text with one sentence a line."
"""The hint for most errors of a text file."""

BLOCK = 2**22
"""Bytes that are read at a time."""
_NEWLINE, _RETURN = b"\n", b"\r"
_SPACES = [character.encode() for character in map(chr, range(0x80, 0xD800)) if character.isspace()]
_SPACE_CODES = [int.from_bytes(space.ljust(3, b"\0"), "big") for space in _SPACES]


class Block(NamedTuple):
    """Whole lines in UTF-8, each ended by LF, and where each begins and ends, shape (lines,)."""

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def texts(self, lines: NDArray[np.int64]) -> list[str]:
        """Return some of the lines without surrounding white space."""
        spans = zip(self.starts[lines].tolist(), self.ends[lines].tolist(), strict=True)
        return [self.data[start:end].decode().strip() for start, end in spans]

    def blank(self) -> NDArray[np.int64]:
        """Return the lines that hold nothing but white space."""
        values = np.frombuffer(self.data, np.uint8)
        first, second, third = (values.take(self.starts + offset, mode="clip").astype(np.int32) for offset in range(3))
        # Only lines whose first byte may be white space are checked one by one.
        pair = (first << 16) + (second << 8)
        doubtful = np.flatnonzero(
            (first <= ord(" ")) | np.isin(np.where(first < 0xE0, pair, pair + third), _SPACE_CODES)
        )
        return doubtful[[not text for text in self.texts(doubtful)]]


class TextLines:
    """A file that is read line by line, and what has been counted so far.

    Parameters
    ----------
    longest
        Bytes of the longest line that is read.
    block
        Bytes that are read at a time.

    Attributes
    ----------
    count, size, characters
        Lines, bytes of the text, and characters without the ends of lines.
    digest
        SHA-256 of the bytes of the file, which may be compressed.
    """

    def __init__(self, path: Path, *, longest: int = LONGEST_LINE, block: int = BLOCK) -> None:
        self.path, self._longest, self._block = path, longest, block
        self.count = self.size = self.characters = 0
        self.digest = hashlib.sha256()
        self._returns, self._marked, self._lone_returns = 0, False, False

    def blocks(self) -> Iterator[Block]:
        """Yield the lines of the file, counted and checked.

        Raises
        ------
        InputError
            Where they are not UTF-8 text, or one is longer than `longest`.
        """
        for data in byte_blocks(self.path, hint=HINT, longest=self._longest, size=self._block, seen=self._see):
            if is_gzip(self.path):
                self.size += len(data)
            yield self._counted(data if data.endswith(_NEWLINE) else data + _NEWLINE)

    def notes(self) -> Iterator[str]:
        """Yield sentences about what was repaired while reading."""
        if self._marked:
            yield "The file begins with a byte order mark, which was skipped."
        if self._returns:
            yield f"{self._returns} of {self.count} lines end in CR LF; the CR was taken off."

    def refusal(self, message: str, hint: str) -> InputError:
        """Return the error that says what is wrong with the lines of the file as a whole."""
        return InputError(message, where=str(self.path), hint=hint + OLD_ENDS * self._lone_returns)

    def _see(self, data: bytes) -> None:
        self.digest.update(data)
        if is_gzip(self.path):
            return
        if not self.size:
            self._marked = data.startswith(MARK)
        self.size += len(data)

    def _counted(self, data: bytes) -> Block:
        characters = len(data if data.isascii() else data.decode())
        values = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(values == ord(_NEWLINE))
        starts = np.append(0, ends[:-1] + 1)
        longest = int((ends - starts).argmax())
        if ends[longest] - starts[longest] > self._longest:
            where = f"{self.path}:{self.count + longest + 1}"
            raise too_long(data[starts[longest] : ends[longest]], where, self._longest)
        # Before the end of an empty line stands another LF.
        returns = int(np.count_nonzero(values[ends - 1] == ord(_RETURN)))
        self._lone_returns |= data.count(_RETURN) > returns
        self._returns += returns
        self.count += len(ends)
        self.characters += characters - len(ends) - returns
        return Block(data, starts, ends)
