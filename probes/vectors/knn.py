"""Exact nearest neighbours, found without ever holding all distances.

Squared distances come from products of blocks in float32, |x|^2 + |y|^2 - 2xy with the mean taken off first. Their
rounding error is bounded, and what can be near within that bound is computed again in float64 from the points as given.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.core.errors import IncompleteError, InputError
from probes.core.progress import Progress, Silent

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]

ROWS, COLUMNS = 1024, 8192
"""Largest block of distances: 32 MiB in float32, whatever the number of points."""
BLOCK = ROWS, COLUMNS
SPARE = 8
"""Neighbours kept beyond those asked for, so that rounding can hardly push one out of the list."""
MOST_PAIRS = 60_000_000
"""Near pairs that are held, about a gigabyte. Two samples of like spread have some hundred a point."""
_ROUNDING = 2.0**-24
_RANGE = 1e-30, 1e30
_PIECE = 2**17
_HINT = "Give --device cpu, or fewer points with --samples."


@dataclass(frozen=True, slots=True)
class Points:
    """Points prepared for distances.

    Parameters
    ----------
    given
        Points as given, float32 or float64, shape (points, width), from which exact distances are computed.
    centred
        Points less the common centre, float32 on the device.
    floors
        |x|^2 of the centred points less their part in the bound of the rounding error, float32.
    """

    given: NDArray[np.floating]
    centred: Tensor
    floors: Tensor

    def __len__(self) -> int:
        return len(self.given)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Nearest other points of every point, the nearest first.

    Parameters
    ----------
    squared
        Squared distances in float64, shape (points, count).
    index
        Indices of those points, shape (points, count).
    recomputed
        Points whose distances to all others were computed exactly, as rounding may have cost them a neighbour.
    """

    squared: Floats
    index: Integers
    recomputed: int = 0


@dataclass(frozen=True, slots=True)
class Pairs:
    """Near pairs of points x and y (within the reach of either), and the nearest point of each.

    Parameters
    ----------
    x, y
        Indices of the two points, shape (pairs,).
    squared
        Squared distances, shape (pairs,).
    nearest_y, nearest_x
        For every x its nearest y, for every y its nearest x; of several that are equally near to within float32's
        rounding, any.
    to_y, to_x
        The squared distances to those.
    """

    x: Integers
    y: Integers
    squared: Floats
    nearest_y: Integers
    to_y: Floats
    nearest_x: Integers
    to_x: Floats


def points(vectors: NDArray[np.floating], centre: NDArray[np.floating] | None = None, *, device: str = "cpu") -> Points:
    """Prepare vectors of shape (points, width) for comparison with any others that have the same centre.

    Parameters
    ----------
    centre
        What is taken off, shape (width,); None takes the mean of these points. Distances do not depend on it, their
        rounding does.

    Raises
    ------
    InputError
        Where numbers are so large or so small that float32 holds no square of them.
    """
    given = np.ascontiguousarray(vectors)
    middle: Floats = np.asarray(given.mean(0, dtype=np.float64) if centre is None else centre, dtype=np.float64)
    with np.errstate(over="ignore"):
        centred = torch.from_numpy((given - middle).astype(np.float32)).to(device)
    squares = (centred * centred).sum(1)
    largest = float(squares.max())
    # Points that only rounding tells apart are one point; others may be too close for their squares.
    tiny = largest < _RANGE[0] and bool(centred.any()) and float(np.abs(given).max()) ** 2 < _RANGE[0]
    if not largest <= _RANGE[1] or tiny:
        raise InputError(
            f"The vectors are as long as {np.sqrt(largest):.3g}: float32 does not hold their squares.",
            where="vectors",
            hint="Scale all of them by the same factor, or give --normalisation unit.",
        )
    # Sums of w products are off by at most w u |x| |y|, and squares alike (Higham 2002, section 3.1). With 2 |x| |y| <=
    # |x|^2 + |y|^2 each point bears its own part, and an outlier makes no other pair doubtful.
    return Points(given, centred, squares * (1 - _ROUNDING * (2 * given.shape[1] + 40)))


