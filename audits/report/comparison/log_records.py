"""Logs of another harness as a run that can be compared: a report of mean scores, and the records that give them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audits.core.measures import Measure
from audits.core.records import (
    Answer,
    Coordinate,
    Coverage,
    Estimate,
    KeyNumber,
    Provenance,
    Report,
    Source,
    Subject,
)
from audits.report.comparison.comparing import Run
from audits.report.comparison.parts import Parts, Ratio, Rows
from audits.report.comparison.record_columns import Floats
from audits.report.comparison.tables import Table
from audits.statistics.binomial import clopper_pearson
from audits.statistics.clustered_rates import rate_intervals
from audits.statistics.mean_intervals import mean_interval
from probes.core.errors import InputError
from probes.eval_logs.scores import Column, Sample, TaskLog, digest, mean

LEVEL = 0.95
KEYS = ("task", "scorer", "metric", "filter")
SCORE = Measure("score", KEYS, "mean score", unit="samples", worse="down", apart=KEYS)
LOSS = Measure("loss", KEYS, "mean of a metric that is better the lower", unit="samples", worse="up", apart=KEYS)
VALUE = Measure("value", KEYS, "mean of a metric without a direction", unit="samples", apart=KEYS)
MEASURES = {True: SCORE, False: LOSS, None: VALUE}
"""By whether more is better; None where nobody says."""
MOST_CELLS = 50_000_000
"""Metrics times samples of a run."""
RUN_WIDE = frozenset({"model arguments", "generation", "limit", "system instruction", "chat template"})
"""Settings that are as a rule the same for all tasks of a run, and are then told once."""

Direction = Mapping[tuple[str, Column], bool | None]
"""Whether more is better, by task and metric."""


class LogPairing:
    """How the records of two logs belong together: by sample, also across tasks, and sampled by cluster."""

    def keys(self, rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
        """Return the hash of id and content of each sample."""
        return list(rows.text["key"]), ()

    def units(self, rows: Rows) -> Sequence[str]:
        """Return the cluster of each sample, which is the sample itself where it has none."""
        return list(rows.text["unit"])

    def parts(self, rows: Rows, name: str, where: Mapping[str, Coordinate]) -> Parts | None:
        """Return the scores of the samples of the task; those that it lacks have none."""
        scores = rows.numbers[_column_name(where)]
        return Ratio(scores, np.ones(len(scores)))


def directions(logs: Iterable[TaskLog], *, of_range: bool) -> dict[tuple[str, Column], bool | None]:
    """Return whether more is better, for each metric of each task; None where logs do not say, or not the same.

    `of_range` takes scores that are between 0 and 1 in all logs as better the higher, for a harness that says nothing.
    """
    found: dict[tuple[str, Column], list[bool | None]] = {}
    for log in logs:
        for column in log.columns:
            said = log.higher_is_better.get(column)
            if said is None and of_range:
                said = True if all(0 <= one.scores.get(column, 0) <= 1 for one in log.samples) else None
            found.setdefault((log.task, column), []).append(said)
    return {place: said[0] if len(set(said)) == 1 else None for place, said in found.items()}


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of one run: one model on some tasks, under the name of the run."""

    name: str
    logs: tuple[TaskLog, ...]
    notes: tuple[str, ...] = ()


def run_of(taken: Logs, harness: str, better: Direction) -> Run:
    """Return the logs as a run: its report has an estimate for each task and metric, its records a row a sample."""
    notes = (*taken.notes, *(note for log in taken.logs for note in (*log.notes, *_clustered(log))))
    table = _table(taken.logs, taken.name)
    return Run(
        name=taken.name,
        folder=Path(taken.logs[0].path).parent,
        report=_report(taken.logs, harness, better),
        records=(table, LogPairing()),
        notes=notes,
    )


def _clustered(log: TaskLog) -> Iterator[str]:
    if log.clusters:
        count = len({sample.cluster for sample in log.samples})
        yield f"{len(log.samples):,} samples of {log.task} are in {count:,} clusters by {log.clusters}."


def _where(task: str, column: Column) -> dict[str, Coordinate]:
    values = zip(KEYS, (task, column.scorer, column.metric, column.filter), strict=True)
    return {key: value for key, value in values if value}


def _column_name(where: Mapping[str, Coordinate]) -> str:
    """Return the name of the column of a metric, from the coordinates of its estimate."""
    return "score " + json.dumps([where.get(key, "") for key in KEYS])


