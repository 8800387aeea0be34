"""Cells of a column in little memory: each distinct text once where they are few, else letters without an object each.

A Python string takes 50 bytes beside its letters, and a mapping for each row 200 more: a million rows of six columns
would take a gigabyte. Here a cell of a column with few levels takes four bytes, and any other its letters and four.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from operator import eq
from typing import overload

import numpy as np
from numpy.typing import NDArray

MOST_KNOWN = 2**16
"""Distinct texts of a column up to which each is held once."""
BLOCK = 2**12
"""Cells that are packed, and unpacked, at once."""
_LOOK, _DISTINCT = 2 * BLOCK, 0.9
"""Cells after which a column is packed whose texts hardly repeat: of which more than this share are distinct."""

Cell = str | None
Places = NDArray[np.intp]


class _Known(dict[Cell, int]):
    """The number of each distinct cell; `levels` has them in the order in which they came."""

    def __init__(self) -> None:
        self.levels: list[Cell] = []

    def __missing__(self, cell: Cell) -> int:
        self[cell] = number = len(self.levels)
        self.levels.append(cell)
        return number


class _Packed:
    """Some cells as UTF-8: their letters in one piece, and where each ends."""

    __slots__ = ("_ends", "_letters", "_none")

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._none = frozenset(at for at, cell in enumerate(cells) if cell is None)
        texts = [cell or "" for cell in cells]
        whole = "".join(texts)
        self._letters = _encoded(whole)
        sizes = map(len, texts if whole.isascii() else map(_encoded, texts))
        self._ends = array("I", accumulate(sizes, initial=0))

    def __getitem__(self, at: int) -> Cell:
        return None if at in self._none else _decoded(self._letters[self._ends[at] : self._ends[at + 1]])

    def cells(self) -> list[Cell]:
        """Return all of them."""
        spans = pairwise(self._ends)
        if self._letters.isascii():
            whole = self._letters.decode("ascii")
            found: list[Cell] = [whole[start:end] for start, end in spans]
        else:
            found = [_decoded(self._letters[start:end]) for start, end in spans]
        for at in self._none:
            found[at] = None
        return found


def _encoded(text: str) -> bytes:
    # JSON may hold one half of a surrogate pair, which is no UTF-8.
    return text.encode("utf-8", "surrogatepass")


def _decoded(letters: bytes) -> str:
    return letters.decode("utf-8", "surrogatepass")


class Cells(Sequence[Cell]):
    """The cells of a column, in the order in which they were added; None stands for JSON's null.

    Examples
    --------
    >>> cells = Cells(["f", "m", None, "f"])
    >>> cells.add(["m"])
    >>> list(cells), cells[2], cells[-1]
    (['f', 'm', None, 'f', 'm'], None, 'm')
    >>> levels, codes = cells.coded()
    >>> levels, codes.tolist()
    (['f', 'm', None], [0, 1, 2, 0, 1])
    >>> list(cells.take(np.array([3, -1, 1])))
    ['f', None, 'm']
    """

    __slots__ = ("_blocks", "_codes", "_known", "_rest")

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        self._known: _Known | None = _Known()
        self._codes = array("i")
        self._blocks: list[_Packed] = []
        self._rest: list[Cell] = []
        self.extend(cells)

    def extend(self, cells: Iterable[Cell]) -> None:
        """Add the cells of an iterator, some at a time."""
        source = iter(cells)
        while block := list(islice(source, BLOCK)):
            self.add(block)

    def add(self, cells: Sequence[Cell]) -> None:
        """Add some cells."""
        if self._known is None:
            self._pack(cells)
            return
        known = self._known
        self._codes.extend([known[cell] for cell in cells])
        count = len(self._codes)
        if len(known) > MOST_KNOWN or (count >= _LOOK and len(known) > _DISTINCT * count):
            found = list(self)
            self._known, self._codes = None, array("i")
            self._pack(found)

    def _pack(self, cells: Sequence[Cell]) -> None:
        self._rest += cells
        full = len(self._rest) // BLOCK * BLOCK
        if full:
            self._blocks += [_Packed(self._rest[start : start + BLOCK]) for start in range(0, full, BLOCK)]
            self._rest = self._rest[full:]

    def __len__(self) -> int:
        return len(self._codes) if self._known is not None else BLOCK * len(self._blocks) + len(self._rest)

    @overload
    def __getitem__(self, at: int) -> Cell: ...
    @overload
    def __getitem__(self, at: slice) -> list[Cell]: ...
    def __getitem__(self, at: int | slice) -> Cell | list[Cell]:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError("there is no such cell")
        at %= len(self)
        if self._known is not None:
            return self._known.levels[self._codes[at]]
        block, within = divmod(at, BLOCK)
        return self._blocks[block][within] if block < len(self._blocks) else self._rest[within]

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence has the same cells."""
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Cell]:
        return chain.from_iterable(self.blocks())

    def blocks(self) -> Iterator[list[Cell]]:
        """Yield the cells, `BLOCK` at a time, the last ones fewer."""
        return (self.block(number) for number in range(-(-len(self) // BLOCK)))

    def block(self, number: int) -> list[Cell]:
        """Return the cells of one of the blocks."""
        if self._known is not None:
            levels = self._known.levels
            return [levels[code] for code in self._codes[number * BLOCK : (number + 1) * BLOCK]]
        return self._blocks[number].cells() if number < len(self._blocks) else list(self._rest)

    def coded(self) -> tuple[list[Cell], Places]:
        """Return the distinct cells in the order in which they come first, and the number of each cell, (cells,)."""
        known = self._known
        if known is not None:
            return list(known.levels), np.array(self._codes, dtype=np.intp)
        known, codes = _Known(), np.empty(len(self), dtype=np.intp)
        for block, start in zip(self.blocks(), range(0, len(self), BLOCK), strict=True):
            codes[start : start + len(block)] = [known[cell] for cell in block]
        return known.levels, codes

    def take(self, places: Places) -> "Cells":
        """Return the cells at some places; None at place -1."""
        found = Cells()
        for start in range(0, len(places), BLOCK):
            part = places[start : start + BLOCK].tolist()
            found.add([None if at < 0 else self[at] for at in part])
        return found


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of few distinct values: each once, and the number of each clip's, shape (clips,).

    >>> Coded.of(["f", "m", "f"]).take(np.array([2, 1])).values()
    ['f', 'm']
    """

    levels: tuple[Cell, ...]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, values: Iterable[Cell]) -> "Coded":
        """Return the column of these values."""
        levels, codes = Cells(values).coded()
        return cls(tuple(levels), codes.astype(np.int32))

    def take(self, places: Places) -> "Coded":
        """Return the column of some clips."""
        return Coded(self.levels, self.codes[places])

    def values(self) -> list[Cell]:
        """Return the value of each clip."""
        return [self.levels[code] for code in self.codes.tolist()]

    def is_(self, value: Cell) -> NDArray[np.bool_]:
        """Return a mask of the clips that have a value."""
        return np.array([level == value for level in self.levels], dtype=bool)[self.codes]

    def count(self, value: Cell) -> int:
        """Return the number of clips that have a value."""
        return int(self.is_(value).sum())

    def present(self) -> set[Cell]:
        """Return the values that some clip has."""
        return {self.levels[code] for code in np.unique(self.codes).tolist()}
