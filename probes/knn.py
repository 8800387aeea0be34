"""Which points are whose nearest neighbours, exactly, without ever holding all distances?

Squared distances come from products of blocks in float32 (or bfloat16), |x|^2 + |y|^2 - 2xy with the mean taken off
first. Their rounding error is bounded; whatever lies within the bound of the number that it is compared with is
computed again in float64 from the points as given.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.errors import IncompleteError
from probes.progress import Progress, Silent

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]

ROWS, COLUMNS = 1024, 8192
"""Largest block of distances: 32 MiB in float32, whatever the number of points."""
SPARE = 8
"""Neighbours kept beyond those asked for, so that rounding can hardly push one out of the list."""
MOST_PAIRS = 60_000_000
"""Near pairs that are held, about a gigabyte. Two samples of like spread have some hundred a point."""
_ROUNDING = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
_PIECE = 2**22
_HINT = "Give --device cpu, or fewer points with --samples."


@dataclass(frozen=True, slots=True)
class Points:
    """Points ready to be compared.

    Parameters
    ----------
    given
        As they came, float32 or float64, shape (points, width): what exact distances are computed from.
    centred
        Less the common centre, float32 on the device.
    squares
        |x|^2 of the centred points, float32.
    dtype
        Of the products: float32 or bfloat16.
    """

    given: NDArray[np.floating]
    centred: Tensor
    squares: Tensor
    dtype: torch.dtype

    def __len__(self) -> int:
        return len(self.given)

    def error(self, other: "Points") -> float:
        """Bound the rounding error of any squared distance to the other points.

        Of the product |x| |y| times 4u, for the rounding of both factors, of the result and of parts of the sum, and
        that of a float32 sum of width + 8 terms; beside it that of the squares. The largest norms stand for all.
        """
        unit, width = _ROUNDING[self.dtype], self.given.shape[1]
        single = _ROUNDING[torch.float32]
        norms = [float(one.squares.max().sqrt()) for one in (self, other)]
        product: float = norms[0] * norms[1]
        bound: float = 2 * product * (4 * unit + (width + 8) * single) + 8 * single * (norms[0] + norms[1]) ** 2
        return bound


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Nearest other points of every point, the nearest first.

    Parameters
    ----------
    squared
        Squared distances in float64, shape (points, count).
    index
        Which points they are, shape (points, count).
    """

    squared: Floats
    index: Integers


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a point x and a point y that are near by the measure of either, and the nearest pairs of all points.

    Parameters
    ----------
    x, y
        Places of the two, shape (pairs,).
    squared
        Squared distances, shape (pairs,).
    nearest_y, nearest_x
        For every x its nearest y, for every y its nearest x.
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


def points(
    vectors: NDArray[np.floating],
    centre: NDArray[np.floating] | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
) -> Points:
    """Prepare vectors of shape (points, width) for comparison with any others that have the same centre.

    Parameters
    ----------
    centre
        What is taken off, shape (width,); None takes the mean of these points. Distances do not depend on it, their
        rounding does.
    dtype
        Of the products: "bfloat16" is faster on some devices and gives the same answer, since more is computed again.
    """
    given = np.ascontiguousarray(vectors)
    middle: Floats = np.asarray(given.mean(0, dtype=np.float64) if centre is None else centre, dtype=np.float64)
    centred = torch.from_numpy((given - middle).astype(np.float32)).to(device)
    return Points(given, centred, (centred * centred).sum(1), getattr(torch, dtype))


