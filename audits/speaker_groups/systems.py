"""Does one system err less than another on the same clips, on which groups, and is its gap another one?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from audits.context import Context, Draft
from audits.groups import ALL
from audits.speaker_groups.counts import Cohort, Counts, Utterances, place, sums_of
from audits.speaker_groups.gaps import GapRow
from audits.speaker_groups.rates import BLOCK
from audits.statistics import all_pairs, on_scale, percentile_interval, ratio, simultaneous_contrasts

PAIRED = "percentile cluster bootstrap of the paired difference, widened for few clusters"
PAIRED_GAP = "cluster bootstrap of the paired difference, simultaneous over all pairs of groups"


@dataclass(slots=True, kw_only=True)
class Compared:
    """Where the differences to the first system stand in the report."""

    rate: dict[tuple[int, str], int] = field(default_factory=dict)
    gap: dict[tuple[int, str], int] = field(default_factory=dict)


def compare_systems(
    draft: Draft, data: Utterances, rows: Sequence[GapRow], cohort: Cohort, small: frozenset[str], context: Context
) -> Compared:
    """Add each system's rate less the first one's for all groups that are not too small, and the change of gaps."""
    found = Compared()
    if len(data.systems) < 2:
        return found
    for counts in data.counts:
        chosen = [place for place, name in enumerate(cohort.names) if name not in small]
        for start in range(0, len(chosen), BLOCK):
            part = chosen[start : start + BLOCK]
            _add_differences(draft, data, counts, cohort, part, found, context)
    for row in rows:
        for system in range(1, len(data.systems)):
            at = _add_gap_difference(draft, data, row, system, context)
            found.gap[system, f"{row.counts.metric}:{row.by}"] = at
    return found


def _add_differences(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    cohort: Cohort,
    chosen: Sequence[int],
    found: Compared,
    context: Context,
) -> None:
    sums = sums_of(data, counts, cohort.member[list(chosen)])
    apart = sums.errors[..., 1:] - sums.errors[..., :1]
    samples = np.einsum("rs,sgc->rgc", cohort.weights, apart, optimize=True)
    sizes = cohort.weights @ sums.sizes
    for at, group in enumerate(chosen):
        for system in range(1, len(data.systems)):
            people = int(sums.speakers[at])
            interval = percentile_interval(ratio(samples[:, at, system - 1], sizes[:, at]), people, level=context.level)
            if interval is None:
                continue
            value = float(apart[:, at, system - 1].sum() / sums.sizes[:, at].sum())
            row = draft.add(
                data.estimate(
                    "system_difference",
                    (value, min(interval[0], value), max(interval[1], value)),
                    PAIRED,
                    people,
                    place(data, counts, system, against=data.systems[0], group=cohort.names[group]),
                    context.level,
                )
            )
            if counts is data.counts[0] or cohort.names[group] == ALL:
                found.rate[system, f"{counts.metric}:{cohort.names[group]}"] = row


def _add_gap_difference(draft: Draft, data: Utterances, row: GapRow, system: int, context: Context) -> int:
    """Add by how much the first system's largest gap, of its worst and its best group, is another for this system.

    The pair was picked by the first system's rates, so that its own gap is too large by chance; the interval holds
    for whichever pair was picked.
    """
    worst, best = (row.names.index(names[0]) for names in (row.worst, row.best))
    totals = row.sums.totals()
    point, drawn = (on_scale(sums, system, "absolute") - on_scale(sums, 0, "absolute") for sums in (totals, row.drawn))
    pairs, mine = all_pairs(len(row.names), worst, best)
    found = simultaneous_contrasts(point[0], drawn, pairs, row.sums.speakers, level=context.level)
    # Of a system and itself there is no difference in any sample, and no interval about nought.
    value, low, high = found.at(mine) if drawn.any() else (0.0, 0.0, 0.0)
    where = {"by": row.by, "group": row.names[worst], "reference": row.names[best]}
    return draft.add(
        data.estimate(
            "gap_difference",
            (value, low, high),
            PAIRED_GAP,
            row.sums.people,
            place(data, row.counts, system, against=data.systems[0], **where),
            context.level,
        )
    )
