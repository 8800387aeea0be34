"""The rows of records.csv, one per clip, and how `miles compare` pairs those of two runs."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from audits.core.records import Coverage, GroupCounts
from audits.group_rates.clips import column_of, coverage_of, keys, row_of, rows_of_left, units
from audits.report.comparison.parts import Ratio, Rows
from audits.speaker_groups.measure import Counts

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


def records(counts: Counts) -> list[dict[str, Any]]:
    """Return one row per given clip: speaker, use, and errors of each system."""
    data, inputs = counts.data, counts.inputs
    rows: list[dict[str, Any]] = []
    words = data.counts[0]
    for number, clip in enumerate(inputs.clips):
        row = row_of(clip, "used", _column, words=int(words.sizes[number]))
        for metric in data.counts:
            errors, size = COUNTED[metric.metric]
            row[size] = int(metric.sizes[number])
            for system, name in enumerate(data.systems):
                row[f"{errors}{name}"] = int(metric.errors[number, system])
        rows.append(row)
    return rows + rows_of_left(inputs.skipped, rows, _column)


def _column(attribute: str) -> str:
    return column_of(attribute, FIXED, ERRORS)


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return errors and reference words or characters of every clip."""
    if name != "rate":
        return None
    errors, size = COUNTED[where["metric"]]
    return Ratio(rows.numbers[f"{errors}{where['system']}"], rows.numbers[size])
