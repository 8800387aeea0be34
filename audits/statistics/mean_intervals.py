"""Intervals of the mean, or of a ratio of sums, of a few independent and perhaps skewed numbers.

Nothing is resampled, so that an interval depends on the numbers alone. Measured over 2,000 repeats at 95 %, with 2, 3,
5, 8, 20 and 50 numbers: exponential ones are covered in 95 to 97 %, log-normal ones of sigma 1 in 93 to 95 %, of sigma
1.5 in 92, 88, 87, 87, 90 and 93 %. A tail that was never drawn cannot be known.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STUDENT_SKEW = "Student t widened for skew"
ALIKE = 1e-12
"""Relative spread below which numbers count as equal up to rounding."""
MOST_STRETCHED = 5.0
"""Most that an upper end may exceed the mean, in multiples of Student's: with few numbers exponentials explode."""
_LARGE = 1e290
HEAVY = 2.0
"""Divisor of the degrees of freedom of a claim: with a kurtosis of 5 a variance has half as many."""
SLIGHT = 0.1
"""Share of the mean denominator below which the ratio of a pair is not looked at by itself."""
CAREFUL = 1.5
"""Factor on the skewness of the sample for a claim, since that of few numbers is too low."""


def mean_interval(
    values: Floats, *, level: float = 0.95, positive: bool = False
) -> tuple[str, tuple[float, float]] | None:
    """Return method and ends of the interval of a mean of n independent numbers.

    The ends are the outermost of up to three intervals with Student's quantiles t on n - 1 degrees of freedom: m -+ t s
    / sqrt(n); the same after Hall's cubic transformation, which removes skew (Hall 1992, "On the removal of skewness
    by transformation", equation 2.3); and for a mean that cannot be negative the upper end m exp(t s / (m sqrt(n))),
    but no more than five times as far from m as Student's.

    Parameters
    ----------
    values
        Shape (n,).
    positive
        Whether the mean cannot lie below zero, such as that of errors: then the lower end does not either.

    Returns
    -------
    tuple or None
        None with fewer than two numbers, and where all are alike: what never varied tells nothing of how it would;
        also where an end is beyond all numbers that there are.

    Examples
    --------
    >>> method, (low, high) = mean_interval(np.repeat([1.0, 3.0], 20))
    >>> method, f"{low:.2f} to {high:.2f}"
    ('Student t widened for skew', '1.68 to 2.32')
    >>> low, high = mean_interval(np.array([0.0] * 9 + [1.0]), positive=True)[1]
    >>> f"{low:.2f} to {high:.2f}"
    '0.00 to 1.00'
    """
    n = len(values)
    if n < 2 or alike(values):
        return None
    mean, error, skew = _moments(values)
    quantile = _student((1.0 - level) / 2, n - 1)
    low, high = _outer(mean, error, skew / math.sqrt(n), quantile)
    if positive and mean > 0:
        wide = quantile * error
        # By the delta method, on the scale of logarithms.
        high = max(high, mean + min(mean * float(np.expm1(min(wide / mean, 50.0))), MOST_STRETCHED * wide))
        low = max(low, 0.0)
    return (STUDENT_SKEW, (low, high)) if math.isfinite(low) and math.isfinite(high) else None


def claim_interval(values: Floats, *, level: float = 0.95, claims: int = 1) -> tuple[float, float] | None:
    """Return the ends of an interval of a mean that is safe for a claim that the mean is above or below zero.

    As `mean_interval`, but for all `claims` together (Bonferroni), with half of the degrees of freedom and half as much
    skew again. Where several such means are zero, the chance that any interval leaves it out stays near 1 - level even
    where the numbers are skewed: of 8 log-normal numbers of sigma 1.2 it does so in 5.3 % for one mean, and for any of
    three in 6.6 % (4,000 repeats), where Student's intervals do in 21 and, at 1 - level / 3, in 40 %.

    Returns
    -------
    tuple or None
        None with fewer than two numbers, and where all are alike.

    Examples
    --------
    >>> [round(end, 2) for end in claim_interval(np.linspace(0.0, 2.0, 21), claims=3)]
    [0.61, 1.39]
    """
    n = len(values)
    if n < 2 or alike(values):
        return None
    mean, error, skew = _moments(values)
    quantile = _student((1.0 - level) / (2 * claims), max((n - 1) / HEAVY, 1.0))
    return _outer(mean, error, CAREFUL * skew / math.sqrt(n), quantile)


def claim_p(values: Floats) -> float:
    """Return the p-value of a mean of zero, two-sided: the least alpha whose `claim_interval` leaves zero out.

    It is found by halving, to a millionth of itself, and not below 1e-15. Where all numbers are alike nothing tells how
    they would vary: 1.

    Examples
    --------
    >>> claim_p(np.array([0.0, 0.0])), f"{claim_p(np.linspace(-1.0, 3.0, 21)):.5f}"
    (1.0, '0.00416')
    """
    found = claim_interval(values, level=0.0)
    if found is None or found[0] <= 0 <= found[1]:
        return 1.0
    low, high = math.log(1e-15), 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        ends = claim_interval(values, level=-math.expm1(middle))
        outside = ends is not None and not ends[0] <= 0 <= ends[1]
        low, high = (low, middle) if outside else (middle, high)
    return math.exp(high)


