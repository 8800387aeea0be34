"""Minimum detectable effects, and the units that an effect needs, before anything is measured.

An effect is shown where its two-sided interval at `level` excludes that there is none. Effects are shown with
probability `power`. Source: Cohen, Statistical Power Analysis for the Behavioral Sciences (1988), chapters 2 and 6.
"""

import math
from collections.abc import Callable

from audits.core.detectable import POWER

MOST_UNITS = 10**9
"""Beyond this many units nothing is looked for."""


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


def _shown(error: float, degrees: float, level: float, power: float) -> float:
    """Return the effect that a t test with this standard error shows with probability `power`."""
    from scipy import optimize, stats

    if error == 0:
        return 0.0
    if math.isinf(degrees):
        return float(error * (stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power)))
    critical = stats.t.ppf((1 + level) / 2, degrees)

    # The other tail is left out: an effect of this size is as good as never shown with the wrong sign.
    def over(shift: float) -> float:
        return float(stats.nct.sf(critical, degrees, shift)) - power

    high = critical + 10.0
    while over(high) < 0:
        high *= 2
    return float(optimize.brentq(over, 0.0, high) * error)


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
    wanted = stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power)
    room = rate if below else 1 - rate

    def over(step: float) -> float:
        other = rate - step if below else rate + step
        error = math.sqrt(_variance(rate, units[0]) + _variance(other, units[1]))
        return step - float(wanted) * error

    return float(optimize.brentq(over, 0.0, room)) if room > 0 and over(room) >= 0 else None


def _variance(rate: float, units: float) -> float:
    # Never below that of half an event: a rate of nought seen is none known.
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
    from scipy import optimize, stats

    tail = (1 - level) / 2
    # The least count whose lower bound is above: that of which a rate of `fixed` gives as many with `tail` at most.
    least = int(stats.binom.isf(tail, units, fixed)) + 1
    if least > units:
        return None
    return float(optimize.brentq(lambda rate: stats.binom.sf(least - 1, units, rate) - power, fixed, 1.0))


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
