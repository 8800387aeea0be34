"""The rows of records.csv: one for each method, layer, step and batch."""

from typing import TYPE_CHECKING, Any

import numpy as np

from audits.core.records import Coverage, Skipped

if TYPE_CHECKING:
    from audits.gradients.counts import Counts

SHOWN = ("cosine", "norm_ratio", "sign_agreement", "weighted_sign_agreement", "relative_error")


def coverage(counts: "Counts") -> Coverage:
    """Return how many comparisons of a gradient of a batch there are, and which methods were left out."""
    given = sum(one.dot[0, -1].size - len(counts.no_file) for one in counts.agreements.values())
    used = sum(int((~np.isnan(one.dot[0, -1])).sum()) for one in counts.agreements.values())
    skipped = tuple(Skipped(reason=f"{name}: {reason}"[:200], count=1) for name, reason in counts.skipped.items())
    if given > used:
        skipped += (Skipped(reason="no finite gradient of any parameter", count=given - used),)
    return Coverage(given=given + len(counts.skipped), used=used, skipped=skipped)


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return the numbers of every batch; empty where a method gives no gradient of a parameter."""
    rows = []
    for method, one in counts.agreements.items():
        tables = {name: table for name, table in one.measures().items() if name in SHOWN}
        tables["reference_square"] = one.reference[0]
        for layer, step, batch in np.ndindex(one.reference.shape[1:]):
            values = {name: float(table[layer, step, batch]) for name, table in tables.items()}
            rows.append(
                {
                    "method": method,
                    "layer": counts.layers[layer],
                    "step": counts.steps[step],
                    "batch": batch,
                    **{name: value if value == value else "" for name, value in values.items()},
                }
            )
    return rows
