"""The difference of two results on different units, from their intervals."""

import numpy as np

Interval = tuple[float, float, float]
"""Value, low, high."""


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
