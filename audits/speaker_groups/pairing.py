"""How are clips matched over two runs of audit-groups, and which of its rates do their counts give?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.comparison.parts import Ratio, Rows

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]
COUNTED = {"wer": ("word_errors_", "words"), "cer": ("character_errors_", "characters")}
"""Columns of errors, before the name of the system, and of what they are counted over."""

ALIKE = ("words", "characters")
"""A path alone does not tell that a clip is still the same: its reference is counted alike, too."""


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return the path of each clip that was used; where paths are missing or repeat, its line in the manifest."""
    known, named = _known(rows.text)
    used = rows.text["status"] == "used"
    return [key if mine else None for key, mine in zip(known, used, strict=True)], () if named else ("manifest",)


def units(rows: Rows) -> Sequence[str]:
    """Return the speakers; a clip of nobody stands for itself."""
    return [who or f"\n{clip}" for who, clip in zip(rows.text["speaker"], _known(rows.text)[0], strict=True)]


def _known(text: Words) -> tuple[Sequence[str], bool]:
    paths = text["path"].tolist()
    named = all(paths) and len(set(paths)) == len(paths)
    return (paths if named else text["line"].tolist()), named


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return errors and reference words or characters of every clip."""
    if name != "rate":
        return None
    errors, size = COUNTED[where["metric"]]
    return Ratio(rows.numbers[f"{errors}{where['system']}"], rows.numbers[size])
