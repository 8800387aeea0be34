"""Minimum detectable effects, and the units that an effect needs, before anything is measured.

An effect is shown where its two-sided interval at `level` excludes that there is none. Effects are shown with
probability `power`. Source: Cohen, Statistical Power Analysis for the Behavioral Sciences (1988), chapters 2 and 6.
"""

import math
from collections.abc import Callable

import numpy as np

from audits.core.detectable import POWER
from audits.core.numbers import counted

MOST_UNITS = 10**9
"""Beyond this many units nothing is looked for."""
_NORMAL = 1e6
"""Degrees of freedom from which on Student's t is the normal distribution."""
STEPS = 321
"""Places from -8 to 8 standard deviations at which a sum stands for an integral."""


def mean_difference(spread: float, units: tuple[int, int], level: float, power: float = POWER) -> float | None:
    """Return the least difference of two means that Welch's interval shows; None with fewer than two units in one.

    Parameters
    ----------
    spread
        Standard deviation of a unit's value within a group, the same in both.
    units
        Number of units of both groups.
    level
        Of the interval; where m comparisons are corrected for, 1 - (1 - level) / m.

    Examples
    --------
    Cohen's table 2.4.1: at 0.05 and with power 0.8, 64 a group show a difference of half a standard deviation.

    >>> round(mean_difference(1.0, (64, 64), 0.95), 2)
    0.5
    """
    if min(units) < 2:
        return None
    one, two = (spread**2 / count for count in units)
    # With equal spread this is what Welch's degrees of freedom come to on average.
    degrees = (one + two) ** 2 / (one**2 / (units[0] - 1) + two**2 / (units[1] - 1)) if spread else math.inf
    return _shown(math.sqrt(one + two), degrees, level, power)


def mean(spread: float, units: int, level: float, power: float = POWER) -> float | None:
    """Return the least distance of a mean from a fixed value that Student's interval shows; None with one unit.

    Examples
    --------
    >>> round(mean(1.0, 34, 0.95), 2)
    0.5
    """
    return None if units < 2 else _shown(spread / math.sqrt(units), units - 1, level, power)


def _shown(error: float, degrees: float, level: float, power: float) -> float | None:
    """Return the effect that a t test with this standard error shows with probability `power`; None: no finite one."""
    from scipy import stats

    if error == 0:
        return 0.0
    found = error * shift_shown(float(stats.t.isf((1 - level) / 2, degrees)), degrees, power)
    return found if math.isfinite(found) else None


def rate_difference(
    rate: float, units: tuple[float, float], level: float, power: float = POWER, *, below: bool = False
) -> float | None:
    """Return the least difference between a rate and another that an interval on both shows (normal approximation).

    Parameters
    ----------
    rate
        The rate of the first group, in [0, 1]; the other's is above it, or `below`.
    units
        Number of independent units of both; where units come in clusters, over the design effect.

    Examples
    --------
    >>> round(rate_difference(0.5, (385, 385), 0.95), 2)
    0.1
    """
    from scipy import optimize, stats

    if min(units) < 2:
        return None
    wanted = stats.norm.isf((1 - level) / 2) + stats.norm.ppf(power)
    room = rate if below else 1 - rate

    def over(step: float) -> float:
        other = rate - step if below else rate + step
        error = math.sqrt(_variance(rate, units[0]) + _variance(other, units[1]))
        return step - float(wanted) * error

    return float(optimize.brentq(over, 0.0, room)) if room > 0 and over(room) >= 0 else None


def _variance(rate: float, units: float) -> float:
    # Never below that of half an event: a rate of zero seen is none known.
    least = 0.5 / (units + 1)
    held = min(max(rate, least), 1 - least)
    return held * (1 - held) / units


def rate_above(fixed: float, units: int, level: float, power: float = POWER) -> float | None:
    """Return the least rate whose exact (Clopper-Pearson) interval lies above a fixed one; None: not even 1.

    Examples
    --------
    Of 20 throws 15 heads are needed (by chance P = 0.021), which a coin of 0.8 gives four times in five.

    >>> round(rate_above(0.5, 20, 0.95), 2)
    0.8
    """
    from scipy import stats

    tail = (1 - level) / 2
    # The least count whose lower bound is above: that of which a rate of `fixed` gives as many with `tail` at most.
    least = int(stats.binom.isf(tail, units, fixed)) + 1
    return None if least > units else rate_reaching(least, units, power)


