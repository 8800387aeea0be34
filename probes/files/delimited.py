"""Delimited text (CSV, TSV, semicolons), read in blocks of rows: memory does not grow with the file.

The separator is found in the header. Every row has as many fields as the header, or is refused with its line.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from probes.core.errors import InputError
from probes.files.gzips import plain_suffix
from probes.files.names import separator_hint
from probes.files.text import text_blocks

MOST_COLUMNS = 2**20
LONGEST_FIELD = 2**17
"""Characters of the longest field: an open quotation mark would else swallow the rest of the file."""
HINT = "Give a table with a header and rows."

MOST_AT_ONCE = 2**12
"""Rows of a block, at most."""
_BYTES = 2**16
"""Bytes of a block of rows, about; its cells take up to four times as much, and more where they are short."""
_PIECE = 2**15
"""Bytes of a piece of text, as `probes.files.text` gives it."""
_MOST_PIECES, _AT_ONCE = 4, 16
"""Pieces of text after which a block ends, and rows that are read before these are counted again."""
_TABS = (".tsv", ".tab")
# What Excel writes and reads above a header.
_NAMED = re.compile(r'("?)sep=([,;\t|])\1\s*', re.IGNORECASE)
_NUMBERS = re.compile(r"[\d\s.,;eE+-]*;[\d\s.,;eE+-]*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The separator of fields, and what follows from it: quoting and the decimal mark.

    >>> Dialect(";").decimal_comma, Dialect("\\t").name
    (True, 'TSV')
    """

    separator: str

    @property
    def name(self) -> str:
        """The name of the separator in messages."""
        return {"\t": "TSV", ";": "CSV with semicolons"}.get(self.separator, "CSV")

    @property
    def quoted(self) -> bool:
        """Whether quotation marks have a meaning; in TSV files of corpora they are plain characters."""
        return self.separator != "\t"

    @property
    def decimal_comma(self) -> bool:
        """Whether 2,31 is a number: where the comma is not the separator, numbers may need it."""
        return self.separator == ";"


