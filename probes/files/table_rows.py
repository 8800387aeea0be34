"""Rows of a table: one by one, or as columns in little memory, from which a row is made when it is asked for."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import overload

from probes.files.cells import BLOCK, Cell, Cells


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the line on which it begins, its values by column (None: JSON null), and its file.

    `source` is None where that is the table's own file.
    """

    line: int
    values: Mapping[str, Cell]
    source: Path | None = None


class Rows(Sequence[Row]):
    """The rows of a large table, held as columns.

    Attributes
    ----------
    lines
        The line on which each row begins.
    columns
        The cells of each column, in the order in which the columns came; None where an object has no such key.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.lines = array("q")
        self.columns = {name: Cells() for name in names}
        self._absent: dict[str, bytearray] = {}

    def add_cells(self, lines: Sequence[int], rows: Sequence[Sequence[Cell]]) -> None:
        """Add rows with a cell for each column."""
        self.lines.extend(lines)
        for cells, part in zip(self.columns.values(), zip(*rows, strict=True), strict=True):
            cells.add(part)

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Add rows that may lack some columns, or have further ones."""
        before = len(self)
        self.lines.extend([row.line for row in rows])
        for name in dict.fromkeys(name for row in rows for name in row.values):
            if name not in self.columns:
                self.columns[name] = Cells(repeat(None, before))
                if before:
                    self._absent[name] = bytearray(b"\1" * before)
        for name, cells in self.columns.items():
            cells.add([row.values.get(name) for row in rows])
            lacking = bytearray(name not in row.values for row in rows)
            if name in self._absent or any(lacking):
                self._absent.setdefault(name, bytearray(before)).extend(lacking)

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, at: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(at, slice):
            return tuple(self[place] for place in range(*at.indices(len(self))))
        line, at = self.lines[at], range(len(self))[at]
        return Row(line, {name: cells[at] for name, cells in self.columns.items() if not self._lacks(name, at)})

    def _lacks(self, name: str, at: int) -> bool:
        return name in self._absent and bool(self._absent[name][at])

    def __iter__(self) -> Iterator[Row]:
        names = list(self.columns)
        for start in range(0, len(self), BLOCK):
            lines = self.lines[start : start + BLOCK]
            parts = [cells.block(start // BLOCK) for cells in self.columns.values()]
            rows = zip(lines, zip(*parts, strict=True) if parts else repeat(()), strict=bool(parts))
            if not self._absent:
                yield from (Row(line, dict(zip(names, row, strict=True))) for line, row in rows)
                continue
            for at, (line, row) in enumerate(rows, start=start):
                pairs = zip(names, row, strict=True)
                yield Row(line, {name: cell for name, cell in pairs if not self._lacks(name, at)})


def cells_of(rows: Sequence[Row], name: str) -> Iterable[Cell]:
    """Return the cells of a column in all rows; None where a row has none."""
    if isinstance(rows, Rows):
        return rows.columns.get(name, repeat(None, len(rows)))
    return (row.values.get(name) for row in rows)
