"""Intervals of a proportion of independent trials."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audits.core.intervals import Interval

Floats = NDArray[np.float64]


def lower_limit(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the exact one-sided lower limit of a proportion, element by element; 0 where nothing succeeded.

    L = B(alpha; k, n - k + 1), so that P(X >= k | L) = alpha: a true proportion below L would show k or more
    with a probability of at most alpha (Clopper and Pearson 1934).

    Examples
    --------
    >>> float(lower_limit(0, 10, 0.001))
    0.0
    >>> round(float(lower_limit(100, 100, 0.001)), 6), round(0.001 ** (1 / 100), 6)
    (0.933254, 0.933254)
    """
    from scipy.special import betaincinv

    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    # The beta quantile is undefined at k = 0; the limit is 0 there.
    inside = np.maximum(k, 1.0)
    return np.where(k > 0, betaincinv(inside, n - inside + 1, alpha), 0.0)


def upper_limit(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the exact one-sided upper limit of a proportion, element by element; 1 where nothing failed.

    U = B(1 - alpha; k + 1, n - k), so that P(X <= k | U) = alpha (Clopper and Pearson 1934).

    >>> round(float(upper_limit(0, 100, 0.025)), 4) == round(1 - 0.025 ** (1 / 100), 4)
    True
    """
    from scipy.special import betaincinv

    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    full = k >= n
    return np.where(full, 1.0, betaincinv(k + 1, np.where(full, 1.0, n - k), 1 - alpha))


def clopper_pearson(successes: int, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a proportion: both one-sided limits, each with half of the error.

    Its coverage is at least `level` whatever the true proportion.

    Raises
    ------
    ValueError
        Unless 0 <= successes <= trials and trials > 0.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 24)
    >>> low, round(high, 4), round(1 - 0.025 ** (1 / 24), 4)
    (0.0, 0.1425, 0.1425)
    """
    _check(successes, trials)
    tail = (1.0 - level) / 2
    return float(lower_limit(successes, trials, tail)), float(upper_limit(successes, trials, tail))


def exact_share(count: int, n: int, unit: str, *, level: float) -> Interval:
    """Return a share with its Clopper-Pearson interval.

    >>> exact_share(0, 24, "images", level=0.95).high == clopper_pearson(0, 24)[1]
    True
    """
    low, high = clopper_pearson(count, n, level=level)
    return Interval(value=count / n, low=low, high=high, method="Clopper-Pearson", n=n, unit=unit, level=level)


def wilson(successes: int, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the score interval of a proportion (Wilson 1927): shorter than exact, right on average.

    Raises
    ------
    ValueError
        Unless 0 <= successes <= trials and trials > 0.

    Examples
    --------
    >>> low, high = wilson(5, 10)
    >>> round(low, 3), round(high, 3)
    (0.237, 0.763)
    >>> wilson(0, 10)[0], wilson(10, 10)[1]
    (0.0, 1.0)
    """
    from statsmodels.stats.proportion import proportion_confint

    _check(successes, trials)
    low, high = proportion_confint(successes, trials, alpha=1.0 - level, method="wilson")
    # Set exactly: rounding error would move these ends off 0 and 1.
    return 0.0 if successes == 0 else float(low), 1.0 if successes == trials else float(high)


def _check(successes: int, trials: int) -> None:
    if trials <= 0 or not 0 <= successes <= trials:
        raise ValueError(f"need 0 <= successes <= trials and trials > 0, got {successes} of {trials}")
