"""The rows of records.csv, one a clip; and how the clips of two runs are matched, and which rates they give."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness.counts import TaskCounts
from audits.comparison.parts import Ratio, Rows
from audits.records import Coverage
from probes.frames import RATE

if TYPE_CHECKING:
    # It imports torch, which comparing two runs does without.
    from audits.asr_fairness.measure import Counts

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]

FIXED = ("path", "line", "speaker", "status", "seconds", "text")
"""Columns of records.csv that are always there."""
ALIKE = ("seconds",)
"""A path alone does not tell that a recording is still the same."""


def coverage(counts: "Counts") -> Coverage:
    """Return how many clips were used, and why others were not."""
    inputs = counts.inputs
    used = len(inputs.recordings)
    return Coverage(given=used + len(inputs.skipped), used=used, skipped=inputs.reasons)


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return one row a clip given: who, whether it was used, and its errors on every layer."""
    inputs, rows = counts.inputs, []
    errors = [_errors(task, len(inputs.recordings)) for task in counts.tasks]
    for number, item in enumerate(inputs.recordings):
        row: dict[str, Any] = {"path": item.clip.name, "line": item.clip.line, "speaker": item.speaker}
        row |= {"status": "used", "seconds": round(item.samples / RATE, 3), "text": item.text}
        row |= {_column(name): level for name, level in item.clip.attributes.items()}
        for cells in errors:
            row |= cells[number]
        row |= {f"asr_text_{layer}": texts[number] for layer, texts in counts.hypotheses.items()}
        rows.append(row)
    empty = dict.fromkeys(rows[0], "")
    for clip, reason in inputs.skipped:
        known = {"path": clip.name, "line": clip.line, "speaker": clip.speaker or "", "status": reason}
        levels = {_column(name): level for name, level in clip.attributes.items()}
        rows.append({**empty, **known, **levels})
    return rows


def _column(name: str) -> str:
    """Return the column of an attribute in records.csv, apart from the columns that are always there."""
    return f"attribute_{name}" if name in FIXED else name


def _errors(task: TaskCounts, recordings: int) -> list[dict[str, Any]]:
    """Return trials, and errors on every layer, of each recording; empty cells where it took no part."""
    stem = f"{task.task}_{task.metric}"
    names = [f"{stem}_size", *(f"{stem}_errors_{layer}" for layer in task.layers)]
    found: list[dict[str, Any]] = [dict.fromkeys(names, "")] * recordings
    # Each deal is a trial here, so that all cells are whole numbers.
    times = 1 if task.deals is None else len(task.deals)
    for clip, size, errors in zip(task.clips.tolist(), task.sizes, task.errors, strict=True):
        found[clip] = dict(zip(names, (round(times * value) for value in (size, *errors)), strict=True))
    return found


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
