"""ROC curves of membership scores: counts at every threshold, areas, their differences, and single thresholds.

Scores are higher for members; a point is called a member where its score reaches the threshold. Points with the same
score are never told apart: a threshold takes all of them or none.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

DELONG = "DeLong, logit scale, Student t"
NEWCOMBE = "or Newcombe where wider"
TIED = "Clopper-Pearson over disjoint pairs that tie"
FEW = 10
"""Misranked points of the smaller side, on average, below which an area's interval is widened."""
DISJOINT = "Clopper-Pearson over disjoint pairs"
DKW = "Dvoretzky-Kiefer-Wolfowitz bands"


@dataclass(frozen=True, slots=True)
class Roc:
    """Counts at every threshold that the scores have, from the strictest (nobody is called) to the mildest (all are).

    Parameters
    ----------
    thresholds
        Falling, shape (k + 1,); the first is infinite.
    hits, alarms
        Members and non-members whose score reaches each, shape (k + 1,).
    """

    thresholds: Floats
    hits: Integers
    alarms: Integers

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self.hits[-1])

    @property
    def others(self) -> int:
        """Number of non-members."""
        return int(self.alarms[-1])


@dataclass(frozen=True, slots=True)
class Area:
    """The area under an ROC curve, with the contribution of each point to its variance.

    Parameters
    ----------
    value
        P(member > non-member) + P(equal) / 2.
    of_members
        Share of non-members below each member, shape (members,).
    of_others
        Share of members above each non-member, shape (non-members,).
    """

    value: float
    of_members: Floats
    of_others: Floats

    def variance(self) -> float:
        """Return the variance of the area (DeLong, DeLong and Clarke-Pearson 1988)."""
        return _variance(self.of_members) + _variance(self.of_others)


@dataclass(frozen=True, slots=True)
class Call:
    """The result of one threshold: hits of members, false alarms of non-members."""

    threshold: float
    hits: int
    members: int
    alarms: int
    others: int


def roc(scores: Floats, member: Bools) -> Roc:
    """Count members and non-members at every threshold, with one sort.

    >>> found = roc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False]))
    >>> found.thresholds.tolist(), found.hits.tolist(), found.alarms.tolist()
    ([inf, 3.0, 2.0, 1.0], [0, 1, 2, 2], [0, 0, 1, 2])
    """
    order = np.argsort(-scores, kind="stable")
    ranked, kinds = scores[order], member[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    hits, alarms = np.cumsum(kinds)[last], np.cumsum(~kinds)[last]
    return Roc(
        np.concatenate(([np.inf], ranked[last])),
        np.concatenate(([0], hits)).astype(np.int64),
        np.concatenate(([0], alarms)).astype(np.int64),
    )


def area(scores: Floats, member: Bools) -> Area:
    """Return the area under the curve from ranks (Sun and Xu 2014): ties count half.

    >>> area(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False])).value
    0.875
    """
    from scipy.stats import rankdata

    inside, outside = scores[member], scores[~member]
    together = rankdata(np.concatenate((inside, outside)))
    m, n = len(inside), len(outside)
    of_members = (together[:m] - rankdata(inside)) / n
    of_others = 1 - (together[m:] - rankdata(outside)) / m
    return Area(float(of_members.mean()), of_members, of_others)


def area_interval(found: Area, level: float) -> tuple[float, float, str]:
    """Return low end, high end and method of an area's interval.

    On the logit scale it stays within 0 and 1. Student's quantile has the degrees of freedom of Satterthwaite, from
    both sides' variances. Where an area leaves fewer than ten points of the smaller side on the wrong side, these have
    too few ranks to tell their own variance, and the interval is widened to that of Newcombe (2006, "Confidence
    intervals for an effect size measure based on the Mann-Whitney statistic, part 2", method 5).

    Where all members lie above all non-members, or the other way round, the variance is zero; the pairs without a
    common point are then independent trials, of which all came out alike. Where all scores are equal, all such pairs
    are ties; an area is at least half, and lacks at most half, of how often pairs tie at the least.

    >>> low, high, method = area_interval(area(np.arange(8.0), np.arange(8) > 3), 0.95)
    >>> round(low, 3) == round(0.025 ** (1 / 4), 3), high, method
    (True, 1.0, 'Clopper-Pearson over disjoint pairs')
    """
    sizes = (len(found.of_members), len(found.of_others))
    variance = found.variance()
    if variance <= 0 or not 0 < found.value < 1:
        return ends_unvaried(found.value, min(sizes), level)
    low, high, wider = ends_varied(found.value, variance, _freedom(found), sizes, level)
    return low, high, f"{DELONG}, {NEWCOMBE}" if wider else DELONG


def ends_unvaried(value: float, pairs: int, level: float) -> tuple[float, float, str]:
    """Return the interval of an area of 0 or 1, or of equal scores, from its number of disjoint pairs of points."""
    from audits.statistics.binomial import clopper_pearson

    if not 0 < value < 1:
        return *clopper_pearson(round(value * pairs), pairs, level=level), DISJOINT
    tied = clopper_pearson(pairs, pairs, level=level)[0] / 2
    return tied, 1 - tied, TIED


def ends_varied(
    value: float, variance: float, freedom: float, sizes: tuple[float, float], level: float
) -> tuple[float, float, bool]:
    """Return Student's interval on the logit scale, and whether it was widened for points as few as `sizes`."""
    from scipy.special import expit, logit
    from scipy.stats import t

    # Delta method: the derivative of the logit at v is 1 / (v (1 - v)).
    wide = float(t.isf((1 - level) / 2, freedom)) * np.sqrt(variance) / (value * (1 - value))
    low, high = float(expit(logit(value) - wide)), float(expit(logit(value) + wide))
    if min(sizes) * min(value, 1 - value) >= FEW:
        return low, high, False
    wider = _newcombe(value, *sizes, level)
    return min(low, wider[0]), max(high, wider[1]), True


def _freedom(found: Area) -> float:
    """Return Satterthwaite's degrees of freedom of the sum of both sides' variances, never below 1."""
    sides = [part for part in (found.of_members, found.of_others) if len(part) > 1]
    below = sum(_variance(part) ** 2 / (len(part) - 1) for part in sides)
    return max(found.variance() ** 2 / below, 1.0) if below > 0 else 1.0


def _newcombe(value: float, members: float, others: float, level: float) -> tuple[float, float]:
    """Return the areas v at the critical distance from the observed one, by the variance at v (score interval).

    v (1 - v) (1 + N (1 - v) / (2 - v) + N v / (1 + v)) / (m n) with N = (m + n) / 2 - 1, that of exponential scores.
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    reach, half = float(norm.isf((1 - level) / 2)), (members + others) / 2 - 1

    def beyond(area: float) -> float:
        spread = area * (1 - area) * (1 + half * (1 - area) / (2 - area) + half * area / (1 + area))
        return float((value - area) ** 2 - reach**2 * spread / (members * others))

    return float(brentq(beyond, 0.0, value)), float(brentq(beyond, value, 1.0))


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference of two areas over the same points, its interval, and its two-sided p-value."""

    value: float
    low: float
    high: float
    p: float


def difference(first: Area, second: Area, level: float) -> Gap:
    """Return the difference of two areas (first less second) of two scores of the same points in the same order.

    Where neither varies (both separate perfectly, or have equal scores only), the ends are those of the two areas'
    own intervals at half the error each, from 0 to 1 where scores are equal.
    """
    from scipy.stats import norm

    value = first.value - second.value
    error = float(
        np.sqrt(_variance(first.of_members - second.of_members) + _variance(first.of_others - second.of_others))
    )
    if error > 0:
        wide = float(norm.isf((1 - level) / 2)) * error
        return Gap(value, max(-1.0, value - wide), min(1.0, value + wide), float(2 * norm.sf(abs(value) / error)))
    ends = [_wide_interval(one, (1 + level) / 2) for one in (first, second)]
    low, high = ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]
    # All of the independent pairs, two by two without a common point, came out for the first and against the second.
    pairs = min(len(first.of_members), len(first.of_others))
    p = min(1.0, 4 * 0.5**pairs) if abs(value) == 1 else 1.0
    return Gap(value, min(low, value), max(high, value), p)


