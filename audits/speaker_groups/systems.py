"""Does one system err less than another on the same clips, on which groups, and is its gap another one?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from audits.context import Context, Draft
from audits.groups import ALL
from audits.speaker_groups.counts import Cohort, Counts, Utterances, place, sums_of
from audits.speaker_groups.gaps import GapRow
from audits.speaker_groups.rates import BLOCK
from audits.statistics import (
    Floats,
    Side,
    adjust,
    all_pairs,
    change_of_rate,
    generator,
    student,
    student_contrasts,
    variance_or_least,
)

PAIRED = "Student t, paired over clusters, variance and degrees of freedom for few or unequal ones"
PAIRED_GAP = "Student t, paired over clusters, simultaneous over all pairs of groups"
TEST = "system"
"""The test of a change, of the rate of all or of a gap; all that are told are one family."""


@dataclass(slots=True, kw_only=True)
class Compared:
    """Where the differences to the first system stand in the report, and the p-values of no difference.

    `told` are p-values after Holm over all that sentences are made of: of every system, the rate of all (by "") and
    the gaps of the attributes in the rate that is tested.
    """

    metric: str
    rate: dict[tuple[int, str], int] = field(default_factory=dict)
    gap: dict[tuple[int, str], int] = field(default_factory=dict)
    told: dict[tuple[int, str], float] = field(default_factory=dict)
    evidence: dict[tuple[int, str], int] = field(default_factory=dict)


def compare_systems(
    draft: Draft,
    data: Utterances,
    rows: Sequence[GapRow],
    cohort: Cohort,
    small: frozenset[str],
    metric: str,
    context: Context,
) -> Compared:
    """Add each system's rate less the first one's for all groups that are not too small, and the change of gaps.

    `metric` is the rate that is tested, and that sentences are about.
    """
    found = Compared(metric=metric)
    if len(data.systems) < 2:
        return found
    raw: dict[tuple[int, str], float] = {}
    for counts in data.counts:
        chosen = [place for place, name in enumerate(cohort.names) if name not in small]
        for start in range(0, len(chosen), BLOCK):
            part = chosen[start : start + BLOCK]
            p = _add_differences(draft, data, counts, cohort, part, found, context)
            raw |= {(system, ""): value for system, value in p.items() if counts.metric == metric}
    for row in rows:
        moved = [_moved(row, system) for system in range(1, len(data.systems))]
        for system, (values, sides) in enumerate(moved, start=1):
            at, value = _add_gap_difference(draft, data, row, system, values, sides, context)
            found.gap[system, f"{row.counts.metric}:{row.by}"] = at
            if row.counts.metric == metric and not row.crossed:
                raw[system, row.by] = value
    _correct(draft, data, metric, raw, found, context)
    return found


def _correct(
    draft: Draft, data: Utterances, metric: str, raw: dict[tuple[int, str], float], found: Compared, context: Context
) -> None:
    """Add the p-values of all changes that a sentence is made of, and correct them together."""
    found.told = dict(zip(raw, adjust(list(raw.values()), "holm"), strict=True))
    for (system, by), p in raw.items():
        for correction, value in (("none", p), ("holm", found.told[system, by])):
            what = {"by": by} if by else {"group": ALL}
            where = place(data, data.of(metric), system, test=TEST, correction=correction, **what)
            ends = (value, None, None)
            found.evidence[system, by] = draft.add(
                data.estimate("p_value", ends, "none", data.people, where, context.level)
            )


def _add_differences(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    cohort: Cohort,
    chosen: Sequence[int],
    found: Compared,
    context: Context,
) -> dict[int, float]:
    """Add the differences of some groups and return the p-values of those of all, by system."""
    sums = sums_of(data, counts, cohort.member[list(chosen)])
    tested: dict[int, float] = {}
    for at, group in enumerate(chosen):
        there = sums.present[:, at]
        if (sums.sizes[:, at] > 0).sum() < 2:
            continue
        for system in range(1, len(data.systems)):
            apart = sums.errors[:, at, system] - sums.errors[:, at, 0]
            value, side = change_of_rate(apart[there], sums.sizes[there, at])
            spread, freedom = variance_or_least(side)
            low, high, p = student(value, float(np.sqrt(spread)), freedom, context.level)
            row = draft.add(
                data.estimate(
                    "system_difference",
                    (value, low, high),
                    PAIRED,
                    int(sums.speakers[at]),
                    place(data, counts, system, against=data.systems[0], group=cohort.names[group]),
                    context.level,
                )
            )
            if cohort.names[group] == ALL:
                tested[system] = p
            if counts is data.counts[0] or cohort.names[group] == ALL:
                found.rate[system, f"{counts.metric}:{cohort.names[group]}"] = row
    return tested


def _moved(row: GapRow, system: int) -> tuple[Floats, list[Side]]:
    """Return the difference to the first system in every group, and how far each speaker moves it."""
    apart = row.sums.errors[..., system] - row.sums.errors[..., 0]
    there = row.sums.present
    found = [change_of_rate(apart[who, at], row.sums.sizes[who, at]) for at, who in enumerate(there.T)]
    return np.array([value for value, _ in found]), [side for _, side in found]


def _add_gap_difference(
    draft: Draft, data: Utterances, row: GapRow, system: int, values: Floats, sides: Sequence[Side], context: Context
) -> tuple[int, float]:
    """Add by how much the first system's largest gap, of its worst and its best group, is another for this system.

    The pair was picked by the first system's rates, so that its own gap is too large by chance; interval and p-value
    hold for whichever pair was picked.
    """
    worst, best = (row.names.index(names[0]) for names in (row.worst, row.best))
    moved = np.zeros(row.sums.sizes.shape)
    spread, freedom = np.zeros(len(sides)), np.zeros(len(sides))
    for at, side in enumerate(sides):
        moved[row.sums.present[:, at], at] = side.moved / np.sqrt(np.maximum(1 - side.shares, 1e-12))
        spread[at], freedom[at] = variance_or_least(side)
    # A speaker in several groups makes their differences go together.
    covariance = moved.T @ moved
    np.fill_diagonal(covariance, spread)
    pairs, mine = all_pairs(len(row.names), worst, best)
    rng = generator(context.seed, "gap difference", row.counts.metric, row.by)
    found = student_contrasts(values, covariance, freedom, pairs, rng, level=context.level)
    where = {"by": row.by, "group": row.names[worst], "reference": row.names[best]}
    at = draft.add(
        data.estimate(
            "gap_difference",
            (float(found.value[mine]), float(found.low[mine]), float(found.high[mine])),
            PAIRED_GAP,
            row.sums.people,
            place(data, row.counts, system, against=data.systems[0], **where),
            context.level,
        )
    )
    return at, float(found.p[mine])
