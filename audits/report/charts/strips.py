"""Single values as dots: in rows by group, in columns with intervals, or along the texts that they belong to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from audits.core.records import Json
from audits.report.charts.axes import Axis, fitted, level_at, position, widened, words_of
from audits.report.charts.marks import alone, dashed, grey_where, has, layer
from audits.report.charts.text import Rows, plain, plain_rows, span_of
from audits.report.charts.theme import OKABE_ITO, UNDECIDED

HEIGHT, STRIP, TEXT = 300, 64, 38
"""Pixels of a chart of columns, of a row of dots, and of a row that holds a text and, under it, its point."""
GOLDEN = 0.6180339887
"""Steps of this share never come near each other: dots of a row are spread without chance."""
SPREAD = 0.62


def strips(
    rows: Rows,
    means: Mapping[str, float],
    *,
    value: Axis,
    group: str,
    hints: Sequence[str],
    greyed: str | None = None,
) -> Json:
    """Draw one row of dots per group in the order of `means`, each mean as an upright line.

    Parameters
    ----------
    group, greyed
        Keys of the group of a dot, and of whether it is drawn grey.
    hints
        Keys of what a dot says when pointed at.
    """
    names = list(means)
    seen = dict.fromkeys(names, 0)
    table = []
    for row in sorted(plain_rows(rows, value.field), key=lambda row: (names.index(row[group]), row[value.field])):
        seen[row[group]] += 1
        # Spread without randomness: the same report must give the same picture.
        spread = (seen[row[group]] * GOLDEN) % 1 - 0.5
        table.append({**row, "at": float(f"{names.index(row[group]) + 0.5 + SPREAD * spread:.4g}")})
    axis = _within(value, table, value.field)
    across = position("x", axis, table)
    down = _rows_down(names)
    marks = [
        {value.field: plain(mean), "from": at + 0.12, "to": at + 0.88, group: name}
        for at, (name, mean) in enumerate(means.items())
    ]
    mean_hints = [
        {"field": group, "type": "nominal", "title": "mean of"},
        {"field": value.field, "type": "quantitative", "title": value.title, "format": "+.3~g"},
    ]
    faint = {"condition": {"test": f"datum[{json.dumps(greyed)}]", "value": 0.5}, "value": 0.9}
    dots = {"x": across, "y": down, "color": grey_where(greyed), "opacity": faint, "tooltip": words_of(hints)}
    upright = {"x": across, "y": {**down, "field": "from"}, "y2": {"field": "to"}, "tooltip": mean_hints}
    layers = [
        dashed({"x": {**across, "field": "at"}}, rows=[{"at": 0.0}]),
        layer("point", dots, filled=True, size=36),
        layer("rule", upright, rows=marks, strokeWidth=3, color=OKABE_ITO[1]),
    ]
    return alone(layers, table, STRIP * len(names))


def _rows_down(names: Sequence[str]) -> Json:
    """Return an axis with a row for each name, broken into lines at its comma."""
    return {
        "field": "at",
        "type": "quantitative",
        "scale": {"domain": [0, len(names)], "nice": False, "reverse": True},
        "axis": {
            "title": None,
            "values": [index + 0.5 for index in range(len(names))],
            "labelExpr": f"{json.dumps([name.split(', ', 1) for name in names])}[floor(datum.value)]",
            "grid": False,
            "ticks": False,
            "domain": False,
            "labelLimit": 160,
        },
    }


def columns(
    rows: Rows,
    *,
    value: Axis,
    low: str,
    high: str,
    dots: str,
    label: str,
    title: str,
    hints: Sequence[str],
    greyed: str | None = None,
    labelled: bool = True,
) -> Json:
    """Draw one column per row, in the order of the rows: its interval and a dot for each of its values.

    Parameters
    ----------
    dots
        Key of the values.
    label, labelled
        Key of the name of a column, and whether names stand under the columns.
    title
        What the columns are.
    hints
        Keys of what a column says when pointed at.
    """
    table = [
        {**row, "rank": rank, dots: [one for one in row[dots] if one is not None]}
        for rank, row in enumerate(plain_rows(rows, value.field))
    ]
    every = [{value.field: one} for row in table for one in row[dots]]
    axis = _within(value, [*table, *every], value.field, low, high)
    up = position("y", axis, table)
    looks: Json = {"title": title, "grid": False, "ticks": False, "labels": labelled}
    if labelled:
        names = [str(row[label]) for row in table]
        looks |= {"values": list(range(len(table))), "labelExpr": f"{json.dumps(names)}[datum.value]"}
        looks |= {"labelAngle": -90, "labelAlign": "right", "labelBaseline": "middle", "labelOverlap": "greedy"}
        looks |= {"labelFontSize": 10}
    scale = {"domain": [-0.7, len(table) - 0.3], "nice": False, "zero": False}
    along: Json = {"field": "rank", "type": "quantitative", "scale": scale, "axis": looks}
    style: Json = {"color": grey_where(greyed), "tooltip": words_of(hints)}
    thick = {"expr": f"max(1.5, min(9, 0.55 * width / {max(len(table), 1)}))"}
    interval: Json = {"x": along, "y": {**up, "field": low}, "y2": {"field": high}, **style}
    each: Json = {"x": along, "y": {**up, "field": dots}, **style}
    layers = [
        dashed({"y": {**up, "field": "at"}}, rows=[{"at": 0.0}]),
        layer("rule", interval, only=has(low), strokeWidth=thick, opacity=0.3),
        {**layer("point", each, filled=True, size=16, opacity=0.9), "transform": [{"flatten": [dots]}]},
    ]
    return alone(layers, table, HEIGHT)


def _within(value: Axis, rows: Sequence[Json], *fields: str) -> Axis:
    """Return an axis that holds zero and all numbers with room at its edges."""
    ends = widened(span_of(rows, fields, zero=True))
    return fitted(replace(value, ends=ends), list(rows))


def texts(rows: Rows, *, value: Axis, label: str, edge: float | None) -> Json:
    """Draw one point per row in the order of the rows, with its text above it and a rule at `edge`."""
    table = [{**row, "rank": rank} for rank, row in enumerate(plain_rows(rows, value.field))]
    if edge is not None:
        table = [{**row, "edge": edge} for row in table]
    axis = fitted(value, table, *(["edge"] if edge is not None else []))
    side = position("x", axis, table)
    where: Json = {"y": {"field": "rank", "type": "ordinal", "axis": None}}
    hints = words_of([key for key in table[0] if key not in ("rank", "edge", value.field)] if table else [])
    hints.append({"field": value.field, "title": value.title, "type": "quantitative", "format": axis.format or ".3~g"})
    text = {**where, "x": {"value": 0}, "text": {"field": label, "type": "nominal"}}
    looks: Json = {"align": "left", "dx": 6, "dy": -8, "fontSize": 12, "limit": {"expr": "width - 6"}}
    point = {**where, "x": side, "tooltip": hints}
    layers = [
        layer("text", text, **looks),
        layer("point", point, filled=True, size=60, opacity=1, yOffset=8, color=OKABE_ITO[0]),
    ]
    if edge is not None and table:
        beyond = {**where, "x": position("x", axis, table, "edge"), "x2": {"field": value.field}}
        layers[:0] = [
            dashed({"x": {**side, **level_at("edge", axis)}}),
            layer("rule", beyond, yOffset=8, opacity=0.6, color=UNDECIDED),
        ]
    return alone(layers, table, max(len(table), 1) * TEXT)
