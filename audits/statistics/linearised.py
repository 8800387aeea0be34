"""Differences of two pooled rates with linearised standard errors over clusters, without resampling."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.statistics.bootstrap import ratio
from audits.statistics.unit_moves import Side, variance

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Differences of two rates or of their logarithms, arrays of shape (pairs,); NaN where a rate is undefined.

    `freedom` are Satterthwaite's degrees of freedom for the standard error `error`.
    """

    value: Floats
    error: Floats
    freedom: Floats

    def p(self) -> Floats:
        """Return the two-sided p-values of Student's t; 1 where the difference is 0 or has no standard error."""
        from scipy.stats import t

        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.abs(self.value) / self.error
        p: Floats = np.where(np.isfinite(size), 2 * t.sf(size, np.maximum(self.freedom, 1.0)), 1.0)
        return p

    def ends(self, level: float) -> tuple[Floats, Floats]:
        """Return the ends of Student's intervals."""
        from scipy.stats import t

        half = self.error * t.isf((1 - level) / 2, np.maximum(self.freedom, 1.0))
        return self.value - half, self.value + half


def linearised_differences(
    errors: tuple[Floats, Floats], sizes: tuple[Floats, Floats], *, log: bool = False
) -> Differences:
    """Return differences of pooled rates, or log ratios, with linearised variances over clusters.

    With r = E / N and clusters i, each rate moves by z_i = (e_i - r n_i) / N, over r for its logarithm; clusters that
    are in both add the difference of the two (Taylor linearisation: Wolter 2007, chapter 6). Variance and degrees of
    freedom of each rate are those of `unit_moves.variance`, for few clusters and such as weigh more than others.
    Clusters that all have one rate show no variance: it is then that of the trials, r (1 - r) / N, or r / N above 1.

    Parameters
    ----------
    errors, sizes
        Of the first and of the second, each of shape (clusters, pairs).

    Examples
    --------
    >>> one, other = np.array([[2.0], [4.0], [0.0], [0.0]]), np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> found = linearised_differences((one, other), (10 * (one > 0), 10 * (other > 0)))
    >>> round(float(found.value[0]), 3), round(float(found.error[0]), 3), round(float(found.freedom[0]), 3)
    (0.2, 0.12, 1.748)
    """
    moves, rates, clusters, unseen, alone, left = [], [], [], [], [], []
    for e, n in zip(errors, sizes, strict=True):
        trials = n.sum(0)
        rate = ratio(e.sum(0), trials)
        scale = rate * trials if log else trials
        moved, shares = ratio(e - rate * n, np.broadcast_to(scale, e.shape)), ratio(n, np.broadcast_to(trials, n.shape))
        moved[np.abs(moved) * trials <= 1e-9 * np.maximum(n, 1.0)] = 0.0
        sides = [
            variance(Side(moved[there, at], shares[there, at], int((e[there, at] > 0).sum())))
            for at, there in enumerate((n > 0).T)
        ]
        # Each by its own weight: the two rates may rest on different numbers of clusters.
        moves.append(moved / np.sqrt(np.maximum(1 - shares, 1e-12)))
        rates.append(rate)
        clusters.append((n > 0).sum(0))
        shown = np.array([own for own, _ in sides])
        of_trials = np.where(shown > 0, 0.0, np.nan_to_num(ratio(rate * np.where(rate < 1, 1 - rate, 1.0), trials)))
        unseen.append(np.nan_to_num(ratio(of_trials, rate**2)) if log else of_trials)
        alone.append(shown + unseen[-1])
        left.append(np.where(shown > 0, [freedom for _, freedom in sides], np.maximum(clusters[-1] - 1.0, 1.0)))
    together = ((moves[0] - moves[1]) ** 2).sum(0) + unseen[0] + unseen[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(rates[0]) - np.log(rates[1]) if log else rates[0] - rates[1]
        parts = sum(part**2 / own for part, own in zip(alone, left, strict=True))
        freedom = np.where(parts > 0, (alone[0] + alone[1]) ** 2 / parts, 1.0)
    usable = (clusters[0] > 1) & (clusters[1] > 1) & np.isfinite(value)
    return Differences(
        value=np.where(usable, value, np.nan), error=np.where(usable, np.sqrt(together), np.nan), freedom=freedom
    )
