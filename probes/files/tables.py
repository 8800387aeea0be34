"""Rows and columns of a file: CSV, TSV, JSON lines, JSON lists, Parquet and Arrow, read as text.

Nothing is guessed about meaning here: a row is a mapping of strings, with the line on which it begins. A file
that is not what its name says, or whose rows do not fit its header, is refused with the line that shows it.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path

from probes.core.errors import InputError
from probes.files.arrow import read_arrow
from probes.files.decimals import NumberColumn, mark_hint, with_point
from probes.files.delimited import HINT, Delimited
from probes.files.gzips import plain_suffix, read_plain_head
from probes.files.json_values import json_text, parse_json
from probes.files.names import suggest_column
from probes.files.table_rows import Row as Row
from probes.files.table_rows import Rows
from probes.files.table_sources import find_table
from probes.files.text import MARK, check_size, numbered_lines, read_text

MOST_ROWS = 5_000_000
"""Rows of a table that is held as text, each of which takes 200 bytes and more."""
MOST_CELLS = 30_000_000
"""Cells of a table that is held as text, each of which takes 50 bytes and more."""
LARGEST_JSON = 2**27
"""Bytes of a JSON list, which is held as a whole: it takes up to forty times as much memory."""
SEMICOLONS = "Fields are separated by semicolons; numbers may have decimal commas."
FEWER = "Leave out rows and columns that are not needed, or split the file."

_JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})
_WRAPPED = re.compile(rb'"([^"\\]{1,60})"\s*:\s*\[\s*\{')
_BLOCK = 2**8
_VALUES = attrgetter("values")


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `sources` are the files that it was made of, `notes` say how it was read where that is unusual.

    Cells are as in the file; numbers `with_points` may have decimal commas where `decimal_comma` is true, and have them
    or points where the user names the mark, `decimal`; such a mark may be named where the file is `delimited`.
    `nested` says where a column first holds a list or an object, whose cell is the text of that as JSON.
    `separator` parts the fields of a delimited file; it is empty for others.
    """

    path: Path
    columns: tuple[str, ...]
    rows: Sequence[Row]
    sources: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    decimal_comma: bool = False
    decimal: str | None = None
    nested: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""

    @property
    def delimited(self) -> bool:
        """Whether the file is delimited text, in which numbers may have a decimal comma."""
        return bool(self.separator)

    def suggest(self, name: str) -> str:
        """Return a hint on a missing column: the names that there are, the most similar one first."""
        return suggest_column(name, self.columns, self.separator)

    def check_flat(self, names: Iterable[str] | None = None) -> None:
        """Refuse lists and objects in columns, default all; see `check_flat`."""
        check_flat(self.columns if names is None else names, self.nested)

    def mark_hint(self, texts: Iterable[str], usual: str, *, option: bool) -> str:
        """Return the hint on the marks of cells that should be numbers, the `usual` one where marks are not the matter.

        `option` says that the command has `--decimal`.
        """
        option &= self.delimited
        hints = (mark_hint(text, self.decimal_comma, self.decimal, option=option) for text in texts)
        return next(filter(None, hints), usual)

    def with_points(self, names: Collection[str]) -> "Table":
        """Return the table with decimal points in columns of numbers.

        Raises
        ------
        InputError
            Where a column has decimal points and commas, or its commas may be those of thousands.
        """
        if not self.decimal_comma and self.decimal is None:
            return self
        return replace(self, rows=with_points(self.rows, names, self.path, self.decimal))


def check_flat(names: Iterable[str], nested: Mapping[str, str]) -> None:
    """Refuse columns that hold a list or an object: its JSON would pass for a text or for the name of a group.

    Raises
    ------
    InputError
        Where one of the names is `nested`.
    """
    name = next((name for name in names if name in nested), None)
    if name is not None:
        message = f"The column {name!r} holds a list or an object here, not one text or number."
        hint = "Write one text or number a cell, such as the words of a list joined by spaces."
        raise InputError(message, where=nested[name], hint=hint)


def with_points(rows: Sequence[Row], names: Collection[str], path: Path, decimal: str | None) -> Sequence[Row]:
    """Return rows whose numbers may have decimal commas, as `Table.with_points` does."""
    lines = [row.line for row in rows]
    commas = [name for name in names if _has_commas(name, rows, lines, NumberColumn(name, path, decimal))]
    if not commas:
        return rows
    return tuple(
        replace(row, values={**row.values, **{name: with_point((get(name) or "").strip()) for name in commas}})
        for row in rows
        for get in (row.values.get,)
    )


