"""records.csv of a run, read as untrusted input: columns as text or numbers, each parsed once when asked for."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.report.spreadsheet_cells import bare
from probes.core.errors import InputError
from probes.files.delimited import Delimited

NAME = "records.csv"
LARGEST = 64 * 2**20
"""Bytes of a file that is read."""
MOST_CELLS = 10_000_000
"""Cells of a file that is read: each takes far more memory than its bytes in the file."""
MADE_BY_MILES = "Make the run again: its records.csv was changed or damaged."

Floats = NDArray[np.float64]
Words = NDArray[np.object_]


class Table:
    """The columns of a file.

    Parameters
    ----------
    text
        Every column as words, shape (rows,), without the apostrophe that keeps a spreadsheet from calculating.
    numbers
        Every column as numbers, shape (rows,), NaN where a cell is empty; asking for a column of words is an error.
    """

    def __init__(self, columns: Mapping[str, Sequence[str]], rows: int, where: str) -> None:
        self.rows = rows
        self.text: Mapping[str, Words] = _Columns(columns, lambda cells, _: _words(cells))
        self._levels: dict[str, tuple[dict[str, int], NDArray[np.int64]]] = {}
        self.numbers: Mapping[str, Floats] = _Columns(columns, lambda cells, name: _numbers(cells, name, where))

    def is_level(self, name: str, level: str) -> NDArray[np.bool_]:
        """Return a mask of the rows with this level of a column, from an index kept for further levels."""
        if name not in self._levels:
            known: dict[str, int] = {}
            codes = [known.setdefault(cell, len(known)) for cell in self.text[name]]
            self._levels[name] = known, np.array(codes, dtype=np.int64)
        known, found = self._levels[name]
        return np.asarray(found == known.get(level, -1))


class _Columns(Mapping[str, Any]):
    def __init__(self, columns: Mapping[str, Sequence[str]], made: Any) -> None:
        self._columns, self._made, self._kept = columns, made, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._kept:
            self._kept[name] = self._made(self._columns[name], name)
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def read_table(folder: Path) -> Table | str:
    """Read records.csv of a run folder, or return the reason why not: it is missing, or too large.

    Raises
    ------
    InputError
        Where it is no table.
    """
    file = folder / NAME
    # The reason is printed on pages, and file names need not be valid UTF-8.
    shown = os.fsencode(file).decode("utf-8", "replace")
    if not file.is_file():
        return f"{shown} is not there"
    try:
        size = file.stat().st_size
        if size > LARGEST:
            return f"{shown} has more than {LARGEST // 2**20} MiB"
        if _most_cells(file) > MOST_CELLS:
            return f"{shown} may hold more than {MOST_CELLS:,} cells"
        head, columns = _parsed(file)
    except OSError as error:
        raise InputError(f"The records cannot be read: {error}", where=str(file), hint=MADE_BY_MILES) from error
    except InputError as error:
        message = f"The records cannot be read: {error.message}"
        raise InputError(message, where=error.where, hint=MADE_BY_MILES) from error
    if len(set(head)) < len(head):
        raise InputError("Two columns have one name.", where=str(file), hint=MADE_BY_MILES)
    rows = len(columns[0]) if columns else 0
    return Table(dict(zip(head, columns, strict=True)), rows, str(file))


def _most_cells(file: Path) -> int:
    """Return an upper bound of the number of cells, header included, before any is made: a comma in a text counts."""
    cells = 1
    with file.open("rb") as opened:
        while data := opened.read(2**20):
            cells += sum(data.count(mark) for mark in (b",", b"\n", b"\r"))
    return cells


def _parsed(file: Path) -> tuple[list[str], list[list[str]]]:
    """Return the names and the cells of the columns."""
    table = Delimited(file, keep_empty=True)
    columns: list[list[str]] = [[] for _ in table.header]
    # Transposed block by block: transposing all rows at once would double the memory.
    for block in table.blocks():
        for column, part in zip(columns, zip(*block.rows, strict=True), strict=True):
            column.extend(part)
    return [bare(name) for name in table.header], columns


def _words(cells: Sequence[str]) -> Words:
    found = np.empty(len(cells), dtype=object)
    found[:] = [bare(cell) for cell in cells]
    return found


def _numbers(cells: Sequence[str], name: str, where: str) -> Floats:
    try:
        found = np.array([float(cell) if cell else math.nan for cell in cells], dtype=np.float64)
    except ValueError as error:
        raise InputError(
            f"A cell is no number: {error}.", where=f"{where}, column {name}", hint=MADE_BY_MILES
        ) from error
    if np.isinf(found).any() or np.count_nonzero(np.isnan(found)) > cells.count(""):
        raise InputError("A number is not finite.", where=f"{where}, column {name}", hint=MADE_BY_MILES)
    return found
