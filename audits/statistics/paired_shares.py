"""Difference of two shares of the same units, each of which is in or out of either."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

BONETT_PRICE = "Bonett-Price for paired shares"


@dataclass(frozen=True, slots=True)
class PairedShares:
    """A share less another of the same n units: the value, the ends of its interval, and an exact p-value."""

    value: float
    low: float
    high: float
    p: float


def paired_difference(first: NDArray[Any], second: NDArray[Any], *, level: float = 0.95) -> PairedShares:
    """Return the share of `first` less that of `second`, with its interval and the p-value of no difference.

    Of n units b are in the first alone and c in the second alone. With b' = (b + 1) / (n + 2) and c' likewise, the
    interval is b' - c' -+ z sqrt((b' + c' - (b' - c')^2) / (n + 2)) (Bonett and Price 2012, "Adjusted Wald confidence
    interval for a difference of binomial proportions based on paired data", equation 5), within [-1, 1] and around the
    value. The p-value is McNemar's exact one, two-sided: of b + c units with even chances, b or fewer, or as many.

    Parameters
    ----------
    first, second
        Whether each unit is in, shape (n,) of booleans, n at least 1.

    Examples
    --------
    >>> found = paired_difference(np.repeat([1, 1, 0, 0], [50, 8, 0, 42]), np.repeat([1, 0, 1, 0], [50, 8, 0, 42]))
    >>> found.value, round(found.low, 3), round(found.high, 3), round(found.p, 4)
    (0.08, 0.02, 0.137, 0.0078)
    """
    first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    n, more, less = len(first), int((first & ~second).sum()), int((second & ~first).sum())
    value = (more - less) / n
    up, down = (more + 1) / (n + 2), (less + 1) / (n + 2)
    wide = float(stats.norm.isf((1 - level) / 2)) * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    low, high = max(min(up - down - wide, value), -1.0), min(max(up - down + wide, value), 1.0)
    p = float(stats.binomtest(more, more + less).pvalue) if more + less else 1.0
    return PairedShares(value, low, high, min(p, 1.0))