def _has_commas(name: str, rows: Sequence[Row], lines: Sequence[int], column: NumberColumn) -> bool:
    column.look((row.values.get(name) for row in rows), lines)
    return column.finish()


def read_table(
    path: Path,
    decimal: str | None = None,
    *,
    most_rows: int = MOST_ROWS,
    most_cells: int = MOST_CELLS,
    lean: bool = False,
) -> Table:
    """Read a table; its form follows from its suffix, or from its first line where the suffix says nothing.

    It is a file, which may be compressed (`.csv.gz`), or a folder or address as `probes.files.table_sources` has them;
    rows are counted through all of its files.

    Cells are given as they are: `Table.with_points` reads decimal commas, in a file with semicolons or where the user
    names the mark, `decimal`. A table of more than `most_rows` or `most_cells` is refused before it is held. One
    that is `lean` holds its rows as columns (`Rows`): a tenth of the memory, but a row by its number takes longer.

    Raises
    ------
    InputError
        Where the file cannot be read, is not UTF-8 text, is empty or too large, or a row does not fit.
    """
    source = find_table(path)
    semicolons = False
    separator = ""
    nested: dict[str, str] = {}
    if source.is_arrow:
        check_decimal(path, decimal)
        columns, values, lists = read_arrow(path, source.files, most_rows=most_rows, most_cells=most_cells)
        rows = _arrow_rows(columns, values, lean=lean)
        nested |= {name: f"{path}, column {name[:60]}" for name in lists}
    elif is_json(file := source.file):
        check_decimal(path, decimal)
        rows = _limited(file, _json_rows(file, most_rows, nested), most_rows, most_cells, Rows() if lean else None)
        if len(rows) == 1:
            _check_wrapped(file, rows[0].values)
        names = rows.columns if isinstance(rows, Rows) else (name for row in rows for name in row.values)
        columns = tuple(dict.fromkeys(names))
    else:
        table = Delimited(file)
        columns = table.names
        if lean:
            rows = _delimited_columns(table, most_rows, most_cells)
        else:
            rows = _limited(file, _delimited_rows(table), most_rows, most_cells)
        semicolons, separator = table.dialect.decimal_comma, table.dialect.separator
    if not rows:
        message = "The file has a header but no rows." if columns else "The file holds no rows."
        raise InputError(message, where=str(path), hint=HINT)
    return Table(
        Path(source.written),
        columns,
        rows,
        sources=source.files,
        notes=(*source.notes, *decimal_notes(semicolons, decimal)),
        decimal_comma=semicolons if decimal is None else decimal == ",",
        decimal=decimal,
        nested=nested,
        separator=separator,
    )


def decimal_notes(semicolons: bool, decimal: str | None) -> tuple[str, ...]:
    """Return how fields are separated and numbers written, where that is unusual, in a sentence.

    >>> decimal_notes(True, "."), decimal_notes(False, None)
    (('Fields are separated by semicolons; numbers have decimal points.',), ())
    """
    if decimal is None:
        return (SEMICOLONS,) if semicolons else ()
    mark = f"numbers have decimal {'commas' if decimal == ',' else 'points'}"
    return (f"Fields are separated by semicolons; {mark}." if semicolons else f"{mark[0].upper()}{mark[1:]}.",)


def check_decimal(path: Path, decimal: str | None) -> None:
    """Refuse a decimal comma of a file that is neither CSV nor TSV."""
    if decimal == ",":
        message = "The file is neither CSV nor TSV: its numbers have no decimal commas."
        raise InputError(message, where=f"{path}, --decimal", hint="Leave out --decimal.")


def is_json(path: Path) -> bool:
    """Tell whether a file holds JSON, by its suffix or its first character."""
    head = read_plain_head(path, wanted="text", hint=HINT).removeprefix(MARK)
    return plain_suffix(path) in _JSON_SUFFIXES or head.lstrip()[:1] in (b"{", b"[")


def _limited(
    path: Path, blocks: Iterator[list[Row]], most_rows: int, most_cells: int, held: Rows | None = None
) -> Sequence[Row]:
    """Return all rows, `held` as columns or as they are; a table that is too large is refused while it is read."""
    found: list[Row] = []
    count = cells = 0
    for block in blocks:
        if held is None:
            found += block
        else:
            held.add_rows(block)
        count += len(block)
        cells += sum(map(len, map(_VALUES, block)))
        if count > most_rows or cells > most_cells:
            raise _too_many(path, block[-1].line, most_rows, most_cells)
    return tuple(found) if held is None else held


