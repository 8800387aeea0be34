"""How are samples matched over two runs of spectra, and what of the report is a mean over them?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.comparison.parts import Ratio, Rows

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]
OUTPUT = "output"
"""The last tap, of which the records tell the mismatch."""


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return sample and grid of each row, and that a sample's number means the same only in the same file."""
    return [f"{sample} {grid}" for sample, grid in zip(rows.text["sample"], rows.text["resolution"], strict=True)], (
        "fields",
    )


def units(rows: Rows) -> Sequence[str]:
    """Return the samples: rows of one sample on several grids are no samples of their own."""
    return list(rows.text["sample"])


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return the sums behind a mean over samples, or a share of them, on one grid."""
    grids = rows.numbers["resolution"]
    at = float(where.get("resolution", np.nan))
    if where.get("path") == "same":
        # The error on the grid of training stands in the rows of every finer grid alike.
        at = float(grids.min())
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
