"""Precision, recall, density and coverage: how much of one sample lies within k-nearest-neighbour balls of another.

Everything follows from lists of neighbours and near pairs that are found once: the values of the whole sample, and
of any part of it, such as halves, without another distance. For each part a point has a byte or a few, its place in a
list or a count, so that memory grows with points times parts and never with pairs of points.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.vectors.good_shares import good_share
from probes.vectors.knn import PORTION, Neighbours, Pairs
from probes.vectors.part_counts import Ends, blocks_of_parts, closer, gathered, kth_places, listed_counts, places

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Weights = NDArray[np.integer[Any]]
Ranks = NDArray[np.unsignedinteger[Any]]

METRICS = ("precision", "recall", "density", "coverage", "f1", "clipped_density", "clipped_coverage")
_OFTEN = 8
"""Parts of one size from which all of the scale of clipped coverage is computed."""


@dataclass(frozen=True, slots=True)
class Side:
    """One sample: the neighbours of its distinct points among themselves, and the items that each stands for.

    Parameters
    ----------
    neighbours
        Of the distinct points; the lists must be long enough for every part that is asked for.
    weights
        Items of each distinct point in each part of the sample, shape (parts, points); nought: not in this part.
    """

    neighbours: Neighbours
    weights: Weights

    def __post_init__(self) -> None:
        if self.weights.shape[1:] != self.neighbours.squared.shape[:1]:
            raise ValueError(f"weights of shape {self.weights.shape} for {len(self.neighbours.squared)} points")


@dataclass(frozen=True, slots=True)
class Balls:
    """Balls around the points of a sample at one k.

    Parameters
    ----------
    ranks
        By part and point, where in the list of a point the neighbour stands that its ball reaches to, from 0; as many
        as the list is long: nowhere, and the ball has no end. Shape (parts, points).
    """

    side: Side
    k: int
    ranks: Ranks

    def radius(self, part: int) -> Floats:
        """Return the squared radius of each ball in one part, shape (points,); infinite without an end."""
        squared, ranks = self.side.neighbours.squared, self.ranks[part]
        found = np.full(len(ranks), np.inf)
        there = np.flatnonzero(ranks < squared.shape[1])
        found[there] = squared[there, ranks[there]]
        return found

    @property
    def ends(self) -> Ends:
        """Where the balls end."""
        return Ends(self.side.neighbours, self.ranks, self.side.weights)

    @property
    def radii(self) -> Floats:
        """The squared radii of all parts, shape (parts, points)."""
        return np.stack([self.radius(part) for part in range(len(self.ranks))])

    @property
    def drawn(self) -> Bools:
        """Whether all points of each part have a k-th neighbour, shape (parts,)."""
        endless = self.side.neighbours.squared.shape[1]
        rows = zip(self.ranks, self.side.weights, strict=False)
        return np.array([not ((ranks == endless) & (weights > 0)).any() for ranks, weights in rows])


def balls(side: Side, ks: Sequence[int]) -> list[Balls]:
    """Return the balls of a sample at several k."""
    index = side.neighbours.index
    size, length = index.shape
    parts = len(side.weights)
    ranks = np.full((len(ks), parts, size), length, dtype=np.min_scalar_type(length))
    cut = length < size - 1
    several = np.count_nonzero(side.weights, axis=1)
    for some in blocks_of_parts(parts if length else 0, size):
        kth_places(side.weights[some], index, ks, ranks[:, some])
    if cut and length:
        # `list_length` makes it next to impossible that a list ends too early; the ball is as wide as the list.
        for k, own in zip(ks, ranks, strict=True):
            enough = own[several > k]
            own[several > k] = np.minimum(enough, length - 1)
    return [Balls(side, k, own) for k, own in zip(ks, ranks, strict=True)]


def widened_share(own: Balls, factor: float = 3.0) -> float:
    """Return the share of points whose ball is more than `factor` times as wide in a part as in the whole, on average.

    In a cloud of d dimensions halves have balls 2^(1/d) times as wide. Where they jump, the points stand in groups
    hardly larger than k, and a part of the sample measures something else than the whole.
    """
    if len(own.ranks) < 2:
        return 0.0
    whole, jumps, points = own.radius(0), 0, 0
    for part, weights in enumerate(own.side.weights[1:], start=1):
        there = weights > 0
        jumps += int(((own.radius(part) > factor**2 * whole) & there).sum())
        points += int(there.sum())
    return float(jumps / max(points, 1))


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference prepared for comparisons.

    Parameters
    ----------
    medians
        The median of the squared radii of the points of each part, to which radii are clipped, shape (parts,).
    own_density
        Clipped density against itself, shape (parts,).
    """

    balls: Balls
    medians: Floats
    own_density: Floats

    def clipped_radius(self, part: int) -> Floats:
        """Return the squared radius of each ball in one part, at most the median, shape (points,)."""
        return np.asarray(np.minimum(self.balls.radius(part), self.medians[part]))

    @property
    def clipped(self) -> Floats:
        """The clipped squared radii of all parts, shape (parts, points)."""
        return np.stack([self.clipped_radius(part) for part in range(len(self.medians))])


