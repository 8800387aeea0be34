"""Share of good candidates that would fill balls as full as they are: scale of clipped coverage (Salvy et al. 2025)."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_STEP = 40
_APART = 1e-6
"""Growth from one coarse place to the next that rounding, some 1e-12, cannot hide."""


def good_share(held: float, n: int, m: int, k: int, *, again: bool) -> float:
    """Return the number of good candidates over m at which the mean filling of n balls, at most k each, is `held`.

    Parameters
    ----------
    again
        Whether the same n, m and k are asked for many times: the whole table is then made, and kept. Else only what
        lies around the answer is computed; the answer is the same.

    >>> round(good_share(0.5, 100, 100, 5, again=False), 3), round(good_share(0.5, 100, 100, 5, again=True), 3)
    (0.534, 0.534)
    """
    good = _grid(m)
    if held >= 1:
        # No number of candidates fills them fuller: the end of the scale.
        return float(good[-1] / m)
    if not again:
        coarse = np.append(np.arange(0, len(good) - 1, _STEP), len(good) - 1)
        rough = _filled(good[coarse], n, k)
        place = int(np.searchsorted(rough, held, side="right")) - 1
        around = np.diff(rough[max(place - 1, 0) : place + 3])
        if 0 <= place < len(coarse) - 1 and around.min() > _APART:
            part = good[coarse[place] : coarse[place + 1] + 1]
            return float(np.interp(held, _filled(part, n, k), part / m))
    shares, expected = _table(n, m, k)
    return float(np.interp(held, expected, shares))


@lru_cache(64)
def _table(n: int, m: int, k: int) -> tuple[Floats, Floats]:
    """Return shares of good candidates, and how full they make the balls."""
    good = _grid(m)
    return good / m, np.maximum.accumulate(_filled(good, n, k))


def _grid(m: int) -> Integers:
    # Up to four times m: chance can exceed what m good candidates give on average.
    return np.unique(np.round(np.linspace(0.0, 4.0, 801) * m).astype(int))


def _filled(good: Integers, n: int, k: int) -> Floats:
    """Return E[min(J, k)] / k, J beta-binomial(good candidates, k, n - k).

    The candidates' mass in the ball of the k-th of n - 1 others is beta distributed, whatever the distribution.
    """
    from scipy.special import betaln

    fewer, others = np.arange(k), max(n - k, 1)
    # The law itself, in the order in which scipy computes it, whose checks of arguments take longer.
    total = good[:, None].astype(np.float64)
    here = np.minimum(fewer, total)
    logs = -np.log(total + 1) - betaln(total - here + 1, here + 1)
    law = np.exp(logs + betaln(here + k, total - here + others) - betaln(float(k), float(others)))
    below = np.where(fewer <= total, np.clip(law, 0.0, 1.0), 0.0)
    return np.asarray(1 - (below * (1 - fewer / k)).sum(1))
