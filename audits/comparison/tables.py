"""records.csv of a run, read with suspicion: columns as text and as numbers, each parsed once and only when asked."""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError

NAME = "records.csv"
LARGEST = 256 * 2**20
"""Bytes of a file that is read."""
MOST_CELLS = 40_000_000
"""Cells of a file that is read: each takes far more memory than its bytes in the file."""
FORMULAS = ("=", "+", "-", "@", "\t", "\n")
"""How text begins before which an apostrophe was written."""
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

    def __init__(self, columns: Mapping[str, tuple[str, ...]], rows: int, where: str) -> None:
        self.rows = rows
        self.text: Mapping[str, Words] = _Columns(columns, lambda cells, _: _words(cells))
        self._levels: dict[str, tuple[dict[str, int], NDArray[np.int64]]] = {}
        self.numbers: Mapping[str, Floats] = _Columns(columns, lambda cells, name: _numbers(cells, name, where))

    def is_level(self, name: str, level: str) -> NDArray[np.bool_]:
        """Return which rows have this level of a column; many levels of one column are asked for."""
        if name not in self._levels:
            known: dict[str, int] = {}
            codes = [known.setdefault(cell, len(known)) for cell in self.text[name]]
            self._levels[name] = known, np.array(codes, dtype=np.int64)
        known, found = self._levels[name]
        return np.asarray(found == known.get(level, -1))


class _Columns(Mapping[str, Any]):
    def __init__(self, columns: Mapping[str, tuple[str, ...]], made: Any) -> None:
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
    """Read records.csv of a run folder, or return why it is left alone: it is not there, or too large.

    Raises
    ------
    InputError
        Where it is no table.
    """
    file = folder / NAME
    if not file.is_file():
        return f"{file} is not there"
    if file.stat().st_size > LARGEST:
        return f"{file} has more than {LARGEST // 2**20} MiB"
    try:
        reader = csv.reader(io.StringIO(file.read_bytes().decode("utf-8"), newline=""), strict=True)
        head = next(reader, [])
        rows: list[list[str]] = []
        for row in reader:
            if len(row) != len(head):
                raise ValueError(f"line {reader.line_num} has {len(row)} cells, the head {len(head)}")
            rows.append(row)
            if len(rows) * len(head) > MOST_CELLS:
                return f"{file} has more than {MOST_CELLS:,} cells"
    except (ValueError, csv.Error, OSError) as error:
        raise InputError(f"The records cannot be read: {error}", where=str(file), hint=MADE_BY_MILES) from error
    if len(set(head)) < len(head):
        raise InputError("Two columns have one name.", where=str(file), hint=MADE_BY_MILES)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(head)
    return Table(dict(zip(head, columns, strict=True)), len(rows), str(file))


def _words(cells: tuple[str, ...]) -> Words:
    found = np.empty(len(cells), dtype=object)
    found[:] = [cell[1:] if cell[:1] == "'" and cell[1:2] in FORMULAS else cell for cell in cells]
    return found


def _numbers(cells: tuple[str, ...], name: str, where: str) -> Floats:
    try:
        found = np.array([float(cell) if cell else math.nan for cell in cells], dtype=np.float64)
    except ValueError as error:
        raise InputError(
            f"A cell is no number: {error}.", where=f"{where}, column {name}", hint=MADE_BY_MILES
        ) from error
    if np.isinf(found).any() or np.count_nonzero(np.isnan(found)) > cells.count(""):
        raise InputError("A number is not finite.", where=f"{where}, column {name}", hint=MADE_BY_MILES)
    return found
