"""The rows of records.csv, one for every sample on every grid but that of training, and their pairing over two runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Coverage, Skipped
from audits.report.comparison.parts import Ratio, Rows
from audits.spectra.counts import Counts

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]
PARTS = ("input", "coordinates", "nonlinear")
OUTPUT = "output"
"""The last tap, the one whose mismatch stands in the records."""


def records(counts: Counts) -> list[dict[str, Any]]:
    """Return a row for every sample on every grid but that of training; what a grid has not is left empty."""
    rows = []
    first, *others = (grid.resolution for grid in counts.setup.grids)
    parts = {part for at in others for part in counts.parts(at)}
    names = (*(("same", "direct", "upsampled", "floor") if counts.setup.scored else ()), "mismatch",
             *[part for part in (*PARTS, "operator") if part in parts])  # fmt: skip
    for at in others:
        columns: dict[str, NDArray[np.float64]] = {}
        if counts.setup.scored:
            columns = counts.errors(first) | counts.errors(at)
        if f"{at}/distances" in counts.rows:
            columns |= {"mismatch": counts.rows[f"{at}/distances"][:, -1], **counts.parts(at)}
        for sample in range(counts.setup.samples):
            cells = {name: _number(columns[name][sample]) if name in columns else "" for name in names}
            rows.append({"sample": sample, "resolution": at, **cells})
    return rows


def _number(value: float) -> float | str:
    return float(value) if np.isfinite(value) else ""


def coverage(counts: Counts) -> Coverage:
    """Return how many samples were used and left out."""
    given, used = counts.setup.fields.count, counts.setup.samples
    skipped = (Skipped(reason="beyond --max-samples", count=given - used),) if given > used else ()
    return Coverage(given=given, used=used, skipped=skipped)


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return sample and grid of each row, which pair rows of two runs only where both read the same file."""
    return [f"{sample} {grid}" for sample, grid in zip(rows.text["sample"], rows.text["resolution"], strict=True)], (
        "fields",
    )


def units(rows: Rows) -> Sequence[str]:
    """Return the independent units, the samples: one has rows on several grids."""
    return list(rows.text["sample"])


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return the sums behind a mean over samples, or a share of them, on one grid."""
    # As texts: a grid may be named by the points of each axis, such as 32x64.
    grids = rows.text["resolution"]
    at = str(where.get("resolution", ""))
    if where.get("path") == "same" and len(grids):
        # The error on the grid of training stands in the rows of every other grid alike.
        at = str(grids[0])
    over = _summed(rows.numbers, name, where)
    counted = (grids == at).astype(np.float64)
    return None if over is None or not counted.any() else Ratio(over * counted, counted)


def _summed(numbers: Numbers, name: str, where: Mapping[str, Any]) -> NDArray[np.float64] | None:
    if name == "relative_l2":
        return numbers[str(where["path"])]
    if name in ("direct_minus_upsampled", "direct_worse_share"):
        lead = numbers["direct"] - numbers["upsampled"]
        return lead if name == "direct_minus_upsampled" else np.where(np.isnan(lead), np.nan, lead > 0)
    if name == "mismatch" and where.get("tap") == OUTPUT:
        return numbers["mismatch"]
    return numbers[str(where["part"])] if name == "mismatch_share" else None
