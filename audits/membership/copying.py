"""Do samples repeat members, and more of them than of points that were not trained on?

Whoever repeats a member gives away more than that it is one. But discrete data repeat by themselves: only what is
copied more often of members than of non-members is a leak.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audits.context import Context, Draft
from audits.membership.pool import Bools, Pool
from audits.membership.scoring import Scored
from audits.numbers import bounded
from audits.records import Estimate
from audits.statistics import adjust, clopper_pearson

EXACT, NEAR = "exact", "near"
MEMBERS, OTHERS = "members", "nonmembers"
CLEARLY = 2
"""Times by which members are copied more often than others, by the ends of both intervals, for a grave finding."""
_UNITS = {MEMBERS: "members", OTHERS: "non-members"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """What samples of one model repeat, by one measure of a copy.

    Parameters
    ----------
    samples
        Samples that repeat a point of each side.
    p
        Of as many copied members if sides were copied alike, one-sided, adjusted over models and measures by Holm.
    points_at, samples_at
        Places of the estimates by side.
    """

    model: str
    match: str
    samples: Mapping[str, int]
    p: float
    points_at: Mapping[str, int]
    samples_at: Mapping[str, int]


def copies_of(draft: Draft, scored: Scored, pool: Pool, context: Context) -> list[Copying]:
    """Add the shares of points that are repeated, and of samples that repeat, and test the sides against each other."""
    cells = [
        (model, match, copied, radius)
        for model, found in scored.copies.items()
        for match, copied, radius in ((EXACT, found.exact, 0.0), (NEAR, found.near, found.radius))
    ]
    adjusted = adjust([p_alike(copied.points, pool.member) for _, _, copied, _ in cells], "holm") if cells else []
    made = []
    for (model, match, copied, radius), p in zip(cells, adjusted, strict=True):
        how = f", distance at most {bounded(radius, up=True)}" if match == NEAR else ", equal in every number"
        where = {"match": match, **({"model": model} if model else {})}
        points_at, samples_at, samples = {}, {}, {}
        for side, of, repeats in (
            (MEMBERS, pool.member, copied.of_members),
            (OTHERS, ~pool.member, copied.of_others),
        ):
            row = _share(copied.points[of], f"copied_{side}", _UNITS[side], how, where, context)
            points_at[side] = draft.add(row)
            row = _share(repeats, "copies", "samples", how, {"side": side, **where}, context)
            samples_at[side] = draft.add(row)
            samples[side] = int(repeats.sum())
        made.append(Copying(model=model, match=match, samples=samples, p=p, points_at=points_at, samples_at=samples_at))
    return made


def _share(hits: Bools, name: str, unit: str, how: str, where: Mapping[str, str], context: Context) -> Estimate:
    count, n = int(hits.sum()), len(hits)
    low, high = clopper_pearson(count, n, level=context.level)
    return Estimate(
        name=name,
        value=count / n,
        low=min(low, count / n),
        high=max(high, count / n),
        level=context.level,
        method=f"Clopper-Pearson{how}",
        n=n,
        unit=unit,
        where=where,
    )


def p_alike(copied: Bools, member: Bools) -> float:
    """Return how probable so many copied members are if it is chance whom of all points is copied (Fisher's test).

    >>> import numpy as np
    >>> round(p_alike(np.arange(8) < 2, np.arange(8) < 4), 4) == round(4 / 8 * 3 / 7, 4)
    True
    """
    from scipy.stats import hypergeom

    hits = int((copied & member).sum())
    return float(hypergeom.sf(hits - 1, len(member), int(copied.sum()), int(member.sum())))


def told_of(found: Sequence[Copying], model: str, level: float) -> Copying | None:
    """Return the measure by which members of a model are shown to be copied more: exact copies before near ones."""
    return next((one for one in found if one.model == model and one.p < 1 - level), None)
