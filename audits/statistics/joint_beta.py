"""Credible interval of epsilon from the counts of an attack's hits and false alarms.

False positive and false negative rates have independent posteriors; the probability of "at most epsilon" is the mass
of the pairs of rates that (epsilon, delta)-privacy allows (Zanella-Beguelin and others 2022). The interval is
credible, from a prior, and no confidence interval: it may miss the truth more often than it says.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv

Floats = NDArray[np.float64]

NODES = 10_000
"""Quantiles of one rate at which the other's mass is taken. What is summed falls all the way from at most 1 to at
least 0, so that a mass is off by at most 1 / NODES at a jump, and by far less where there is none."""
_EXACT = 1e-9


def joint_beta(tp: int, tn: int, fp: int, fn: int, *, delta: float, level: float = 0.95) -> tuple[float, float]:
    """Return the equal-tailed credible interval of epsilon.

    With Jeffreys' prior the rates are FPR ~ Beta(1/2 + fp, 1/2 + tn) and FNR ~ Beta(1/2 + fn, 1/2 + tp). An epsilon
    below the low end has a posterior probability of (1 - level) / 2 at most.

    Parameters
    ----------
    tp, fn
        Members guessed right and wrong.
    tn, fp
        Non-members guessed right and wrong.

    Raises
    ------
    ValueError
        Where a count is negative, and unless 0 <= delta < 1 and 0 < level < 1.

    Examples
    --------
    >>> low, high = joint_beta(487, 1, 512, 0, delta=1e-5, level=0.9)
    >>> round(low, 2), round(high, 1)
    (0.14, 6.4)
    """
    if min(tp, tn, fp, fn) < 0 or not 0 <= delta < 1 or not 0 < level < 1:
        raise ValueError(f"counts {tp, tn, fp, fn}, delta {delta} or level {level} is out of range")
    mass = _posterior(tp, tn, fp, fn, delta)

    def quantile(part: float) -> float:
        if mass(0.0) >= part:
            return 0.0
        high = 1.0
        while mass(high) < part:
            high *= 2
        return float(brentq(lambda epsilon: mass(epsilon) - part, 0.0, high, xtol=_EXACT))

    return quantile((1 - level) / 2), quantile((1 + level) / 2)


@lru_cache(maxsize=1)
def _posterior(tp: int, tn: int, fp: int, fn: int, delta: float) -> Callable[[float], float]:
    """Return the distribution function of epsilon, which keeps its values: all searches begin at the same ones."""
    below = _Corner.of(0.5 + fp, 0.5 + tn, 0.5 + fn, 0.5 + tp, delta)
    above = _Corner.of(0.5 + tn, 0.5 + fp, 0.5 + tp, 0.5 + fn, delta)
    return cache(lambda epsilon: 1 - below.mass(epsilon) - above.mass(epsilon))


@dataclass(frozen=True, slots=True)
class _Corner:
    """The corner of pairs of rates that are too good to be allowed; mirrored (1 - x, 1 - y), those too bad."""

    x: Floats
    alpha: float
    beta: float
    delta: float

    @classmethod
    def of(cls, a: float, b: float, alpha: float, beta: float, delta: float) -> "_Corner":
        return cls(betaincinv(a, b, (np.arange(NODES) + 0.5) / NODES), alpha, beta, delta)

    def mass(self, epsilon: float) -> float:
        """Return the probability that y < 1 - delta - e^epsilon x or x < 1 - delta - e^epsilon y."""
        rest = 1 - self.delta
        # Of two conditions of which one suffices, y lies below the higher line.
        border = np.maximum(rest - math.exp(epsilon) * self.x, math.exp(-epsilon) * (rest - self.x))
        return float(betainc(self.alpha, self.beta, np.clip(border, 0.0, 1.0)).mean())
