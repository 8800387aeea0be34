"""Blocks of distances on torch: on a graphics card, or on the threads of the CPU."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.core.errors import IncompleteError
from probes.vectors.distance_blocks import HINT, Blocks, check_pairs

if TYPE_CHECKING:
    from probes.vectors.knn import Points

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]


def ready(centred: NDArray[np.float32], device: str) -> tuple[Tensor, Tensor]:
    """Return points on the device, and their |x|^2."""
    there = torch.from_numpy(centred).to(device)
    return there, (there * there).sum(1)


def nearest(
    own: "Points", kept: int, blocks: Blocks, advance: Callable[[int], None]
) -> tuple[NDArray[np.float32], Integers]:
    """Return lower bounds and indices of the `kept` nearest other points of each, shapes (points, kept)."""
    size = len(own)
    best = torch.full((size, kept), torch.inf, device=own.centred.device)
    index = torch.zeros((size, kept), dtype=torch.int32, device=own.centred.device)
    for rows, columns in blocks:
        squared = bounds(own, own, rows, columns)
        start, stop = rows.start, rows.stop
        if columns.start < stop:
            # The triangle below the diagonal was computed in its mirror image; no point is its own neighbour.
            here = torch.ones_like(squared, dtype=torch.bool).triu(start - columns.start + 1)
            squared.masked_fill_(~here, torch.inf)
        _keep(best, index, rows, squared, columns.start)
        _keep(best, index, columns, squared.T, start)
        advance(1)
    return best.cpu().numpy(), index.cpu().numpy()


def near(
    x: "Points",
    y: "Points",
    reach_x: Floats,
    reach_y: Floats,
    blocks: Blocks,
    most: int,
    advance: Callable[[int], None],
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the indices of the near pairs, and of the nearest y of every x and the nearest x of every y."""
    device = x.centred.device
    # Rounded up, so that no pair at the very edge is lost to float32.
    wide = [
        torch.from_numpy(np.nextafter(np.float32(reach), np.float32(np.inf))).to(device) for reach in (reach_x, reach_y)
    ]
    lowest = _Nearest(len(x), device), _Nearest(len(y), device)
    found: list[tuple[Tensor, Tensor]] = []
    count = 0
    for rows, columns in blocks:
        squared = bounds(x, y, rows, columns)
        lowest[0].update(rows, columns.start, squared)
        lowest[1].update(columns, rows.start, squared.T)
        close = squared <= torch.maximum(wide[0][rows, None], wide[1][None, columns])
        row, column = close.nonzero(as_tuple=True)
        count += len(row)
        check_pairs(count, most)
        found.append(((row + rows.start).int().cpu(), (column + columns.start).int().cpu()))
        advance(1)
    at_x, at_y = (torch.cat([part[side] for part in found]).numpy() for side in range(2))
    of_x, of_y = (side.index.cpu().numpy() for side in lowest)
    return at_x, at_y, of_x, of_y


class _Nearest:
    """Running minimum: the nearest point so far of each point."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.squared = torch.full((size,), torch.inf, device=device)
        self.index = torch.zeros(size, dtype=torch.int32, device=device)

    def update(self, rows: slice, first: int, squared: Tensor) -> None:
        value, column = squared.min(1)
        better = value < self.squared[rows]
        self.squared[rows] = torch.where(better, value, self.squared[rows])
        self.index[rows] = torch.where(better, (column + first).int(), self.index[rows])


def bounds(x: "Points", y: "Points", rows: slice, columns: slice) -> Tensor:
    """Return tight lower bounds of the squared distances of a block.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory.
    """
    try:
        left, right = x.centred[rows], y.centred[columns]
        squared: Tensor = left @ right.T
        return squared.mul_(-2).add_(x.floors[rows, None]).add_(y.floors[None, columns])
    except torch.OutOfMemoryError as error:
        raise IncompleteError("The device ran out of memory on a block of distances.", hint=HINT) from error


def _keep(best: Tensor, index: Tensor, rows: slice, squared: Tensor, first: int) -> None:
    """Merge a block of distances into the sorted lists of its rows, the nearest first."""
    count, ends = best.shape[1], best[rows, -1:]
    if torch.isinf(ends).any():
        value, found_at = squared.topk(min(count, squared.shape[1]), dim=1, largest=False)
    else:
        # Once a list is full, few distances of a block are below its end: only these are sorted.
        row, column = (squared < ends).nonzero(as_tuple=True)
        if not len(row):
            return
        counts = torch.bincount(row, minlength=len(ends))
        before = counts.cumsum(0) - counts
        slot = torch.arange(len(row), device=row.device) - before[row]
        value = torch.full((len(ends), int(counts.max())), torch.inf, device=best.device)
        found_at = torch.zeros(value.shape, dtype=torch.int64, device=best.device)
        value[row, slot], found_at[row, slot] = squared[row, column], column
    both = torch.cat([best[rows], value], dim=1)
    indices = torch.cat([index[rows], (found_at + first).int()], dim=1)
    best[rows], order = both.topk(count, dim=1, largest=False)
    index[rows] = indices.gather(1, order)