def prepare_reference(own: Balls) -> Reference:
    """Prepare a reference for comparisons at one k.

    Raises
    ------
    ValueError
        Where a part has not more than k distinct points.
    """
    if not own.drawn.all():
        raise ValueError(f"a part of the reference has no {own.k} neighbours")
    medians, density = np.empty(len(own.ranks)), np.empty(len(own.ranks))
    for part, weights in enumerate(own.side.weights):
        medians[part] = np.median(own.radius(part)[weights > 0])
    for parts in blocks_of_parts(len(density), own.ranks.shape[1]):
        # Ties at the k-th distance are cut to k neighbours.
        found = listed_counts(own.ends, parts, medians[parts])
        for part, counts, weights in zip(range(len(density))[parts], found.T, own.side.weights[parts], strict=True):
            density[part] = _mean(np.minimum(counts / own.k, 1.0), weights)
    return Reference(own, medians, density)


@dataclass(frozen=True, slots=True)
class Membership:
    """Counts of points within balls, in one part of both samples.

    Parameters
    ----------
    held_by
        Number of reference balls around each candidate.
    holds
        Number of candidates in each reference ball, k at most.
    narrow
        As `held_by`, in balls of at most the median radius, and k at most.
    reached
        Whether each reference point lies within any ball around a candidate.
    """

    held_by: NDArray[np.int32]
    holds: Ranks
    narrow: Ranks
    reached: Bools


