"""From scores to numbers: areas, rates, the best threshold and what it costs to have looked for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from audits.context import Context, Draft
from audits.membership.pool import Pool
from audits.membership.scoring import Attack, Scored
from audits.membership.settings import Settings
from audits.records import Estimate
from audits.statistics import clopper_pearson
from audits.statistics.roc import DKW, Area, Call, Roc, area, area_interval, best_advantage, call, call_at, roc

HELD_OUT = "Newcombe, threshold from the other half"
GIVEN_THRESHOLD = "Clopper-Pearson, given the threshold that the false alarms set"
EXACT = "exact"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """One attack with what was counted: `curve` and `area` are of the points that it may be judged on.

    `flipped` tells whether the scores are higher for non-members beyond chance; `places` are those of its estimates by
    name, and for hits by name and rate, whose thresholds are `calls`.
    """

    attack: Attack
    curve: Roc
    area: Area
    flipped: bool = False
    places: dict[str, int] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)

    @property
    def constant(self) -> bool:
        """Tell whether all scores are equal: they carry no information, and nothing of them varies."""
        return len(self.curve.thresholds) == 2

    def told(self, row: Estimate) -> Estimate:
        """Return an estimate without its interval where all scores are equal: a spread would look like evidence."""
        return replace(row, low=None, high=None, method="none") if self.constant else row


def judged_of(attack: Attack, level: float) -> Judged:
    """Count an attack's hits and false alarms at every threshold."""
    scores, member = attack.scores[attack.judged], attack.member[attack.judged]
    found = area(scores, member)
    return Judged(attack=attack, curve=roc(scores, member), area=found, flipped=area_interval(found, level)[1] < 0.5)


def estimate(draft: Draft, scored: Scored, pool: Pool, settings: Settings, context: Context) -> list[Judged]:
    """Add the numbers of every attack to the draft."""
    found: list[Judged] = []
    for attack in scored.attacks:
        # Flipped with all attacks counted: of many, one would be the wrong way round by chance.
        one = judged_of(attack, 1 - (1 - context.level) / len(scored.attacks))
        found.append(one)
        _areas(draft, one, context)
        _unscored(draft, one)
        _best(draft, one, context)
        _held_out(draft, one, pool, context)
        _hits(draft, one, settings, context)
    return found


def points_of(one: Judged) -> dict[str, Any]:
    """Return the count that the numbers of an attack rest on."""
    return {"n": one.curve.members + one.curve.others, "unit": "points"}


def where_of(attack: Attack, **more: str | float) -> Mapping[str, str | float]:
    """Return the coordinates of an attack's estimates."""
    return {"attack": attack.name, **attack.where, **more}


def _areas(draft: Draft, one: Judged, context: Context) -> None:
    low, high, method = area_interval(one.area, context.level)
    where = where_of(one.attack, tier=one.attack.tier)
    value = one.area.value
    common: dict[str, Any] = {"name": "auc", "value": value, "where": where, "level": context.level, **points_of(one)}
    row = Estimate(**common, low=min(low, value), high=max(high, value), method=method)
    one.places["auc"] = draft.add(one.told(row))
    if one.constant:
        text = f"All scores of {one.attack.label} are equal: they tell nobody apart, and nothing of what leaks."
        draft.warn("constant-scores", f"{text} Its numbers are those of a coin, without intervals.", **where)
    if one.flipped:
        text = (
            f"Scores of {one.attack.label} are higher for non-members (AUC {value:.3f}): they are the wrong way round, "
            "or what the attack rests on does not hold here. They were not turned."
        )
        draft.warn("flipped", text, **where)


def _unscored(draft: Draft, one: Judged) -> None:
    usable = one.attack.usable
    if usable is not None and not usable.all():
        text = f"{int((~usable).sum()):,} of {len(usable):,} points have too few other models for {one.attack.label}."
        draft.warn("unscored", f"{text} They are left out of its numbers.", **where_of(one.attack))


def _best(draft: Draft, one: Judged, context: Context) -> None:
    value, low, high = best_advantage(one.curve, context.level)
    where = where_of(one.attack, tier=one.attack.tier)
    _both(draft, one, "", (value, low, high), f"{DKW}, over all thresholds", context, where, points_of(one))


def _held_out(draft: Draft, one: Judged, pool: Pool, context: Context) -> None:
    """Choose the threshold on one half, and look what it does on the other."""
    attack = one.attack
    chosen, rest = attack.half(pool.chooses)
    curve = roc(attack.scores[chosen], attack.member[chosen])
    # Youden's index, which is the advantage that is then told.
    gains = curve.hits / curve.members - curve.alarms / curve.others
    threshold = float(curve.thresholds[int(np.argmax(gains))])
    met = call(attack.scores[rest], attack.member[rest], threshold)
    where = where_of(attack, tier=attack.tier)
    count = {"n": met.members + met.others, "unit": "points"}
    _both(draft, one, "_held_out", advantage_of(met, context.level), HELD_OUT, context, where, count)


def advantage_of(met: Call, level: float) -> tuple[float, float, float]:
    """Return TPR - FPR of a threshold with the interval of Newcombe (1998, method 10).

    >>> value, low, high = advantage_of(Call(0.0, 9, 10, 3, 10), 0.95)
    >>> round(value, 2), round(low, 4), round(high, 4)
    (0.6, 0.1705, 0.809)
    """
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(
        met.hits, met.members, met.alarms, met.others, method="newcomb", compare="diff", alpha=1 - level
    )
    value = met.hits / met.members - met.alarms / met.others
    # Its roots of sums may pass the ends of the range by a rounding.
    return value, max(-1.0, min(float(low), value)), min(1.0, max(float(high), value))


def _both(
    draft: Draft,
    one: Judged,
    suffix: str,
    ends: tuple[float, float, float],
    method: str,
    context: Context,
    where: Mapping[str, str | float],
    count: Mapping[str, Any],
) -> None:
    """Add an advantage, TPR - FPR, and the balanced accuracy (1 + advantage) / 2."""
    scaled = {"advantage": ends, "balanced_accuracy": tuple((1 + end) / 2 for end in ends)}
    for name, (value, low, high) in scaled.items():
        common: dict[str, Any] = {"name": name + suffix, "level": context.level, "method": method, "where": where}
        place = draft.add(one.told(Estimate(**common, value=value, low=low, high=high, **count)))
        one.places[name + suffix] = place


def _hits(draft: Draft, one: Judged, settings: Settings, context: Context) -> None:
    """Add how many members are found at each rate of false alarms that the non-members can resolve."""
    others = one.curve.others
    coarse = [rate for rate in settings.fprs if rate * others < 1]
    for rate in settings.fprs:
        if rate in coarse:
            continue
        met = call_at(one.curve, rate)
        low, high = clopper_pearson(met.hits, met.members, level=context.level)
        where = where_of(one.attack, fpr=rate)
        value = met.hits / met.members
        common: dict[str, Any] = {
            "name": "tpr",
            "n": met.members,
            "unit": "members",
            "where": where,
            "method": GIVEN_THRESHOLD,
        }
        place = draft.add(one.told(Estimate(**common, value=value, low=low, high=high, level=context.level)))
        one.places[f"tpr {rate:g}"] = place
        one.calls[f"tpr {rate:g}"] = met
    if coarse:
        rates = ", ".join(f"{rate:g}" for rate in coarse)
        text = (
            f"{others:,} non-members, which {one.attack.label} is judged on, resolve rates of false alarms in steps of "
            f"{1 / others:.2g}: hits at {rates} are not told."
        )
        draft.warn("fpr-resolution", text, **where_of(one.attack, fpr=min(coarse)))
