"""Blocks of distances on torch: on a graphics card, or on the threads of the CPU."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.core.errors import IncompleteError
from probes.vectors.distance_blocks import HINT, Blocks

if TYPE_CHECKING:
    from probes.vectors.knn import Points

SQUARED = 2**24
"""Numbers whose squares are held at once: 64 MiB."""
_WORD = 8
"""Truth values in a number of 64 bits."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int32]


def ready(centred: NDArray[np.float32], device: str) -> tuple[Tensor, Tensor]:
    """Return points on the device, shape (points, width), and their |x|^2."""
    there = torch.from_numpy(centred).to(device)
    step = max(1, SQUARED // max(1, centred.shape[1]))
    return there, torch.cat([(rows * rows).sum(1) for rows in there.split(step)])


def nearest(
    own: "Points", chosen: slice, kept: int, blocks: Blocks, advance: Callable[[int], None], *, mirrored: bool
) -> tuple[NDArray[np.float32], Integers]:
    """Return lower bounds and indices of the `kept` nearest other points of each chosen one, shapes (chosen, kept).

    `mirrored` blocks are the upper triangle of a table, and each serves its rows and its columns.
    """
    size = chosen.stop - chosen.start
    best = torch.full((size, kept), torch.inf, device=own.centred.device)
    index = torch.zeros((size, kept), dtype=torch.int32, device=own.centred.device)
    room = _Room(blocks, own.centred.device)
    for rows, columns in blocks:
        squared = bounds(own, own, rows, columns, room.numbers(rows, columns))
        start, stop = rows.start, rows.stop
        if columns.start < stop and columns.stop > start:
            # Of a triangle what is below the diagonal was computed in its mirror image; no point is its own neighbour.
            here = torch.ones_like(squared, dtype=torch.bool)
            apart = start - columns.start
            here = here.triu(apart + 1) if mirrored else ~(here.triu(apart) & here.tril(apart))
            squared.masked_fill_(~here, torch.inf)
        _keep(best, index, slice(start - chosen.start, stop - chosen.start), squared, columns.start, room)
        if mirrored:
            _keep(best, index, columns, squared, start, room, across=True)
        advance(1)
    return best.cpu().numpy(), index.cpu().numpy()


def near(
    x: "Points",
    y: "Points",
    reach_x: Floats,
    reach_y: Floats,
    blocks: Blocks,
    take: Callable[[Integers, Integers, NDArray[np.float32]], None],
    advance: Callable[[int], None],
) -> tuple[Integers, Integers]:
    """Hand over the indices and lower bounds of the near pairs of each block.

    Returned are the index of the nearest y of every x, and of the nearest x of every y, shape (points,).
    """
    device = x.centred.device
    # Rounded up, so that no pair at the very edge is lost to float32.
    wide = [
        torch.from_numpy(np.nextafter(np.float32(reach), np.float32(np.inf))).to(device) for reach in (reach_x, reach_y)
    ]
    lowest = _Nearest(len(x), device), _Nearest(len(y), device)
    room = _Room(blocks, device)
    for rows, columns in blocks:
        squared = bounds(x, y, rows, columns, room.numbers(rows, columns))
        lowest[0].update(rows, columns.start, squared)
        lowest[1].update(columns, rows.start, squared, across=True)
        widest = torch.maximum(wide[0][rows, None], wide[1][None, columns], out=room.others(rows, columns))
        row, column = _places(torch.le(squared, widest, out=room.marks(rows, columns)))
        pairs = (row + rows.start).int(), (column + columns.start).int(), squared[row, column]
        take(*(part.cpu().numpy() for part in pairs))
        advance(1)
    of_x, of_y = (side.index.cpu().numpy() for side in lowest)
    return of_x, of_y


class _Nearest:
    """Running minimum: the nearest point so far of each point."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.squared = torch.full((size,), torch.inf, device=device)
        self.index = torch.zeros(size, dtype=torch.int32, device=device)

    def update(self, rows: slice, first: int, squared: Tensor, *, across: bool = False) -> None:
        """Take in a block of distances, whose rows are these points, or whose columns are."""
        nearest = squared.amin(0 if across else 1)
        # Only where it is nearer than before is it asked who that is.
        better = (nearest < self.squared[rows]).nonzero()[:, 0]
        if len(better):
            chosen = squared[:, better].T if across else squared[better]
            self.squared[rows.start + better] = nearest[better]
            self.index[rows.start + better] = (chosen.min(1).indices + first).int()


class _Room:
    """Memory for blocks, taken once: new memory for each would cost as much time as the products in it."""

    def __init__(self, blocks: Blocks, device: torch.device) -> None:
        self._size = max(((rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns in blocks))
        self._device = device
        self._held: dict[str, Tensor] = {}

    def numbers(self, rows: slice, columns: slice) -> Tensor:
        """Return room for the distances of a block."""
        return self._part("numbers", torch.float32, rows, columns)

    def others(self, rows: slice, columns: slice) -> Tensor:
        """Return room for as many more numbers."""
        return self._part("others", torch.float32, rows, columns)

    def marks(self, rows: slice, columns: slice) -> Tensor:
        """Return room for a truth value of each distance."""
        return self._part("marks", torch.bool, rows, columns)

    def _part(self, name: str, kind: torch.dtype, rows: slice, columns: slice) -> Tensor:
        if name not in self._held:
            self._held[name] = torch.empty(self._size, dtype=kind, device=self._device)
        down, over = rows.stop - rows.start, columns.stop - columns.start
        return self._held[name][: down * over].view(down, over)


def _places(marks: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the true values of a table, row by row; quick where they are few."""
    if marks.shape[1] % _WORD:
        row, column = marks.nonzero(as_tuple=True)
        return row, column
    # Eight truth values are read as one number, and most of these are nought.
    row, word = marks.view(torch.int64).nonzero(as_tuple=True)
    which, byte = marks.view(len(marks), -1, _WORD)[row, word].nonzero(as_tuple=True)
    return row[which], word[which] * _WORD + byte


def bounds(x: "Points", y: "Points", rows: slice, columns: slice, out: Tensor | None = None) -> Tensor:
    """Return tight lower bounds of the squared distances of a block, in `out` where there is one.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory.
    """
    try:
        left, right = x.centred[rows], y.centred[columns]
        squared: Tensor = torch.mm(left, right.T, out=out)
        return squared.mul_(-2).add_(x.floors[rows, None]).add_(y.floors[None, columns])
    except torch.OutOfMemoryError as error:
        raise IncompleteError("The device ran out of memory on a block of distances.", hint=HINT) from error


def _keep(
    best: Tensor, index: Tensor, points: slice, squared: Tensor, first: int, room: _Room, *, across: bool = False
) -> None:
    """Merge a block of distances into the sorted lists of its rows, or of its columns, the nearest first."""
    count, ends = best.shape[1], best[points, -1]
    if torch.isinf(ends).any():
        whole = squared.T if across else squared
        value, found_at = whole.topk(min(count, whole.shape[1]), dim=1, largest=False)
    else:
        # Once a list is full, few distances of a block are below its end: only these are sorted.
        marks = room.marks(slice(0, squared.shape[0]), slice(0, squared.shape[1]))
        row, column = _places(torch.lt(squared, ends[None] if across else ends[:, None], out=marks))
        if not len(row):
            return
        near = squared[row, column]
        if across:
            order = column.argsort(stable=True)
            row, column, near = column[order], row[order], near[order]
        counts = torch.bincount(row, minlength=len(ends))
        before = counts.cumsum(0) - counts
        slot = torch.arange(len(row), device=row.device) - before[row]
        value = torch.full((len(ends), int(counts.max())), torch.inf, device=best.device)
        found_at = torch.zeros(value.shape, dtype=torch.int64, device=best.device)
        value[row, slot], found_at[row, slot] = near, column
    both = torch.cat([best[points], value], dim=1)
    indices = torch.cat([index[points], (found_at + first).int()], dim=1)
    best[points], order = both.topk(count, dim=1, largest=False)
    index[points] = indices.gather(1, order)
