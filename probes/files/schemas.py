"""Tables by declared columns: names, types and limits are checked while a file is read, block by block."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.decimals import NumberColumn, mark_hint
from probes.files.delimited import Delimited
from probes.files.names import suggest_column
from probes.files.table_sources import find_table
from probes.files.tables import check_decimal, check_flat, decimal_notes, is_json, read_table

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Cells = Sequence[str | None]
_Value = TypeVar("_Value", int, bool)

_BLOCK = 2**12
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf(inity)?)", re.ASCII | re.IGNORECASE)
# A data frame writes whole numbers as 3.0 where others of the column are missing.
_WHOLE = re.compile(r"([+-]?\d{1,18})(\.0*)?", re.ASCII)
_MISSING = frozenset({"", "na", "n/a", "none", "null"})
# The long forms are what numpy.savetxt writes of truth values.
_YES, _NO = ("1", "true", "1.0", "1.000000000000000000e+00"), ("0", "false", "0.0", "0.000000000000000000e+00")
_FLAGS = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A declared column; cases of names do not matter.

    Parameters
    ----------
    name, aliases
        The name in lower case, and others that mean the same.
    kind
        What a cell is; a flag is 1 or true, 0 or false.
    required
        Refuse a file without it.
    family
        Columns named `name_X` are of this kind too.
    missing
        A number may be empty, NaN or infinite; else it lies between `least` and `most`.
    refusal, hint
        The message after a cell that cannot be read, such as "is no loss", and the hint.
    """

    name: str
    kind: Literal["text", "number", "whole", "flag"] = "text"
    aliases: tuple[str, ...] = ()
    required: bool = False
    family: bool = False
    missing: bool = False
    least: float = -1.7e308
    most: float = 1.7e308
    refusal: str = "is not a number"
    hint: str = "Write plain numbers."

    def means(self, name: str) -> bool:
        """Tell whether a name in a header is this column's."""
        return name == self.name or name in self.aliases or (self.family and name.startswith(f"{self.name}_"))


