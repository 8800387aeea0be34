"""Columns of records: texts that were parsed or lie packed, and columns of a Parquet file that is read when asked."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from probes.files.parquet_columns import ParquetColumns, Part

Floats = NDArray[np.float64]
Words = NDArray[np.object_]
MOST_KNOWN = 2**12
"""Texts of a column that are kept to be shared by the cells that hold them; a column of more is one of names."""


class Column(Protocol):
    """A column of records, made anew from its file or from packed texts whenever it is asked for."""

    def texts(self) -> Iterator[Sequence[str]]:
        """Yield the cells part by part, as they stand in records.csv."""

    def numbers(self) -> Iterator[Floats]:
        """Yield the cells part by part as numbers, NaN where a cell is empty.

        Raises
        ------
        ValueError
            Where a cell is no finite number.
        """


class Packed:
    """Texts that were parsed: a few thousand cells lie together as bytes, a tenth of what they take as objects."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []

    def add(self, cells: Sequence[str]) -> None:
        """Add some cells, at least one; none holds NUL."""
        self._blocks.append("\0".join(cells).encode())

    def texts(self) -> Iterator[Sequence[str]]:
        """Yield the cells part by part."""
        for block in self._blocks:
            yield block.decode().split("\0")

    def numbers(self) -> Iterator[Floats]:
        """Yield the cells part by part as numbers; see `Column`."""
        return map(parsed, self.texts())


class Listed:
    """Texts in a list."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._cells = cells

    def texts(self) -> Iterator[Sequence[str]]:
        """Yield all cells."""
        yield self._cells

    def numbers(self) -> Iterator[Floats]:
        """Yield all cells as numbers; see `Column`."""
        return map(parsed, self.texts())


class Stored:
    """A column of records.parquet, which is read whenever it is asked for."""

    def __init__(self, file: ParquetColumns, name: str) -> None:
        self._file, self._name = file, name

    def texts(self) -> Iterator[Sequence[str]]:
        """Yield the cells part by part, as they would stand in records.csv."""
        return map(_as_texts, self._file.parts(self._name))

    def numbers(self) -> Iterator[Floats]:
        """Yield the cells part by part as numbers; see `Column`."""
        if self._file.kinds[self._name] in ("text", "truth"):
            yield from map(parsed, self.texts())
            return
        for part in self._file.parts(self._name):
            found = np.where(part.given, part.values, np.nan)
            if not np.isfinite(found[part.given]).all():
                raise ValueError("A number is not finite.")
            yield found


def words(column: Column, clean: Callable[[str], str], rows: int) -> Words:
    """Return the cells of a column, each cleaned, shape (rows,); equal ones are one object where they are few."""
    found = np.empty(rows, dtype=object)
    known: dict[str, str] = {}
    at = 0
    for cells in column.texts():
        if len(known) < MOST_KNOWN:
            known |= {cell: clean(cell) for cell in set(cells) - known.keys()}
            found[at : at + len(cells)] = [known[cell] for cell in cells]
        else:
            found[at : at + len(cells)] = [known[cell] if cell in known else clean(cell) for cell in cells]
        at += len(cells)
    return found


def parsed(cells: Sequence[str]) -> Floats:
    """Return cells as numbers, NaN where one is empty.

    Raises
    ------
    ValueError
        Where one is no finite number.

    Examples
    --------
    >>> parsed(["1", "", "-2.5"])
    array([ 1. ,  nan, -2.5])
    """
    try:
        found = np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"A cell is no number: {error}.") from None
    if np.count_nonzero(~np.isfinite(found)) > cells.count(""):
        raise ValueError("A number is not finite.")
    return found


def _as_texts(part: Part) -> list[str]:
    if isinstance(part.values, list):
        return part.values
    texts = [*map(str, part.values.tolist())]
    for at in np.flatnonzero(~part.given).tolist():
        texts[at] = ""
    return texts