def _too_many(path: Path, line: int, most_rows: int, most_cells: int) -> InputError:
    message = f"There are more than {most_rows:,} rows or {most_cells:,} cells."
    return InputError(message, where=f"{path}:{line}", hint=FEWER)


def _delimited_columns(table: Delimited, most_rows: int, most_cells: int) -> Rows:
    rows = Rows(table.names)
    for block in table.blocks():
        rows.add_cells(block.lines, block.rows)
        if len(rows) > most_rows or len(rows) * len(table.names) > most_cells:
            raise _too_many(table.path, block.lines[-1], most_rows, most_cells)
    return rows


def _arrow_rows(columns: Sequence[str], values: Sequence[Sequence[str | None]], *, lean: bool) -> Sequence[Row]:
    if not lean:
        return tuple(Row(line, dict(zip(columns, row, strict=True))) for line, row in enumerate(values, start=1))
    rows = Rows(columns)
    for start in range(0, len(values), _BLOCK):
        part = values[start : start + _BLOCK]
        rows.add_cells(range(start + 1, start + 1 + len(part)), part)
    return rows


def _delimited_rows(table: Delimited) -> Iterator[list[Row]]:
    for block in table.blocks():
        pairs = zip(block.lines, block.rows, strict=True)
        yield [Row(line, dict(zip(table.names, row, strict=True))) for line, row in pairs]


def _json_rows(path: Path, most_rows: int, nested: dict[str, str]) -> Iterator[list[Row]]:
    head = read_plain_head(path, wanted="text", hint=HINT).removeprefix(MARK)
    if head.lstrip()[:1] == b"[":
        values = enumerate(_listed(path, most_rows), start=1)
        yield [Row(number, _object(value, f"{path}, entry {number}", nested)) for number, value in values]
        return
    lines = ((line, content) for line, content in numbered_lines(path, hint=HINT) if content.strip())
    # No row of JSON lines ends so; the line is whole where another follows in what was read.
    first, line_end, _ = head.lstrip().partition(b"\n")
    if line_end and first.rstrip().endswith((b"{", b"[")) and (key := _WRAPPED.search(head)):
        raise wrapped(path, key[1].decode(errors="replace"))
    while block := list(islice(lines, _BLOCK)):
        yield [
            Row(line, _object(parse_json(content, where, once=True), where, nested))
            for line, content in block
            for where in (f"{path}:{line}",)
        ]


def _check_wrapped(path: Path, row: Mapping[str, str | None]) -> None:
    """Refuse the only row of a file where all it holds is a list of objects: these are the rows that are meant."""
    if len(row) == 1:
        ((key, value),) = row.items()
        if (value or "").startswith("[{"):
            raise wrapped(path, key)


def wrapped(path: Path, key: str) -> InputError:
    """Return the refusal of an object around the list of rows."""
    message = f"The file is one object, and the rows are a list below its key {key!r}."
    return InputError(message, where=str(path), hint="Save that list alone, without the object around it.")


def _listed(path: Path, most_rows: int) -> list[object]:
    check_size(path, LARGEST_JSON, hint="Write one object a line (JSONL).")
    text = read_text(path, hint=HINT, largest=LARGEST_JSON)
    # Counted before any is made: two bytes of an empty object take a hundred of memory.
    if text.count("{") + text.count("[") > 2 * most_rows:
        raise InputError(f"There are more than {most_rows:,} rows.", where=str(path), hint=FEWER)
    values = parse_json(text, str(path), once=True)
    if not isinstance(values, list):
        raise InputError("The file is not a list of objects.", where=str(path), hint='Write [{"path": ..., ...}, ...].')
    return values


def _object(value: object, where: str, nested: dict[str, str]) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise InputError(
            f"The entry is a {type(value).__name__}, not an object.",
            where=where,
            hint='Write {"path": ..., ...}.',
        )
    for name, item in value.items():
        if isinstance(item, list | dict):
            nested.setdefault(name.strip(), where)
    # Names of columns are the same in all rows: each is held once.
    return {sys.intern(name.strip()): json_text(item) for name, item in value.items()}