def _table(logs: Sequence[TaskLog], name: str) -> Table:
    """Return a row for each sample, with the scores of all tasks that it is in, so that a task may be renamed.

    A float is the shortest text that is read as it again.

    Raises
    ------
    InputError
        Where there are too many metrics and samples.
    """
    units: dict[str, str] = {}
    columns: dict[str, dict[str, str]] = {}
    # By name, so that a sample of two tasks has one record in both runs, in whatever order they took them.
    for log in sorted(logs, key=lambda log: log.task):
        for sample in log.samples:
            unit = digest(sample.cluster or sample.key)
            # What is of another cluster in another task is another record.
            key = sample.key if units.get(sample.key, unit) == unit else digest(sample.key, log.task)
            units[key] = unit
            for column, score in sample.scores.items():
                columns.setdefault(_column_name(_where(log.task, column)), {})[key] = repr(score)
    if len(columns) * len(units) > MOST_CELLS:
        message = f"{len(columns):,} metrics of {len(units):,} samples are more than {MOST_CELLS:,} cells."
        raise InputError(message, where=name, hint="Compare fewer tasks at a time.")
    cells = {column: [scores.get(key, "") for key in units] for column, scores in columns.items()}
    return Table({"key": list(units), "unit": list(units.values()), **cells}, len(units), name)


def _report(logs: Sequence[TaskLog], harness: str, better: Direction) -> Report:
    rows = [_estimate(log, column, MEASURES[better[log.task, column]]) for log in logs for column in log.columns]
    count = sum(len(log.samples) for log in logs)
    # Every score is a main number; a table of them has no headline.
    numbers = tuple(KeyNumber(row=row, words=one.measure.label) for row, one in enumerate(rows))
    return Report(
        audit=harness,
        title=f"Logs of {harness}",
        question="Which model scores higher?",
        created=max(log.created for log in logs),
        subject=Subject(path=logs[0].model, family=harness, sha256="", parameters=0),
        data=tuple(Source(role="logs", path=log.path, sha256=log.sha256, items=len(log.samples)) for log in logs),
        settings={"level": LEVEL, **_settings(logs)},
        estimates=tuple(rows),
        findings=(),
        warnings=(),
        limitations=(),
        coverage=Coverage(given=count, used=count),
        gates=(),
        figures=(),
        provenance=_provenance(logs),
        answer=Answer(title="", numbers=numbers),
    )


def _settings(logs: Sequence[TaskLog]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in dict.fromkeys(name for log in logs for name in log.settings):
        values = [log.settings.get(name) for log in logs]
        if name in RUN_WIDE and all(value == values[0] for value in values):
            found[name] = values[0]
        else:
            found |= {f"{name} of {log.task}": log.settings[name] for log in logs if name in log.settings}
    return found


def _provenance(logs: Sequence[TaskLog]) -> Provenance:
    versions = {name: version for log in logs for name, version in [log.harness] if version}
    return Provenance(
        miles="",
        python="",
        packages=versions,
        platform="",
        device="",
        dtype="",
        threads=0,
        seed=0,
        command=(),
        seconds={},
    )


def _estimate(log: TaskLog, column: Column, measure: Measure) -> Estimate:
    """Return the mean of a metric over the samples of a task, with an interval over whole clusters."""
    scored = [sample for sample in log.samples if column in sample.scores]
    sums, sizes = _by_cluster(scored, column)
    value = mean(scored, column) or 0.0
    found = _interval(value, sums, sizes, bounded=all(0 <= one.scores[column] <= 1 for one in scored))
    unit = f"clusters of {log.clusters}" if log.clusters else "samples" if len(sums) == len(scored) else "documents"
    return Estimate(
        name=measure.name,
        value=value,
        low=found and found[1],
        high=found and found[2],
        level=LEVEL,
        method=found[0] if found else "none",
        n=len(sums),
        unit=unit,
        where=_where(log.task, column),
        measure=measure,
    )


def _by_cluster(scored: Sequence[Sample], column: Column) -> tuple[Floats, Floats]:
    """Return the sum of the scores of each cluster and how many samples it has, both of shape (clusters,)."""
    names: dict[str, int] = {}
    codes = np.array([names.setdefault(one.cluster or one.key, len(names)) for one in scored], dtype=np.int64)
    scores = np.array([one.scores[column] for one in scored], dtype=np.float64)
    return np.bincount(codes, weights=scores).astype(np.float64), np.bincount(codes).astype(np.float64)


def _interval(value: float, sums: Floats, sizes: Floats, *, bounded: bool) -> tuple[str, float, float] | None:
    """Return method and ends; None where there are too few clusters, or they do not vary in what has no bounds."""
    if len(sums) < 2:
        return None
    if np.array_equal(sizes, np.ones_like(sizes)) and np.isin(sums, (0.0, 1.0)).all():
        # Right or wrong, each sample for itself: what has an exact interval needs no other.
        return "Clopper-Pearson", *clopper_pearson(int(sums.sum()), len(sums), level=LEVEL)
    if bounded:
        found = rate_intervals(sums[:, None], sizes[:, None], level=LEVEL)
        return found.method[0], min(float(found.low[0]), value), max(float(found.high[0]), value)
    # To first order the mean moves by this with each cluster, about its value.
    wide = mean_interval(value + (sums - value * sizes) / sizes.mean(), level=LEVEL)
    return None if wide is None else (wide[0], *wide[1])
