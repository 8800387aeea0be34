"""The rows of records.csv, one per clip, and the pairing of clips and rates of two runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from audits.asr_fairness.counts import TaskCounts
from audits.core.records import Coverage
from audits.group_rates.clips import column_of, coverage_of, keys, row_of, rows_of_left, units
from audits.report.comparison.parts import Ratio, Rows
from probes.speech.frames import RATE

if TYPE_CHECKING:
    # It imports torch, which comparing two runs does without.
    from audits.asr_fairness.measure import Counts

__all__ = ["ALIKE", "coverage", "keys", "parts", "records", "units"]
FIXED = ("path", "line", "speaker", "status", "seconds", "text")
"""Columns of records.csv that are always there."""
ALIKE = ("seconds",)
"""A path alone does not tell that a recording is still the same."""


def coverage(counts: "Counts") -> Coverage:
    """Return the number of clips used, and the reasons why others were not."""
    return coverage_of(len(counts.inputs.recordings), counts.inputs.skipped)


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return one row per given clip: speaker, use, and errors on every layer."""
    inputs, rows = counts.inputs, list[dict[str, Any]]()
    errors = [_errors(task, len(inputs.recordings)) for task in counts.tasks]
    for number, item in enumerate(inputs.recordings):
        seconds = round(item.samples / RATE, 3)
        row = row_of(item.clip, "used", _column, seconds=seconds, text=item.text)
        for cells in errors:
            row |= cells[number]
        row |= {f"asr_text_{layer}": texts[number] for layer, texts in counts.hypotheses.items()}
        rows.append(row)
    return rows + rows_of_left(inputs.skipped, rows, _column)


def _column(attribute: str) -> str:
    return column_of(attribute, FIXED)


def _errors(task: TaskCounts, recordings: int) -> list[dict[str, Any]]:
    """Return trials and errors on every layer of each recording; empty cells where it took no part."""
    stem = f"{task.task}_{task.metric}"
    names = [f"{stem}_size", *(f"{stem}_errors_{layer}" for layer in task.layers)]
    found: list[dict[str, Any]] = [dict.fromkeys(names, "")] * recordings
    # Each deal is a trial here, so that all cells are whole numbers.
    times = 1 if task.deals is None else len(task.deals)
    for clip, size, errors in zip(task.clips.tolist(), task.sizes, task.errors, strict=True):
        found[clip] = dict(zip(names, (round(times * value) for value in (size, *errors)), strict=True))
    return found


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return errors and trials of every clip on one layer, or under the checkpoint's own head."""
    if name not in ("error_rate", "head_error_rate"):
        return None
    stem = f"{where['task']}_{where['metric']}"
    return Ratio(rows.numbers[f"{stem}_errors_{where.get('layer', 'head')}"], rows.numbers[f"{stem}_size"])
