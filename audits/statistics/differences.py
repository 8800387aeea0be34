"""Did it change? Differences of two results, on the same units or on different ones."""

import numpy as np
from numpy.typing import NDArray

from audits.statistics.bootstrap import cluster_weights, percentile_interval, ratio, resampled_sums

Floats = NDArray[np.float64]
Interval = tuple[float, float, float]
"""Value, low, high."""


def paired_difference(
    first: Floats,
    second: Floats,
    sizes: Floats,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    repeats: int = 2000,
) -> tuple[float, float, float] | None:
    """Return the difference of two pooled rates over the same clusters, first minus second.

    Parameters
    ----------
    first, second
        Errors of each cluster under the two systems, shape (clusters,).
    sizes
        Trials of each cluster, shape (clusters,).

    Returns
    -------
    tuple or None
        Value, low, high; None with fewer than two clusters.
    """
    weights = cluster_weights(len(sizes), repeats, rng)
    totals = resampled_sums(weights, np.stack([first - second, sizes], axis=1))
    interval = percentile_interval(ratio(totals[:, 0], totals[:, 1]), len(sizes), level=level)
    value = float((first.sum() - second.sum()) / sizes.sum())
    # A difference that is the same for every cluster has replicates off by rounding alone.
    return None if interval is None else (value, min(interval[0], value), max(interval[1], value))


def independent_difference(before: Interval, after: Interval) -> Interval:
    """Return after minus before from the two intervals alone (MOVER: Zou and Donner 2008, equation 3).

    low = d - sqrt((a - la)^2 + (ub - b)^2) and high = d + sqrt((ua - a)^2 + (b - lb)^2) with a, b the
    values after and before. Right for independent results; too wide where the same units make
    both results vary together.

    Examples
    --------
    >>> d, low, high = independent_difference((0.5, 0.4, 0.6), (0.2, 0.1, 0.3))
    >>> round(d, 3), round(low, 3), round(high, 3)
    (-0.3, -0.441, -0.159)
    """
    (b, lb, ub), (a, la, ua) = before, after
    difference = a - b
    low = difference - float(np.hypot(a - la, ub - b))
    high = difference + float(np.hypot(ua - a, b - lb))
    return difference, low, high
