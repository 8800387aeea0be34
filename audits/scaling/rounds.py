"""Medians over rounds of measured cells, of the rounds as they are and of rounds drawn anew."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audits.core.intervals import Interval
from audits.statistics import generator, percentile_interval

Floats = NDArray[np.float64]
METHOD = "bootstrap over rounds"
REPLICATES = 200


def medians(cells: Floats) -> Floats:
    """Return the medians over the last axis but one, without missing cells; NaN where all are.

    >>> medians(np.array([[1.0, 5.0], [3.0, np.nan], [2.0, 7.0]])).tolist()
    [2.0, 6.0]
    """
    ordered, counts = np.sort(cells, axis=-2), np.isfinite(cells).sum(axis=-2)
    low, high = (
        np.take_along_axis(ordered, np.maximum(index, 0)[..., None, :], axis=-2)[..., 0, :]
        for index in ((counts - 1) // 2, counts // 2 - (counts == 0))
    )
    return np.asarray(np.where(counts > 0, (low + high) / 2, np.nan))


def median_errors(cells: Floats) -> Floats:
    """Return the relative standard errors of medians over rounds, pooled with those of the other sizes."""
    middle = medians(cells)
    counts = np.maximum(np.isfinite(cells).sum(axis=0), 1)
    # 1.4826 makes a median deviation a standard one, and 1.2533 the error of a mean that of a median.
    own = 1.4826 * medians(np.abs(cells - middle)) / middle
    pooled = np.sqrt((own**2 + np.nanmedian(own) ** 2) / 2)
    return np.asarray(1.2533 * pooled / np.sqrt(counts))


def resampled(cells: Floats, seed: int) -> Floats:
    """Return medians of seconds, shape (1 + replicates, sizes): first those measured, then those of rounds drawn anew.

    Whole rounds are drawn, the same ones for every target with as many rounds, so that targets stay paired.

    Parameters
    ----------
    cells
        Seconds, shape (rounds, sizes); NaN where a cell is missing.
    """
    rounds = cells.shape[0]
    drawn = generator(seed, "scaling", "rounds").integers(rounds, size=(REPLICATES, rounds))
    return np.concatenate([medians(cells)[None], medians(cells[drawn])])


def exponential(found: Interval) -> Interval:
    """Return the interval of a number from that of its logarithm: both ends are above 0."""
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    return replace(found, value=math.exp(found.value), low=low, high=high)


def interval(found: Floats, rounds: int, level: float) -> Interval:
    """Return a number with its interval, of what was found for the rounds as they are, and for those drawn anew."""
    value = float(found[0])
    ends = percentile_interval(found[1:], rounds, level=level)
    if ends is None:
        return Interval(value=value, method="none", n=rounds, unit="rounds", level=level)
    low, high = float(min(ends[0], value)), float(max(ends[1], value))
    return Interval(value=value, low=low, high=high, method=METHOD, n=rounds, unit="rounds", level=level)