def ratio_interval(above: Floats, below: Floats, *, level: float = 0.95) -> tuple[str, tuple[float, float]] | None:
    """Return method and ends of the interval of sum(a) / sum(b) over n pairs of non-negative numbers.

    That of `mean_interval` for the numbers r + (a - r b) / mean(b), whose mean is the ratio r and whose spread is that
    of r to first order; but it reaches at least as far as Student's t with the larger of two standard errors that hold
    where a few pairs have most of sum(b). With r_i = a_i / b_i and shares w_i = b_i / sum(b) these are the root of
    sum (w_i (r_i - r) / (1 - w_i))^2, the jackknife's (CR3: MacKinnon, Nielsen and Webb 2023), and the standard
    deviation of the r_i times the root of sum w_i^2, of ratios that do not go with the size of b; pairs with less than
    a tenth of the mean b have no say there, since their ratios may be anything.

    Of 60 pairs of which one has half of sum(b), and ratios of a beta(2, 6), the first alone holds the truth in 75 % at
    a level of 95 %, the whole in 100 %; where b is log-normal, of sigma 1.2, in 87 and 98 % of 5 pairs, and in 94 and
    98 % of 60 (1,000 repeats each).

    Returns
    -------
    tuple or None
        None with fewer than two pairs, and where all have one ratio.

    Examples
    --------
    >>> low, high = ratio_interval(np.array([1.0, 2.0, 3.0, 5.0]), np.array([2.0, 4.0, 8.0, 9.0]))[1]
    >>> f"{low:.2f} to {high:.2f}"
    '0.04 to 0.71'
    """
    value, n = float(above.sum() / below.sum()), len(above)
    parts = above / below.mean()
    apart = parts - value * below / below.mean()
    # Where the ratio is the same in all pairs, what remains is rounding error and no spread.
    if np.abs(apart).max() <= ALIKE * np.abs(parts).max():
        return None
    found = mean_interval(value + apart, level=level, positive=True)
    if found is None:
        return None
    method, (low, high) = found
    share, some = below / below.sum(), below >= SLIGHT * below.mean()
    own = above[some] / below[some]
    # Without a pair that has all of b nothing is left.
    left = np.where(share < 1, 1 - share, np.inf)
    error = math.sqrt(float(((apart / n / left) ** 2).sum()))
    if len(own) > 1:
        error = max(error, float(own.std(ddof=1)) * math.sqrt(float((share**2).sum())))
    reach = _student((1.0 - level) / 2, n - 1) * error
    return method, (max(min(low, value - reach), 0.0), max(high, value + reach))


def alike(values: Floats) -> bool:
    """Tell whether all numbers are equal up to rounding.

    >>> alike(np.full(3, 0.1)), alike(np.array([0.1, 0.1 + 1e-16])), alike(np.array([1.0, 1.001]))
    (True, True, False)
    """
    return bool(np.ptp(values) <= ALIKE * np.abs(values).max())


@lru_cache(1024)
def _student(tail: float, freedom: float) -> float:
    from scipy.stats import t

    return float(t.isf(tail, freedom))


def _moments(values: Floats) -> tuple[float, float, float]:
    """Return mean, its standard error, and the skew, unbiased for normal numbers; from centred and scaled numbers."""
    n = len(values)
    # Scaled before it is summed, or squared: the largest doubles would leave the range, the smallest vanish.
    mean = float((values / n).sum()) if np.abs(values).max() > _LARGE else float(values.mean())
    scale = float(np.abs(values - mean).max())
    apart = (values - mean) / scale
    variance = float((apart**2).mean())
    error = scale * math.sqrt(variance / (n - 1))
    if n < 3:
        return mean, error, 0.0
    return mean, error, float((apart**3).mean()) / variance**1.5 * math.sqrt(n * (n - 1)) / (n - 2)


def _outer(mean: float, error: float, skew: float, quantile: float) -> tuple[float, float]:
    """Return the outer ends of Student's interval and of Hall's transformation; `skew` is skewness over sqrt(n)."""
    below, above = quantile, quantile
    # Beyond this point the transformation is no longer monotone; at it, the longer side is three times as long.
    skew = max(-1 / quantile, min(skew, 1 / quantile)) if quantile > 0 else skew
    if abs(skew) > 1e-9:
        turned = [3 / skew * (float(np.cbrt(1 + skew * (q - skew / 6))) - 1) for q in (quantile, -quantile)]
        # The upper quantile makes the lower end.
        below, above = max(below, turned[0]), max(above, -turned[1])
    return mean - below * error, mean + above * error
