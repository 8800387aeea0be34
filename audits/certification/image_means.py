"""Means over images, with their intervals."""

import math

import numpy as np

from audits.certification.bounds import Floats
from audits.core.intervals import Interval
from audits.statistics import clopper_pearson
from audits.statistics.mean_intervals import STUDENT_SKEW, mean_interval

OVER_IMAGES = f"{STUDENT_SKEW}, over images"
FEW = 10
"""Images with a positive value under which the interval of a mean is widened."""


def mean_within(numbers: Floats, top: float, level: float) -> Interval:
    """Return a mean over images of numbers in [0, top]."""
    value = float(numbers.mean())
    low, high = _ends(numbers, level)
    method = OVER_IMAGES
    above, below = int((numbers > top / 2).sum()), int((numbers < top / 2).sum())
    if min(above, below) < FEW:
        # So few images lie on one side that their spread cannot tell how many others would.
        low = min(low, top - _most(top - numbers, top, level))
        high = max(high, _most(numbers, top, level))
        method = f"{method}, with Clopper-Pearson for the rare half where wider"
    # Rounding may carry the mean of numbers that are all the highest past it.
    low, high = max(min(low, value), 0.0), max(min(high, top), value)
    return Interval(value=value, low=low, high=high, method=method, n=len(numbers), unit="images", level=level)


def mean_or_none(numbers: Floats, level: float) -> Interval:
    """Return a mean over images of numbers that are never negative; without an interval where nothing varied."""
    found = mean_interval(numbers, level=level, positive=True)
    low, high = found[1] if found else (None, None)
    method = OVER_IMAGES if found else "none"
    value = float(numbers.mean())
    return Interval(value=value, low=low, high=high, method=method, n=len(numbers), unit="images", level=level)


def _ends(numbers: Floats, level: float) -> tuple[float, float]:
    """Return the limits of a mean of numbers that are never negative; both are the mean where nothing varied."""
    found = mean_interval(numbers, level=level, positive=True)
    return found[1] if found else (float(numbers.mean()),) * 2


def _most(numbers: Floats, top: float, level: float) -> float:
    """Return an upper limit of a mean of numbers in [0, top] that allows for large ones not seen.

    Up to top / 2 they are taken as they are; the share beyond gets its exact upper limit, as if each were top. The two
    ends are joined as those of independent parts.
    """
    far = numbers > top / 2
    near = np.where(far, 0.0, numbers)
    rise = _ends(near, level)[1] - float(near.mean())
    most = top * clopper_pearson(int(far.sum()), len(numbers), level=level)[1]
    return min(float(numbers.mean()) + math.hypot(rise, most - float((numbers - near).mean())), top)
