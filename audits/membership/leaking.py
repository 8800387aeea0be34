"""How much can be told by somebody with a given access, whichever attack is best, and does one model leak more?

The best of several attacks is chosen on one half of the points and judged on the other: its area is no maximum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audits.context import Context, Draft
from audits.membership.estimating import Judged
from audits.membership.pool import Pool
from audits.records import Estimate
from audits.statistics import adjust
from audits.statistics.roc import Area, area, area_interval, difference

ACCESS: Mapping[str, tuple[str, ...]] = {
    "samples": ("samples",),
    "weights": ("samples", "generator", "denoiser"),
    "full": ("samples", "generator", "denoiser", "full"),
}
"""What an attacker holds, and the tiers of the attacks that this allows."""
NEWEST = {"samples": ("samples",), "weights": ("generator", "denoiser"), "full": ("full",)}
"""The tiers that each access adds to the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leak:
    """The best attack of one model with one access.

    Parameters
    ----------
    area
        On the points that had no say in the choice; the same points for all models.
    p
        Of no leak at all, one-sided, adjusted over all cells by Holm.
    place
        Of its estimate.
    """

    model: str
    access: str
    judged: Judged
    area: Area
    p: float
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of two models' leaks with one access; `p` is adjusted over all differences."""

    first: Leak
    second: Leak
    p: float
    place: int


def leaks_of(draft: Draft, found: Sequence[Judged], pool: Pool, models: Sequence[str], context: Context) -> list[Leak]:
    """Add the leak of each model with each access that its release, or another of the suite, allows."""
    cells: list[tuple[str, str, Judged, Area]] = []
    tiers = {one.attack.tier for one in found}
    known = [access for access, own in NEWEST.items() if tiers & set(own)]
    for model in models:
        own = [one for one in found if one.attack.where.get("model", "") == model]
        seen: set[tuple[str, ...]] = set()
        for access in known:
            held = [one for one in own if one.attack.tier in ACCESS[access]]
            # Access that adds nothing is another name for the same numbers, unless models are compared by it.
            names = tuple(one.attack.name for one in held)
            # A diffusion model's weights are all there is of it.
            gains = {one.attack.tier for one in own} & {*NEWEST[access], *(["denoiser"] if access == "full" else [])}
            if gains and (len(models) > 1 or names not in seen):
                cells.append((model, access, *_best(held, pool, alone=len(models) == 1)))
                seen.add(names)
    # By ranks, whose variance is known where nothing is told apart: DeLong's is estimated from the scores.
    raw = [_p_null(cell[3]) for cell in cells]
    made = []
    for (model, access, best, met), p in zip(cells, adjust(raw, "holm"), strict=True):
        place = _add(draft, model, access, best, met, context)
        made.append(Leak(model=model, access=access, judged=best, area=met, p=p, place=place))
    return made


def _best(held: Sequence[Judged], pool: Pool, *, alone: bool) -> tuple[Judged, Area]:
    """Choose an attack on the choosing half, and judge it on the other.

    Where there is no choice and no other model to compare with, it is judged on all its points.
    """
    # Equal scores are no attack where there is another.
    held = [one for one in held if not one.constant] or held
    if len(held) == 1 and alone:
        return held[0], held[0].area
    merits = []
    for one in held:
        half, _ = one.attack.half(pool.chooses)
        merits.append(area(one.attack.scores[half], pool.member[half]).value)
    # Of equal ones the first, in the order of the tiers: less access is enough for it.
    best = held[int(np.argmax(merits))]
    _, rest = best.attack.half(pool.chooses)
    return best, area(best.attack.scores[rest], pool.member[rest])


def _p_null(met: Area) -> float:
    """Return how probable so large an area is by chance alone: Mann and Whitney (1947), normal."""
    from scipy.stats import norm

    m, n = len(met.of_members), len(met.of_others)
    return float(norm.sf((met.value - 0.5) / np.sqrt((m + n + 1) / (12 * m * n))))


def _add(draft: Draft, model: str, access: str, best: Judged, met: Area, context: Context) -> int:
    low, high, method = area_interval(met, context.level)
    chosen = best.area is not met
    where = {"access": access, "attack": best.attack.name} | ({"model": model} if model else {})
    ends: dict[str, Any] = {"low": min(low, met.value), "high": max(high, met.value)}
    ends["method"] = f"AUC, {method}" + (", attack chosen on the other half" if chosen else "")
    if tells_nothing(met):
        ends = {"method": "none"}
        if not best.constant:
            text = f"All scores of {best.attack.label} that judge it are equal: they tell nothing of what leaks."
            draft.warn("constant-scores", text, **where)
    common: dict[str, Any] = {"level": context.level, "n": len(met.of_members) + len(met.of_others), "unit": "points"}
    return draft.add(Estimate(name="leakage", value=met.value, **ends, **common, where=where))


def tells_nothing(met: Area) -> bool:
    """Tell whether all scores are equal: an area of a half that nothing varies."""
    return met.value == 0.5 and met.variance() == 0


def gaps_of(draft: Draft, leaks: Sequence[Leak], context: Context) -> list[Difference]:
    """Add the differences of all pairs of models within each access, on the same points."""
    pairs = [
        (one, other)
        for place, one in enumerate(leaks)
        for other in leaks[place + 1 :]
        if one.access == other.access and one.model != other.model
    ]
    gaps = [difference(one.area, other.area, context.level) for one, other in pairs]
    made = []
    for (one, other), gap, p in zip(pairs, gaps, adjust([gap.p for gap in gaps], "holm"), strict=True):
        place = draft.add(
            Estimate(
                name="leakage_difference",
                value=gap.value,
                low=gap.low,
                high=gap.high,
                level=context.level,
                method="paired DeLong on the same points",
                n=len(one.area.of_members) + len(one.area.of_others),
                unit="points",
                where={"access": one.access, "model": one.model, "against": other.model},
            )
        )
        made.append(Difference(first=one, second=other, p=p, place=place))
    return made


def detectable(met: Area, level: float) -> float:
    """Return the area that an audit of this size shows in four of five runs."""
    from scipy.stats import norm

    m, n = len(met.of_members), len(met.of_others)
    error = float(np.sqrt((m + n + 1) / (12 * m * n)))
    return min(1.0, 0.5 + float(norm.isf(1 - level) + norm.isf(0.2)) * error)
