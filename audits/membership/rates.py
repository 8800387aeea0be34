"""Rates of an attack: hits and false alarms at every threshold, its area, and the advantage of a threshold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from audits.core.intervals import Interval
from audits.membership.pool import Bools
from audits.membership.scoring import Attack
from audits.statistics import clopper_pearson
from audits.statistics.roc import DKW, Area, Call, Roc, area, area_interval, best_advantage, call, call_at, roc

HELD_OUT = "Newcombe, threshold from the other half"
GIVEN_THRESHOLD = "Clopper-Pearson, given the threshold that the false alarms set"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """One attack with its counts: `curve` and `area` are of the points that it may be judged on.

    Parameters
    ----------
    flipped
        Whether the scores are higher for non-members beyond chance.
    calls
        The thresholds of the rates of false alarms that are told and that the non-members can resolve.
    """

    attack: Attack
    curve: Roc
    area: Area
    flipped: bool = False
    calls: Mapping[float, Call] = field(default_factory=dict)

    @property
    def constant(self) -> bool:
        """Whether all scores are equal: they carry no information, and nothing of them varies."""
        return len(self.curve.thresholds) == 2

    @property
    def where(self) -> dict[str, str]:
        """The keys of its estimates: the attack, and the model where there are several."""
        return {"attack": self.attack.name, **self.attack.where}

    @property
    def points(self) -> int:
        """The number of points that the attack is judged on."""
        return self.curve.members + self.curve.others

    def unless_constant(self, found: Interval) -> Interval:
        """Return an interval, without limits where all scores are equal: a spread would look like evidence."""
        return replace(found, low=None, high=None, method="none") if self.constant else found


def judged_of(attack: Attack, level: float, fprs: Sequence[float] = ()) -> Judged:
    """Count an attack's hits and false alarms at every threshold, and at rates of false alarms."""
    scores, member = attack.scores[attack.judged], attack.member[attack.judged]
    found, curve = area(scores, member), roc(scores, member)
    calls = {rate: call_at(curve, rate) for rate in fprs if rate * curve.others >= 1}
    flipped = area_interval(found, level)[1] < 0.5
    return Judged(attack=attack, curve=curve, area=found, flipped=flipped, calls=calls)


def judge_all(attacks: Sequence[Attack], level: float, fprs: Sequence[float]) -> tuple[Judged, ...]:
    """Count all attacks; whether one is flipped is corrected for their number."""
    return tuple(judged_of(one, 1 - (1 - level) / len(attacks), fprs) for one in attacks)


def of_area(found: Area, level: float) -> Interval:
    """Return an area with its interval, widened to hold it."""
    low, high, method = area_interval(found, level)
    count, value = len(found.of_members) + len(found.of_others), found.value
    return Interval(value=value, low=min(low, value), high=max(high, value), method=method, n=count, unit="points")


def best_threshold(one: Judged, level: float) -> Interval:
    """Return the largest advantage, TPR - FPR, over all thresholds."""
    value, low, high = best_advantage(one.curve, level)
    return Interval(value=value, low=low, high=high, method=f"{DKW}, over all thresholds", n=one.points, unit="points")


def held_out(one: Judged, chooses: Bools, level: float) -> Interval:
    """Return the advantage, on one half, of the threshold that is best on the other."""
    attack = one.attack
    chosen, rest = attack.half(chooses)
    curve = roc(attack.scores[chosen], attack.member[chosen])
    # Youden's index is the advantage that is reported.
    gains = curve.hits / curve.members - curve.alarms / curve.others
    threshold = float(curve.thresholds[int(np.argmax(gains))])
    return advantage_of(call(attack.scores[rest], attack.member[rest], threshold), level)


def advantage_of(made: Call, level: float) -> Interval:
    """Return TPR - FPR of a threshold with the interval of Newcombe (1998, method 10).

    >>> found = advantage_of(Call(0.0, 9, 10, 3, 10), 0.95)
    >>> round(found.value, 2), round(found.low, 4), round(found.high, 4)
    (0.6, 0.1705, 0.809)
    """
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(
        made.hits, made.members, made.alarms, made.others, method="newcomb", compare="diff", alpha=1 - level
    )
    value = made.hits / made.members - made.alarms / made.others
    # Its roots of sums may pass the ends of the range by a rounding.
    low, high = max(-1.0, min(float(low), value)), min(1.0, max(float(high), value))
    return Interval(value=value, low=low, high=high, method=HELD_OUT, n=made.members + made.others, unit="points")


def balanced(advantage: Interval) -> Interval:
    """Return the balanced accuracy, (1 + advantage) / 2."""
    assert advantage.low is not None and advantage.high is not None
    value, low, high = ((1 + end) / 2 for end in (advantage.value, advantage.low, advantage.high))
    return replace(advantage, value=value, low=low, high=high)


def hit_rate(made: Call, level: float) -> Interval:
    """Return the share of members that a threshold finds."""
    low, high = clopper_pearson(made.hits, made.members, level=level)
    value = made.hits / made.members
    return Interval(value=value, low=low, high=high, method=GIVEN_THRESHOLD, n=made.members, unit="members")