@dataclass(frozen=True, slots=True)
class OneOf:
    """Declared columns of which a file has one, or with `several` one and more; `what` they hold, in words."""

    what: str
    names: tuple[str, ...]
    several: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Columns that a file may have.

    Parameters
    ----------
    one_of
        Groups of alternative columns.
    most_rows
        Rows after which nothing more is read.
    hint, fewer
        What columns there should be, and how to have fewer rows.
    has_decimal
        The command has an option `--decimal`, which hints may name.
    """

    columns: tuple[Column, ...]
    one_of: tuple[OneOf, ...] = ()
    most_rows: int
    hint: str
    fewer: str = "Give fewer."
    has_decimal: bool = False


class SchemaReader:
    """A file whose header fits a schema, read block by block; the user may name its decimal mark.

    Attributes
    ----------
    form
        CSV, TSV, JSON and so on, for people.
    names
        All columns of the file, in lower case.
    columns
        The declared column of each of the names that has one.
    notes
        How the file was read where that is unusual.

    Raises
    ------
    InputError
        Where the file cannot be read, names a column twice, or lacks one.
    """

    def __init__(self, path: Path, schema: Schema, decimal: str | None = None) -> None:
        self.path, self._schema, self._decimal = path, schema, decimal
        semicolons = delimited = False
        self._separator = ""
        nested: Mapping[str, str] = {}
        self._blocks: Iterator[tuple[Sequence[int], list[Cells]]]
        source = find_table(path)
        if source.is_arrow or is_json(source.file):
            check_decimal(path, decimal)
            table = read_table(path)
            self.form, header, line = "Parquet or Arrow" if source.is_arrow else "JSON", table.columns, ""
            nested = table.nested
            self._blocks = (
                (
                    [row.line for row in rows],
                    [[row.values.get(name) for row in rows] for name in table.columns],
                )
                for start in range(0, len(table.rows), _BLOCK)
                for rows in (table.rows[start : start + _BLOCK],)
            )
        else:
            file, delimited = Delimited(source.file), True
            self.form, header, line = file.dialect.name, tuple(file.header), f":{file.header_line}"
            semicolons, self._separator = file.dialect.decimal_comma, file.dialect.separator
            self._blocks = ((block.lines, list(zip(*block.rows, strict=True))) for block in file.blocks())
        self.notes = [*source.notes, *decimal_notes(semicolons, decimal)]
        self._decimal_comma = semicolons if decimal is None else decimal == ","
        self._option = schema.has_decimal and delimited
        self._where = f"{path}{line}"
        self.names = tuple(name.strip().casefold() for name in header)
        self.columns = self._resolved()
        # A list is no number and no flag either, as its block says with the column's own words.
        texts = {name for name, column in self.columns.items() if column.kind == "text"}
        check_flat([name for name in header if name.strip().casefold() in texts], nested)

    def blocks(self) -> Iterator["CellBlock"]:
        """Yield blocks of rows; there is one row at least.

        Raises
        ------
        InputError
            Where a row does not fit the header, or there are too many, or none, or it cannot be told whether the
            commas of numbers are decimal ones.
        """
        count = 0
        numbers = {
            name: NumberColumn(name, self.path, self._decimal)
            for name, column in self.columns.items()
            if (self._decimal_comma or self._decimal) and column.kind == "number"
        }
        for lines, cells in self._blocks:
            count += len(lines)
            if count > self._schema.most_rows:
                message = f"There are more than {self._schema.most_rows} rows."
                raise InputError(message, where=f"{self.path}:{lines[-1]}", hint=self._schema.fewer)
            block = dict(zip(self.names, cells, strict=True))
            for name, number in numbers.items():
                number.look(block[name], lines)
            yield CellBlock(
                self.path, lines, block, self.columns, self._decimal_comma, self._decimal, option=self._option
            )
        for number in numbers.values():
            number.finish()
        if not count:
            hint = "Give a row for each of what the columns say."
            raise InputError("The file has a header but no rows.", where=str(self.path), hint=hint)

    def _resolved(self) -> dict[str, Column]:
        twice = next((name for name, times in Counter(self.names).items() if times > 1), None)
        if twice is not None:
            message = f"The column {twice!r} stands twice in the header."
            raise InputError(message, where=self._where, hint="Give every column a name of its own.")
        found = {}
        for name in self.names:
            column = next((column for column in self._schema.columns if column.means(name)), None)
            if column is not None:
                found[name] = column
        there = {column.name for column in found.values()}
        for column in self._schema.columns:
            if column.required and column.name not in there:
                raise self._missing(f"There is no column {column.name!r}.", column.name)
        own = [[name for name, column in found.items() if column.name in group.names] for group in self._schema.one_of]
        for group, names in zip(self._schema.one_of, own, strict=True):
            if not names or (len(names) > 1 and not group.several):
                parts = zip(self._schema.one_of, own, strict=True)
                message = "; of ".join(f"{each.what}: {', '.join(names) or 'none'}" for each, names in parts)
                raise self._missing(f"Columns of {message}.", self._schema.one_of[0].names[0])
        return found

    def _missing(self, message: str, name: str) -> InputError:
        return InputError(
            message, where=self._where, hint=f"{self._schema.hint} {suggest_column(name, self.names, self._separator)}"
        )


@dataclass(frozen=True, slots=True)
class CellBlock:
    """Rows of a file, column by column, converted to numbers on demand.

    `named` is the decimal mark that the user names; `option` tells whether hints may name `--decimal`.
    """

    path: Path
    lines: Sequence[int]
    cells: dict[str, Cells]
    columns: dict[str, Column]
    decimal_comma: bool
    named: str | None
    option: bool

    def __len__(self) -> int:
        return len(self.lines)

    def texts(self, name: str) -> list[str]:
        """Return the cells as they are, empty where there is none."""
        return [cell or "" for cell in self.cells[name]]

    def numbers(self, name: str, *, only: Flags | None = None) -> Floats:
        """Return numbers; 0 where `only` is false, and the cell is not read."""
        column, texts = self._column(name, "number"), self.texts(name)
        if only is not None:
            texts = [text if wanted else "0" for text, wanted in zip(texts, only, strict=True)]
        if self.decimal_comma:
            texts = [text.replace(",", ".") for text in texts]
        found = self._floats(texts, name)
        if not column.missing:
            wrong = np.flatnonzero(~((found >= column.least) & (found <= column.most)))
            if len(wrong):
                raise self.refusal(name, int(wrong[0]))
        return found

    def flags(self, name: str) -> Flags:
        """Return truth values."""
        self._column(name, "flag")
        return np.array(self._each(name, lambda text: _FLAGS.get(text.casefold())), dtype=np.bool_)

    def wholes(self, name: str) -> Integers:
        """Return whole numbers."""
        self._column(name, "whole")
        return np.array(self._each(name, _whole), dtype=np.int64)

    def refusal(self, name: str, index: int) -> InputError:
        """Return the refusal of a cell that cannot be read."""
        column, where, text = self.columns[name], f"{self.path}:{self.lines[index]}, {name}", self.texts(name)[index]
        number = column.kind == "number"
        hint = mark_hint(text, self.decimal_comma, self.named, option=self.option) if number else ""
        return InputError(f"{text[:60]!r} {column.refusal}.", where=where, hint=hint or column.hint)

    def _column(self, name: str, kind: str) -> Column:
        column = self.columns[name]
        assert column.kind == kind, f"{name} is declared as {column.kind}"
        return column

    def _floats(self, texts: list[str], name: str) -> Floats:
        try:
            # float() would also take 1_000 and the digits of other scripts.
            if "_" not in (plain := "".join(texts)) and plain.isascii():
                return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
        except ValueError:
            # There is an empty or a wrong cell: check each.
            pass
        values = [text.strip() for text in texts]
        for index, text in enumerate(values):
            if self.columns[name].missing and text.casefold() in _MISSING:
                values[index] = "nan"
            elif not _NUMBER.fullmatch(text):
                raise self.refusal(name, index)
        return np.fromiter(map(float, values), dtype=np.float64, count=len(values))

    def _each(self, name: str, read: Callable[[str], _Value | None]) -> list[_Value]:
        """Return the value of each cell; equal ones are read once."""
        cells: list[str] = self.texts(name)
        known = {cell: read(cell.strip()) for cell in {*cells}}
        found = []
        for index, cell in enumerate(cells):
            value = known[cell]
            if value is None:
                raise self.refusal(name, index)
            found.append(value)
        return found


def _whole(text: str) -> int | None:
    number = _WHOLE.fullmatch(text)
    return int(number[1]) if number else None
