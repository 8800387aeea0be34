"""The rows of records.csv, one per clip, and how `miles compare` pairs those of two runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Coverage, GroupCounts
from audits.group_rates.clips import column_of, coverage_of, keys, row_of, rows_of_left, units
from audits.report.comparison.parts import Ratio, Rows
from audits.speaker_groups.measure import Counts
from probes.speech.clips import Clip, as_columns

__all__ = ["ALIKE", "coverage", "keys", "parts", "records", "units"]

COUNTED = {"wer": ("word_errors_", "words"), "cer": ("character_errors_", "characters")}
"""Columns of errors, before the name of the system, and of what they are counted over."""

ALIKE = ("words", "characters")
"""A path alone does not tell that a clip is still the same: its reference is counted alike, too."""
FIXED = ("path", "line", "speaker", "status", "words", "characters")
ERRORS = ("word_errors_", "character_errors_", "attribute_")
"""What other columns of records.csv are called, and how they begin."""


def coverage(counts: Counts) -> Coverage:
    """Return the number of clips used, of those left out for each reason, and what each group has of them."""
    return coverage_of(len(counts.inputs.clips), counts.inputs.skipped, list(_groups(counts)))


def _groups(counts: Counts) -> Iterator[GroupCounts]:
    """Yield speakers, clips and words of every group that gets a rate."""
    data, cohort = counts.data, counts.cohort
    words = data.counts[0].sizes
    for group, inside in zip(cohort.names, cohort.member, strict=True):
        people = int(np.count_nonzero(np.bincount(data.speakers[inside])))
        clips = int(np.count_nonzero(inside))
        yield GroupCounts(group=group, counts={data.unit: people, "clips": clips, "words": int(words[inside].sum())})


def records(counts: Counts) -> Sequence[Mapping[str, Any]]:
    """Return one row per given clip: speaker, use, and errors of each system."""
    return _Records(counts)


class _Records(Sequence[Mapping[str, Any]]):
    """The rows of the clips that are used, then of those left out; each is made when it is asked for."""

    def __init__(self, counts: Counts) -> None:
        inputs = counts.inputs
        self._clips, self._skipped = inputs.clips, inputs.skipped
        self._numbers: list[tuple[str, NDArray[np.float64]]] = []
        for metric in counts.data.counts:
            errors, size = COUNTED[metric.metric]
            self._numbers.append((size, metric.sizes))
            names = (f"{errors}{name}" for name in counts.data.systems)
            self._numbers += zip(names, metric.errors.T, strict=True)

    def __len__(self) -> int:
        return len(self._clips) + len(self._skipped)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[Mapping[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, Any] | list[Mapping[str, Any]]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        if at >= len(self._clips):
            clip, why = self._skipped[at - len(self._clips)]
            return rows_of_left([(clip, why)], [self[0]], _column)[0]
        return self._of_used(self._clips[at], [int(numbers[at]) for _, numbers in self._numbers])

    def _of_used(self, clip: Clip, values: Sequence[int]) -> Mapping[str, Any]:
        numbers = {name: value for (name, _), value in zip(self._numbers, values, strict=True)}
        # The words of the reference stand before the attributes, all other numbers behind them.
        return row_of(clip, "used", _column, words=numbers["words"]) | numbers

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        columns = self._columns()
        names = list(columns)
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(names, values, strict=True))
        for at in range(len(self._clips), len(self)):
            yield self[at]

    def _columns(self) -> dict[str, Iterable[Any]]:
        """Return the columns of the clips that are used, in the order of a row."""
        clips = as_columns(self._clips)
        found: dict[str, Iterable[Any]] = {
            "path": clips.each_name(),
            "line": clips.each_line(),
            "speaker": (speaker or "" for speaker in clips.each_speaker().values()),
            "status": repeat("used", len(clips)),
        }
        numbers = {name: map(int, values.tolist()) for name, values in self._numbers}
        found["words"] = numbers["words"]
        found |= {_column(name): clips.each_level(name).values() for name in clips.attributes}
        return found | numbers


def _column(attribute: str) -> str:
    return column_of(attribute, FIXED, ERRORS)


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return errors and reference words or characters of every clip."""
    if name != "rate":
        return None
    errors, size = COUNTED[where["metric"]]
    return Ratio(rows.numbers[f"{errors}{where['system']}"], rows.numbers[size])
