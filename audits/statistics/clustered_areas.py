"""Areas under the ROC curve, shares and means where rows come in clusters, such as several outputs for one context.

Nothing is resampled: what an area is without each cluster follows from counts that sorting gives.

Measured at 95 % over 360 worlds of 600 repeats each: 5, 10, 20, 50 and 200 clusters, of two rows, of six, of log-normal
size, and with one that has a third of all rows; half of the rows positive, 6 %, or whole clusters; areas of .5, .8 and
.95, scores continuous or of three values, 40 % of their variance shared in a cluster; pairs of all rows, across
clusters and within. Areas are covered in 93.2 % at least (200 clusters, three values) and 97 % in the middle; few
clusters and few positive rows make intervals too wide, by half with 5 clusters and a quarter with 20. Of 10 clusters
with 6 % positive rows three in ten runs have none, as one cluster has all of them. Differences of areas of .8 and .9
with 10 or 20 clusters and 6 % positive rows are covered in 89 to 90 % only, all others in 92 to 100 % (150 repeats).
Means over 10 clusters and more are covered in 93 to 98 %, of log-normal numbers over 20 clusters and fewer in 91 to 93
% (500 repeats); paired shares in 95 to 100 % (300).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.intervals import Interval
from audits.statistics.binomial import clopper_pearson
from audits.statistics.bootstrap import ratio
from audits.statistics.clustered_rates import NO_INTERVAL, rate_intervals
from audits.statistics.mean_intervals import STUDENT_SKEW, mean_interval
from audits.statistics.roc import NEWCOMBE, TIED, ends_unvaried, ends_varied
from audits.statistics.unit_moves import freedom

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Labels = NDArray[Any]
JACKKNIFE = "jackknife over clusters, logit scale, Student t"
ALIKE = "Clopper-Pearson over disjoint pairs of clusters that move nothing"
STUDENT = "jackknife over clusters, Student t"
LEAST_FREEDOM = 3.0
"""Least degrees of freedom under a heavy tail: one outlying cluster must not make the interval useless."""
LEAST_VARIANCE = 1e-20
"""Variance below which clusters that moved an area alike leave nothing but rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredArea:
    """An area under the ROC curve, with how far each cluster moves it.

    Parameters
    ----------
    value
        P(positive > negative) + P(equal) / 2 over the pairs that were compared.
    moves
        How far each cluster moves it, by its positive and by its negative rows, shape (2, clusters); NaN where no pair
        is left without the cluster.
    shares
        Each cluster's part in the pairs, which sum to one, shape (clusters,).
    rows
        Positive and negative rows that were compared.
    unclustered
        The variance if each row were its own cluster.
    disjoint
        How many pairs there are of which no two share a cluster, as far as one stratum can tell.
    tied
        Whether all pairs tie.
    """

    value: float
    moves: Floats
    shares: Floats
    rows: tuple[int, int]
    unclustered: float
    disjoint: int
    tied: bool

    @property
    def clusters(self) -> int:
        """How many clusters have a part in any pair."""
        return int((self.shares > 0).sum())


