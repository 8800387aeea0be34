"""Blocks of distances on numpy, where torch is not installed: as `torch_blocks`, on the CPU."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from probes.vectors.distance_blocks import Blocks

if TYPE_CHECKING:
    from probes.vectors.knn import Points

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int32]


def ready(centred: Singles, device: str) -> tuple[Singles, Singles]:
    """Return points, shape (points, width), and their |x|^2; there is no device but the CPU."""
    return centred, np.einsum("ij,ij->i", centred, centred)


def nearest(
    own: "Points", chosen: slice, kept: int, blocks: Blocks, advance: Callable[[int], None], *, mirrored: bool
) -> tuple[Singles, Integers]:
    """Return lower bounds and indices of the `kept` nearest other points of each chosen one, shapes (chosen, kept).

    `mirrored` blocks are the upper triangle of a table, and each serves its rows and its columns.
    """
    size = chosen.stop - chosen.start
    best = np.full((size, kept), np.inf, dtype=np.float32)
    index = np.zeros((size, kept), dtype=np.int32)
    for rows, columns in blocks:
        squared = bounds(own, own, rows, columns)
        start, stop = rows.start, rows.stop
        if columns.start < stop and columns.stop > start:
            # Of a triangle what is below the diagonal was computed in its mirror image; no point is its own neighbour.
            apart = start - columns.start
            gap = np.arange(squared.shape[1]) - np.arange(squared.shape[0])[:, None]
            squared[(gap <= apart) if mirrored else (gap == apart)] = np.inf
        _keep(best, index, slice(start - chosen.start, stop - chosen.start), squared, columns.start)
        if mirrored:
            _keep(best, index, columns, squared.T, start)
        advance(1)
    return best, index


def near(
    x: "Points",
    y: "Points",
    reach_x: Floats,
    reach_y: Floats,
    blocks: Blocks,
    take: Callable[[Integers, Integers, Singles], None],
    advance: Callable[[int], None],
) -> tuple[Integers, Integers]:
    """Hand over the indices and lower bounds of the near pairs of each block.

    Returned are the index of the nearest y of every x, and of the nearest x of every y, shape (points,).
    """
    # Rounded up, so that no pair at the very edge is lost to float32.
    wide = [np.nextafter(reach.astype(np.float32), np.float32(np.inf)) for reach in (reach_x, reach_y)]
    lowest = [(np.full(len(side), np.inf, dtype=np.float32), np.zeros(len(side), dtype=np.int32)) for side in (x, y)]
    for rows, columns in blocks:
        squared = bounds(x, y, rows, columns)
        _update(*lowest[0], rows, columns.start, squared)
        _update(*lowest[1], columns, rows.start, squared.T)
        row, column = np.nonzero(squared <= np.maximum(wide[0][rows, None], wide[1][None, columns]))
        lows = squared[row, column]
        take((row + rows.start).astype(np.int32), (column + columns.start).astype(np.int32), lows)
        advance(1)
    return lowest[0][1], lowest[1][1]


def bounds(x: "Points", y: "Points", rows: slice, columns: slice) -> Singles:
    """Return tight lower bounds of the squared distances of a block, shape (rows, columns)."""
    squared: Singles = x.centred[rows] @ y.centred[columns].T
    squared *= -2
    squared += x.floors[rows, None]
    squared += y.floors[None, columns]
    return squared


def _update(squared: Singles, index: Integers, rows: slice, first: int, block: Singles) -> None:
    """Take the nearest of a block into the running minimum of its rows."""
    column = block.argmin(1)
    value = np.take_along_axis(block, column[:, None], 1)[:, 0]
    better = value < squared[rows]
    squared[rows] = np.where(better, value, squared[rows])
    index[rows] = np.where(better, column + first, index[rows])


def _keep(best: Singles, index: Integers, rows: slice, squared: Singles, first: int) -> None:
    """Merge a block of distances into the lists of its rows, which keep the nearest in any order."""
    count = best.shape[1]
    both = np.concatenate([best[rows], squared], axis=1)
    chosen = np.argpartition(both, count - 1, axis=1)[:, :count]
    columns = np.arange(first, first + squared.shape[1], dtype=np.int32)
    indices = np.concatenate([index[rows], np.broadcast_to(columns, squared.shape)], axis=1)
    best[rows] = np.take_along_axis(both, chosen, 1)
    index[rows] = np.take_along_axis(indices, chosen, 1)
