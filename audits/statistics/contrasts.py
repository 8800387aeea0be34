"""Simultaneous bootstrap intervals of contrasts, valid also for the pair that was picked because its gap is largest.

Looking at the worst and the best of several groups is looking at a maximum. An interval made for one
fixed pair then claims too much. These intervals hold for all the contrasts at once, so for whichever
was picked.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrasts:
    """Contrasts of group values with intervals that hold jointly; arrays of shape (contrasts,)."""

    value: Floats
    low: Floats
    high: Floats

    def at(self, index: int) -> tuple[float, float, float]:
        """Return value, low and high of the contrast at an index."""
        return float(self.value[index]), float(self.low[index]), float(self.high[index])


def simultaneous_contrasts(
    points: Floats,
    replicates: Floats,
    contrasts: Floats,
    clusters: NDArray[np.int64],
    *,
    level: float = 0.95,
    floor: Floats | None = None,
    one_sided: bool = False,
) -> Contrasts:
    """Return contrasts with joint intervals from bootstrap quantiles of the largest studentised deviation.

    For contrast c with value d_c = sum_g c_g x_g, standard error s_c over the bootstrap samples and
    deviations (d*_c - mean d*_c) / s_c, let q be the `level` quantile of the largest absolute deviation
    over the contrasts (single-step max-t: Westfall and Young 1993) and a its normal tail, a = 1 - Phi(q). The
    interval is d_c +- s_c sqrt(m / (m - 1)) t(1 - a; f) with the m clusters of the smallest group in c and
    Satterthwaite's degrees of freedom f: Student's quantile at the same tail, since s_c is estimated.

    Parameters
    ----------
    points
        Value of each group, shape (groups,).
    replicates
        Bootstrapped values, shape (repeats, groups); NaN where a sample has nothing of a group.
    contrasts
        Coefficients, shape (contrasts, groups).
    clusters
        Clusters of each group, shape (groups,); at least 2 each.
    floor
        Variance to add to each group, shape (groups,): for a group without a single error the bootstrap
        sees no variance at all.
    one_sided
        Whether each end is a bound of its own: the low ends hold jointly with probability `level`, as do the high ones,
        and q is the quantile of the largest deviation upwards.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pair = np.array([[1.0, -1.0]])
    >>> draws = rng.normal([0.3, 0.1], 0.01, size=(4000, 2))
    >>> gap = simultaneous_contrasts(np.array([0.3, 0.1]), draws, pair, np.array([200, 200]))
    >>> round(float(gap.value[0]), 3), round(float(gap.high[0] - gap.low[0]) / 2, 3)
    (0.2, 0.029)
    """
    from scipy.stats import norm, t

    # A replicate in which a group is absent gets the group's mean, so that its other groups still count.
    kept = np.where(np.isfinite(replicates), replicates, np.nanmean(replicates, axis=0))
    extra = np.zeros(points.size) if floor is None else floor
    covariance = np.atleast_2d(np.cov(kept, rowvar=False)) + np.diag(extra)
    # Bounded away from 0, since deviations are divided by it.
    error = np.sqrt(np.maximum(np.einsum("cg,gh,ch->c", contrasts, covariance, contrasts), 1e-300))
    quantile = np.quantile(_largest_deviations(kept, contrasts, error, one_sided=one_sided), level)
    # The tail beyond which the largest deviation falls with probability 1 - level, at most that of a single contrast.
    tail = min(float(norm.sf(quantile)), (1.0 - level) / (1 if one_sided else 2))
    share = contrasts**2 * np.maximum(np.diag(covariance), 1e-100)
    freedom = share.sum(1) ** 2 / (share**2 / (clusters - 1)).sum(1)
    smallest = np.array([clusters[row != 0].min() for row in contrasts])
    value = contrasts @ points
    # The bootstrap's variance of a mean of m clusters is (m - 1) / m of the unbiased one.
    half = error * np.sqrt(smallest / (smallest - 1)) * t.isf(tail, freedom)
    return Contrasts(value=value, low=value - half, high=value + half)


def _largest_deviations(kept: Floats, contrasts: Floats, error: Floats, *, one_sided: bool) -> Floats:
    centred = kept - kept.mean(axis=0)
    largest = np.full(len(kept), -np.inf)
    # In slices: all pairs of a hundred groups by thousands of replicates would not fit in memory.
    for start in range(0, len(contrasts), 256):
        part = slice(start, start + 256)
        apart = centred @ contrasts[part].T / error[part]
        np.maximum(largest, (apart if one_sided else np.abs(apart)).max(axis=1), out=largest)
    return largest


def contrast(groups: int, plus: int, minus: int) -> Floats:
    """Return the coefficients of one group less another."""
    row = np.zeros(groups)
    row[plus], row[minus] = 1.0, -1.0
    return row


def all_pairs(groups: int, plus: int, minus: int) -> tuple[Floats, int]:
    """Return the contrasts of all pairs of groups, shape (pairs, groups), and the index of (plus, minus) in it.

    Examples
    --------
    >>> rows, index = all_pairs(3, 2, 0)
    >>> len(rows), rows[index].tolist()
    (3, [-1.0, 0.0, 1.0])
    """
    order = list(combinations(range(groups), 2))
    index = order.index((min(plus, minus), max(plus, minus)))
    order[index] = (plus, minus)
    return np.array([contrast(groups, *pair) for pair in order]), index
