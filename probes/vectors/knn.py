"""Exact nearest neighbours, found without ever holding all distances.

Squared distances come from products of blocks in float32, |x|^2 + |y|^2 - 2xy with the mean taken off first. Their
rounding error is bounded, and what can be near within that bound is computed again in float64 from the points as given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.installed import is_installed
from probes.core.progress import Progress, Silent
from probes.vectors.distance_blocks import blocks_of, check_pairs

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]

ROWS, COLUMNS = 1024, 8192
"""Largest block of distances: 32 MiB in float32, whatever the number of points."""
BLOCK = ROWS, COLUMNS
NARROW = 256, 2048
"""Block of many points on a CPU, 2 MiB: in its caches what is done to it takes less than half of the time."""
SPARE = 8
"""Neighbours kept beyond those asked for, so that rounding can hardly push one out of the list."""
MOST_PAIRS = 60_000_000
"""Near pairs that are held, about a gigabyte. Two samples of like spread have some hundred a point."""
PORTION = 2**20
"""Near pairs that are handed over at once, 16 MiB, where they are not held."""
PAIRS_A_POINT = 1_000
"""Near pairs for each point of either side from which it is said that they lie in a heap, of so many points."""
_ROUNDING = 2.0**-24
_RANGE = 1e-30, 1e30
_PIECE = 2**17
_CENTRED = 2**23


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
class Nearest:
    """The nearest point of the other side, for the points x and y of both.

    Parameters
    ----------
    nearest_y, nearest_x
        For every x its nearest y, for every y its nearest x; of several that are equally near to within float32's
        rounding, any.
    to_y, to_x
        The squared distances to those.
    """

    nearest_y: Integers
    to_y: Floats
    nearest_x: Integers
    to_x: Floats


@dataclass(frozen=True, slots=True)
class Pairs(Nearest):
    """Near pairs of points x and y (within the reach of either), beside the nearest point of each.

    Parameters
    ----------
    x, y
        Indices of the two points, shape (pairs,).
    squared
        Squared distances, shape (pairs,).
    """

    x: Integers
    y: Integers
    squared: Floats


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
    single = np.empty(given.shape, dtype=np.float32)
    step = max(1, _CENTRED // max(1, given.shape[1]))
    with np.errstate(over="ignore"):
        for start in range(0, len(given), step):
            single[start : start + step] = given[start : start + step] - middle
        centred, squares = _backend().ready(single, device)
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
    return Points(given, centred, squares * (1 - rounding(given.shape[1])))


def rounding(width: int) -> float:
    """Return by which part of |x|^2 each of two points of this width may put their squared distance off."""
    return _ROUNDING * (2 * width + 40)


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
    rows: slice | None = None,
    progress: Progress | None = None,
    label: str = "Neighbours",
    block: tuple[int, int] | None = None,
) -> Neighbours:
    """Find the `count` nearest other points of each point.

    Parameters
    ----------
    rows
        Points whose neighbours among all are found, such as the share of one of many workers; None takes all, and
        every distance is then computed once and serves both of its points.
    block
        Rows and columns of the largest block of distances; None: what is quick.

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
    kept, chosen = min(size - 1, count + SPARE), rows or slice(0, size)
    block = block or _block(own)
    blocks = _strip(chosen, size, block) if rows else list(blocks_of(size, size, block, symmetric=True))
    with (progress or Silent()).phase(label, len(blocks), "blocks") as advance:
        best, index = _backend().nearest(own, chosen, kept, blocks, advance, mirrored=rows is None)
    return _exact_neighbours(own, chosen.start, count, best, index)


def pairs(
    x: Points,
    y: Points,
    reach_x: Floats,
    reach_y: Floats,
    *,
    progress: Progress | None = None,
    label: str = "Pairs",
    block: tuple[int, int] | None = None,
    most: int = MOST_PAIRS,
) -> Pairs:
    """Find all pairs with a squared distance at most the reach of x or the reach of y.

    Parameters
    ----------
    reach_x, reach_y
        Squared distances, shapes (points x,) and (points y,).
    block
        Rows and columns of the largest block of distances; None: what is quick.
    most
        Near pairs that are held.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory, or more pairs are near than can be held.
    """
    found: list[tuple[Integers, Integers, Floats]] = []
    take = Portions(x, y, lambda *pairs: found.append(pairs), most=most)
    who = near_pairs(x, y, reach_x, reach_y, take, progress=progress, label=label, block=block)
    at_x, at_y = (np.concatenate([part[side] for part in found]) for side in range(2))
    squared = np.concatenate([part[2] for part in found])
    return Pairs(who.nearest_y, who.to_y, who.nearest_x, who.to_x, at_x, at_y, squared)


