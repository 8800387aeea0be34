"""The answer: how many chained changes each system follows, whether chaining or length costs, and what depth allows."""

from collections.abc import Iterator

from audits.core.context import Draft
from audits.core.wording import labelled
from audits.tracking.items import task_words
from audits.tracking.measure import Counts


def conclude(draft: Draft, counts: Counts) -> None:
    """Set the answer."""
    worst = draft.by_severity()
    if not worst:
        return
    patterns = [claim for claim in worst if claim.id == "tracking.depth_pattern"]
    lead = worst[0] if worst[0].severity in ("high", "medium") or not patterns else patterns[0]
    rows = [row for row in draft.leading() if row.name == "critical_n"] or draft.leading()
    draft.conclude(
        lead.headline,
        numbers=[(row, labelled(row, "system", "task", "form")) for row in rows],
        may=list(_may(draft)),
        may_not=list(_may_not(draft, counts)),
    )


def _may(draft: Draft) -> Iterator[str]:
    for claim in draft.by_severity():
        if claim.id != "tracking.operator_mismatch" or claim.severity == "high":
            yield claim.headline


def _may_not(draft: Draft, counts: Counts) -> Iterator[str]:
    for row in draft.select("critical_n"):
        if any(warning.id == "not-reached" and dict(warning.where) == dict(row.where) for warning in draft.warnings):
            system, task = row.where["system"], task_words(str(row.where["task"]))
            yield f"That {system} follows no more than {row.high:.0f} of {task}: nothing deeper was asked."
            break
    if any(claim.where.get("verdict") in ("within-bound", "at-bound") for claim in draft.findings):
        yield "That the law of depth is proved, or refuted from below: only more depth could speak against it."
    if counts.graded:
        yield "That a system tracks states step by step: it may find the answer in another way that is right as often."
        yield "Anything about other texts, names or renderings than these."
    if counts.curves:
        yield "That no network of these layers follows more: other widths, trainings or encodings were not tried."
    if draft.select("operator_difference"):
        yield "A time of a whole model: operators were timed alone."