def exact(x: Points, y: Points, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> Floats:
    """Return the squared distances of single pairs in float64, from the points as given, shape (pairs,).

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


def neighbours(own: Points, count: int, *, progress: Progress | None = None, label: str = "Neighbours") -> Neighbours:
    """Find the `count` nearest other points of each point.

    Every distance is computed once and serves both of its points.

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
    blocks = list(_blocks(size, size, symmetric=True))
    with (progress or Silent()).phase(label, len(blocks), "blocks") as advance:
        for rows, columns in blocks:
            squared = _squared(own, own, rows, columns)
            start, stop = rows.start, rows.stop
            if columns.start < stop:
                # The triangle below the diagonal has been seen from the other side, and nobody is their own neighbour.
                here = torch.ones_like(squared, dtype=torch.bool).triu(start - columns.start + 1)
                squared.masked_fill_(~here, torch.inf)
            _keep(best, index, rows, squared, columns.start)
            _keep(best, index, columns, squared.T, start)
            advance(1)
    return _settled(own, count, best.cpu().numpy(), index.cpu().numpy())


def pairs(
    x: Points,
    y: Points,
    reach_x: Floats,
    reach_y: Floats,
    *,
    limits_x: Floats | None = None,
    limits_y: Floats | None = None,
    progress: Progress | None = None,
    label: str = "Pairs",
) -> Pairs:
    """Find all pairs with a squared distance below the reach of x or the reach of y.

    Parameters
    ----------
    reach_x, reach_y
        Squared distances, shapes (points x,) and (points y,).
    limits_x, limits_y
        Squared distances that those of the pairs will be compared with, shape (limits, points); a pair within
        rounding of one is computed again. None: the reaches.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory.
    """
    error, device = x.error(y), x.centred.device
    wide = [torch.from_numpy((reach + error).astype(np.float32)).to(device) for reach in (reach_x, reach_y)]
    nearest = _Nearest(len(x), device), _Nearest(len(y), device)
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    count, blocks = 0, list(_blocks(len(x), len(y), symmetric=False))
    with (progress or Silent()).phase(label, len(blocks), "blocks") as advance:
        for rows, columns in blocks:
            squared = _squared(x, y, rows, columns)
            nearest[0].see(rows, columns.start, squared)
            nearest[1].see(columns, rows.start, squared.T)
            near = squared < torch.maximum(wide[0][rows, None], wide[1][None, columns])
            row, column = near.nonzero(as_tuple=True)
            count += len(row)
            if count > MOST_PAIRS:
                raise IncompleteError(f"More than {MOST_PAIRS:,} pairs are near: one side lies in a heap.", hint=_HINT)
            found.append(((row + rows.start).int().cpu(), (column + columns.start).int().cpu(), squared[near].cpu()))
            advance(1)
    at_x, at_y, values = (torch.cat([part[place] for part in found]).numpy() for place in range(3))
    # Rounding may leave what is nothing below nothing.
    distances = np.maximum(values.astype(np.float64), 0.0)
    close = np.zeros(len(at_x), dtype=bool)
    for limits, at in (
        (reach_x if limits_x is None else limits_x, at_x),
        (reach_y if limits_y is None else limits_y, at_y),
    ):
        for limit in np.atleast_2d(limits):
            close |= np.abs(distances - limit[at]) <= error
    again = np.flatnonzero(close)
    distances[again] = exact(x, y, at_x[again], at_y[again])
    of_x, of_y = (side.index.cpu().numpy() for side in nearest)
    to_y, to_x = exact(x, y, np.arange(len(x)), of_x), exact(x, y, of_y, np.arange(len(y)))
    return Pairs(at_x, at_y, distances, of_x, to_y, of_y, to_x)


class _Nearest:
    """The nearest point met so far of each of some points."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.squared = torch.full((size,), torch.inf, device=device)
        self.index = torch.zeros(size, dtype=torch.int32, device=device)

    def see(self, rows: slice, first: int, squared: Tensor) -> None:
        value, place = squared.min(1)
        better = value < self.squared[rows]
        self.squared[rows] = torch.where(better, value, self.squared[rows])
        self.index[rows] = torch.where(better, (place + first).int(), self.index[rows])


def _blocks(rows: int, columns: int, *, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    for start in range(0, rows, ROWS):
        stop = min(start + ROWS, rows)
        for first in range(start if symmetric else 0, columns, COLUMNS):
            yield slice(start, stop), slice(first, min(first + COLUMNS, columns))


def _squared(x: Points, y: Points, rows: slice, columns: slice) -> Tensor:
    try:
        left, right = x.centred[rows], y.centred[columns]
        exactly = x.dtype is torch.float32
        product = left @ right.T if exactly else (left.to(x.dtype) @ right.T.to(x.dtype)).float()
        return product.mul_(-2).add_(x.squares[rows, None]).add_(y.squares[None, columns])
    except torch.OutOfMemoryError as error:
        raise IncompleteError("The device ran out of memory on a block of distances.", hint=_HINT) from error


def _keep(best: Tensor, index: Tensor, rows: slice, squared: Tensor, first: int) -> None:
    """Merge a block of distances into the lists of its rows, which are sorted, the nearest first."""
    count, ends = best.shape[1], best[rows, -1:]
    if torch.isinf(ends).any():
        value, place = squared.topk(min(count, squared.shape[1]), dim=1, largest=False)
    else:
        # Once a list is full, few distances of a block are below its end: only these are sorted.
        row, column = (squared < ends).nonzero(as_tuple=True)
        if not len(row):
            return
        counts = torch.bincount(row, minlength=len(ends))
        before = counts.cumsum(0) - counts
        slot = torch.arange(len(row), device=row.device) - before[row]
        value = torch.full((len(ends), int(counts.max())), torch.inf, device=best.device)
        place = torch.zeros(value.shape, dtype=torch.int64, device=best.device)
        value[row, slot], place[row, slot] = squared[row, column], column
    both = torch.cat([best[rows], value], dim=1)
    places = torch.cat([index[rows], (place + first).int()], dim=1)
    best[rows], order = both.topk(count, dim=1, largest=False)
    index[rows] = places.gather(1, order)


def _settled(own: Points, count: int, best: NDArray[np.float32], index: Integers) -> Neighbours:
    """Sort the lists by exact distances, and mend those from which rounding may have kept a neighbour."""
    size, kept = index.shape
    rows = np.repeat(np.arange(size), kept)
    squared = exact(own, own, rows, index.ravel()).reshape(size, kept)
    order = np.argsort(squared, axis=1, kind="stable")
    squared, index = np.take_along_axis(squared, order, 1), np.take_along_axis(index, order, 1)
    if kept < size - 1:
        # Whatever is not listed was found no nearer than the end of the list.
        doubtful = np.flatnonzero(best.max(1) - 2 * own.error(own) < squared[:, count - 1])
        for row in doubtful:
            everyone = exact(own, own, np.full(size, row), np.arange(size))
            everyone[row] = np.inf
            near = np.argpartition(everyone, count - 1)[:count]
            near = near[np.argsort(everyone[near], kind="stable")]
            squared[row, :count], index[row, :count] = everyone[near], near
    return Neighbours(squared[:, :count], index[:, :count].astype(np.int32))