def clustered_area(
    scores: Floats, positive: Bools, clusters: Labels, *, strata: Labels | None = None, across: bool = False
) -> ClusteredArea | None:
    """Return the share of pairs of a positive and a negative row in which the positive one scores higher; ties half.

    Without cluster c, of whose A_c points in P_c pairs the totals are A and P, the area v = A / P is (A - A_c) /
    (P - P_c); c moves it by (C - 1) / C (v - that), which makes sum moves^2 C / (C - 1) the jackknife's variance. A
    pair inside a cluster counts once in P_c. Rows of their own clusters give DeLong's variance, but for (n - 1) / n;
    whole clusters that of Obuchowski (1997, "Nonparametric analysis of clustered ROC curve data") to first order.

    Parameters
    ----------
    strata
        Pairs are made inside of these only, such as systems; clusters themselves give pairs of the same context.
    across
        Whether pairs inside of a cluster are left out.

    Returns
    -------
    ClusteredArea or None
        None without a single pair.

    Examples
    --------
    >>> scores, positive = np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False])
    >>> clustered_area(scores, positive, np.array(["a", "b", "b", "c"])).value
    0.875
    >>> clustered_area(scores, positive, np.array(["a", "b", "b", "c"]), across=True).value
    1.0
    """
    unit = np.unique(clusters, return_inverse=True)[1]
    block = np.zeros(len(unit), dtype=np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    count = int(unit.max(initial=-1)) + 1
    cell = block * count + unit
    won, compared = _against(scores, positive, block)
    inner = _against(scores, positive, cell)
    if across:
        won, compared, inner = won - inner[0], compared - inner[1], 0 * inner
    pairs = float(compared[positive].sum())
    if not pairs:
        return None
    value = float(won[positive].sum()) / pairs
    # Half of a pair inside a cluster goes to either row.
    once = compared - inner[1] / 2
    apart = won - inner[0] / 2 - value * once
    touched = np.bincount(unit, once, count)
    several, left = max(int((touched > 0).sum()), 1), np.broadcast_to(pairs - touched, (2, count))
    sides = np.stack([np.bincount(unit, apart * side, count) for side in (positive, ~positive)])
    return ClusteredArea(
        value=value,
        moves=ratio(np.asarray((several - 1) / several * sides), left),
        shares=touched / touched.sum(),
        rows=(int((compared[positive] > 0).sum()), int((compared[~positive] > 0).sum())),
        unclustered=float(((won - value * compared) ** 2).sum()) / pairs**2,
        disjoint=_disjoint(np.unique(cell[positive]), np.unique(cell[~positive]), count, across=across),
        tied=bool(np.all(2 * won == compared)),
    )


def area_interval(found: ClusteredArea, *, level: float = 0.95, unit: str = "clusters") -> Interval:
    """Return an area with its interval on the logit scale, with Student's t; without ends where none can be had.

    Where an area leaves fewer than ten rows of the smaller side on the wrong side, the interval is widened to that of
    Newcombe, as in `roc.area_interval`, of as many independent rows as have the variance of the clustered ones. Where
    all pairs come out alike, so do all disjoint ones, which are independent trials. Where no cluster moves the area v,
    as of a metric that sees nothing of a fault, those that would are a share of at most 1 - q of the disjoint pairs,
    and it is from q v to q v + 1 - q.

    Examples
    --------
    >>> positive = np.arange(8) > 3
    >>> found = area_interval(clustered_area(np.arange(8.0), positive, np.arange(8) % 4), unit="contexts")
    >>> round(found.low, 3), found.high, found.method, found.n
    (0.398, 1.0, 'Clopper-Pearson over disjoint pairs', 4)
    """
    n, value = found.clusters, found.value
    spread = _spread(found.moves, found.shares)
    ends: tuple[float, float, str] | None = None
    if spread and (found.tied or not 0 < value < 1):
        ends = ends_unvaried(value, found.disjoint, level)
    elif spread and spread[0] > LEAST_VARIANCE:
        alike = max(spread[0] / found.unclustered, 1.0) if found.unclustered else 1.0
        sizes = (max(found.rows[0] / alike, 1.0), max(found.rows[1] / alike, 1.0))
        low, high, wider = ends_varied(value, *spread, sizes, level)
        ends = low, high, f"{JACKKNIFE}, {NEWCOMBE}" if wider else JACKKNIFE
    elif spread:
        same = clopper_pearson(found.disjoint, found.disjoint, level=level)[0]
        ends = same * value, same * value + 1 - same, ALIKE
    return _interval(value, ends, n, unit)


def area_difference(
    first: ClusteredArea, second: ClusteredArea, *, level: float = 0.95, unit: str = "clusters"
) -> Interval:
    """Return the difference of the areas of two scores of the same rows (first less second).

    Where no cluster moves it, the ends are those of both areas at half the error each, from 0 to 1 of equal scores.
    """
    value, n = first.value - second.value, first.clusters
    spread = _spread(first.moves - second.moves, first.shares)
    ends: tuple[float, float, str] | None = None
    if spread and spread[0] > LEAST_VARIANCE:
        reach = _reach(spread, level)
        ends = max(-1.0, value - reach), min(1.0, value + reach), STUDENT
    elif spread:
        parts = [area_interval(one, level=(1 + level) / 2) for one in (first, second)]
        (a, b), (c, d) = ((p.low or 0.0, p.high or 1.0) if p.method != TIED else (0.0, 1.0) for p in parts)
        ends = min(a - d, value), max(b - c, value), parts[0].method
    return _interval(value, ends, n, unit)


def paired_share(
    lower: Floats, higher: Floats, clusters: Labels, *, level: float = 0.95, unit: str = "clusters"
) -> Interval:
    """Return the share of pairs of which the first scores below the second, ties half, over whole clusters.

    >>> found = paired_share(np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0]), np.arange(3))
    >>> found.value, found.low, found.high
    (0.5, 0.0, 1.0)
    """
    number = np.unique(clusters, return_inverse=True)[1]
    trials = np.bincount(number).astype(np.float64)
    wins = np.asarray(np.bincount(number, (lower < higher) + (lower == higher) / 2), dtype=np.float64)
    found = rate_intervals(wins[:, None], trials[:, None], level=level)
    ends = None if found.method[0] == NO_INTERVAL else (float(found.low[0]), float(found.high[0]), found.method[0])
    return _interval(float(found.value[0]), ends, int(found.clusters[0]), unit)


def clustered_mean(values: Floats, clusters: Labels, *, level: float = 0.95, unit: str = "clusters") -> Interval:
    """Return the mean m over n rows with its interval over C clusters.

    That of `mean_interval` for the numbers m + C sum_c (x - m) / n, whose mean is m, and whose spread is that of m to
    first order; it reaches at least as far as Student's with the jackknife's error and the degrees of freedom of an
    area, for clusters that have many rows.

    >>> found = clustered_mean(np.array([1.0, 1.0, 2.0, 2.0, 6.0]), np.array([0, 0, 1, 1, 2]))
    >>> found.value, round(found.low, 1), round(found.high, 1), found.n
    (2.4, -2.8, 20.1, 3)
    """
    number = np.unique(clusters, return_inverse=True)[1]
    mean, sizes = float(values.mean()), np.bincount(number).astype(np.float64)
    apart, n = np.asarray(np.bincount(number, values - mean), dtype=np.float64), len(sizes)
    made = mean_interval(mean + n * apart / len(values), level=level)
    spread = _spread(ratio(apart * (n - 1) / n, len(values) - sizes)[None], sizes / len(values))
    if made is None or spread is None:
        return _interval(mean, None, n, unit)
    reach = _reach(spread, level)
    return _interval(mean, (min(made[1][0], mean - reach), max(made[1][1], mean + reach), STUDENT_SKEW), n, unit)


def _reach(spread: tuple[float, float], level: float) -> float:
    from scipy.stats import t

    return float(t.isf((1 - level) / 2, spread[1]) * np.sqrt(spread[0]))


def _interval(value: float, ends: tuple[float, float, str] | None, n: int, unit: str) -> Interval:
    low, high, method = ends or (None, None, NO_INTERVAL)
    return Interval(value=value, low=low, high=high, method=method, n=n, unit=unit)


def _spread(moves: Floats, shares: Floats) -> tuple[float, float] | None:
    """Return the jackknife's variance and its degrees of freedom; None of less than two clusters, or one in all pairs.

    They are the least of those of the clusters' shares, of a sample variance of moves with such tails, and, by
    Satterthwaite, of the sides, whichever rests on fewer clusters.
    """
    there = shares > 0
    sides, count = moves[:, there], int(there.sum())
    if count < 2 or not np.isfinite(sides).all():
        return None
    squares, parts = sides.sum(0) ** 2, (sides**2).sum(1)
    movers = np.maximum((np.abs(sides) > 0).sum(1) - 1, 1)
    total = float(squares.sum())
    if not total:
        return 0.0, 1.0
    even = total**2 / float((squares**2).sum())
    tails = 2 * count * even / (count - even) if even < count else np.inf
    welch = float(parts.sum() ** 2 / (parts**2 / movers).sum())
    return total * count / (count - 1), max(min(freedom(shares[there]), max(tails, LEAST_FREEDOM), welch, count - 1), 1)


def _against(scores: Floats, positive: Bools, block: Integers) -> Floats:
    """Return of each row how many of the other side in its block it has right, and how many it meets, (2, rows)."""
    order = np.lexsort((scores, block))
    ranked, where, kind = scores[order], block[order], positive[order]
    counts = np.stack([np.concatenate(([0], np.cumsum(side))) for side in (~kind, kind)])
    begins = np.append(True, where[1:] != where[:-1])[: len(kind)]
    changes = begins | np.append(True, ranked[1:] != ranked[:-1])[: len(kind)]
    (first, last), (low, high) = _runs(begins), _runs(changes)
    below, equal = counts[:, low] - counts[:, first], counts[:, high] - counts[:, low]
    above = counts[:, last] - counts[:, high]
    found = np.empty((2, len(scores)))
    found[0, order] = np.where(kind, below[0] + equal[0] / 2, above[1] + equal[1] / 2)
    found[1, order] = np.where(kind, *(below + equal + above))
    return found


def _runs(begins: Bools) -> tuple[Integers, Integers]:
    """Return where the run of each position begins and ends."""
    starts, run = np.flatnonzero(begins), np.cumsum(begins) - 1
    return starts[run], np.append(starts[1:], len(begins))[run]


def _disjoint(positive: Integers, negative: Integers, count: int, *, across: bool) -> int:
    """Return how many pairs without a common cluster one stratum has, or where pairs are inside clusters, all have."""
    both = np.intersect1d(positive, negative)
    strata = int(max(positive.max(), negative.max())) // count + 1
    p, n, b = (np.bincount(cells // count, minlength=strata) for cells in (positive, negative, both))
    if across:
        return int(np.minimum(np.minimum(p, n), (p + n - b) // 2).max())
    return max(int(np.minimum(p, n).max()), len(np.unique(both % count)))
