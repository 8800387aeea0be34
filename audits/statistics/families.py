"""Tail probabilities of single intervals for which a whole family holds jointly.

For differences of groups. All pairs: the normal tail at which the studentised range of so many groups stands (Tukey);
each interval then takes its own Student's quantile at that tail (Games and Howell 1976). Differences to others, or to
one group of reference: Bonferroni's.
"""

from functools import lru_cache
from typing import Literal

import numpy as np

Family = Literal["pairs", "others", "reference"]
"""All pairs of groups, each group against all others together, or each group against a reference group."""
_GRID = np.linspace(-9.0, 9.0, 1801)


def joint_chance(family: Family, groups: int, tail: float, *, one_sided: bool = False) -> float:
    """Return the probability that any interval of a family fails, given the tail probability of each end.

    Where `one_sided`, the ends on one side alone count.

    Examples
    --------
    >>> round(joint_chance("pairs", 2, 0.025), 4), round(joint_chance("reference", 4, 0.01), 4)
    (0.05, 0.06)
    """
    if family == "pairs" and not one_sided:
        return _range_chance(groups, tail)
    return min(1.0, _count(family, groups, one_sided) * tail * (1 if one_sided else 2))


def tail_of(family: Family, groups: int, chance: float, *, one_sided: bool = False) -> float:
    """Return the tail probability of each interval for which a whole family fails with at most this probability.

    Examples
    --------
    >>> [round(tail_of("pairs", groups, 0.05), 4) for groups in (2, 3, 10)]
    [0.025, 0.0095, 0.0008]
    """
    if family == "pairs" and not one_sided:
        return _range_tail(groups, chance)
    return chance / _count(family, groups, one_sided) / (1 if one_sided else 2)


def _count(family: Family, groups: int, one_sided: bool) -> int:
    if family == "pairs":
        return groups * (groups - 1) // (1 if one_sided else 2)
    if family == "reference":
        return groups - 1
    # With two groups the second comparison is the first one with its sign reversed.
    return 1 if groups == 2 and not one_sided else groups


def _range_chance(groups: int, tail: float) -> float:
    """Return the probability that the range of so many standard normals exceeds sqrt(2) times the tail's quantile."""
    from scipy.stats import norm

    reach = float(np.sqrt(2) * norm.isf(tail))
    if groups == 2:
        return min(1.0, 2 * tail)
    # P(range <= reach), given the lowest at x, through its complement, which loses no digits.
    inside = norm.cdf(_GRID + reach) - norm.cdf(_GRID)
    within = norm.sf(_GRID)
    lost = within ** (groups - 1) - inside ** (groups - 1)
    chance = groups * float(np.trapezoid(norm.pdf(_GRID) * lost, _GRID))
    return float(min(1.0, max(chance, 2 * tail)))


@lru_cache(maxsize=256)
def _range_tail(groups: int, chance: float) -> float:
    low, high = np.log(chance / groups**2 / 2), np.log(chance / 2)
    for _ in range(60):
        middle = (low + high) / 2
        if _range_chance(groups, float(np.exp(middle))) > chance:
            high = middle
        else:
            low = middle
    return float(np.exp(low))