def units_needed(detectable: Callable[[int], float | None], effect: float, most: int = MOST_UNITS) -> int | None:
    """Return the least number of units with which an effect of this size is detectable; None: none up to `most`.

    Parameters
    ----------
    detectable
        The minimum detectable effect with so many units, which falls with them.

    Examples
    --------
    >>> units_needed(lambda count: mean_difference(1.0, (count, count), 0.95), 0.5)
    64
    """

    def shows(count: int) -> bool:
        found = detectable(count)
        return found is not None and found <= effect

    high = 2
    while not shows(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high


def needed_units(
    detectable: Callable[[int], float | None], unit: str, most: int = MOST_UNITS
) -> Callable[[float], str | None]:
    """Return the `needed` of a `Detectable`, which says in words what `units_needed` returns.

    >>> needed_units(lambda count: mean_difference(1.0, (count, count), 0.95), "clips a side")(0.5)
    '64 clips a side'
    """

    def needed(effect: float) -> str | None:
        count = units_needed(detectable, effect, most)
        return None if count is None else counted(count, unit)

    return needed


def shift_shown(critical: float, degrees: float, power: float = POWER) -> float:
    """Return the effect, in standard errors, whose t statistic exceeds a critical value with probability `power`.

    Examples
    --------
    >>> round(shift_shown(1.96, math.inf), 2), round(shift_shown(2.26, 9), 2)
    (2.8, 3.15)
    """
    from scipy import optimize, special, stats

    if degrees > _NORMAL or not math.isfinite(critical):
        return critical + float(stats.norm.ppf(power))
    # T exceeds c where a normal variable about the effect exceeds c S, over whose law it is averaged: scipy's own tail
    # of T is NaN, with a warning, where c is large and degrees are few.
    points = np.linspace(-8.0, 8.0, STEPS)
    weights = stats.norm.pdf(points) / stats.norm.pdf(points).sum()
    squares = np.where(
        points < 0, stats.chi2.ppf(special.ndtr(points), degrees), stats.chi2.isf(special.ndtr(-points), degrees)
    )
    reached = critical * np.sqrt(squares / degrees)

    # The other tail is left out: an effect of this size is as good as never shown with the wrong sign.
    def over(shift: float) -> float:
        return float(weights @ special.ndtr(shift - reached)) - power

    return float(optimize.brentq(over, float(reached[0]) - 10.0, float(reached[-1]) + 10.0))


def rate_reaching(count: int, units: int, power: float = POWER) -> float:
    """Return the rate at which at least `count` of so many units come with probability `power`.

    Examples
    --------
    >>> round(rate_reaching(1, 2), 3), round(rate_reaching(2, 2), 3)
    (0.553, 0.894)
    """
    from scipy import stats

    # P(X >= k | p) = P(B <= p) with B beta(k, n - k + 1).
    return float(stats.beta.ppf(power, count, units - count + 1)) if count > 0 else 0.0


def area_above(fixed: float, units: tuple[int, int], level: float, power: float = POWER) -> float | None:
    """Return the least area under a ROC curve whose interval lies above a fixed one; None: none, or too few rows.

    Scores are taken as normal with one spread on both sides, and intervals as on the scale of the log odds.

    Parameters
    ----------
    units
        Independent positive and negative rows.

    Examples
    --------
    >>> round(area_above(0.5, (50, 50), 0.95), 3)
    0.665
    """
    from scipy import optimize, stats

    if min(units) < 2:
        return None
    degrees = sum(units) - 2
    shift = shift_shown(float(stats.t.isf((1 - level) / 2, degrees)), degrees, power)

    def over(area: float) -> float:
        return _odds(area) - _odds(fixed) - shift * area_error(area, units) / (area * (1 - area))

    # Near 1 the log odds of few rows are unsure again, so that what is shown may lie between.
    odds = _odds(fixed)
    steps = [fixed, *(1 / (1 + math.exp(-odds - step / 10)) for step in range(1, 100))]
    first = next((index for index, area in enumerate(steps) if over(area) > 0), 0)
    return float(optimize.brentq(over, steps[first - 1], steps[first])) if first else None


def area_error(area: float, units: tuple[int, int]) -> float:
    """Return the standard error of an area of so many positive and negative rows with normal scores of one spread.

    With Q the chance that a row of one side beats two of the other, the variance is (A (1 - A) + (m - 1 + n - 1)
    (Q - A^2)) / (m n) (Hanley and McNeil 1982, "The meaning and use of the area under a ROC curve", equation 1).

    Examples
    --------
    >>> round(area_error(0.5, (50, 50)), 4), round((101 / 12 / 50**2) ** 0.5, 4)
    (0.058, 0.058)
    """
    from scipy import special

    # Both wins share one row, and so have a correlation of one half.
    z = special.ndtri(area)
    both = area - 2 * special.owens_t(z, math.sqrt(1 / 3))
    first, second = units
    variance = (area * (1 - area) + (first + second - 2) * (both - area**2)) / (first * second)
    return math.sqrt(max(float(variance), 0.0))


def _odds(share: float) -> float:
    return math.log(share / (1 - share))
