"""Exact nearest neighbours, found without ever holding all distances.

Squared distances come from products of blocks in float32, |x|^2 + |y|^2 - 2xy with the mean taken off first. Their
rounding error is bounded, and what can be near within that bound is computed again in float64 from the points as given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.installed import is_installed
from probes.core.progress import Progress, Silent
from probes.vectors.distance_blocks import blocks_of

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


@dataclass(frozen=True, slots=True)
class Points:
    """Points prepared for distances.

    Parameters
    ----------
    given
        Points as given, float32 or float64, shape (points, width), from which exact distances are computed.
    centred
        Points less the common centre, float32 on the device; an array where there is no torch.
    floors
        |x|^2 of the centred points less their part in the bound of the rounding error, float32.
    """

    given: NDArray[np.floating]
    centred: Any
    floors: Any

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


@cache
def _backend() -> Any:
    """Return what computes blocks: torch, and numpy where torch is not installed; the distances kept are the same."""
    return import_module(f"probes.vectors.{'torch' if is_installed('torch') else 'numpy'}_blocks")


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
        centred, squares = _backend().ready((given - middle).astype(np.float32), device)
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
    blocks = list(blocks_of(size, size, block, symmetric=True))
    with (progress or Silent()).phase(label, len(blocks), "blocks") as advance:
        best, index = _backend().nearest(own, kept, blocks, advance)
    return _exact_neighbours(own, count, best, index)


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
    blocks = list(blocks_of(len(x), len(y), block, symmetric=False))
    with (progress or Silent()).phase(label, len(blocks), "blocks") as advance:
        at_x, at_y, of_x, of_y = _backend().near(x, y, reach_x, reach_y, blocks, most, advance)
    to_y, to_x = exact(x, y, np.arange(len(x)), of_x), exact(x, y, of_y, np.arange(len(y)))
    return Pairs(at_x, at_y, exact(x, y, at_x, at_y), of_x, to_y, of_y, to_x)


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
