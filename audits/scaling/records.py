"""The rows of records.csv: one for each target and length that was counted, and one for each timed cell.

They can be given to `--from-csv`: the same cells give the same estimates of time.
"""

from typing import TYPE_CHECKING, Any

from audits.core.records import Coverage, Skipped
from audits.scaling.growth_tables import QUANTITY_OF

if TYPE_CHECKING:
    from audits.scaling.counts import Counts

TIMED = ("wall_seconds", "processor_seconds", "reference_seconds", "repeats", "device_bytes")
COLUMNS = ("target", "n", "round", "seconds", "bytes", "state_bytes", "operations", "bytes_moved", *TIMED)


def coverage(counts: "Counts") -> Coverage:
    """Return how many lengths of targets were given and used, in counts and in timing, and why others were not."""
    reasons: dict[str, int] = {}
    for one in counts.skipped_lengths:
        what = "timing" if one.timing else "counting"
        reason = f"{what} {one.target}: {one.reason}"[:200]
        reasons[reason] = reasons.get(reason, 0) + 1
    used = sum(
        sum(n in counts.asked for n in curve.lengths) for target in counts.targets for curve in _leading(counts, target)
    )
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in reasons.items())
    return Coverage(given=used + len(counts.skipped_lengths), used=used, skipped=skipped)


def _leading(counts: "Counts", target: str) -> "list[Any]":
    """Return a curve of what was counted and that of what was timed, whose lengths are those used."""
    curves = [curve for (name, _, variable), curve in counts.curves.items() if (name, variable) == (target, "length")]
    timed = counts.curve(target, "time")
    rest = [curve for curve in curves if curve is not timed]
    return [*rest[:1], *([timed] if timed is not None else [])]


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return a row for each count and each cell; what was not counted or measured there is empty."""
    empty = dict.fromkeys(COLUMNS, "")
    if counts.cells and not any("wall_seconds" in cell for cell in counts.cells):
        return [{**empty, **cell} for cell in counts.cells]
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    columns = {quantity: column for column, quantity in QUANTITY_OF.items()} | {"bytes_moved": "bytes_moved"}
    for (target, quantity, variable), curve in counts.curves.items():
        if variable != "length" or not curve.counted or quantity not in columns:
            continue
        for n, value in zip(curve.lengths, curve.values[0].tolist(), strict=True):
            row = rows.setdefault((target, n), {**empty, "target": target, "n": n, "round": 0})
            row[columns[quantity]] = int(value)
    return [*rows.values(), *({**empty, **cell} for cell in counts.cells)]
