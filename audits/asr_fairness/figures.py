"""The charts of the audit, each answering the question in its title."""

from collections.abc import Sequence

from audits.asr_fairness.counts import BASELINE, HEAD, TaskCounts
from audits.asr_fairness.gaps import FEWEST_LAYERS, GapRows
from audits.charts import Axis, bars, forest, heat_map, interval_lines, scatter
from audits.context import Draft
from audits.numbers import percent
from audits.records import Coordinate, Estimate, Figure, Json

TITLES = {"sid": "speaker identification", "asr": "transcription"}


def draw(draft: Draft, counts: Sequence[TaskCounts], rows: Sequence[GapRows], small: set[str]) -> list[Figure]:
    """Return the figures; those of a comparison only where there is one."""
    figures: list[Figure] = []
    for task in (task for task in counts if task.metric != "cer"):
        mine = [row for row in rows if row.comparison.counts is task]
        shown = _widest(draft, mine, task)
        if shown is not None:
            figures += [_curves(draft, task, shown), _against(draft, task, mine)]
        figures.append(_map(draft, task, small))
    compared = [row for row in rows if row.comparison.counts.metric != "cer"]
    if compared:
        figures.insert(0, _forest(draft, compared))
    return [figure for figure in figures if figure.spec]


def _widest(draft: Draft, rows: Sequence[GapRows], task: TaskCounts) -> GapRows | None:
    """Return the single attribute with the largest gap on the best layer."""
    singles = [row for row in rows if "&" not in row.comparison.groups.by]
    best = task.best()
    return max(singles, key=lambda row: draft.estimates[row.gap[best, "absolute"]].low or -1.0, default=None)


def _order(layer: Coordinate) -> float:
    return float("inf") if layer == HEAD else float(layer)


def _name(layer: Coordinate) -> str:
    return "log-mel" if layer == BASELINE else "own head" if layer == HEAD else str(layer)


def _rates(draft: Draft, task: TaskCounts) -> list[tuple[Coordinate, Estimate]]:
    """Return the error rates of a metric with their layers, in the order of the layers."""
    rows = [
        (row.where.get("layer", HEAD), row)
        for row in draft.estimates
        if row.name in ("error_rate", "head_error_rate")
        and row.where["task"] == task.task
        and row.where["metric"] == task.metric
    ]
    return sorted(rows, key=lambda pair: _order(pair[0]))


def _error_axis(task: TaskCounts, field: str = "value") -> Axis:
    title = "Speakers mistaken (share of clips)" if task.task == "sid" else "Word error rate"
    return Axis(field, title, format=".2f", zero=True)


def _curves(draft: Draft, task: TaskCounts, shown: GapRows) -> Figure:
    names = set(shown.comparison.names)
    data = [
        {
            "layer": _name(layer),
            "group": str(row.where["group"]),
            "value": row.value,
            "low": row.low,
            "high": row.high,
        }
        for layer, row in _rates(draft, task)
        if row.where["group"] in names
    ]
    by = shown.comparison.groups.by
    spec = interval_lines(
        data,
        x=Axis("layer", "Layer", kind="ordinal"),
        y=_error_axis(task),
        low="low",
        high="high",
        series="group",
        series_title=by,
    )
    return Figure(
        id=f"{task.task}-layers",
        title=f"In which layers do the groups differ in {TITLES[task.task]}?",
        caption=f"Error of the probe on each layer for each group by {by}, with {_level(draft)} intervals over "
        "speakers. Where bands of two groups overlap widely, no difference can be read off.",
        file=f"{task.task}-layers",
        spec=spec,
    )


def _against(draft: Draft, task: TaskCounts, rows: Sequence[GapRows]) -> Figure:
    overall = {layer: row.value for layer, row in _rates(draft, task) if row.where["group"] == "all"}
    data = [
        {
            "error": overall[task.layers[column]],
            "gap": draft.estimates[row.gap[column, "absolute"]].value,
            "layer": _name(task.layers[column]),
            "order": column,
            "by": f"by {row.comparison.groups.by}",
        }
        for row in rows
        if "&" not in row.comparison.groups.by
        for column in task.numbered()
    ]
    spec: Json = {}
    if len(task.numbered()) >= FEWEST_LAYERS:
        spec = scatter(
            data,
            x=Axis("error", "Overall error of the layer", format=".2f", zero=False),
            y=Axis("gap", "Gap, worst against best group", format=".2f", zero=True),
            label="layer",
            order="order",
            facet="by" if len({row["by"] for row in data}) > 1 else None,
        )
    return Figure(
        id=f"{task.task}-pattern",
        title=f"Do better layers have smaller gaps in {TITLES[task.task]}?",
        caption="Each point is a layer, joined in order. Rising to the right: layers with more error have larger "
        "gaps. The gap of worst against best group is never below zero, even by chance; the noise floor in the "
        "tables says how large chance alone makes it.",
        file=f"{task.task}-pattern",
        spec=spec,
    )


def _map(draft: Draft, task: TaskCounts, small: set[str]) -> Figure:
    data = [
        {
            "layer": _name(layer),
            "group": str(row.where["group"]),
            "value": row.value,
            "small": row.where["group"] in small,
            "speakers": row.n,
        }
        for layer, row in _rates(draft, task)
        if str(row.where["group"]).count("&") == 0
    ]
    spec = heat_map(
        data,
        x=Axis("layer", "Layer", kind="ordinal"),
        y=Axis("group", "", kind="ordinal"),
        value=_error_axis(task),
        diverging=False,
        faded="small",
    )
    return Figure(
        id=f"{task.task}-map",
        title=f"Which group has how much error on which layer in {TITLES[task.task]}?",
        caption="Error by group and layer; faded rows rest on too few speakers or words to be relied on.",
        file=f"{task.task}-map",
        spec=spec,
    )


def _forest(draft: Draft, rows: Sequence[GapRows]) -> Figure:
    data = []
    for row in rows:
        task = row.comparison.counts
        columns = [task.best()] + ([task.layers.index(HEAD)] if HEAD in task.layers else [])
        for column in columns:
            gap = draft.estimates[row.gap[column, "absolute"]]
            layer = _name(task.layers[column])
            place = layer if layer == "own head" else f"layer {layer}"
            data.append(
                {
                    "by": f"{row.worst[column]} against {row.best[column]}",
                    "value": gap.value,
                    "low": gap.low,
                    "high": gap.high,
                    "panel": f"{TITLES[task.task].capitalize()}, {place}",
                    "undecided": not row.found.get(column, False),
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
    return Figure(
        id="gaps",
        title="Which gaps are beyond chance?",
        caption="Gap between the worst and the best group by each attribute and crossing, on the layer with the least "
        f"error and on the checkpoint's own head. The {_level(draft)} intervals hold for all pairs of groups of one "
        "attribute at once. Grey: not beyond chance once all the comparisons of the task are counted.",
        file="gaps",
        spec=spec,
    )


def coverage_figure(rows: Sequence[Json]) -> Figure:
    """Return how many clips were used and left out, by group."""
    spec = bars(
        rows,
        label="group",
        value=Axis("clips", "Clips", format="d"),
        series="status",
        series_title="",
    )
    return Figure(
        id="coverage",
        title="Whose clips were left out?",
        caption="Clips used and left out for each level of each attribute.",
        file="coverage",
        spec=spec,
    )


def _level(draft: Draft) -> str:
    return percent(draft.estimates[0].level)
