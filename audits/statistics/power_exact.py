"""Minimum detectable effects of rank tests and of exact tests of counts, before anything is measured.

As in `power`: an effect is shown where its interval excludes that there is none, and that with probability `power`.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from audits.core.detectable import POWER
from audits.statistics.power import MOST_UNITS, mean, rate_above, units_needed

MOST_COUNTED = 4_000
"""Units of a group beyond which counts are taken for normal: there the two differ by a hundredth."""

FEW, DRAWN = 60, 2000
"""Units up to which the power of an interval is found by drawing, and how often it is drawn."""


def area_above_half(units: tuple[int, int], level: float, power: float = POWER) -> float | None:
    """Return the least area under an ROC curve that is shown to be above a half; None: not even 1.

    The null is that of Mann and Whitney (1947), variance (m + n + 1) / (12 m n); the variance at the area itself that
    of Hanley and McNeil (1982), which holds where scores of the one side lie above those of the other as a whole.

    Parameters
    ----------
    units
        Members and non-members, or whatever the sides are.
    level
        Of a two-sided interval.

    Examples
    --------
    Of 300 on each side the area varies by 0.0236 by chance, and some 2.8 times that above a half is 0.566.

    >>> round(area_above_half((300, 300), 0.95), 3)
    0.566
    """
    from scipy import optimize, stats

    m, n = units
    critical = float(stats.norm.isf((1 - level) / 2)) * math.sqrt((m + n + 1) / (12 * m * n))
    reach = float(stats.norm.ppf(power))

    def over(area: float) -> float:
        return area - 0.5 - critical - reach * math.sqrt(_hanley_mcneil(area, m, n))

    return float(optimize.brentq(over, 0.5, 1.0)) if over(1.0) >= 0 else None


def _hanley_mcneil(area: float, m: int, n: int) -> float:
    """Return the variance of an area of m and n units (Hanley and McNeil 1982, equations 1 and 2)."""
    both_members, both_others = area / (2 - area), 2 * area**2 / (1 + area)
    inner = area * (1 - area) + (m - 1) * (both_members - area**2) + (n - 1) * (both_others - area**2)
    return max(inner, 0.0) / (m * n)


def rates_apart(middle: float, units: tuple[int, int], level: float, power: float = POWER) -> float | None:
    """Return the least difference of two rates whose exact (Clopper-Pearson) intervals do not meet; None: not even 1.

    That asks more than an interval of the difference does: two intervals at 0.95 that just do not meet differ by a
    test at about 0.994.

    Parameters
    ----------
    middle
        The mean of the two rates as far as both fit into [0, 1]; a half needs the largest difference.
    units
        Number of independent units of both.
    level
        Of each interval; where m rates are corrected for, 1 - (1 - level) / m.

    Examples
    --------
    >>> round(rates_apart(0.5, (100, 100), 0.95), 2)
    0.26
    """
    from scipy import optimize

    chance = _chance_apart(units, level)

    def over(step: float) -> float:
        low = min(max(middle - step / 2, 0.0), 1.0 - step)
        return chance(low, low + step) - power

    return float(optimize.brentq(over, 1e-9, 1.0, xtol=1e-5)) if over(1.0) >= 0 else None


def _chance_apart(units: tuple[int, int], level: float) -> Callable[[float, float], float]:
    """Return how probable it is, by both rates, that the interval of the second lies above that of the first."""
    from scipy import stats

    if max(units) > MOST_COUNTED:
        quantile = float(stats.norm.isf((1 - level) / 2))

        def normal(one: float, other: float) -> float:
            errors = [math.sqrt(rate * (1 - rate) / count) for rate, count in zip((one, other), units, strict=True)]
            return float(stats.norm.cdf((other - one - quantile * sum(errors)) / max(math.hypot(*errors), 1e-12)))

        return normal
    tail, counts = (1 - level) / 2, [np.arange(count + 1) for count in units]
    ends = np.where(counts[0] < units[0], stats.beta.isf(tail, counts[0] + 1, units[0] - counts[0]), 1.0)
    starts = np.where(counts[1] > 0, stats.beta.ppf(tail, counts[1], units[1] - counts[1] + 1), 0.0)
    # The least count of the second whose interval begins above where that of the first ends.
    least = np.searchsorted(starts, ends, side="right")
    return lambda one, other: float(
        stats.binom.pmf(counts[0], units[0], one) @ stats.binom.sf(least - 1, units[1], other)
    )


def paired_rates(units: int, discordant: float, level: float, power: float = POWER) -> float | None:
    """Return the least difference of two rates over the same units that McNemar's exact test shows; None: no such one.

    Only units on which the two differ count, and of those a half would favour each.

    Parameters
    ----------
    discordant
        Share of the units on which the two differ.

    Examples
    --------
    Of 20 that differ, 4 in 5 must favour the one: 0.8 less 0.2 of these 20, over 100 units.

    >>> round(paired_rates(100, 0.2, 0.95), 2)
    0.12
    """
    differ = round(discordant * units)
    least = rate_above(0.5, differ, level, power) if differ else None
    return None if least is None else (2 * least - 1) * differ / units


def grown(units: tuple[int, int], count: int) -> tuple[int, int]:
    """Return units of two groups that grew alike, so that the smaller has so many.

    >>> grown((10, 40), 25)
    (25, 100)
    """
    least = min(units)
    return math.ceil(units[0] * count / least), math.ceil(units[1] * count / least)


def both_needed(
    detectable: Callable[[tuple[int, int]], float | None], units: tuple[int, int], effect: float
) -> tuple[int, int] | None:
    """Return the least units of two groups, which grow alike, with which an effect of this size is detectable.

    Examples
    --------
    >>> both_needed(lambda units: area_above_half(units, 0.95), (300, 300), 0.6)
    (130, 130)
    """
    count = units_needed(lambda least: detectable(grown(units, least)), effect, MOST_UNITS)
    return None if count is None else grown(units, count)


def rank_deviation(units: int, level: float, power: float = POWER) -> float | None:
    """Return the least deviation of ranks from uniform that Kolmogorov's test shows; None: none, with so few.

    It is that of a law whose distribution function is off by a tent with its tip at a half, which is the hardest to
    see: a Brownian bridge with so much added is at x there, x normal with variance 1/4, and on either side passes c < x
    surely, else with probability exp(-4 c (c - x)). Deviations of another shape pass c at more places. The critical
    value is exact, brought to that of the limit as Stephens (1970, J. R. Stat. Soc. B 32) does.

    Parameters
    ----------
    units
        Number of ranks, independent of each other.

    Examples
    --------
    >>> round(rank_deviation(100, 0.95), 2), round(rank_deviation(10_000, 0.95), 3)
    (0.15, 0.015)
    """
    from scipy import optimize, stats

    root = math.sqrt(units)
    critical = float(stats.kstwo.isf(1 - level, units)) * (root + 0.12 + 0.11 / root)

    # Midpoints of as many equal parts of the law of x: a mean over them is an integral.
    middles = stats.norm.ppf((np.arange(2000) + 0.5) / 2000) / 2

    def over(deviation: float) -> float:
        short = np.maximum(critical - deviation * root - middles, 0.0)
        return float(np.mean(1 - (1 - np.exp(-4 * critical * short)) ** 2)) - power

    return float(optimize.brentq(over, 0.0, 0.5)) if over(0.5) >= 0 else None


def shortfall(fixed: float, units: int, level: float, power: float = POWER, calibration: int = 0) -> float | None:
    """Return how far a rate must lie below a fixed one to be shown by the exact two-sided test; None: nothing does.

    Parameters
    ----------
    calibration
        Rows on which a threshold was set so that the rate would be the fixed one: the rate then has itself a beta law,
        and the count a beta-binomial one (Vovk 2012).

    Examples
    --------
    >>> round(shortfall(0.9, 200, 0.95), 3)
    0.07
    """
    from scipy import optimize, stats

    def law(rate: float) -> Any:
        kept = rate * (calibration + 1)
        return stats.betabinom(units, kept, calibration + 1 - kept) if calibration else stats.binom(units, rate)

    if calibration:
        # All counts at once: each by itself would add up those below it again.
        most = int(np.searchsorted(np.cumsum(law(fixed).pmf(np.arange(units + 1))), (1 - level) / 2, side="right")) - 1
    else:
        most = int(law(fixed).ppf((1 - level) / 2))
        most -= law(fixed).cdf(most) > (1 - level) / 2
    if most < 0:
        return None

    def over(rate: float) -> float:
        own = law(rate)
        return float(own.pmf(np.arange(most + 1)).sum() if calibration else own.cdf(most)) - power

    least = 1e-9
    return fixed - float(optimize.brentq(over, least, fixed)) if over(least) >= 0 else None


@cache
def skew_mean(units: int, level: float, power: float = POWER) -> float | None:
    """Return the least mean, in standard deviations of a unit, that `mean_interval` shows to differ from zero.

    That interval is wider than Student's where numbers are skewed, and few normal ones look so by chance: for up to
    `FEW` the mean is found by drawing. A shift of all numbers moves the ends alike, so that each draw tells which mean
    would just have been shown.

    Examples
    --------
    >>> round(skew_mean(100, 0.95), 2), skew_mean(5, 0.95) > 1.7
    (0.28, True)
    """
    from audits.statistics.mean_intervals import mean_interval

    if units < 2 or units > FEW:
        return mean(1.0, units, level, power)
    rng, least = np.random.default_rng(0), []
    for _ in range(DRAWN):
        found = mean_interval(rng.normal(size=units), level=level)
        least.append(math.inf if found is None else -found[1][0])
    shown = float(np.quantile(least, power))
    return shown if math.isfinite(shown) else None
