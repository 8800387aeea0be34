"""The rows of records.csv: one for each item and system, or for trained networks each depth."""

from typing import TYPE_CHECKING, Any

from audits.core.records import Coverage, Skipped
from audits.tracking.items import agrees

if TYPE_CHECKING:
    from audits.tracking.measure import Counts, Graded


def coverage(counts: "Counts") -> Coverage:
    """Return how many answers, or tested sequences of networks, there could be, and why some are missing."""
    used = sum(len(graded.scores) for graded in counts.graded) + sum(one.curve.sequences for one in counts.curves)
    used += len(counts.compared)
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in sorted(counts.skipped.items()))
    return Coverage(given=used + sum(counts.skipped.values()), used=used, skipped=skipped)


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return a row for each answer, then one for each depth of each trained network; no text of an item."""
    return [row for graded in counts.graded for row in _answers(counts, graded)] + _trained(counts)


def _answers(counts: "Counts", graded: "Graded") -> list[dict[str, Any]]:
    rows = []
    for at, score in sorted(graded.scores.items()):
        item = counts.items[at]
        rows.append(
            {
                "id": item.id,
                "task": item.task,
                "system": graded.system,
                "scoring": graded.scoring,
                "depth": item.depth,
                "n_ops": item.n_ops,
                "n_changes": item.n_changes,
                "entities": item.entities,
                # Boxes' authors ask that nothing of its text be copied.
                "target": "" if item.private else item.target,
                "answer": "" if item.private else score.said,
                "correct": int(score.correct),
                "chance": "" if item.chance is None else item.chance,
                "score_gap": graded.gaps.get(at, ""),
                "heuristics": " ".join(rule for rule in sorted(item.guesses) if agrees(item, rule, score.said)),
            }
        )
    return rows


def _trained(counts: "Counts") -> list[dict[str, Any]]:
    columns = (
        "id",
        "task",
        "system",
        "scoring",
        "depth",
        "n_ops",
        "n_changes",
        "entities",
        "target",
        "answer",
        "correct",
    )
    return [
        {
            **dict.fromkeys((*columns, "chance", "score_gap", "heuristics"), ""),
            "task": "pointer",
            "system": one.training.name,
            "scoring": "trained",
            "depth": depth,
            "n_ops": one.design.tokens,
            "entities": one.design.chains,
            "correct": right,
            "chance": 1 / one.design.chains,
        }
        for one in counts.curves
        if one.training.properties == 1
        for depth, right in enumerate(one.curve.hits.tolist())
    ]