class Memberships:
    """Counts of points within balls in every part of both samples, taken from near pairs that come in any portions.

    Parameters
    ----------
    reference, candidate
        Balls at one k.
    """

    def __init__(self, reference: Reference, candidate: Balls) -> None:
        self.reference, self.candidate = reference, candidate
        parts, x = reference.balls.side.weights.shape
        y = candidate.side.weights.shape[1]
        self._own, self._theirs = reference.balls.ends, candidate.ends
        self._reaches = self._own.reach(), self._theirs.reach()
        self._held_by = np.zeros((y, parts), dtype=np.int32)
        # Of these no more than k counts: a byte is enough for k up to 100.
        small = np.min_scalar_type(2 * reference.balls.k)
        self._narrow, self._holds = np.zeros((y, parts), dtype=small), np.zeros((x, parts), dtype=small)
        self._reached = np.zeros((x, parts), dtype=bool)

    def add(self, x: NDArray[np.int32], y: NDArray[np.int32], squared: NDArray[np.floating]) -> None:
        """Count pairs of points and their squared distances, each pair once over all portions, shape (pairs,)."""
        for start in range(0, len(x), PORTION):
            part = slice(start, start + PORTION)
            # Strictly inside, as the code of Naeem et al. counts: the neighbour that sets a radius is outside.
            near = np.flatnonzero(squared[part] < self._reaches[0][x[part]]) + start
            self._add_held(x[near], y[near], squared[near])
            near = np.flatnonzero(squared[part] < self._reaches[1][y[part]]) + start
            self._add_reached(x[near], y[near], squared[near])

    def _add_held(self, x: NDArray[np.int32], y: NDArray[np.int32], squared: NDArray[np.floating]) -> None:
        """Count who lies in balls of the reference."""
        own, size = self._own.near.squared, len(self._held_by)
        portion = list(gathered(x, places(own, x, squared), own.shape[1], size))
        others, gaps = [y[rows.pairs] for rows in portion], [squared[rows.pairs] for rows in portion]
        for parts in blocks_of_parts(self._held_by.shape[1], size):
            there, limits = self._theirs.present(slice(0, size), parts), self.reference.medians[parts]
            for rows, whom, gap in zip(portion, others, gaps, strict=True):
                inside = rows.inside(self._own, parts)
                self._held_by[:, parts] += rows.sums(inside, whom, size)
                self._saturate(self._narrow[:, parts], closer(rows, inside, whom, size, gap, limits))
                self._saturate(
                    self._holds[rows.points, parts], rows.filled(inside, whom, there, self.reference.balls.k)
                )

    def _add_reached(self, x: NDArray[np.int32], y: NDArray[np.int32], squared: NDArray[np.floating]) -> None:
        """Note who of the reference lies in balls of candidates."""
        theirs, size = self._theirs.near.squared, len(self._reached)
        portion = list(gathered(y, places(theirs, y, squared), theirs.shape[1], size))
        for parts in blocks_of_parts(self._reached.shape[1], size):
            for rows in portion:
                self._reached[:, parts] |= rows.sums(rows.inside(self._theirs, parts), x[rows.pairs], size) > 0

    def _saturate(self, counts: Ranks, more: Ranks) -> None:
        k = self.reference.balls.k
        counts += np.minimum(more, k).astype(counts.dtype, copy=False)
        np.minimum(counts, k, out=counts)

    def of(self, part: int = 0) -> Membership:
        """Return the counts of one part."""
        x, y = (side.weights[part] > 0 for side in (self._own, self._theirs))
        held_by, narrow = (counts[:, part] * y for counts in (self._held_by, self._narrow))
        return Membership(held_by, self._holds[:, part], narrow, self._reached[:, part] & x)


def membership(reference: Reference, candidate: Balls, near: Pairs) -> Memberships:
    """Count the distinct points within balls, in every part of both samples."""
    found = Memberships(reference, candidate)
    found.add(near.x, near.y, near.squared)
    return found


def evaluate(reference: Reference, candidate: Balls, near: Pairs) -> dict[str, Floats]:
    """Compute every metric for every part, each of shape (parts,), from all near pairs; see `metrics`."""
    return metrics(membership(reference, candidate, near))


