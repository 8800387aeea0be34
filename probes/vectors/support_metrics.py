"""Precision, recall, density and coverage: how much of one sample lies within k-nearest-neighbour balls of another.

Everything follows from lists of neighbours and near pairs that are found once: the values of the whole sample, and
of any part of it, such as halves, without another distance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from probes.vectors.knn import Neighbours, Pairs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Weights = NDArray[np.int32]

METRICS = ("precision", "recall", "density", "coverage", "f1", "clipped_density", "clipped_coverage")


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


def radii(side: Side, ks: Sequence[int]) -> Floats:
    """Return the squared distance r_k^2 of every point to its k-th distinct neighbour, in every part of a sample.

    Returns
    -------
    shape (ks, parts, points); infinite where a part has too few points
    """
    squared, index = side.neighbours.squared, side.neighbours.index
    found = np.full((len(ks), *side.weights.shape), np.inf)
    if not index.shape[1]:
        return found
    cut = index.shape[1] < len(index) - 1
    for part, weights in enumerate(side.weights):
        listed: NDArray[np.int32] = np.cumsum((weights > 0)[index], axis=1, dtype=np.int32)
        for row, k in enumerate(ks):
            if cut and np.count_nonzero(weights) > k:
                # `list_length` makes it next to impossible that a list ends too early; the ball is as wide as the list.
                found[row, part] = squared[:, -1]
            there = listed[:, -1] >= k
            found[row, part, there] = squared[there, (listed[there] >= k).argmax(1)]
    return found


@dataclass(frozen=True, slots=True)
class Balls:
    """Balls around the points of a sample at one k, with squared radii of shape (parts, points)."""

    side: Side
    k: int
    radii: Floats

    @property
    def drawn(self) -> Bools:
        """Whether all points of each part have a k-th neighbour, shape (parts,)."""
        drawn: Bools = (np.isfinite(self.radii) | (self.side.weights == 0)).all(axis=1)
        return drawn


def widened_share(own: Balls, factor: float = 3.0) -> float:
    """Return the share of points whose ball is more than `factor` times as wide in a part as in the whole, on average.

    In a cloud of d dimensions halves have balls 2^(1/d) times as wide. Where they jump, the points stand in groups
    hardly larger than k, and a part of the sample measures something else than the whole.
    """
    if len(own.radii) < 2:
        return 0.0
    there = own.side.weights[1:] > 0
    jumps = (own.radii[1:] > factor**2 * own.radii[0]) & there
    return float(jumps.sum() / max(int(there.sum()), 1))


def balls(side: Side, ks: Sequence[int]) -> list[Balls]:
    """Return the balls of a sample at several k."""
    return [Balls(side, k, own) for k, own in zip(ks, radii(side, ks), strict=True)]


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference prepared for comparisons: balls, clipped squared radii, and clipped density against itself."""

    balls: Balls
    clipped: Floats
    own_density: Floats


def prepare_reference(own: Balls) -> Reference:
    """Prepare a reference for comparisons at one k.

    Raises
    ------
    ValueError
        Where a part has not more than k distinct points.
    """
    if not own.drawn.all():
        raise ValueError(f"a part of the reference has no {own.k} neighbours")
    index = own.side.neighbours.index
    clipped, density = np.empty_like(own.radii), np.empty(len(own.radii))
    for part, weights in enumerate(own.side.weights):
        there = weights > 0
        clipped[part] = np.minimum(own.radii[part], np.median(own.radii[part, there]))
        listed = there[:, None] & there[index]
        first = np.cumsum(listed, axis=1, dtype=np.int32) <= own.k
        # Ties at the k-th distance are cut to k neighbours.
        held = listed & first & (own.side.neighbours.squared <= clipped[part][:, None])
        counts = np.bincount(index[held], minlength=len(weights))
        density[part] = _mean(np.minimum(counts / own.k, 1.0), weights)
    return Reference(own, clipped, density)


