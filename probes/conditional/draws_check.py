"""Checks whether "samples" are draws, and not quantiles, points of a quantiser or random numbers shared by rows.

What depends on independent draws (fair scores, ranks, intervals over rows) is wrong for them. Here is what is counted;
what follows from it is the caller's to say.
"""

import math
from dataclasses import dataclass

import numpy as np

from probes.conditional.laws import Floats

FEWEST, RATIOS = 5, 100
"""Fewest draws of a row whose spacings or order tell anything, and fewest ratios: their mean is then within .03."""
TIED = 0.1
"""Share of spacings of 0 above which values count as rounded: then spacings are few multiples of one step."""
SHOWN = 8
"""Coordinates that are looked at for shared draws, the first ones."""
IN_ORDER = 0.9
"""Share of rows with ascending, or with descending draws, from which on draws count as sorted."""
FAR, LARGE = 6.0, 0.1
"""Standard errors, and correlation, above which shared draws are beyond chance and matter."""
PILE, PILED_ROWS = 0.05, 5
"""Share of rows, and number of them, above which values at an end are a pile."""


def regular_spacing(samples: Floats) -> float | None:
    """Return the mean of min / max of adjacent spacings of sorted draws, shape (n, K, 1): about .386 for draws.

    Near 1 for quantiles and quantiser points. The ratio is that of Oganesyan & Huse (2007, Phys. Rev. B 75), 2 ln 2 - 1
    for independent draws of a density that hardly changes between neighbours, whatever it is. Spacings of 0 are left
    out. None with d > 1, with fewer than 5 draws or 100 ratios, and for values that are whole, or tied in more than a
    tenth of the spacings. Two narrow modes with few draws in each look less regular than they are.

    >>> round(regular_spacing(np.tile(np.array([[0.5], [1.5], [2.5], [3.5], [5.5]]), (50, 1, 1))), 4)
    0.8333
    """
    if samples.shape[2] != 1 or samples.shape[1] < FEWEST or whole_numbers(samples):
        return None
    spacings = np.diff(np.sort(samples[:, :, 0], axis=1), axis=1)
    if (spacings == 0).mean() > TIED:
        return None
    small = np.minimum(spacings[:, 1:], spacings[:, :-1])
    large = np.maximum(spacings[:, 1:], spacings[:, :-1])
    ratios = small[small > 0] / large[small > 0]
    return float(ratios.mean()) if ratios.size >= RATIOS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDraws:
    """How alike the draws of different rows are, index by index.

    Parameters
    ----------
    correlation
        Mean over pairs of rows, and over coordinates, of the correlation of their draws by index.
    z
        Its distance from 0 in standard errors, on the scale of a normal law.
    in_order
        Share of rows whose draws ascend, or descend if more do, in the first coordinate.
    shared
        Whether it is far beyond chance, and no mere order.
    """

    correlation: float
    z: float
    in_order: float
    shared: bool


def shared_draws(samples: Floats) -> SharedDraws | None:
    """Return whether draws with one index are alike in all rows: random numbers used again, or points in a fixed order.

    Each row's draws, shape (n, K, d), are centred and divided by their norm. For independent draws, pairs of these unit
    vectors have mean correlation 0 and variance 1 / (K - 1), by exchangeability alone. With u the sum over n rows,
    |u|^2 (K - 1) / n is near chi-squared with K - 1 degrees of freedom; z is its cube root (Wilson & Hilferty 1931). Of
    several coordinates the mean is taken and its variance as if all were one, which is at least the true one.

    Sorted draws are correlated without being shared; they are told by `in_order`, and never called shared with d = 1 or
    with fewer than 5 draws in an order that chance may give. Hand in rows with different x: a model may well keep its
    draws for one x. None with one draw, or without two rows whose draws vary.
    """
    draws, d = samples.shape[1:]
    shown = samples[:, :, :SHOWN]
    away = shown - shown.mean(1, keepdims=True)
    norms = np.sqrt(np.einsum("nkd,nkd->nd", away, away))
    varied = np.ptp(shown, axis=1) > 0
    rows = varied.sum(0)
    if draws < 2 or (rows < 2).all():
        return None
    units = np.divide(away, norms[:, None], out=np.zeros_like(away), where=varied[:, None])
    squares = (units.sum(0) ** 2).sum(0)[rows > 1]
    rows = rows[rows > 1]
    correlation = float(((squares - rows) / (rows * (rows - 1))).mean())
    free = draws - 1
    at = float((squares / rows).mean())
    z = (math.cbrt(at) - 1 + 2 / (9 * free)) / math.sqrt(2 / (9 * free))
    steps = np.diff(shown[varied[:, 0], :, 0], axis=1)
    in_order = float(max((steps >= 0).all(1).mean(), (steps <= 0).all(1).mean())) if len(steps) else 0.0
    # In d > 1 few points in a fixed order ascend by luck in one coordinate; draws that somebody sorted are many.
    excused = in_order >= IN_ORDER and (d == 1 or draws >= FEWEST)
    shared = z > FAR and correlation > LARGE and not excused
    return SharedDraws(correlation=correlation, z=z, in_order=in_order, shared=shared)


def whole_numbers(values: Floats) -> bool:
    """Return whether all values are whole numbers.

    >>> whole_numbers(np.array([1.0, -2.0])), whole_numbers(np.array([1.0, 0.5])), whole_numbers(np.array([]))
    (True, False, False)
    """
    return bool(values.size and (values == np.rint(values)).all())


@dataclass(frozen=True, slots=True)
class Piled:
    """Share of rows at the least and at the greatest value, of the coordinate with the most; 0 where there is no pile.

    Values that are cut off at a limit pile up there. So do whole numbers with few values, without being cut off.
    """

    least: float
    greatest: float


def piled(values: Floats) -> Piled:
    """Return how many values, shape (n,) or (n, d), lie at their ends: shares above 5 percent, of at least 5 rows.

    A constant coordinate has no ends. Raises ValueError without rows.

    >>> piled(np.r_[np.zeros(10), np.arange(1, 91) / 7])
    Piled(least=0.1, greatest=0.0)
    """
    if not values.size:
        raise ValueError("no values")
    table = values.reshape(len(values), -1)
    shares = []
    for end in (table.min(0), table.max(0)):
        counts = (table == end).sum(0) * (np.ptp(table, axis=0) > 0)
        most = int(counts.max())
        shares.append(most / len(table) if most >= PILED_ROWS and most > PILE * len(table) else 0.0)
    return Piled(*shares)
