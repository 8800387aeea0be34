"""One row for every cell of the matrix, and what it rests on."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audits.interference.report import Results


def records_of(results: "Results") -> Sequence[Mapping[str, Any]]:
    """Return the rows: a cell each, with its verdict, its loss of every seed, and why it has no number."""
    rows: list[Mapping[str, Any]] = []
    pairs = [chosen for chosen in results.inputs.sets if len(chosen) == 2]
    for target, source in sorted(where for a, b in pairs for where in ((a, b), (b, a))):
        pair = tuple(sorted((target, source)))
        entry = results.found.cells.get((target, source))
        crossed = None if entry is None else entry.judged.crossed
        adjusted = None if entry is None else entry.judged.adjusted
        reasons = [results.matrix.failed.get((chosen, target), "") for chosen in ((target,), pair)]
        rows.append(
            {
                "target": target,
                "source": source,
                "verdict": "not converged"
                if any(reasons)
                else "not measured"
                if entry is None
                else entry.judged.verdict(results.matrix.level),
                "interference": _number(None if crossed is None else crossed.value),
                "low": _number(None if crossed is None else crossed.low),
                "high": _number(None if crossed is None else crossed.high),
                "p": _number(None if crossed is None else crossed.p),
                "p_adjusted": _number(adjusted),
                "seed_sd": _number(None if crossed is None else crossed.seed_sd),
                "losses_alone": _losses(results, (target,), target),
                "losses_together": _losses(results, pair, target),
                "why": "; ".join(reason for reason in reasons if reason),
            }
        )
    return rows


def _number(value: float | None) -> float | str:
    return "" if value is None else float(f"{value:.6g}")


def _losses(results: "Results", chosen: tuple[str, ...], code: str) -> str:
    """Return the loss under each seed's model, in the order of the seeds."""
    losses = results.matrix.losses
    return " ".join(f"{losses.cells[chosen, seed, code].loss:.4f}" for seed in sorted(losses.seeds(chosen, code)))