@dataclass(frozen=True, slots=True)
class Membership:
    """Counts of points within balls, in one part of both samples.

    Parameters
    ----------
    held_by, holds
        Number of reference balls around each candidate, and of candidates in each reference ball.
    narrow
        As `held_by`, in balls of at most the median radius.
    reached
        Whether each reference point lies within any ball around a candidate.
    """

    held_by: NDArray[np.int64]
    holds: NDArray[np.int64]
    narrow: NDArray[np.int64]
    reached: Bools


def membership(reference: Reference, candidate: Balls, near: Pairs, part: int = 0) -> Membership:
    """Count the distinct points within balls, in one part of both samples."""
    wx, wy = reference.balls.side.weights[part], candidate.side.weights[part]
    both = np.flatnonzero((wx > 0)[near.x] & (wy > 0)[near.y])
    x, y, squared = near.x[both], near.y[both], near.squared[both]
    # Strictly inside, as the code of Naeem et al. counts: the neighbour that sets a radius is outside.
    in_x, in_y = squared < reference.balls.radii[part][x], squared < candidate.radii[part][y]
    reached = np.zeros(len(wx), dtype=bool)
    reached[x[in_y]] = True
    return Membership(
        np.bincount(y[in_x], minlength=len(wy)),
        np.bincount(x[in_x], minlength=len(wx)),
        np.bincount(y[squared < reference.clipped[part][x]], minlength=len(wy)),
        reached,
    )


def evaluate(reference: Reference, candidate: Balls, near: Pairs) -> dict[str, Floats]:
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
    k = reference.balls.k
    parts = len(candidate.radii)
    found = {name: np.empty(parts) for name in METRICS}
    drawn = candidate.drawn
    for part in range(parts):
        wx, wy = reference.balls.side.weights[part], candidate.side.weights[part]
        who = membership(reference, candidate, near, part)
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
            _calibrated(held, int((wx > 0).sum()), int(wy.sum()), k),
        )
        for name, value in zip(METRICS, values, strict=True):
            found[name][part] = value
    return found


def reach(own: Sequence[Balls]) -> Floats:
    """Return the largest finite squared radius of every point over parts and k, shape (points,)."""
    widest = [np.where(np.isfinite(one.radii) & (one.side.weights > 0), one.radii, 0.0).max(0) for one in own]
    return np.asarray(np.max(widest, axis=0))


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
    index = side.neighbours.index
    skews, most = np.zeros(len(side.weights)), np.zeros(len(side.weights), dtype=np.int64)
    for part, weights in enumerate(side.weights):
        there = weights > 0
        listed = there[index] & there[:, None]
        first = listed & (np.cumsum(listed, axis=1, dtype=np.int32) <= k)
        counts = np.bincount(index[first], minlength=len(weights))[there]
        gap = counts - counts.mean()
        spread = float((gap**2).mean())
        skews[part] = float((gap**3).mean()) / spread**1.5 if spread > 0 else 0.0
        most[part] = counts.max(initial=0)
    return skews, most


def _mean(values: NDArray[np.bool_] | Floats, weights: Weights) -> float:
    return float(values @ weights / weights.sum())


def _calibrated(held: float, n: int, m: int, k: int) -> float:
    """Return the number of good candidates over m at which the mean filling of n balls, at most k each, is `held`."""
    grid, expected = _expected(n, m, k)
    return float(np.interp(held, expected, grid))


@cache
def _expected(n: int, m: int, k: int) -> tuple[Floats, Floats]:
    """Return shares of good candidates and E[min(J, k)] / k, J beta-binomial(good candidates, k, n - k).

    The candidates' mass in the ball of the k-th of n - 1 others is beta distributed, whatever the distribution.
    """
    from scipy.stats import betabinom

    # Up to four times m: chance can exceed what m good candidates give on average.
    good = np.unique(np.round(np.linspace(0.0, 4.0, 801) * m).astype(int))
    fewer = np.arange(k)
    below = betabinom.pmf(fewer[None, :], good[:, None], k, max(n - k, 1))
    expected = 1 - (below * (1 - fewer / k)).sum(1)
    return good / m, np.maximum.accumulate(expected)
