"""Phone tokens from a table, which is held as text and whose features become one array."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.progress import Progress
from probes.files.decimals import mark_hint, plain_float, with_point
from probes.files.gzips import open_plain
from probes.files.levels import is_unknown
from probes.files.opening import reading
from probes.files.table_sources import find_table
from probes.files.tables import Row, check_flat, read_table, with_points
from probes.vectors.token_vectors import as_float32, chosen_layers

MAX_CELLS = 30_000_000
"""A table is held as text, 150 bytes a cell as measured: about 4.5 GB."""
_ROWS = 1024
_NUMBERS = "Write numbers with a full stop and leave a cell empty where one is missing, or name columns of numbers."


def read_token_table(path: Path, decimal: str | None = None) -> "TokenTable":
    """Read a table that fits in memory, which is checked before it is read."""
    cells = 0
    source = find_table(path)
    # A file that says itself how large it is is judged by its reader.
    if not source.is_arrow and source.file.is_file():
        with reading(source.file), open_plain(source.file) as file:
            while block := file.read(2**20):
                # A guess by separators: to count cells, the table would have to be read.
                cells += max(block.count(b","), block.count(b"\t")) + block.count(b"\n")
    if cells > MAX_CELLS:
        message = f"The table has about {cells} cells; up to {MAX_CELLS} are read as text."
        hint = "Save an NPZ: numpy.savez(file, phone=phones, speaker=speakers, features=vectors)."
        raise InputError(message, where=str(path), hint=hint)
    table = read_table(path, decimal)
    return TokenTable(
        path,
        table.columns,
        table.rows,
        (),
        table.notes,
        table.decimal_comma,
        decimal,
        table.delimited,
        nested=table.nested,
    )


@dataclass(frozen=True, slots=True)
class HeldVectors:
    """Vectors in memory, shape (tokens, width)."""

    values: NDArray[np.float32]
    features: tuple[str, ...]
    layers: tuple[int, ...] = (0,)

    def width(self, layer: int) -> int:
        """Return the length of a vector."""
        return int(self.values.shape[1])

    def chunks(self, layer: int, size: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors in their order, at most `size` at once, shape (tokens, width)."""
        for start in range(0, len(self.values), size):
            yield self.values[start : start + size].copy()

    def usable(self, progress: Progress) -> NDArray[np.bool_]:
        """Return a mask of the tokens with finite vectors."""
        return np.asarray(np.isfinite(self.values).all(axis=1))

    def keeping(self, kept: NDArray[np.bool_]) -> "HeldVectors":
        """Return the vectors of some of the tokens."""
        return replace(self, values=self.values[kept])


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A table of tokens; `notes` say how it was read, where that is unusual."""

    path: Path
    names: tuple[str, ...]
    rows: Sequence[Row]
    packed: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    decimal_comma: bool = False
    decimal: str | None = None
    delimited: bool = False
    nested: Mapping[str, str] = field(default_factory=dict)

    def numeric(self, labels: Sequence[str]) -> list[str]:
        """Return the names of columns, without the labels, that hold numbers in the first rows."""
        change = with_point if self.decimal_comma else str
        cells = {
            name: [change((row.values.get(name) or "").strip()) for row in self.rows[:100]]
            for name in self.names
            if name not in labels
        }
        return [
            name for name, texts in cells.items() if None not in map(_number, texts) and not all(map(is_unknown, texts))
        ]

    def line(self, index: int) -> int:
        """Return the line of a token in its file."""
        return self.rows[index].line

    def spot(self, index: int, name: str) -> str:
        """Return the location of a value in words: row and column."""
        return f"{self.path}:{self.line(index)}, column {name}"

    def labels(self, names: Sequence[str]) -> dict[str, list[str | None]]:
        """Return columns as texts, one entry a token."""
        check_flat(names, self.nested)
        return {name: [row.values.get(name) for row in self.rows] for name in names}

    def vectors(
        self, names: Sequence[str], *, beside: str, count: int, layers: Sequence[int] | None, transform: str
    ) -> HeldVectors:
        """Return columns of numbers as vectors; a cell that is neither a number nor missing is refused."""
        chosen_layers(layers, (0,), self.path)
        rows = with_points(self.rows, names, self.path, self.decimal) if self.decimal_comma else self.rows
        values = np.empty((count, len(names)), dtype=np.float32)
        for start in range(0, count, _ROWS):
            indices = range(start, min(start + _ROWS, count))
            block = np.array([[self._cell(rows, row, name) for name in names] for row in indices])
            values[start : start + _ROWS] = as_float32(block, transform, partial(self._cell_spot, start, names))
        return HeldVectors(values, tuple(names))

    def _cell_spot(self, start: int, names: Sequence[str], row: int, column: int) -> str:
        return self.spot(start + row, names[column])

    def _cell(self, rows: Sequence[Row], index: int, name: str) -> float:
        text = rows[index].values.get(name)
        number = _number(text)
        if number is None:
            hint = mark_hint(text or "", self.decimal_comma, self.decimal, option=self.delimited)
            raise InputError(f"{text!r} is not a number.", where=self.spot(index, name), hint=hint or _NUMBERS)
        return number


def _number(text: str | None) -> float | None:
    """Return the number in a cell: NaN where it is empty, None where it holds something else."""
    if is_unknown(text):
        return math.nan
    try:
        return None if text is None else plain_float(text)
    except ValueError:
        return None
