"""Rank correlations, raw and partial, with intervals and permutation tests."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.statistics import MaybeEnds, monte_carlo_p, percentile_interval
from audits.statistics.rank_correlation import bonett_wright, order_p, spearman, spearman_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """Spearman's coefficient with its interval, and the two-sided p-value of a permutation test with its own.

    `p` has no ends where all orders were gone through.
    """

    value: float
    low: float
    high: float
    p: MaybeEnds
    n: int


def rank_correlation(
    x: Floats, y: Floats, controls: Floats, repeats: int, rng: np.random.Generator, *, level: float = 0.95
) -> Correlation | None:
    """Return the Spearman correlation of x and y over n units, partial where controls are given.

    Where x and y have several rows, each row is correlated with its own and the mean is taken, with an interval as if
    there were one, which is too long.

    The ranks of x, y and of every control are taken, those of the controls are regressed out, and what is left is
    correlated. The interval is Fisher's with the variance (1 + r^2 / 2) / (n - 3 - k) for k controls (Bonett and
    Wright 2000, section 3); the p-value shuffles what is left of y over the units.

    Parameters
    ----------
    x, y
        Shape (units,) or (rows, units).
    controls
        Shape (units, k); columns of 0 and 1 are taken as they are.

    Returns
    -------
    None where x or y is all alike once the controls are held fixed, or where n - 3 - k is less than 3

    Examples
    --------
    >>> x = np.arange(20.0)
    >>> found = rank_correlation(x, -(x**3), np.zeros((20, 0)), 200, np.random.default_rng(0))
    >>> found.value, found.p[0] < 0.01
    (-1.0, True)
    """
    from scipy.stats import rankdata

    x, y = np.atleast_2d(x), np.atleast_2d(y)
    units = x.shape[1]
    freedom = units - 3 - controls.shape[1]
    if freedom < 3:
        return None
    ranked = [column if set(np.unique(column)) <= {0.0, 1.0} else rankdata(column) for column in controls.T]
    design = np.stack([np.ones(units), *ranked], axis=1)
    left = []
    for values in (rankdata(x, axis=1), rankdata(y, axis=1)):
        rest = values - (design @ np.linalg.lstsq(design, values.T, rcond=None)[0]).T
        if (np.abs(rest).max(1) < 1e-8 * units).any():
            return None
        left.append(rest / np.linalg.norm(rest, axis=1, keepdims=True))
    r = float(np.clip((left[0] * left[1]).sum(1).mean(), -1, 1))
    low, high = bonett_wright(r, freedom, level=level)
    orders = rng.permuted(np.broadcast_to(np.arange(units), (repeats, units)), axis=1)
    shuffled = np.abs(sum(there[orders] @ here for here, there in zip(*left, strict=True))) / len(x)
    return Correlation(
        value=r,
        low=low,
        high=high,
        p=monte_carlo_p(abs(r), shuffled, level=level),
        n=units,
    )


def group_correlation(
    values: tuple[Floats, Floats],
    replicates: tuple[Floats, Floats],
    clusters: int,
    repeats: int,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
) -> Correlation | None:
    """Return the Spearman correlation over groups; its interval is from bootstrap samples of the speakers in them.

    Parameters
    ----------
    values
        x and y of each group, shape (groups,).
    replicates
        The same in every bootstrap sample, shape (samples, groups).
    clusters
        Speakers of the smallest group.
    """
    r = spearman(*values)
    if r is None:
        return None
    drawn = np.nan_to_num(spearman_rows(*replicates))
    ends = percentile_interval(drawn, clusters, level=level)
    if ends is None:
        return None
    p = order_p(*values, repeats, rng, level=level)
    low, high = max(min(ends[0], r), -1.0), min(max(ends[1], r), 1.0)
    return Correlation(value=r, low=low, high=high, p=p, n=len(values[0]))
