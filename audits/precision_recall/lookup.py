"""Look-ups in the table: rows at the leading k, and which differences are significant."""

from audits.core.context import Draft
from audits.core.records import Estimate
from audits.precision_recall.counts import WORDS, Counts
from audits.precision_recall.sides import CEILING, FLOOR, REFERENCE, RELABELLED


def score(draft: Draft, counts: Counts, metric: str, name: str) -> Estimate | None:
    """Return the score of a candidate or a control, if there is one."""
    if name in (CEILING, FLOOR):
        return draft.get(name, metric=metric, k=counts.k)
    return draft.get(metric, candidate=name, k=counts.k)


def relabelled(draft: Draft, counts: Counts, metric: str, name: str) -> Estimate | None:
    """Return the score of a candidate after relabelling, if that was asked for."""
    return draft.get(RELABELLED, candidate=name, metric=metric, k=counts.k)


def difference(draft: Draft, counts: Counts, metric: str, name: str, against: str) -> Estimate | None:
    """Return a difference, if there is one."""
    k = {} if metric == WORDS else {"k": counts.k}
    return draft.get("difference", candidate=name, against=against, metric=metric, **k)


def shown(draft: Draft, counts: Counts, metric: str, name: str, against: str) -> int:
    """Return 1 or -1 where a difference is significantly above or below zero, after correction, else 0."""
    row = difference(draft, counts, metric, name, against)
    if row is None or {name, against, REFERENCE} & counts.grouped or not significant(draft, row):
        return 0
    return int(row.above(0.0)) - int(row.below(0.0))


def significant(draft: Draft, row: Estimate) -> bool:
    """Tell whether the corrected p-value of a difference is below 1 less the level."""
    return draft.row("p_value", **row.where, correction="holm").value < 1 - draft.level


def between(draft: Draft, counts: Counts, metric: str, first: str, second: str) -> Estimate | None:
    """Return the difference of two candidates, whichever comes first."""
    return difference(draft, counts, metric, first, second) or difference(draft, counts, metric, second, first)


def apart(draft: Draft, counts: Counts, metric: str, first: str, second: str) -> int:
    """Return 1 or -1 where the score of the first is significantly above or below that of the second, else 0."""
    if difference(draft, counts, metric, first, second) is not None:
        return shown(draft, counts, metric, first, second)
    return -shown(draft, counts, metric, second, first)


def least_precise(draft: Draft, counts: Counts) -> str:
    """Return the candidate of the lowest precision, whose texts outside the reference are listed first."""
    rows = {name: row.value for name in counts.names if (row := score(draft, counts, "precision", name)) is not None}
    return min(rows, key=lambda name: rows[name])
