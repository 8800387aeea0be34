"""Influences: how far each speaker moves an estimate, so that estimates of the same people add and subtract.

A rate, a variance and a difference of accuracies are told from one another only by how far a speaker moves them.
With these moves kept, any sum of estimates has its interval at once, paired where the people are the same, and no
model is run again.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audits.statistics.bootstrap import ratio

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Moved:
    """An estimate with the influence of each unit (speaker) on it, shape (units,).

    Parameters
    ----------
    draws
        Where it is a mean over random repetitions (folds, subsamples): what each of them gave, shape (repetitions,).
    """

    value: float
    moves: Floats
    draws: Floats = field(default_factory=lambda: np.zeros(1))

    def __sub__(self, other: "Moved") -> "Moved":
        """Return the difference of two estimates, from the same units and repetitions or from others."""
        return Moved(self.value - other.value, self.moves - other.moves, self.draws - other.draws)

    def __add__(self, other: "Moved") -> "Moved":
        """Return the sum of two estimates."""
        return Moved(self.value + other.value, self.moves + other.moves, self.draws + other.draws)

    def log(self) -> "Moved":
        """Return the logarithm of a positive estimate (delta method)."""
        return Moved(float(np.log(self.value)), self.moves / self.value, self.draws / self.value)

    def error(self, strata: Bools, sizes: Floats | None = None) -> tuple[float, float]:
        """Return the standard error and Satterthwaite's degrees of freedom; NaN where a stratum has one unit.

        s^2 = sum_h m_h / (m_h - 1) sum_{u in h} (z_u - mean z)^2 over strata h of m_h units, and beside it the
        variance of the repetitions over their number.

        Parameters
        ----------
        strata
            Who is in which stratum, shape (strata, units); strata do not overlap.
        sizes
            How much each unit weighs, shape (units,): a stratum that rests on one large unit has as few degrees of
            freedom as (sum n)^2 / sum n^2 units of equal size (Kish 1965, section 11.7). None: all alike.
        """
        count = strata.sum(1)
        if (count == 1).any():
            return np.nan, np.nan
        means = ratio((strata * self.moves).sum(1), count.astype(np.float64))
        centred = np.where(strata, self.moves - np.nan_to_num(means)[:, None], 0.0)
        parts = (centred**2).sum(1) * count / np.maximum(count - 1, 1)
        repeats = len(self.draws)
        chance = float(self.draws.var(ddof=1)) / repeats if repeats > 1 else 0.0
        weight = strata * (np.ones(strata.shape[1]) if sizes is None else sizes)
        alike = ratio(weight.sum(1) ** 2, (weight**2).sum(1))
        # The repetitions count as one more stratum, with degrees of freedom of their own.
        parts, alike = np.append(parts, chance), np.append(np.nan_to_num(alike), repeats)
        freedom = parts.sum() ** 2 / (parts**2 / np.maximum(alike - 1, 1)).sum() if parts.sum() > 0 else 1.0
        return float(np.sqrt(parts.sum())), float(freedom)

    def interval(self, strata: Bools, level: float, sizes: Floats | None = None) -> tuple[float, float] | None:
        """Return Student's interval, or None where a stratum has one unit.

        Examples
        --------
        >>> mean = Moved(2.0, np.array([-1.0, 0.0, 1.0]) / 3)
        >>> low, high = mean.interval(np.ones((1, 3), dtype=bool), 0.95)
        >>> round(low, 3), round(high, 3)
        (-0.484, 4.484)
        """
        from scipy.stats import t

        error, freedom = self.error(strata, sizes)
        if not np.isfinite(error):
            return None
        half = error * float(t.isf((1 - level) / 2, freedom))
        return self.value - half, self.value + half

    def p(self, strata: Bools, sizes: Floats | None = None) -> float:
        """Return the two-sided p-value of Student's t against 0; 1 where there is no standard error."""
        from scipy.stats import t

        error, freedom = self.error(strata, sizes)
        return float(2 * t.sf(abs(self.value) / error, freedom)) if np.isfinite(error) and error > 0 else 1.0


def rate(successes: Floats, trials: Floats) -> Moved:
    """Return a pooled rate r = sum(s) / sum(n): of m units u moves it by (m - 1) / m (s_u - r n_u) / (sum(n) - n_u).

    That is the delete-one jackknife; with units of equal size it is (s_u - r n_u) / sum(n).

    Examples
    --------
    >>> found = rate(np.array([1.0, 3.0]), np.array([4.0, 4.0]))
    >>> found.value, found.moves.tolist()
    (0.5, [-0.125, 0.125])
    """
    total = trials.sum()
    value = float(successes.sum() / total)
    units, left = int((trials > 0).sum()), total - trials
    share = (units - 1) / max(units, 1)
    return Moved(value, np.where(left > 0, share * (successes - value * trials) / np.where(left > 0, left, 1.0), 0.0))


def left_out(value: float, without: Floats, strata: Bools) -> Moved:
    """Return an estimate from its values without each unit (stratified delete-one jackknife).

    In stratum h unit u moves it by (m_h - 1) / m_h (mean_h - value without u), which gives the jackknife's
    standard error (Shao and Tu 1995, equation 6.11).

    Parameters
    ----------
    without
        The estimate without each unit, shape (units,); a unit that is in no stratum moves nothing.
    """
    moves = np.zeros(len(without))
    for inside in strata:
        count = int(inside.sum())
        if count > 1:
            moves[inside] = (without[inside].mean() - without[inside]) * (count - 1) / count
    return Moved(value, moves)
