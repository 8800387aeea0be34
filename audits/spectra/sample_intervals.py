"""Intervals of what is computed over samples: means, differences, ratios, fits and spectra."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from audits.core.intervals import Interval, exact
from audits.spectra.counts import Floats, Running
from audits.statistics import cluster_weights, generator, percentile_interval
from audits.statistics.mean_intervals import ALIKE, claim_interval, mean_interval, ratio_interval

RESAMPLES = 2000
"""Bootstrap samples."""
FEWEST = 8
"""Samples below which nothing is resampled."""
PERCENTILE = "bootstrap over samples, percentile"
OVER_SAMPLES = "over samples"
CLAIMED = "Student t on half of the degrees of freedom widened for skew, over samples, all grids together"
LOG_STUDENT = "Student t over samples, of the logarithm"

# None stands for a number that would divide by zero; the method "none" for one without an interval.


def mean(column: Floats, level: float) -> Interval | None:
    """Return the mean of a number per sample that is never below zero.

    Where every sample has exactly zero, both sides of a comparison were the same computation: nothing was sampled.
    """
    if len(column) > 1 and not column.any():
        return exact(0.0, n=len(column), unit="samples")
    return difference(column, level, positive=True)


def difference(column: Floats, level: float, *, positive: bool = False) -> Interval | None:
    """Return the mean of a difference per sample."""
    value = float(column.mean())
    if not math.isfinite(value):
        return None
    return _interval(value, mean_interval(column, level=level, positive=positive), len(column))


def claim(column: Floats, level: float, claims: int) -> Interval | None:
    """Return the mean of a difference per sample whose sign will be claimed, with several such claims corrected for.

    Parameters
    ----------
    claims
        Such means in the report; their intervals hold together.
    """
    value = float(column.mean())
    if not math.isfinite(value):
        return None
    ends = claim_interval(column, level=level, claims=claims)
    return _with_ends(value, ends, CLAIMED, len(column))


def ratio(above: Floats, below: Floats, level: float) -> Interval | None:
    """Return the ratio of two sums over samples, of numbers that are never below zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(above.sum() / below.sum())
    return _interval(value, ratio_interval(above, below, level=level), len(above)) if math.isfinite(value) else None


def share_of(part: Floats, whole: Floats, level: float) -> Interval | None:
    """Return the ratio of two sums over samples, the first of them a part of the second."""
    return _shown(ratio(part, whole, level), lambda value: min(value, 1.0))


def root_ratio(above: Floats, below: Floats, level: float) -> Interval | None:
    """Return the root of the ratio of two sums over samples."""
    return _shown(ratio(above, below, level), math.sqrt)


def resampled(columns: Floats, statistic: Callable[[Floats], Floats], level: float, seed: int) -> Interval | None:
    """Return a statistic of the means of columns, shape (n, k); `statistic` maps (..., k) to (...).

    Every statistic of a run is computed of the same bootstrap samples; fewer than `FEWEST` samples have none.
    """
    n, ends = len(columns), None
    value = float(statistic(columns.mean(axis=0)))
    if not math.isfinite(value):
        return None
    if n >= FEWEST:
        weights = cluster_weights(n, RESAMPLES, generator(seed, "spectra", "bootstrap"))
        ends = percentile_interval(statistic(weights @ columns / n), n, level=level)
    return _with_ends(value, ends and (min(ends[0], value), max(ends[1], value)), PERCENTILE, n)


def spectrum(running: Running, stage: int, level: float) -> list[Interval]:
    """Return the mean energy of a stage at every wavenumber."""
    from scipy.stats import t

    n, means = running.n, running.mean[stage]
    if n < 2:
        return [_with_ends(value, None, "", n) for value in means.tolist()]
    reach = float(t.ppf((1 + level) / 2, n - 1))
    # Of the logarithm: energies are never below zero and span many powers of ten.
    relative = running.error[stage] / np.maximum(means, np.finfo(float).tiny)
    found = []
    for value, error in zip(means.tolist(), relative.tolist(), strict=True):
        # A level next to one and two samples would leave what a double can hold.
        factor = math.exp(min(reach * error, 600.0))
        found.append(_with_ends(value, (value / factor, value * factor) if error > ALIKE else None, LOG_STUDENT, n))
    return found


def _interval(value: float, found: tuple[str, tuple[float, float]] | None, n: int) -> Interval:
    method, ends = found or ("", None)
    return _with_ends(value, ends, f"{method}, {OVER_SAMPLES}", n)


def _with_ends(value: float, ends: tuple[float, float] | None, method: str, n: int) -> Interval:
    if ends is None:
        return Interval(value=value, method="none", n=n, unit="samples")
    return Interval(value=value, low=ends[0], high=ends[1], method=method, n=n, unit="samples")


def _shown(found: Interval | None, change: Callable[[float], float]) -> Interval | None:
    """Return an interval with value and limits transformed alike."""
    if found is None or found.low is None or found.high is None:
        return found and replace(found, value=change(found.value))
    return replace(found, value=change(found.value), low=change(found.low), high=change(found.high))
