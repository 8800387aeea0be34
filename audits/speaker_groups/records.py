"""The rows of records.csv, one a clip, and how `miles compare` pairs those of two runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.comparison.parts import Ratio, Rows
from audits.records import Coverage
from audits.speaker_groups.measure import Counts

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]
COUNTED = {"wer": ("word_errors_", "words"), "cer": ("character_errors_", "characters")}
"""Columns of errors, before the name of the system, and of what they are counted over."""

ALIKE = ("words", "characters")
"""A path alone does not tell that a clip is still the same: its reference is counted alike, too."""
FIXED = ("path", "line", "speaker", "status", "words", "characters")
ERRORS = ("word_errors_", "character_errors_", "attribute_")
"""What other columns of records.csv are called, and how they begin."""


def coverage(counts: Counts) -> Coverage:
    """Return how many clips were used, and how many were left out for each reason."""
    used, inputs = len(counts.inputs.clips), counts.inputs
    return Coverage(given=used + len(inputs.skipped), used=used, skipped=inputs.reasons)


def records(counts: Counts) -> list[dict[str, Any]]:
    """Return one row a clip given: who, whether it was used, and what each system got wrong."""
    data, inputs = counts.data, counts.inputs
    rows: list[dict[str, Any]] = []
    words = data.counts[0]
    for number, clip in enumerate(inputs.clips):
        row: dict[str, Any] = {"path": clip.name, "line": clip.line, "speaker": clip.speaker or ""}
        row |= {"status": "used", "words": int(words.sizes[number])}
        row |= {_column(name): level for name, level in clip.attributes.items()}
        for metric in data.counts:
            errors, size = COUNTED[metric.metric]
            row[size] = int(metric.sizes[number])
            for system, name in enumerate(data.systems):
                row[f"{errors}{name}"] = int(metric.errors[number, system])
        rows.append(row)
    empty = dict.fromkeys(rows[0], "")
    for clip, reason in inputs.skipped:
        named = {"path": clip.name, "line": clip.line, "speaker": clip.speaker or "", "status": reason}
        rows.append({**empty, **named, **{_column(name): level for name, level in clip.attributes.items()}})
    return rows


def _column(name: str) -> str:
    """Return the column of an attribute in records.csv, apart from the columns that are always there."""
    return f"attribute_{name}" if name in FIXED or name.startswith(ERRORS) else name


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
