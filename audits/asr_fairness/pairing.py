"""How are clips matched over two runs of audit-fairness, and which of its rates do their counts give?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.comparison.parts import Ratio, Rows

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]

ALIKE = ("seconds",)
"""A path alone does not tell that a recording is still the same."""


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return the path of each clip that was used; where one recording holds several, its line in the manifest."""
    paths = rows.text["path"].tolist()
    named = len(set(paths)) == len(paths)
    known = paths if named else rows.text["line"].tolist()
    used = rows.text["status"] == "used"
    return [key if mine else None for key, mine in zip(known, used, strict=True)], () if named else ("manifest",)


def units(rows: Rows) -> Sequence[str]:
    """Return the speakers."""
    return list(rows.text["speaker"])


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return errors and trials of every clip on one layer, or under the checkpoint's own head."""
    if name not in ("error_rate", "head_error_rate"):
        return None
    stem = f"{where['task']}_{where['metric']}"
    return Ratio(rows.numbers[f"{stem}_errors_{where.get('layer', 'head')}"], rows.numbers[f"{stem}_size"])