def _wide_interval(found: Area, level: float) -> tuple[float, float]:
    """Return an area's interval, from 0 to 1 where all scores are equal."""
    low, high, method = area_interval(found, level)
    return (0.0, 1.0) if method == TIED else (low, high)


def best_advantage(found: Roc, level: float) -> tuple[float, float, float]:
    """Return the largest TPR - FPR over all thresholds, with an interval corrected for the search.

    The curve lies within sqrt(ln(4 / a) / 2n) of the true rates at all thresholds at once, for each side with half of
    a = 1 - level (Massart 1990); so does the maximum, whose own value is too high on average.

    >>> value, low, high = best_advantage(roc(np.arange(200.0), np.arange(200) >= 100), 0.95)
    >>> value, round(low, 3), high
    (1.0, 0.704, 1.0)
    """
    value = float(np.max(found.hits / found.members - found.alarms / found.others))
    room = sum(np.sqrt(np.log(4 / (1 - level)) / (2 * n)) for n in (found.members, found.others))
    return value, max(0.0, value - float(room)), min(1.0, value + float(room))


def call_at(found: Roc, rate: float) -> Call:
    """Return the threshold with the most hits at a false-alarm rate of at most `rate`, without interpolation.

    >>> call = call_at(roc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False])), 0.4)
    >>> call.hits, call.alarms
    (1, 0)
    """
    # The counts are compared, since a product of floats may fall just below a whole number.
    last = int(np.searchsorted(found.alarms, rate * found.others + 1e-9, side="right")) - 1
    return Call(
        float(found.thresholds[last]), int(found.hits[last]), found.members, int(found.alarms[last]), found.others
    )


def call(scores: Floats, member: Bools, threshold: float) -> Call:
    """Return the hits and false alarms of a given threshold."""
    reached = scores >= threshold
    m = int(member.sum())
    return Call(threshold, int((reached & member).sum()), m, int((reached & ~member).sum()), len(member) - m)


def _variance(parts: Floats) -> float:
    return float(parts.var(ddof=1)) / len(parts) if len(parts) > 1 else 0.0
