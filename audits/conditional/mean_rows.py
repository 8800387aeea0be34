"""Means and ratios over rows with intervals whose units are the rows, or their inputs where these repeat."""

import numpy as np
from numpy.typing import NDArray

from audits.core.intervals import Interval, Undefined
from audits.statistics import mean_interval
from audits.statistics.mean_intervals import claim_interval
from probes.conditional.laws import Floats, Ints

ALIKE = "Range: numbers that are all alike"


def of_units(values: Floats, units: Ints) -> Floats:
    """Return one number a unit, whose mean is that of all rows and whose spread is that of the mean over units.

    A unit c of n_c rows with mean v_c gives v + C n_c (v_c - v) / n, with C units, n rows and mean v (linearised).

    Examples
    --------
    >>> of_units(np.array([1.0, 1.0, 4.0]), np.array([0, 0, 1])).round(3).tolist()
    [0.667, 3.333]
    """
    number = np.unique(units, return_inverse=True)[1].reshape(-1)
    count = int(number.max()) + 1
    if count == len(values):
        return values
    mean = values.mean()
    return np.asarray(mean + count / len(values) * np.bincount(number, values - mean, count))


def mean_row(values: Floats, units: Ints, level: float, *, positive: bool = False) -> Interval | Undefined:
    """Return the mean with its interval; `positive` where it cannot be below zero."""
    if not len(values):
        return Undefined("There are no rows.", "no-rows")
    used, value = of_units(values, units), float(values.mean())
    unit = "rows" if len(used) == len(values) else "inputs"
    found = mean_interval(used, level=level, positive=positive)
    if found is None:
        ends = float(values.min()), float(values.max())
        return Interval(value=value, low=ends[0], high=ends[1], method=ALIKE, n=len(used), unit=unit)
    method, (low, high) = found
    return Interval(value=value, low=min(low, value), high=max(high, value), method=method, n=len(used), unit=unit)


def ratio_row(above: Floats, below: Floats, units: Ints, level: float) -> Interval | Undefined:
    """Return the ratio of two sums over rows with its interval (linearised: a + r b has the ratio's spread)."""
    total = float(below.mean()) if len(below) else 0.0
    if total <= 0 or not np.isfinite(total):
        return Undefined("What it is divided by is zero.", "zero")
    ratio = float(above.mean()) / total
    return mean_row(ratio + (above - ratio * below) / total, units, level)


def surely_below(values: Floats, units: NDArray[np.int64], level: float, claims: int) -> bool:
    """Tell whether a mean lies below zero, with so many claims together."""
    found = claim_interval(of_units(values, units), level=level, claims=claims)
    return bool(values.mean() < 0) if found is None else found[1] < 0