def find_dialect(suffix: str, header: str) -> Dialect:
    """Find the separator: a tab by the suffix, else what separates the names of the header, outside of quotes.

    Parameters
    ----------
    suffix
        Of the file's name, in lower case.
    header
        The first line. Where it holds numbers alone, a comma beside semicolons is a decimal comma.

    >>> [find_dialect(".csv", text).separator for text in ("a,b;c", "a;b", '"a;b",c', "a\\tb", "a")]
    [',', ';', ',', '\\t', ',']
    >>> find_dialect(".txt", "a,b\\tc").separator, find_dialect(".csv", "1,5;2,5").separator
    ('\\t', ';')
    """
    # Separators between quotation marks do not count.
    bare = "".join(header.split('"')[::2])
    order = ";" if _NUMBERS.fullmatch(bare) else ",;\t" if suffix == ".csv" else "\t,;"
    return Dialect("\t" if suffix in _TABS else next((mark for mark in order if mark in bare), ","))


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows: the line on which each begins, and its fields."""

    lines: "range | list[int]"
    rows: list[list[str]]


class _Pieces:
    """Blocks of text as files of lines, counted. What holds the open file does not lead back to who reads the rows.

    Else the file would stay open after a refusal until the garbage is collected.
    """

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts, self.count = texts, 0

    def __iter__(self) -> Iterator[io.StringIO]:
        for text in self._texts:
            self.count += 1
            yield io.StringIO(text, newline="")


class Delimited:
    """A delimited file whose first row has been read.

    Parameters
    ----------
    path
        The file, which may be compressed (`.csv.gz`). Its dialect follows from its suffix and its first line that is
        not blank, such as `sep=;`.
    keep_empty
        Keep rows of one empty field, such as `""` below a header of one name; else they are blank lines.
    numbers
        All rows are of numbers, which may be quoted between tabs too, and the suffix says nothing.
    longest
        Characters of the longest field.
    most
        Rows of a block, at most.

    Attributes
    ----------
    dialect, header, header_line
        The separator, the fields of the first row that is not blank, and its line.
    """

    def __init__(
        self,
        path: Path,
        *,
        keep_empty: bool = False,
        numbers: bool = False,
        longest: int = LONGEST_FIELD,
        most: int = MOST_AT_ONCE,
    ) -> None:
        self.path, self._keep_empty, self._longest, self._most = path, keep_empty, longest, most
        self._taken = self._line = self._count = 0
        self._pieces = _Pieces(text_blocks(path, hint=HINT))
        lines = chain.from_iterable(self._pieces)
        above = self._above(lines)
        if named := _NAMED.fullmatch(above[-1]):
            self.dialect, self._line = Dialect(named[2]), len(above)
            above = self._above(lines)
        else:
            self.dialect = find_dialect("" if numbers else plain_suffix(path), above[-1])
        self._reader = csv.reader(
            chain(above, lines),
            strict=True,
            delimiter=self.dialect.separator,
            quoting=csv.QUOTE_MINIMAL if numbers or self.dialect.quoted else csv.QUOTE_NONE,
        )
        self.header_line, self.header = self._first()
        if len(self.header) > MOST_COLUMNS:
            message = f"There are {len(self.header)} columns; at most {MOST_COLUMNS} are read."
            raise InputError(message, where=f"{path}:{self.header_line}", hint=HINT)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; one without a name is called by its index, counted from 1.

        Raises
        ------
        InputError
            Where a name occurs twice.
        """
        names = tuple(name.strip() or f"column {index}" for index, name in enumerate(self.header, start=1))
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is None:
            return names
        message = f"The column {twice!r} stands twice in the header."
        where = f"{self.path}:{self.header_line}"
        raise InputError(message, where=where, hint="Give every column a name of its own.")

    def blocks(self) -> Iterator[Block]:
        """Yield the rows below the first one, without blank lines.

        Raises
        ------
        InputError
            Where a row cannot be read or has not as many fields as the first one.
        """
        # Few rows at first, as they may be very long; then as many as have `_BYTES` by the mean so far.
        size = min(16, self._most)
        while True:
            block, error = self._read(size)
            if block is None:
                return
            self._check_widths(block)
            if block.rows:
                yield block
            # Two blocks at once would take twice the memory.
            del block
            if error is not None:
                raise self._refusal(error)
            size = max(1, min(2 * size, self._most, _BYTES * self._count // (self._pieces.count * _PIECE)))

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the fields of each row below the first one."""
        for block in self.blocks():
            yield from zip(block.lines, block.rows, strict=True)
            del block

    def _above(self, lines: Iterator[str]) -> list[str]:
        """Take lines up to the next one that is not blank."""
        above = []
        for line in lines:
            above.append(line)
            if line.strip():
                return above
        raise InputError("The file is empty.", where=str(self.path), hint=HINT)

    def _first(self) -> tuple[int, list[str]]:
        while True:
            block, error = self._read(1)
            if error is not None:
                raise self._refusal(error)
            if block is None:
                # A single empty text between quotation marks is no row.
                return 1, []
            if block.rows:
                return block.lines[0], block.rows[0]

    def _read(self, size: int) -> tuple[Block | None, str | None]:
        """Return the next rows that are not blank, and what is wrong with the row after them, if anything."""
        rows: list[list[str]] = []
        wrong: str | None = None
        with _field_limit(self._longest):
            try:
                # Rows read before an error stay in the list. A few at a time, as they may be far longer than the mean.
                begin, count = self._pieces.count, -1
                while count < len(rows) < size and self._pieces.count < begin + _MOST_PIECES:
                    count = len(rows)
                    rows.extend(islice(self._reader, min(_AT_ONCE, size - count)))
            except csv.Error as error:
                # The error itself would lead back to this frame, and keep the file open.
                wrong = str(error)
        if not rows and wrong is None:
            return None, None
        # Blank lines count: a block of them alone would else be followed by ever smaller ones.
        self._count += len(rows)
        first, taken = self._line + 1, self._reader.line_num - self._taken
        self._taken = self._reader.line_num
        lines: range | list[int] = range(first, first + len(rows))
        if taken == len(rows):
            self._line += taken
        else:
            lines = []
            for row in rows:
                lines.append(self._line + 1)
                self._line += 1 + sum(map(_breaks, row))
        short = {*map(len, rows)}
        if short & {0, 1}:
            kept = [index for index, row in enumerate(rows) if self._is_row(row)]
            lines, rows = [lines[index] for index in kept], [rows[index] for index in kept]
        return Block(lines, rows), wrong

    def _is_row(self, row: list[str]) -> bool:
        return len(row) > 1 or (bool(row) and (self._keep_empty or bool(row[0].strip())))

    def _check_widths(self, block: Block) -> None:
        width = len(self.header)
        # Rows are checked one by one in uneven blocks only, as a table may have ten million of them.
        if {*map(len, block.rows)} <= {width}:
            return
        line, row = next(pair for pair in zip(block.lines, block.rows, strict=True) if len(pair[1]) != width)
        separator = self.dialect.separator
        hint = {"\t": "A tab separates fields.", ",": "Put a text that holds a comma between quotation marks."}
        raise InputError(
            f"The row has {len(row)} fields, the header {width}.",
            where=f"{self.path}:{line}",
            hint="Every row needs as many fields as the header. "
            + hint.get(separator, f"{'Semicolons' if separator == ';' else 'Bars'} separate fields, as in the header.")
            + separator_hint(self.header, separator),
        )

    def _refusal(self, error: str) -> InputError:
        return InputError(
            f"The row cannot be read: {error}.",
            where=f"{self.path}:{self._line + 1}",
            hint="A quotation mark may be open: inside a quoted text it is written twice.",
        )


def _breaks(field: str) -> int:
    return field.count("\n") + field.count("\r") - field.count("\r\n")


@contextmanager
def _field_limit(longest: int) -> Iterator[None]:
    """Set the longest field while rows are read; the limit is one for the whole process."""
    before = csv.field_size_limit(longest)
    try:
        yield
    finally:
        csv.field_size_limit(before)
