"""The rows of records.csv: one for each output that was scored, with what has no support in it."""

from typing import TYPE_CHECKING, Any

from audits.core.records import Coverage, Skipped

if TYPE_CHECKING:
    from audits.faithfulness.measure import Counts


def coverage(counts: "Counts") -> Coverage:
    """Return how many outputs there are, and why some are a class of their own."""
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in sorted(counts.apart.items()))
    used = len(counts.samples)
    return Coverage(given=used + sum(counts.apart.values()), used=used, skipped=skipped)


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return a row for each output: its scores, and the characters, from and to, of what has no support."""
    columns = {metric: scores.tolist() for metric, scores in counts.scores.items()}
    rows = []
    for at, sample in enumerate(counts.samples):
        scores = {metric: values[at] for metric, values in columns.items()}
        spans = {
            name if name == "least_information" else f"unsupported_{name}": _words(found[at])
            for name, found in counts.spans.items()
        }
        rows.append(
            {
                "id": sample.id,
                "system": sample.system,
                "run": sample.run,
                "context_id": sample.context_id,
                "label": "" if sample.label is None else int(sample.label),
                **sample.groups,
                **{metric: value if value == value else "" for metric, value in scores.items()},
                **spans,
            }
        )
    return rows


def _words(spans: Any) -> str:
    return " ".join(f"{start}-{end}" for start, end in spans)
