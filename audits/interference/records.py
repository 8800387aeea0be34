"""The rows of records.csv: one for every cell of the matrix, with the losses behind it."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from audits.core.records import Coverage, Skipped

if TYPE_CHECKING:
    from audits.interference.measure import Counts


def coverage(counts: "Counts") -> Coverage:
    """Return how many sentences, or losses measured elsewhere, were given and used, and why others were not."""
    table, texts = counts.inputs.table, counts.inputs.texts.values()
    given = table.given if table is not None else sum(text.given for text in texts)
    reasons = Counter[str]()
    for skipped in [table.skipped] if table is not None else [text.skipped for text in texts]:
        reasons.update(skipped)
    return Coverage(
        given=given,
        used=given - sum(reasons.values()),
        skipped=tuple(Skipped(reason=reason, count=count) for reason, count in sorted(reasons.items())),
    )


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return a row for every cell: verdict, losses of every seed, or the reason why it is missing."""
    pairs = counts.inputs.pairs
    return [_row(counts, *cell) for cell in sorted(cell for a, b in pairs for cell in ((a, b), (b, a)))]


def _row(counts: "Counts", target: str, source: str) -> dict[str, Any]:
    matrix = counts.matrix
    judged, reasons = matrix.cells.get((target, source)), matrix.reasons(target, source)
    verdict = "not measured" if judged is None else judged.verdict(matrix.level)
    numbers: dict[str, float | str] = dict.fromkeys(("interference", "low", "high", "p", "p_adjusted", "seed_sd"), "")
    if judged is not None:
        one = judged.crossed
        values = (one.value, one.low, one.high, one.p, judged.adjusted, one.seed_sd)
        numbers = {
            name: "" if value is None else float(f"{value:.6g}") for name, value in zip(numbers, values, strict=True)
        }
    return {
        "target": target,
        "source": source,
        "verdict": "not converged" if reasons else verdict,
        **numbers,
        "losses_alone": _losses(counts, (target,), target),
        "losses_together": _losses(counts, tuple(sorted((target, source))), target),
        "why": "; ".join(reasons.values()),
    }


def _losses(counts: "Counts", chosen: tuple[str, ...], code: str) -> str:
    """Return the loss under each seed's model, in the order of the seeds."""
    losses = counts.matrix.losses
    return " ".join(f"{losses.cells[chosen, seed, code].loss:.4f}" for seed in sorted(losses.seeds(chosen, code)))
