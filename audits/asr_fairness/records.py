"""The rows of records.csv, one per clip, and the pairing of clips and rates of two runs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

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


def records(counts: "Counts") -> Sequence[dict[str, Any]]:
    """Return one row per given clip: speaker, use, and errors on every layer; each is made when it is asked for."""
    return _Records(counts)


class _Records(Sequence[dict[str, Any]]):
    """The rows of all clips, of which none is held: those of a million clips would take gigabytes."""

    def __init__(self, counts: "Counts") -> None:
        self._inputs = counts.inputs
        self._cells = [_Cells(task, len(counts.inputs.recordings)) for task in counts.tasks]
        self._heard = counts.hypotheses
        drawn = counts.inputs.sample
        clips = range(len(counts.inputs.recordings)) if drawn is None else drawn.clips.tolist()
        self._position = {clip: position for position, clip in enumerate(clips)}

    def __len__(self) -> int:
        return len(self._inputs.recordings) + len(self._inputs.skipped)

    @overload
    def __getitem__(self, number: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, number: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, number: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(number, slice):
            return [self[one] for one in range(len(self))[number]]
        at, used = range(len(self))[number], len(self._inputs.recordings)
        if at < used:
            return self._used(at)
        (row,) = rows_of_left(self._inputs.skipped[at - used : at - used + 1], [self._used(0)], _column)
        return row

    def _used(self, number: int) -> dict[str, Any]:
        item = self._inputs.recordings[number]
        row = row_of(item.clip, "used", _column, seconds=round(item.samples / RATE, 3), text=item.text)
        for cells in self._cells:
            row |= cells[number]
        position = self._position.get(number)
        # A clip that was not drawn was not heard.
        return row | {
            f"asr_text_{layer}": "" if position is None else texts[position] for layer, texts in self._heard.items()
        }


def _column(attribute: str) -> str:
    return column_of(attribute, FIXED)


class _Cells:
    """Trials and errors on every layer of each recording; empty cells where it took no part.

    Where clips were drawn, what each counts stands beside.
    """

    def __init__(self, task: TaskCounts, recordings: int) -> None:
        stem = f"{task.task}_{task.metric}"
        self._task = task
        self._names = [f"{stem}_size", *(f"{stem}_errors_{layer}" for layer in task.layers)]
        self._weight = [] if task.weights is None else [f"{stem}_weight"]
        self._row = np.full(recordings, -1, dtype=np.int64)
        self._row[task.clips] = np.arange(len(task.clips))
        # Each deal is a trial here, so that all cells are whole numbers.
        self._times = 1 if task.deals is None else len(task.deals)

    def __getitem__(self, clip: int) -> dict[str, Any]:
        row = int(self._row[clip])
        if row < 0:
            return dict.fromkeys([*self._names, *self._weight], "")
        task = self._task
        weight = 1.0 if task.weights is None else float(task.weights[row])
        values = (task.sizes[row], *task.errors[row].tolist())
        found: dict[str, Any] = {
            name: round(self._times * value / weight) for name, value in zip(self._names, values, strict=True)
        }
        # As many digits as tell the same rates.
        return found | {name: float(f"{weight:.9g}") for name in self._weight}


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return errors and trials of every clip on one layer, or under the checkpoint's own head."""
    if name not in ("error_rate", "head_error_rate"):
        return None
    stem = f"{where['task']}_{where['metric']}"
    errors, trials = rows.numbers[f"{stem}_errors_{where.get('layer', 'head')}"], rows.numbers[f"{stem}_size"]
    weight = rows.numbers.get(f"{stem}_weight")
    return Ratio(errors, trials) if weight is None else Ratio(errors * weight, trials * weight)
