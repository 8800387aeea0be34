"""Differences of the systems to the first one on the same clips: by group, and of gaps."""

from collections.abc import Container, Mapping, Sequence

import numpy as np

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.records import Estimate
from audits.speaker_groups.counts import Cohort, MetricCounts, Utterances, sums_of
from audits.speaker_groups.gaps import Comparison
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
"""The test of a change, of the rate of all or of a gap; all that sentences are about are one family."""


def compare_systems(
    draft: Draft,
    data: Utterances,
    comparisons: Sequence[Comparison],
    cohort: Cohort,
    small: Container[str],
    metric: str,
) -> None:
    """Add each system's rate less the first one's for all groups that are not too small, and the change in gaps.

    `metric` is the rate that is tested, and that sentences are about.
    """
    if len(data.systems) < 2:
        return
    raw: dict[tuple[int, str], float] = {}
    for counts in data.counts:
        chosen = [at for at, name in enumerate(cohort.names) if name not in small]
        for start in range(0, len(chosen), BLOCK):
            p = _add_differences(draft, data, counts, cohort, chosen[start : start + BLOCK])
            raw |= {(system, ""): value for system, value in p.items() if counts.metric == metric}
    for comparison in comparisons:
        moved = [_moved(comparison, system) for system in range(1, len(data.systems))]
        for system, (values, sides) in enumerate(moved, start=1):
            p_gap = _add_gap_difference(draft, data, comparison, system, values, sides)
            if comparison.counts.metric == metric and not comparison.crossed:
                raw[system, comparison.by] = p_gap
    _add_p_values(draft, data, metric, raw)


def _add_p_values(draft: Draft, data: Utterances, metric: str, raw: dict[tuple[int, str], float]) -> None:
    """Add the p-values of the changes that findings use, of rates (by "") and gaps, corrected together."""
    corrected = adjust(list(raw.values()), "holm")
    for ((system, by), p), after in zip(raw.items(), corrected, strict=True):
        for correction, value in (("none", p), ("holm", after)):
            where = data.where(data.of(metric), system, test=TEST, correction=correction)
            what = {"by": by} if by else {"group": ALL}
            draft.add("p_value", data.interval((value, None, None), "none", data.people), **where, **what)


def p_of_change(draft: Draft, where: Mapping[str, str], **what: str) -> Estimate | None:
    """Return the corrected p-value of the change of a group's rate or of a gap; None where there is none."""
    return draft.get("p_value", **where, test=TEST, correction="holm", **what)


def _add_differences(
    draft: Draft, data: Utterances, counts: MetricCounts, cohort: Cohort, chosen: Sequence[int]
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
            low, high, p = student(value, float(np.sqrt(spread)), freedom, draft.level)
            where = data.where(counts, system, against=data.systems[0], group=cohort.names[group])
            draft.add("system_difference", data.interval((value, low, high), PAIRED, int(sums.speakers[at])), **where)
            if cohort.names[group] == ALL:
                tested[system] = p
    return tested


def _moved(comparison: Comparison, system: int) -> tuple[Floats, list[Side]]:
    """Return the difference to the first system in every group, and the influence of each speaker."""
    apart = comparison.sums.errors[..., system] - comparison.sums.errors[..., 0]
    there = comparison.sums.present
    found = [change_of_rate(apart[who, at], comparison.sums.sizes[who, at]) for at, who in enumerate(there.T)]
    return np.array([value for value, _ in found]), [side for _, side in found]


def _add_gap_difference(
    draft: Draft, data: Utterances, comparison: Comparison, system: int, values: Floats, sides: Sequence[Side]
) -> float:
    """Add the change, for this system, of the gap between the first system's worst and best groups.

    The pair was picked by the first system's rates, so that its own gap is too large by chance; interval and p-value
    hold for whichever pair was picked. Return the p-value.
    """
    sums, names = comparison.sums, comparison.names
    group, reference = comparison.extremes[0]
    moved = np.zeros(sums.sizes.shape)
    spread, freedom = np.zeros(len(sides)), np.zeros(len(sides))
    for at, side in enumerate(sides):
        moved[sums.present[:, at], at] = side.moved / np.sqrt(np.maximum(1 - side.shares, 1e-12))
        spread[at], freedom[at] = variance_or_least(side)
    # A speaker in several groups makes their differences go together.
    covariance = moved.T @ moved
    np.fill_diagonal(covariance, spread)
    pairs, mine = all_pairs(len(names), names.index(group), names.index(reference))
    rng = generator(draft.seed, "gap difference", comparison.counts.metric, comparison.by)
    found = student_contrasts(values, covariance, freedom, pairs, rng, level=draft.level)
    ends = (float(found.value[mine]), float(found.low[mine]), float(found.high[mine]))
    where = data.where(comparison.counts, system, against=data.systems[0], by=comparison.by)
    draft.add("gap_difference", comparison.interval(ends, PAIRED_GAP), **where, group=group, reference=reference)
    return float(found.p[mine])
