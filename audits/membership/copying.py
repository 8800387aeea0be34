"""Copies: samples that repeat members more often than points that were not trained on.

Whoever repeats a member gives away more than that it is one. But discrete data repeat by themselves: only what is
copied more often of members than of non-members is a leak.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.core.intervals import Interval
from audits.core.numbers import bounded
from audits.membership.pool import Bools
from audits.membership.scoring import model_where
from audits.statistics import adjust, clopper_pearson

if TYPE_CHECKING:
    # With torch behind it, which scores do not need.
    from probes.generators.attacks.copies import Copies

EXACT, NEAR = "exact", "near"
MEMBERS, OTHERS = "members", "nonmembers"
CLEARLY = 2
"""Times by which members are copied more often than others, by the ends of both intervals, for a grave finding."""
UNITS = {MEMBERS: "members", OTHERS: "non-members"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copying:
    """The copies in the samples of one model, by one measure of a copy.

    Parameters
    ----------
    radius
        The distance up to which a sample is a copy.
    points, samples
        By side: which of its points are repeated, and which of the samples repeat one.
    p
        Of as many copied members if sides were copied alike, one-sided, adjusted over models and measures by Holm.
    """

    model: str
    match: str
    radius: float
    points: Mapping[str, Bools]
    samples: Mapping[str, Bools]
    p: float

    @property
    def where(self) -> dict[str, str]:
        """The keys of its estimates."""
        return {"match": self.match, **model_where(self.model)}

    def copied(self, side: str, level: float) -> Interval:
        """Return the share of the points of a side that are repeated."""
        return self._share(self.points[side], UNITS[side], level)

    def copies(self, side: str, level: float) -> Interval:
        """Return the share of the samples that repeat a point of a side."""
        return self._share(self.samples[side], "samples", level)

    def _share(self, hits: Bools, unit: str, level: float) -> Interval:
        count, n = int(hits.sum()), len(hits)
        low, high = clopper_pearson(count, n, level=level)
        near = f"distance at most {bounded(self.radius, up=True)}"
        return Interval(
            value=count / n,
            low=min(low, count / n),
            high=max(high, count / n),
            method=f"Clopper-Pearson, {near if self.match == NEAR else 'equal in every number'}",
            n=n,
            unit=unit,
        )


def copies_of(found: Mapping[str, "Copies"], member: Bools) -> list[Copying]:
    """Return the copies of each side by model and measure of a copy, with the test of one side against the other."""
    cells = [
        (model, match, copied, radius)
        for model, copies in found.items()
        for match, copied, radius in ((EXACT, copies.exact, 0.0), (NEAR, copies.near, copies.radius))
    ]
    adjusted = adjust([p_alike(copied.points, member) for _, _, copied, _ in cells], "holm") if cells else []
    return [
        Copying(
            model=model,
            match=match,
            radius=radius,
            points={MEMBERS: copied.points[member], OTHERS: copied.points[~member]},
            samples={MEMBERS: copied.of_members, OTHERS: copied.of_others},
            p=p,
        )
        for (model, match, copied, radius), p in zip(cells, adjusted, strict=True)
    ]


def p_alike(copied: Bools, member: Bools) -> float:
    """Return the p-value of this many copied members if copies fall on all points alike (Fisher's exact test).

    >>> import numpy as np
    >>> round(p_alike(np.arange(8) < 2, np.arange(8) < 4), 4) == round(4 / 8 * 3 / 7, 4)
    True
    """
    from scipy.stats import hypergeom

    hits = int((copied & member).sum())
    return float(hypergeom.sf(hits - 1, len(member), int(copied.sum()), int(member.sum())))


def shown_of(found: Sequence[Copying], model: str, level: float) -> Copying | None:
    """Return the measure by which members of a model are copied significantly more: exact copies before near ones."""
    return next((one for one in found if one.model == model and one.p < 1 - level), None)
