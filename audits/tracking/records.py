"""The rows of records.csv: one for each item and system, for trained networks each depth, and for what is left out."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from audits.core.records import Coverage, Skipped
from audits.tracking.items import Item, agrees

if TYPE_CHECKING:
    from audits.tracking.measure import Counts, Graded

_LENGTHS = ("depth", "n_ops", "n_changes", "entities", "properties")
_EMPTY = dict.fromkeys(
    ("id", "task", "system", "scoring", *_LENGTHS, "target", "answer", "correct", "chance", "score_gap", "heuristics"),
    "",
) | {"skipped_because": ""}


def coverage(counts: "Counts") -> Coverage:
    """Return how many answers, or tested sequences of networks, there could be, and why some are missing."""
    used = sum(len(graded.scores) for graded in counts.graded) + sum(one.curve.sequences for one in counts.curves)
    used += len(counts.compared)
    reasons = sorted(Counter(skip.reason for skip in counts.skips).items())
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in reasons)
    return Coverage(given=used + len(counts.skips), used=used, skipped=skipped)


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return a row for each answer, each depth of each trained network, and what is left out; no text of an item."""
    left = [_of_item(one.item) | {"system": one.system, "skipped_because": one.reason} for one in counts.skips]
    return [row for graded in counts.graded for row in _answers(counts, graded)] + _trained(counts) + left


def _of_item(item: Item) -> dict[str, Any]:
    # What a replay that disagrees counts is not known to be so.
    lengths = {} if item.skipped_because else {name: getattr(item, name) for name in _LENGTHS}
    # Boxes' authors ask that nothing of its text be copied.
    target, chance = "" if item.private else item.target, "" if item.chance is None else item.chance
    return {**_EMPTY, "id": item.id, "task": item.task, **lengths, "target": target, "chance": chance}


def _answers(counts: "Counts", graded: "Graded") -> list[dict[str, Any]]:
    rows = []
    for at, score in sorted(graded.scores.items()):
        item = counts.items[at]
        said = {
            "system": graded.system,
            "scoring": graded.scoring,
            "answer": "" if item.private else score.said,
            "correct": int(score.correct),
            "score_gap": graded.gaps.get(at, ""),
            "heuristics": " ".join(rule for rule in sorted(item.guesses) if agrees(item, rule, score.said)),
        }
        rows.append(_of_item(item) | said)
    return rows


def _trained(counts: "Counts") -> list[dict[str, Any]]:
    return [
        {
            **_EMPTY,
            "task": "pointer",
            "system": one.training.name,
            "scoring": "trained",
            "depth": depth,
            "n_ops": one.design.tokens,
            "entities": one.design.chains,
            "properties": 1,
            "correct": right,
            "chance": 1 / one.design.chains,
        }
        for one in counts.curves
        if one.training.properties == 1
        for depth, right in enumerate(one.curve.hits.tolist())
    ]
