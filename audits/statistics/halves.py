"""Standard errors from random halves, for numbers that are no mean over units (a share of texts near other texts).

Resampling with replacement makes copies, which change who is near whom. Here a sample is cut at random into two halves
without common units, again and again; how far the two halves' values lie apart says how far the whole may be off.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def half_splits(units: int, splits: int, rng: np.random.Generator) -> Bools:
    """Return the first half of each split as a mask, shape (splits, units); halves differ by one unit at most.

    >>> half_splits(5, 3, np.random.default_rng(0)).sum(1).tolist()
    [2, 2, 2]
    """
    found = np.empty((splits, units), dtype=np.bool_)
    for row in found:
        # One after the other: the order of a million units in each of fifty splits would take 400 MB.
        np.less(rng.permuted(np.arange(units)), units // 2, out=row)
    return found


TINY = 1e-9
"""Variance of a share, v (1 - v), below which it is 0 or 1 but for rounding."""


@dataclass(frozen=True, slots=True)
class Halved:
    """A value with the differences of the two halves of each split.

    Parameters
    ----------
    value
        Of the whole sample.
    gaps
        Value of one half less value of the other, shape (splits,). Halves of one split have no unit in common, so
        that E[gap^2] = 2 Var(half) = 4 Var(whole), for a variance that falls as 1 / n, whatever the statistic.
    chance
        Variance of the value over what was drawn at random beside the units, such as starts of k-means.
    """

    value: float
    gaps: Floats
    chance: float = 0.0

    def __sub__(self, other: "Halved") -> "Halved":
        """Return the difference of two values, paired where their splits are of the same units."""
        return Halved(self.value - other.value, self.gaps - other.gaps, self.chance + other.chance)

    def error(self) -> float:
        """Return the standard error sqrt(mean(gap^2) / 4 + chance).

        >>> Halved(0.5, np.array([0.1, -0.1])).error()
        0.05
        """
        return float(np.sqrt((self.gaps**2).mean() / 4 + self.chance))

    def interval(self, level: float, *, share: bool = False, least: float = 0.0) -> tuple[float, float] | None:
        """Return Student's interval, with one degree of freedom per split; None where nothing varies.

        Parameters
        ----------
        share
            Whether the value is a share. Its interval is then Wilson's (1927) for as many independent trials as would
            have this standard error, v (1 - v) / error^2, and stays within 0 and 1.
        least
            Standard error below which it is not taken to be.
        """
        error, variance = max(self.error(), least), self.value * (1 - self.value)
        if not error > 0 or (share and not variance > TINY):
            return None
        wide = _quantile((1 - level) / 2, len(self.gaps))
        if not share:
            return self.value - wide * error, self.value + wide * error
        if error**2 > variance:
            # The error of less than one trial, for which Wilson's interval has no n.
            return max(0.0, self.value - wide * error), min(1.0, self.value + wide * error)
        # Wilson's z^2 / n with n = v (1 - v) / error^2.
        part = (wide * error) ** 2 / variance
        middle = (self.value + part / 2) / (1 + part)
        half = wide * error / (1 + part) * float(np.sqrt(1 + part / (4 * variance)))
        return max(0.0, middle - half), min(1.0, middle + half)

    def p(self) -> float:
        """Return the two-sided p-value of Student's t against 0; 1 where nothing varies."""
        from scipy.stats import t

        error = self.error()
        return float(2 * t.sf(abs(self.value) / error, len(self.gaps))) if error > 0 else 1.0


@cache
def _quantile(tail: float, freedom: int) -> float:
    """Return the quantile of Student's t: scipy takes long for it, and all intervals of a run have the same."""
    from scipy.stats import t

    return float(t.isf(tail, freedom))


def halved(parts: Floats) -> Halved:
    """Return the mean over draws of values of the whole (first row) and of the halves of each split (rows 2, 3, ...).

    Parameters
    ----------
    parts
        Shape (1 + 2 splits, draws): every draw takes some of the units of each half.
    """
    means = parts.mean(1)
    return Halved(float(means[0]), means[1::2] - means[2::2])
