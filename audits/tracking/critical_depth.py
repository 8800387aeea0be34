"""How deep a system follows, from right answers by depth: no shape of the curve is assumed.

With p(n) the accuracy at depth n, the critical depth is the last one before the first n with p(n) < level. Intervals
[L(n), U(n)] that hold together over all depths give it an interval: where all of them cover, it lies between the last
depth before the first L(n) < level and the last before the first U(n) < level. With gaps between the depths the answer
is about the depths that were asked.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import chi2

from audits.core.intervals import Interval, Undefined
from audits.statistics import clopper_pearson

Hits = Mapping[int, tuple[int, int]]
"""Right answers, and all, by depth."""
Limit = Callable[[int], float]

METHOD = "first failure, simultaneous Clopper-Pearson over depths"
HALF_METHOD = "logistic curve above chance, profile likelihood"
BRACKET = "last depth that passes and first that fails"


def least_items(level_accuracy: float, depths: int, level: float) -> int:
    """Return the items a depth needs so that a system without a fault is seen to reach the level.

    n perfect answers have the lower limit (alpha / 2m)^(1/n), which must reach the level: n >= ln(alpha / 2m) / ln(a).

    >>> least_items(0.9, 17, 0.95), least_items(0.9, 9, 0.95)
    (62, 56)
    """
    if level_accuracy >= 1 or depths < 1:
        return 0
    return math.ceil(math.log((1 - level) / (2 * depths)) / math.log(level_accuracy))


def critical_depth(hits: Hits, level_accuracy: float, level: float) -> Interval:
    """Return the largest depth before the first at which accuracy is below a level; -1 if that is the least asked.

    Examples
    --------
    >>> found = critical_depth({0: (64, 64), 1: (64, 64), 2: (16, 64)}, 0.9, 0.95)
    >>> found.value, found.low, found.high
    (1.0, 1.0, 1.0)
    """
    return _followed(hits, lambda share, depth: share >= level_accuracy, level)


def depth_above_chance(hits: Hits, chance: Mapping[int, float], level: float) -> Interval:
    """Return the largest depth up to which accuracy lies above chance at every depth."""
    return _followed(hits, lambda share, depth: share > chance[depth], level)


def limits_of(hits: Hits, level: float) -> dict[int, tuple[float, float]]:
    """Return intervals of the accuracy at each depth that hold together, by Bonferroni."""
    together = 1 - (1 - level) / max(len(hits), 1)
    return {depth: clopper_pearson(right, count, level=together) for depth, (right, count) in sorted(hits.items())}


def _followed(hits: Hits, passes: Callable[[float, int], bool], level: float) -> Interval:
    depths, limits = sorted(hits), limits_of(hits, level)

    def last(share: Callable[[int], float]) -> float:
        # Nothing is known of depths below the least that was asked: to fail there is to follow none.
        before = -1
        for depth in depths:
            if not passes(share(depth), depth):
                break
            before = depth
        return float(before)

    return Interval(
        value=last(lambda depth: hits[depth][0] / hits[depth][1]),
        low=last(lambda depth: limits[depth][0]),
        high=last(lambda depth: limits[depth][1]),
        method=METHOD,
        n=sum(count for _, count in hits.values()),
        unit="items",
        level=level,
    )


def half_depth(hits: Hits, chance: float, level: float) -> Interval | Undefined:
    """Return the depth at which accuracy is half-way between 1 and chance.

    The curve is chance + (1 - chance) / (1 + exp((n - half) / slope)); chance is not fitted. Where answers jump from
    nearly all right to chance, no slope fits: then the half lies between the last depth that passes and the first
    that fails.
    """
    depths = np.array(sorted(hits), dtype=np.float64)
    right, count = (np.array([hits[int(depth)][part] for depth in depths], dtype=np.float64) for part in (0, 1))
    if len(depths) < 2:
        return Undefined("Answers at one depth alone show no curve.", "one-depth")
    middle = (1 + chance) / 2
    passes = right / count >= middle
    if passes.all() or not passes.any():
        where = "above" if passes.all() else "below"
        return Undefined(f"Accuracy is {where} half-way between 1 and chance at every depth that was asked.", "no-half")
    first = int(np.argmin(passes))
    if not passes[0]:
        return Undefined("Accuracy is below half-way between 1 and chance at the least depth already.", "no-half")
    fitted = _fit(depths, right, count, chance)
    n = int(count.sum())
    if fitted is None or fitted[1] < np.diff(depths).min() / 2:
        low, high = float(depths[first - 1]), float(depths[first])
        return Interval(value=(low + high) / 2, low=low, high=high, method=BRACKET, n=n, unit="items", level=level)
    best, _, least = fitted
    ends = _profile(depths, right, count, chance, (best, least), level)
    if not depths[0] <= best <= depths[-1] or ends is None:
        return Undefined("Accuracy does not fall clearly enough to tell where it is half-way to chance.", "no-half")
    return Interval(value=best, low=ends[0], high=ends[1], method=HALF_METHOD, n=n, unit="items", level=level)


Numbers = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _loss(half: float, slope: float, depths: Numbers, right: Numbers, count: Numbers, chance: float) -> float:
    share = np.clip(chance + (1 - chance) * expit((half - depths) / slope), 1e-12, 1 - 1e-12)
    return float(-(right * np.log(share) + (count - right) * np.log1p(-share)).sum())


def _fit(depths: Numbers, right: Numbers, count: Numbers, chance: float) -> tuple[float, float, float] | None:
    """Return half, slope and the least loss; None where no curve was found."""
    spread = float(depths[-1] - depths[0])
    starts = [(depths[0] + part * spread, math.log(spread / 8)) for part in (0.25, 0.5, 0.75)]
    found = [
        minimize(
            lambda at: _loss(at[0], math.exp(min(at[1], 20.0)), depths, right, count, chance),
            start,
            method="Nelder-Mead",
        )
        for start in starts
    ]
    best = min(found, key=lambda each: float(each.fun))
    half, slope = float(best.x[0]), math.exp(min(float(best.x[1]), 20.0))
    return (half, slope, float(best.fun)) if math.isfinite(half) else None


def _profile(
    depths: Numbers, right: Numbers, count: Numbers, chance: float, best: tuple[float, float], level: float
) -> tuple[float, float] | None:
    """Return where twice the loss, least over slopes, lies a quantile of chi-square above its least value.

    None where it does not within the range of the depths to both sides: the interval has no end that was asked.
    """
    half, least = best
    limit = least + float(chi2.ppf(level, 1)) / 2
    slopes = np.geomspace(0.05, 4 * max(float(depths[-1] - depths[0]), 1.0), 80)

    def excess(at: float) -> float:
        return min(_loss(at, float(slope), depths, right, count, chance) for slope in slopes) - limit

    spread = float(depths[-1] - depths[0])
    if excess(half) > 0 or excess(half - spread) <= 0 or excess(half + spread) <= 0:
        return None
    low, high = (float(brentq(excess, half, half + step, xtol=1e-3)) for step in (-spread, spread))
    return low, high
