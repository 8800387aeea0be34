"""The records of a run, read as untrusted input: columns as text or numbers, each made once, when it is asked for."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.report.comparison.record_columns import Column, Floats, Listed, Packed, Stored, Words, words
from audits.report.records_file import CSV, PARQUET, records_file
from audits.report.spreadsheet_cells import bare
from probes.core.errors import InputError
from probes.files.delimited import Delimited
from probes.files.parquet_columns import ParquetColumns

LARGEST = 256 * 2**20
"""Bytes of records.csv that are read, and of memory about that they take until columns are asked for."""
MOST_CELLS = 20_000_000
"""Cells of records.csv that are read."""
MOST_ROWS = 5_000_000
"""Rows that are read: of each column that is asked for, a row takes eight bytes, and a text of its own 50 more."""
_KEPT = 2**28
"""Bytes of arrays of columns that are kept for further estimates, of either kind."""
MADE_BY_MILES = "Make the run again: its {} was changed or damaged."


class Table:
    """The columns of a file.

    Parameters
    ----------
    text
        Every column as words, shape (rows,), without the apostrophe that keeps a spreadsheet from calculating.
    numbers
        Every column as numbers, shape (rows,), NaN where a cell is empty; asking for a column of words is an error.
    """

    def __init__(self, columns: Mapping[str, Sequence[str] | Column], rows: int, where: str) -> None:
        self.rows = rows
        found = {name: Listed(column) if isinstance(column, Sequence) else column for name, column in columns.items()}
        self.text: Mapping[str, Words] = _Columns(found, lambda column, _: words(column, bare, rows))
        self._levels: dict[str, tuple[dict[str, int], NDArray[np.int64]]] = {}
        self.numbers: Mapping[str, Floats] = _Columns(found, lambda column, name: _numbers(column, rows, name, where))

    def is_level(self, name: str, level: str) -> NDArray[np.bool_]:
        """Return a mask of the rows with this level of a column, from an index kept for further levels."""
        if name not in self._levels:
            known: dict[str, int] = {}
            codes = (known.setdefault(cell, len(known)) for cell in self.text[name])
            self._levels[name] = known, np.fromiter(codes, dtype=np.int64, count=self.rows)
        known, found = self._levels[name]
        return np.asarray(found == known.get(level, -1))


class _Columns(Mapping[str, Any]):
    """Columns as arrays, each made when it is asked for, and kept while the latest take no more than `_KEPT` bytes."""

    def __init__(self, columns: Mapping[str, Column], made: Callable[[Column, str], Any]) -> None:
        self._columns, self._made, self._kept = columns, made, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        found = self._kept.pop(name, None)
        if found is None:
            found = self._made(self._columns[name], name)
            while self._kept and sum(one.nbytes for one in self._kept.values()) + found.nbytes > _KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def read_table(folder: Path) -> Table | str:
    """Read the records of a run folder, or return the reason why not: they are missing, or too large.

    Raises
    ------
    InputError
        Where it is no table.
    """
    file = records_file(folder)
    # The reason is printed on pages, and file names need not be valid UTF-8.
    shown = os.fsencode(file).decode("utf-8", "replace")
    if not file.is_file():
        return f"{shown} is not there"
    read = _read_csv if file.name == CSV else _read_parquet
    try:
        return read(file, shown)
    except OSError as error:
        hint = MADE_BY_MILES.format(file.name)
        raise InputError(f"The records cannot be read: {error}", where=str(file), hint=hint) from error
    except InputError as error:
        message = f"The records cannot be read: {error.message}"
        hint = error.hint if "pip install" in error.hint else MADE_BY_MILES.format(file.name)
        raise InputError(message, where=error.where, hint=hint) from error


def _read_parquet(file: Path, shown: str) -> Table | str:
    held = ParquetColumns(file, hint=MADE_BY_MILES.format(PARQUET))
    if held.rows > MOST_ROWS:
        return f"{shown} has more than {MOST_ROWS:,} rows"
    names = _checked([bare(name) for name in held.kinds], file)
    columns = [Stored(held, name) for name in held.kinds]
    return Table(dict(zip(names, columns, strict=True)), held.rows, str(file))


def _read_csv(file: Path, shown: str) -> Table | str:
    if file.stat().st_size > LARGEST:
        return f"{shown} has more than {LARGEST // 2**20} MiB"
    cells, rows = _most(file)
    if cells > MOST_CELLS or rows > MOST_ROWS:
        return f"{shown} may hold more than {MOST_CELLS:,} cells or {MOST_ROWS:,} rows"
    table = Delimited(file, keep_empty=True)
    names, rows = _checked([bare(name) for name in table.header], file), 0
    columns = [Packed() for _ in names]
    for block in table.blocks():
        rows += len(block.rows)
        for column, part in zip(columns, zip(*block.rows, strict=True), strict=True):
            column.add(part)
    return Table(dict(zip(names, columns, strict=True)), rows, str(file))


def _checked(names: list[str], file: Path) -> list[str]:
    if len(set(names)) < len(names):
        hint = "Give the records as the run wrote them, or run the audit again."
        raise InputError("Two columns have one name.", where=str(file), hint=hint)
    return names


def _most(file: Path) -> tuple[int, int]:
    """Return upper bounds of cells and rows, header included, before any is made: a comma in a text counts."""
    cells = rows = 1
    with file.open("rb") as opened:
        while data := opened.read(2**20):
            ends = data.count(b"\n") + data.count(b"\r")
            rows += ends
            cells += ends + data.count(b",")
    return cells, rows


def _numbers(column: Column, rows: int, name: str, where: str) -> Floats:
    try:
        found = [*column.numbers()]
    except ValueError as error:
        hint = MADE_BY_MILES.format(Path(where).name)
        raise InputError(str(error), where=f"{where}, column {name}", hint=hint) from error
    return np.concatenate([np.empty(0), *found]) if rows else np.empty(0)
