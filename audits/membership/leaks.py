"""Leaks: what the best attack with a given access finds, and whether one model leaks more than another.

The best of several attacks is chosen on one half of the points and judged on the other: its area is no maximum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from audits.core.intervals import Interval
from audits.membership.pool import Pool
from audits.membership.rates import Judged, of_area
from audits.membership.scoring import model_where
from audits.statistics import adjust
from audits.statistics.roc import Area, Gap, area, difference

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
    """

    model: str
    access: str
    judged: Judged
    area: Area
    p: float

    @property
    def where(self) -> dict[str, str]:
        """The keys of its estimate."""
        return {"access": self.access, "attack": self.judged.attack.name, **model_where(self.model)}

    @property
    def was_chosen(self) -> bool:
        """Whether the attack was chosen on one half of the points, and its area is of the other."""
        return self.area is not self.judged.area

    @property
    def says_nothing(self) -> bool:
        """Whether all scores are equal: an area of a half that nothing varies."""
        return self.area.value == 0.5 and self.area.variance() == 0

    def interval(self, level: float) -> Interval:
        """Return the area of the attack; without an interval where all scores are equal."""
        found = of_area(self.area, level)
        if self.says_nothing:
            return replace(found, low=None, high=None, method="none")
        return replace(
            found, method=f"AUC, {found.method}" + (", attack chosen on the other half" if self.was_chosen else "")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of two models' leaks with one access; `p` is adjusted over all differences."""

    first: Leak
    second: Leak
    gap: Gap
    p: float

    @property
    def where(self) -> dict[str, str]:
        """The keys of its estimate."""
        return {"access": self.first.access, "model": self.first.model, "against": self.second.model}

    @property
    def interval(self) -> Interval:
        """The difference in area, first less second."""
        gap, points = self.gap, len(self.first.area.of_members) + len(self.first.area.of_others)
        method = "paired DeLong on the same points"
        return Interval(value=gap.value, low=gap.low, high=gap.high, method=method, n=points, unit="points")


def leaks_of(found: Sequence[Judged], pool: Pool, models: Sequence[str]) -> list[Leak]:
    """Return the leak of each model with each access that its release, or another of the suite, allows."""
    cells: list[tuple[str, str, Judged, Area]] = []
    tiers = {one.attack.tier for one in found}
    known = [access for access, own in NEWEST.items() if tiers & set(own)]
    for model in models:
        own = [one for one in found if one.attack.model == model]
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
    return [
        Leak(model=model, access=access, judged=best, area=area, p=p)
        for (model, access, best, area), p in zip(cells, adjust(raw, "holm"), strict=True)
    ]


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


def _p_null(found: Area) -> float:
    """Return how probable so large an area is by chance alone: Mann and Whitney (1947), normal."""
    from scipy.stats import norm

    m, n = len(found.of_members), len(found.of_others)
    return float(norm.sf((found.value - 0.5) / np.sqrt((m + n + 1) / (12 * m * n))))


def gaps_of(leaks: Sequence[Leak], level: float) -> list[Difference]:
    """Return the differences of all pairs of models within each access, on the same points."""
    pairs = [
        (one, other) for one, other in combinations(leaks, 2) if one.access == other.access and one.model != other.model
    ]
    gaps = [difference(one.area, other.area, level) for one, other in pairs]
    return [
        Difference(first=one, second=other, gap=gap, p=p)
        for (one, other), gap, p in zip(pairs, gaps, adjust([gap.p for gap in gaps], "holm"), strict=True)
    ]


def detectable(found: Area, level: float) -> float:
    """Return the area that an audit of this size shows in four of five runs."""
    from scipy.stats import norm

    m, n = len(found.of_members), len(found.of_others)
    error = float(np.sqrt((m + n + 1) / (12 * m * n)))
    return min(1.0, 0.5 + float(norm.isf(1 - level) + norm.isf(0.2)) * error)