def metrics(found: Memberships) -> dict[str, Floats]:
    """Compute every metric for every part, each of shape (parts,).

    With B(x) the ball around a reference point x of radius r_k(x), its distance to its k-th neighbour, and w the items
    that a point stands for: precision is the share of candidate items within any B(x); density their mean number of
    balls over k (it may exceed 1); recall is the share of reference items within any ball around a candidate point;
    coverage the share of reference items whose own ball holds any candidate point; f1 the harmonic mean of precision
    and recall (Kynkäänniemi et al. 2019; Naeem et al. 2020). Clipped density counts at most k balls of at most the
    median radius, over what the reference reaches with itself; clipped coverage is the share of good candidates that
    would give the observed number of points per ball, at most k (Salvy et al. 2025), where copies of a candidate
    add nothing; both are left above 1 where chance takes them there, and are reported as at most 1. All are better
    when larger.

    recall and f1 are NaN in a part where not every candidate point has a k-th neighbour.
    """
    reference, candidate = found.reference, found.candidate
    k, parts = reference.balls.k, len(candidate.ranks)
    values_of = {name: np.empty(parts) for name in METRICS}
    drawn = candidate.drawn
    shown = zip(reference.balls.side.weights, candidate.side.weights, strict=True)
    sizes = [(int((wx > 0).sum()), int(wy.sum())) for wx, wy in shown]
    asked = Counter(sizes)
    for part in range(parts):
        wx, wy = reference.balls.side.weights[part], candidate.side.weights[part]
        who = found.of(part)
        precision = _mean(who.held_by > 0, wy)
        recall = _mean(who.reached, wx) if drawn[part] else np.nan
        both = precision + recall
        held = _mean(np.minimum(who.holds / k, 1.0), wx)
        values = (
            precision,
            recall,
            _mean(who.held_by / k, wy),
            _mean(who.holds > 0, wx),
            2 * precision * recall / both if both else 0.0,
            _mean(np.minimum(who.narrow / k, 1.0), wy) / reference.own_density[part],
            good_share(held, *sizes[part], k, again=asked[sizes[part]] > _OFTEN),
        )
        for name, value in zip(METRICS, values, strict=True):
            values_of[name][part] = value
    return values_of


def reach(own: Sequence[Balls]) -> Floats:
    """Return the largest finite squared radius of every point over parts and k, shape (points,)."""
    widest = np.zeros(own[0].ranks.shape[1])
    for one in own:
        for part, weights in enumerate(one.side.weights):
            radius = one.radius(part)
            np.maximum(widest, np.where(np.isfinite(radius) & (weights > 0), radius, 0.0), out=widest)
    return widest


def list_length(k: int, share: float, size: int, *, risk: float = 1e-12) -> int:
    """Return the length of a list of neighbours at which a part with this share of the points holds k of them.

    The chance that it does not is `risk` for each point (binomial).

    >>> list_length(5, 0.5, 10_000), list_length(5, 0.5, 20), list_length(5, 1.0, 10_000)
    (59, 19, 5)
    """
    from scipy.stats import binom

    length = k
    while share < 1 and length < size - 1 and binom.cdf(k - 1, length, share) > risk:
        length += 1
    return min(length, size - 1)


def coverage_ceiling(n: int, m: int, k: int) -> float:
    """Return the expected coverage of n reference points by m candidates of the same continuous distribution.

    1 - prod_{i=1..k} (n - i) / (m + n - i) (Naeem et al. 2020, lemma 2).

    >>> round(coverage_ceiling(4000, 4000, 4), 3), round(coverage_ceiling(4000, 1000, 4), 3)
    (0.938, 0.591)
    """
    i = np.arange(1, k + 1)
    return float(1 - np.prod((n - i) / (m + n - i)))


def hubness(side: Side, k: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return the skewness of k-occurrence (how often a point is among the k nearest of others), and its maximum.

    Skewness is near 0 without hubs (Radovanović et al. 2010).

    Returns
    -------
    shapes (parts,); 0 where all points are equally often near
    """
    skews, most = np.zeros(len(side.weights)), np.zeros(len(side.weights), dtype=np.int64)
    ends = balls(side, [k])[0].ends
    for parts in blocks_of_parts(len(skews), len(side.neighbours.index)):
        found = listed_counts(ends, parts)
        for part, whole, weights in zip(range(len(skews))[parts], found.T, side.weights[parts], strict=True):
            counts = whole[weights > 0]
            gap = counts - counts.mean()
            spread = float((gap**2).mean())
            skews[part] = float((gap**3).mean()) / spread**1.5 if spread > 0 else 0.0
            most[part] = counts.max(initial=0)
    return skews, most


def _mean(values: NDArray[np.bool_] | Floats, weights: Weights) -> float:
    # Weights are kept in as few bytes as hold them: products of truth values with bytes would overflow.
    wide = weights.astype(np.int32)
    return float(values @ wide / wide.sum())