def exact(x: Points, y: Points, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> Floats:
    """Compute the squared distances of single pairs in float64, from the points as given, shape (pairs,).

    >>> one = points(np.array([[0.0, 0.0], [3.0, 4.0]]))
    >>> exact(one, one, np.array([0, 1]), np.array([1, 1])).tolist()
    [25.0, 0.0]
    """
    found = np.empty(len(rows))
    step = max(1, _PIECE // max(1, x.given.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        gap = x.given[rows[part]].astype(np.float64) - y.given[columns[part]]
        found[part] = np.einsum("ij,ij->i", gap, gap)
    return found


def neighbours(
    own: Points,
    count: int,
    *,
    progress: Progress | None = None,
    label: str = "Neighbours",
    block: tuple[int, int] = BLOCK,
) -> Neighbours:
    """Find the `count` nearest other points of each point.

    Every distance is computed once and serves both of its points.

    Parameters
    ----------
    block
        Rows and columns of the largest block of distances.

    Raises
    ------
    ValueError
        Where there are not more than `count` points.
    IncompleteError
        Where the device runs out of memory.
    """
    size = len(own)
    if not 0 < count < size:
        raise ValueError(f"{count} neighbours of each of {size} points")
    kept = min(size - 1, count + SPARE)
    best = torch.full((size, kept), torch.inf, device=own.centred.device)
    index = torch.zeros((size, kept), dtype=torch.int32, device=own.centred.device)
    blocks = list(blocks_of(size, size, block, symmetric=True))
    with (progress or Silent()).phase(label, len(blocks), "blocks") as advance:
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
    return _exact_neighbours(own, count, best.cpu().numpy(), index.cpu().numpy())


def pairs(
    x: Points,
    y: Points,
    reach_x: Floats,
    reach_y: Floats,
    *,
    progress: Progress | None = None,
    label: str = "Pairs",
    block: tuple[int, int] = BLOCK,
    most: int = MOST_PAIRS,
) -> Pairs:
    """Find all pairs with a squared distance at most the reach of x or the reach of y.

    Parameters
    ----------
    reach_x, reach_y
        Squared distances, shapes (points x,) and (points y,).
    block
        Rows and columns of the largest block of distances.
    most
        Near pairs that are held.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory, or more pairs are near than can be held.
    """
    device = x.centred.device
    # Rounded up, so that no pair at the very edge is lost to float32.
    wide = [
        torch.from_numpy(np.nextafter(np.float32(reach), np.float32(np.inf))).to(device) for reach in (reach_x, reach_y)
    ]
    nearest = _Nearest(len(x), device), _Nearest(len(y), device)
    found: list[tuple[Tensor, Tensor]] = []
    count, blocks = 0, list(blocks_of(len(x), len(y), block, symmetric=False))
    with (progress or Silent()).phase(label, len(blocks), "blocks") as advance:
        for rows, columns in blocks:
            squared = bounds(x, y, rows, columns)
            nearest[0].update(rows, columns.start, squared)
            nearest[1].update(columns, rows.start, squared.T)
            near = squared <= torch.maximum(wide[0][rows, None], wide[1][None, columns])
            row, column = near.nonzero(as_tuple=True)
            count += len(row)
            if count > most:
                raise IncompleteError(f"More than {most:,} pairs are near: one side lies in a heap.", hint=_HINT)
            found.append(((row + rows.start).int().cpu(), (column + columns.start).int().cpu()))
            advance(1)
    at_x, at_y = (torch.cat([part[side] for part in found]).numpy() for side in range(2))
    of_x, of_y = (side.index.cpu().numpy() for side in nearest)
    to_y, to_x = exact(x, y, np.arange(len(x)), of_x), exact(x, y, of_y, np.arange(len(y)))
    return Pairs(at_x, at_y, exact(x, y, at_x, at_y), of_x, to_y, of_y, to_x)


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


def blocks_of(rows: int, columns: int, largest: tuple[int, int], *, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Yield rows and columns of the blocks of a table of distances; of a symmetric one the upper triangle.

    >>> [(rows.start, columns.start) for rows, columns in blocks_of(4, 4, (2, 2), symmetric=True)]
    [(0, 0), (0, 2), (2, 2)]
    """
    down, across = largest
    for start in range(0, rows, down):
        stop = min(start + down, rows)
        for first in range(start if symmetric else 0, columns, across):
            yield slice(start, stop), slice(first, min(first + across, columns))


def bounds(x: Points, y: Points, rows: slice, columns: slice) -> Tensor:
    """Return tight lower bounds of the squared distances of a block.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory.
    """
    try:
        left, right = x.centred[rows], y.centred[columns]
        return (left @ right.T).mul_(-2).add_(x.floors[rows, None]).add_(y.floors[None, columns])
    except torch.OutOfMemoryError as error:
        raise IncompleteError("The device ran out of memory on a block of distances.", hint=_HINT) from error


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


def _exact_neighbours(own: Points, count: int, best: NDArray[np.float32], index: Integers) -> Neighbours:
    """Sort the lists by exact distances, and recompute those that may lack a neighbour because of rounding."""
    size, kept = index.shape
    rows = np.repeat(np.arange(size), kept)
    squared = exact(own, own, rows, index.ravel()).reshape(size, kept)
    order = np.argsort(squared, axis=1, kind="stable")
    squared, index = np.take_along_axis(squared, order, 1), np.take_along_axis(index, order, 1)
    doubtful: Sequence[int] = ()
    if kept < size - 1:
        # Points that are not listed are no nearer than the end of the list.
        doubtful = np.flatnonzero(best.max(1) < squared[:, count - 1]).tolist()
        for row in doubtful:
            everyone = exact(own, own, np.full(size, row), np.arange(size))
            everyone[row] = np.inf
            near = np.argpartition(everyone, count - 1)[:count]
            near = near[np.argsort(everyone[near], kind="stable")]
            squared[row, :count], index[row, :count] = everyone[near], near
    return Neighbours(squared[:, :count], index[:, :count].astype(np.int32), len(doubtful))