class Portions:
    """Near pairs of blocks, gathered until they are worth handing over, with their exact squared distances.

    Parameters
    ----------
    take
        What is given x, y and the squared distance of pairs, shape (pairs,) each; at least once.
    most
        Near pairs of all blocks together.
    portion
        Pairs at which they are handed over.
    distances
        What gives pairs their squared distances, from x, y and lower bounds of them; None: exactly.
    """

    def __init__(
        self,
        x: Points,
        y: Points,
        take: Callable[[Integers, Integers, Floats], None],
        *,
        most: int,
        portion: int = PORTION,
        distances: Callable[[Integers, Integers, NDArray[np.float32]], Floats] | None = None,
    ) -> None:
        self._take, self._most, self._portion = take, most, portion
        self._distances = distances or (lambda rows, columns, lows: exact(x, y, rows, columns))
        self._held: list[tuple[Integers, Integers, NDArray[np.float32]]] = []
        self._count = self._waiting = 0

    def add(self, rows: Integers, columns: Integers, lows: NDArray[np.float32]) -> None:
        """Take the pairs of a block, and lower bounds of their squared distances.

        Raises
        ------
        IncompleteError
            Where there are more than may be.
        """
        self._count += len(rows)
        check_pairs(self._count, self._most)
        self._held.append((rows, columns, lows))
        self._waiting += len(rows)
        if self._waiting >= self._portion:
            self.finish()

    def finish(self) -> None:
        """Hand over what waits."""
        held, self._held, self._waiting = self._held, [], 0
        if held:
            rows, columns = (np.concatenate([part[side] for part in held]) for side in (0, 1))
            lows = np.concatenate([part[2] for part in held])
            held.clear()
            self._take(rows, columns, self._distances(rows, columns, lows))


def near_pairs(
    x: Points,
    y: Points,
    reach_x: Floats,
    reach_y: Floats,
    take: Portions,
    *,
    rows: slice | None = None,
    progress: Progress | None = None,
    label: str = "Pairs",
    block: tuple[int, int] | None = None,
) -> Nearest:
    """Hand all pairs over that `pairs` finds, in portions, and hold none of them; return who is nearest to whom.

    Parameters
    ----------
    rows
        Points x that are looked at, such as the share of one of many workers; None: all. What is returned is of them
        alone: the nearest y of each of them, and for every y the nearest of them.

    Raises
    ------
    IncompleteError
        As of `pairs`.
    """
    chosen = rows or slice(0, len(x))
    blocks = _strip(chosen, len(y), block or _block(y))
    with (progress or Silent()).phase(label, len(blocks), "blocks") as advance:
        of_x, of_y = _backend().near(x, y, reach_x, reach_y, blocks, take.add, advance)
    take.finish()
    here = np.arange(chosen.start, chosen.stop)
    to_y, to_x = exact(x, y, here, of_x[chosen]), exact(x, y, of_y, np.arange(len(y)))
    return Nearest(of_x[chosen], to_y, of_y, to_x)


def _block(columns: Points) -> tuple[int, int]:
    """Return the block of distances to some points that is quick."""
    on_cpu = str(columns.centred.device) == "cpu" if hasattr(columns.centred, "device") else True
    return NARROW if on_cpu and len(columns) > COLUMNS else BLOCK


def _strip(rows: slice, columns: int, block: tuple[int, int]) -> list[tuple[slice, slice]]:
    """Return the blocks of some rows of a table."""
    found = blocks_of(rows.stop - rows.start, columns, block, symmetric=False)
    return [(slice(down.start + rows.start, down.stop + rows.start), across) for down, across in found]


def _exact_neighbours(own: Points, first: int, count: int, best: NDArray[np.float32], index: Integers) -> Neighbours:
    """Sort the lists by exact distances, and recompute those that may lack a neighbour because of rounding."""
    (size, kept), everyone = index.shape, len(own)
    squared, found, doubtful = np.empty((size, count)), np.empty((size, count), dtype=np.int32), 0
    step = max(1, _PIECE * 8 // kept)
    for start in range(0, size, step):
        rows = np.arange(start, min(start + step, size))
        gaps = exact(own, own, np.repeat(first + rows, kept), index[rows].ravel()).reshape(len(rows), kept)
        # Which of equals comes first depends neither on how blocks were cut nor on what computed them.
        order = np.lexsort((_deal(first + rows[:, None], index[rows]), gaps), axis=1)[:, :count]
        squared[rows], found[rows] = np.take_along_axis(gaps, order, 1), np.take_along_axis(index[rows], order, 1)
        if kept < everyone - 1:
            # Points that are not listed are no nearer than the end of the list.
            short = rows[best[rows].max(1) < squared[rows, count - 1]].tolist()
            doubtful += len(short)
            for row in short:
                squared[row], found[row] = _exact_row(own, first + row, count)
    return Neighbours(squared, found, doubtful)


def _exact_row(own: Points, row: int, count: int) -> tuple[Floats, Integers]:
    """Return the nearest other points of one point, from its exact distances to all."""
    size = len(own)
    everyone = exact(own, own, np.full(size, row), np.arange(size))
    everyone[row] = np.inf
    near = np.lexsort((_deal(np.full(size, row), np.arange(size)), everyone))[:count]
    return everyone[near], near.astype(np.int32)


def _deal(rows: NDArray[np.integer], columns: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Return a number for each pair of points by which equals are ordered, as good as drawn at random.

    By their index the first points would be the neighbours of all that are as near to others, and pass for hubs.

    >>> bool((_deal(np.array([[0], [1]]), np.array([1, 2, 3])).argsort() == [[0, 1, 2], [0, 1, 2]]).all())
    False
    """
    mixed = rows.astype(np.uint32) * np.uint32(0x9E3779B1) + columns.astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return np.asarray(mixed ^ (mixed >> np.uint32(16)))
