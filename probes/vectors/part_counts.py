"""Count in how many balls each point lies, in each of many parts of a sample, in one pass over pairs of points.

In every part a ball reaches to some place in the list of neighbours of its centre. Where a near point would stand in
that list is searched once, and the comparison of two small whole numbers then tells for each part whether it lies
inside. Pairs of one centre and one place share these answers; they are summed as products of a sparse table of pairs,
a block of parts at a time, so that what is held at once grows neither with the parts nor with the pairs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.vectors.knn import Neighbours

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Counts = NDArray[np.unsignedinteger[Any]]
Whole = NDArray[np.integer[Any]]

GATHERED = 2**16
"""Pairs that are summed at a time, at least; with many points as many as half of these."""
HELD = 2**22
"""Numbers, one for each point and part, that are held at once: 16 MiB of four bytes."""
BYTE = 255
"""Largest sum that a byte holds."""
_SEARCHED, _COUNTED = 2**16, 2**18


def places(lists: Floats, rows: Whole, squared: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return how many distances of its row, sorted, are at most each one that is given, shape (pairs,).

    A ball that reaches to place r of the list holds strictly inside what has a place of r at most.

    Parameters
    ----------
    lists
        Squared distances in ascending order, shape (points, length).
    rows, squared
        Rows of the lists, and squared distances, shape (pairs,).

    >>> places(np.array([[1.0, 2.0, 2.0]]), np.zeros(4, dtype=int), np.array([0.5, 1.0, 2.0, 9.0])).tolist()
    [0, 1, 3, 3]
    """
    length, flat = lists.shape[1], lists.ravel()
    found = np.zeros(len(rows), dtype=np.intp)
    first = 1 << (length.bit_length() - 1) if length else 0
    for start in range(0, len(rows), _SEARCHED):
        part = slice(start, start + _SEARCHED)
        before, gaps, place = rows[part].astype(np.intp) * length - 1, squared[part], found[part]
        step = first
        while step:
            ahead = place + step
            fits = (flat.take(before + np.minimum(ahead, length)) <= gaps) & (ahead <= length)
            place += step * fits
            step >>= 1
    return found


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the balls of a sample end, in every part.

    Parameters
    ----------
    near
        Neighbours of its points.
    ranks
        Place in the list that a ball reaches to; as many as the list is long: it has no end. Shape (parts, points).
    weights
        Items that a point stands for, shape (parts, points); nought: not in this part.
    """

    near: Neighbours
    ranks: Whole
    weights: Whole

    def present(self, points: slice, parts: slice) -> NDArray[np.uint8]:
        """Return 1 where a point is in a part, else 0, shape (points, parts)."""
        return _present(self.weights[parts, points])

    def beyond(self, points: slice, parts: slice) -> Counts:
        """Return the first place that is not within a ball, 0 of points that are not there, shape (points, parts)."""
        kind = np.min_scalar_type(self.near.squared.shape[1] + 1)
        ends = self.ranks[parts, points].astype(kind)
        ends += kind.type(1)
        return np.ascontiguousarray(np.where(self.weights[parts, points] > 0, ends, kind.type(0)).T)

    def reach(self) -> Floats:
        """Return the largest squared radius of each point over the parts, shape (points,); below 0 if it is in none."""
        squared = self.near.squared
        farthest = np.full(len(squared), -1, dtype=np.int64)
        for ranks, weights in zip(self.ranks, self.weights, strict=True):
            np.maximum(farthest, ranks, out=farthest, where=weights > 0)
        found = np.where(farthest < 0, -1.0, np.inf)
        there = np.flatnonzero((farthest >= 0) & (farthest < squared.shape[1]))
        found[there] = squared[there, farthest[there]]
        return found


def kth_places(weights: Whole, index: NDArray[np.int32], ks: Sequence[int], found: Counts) -> None:
    """Find where the k-th neighbour stands in each list that is in a part; as long as the list: nowhere.

    Parameters
    ----------
    weights
        Items that a point stands for, shape (parts, points); nought: not in this part.
    index
        Points of each list, shape (points, length).
    found
        What is written to, shape (ks, parts, points).
    """
    there, (size, length) = _present(weights), index.shape
    kind = np.min_scalar_type(length)
    step = max(1, _COUNTED // there.shape[1])
    for start in range(0, size, step):
        rows = slice(start, min(start + step, size))
        shape = rows.stop - start, there.shape[1]
        listed, place = np.zeros(shape, dtype=kind), np.zeros((len(ks), *shape), dtype=kind)
        for column in index[rows].T:
            listed += there[column]
            # Before the k-th, every further place is one more.
            short = [np.less(listed, k) for k in ks]
            if not any(less.any() for less in short):
                break
            for before, less in zip(place, short, strict=True):
                before += less
        found[:, :, rows] = place.transpose(0, 2, 1)


@dataclass(frozen=True, slots=True)
class Rows:
    """Pairs of some centres, in rows of one centre and one place in its list each.

    Parameters
    ----------
    first, count
        The first centre, and how many there are.
    pairs
        Which pairs these are, row by row, shape (pairs,).
    starts
        Where each row starts among them, and the end of the last, shape (rows + 1,).
    centre, place
        Of each row, the centre less the first, and the place, shape (rows,).
    """

    first: int
    count: int
    pairs: NDArray[np.intp]
    starts: NDArray[np.int32]
    centre: NDArray[np.intp]
    place: NDArray[np.intp]

    @property
    def points(self) -> slice:
        """The centres."""
        return slice(self.first, self.first + self.count)

    def inside(self, ends: Ends, parts: slice) -> Counts:
        """Return 1 where a row lies within the ball of its centre in a part, shape (rows, parts)."""
        beyond = ends.beyond(self.points, parts)
        # A place is at most the length of a list, which this type holds.
        found = (beyond[self.centre] > self.place.astype(beyond.dtype)[:, None]).view(np.uint8)
        return found if self.count <= BYTE else found.astype(np.uint16 if self.count < 2**16 else np.uint32)

    def sums(self, inside: Counts, others: Whole, size: int, kept: Bools | None = None) -> Counts:
        """Return the sum of `inside` over the rows that each other point is in, shape (size, parts).

        Parameters
        ----------
        others
            The other point of each pair, in the order of `pairs`.
        kept
            Pairs that count; None: all.
        """
        starts = self.starts
        if kept is not None:
            others = others[kept]
            starts = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)[starts]
        # A centre meets another point once, so that no sum exceeds what the type was chosen for.
        return np.asarray(_sparse(starts, others, size, inside.dtype).T @ inside)

    def filled(self, inside: Counts, others: Whole, there: NDArray[np.uint8], most: int) -> Counts:
        """Return for each centre and part the other points in its ball that are there, `most` at most."""
        found = _sparse(self.starts, others, len(there), np.dtype(np.uint8)) @ there
        found *= inside.astype(np.uint8, copy=False)
        np.minimum(found, min(most, BYTE), out=found)
        bounds = np.searchsorted(self.centre, np.arange(self.count + 1)).astype(np.int32)
        kind = np.min_scalar_type(int(most * np.diff(bounds).max()))
        whole = _sparse(bounds, np.arange(len(found)), len(found), kind) @ found.astype(kind, copy=False)
        return np.asarray(np.minimum(whole, most))


def gathered(centres: Whole, place: NDArray[np.intp], length: int, others: int) -> Iterator[Rows]:
    """Yield pairs by their centre and the place of the other point in its list.

    Parameters
    ----------
    centres, place
        Of each pair, shape (pairs,).
    length
        Of a list.
    others
        How many other points there are.
    """
    order = _order(centres)
    own = centres if order is None else centres[order]
    start = 0
    while start < len(own):
        most = start + max(GATHERED, others // 2)
        last = own[min(most, len(own)) - 1]
        stop = int(np.searchsorted(own, last, side="right"))
        first, count = int(own[start]), int(last - own[start]) + 1
        part = np.arange(start, stop) if order is None else order[start:stop]
        keys = (own[start:stop] - first).astype(np.int64) * (length + 1) + place[part]
        yield _rows(first, count, keys, part, length + 1)
        start = stop


def _order(centres: Whole) -> NDArray[np.intp] | None:
    """Return the order by centre; None where they are in order."""
    if (centres[1:] >= centres[:-1]).all():
        return None
    first = int(centres.min())
    # Of two bytes numpy sorts in a time that grows with the number alone.
    return np.argsort((centres - first).astype(np.min_scalar_type(int(centres.max()) - first)), kind="stable")


def _rows(first: int, count: int, keys: NDArray[np.int64], part: NDArray[np.intp], width: int) -> Rows:
    order = np.argsort(keys.astype(np.min_scalar_type(count * width)), kind="stable")
    keys = keys[order]
    fresh = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    lengths = np.diff(fresh, append=len(keys))
    if lengths.max() > BYTE:
        # Cut, so that a byte holds how many pairs a row has.
        within = np.arange(len(keys)) - np.repeat(fresh, lengths)
        fresh = np.flatnonzero(within % BYTE == 0)
    centre, place = np.divmod(keys[fresh], width)
    starts = np.append(fresh, len(keys)).astype(np.int32)
    return Rows(first, count, part[order], starts, centre, place)


def _sparse(starts: NDArray[np.int32], columns: Whole, width: int, kind: np.dtype[Any]) -> Any:
    """Return a table of noughts with a one in these columns of each row."""
    from scipy.sparse import csr_array

    there = np.ones(len(columns), dtype=kind)
    return csr_array((there, columns.astype(np.int32, copy=False), starts), shape=(len(starts) - 1, width))


def closer(
    rows: Rows, inside: Counts, others: Whole, size: int, squared: NDArray[np.floating], limits: Floats
) -> Counts:
    """Return as `Rows.sums`, of pairs whose squared distance is below the limit of a part, shape (size, parts).

    Parameters
    ----------
    others, squared
        Of each pair, in the order of `rows.pairs`.
    limits
        Shape (parts,). Those of parts of a kind are nearly the same, and that of the first may lie apart.
    """
    least, most = (limits[1:].min(), limits[1:].max()) if len(limits) > 1 else (np.inf, -np.inf)
    found = rows.sums(inside, others, size, squared < least)
    row_of = np.repeat(np.arange(len(rows.centre)), np.diff(rows.starts))
    between = np.flatnonzero((squared >= least) & (squared < most))
    if len(between):
        each = inside[row_of[between]] * (squared[between, None] < limits)
        found += _sparse(np.arange(len(each) + 1, dtype=np.int32), others[between], size, inside.dtype).T @ each
    first = (squared < limits[0]) & (inside[:, 0] > 0)[row_of]
    found[:, 0] = np.bincount(others[first], minlength=size)
    return found


def _present(weights: Whole) -> NDArray[np.uint8]:
    return np.ascontiguousarray((weights > 0).T).view(np.uint8)


def blocks_of_parts(parts: int, points: int) -> Iterator[slice]:
    """Yield slices of so many parts that `HELD` numbers are one for each of them and each point.

    >>> [(some.start, some.stop) for some in blocks_of_parts(5, HELD // 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, HELD // max(1, points))
    for start in range(0, parts, step):
        yield slice(start, min(start + step, parts))


def listed_counts(ends: Ends, parts: slice, limits: Floats | None = None) -> NDArray[np.int32]:
    """Return in how many balls of others of its own sample each point is listed, shape (points, parts).

    The neighbour that sets the radius of a ball is in it. Points that are not in a part have counts without a meaning.

    Parameters
    ----------
    limits
        Squared distances, one for each of these parts, that a ball reaches no further than; None: as far as it does.
    """
    index, squared = ends.near.index, ends.near.squared
    size, length = index.shape
    counts = np.zeros((size, len(range(*parts.indices(len(ends.ranks))))), dtype=np.int32)
    step = max(1, 4 * GATHERED // max(1, length))
    for start in range(0, size, step):
        points = slice(start, min(start + step, size))
        centre, place = np.nonzero(np.arange(length) < ends.beyond(points, parts).max(1)[:, None])
        if not len(centre):
            continue
        others, gaps = index[points][centre, place], squared[points][centre, place]
        for rows in gathered(centre + start, place, length, size):
            inside, there = rows.inside(ends, parts), others[rows.pairs]
            if limits is None:
                counts += rows.sums(inside, there, size)
            else:
                # What is as far as the limit counts too.
                beyond = np.nextafter(limits, np.inf)
                counts += closer(rows, inside, there, size, gaps[rows.pairs], beyond)
    return counts
