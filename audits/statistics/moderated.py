"""Moderated variances: many variances of a few values each, drawn towards a common one (empirical Bayes)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST = 3
"""Number of variances below which their prior cannot be estimated."""
LEAST = 1e-8
"""Floor of a variance as a share of their median, so that a variance of 0 has a logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moderated:
    """Variances shrunk towards a common one.

    Parameters
    ----------
    variances, freedom
        Each variance after that, and its degrees of freedom, never infinite, shape (m,).
    prior_variance, prior_df
        What they are drawn to, and as how many degrees of freedom it counts: 0 where they are left as they are,
        infinite where they differ by no more than chance.
    """

    variances: Floats
    freedom: Floats
    prior_variance: float
    prior_df: float


def squeeze(variances: Floats, df: float | Floats, *, caution: float = 0.0, most: float | None = None) -> Moderated:
    """Shrink variances to a common one, the more the more alike they are (Smyth 2004, sections 6.1 and 6.2).

    The variance s^2 with d degrees of freedom becomes (d0 s0^2 + d s^2) / (d0 + d), with d0 + d degrees of freedom.
    The mean and variance of log s^2 over the m variances give s0^2 and d0, by the digamma and trigamma functions.
    Where log s^2 varies no more than by chance, d0 is infinite and s0^2 the plain mean. Fewer than three variances,
    or only zeros, are left alone.

    Parameters
    ----------
    variances
        Not negative, shape (m,).
    df
        Degrees of freedom of each, above 0, a number or shape (m,).
    caution
        Standard errors by which the variance of log s^2 beyond chance is taken to be larger than it was found, for d0
        alone: few variances of few values look alike even where they are not.
    most
        Degrees of freedom that all variances have together, which none can exceed; their sum if not given. Dependent
        variances have fewer.

    Raises
    ------
    ValueError
        For a variance that is negative or not finite, or degrees of freedom that are not above 0.

    Examples
    --------
    Ten variances that differ by less than chance become their mean.

    >>> found = squeeze(np.array([1.0, 3.0] * 5), 4)
    >>> found.variances[:2].tolist(), found.freedom[:2].tolist(), found.prior_df
    ([2.0, 2.0], [40.0, 40.0], inf)
    """
    given = np.asarray(variances, dtype=np.float64)
    own = np.broadcast_to(np.asarray(df, dtype=np.float64), given.shape)
    if not (np.isfinite(given) & (given >= 0) & np.isfinite(own) & (own > 0)).all():
        raise ValueError("variances must be finite and not negative, degrees of freedom finite and above 0")
    if len(given) < FEWEST or not given.any():
        mean = float(given.mean()) if len(given) else 0.0
        return Moderated(variances=given, freedom=own.copy(), prior_variance=mean, prior_df=0.0)
    prior_variance, prior_df = _prior(given, own, caution)
    # A prior with infinite degrees of freedom takes all the weight.
    weight = own / (prior_df + own)
    most = max(float(own.sum()) if most is None else most, float(own.max()))
    return Moderated(
        variances=weight * given + (1 - weight) * prior_variance,
        freedom=np.minimum(prior_df + own, most),
        prior_variance=prior_variance,
        prior_df=prior_df,
    )


def _prior(variances: Floats, df: Floats, caution: float) -> tuple[float, float]:
    from scipy.special import digamma, polygamma

    lifted = np.maximum(variances, LEAST * np.median(variances[variances > 0]))
    logs, by_chance = np.log(lifted) - digamma(df / 2) + np.log(df / 2), float(polygamma(1, df / 2).mean())
    spread = float(logs.var(ddof=1)) - by_chance
    if spread > 0:
        half = inverse_trigamma(spread)
        prior = float(np.exp(logs.mean() + digamma(half) - np.log(half)))
    else:
        prior = float(np.average(variances, weights=df))
    # Of a sample variance of logarithms of chi-square variables.
    error = math.sqrt(float(polygamma(3, df / 2).mean()) / len(df) + 2 * by_chance**2 / (len(df) - 1))
    upper = max(spread, 0.0) + caution * error
    return prior, 2 * inverse_trigamma(upper) if upper > 0 else math.inf


def inverse_trigamma(value: float) -> float:
    """Return the y > 0 whose trigamma is `value` > 0, by Newton's steps on 1 / trigamma (Smyth 2004, appendix).

    >>> round(inverse_trigamma(math.pi**2 / 6), 12)
    1.0
    """
    from scipy.special import polygamma

    # Trigamma is 1 / y far out and 1 / y^2 near 0, to the last digit.
    if value < 1e-7:
        return 1 / value
    if value > 1e7:
        return 1 / math.sqrt(value)
    y = 0.5 + 1 / value
    for _ in range(50):
        found = float(polygamma(1, y))
        step = found * (1 - found / value) / float(polygamma(2, y))
        y += step
        if abs(step) < 1e-10 * y:
            break
    return y
