"""The figures of the audit, each titled with the question that it answers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audits.asr_fairness.comparisons import FEWEST_LAYERS, Comparison
from audits.asr_fairness.contrasts import contrasts
from audits.asr_fairness.counts import BASELINE, HEAD, TaskCounts
from audits.asr_fairness.measure import Counts
from audits.asr_fairness.recordings import Inputs
from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import percent
from audits.core.records import Coordinate, Estimate, Figure, Json
from audits.report.charts import Axis, bars, figure_of, forest, heat_map, lines, points

TITLES = {"sid": "speaker identification", "asr": "transcription"}


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures; those of a comparison only where there is one."""
    tasks = [task for task in counts.tasks if task.compared]
    yield from (figure for figure in _drawn(draft, counts, tasks) if figure.spec)
    if counts.inputs.skipped:
        yield _coverage(counts.inputs)


def _drawn(draft: Draft, counts: Counts, tasks: Sequence[TaskCounts]) -> Iterator[Figure]:
    if any(counts.of(task) for task in tasks):
        yield _forest(draft, [counts.of(task) for task in tasks])
    small = {str(warning.where["group"]) for warning in draft.warnings if warning.id == "small-group"}
    for task in tasks:
        single = [comparison for comparison in counts.of(task) if not comparison.crossed]
        if single:
            yield _curves(draft, task, max(single, key=lambda one: _gap(draft, one, task.best).low or -1.0))
            yield _against(draft, task, single)
        yield _map(draft, task, small)


def _gap(draft: Draft, comparison: Comparison, layer: int) -> Estimate:
    return draft.row("gap", **comparison.at(layer, kind="absolute"))


def _order(layer: Coordinate) -> float:
    return float("inf") if layer == HEAD else float(layer)


def _name(layer: Coordinate) -> str:
    return "log-mel" if layer == BASELINE else "own head" if layer == HEAD else str(layer)


def _rates(draft: Draft, task: TaskCounts) -> list[Mapping[str, Any]]:
    """Return the error rates of a metric, in the order of the layers; a layer by its name."""
    rows = draft.rows("error_rate", **task.where) + draft.rows("head_error_rate", **task.where)
    ordered = sorted(rows, key=lambda row: _order(row.get("layer", HEAD)))
    return [{**row, "layer": _name(row.get("layer", HEAD))} for row in ordered]


def _error_axis(task: TaskCounts, field: str = "value") -> Axis:
    title = "Speakers mistaken (share of clips)" if task.task == "sid" else "Word error rate"
    return Axis(field, title, format=".2f", zero=True)


def _curves(draft: Draft, task: TaskCounts, shown: Comparison) -> Figure:
    data = [
        {name: row[name] for name in ("layer", "group", "value", "low", "high")}
        for row in _rates(draft, task)
        if row["group"] in shown.names
    ]
    spec = lines(
        data,
        x=Axis("layer", "Layer", kind="ordinal"),
        y=_error_axis(task),
        low="low",
        high="high",
        series="group",
        series_title=shown.by,
        apart=(_name(BASELINE), _name(HEAD)),
    )
    return figure_of(
        f"{task.task}-layers",
        f"In which layers do the groups differ in {TITLES[task.task]}?",
        f"Error of the probe on each layer for each group by {shown.by}, with {percent(draft.level)} intervals "
        "over speakers. Where bands of two groups overlap widely, no difference can be read off.",
        spec,
    )


def _against(draft: Draft, task: TaskCounts, comparisons: Sequence[Comparison]) -> Figure:
    data = [
        {
            "error": draft.row("error_rate", **task.at(layer), group=ALL).value,
            "gap": _gap(draft, comparison, layer).value,
            "layer": _name(layer),
            "order": task.layers.index(layer),
            "by": f"by {comparison.by}",
        }
        for comparison in comparisons
        for layer in task.encoder_layers
    ]
    spec: Json = {}
    if len(task.encoder_layers) >= FEWEST_LAYERS:
        spec = points(
            data,
            x=Axis("error", "Overall error of the layer", format=".2f", zero=False),
            y=Axis("gap", "Gap, worst against best group", format=".2f", zero=True),
            label="layer",
            order="order",
            facet="by" if len({row["by"] for row in data}) > 1 else None,
        )
    return figure_of(
        f"{task.task}-pattern",
        f"Do better layers have smaller gaps in {TITLES[task.task]}?",
        "Each point is a layer, joined in order. Rising to the right: layers with more error have larger "
        "gaps. The gap of worst against best group is never below zero, even by chance; the noise floor in the "
        "tables says how large chance alone makes it.",
        spec,
    )


def _map(draft: Draft, task: TaskCounts, small: set[str]) -> Figure:
    data = [
        {
            **{name: row[name] for name in ("layer", "group", "value")},
            "small": row["group"] in small,
            "speakers": row["n"],
        }
        for row in _rates(draft, task)
        if "&" not in row["group"]
    ]
    spec = heat_map(
        data,
        x=Axis("layer", "Layer", kind="ordinal"),
        y=Axis("group", "", kind="ordinal"),
        value=_error_axis(task),
        diverging=False,
        faded="small",
    )
    return figure_of(
        f"{task.task}-map",
        f"Which group has how much error on which layer in {TITLES[task.task]}?",
        "Error by group and layer; faded rows rest on too few speakers or words to be relied on.",
        spec,
    )


def _forest(draft: Draft, tasks: Sequence[Sequence[Comparison]]) -> Figure:
    data = []
    for comparisons in tasks:
        judged = contrasts(draft, comparisons)
        for contrast in sorted(judged, key=lambda one: comparisons.index(one.comparison)):
            comparison, layer = contrast.comparison, contrast.layer
            where = _name(layer) if layer == HEAD else f"layer {layer}"
            data.append(
                {
                    "by": f"{comparison.worst(layer)} against {comparison.best(layer)}",
                    "value": contrast.gap.value,
                    "low": contrast.gap.low,
                    "high": contrast.gap.high,
                    "panel": f"{TITLES[comparison.task.task].capitalize()}, {where}",
                    "undecided": not contrast.shown,
                }
            )
    spec = forest(
        data,
        label="by",
        value=Axis("value", "Gap in error, worst against best group", format=".2f"),
        low="low",
        high="high",
        reference=0.0,
        facet="panel",
        greyed="undecided",
    )
    return figure_of(
        "gaps",
        "Which gaps are beyond chance?",
        "Gap between the worst and the best group by each attribute and crossing, on the layer with the least "
        f"error and on the checkpoint's own head. The {percent(draft.level)} intervals hold for all pairs of groups of "
        "one attribute at once. Grey: not beyond chance once all the comparisons of the task are counted.",
        spec,
    )


def _coverage(inputs: Inputs) -> Figure:
    """Return the number of clips used and left out, by group."""
    clips = [(item.clip, "used") for item in inputs.recordings] + [(clip, "left out") for clip, _ in inputs.skipped]
    found = Counter((f"{name}={level}", status) for clip, status in clips for name, level in clip.attributes.items())
    spec = bars(
        [{"group": group, "status": status, "clips": count} for (group, status), count in sorted(found.items())],
        label="group",
        value=Axis("clips", "Clips", format="d"),
        series="status",
        series_title="",
    )
    return figure_of(
        "coverage", "Whose clips were left out?", "Clips used and left out for each level of each attribute.", spec
    )
