"""Variance and degrees of freedom of a change over matched units that are few or unequal.

Student's t with one degree of freedom fewer than there are units promises too much in two cases: where a few units
weigh far more than the others, and where hardly any unit came out otherwise. Both are counted here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Side:
    """The units of one sample: all speakers or images, the speakers of a group, or the members of a membership audit.

    Parameters
    ----------
    moved
        What each adds to the change, to first order, less what it would add if all moved alike, shape (units,).
    shares
        Weight of each, which sum to one, shape (units,).
    movers
        How many came out otherwise at all.
    """

    moved: Floats
    shares: Floats
    movers: int


def freedom(shares: Floats) -> float:
    """Return the degrees of freedom of a variance over units of these weights (Bell and McCaffrey 2002).

    Records are taken to vary alike and independently of each other; n equal weights give n - 1.

    Examples
    --------
    >>> round(freedom(np.full(20, 1 / 20)), 6), round(freedom(np.array([0.8, 0.1, 0.1])), 2)
    (19.0, 1.25)
    """
    squares = shares**2
    held = squares / np.maximum(1 - shares, 1e-12)
    return float(1 / (squares.sum() + held.sum() ** 2 - (held**2).sum()))


def variance(side: Side) -> tuple[float, float]:
    """Return the variance of the sum over the units of a side, and its degrees of freedom.

    Each square is divided by one less the weight of its unit (CR2: Bell and McCaffrey 2002), so that equal weights
    give the variance of a mean. The degrees of freedom are the least of those of the weights, of the units that moved
    less one, and of 2 n / (k - 1) for n units whose amounts have the kurtosis k, the spread of a sample variance.
    """
    squares = side.moved**2
    total = float(squares.sum())
    if not total:
        return 0.0, 1.0
    units, even = len(squares), total**2 / float((squares**2).sum())
    tails = 2 * units * even / (units - even) if even < units else np.inf
    found = float((squares / np.maximum(1 - side.shares, 1e-12)).sum())
    return found, max(1.0, min(freedom(side.shares), side.movers - 1, tails))


def together(sides: Sequence[Side]) -> tuple[float, float]:
    """Return the standard error of a change over all sides, and its degrees of freedom.

    Those of several sides are put together as by Satterthwaite (1946) and Welch (1947).
    """
    found = [variance(side) for side in sides]
    total = sum(own for own, _ in found)
    return float(np.sqrt(total)), float(total**2 / sum(own**2 / left for own, left in found))


def student(value: float, error: float, count: float, level: float) -> tuple[float, float, float]:
    """Return low, high and the p-value of zero for a change, by Student's t.

    Examples
    --------
    >>> six = np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
    >>> low, high, p = student(2.0, *together([Side((six - 2) / 6, np.full(6, 1 / 6), 6)]), 0.95)
    >>> round(low, 3), round(high, 3), round(p, 4)
    (1.061, 2.939, 0.0028)
    """
    from scipy.special import stdtr, stdtrit

    half = float(stdtrit(count, (1 + level) / 2)) * error
    return value - half, value + half, float(2 * stdtr(count, -abs(value) / error))


def change_of_rate(apart: Floats, sizes: Floats) -> tuple[float, Side]:
    """Return the difference of two pooled rates over the same units, and the move of it by each unit.

    Parameters
    ----------
    apart
        Errors of each unit under the one system less those under the other, shape (units,).
    sizes
        Trials of each unit, shape (units,); a unit without any weighs nothing, and moves the rate by its errors.

    Examples
    --------
    >>> value, side = change_of_rate(np.array([1.0, -1.0, 3.0]), np.array([10.0, 10.0, 10.0]))
    >>> value, np.round(side.moved, 3).tolist(), side.movers
    (0.1, [0.0, -0.067, 0.067], 3)
    """
    total = float(sizes.sum())
    value = float(apart.sum()) / total
    moved = (apart - value * sizes) / total
    # If all units have the same rate, what remains is rounding error.
    moved[np.abs(moved) * total <= 1e-9 * np.maximum(sizes, 1.0)] = 0.0
    return value, Side(moved, sizes / total, int((apart != 0).sum()))


def variance_or_least(side: Side) -> tuple[float, float]:
    """Return `variance`, with a small lower limit where all units moved alike, since others may not.

    It is that of half a unit moving by all its trials among one more than there are.
    """
    found = variance(side)
    if found[0] > 0:
        return found
    units = len(side.moved)
    share = 0.5 / (units + 1.0)
    return share * (1 - share) / units, max(1.0, freedom(side.shares))
