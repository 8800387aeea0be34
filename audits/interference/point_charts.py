"""Cells drawn as points: against each other, in groups, and over trainings."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from audits.chart_parts import OKABE_ITO, PANEL_WIDTH, STACKED_WIDTH, UNDECIDED, Axis
from audits.chart_text import Side, finer, name_points, plain_rows, span_of
from audits.records import Json

HEIGHT, SQUARE, ROW = 300, 380, 64
"""Pixels of a chart, of one whose two axes are alike, and of a row of dots."""
GOLDEN = 0.6180339887
"""Steps of this share never come near each other: dots of a row are spread without chance."""
SPREAD = 0.62
EDGE = 0.3
"""Share of a chart's width at its right edge in which labels stand to the left of their points."""
LABELS = {"above": ("left", 7, -7), "below": ("left", 7, 14), "above left": ("right", -7, -7),
          "below left": ("right", -7, 14)}  # fmt: skip
_ZERO: Json = {"type": "rule", "color": UNDECIDED, "strokeDash": [4, 3]}


def points(
    rows: Sequence[Mapping[str, Any]],
    *,
    x: Axis,
    y: Axis,
    label: str,
    told: Sequence[str],
    alike: bool,
    cloud: Sequence[tuple[float, float]] = (),
) -> Json:
    """Draw points with an interval each way, in the keys `<field>_low` and `<field>_high`, where they have one.

    Parameters
    ----------
    rows
        With the keys `open`, whether a point is drawn faint, and `named`, whether its label stands beside it.
    told
        Keys of what a point tells when pointed at.
    alike
        Whether both axes are one: they are as long as each other, and have a diagonal.
    cloud
        More points, (x, y), too many to tell anything of.
    """
    table = plain_rows(rows)
    spans = [span_of(table, _fields(axis), zero=axis.zero) for axis in (x, y)]
    if alike:
        met = [number for pair in cloud for number in pair] + [end for span in spans for end in span]
        spans = [(min(met), max(met))] * 2
    ends = [_widened(span) for span in spans]
    sides = {"x": _side(x, ends[0]), "y": _side(y, ends[1])}
    height = SQUARE if alike else HEIGHT
    named = [row for row in table if row["named"]]
    name_points(named, Side(x.field, *ends[0], PANEL_WIDTH * 1.5), Side(y.field, *ends[1], height), label)
    _turn_in(named, x.field, ends[0])
    layers = [*_lines_of(ends, x, y, alike), *_cloud(cloud, sides), *_bars(x, y, sides)]
    hints = [{"field": key, "type": "nominal", "title": key} for key in told]
    tone = {"condition": {"test": "datum.open", "value": UNDECIDED}, "value": OKABE_ITO[0]}
    fill = {"condition": {"test": "datum.open", "value": "transparent"}, "value": OKABE_ITO[0]}
    fainter = {"condition": {"test": "datum.open", "value": 0.8}, "value": 1}
    layers.append(
        {
            "mark": {"type": "point", "size": 50, "strokeWidth": 1.5},
            "encoding": {**sides, "stroke": tone, "fill": fill, "opacity": fainter, "tooltip": hints},
        }
    )
    layers += _words(named, sides)
    return {**_schema(), "data": {"values": table}, "layer": layers, "width": "container", "height": height}


def groups(rows: Sequence[Mapping[str, Any]], means: Mapping[str, float], *, value: Axis, told: Sequence[str]) -> Json:
    """Draw one row of dots per group, in the order of `means`, which are drawn as a tick each.

    Rows hold `group` and `open`, whether a dot is drawn faint.
    """
    names = list(means)
    seen = dict.fromkeys(names, 0)
    table = []
    for row in sorted(plain_rows(rows), key=lambda row: (names.index(row["group"]), row[value.field])):
        at = names.index(row["group"])
        seen[row["group"]] += 1
        # Not at random: the same report has to give the same picture.
        spread = (seen[row["group"]] * GOLDEN) % 1 - 0.5
        table.append({**row, "at": float(f"{at + 0.5 + SPREAD * spread:.4g}")})
    marks = [{value.field: float(f"{mean:.6g}"), "from": at + 0.12, "to": at + 0.88, "group": name}
             for at, (name, mean) in enumerate(means.items())]  # fmt: skip
    ends = _widened(span_of(table, [value.field], zero=True))
    labels = [name.split(", ", 1) for name in names]
    across = _side(value, ends)
    down = {
        "field": "at",
        "type": "quantitative",
        "scale": {"domain": [0, len(names)], "nice": False, "reverse": True},
        "axis": {
            "title": None,
            "values": [place + 0.5 for place in range(len(names))],
            "labelExpr": f"{json.dumps(labels)}[floor(datum.value)]",
            "grid": False,
            "ticks": False,
            "domain": False,
            "labelLimit": 160,
        },
    }
    hints = [{"field": key, "type": "nominal", "title": key} for key in told]
    tone = {"condition": {"test": "datum.open", "value": UNDECIDED}, "value": OKABE_ITO[0]}
    fainter = {"condition": {"test": "datum.open", "value": 0.5}, "value": 0.9}
    dots: Json = {
        "mark": {"type": "point", "filled": True, "size": 36},
        "encoding": {"x": across, "y": down, "color": tone, "opacity": fainter, "tooltip": hints},
    }
    means_of: Json = {
        "data": {"values": marks},
        "mark": {"type": "rule", "strokeWidth": 3, "color": OKABE_ITO[1]},
        "encoding": {
            "x": across,
            "y": {**down, "field": "from"},
            "y2": {"field": "to"},
            "tooltip": [
                {"field": "group", "type": "nominal", "title": "mean of"},
                {"field": value.field, "type": "quantitative", "title": value.title, "format": "+.3~g"},
            ],
        },
    }
    layers = [_rule_at("x", across, 0.0), dots, means_of]
    return {**_schema(), "data": {"values": table}, "layer": layers, "width": "container", "height": ROW * len(names)}


def ranked(rows: Sequence[Mapping[str, Any]], *, value: Axis, label: str, told: Sequence[str], labelled: bool) -> Json:
    """Draw one column per row, in the order of the rows: the interval, its middle, and a dot per training.

    Rows hold `low`, `high` and `open`, and under `seeds` the values of the trainings.
    """
    table = [{**plain, "rank": rank, "seeds": [float(f"{one:.6g}") for one in row["seeds"]]}
             for rank, (plain, row) in enumerate(zip(plain_rows(rows), rows, strict=True))]  # fmt: skip
    every = [{value.field: one} for row in table for one in row["seeds"]]
    ends = _widened(span_of([*table, *every], [value.field, "low", "high"], zero=True))
    up = _side(value, ends)
    names = [str(row[label]) for row in table]
    axis: Json = {"title": "Cells, by value (held-out ← added)", "grid": False, "ticks": False, "labels": labelled}
    if labelled:
        axis |= {"values": list(range(len(table))), "labelExpr": f"{json.dumps(names)}[datum.value]",
                 "labelAngle": -90, "labelAlign": "right", "labelBaseline": "middle", "labelOverlap": "greedy",
                 "labelFontSize": 10}  # fmt: skip
    along = {
        "field": "rank",
        "type": "quantitative",
        "scale": {"domain": [-0.7, len(table) - 0.3], "nice": False, "zero": False},
        "axis": axis,
    }
    tone = {"condition": {"test": "datum.open", "value": UNDECIDED}, "value": OKABE_ITO[0]}
    hints = [{"field": key, "type": "nominal", "title": key} for key in told]
    thick = {"expr": f"max(1.5, min(9, 0.55 * width / {max(len(table), 1)}))"}
    interval: Json = {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "rule", "strokeWidth": thick, "opacity": 0.3},
        "encoding": {"x": along, "y": {**up, "field": "low"}, "y2": {"field": "high"}, "color": tone, "tooltip": hints},
    }
    trainings: Json = {
        "transform": [{"flatten": ["seeds"]}],
        "mark": {"type": "point", "filled": True, "size": 16, "opacity": 0.9},
        "encoding": {"x": along, "y": {**up, "field": "seeds"}, "color": tone, "tooltip": hints},
    }
    layers = [_rule_at("y", up, 0.0), interval, trainings]
    return {**_schema(), "data": {"values": table}, "layer": layers, "width": "container", "height": HEIGHT}


def _schema() -> Json:
    import altair as alt

    return {"$schema": alt.SCHEMA_URL}


def _fields(axis: Axis) -> list[str]:
    return [axis.field, f"{axis.field}_low", f"{axis.field}_high"]


def _widened(span: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of an axis with a little room, so that no mark lies on its edge."""
    room = 0.05 * (span[1] - span[0]) or 0.05 * abs(span[0]) or 1.0
    return float(f"{span[0] - room:.6g}"), float(f"{span[1] + room:.6g}")


def _side(axis: Axis, ends: tuple[float, float]) -> Json:
    ticks: Json = {"title": axis.title, "tickCount": 6, "labelSeparation": 8}
    if axis.format:
        ticks["format"] = finer(axis.format, *ends)
    scale = {"domain": list(ends), "nice": False, "zero": False}
    return {"field": axis.field, "type": "quantitative", "scale": scale, "axis": ticks}


def _rule_at(side: str, looks: Json, at: float) -> Json:
    return {"data": {"values": [{"at": at}]}, "mark": _ZERO, "encoding": {side: {**looks, "field": "at"}}}


def _lines_of(ends: Sequence[tuple[float, float]], x: Axis, y: Axis, alike: bool) -> list[Json]:
    """Return the lines of no effect, and the diagonal of two axes that are one."""
    found = [
        _rule_at(side, _side(axis, span), 0.0)
        for side, axis, span in zip("xy", (x, y), ends, strict=True)
        if axis.zero and span[0] < 0 < span[1]
    ]
    if alike:
        low, high = ends[0]
        place = {"x": {**_side(x, ends[0]), "field": "at"}, "y": {**_side(y, ends[1]), "field": "at"}}
        mark = {"type": "line", "color": UNDECIDED, "strokeWidth": 1}
        found.append({"data": {"values": [{"at": low}, {"at": high}]}, "mark": mark, "encoding": place})
    return found


def _cloud(cloud: Sequence[tuple[float, float]], sides: Json) -> list[Json]:
    if not cloud:
        return []
    low, high = sides["x"]["scale"]["domain"]
    places = 3 - math.floor(math.log10(high - low))
    first, second = ([round(pair[side], places) for pair in cloud] for side in (0, 1))
    mark = {"type": "point", "filled": True, "size": 8, "opacity": 0.35, "color": UNDECIDED}
    where = {"x": {**sides["x"], "field": "a"}, "y": {**sides["y"], "field": "b"}}
    return [
        {
            "data": {"values": [{"a": first, "b": second}]},
            "transform": [{"flatten": ["a", "b"]}],
            "mark": mark,
            "encoding": where,
        }
    ]


def _bars(x: Axis, y: Axis, sides: Json) -> list[Json]:
    tone = {"condition": {"test": "datum.open", "value": UNDECIDED}, "value": OKABE_ITO[0]}
    fainter = {"condition": {"test": "datum.open", "value": 0.3}, "value": 0.6}
    found: list[Json] = []
    for axis, side, other in ((x, "x", "y"), (y, "y", "x")):
        low, high = _fields(axis)[1:]
        ends = {side: {**sides[side], "field": low}, f"{side}2": {"field": high}, other: sides[other]}
        found.append(
            {
                "transform": [{"filter": f"isValid(datum[{json.dumps(low)}])"}],
                "mark": {"type": "rule", "strokeWidth": 1},
                "encoding": {**ends, "color": tone, "opacity": fainter},
            }
        )
    return found


def _turn_in(rows: Sequence[Json], field: str, ends: tuple[float, float]) -> None:
    """Hold labels near the right edge on their right side: a phone would cut them."""
    edge = ends[1] - EDGE * (ends[1] - ends[0])
    for row in rows:
        if row[field] > edge:
            row["side"] = f"{row['side'].removesuffix(' left')} left"


def _words(rows: Sequence[Json], sides: Json) -> list[Json]:
    layers: list[Json] = []
    for side, (held, right, down) in LABELS.items():
        if any(row["side"] == side for row in rows):
            layers.append(
                {
                    "transform": [{"filter": f"datum.side == '{side}'"}],
                    "mark": {"type": "text", "align": held, "dx": right, "dy": down, "fontSize": 12},
                    "encoding": {**sides, "text": {"field": "name", "type": "nominal"}},
                }
            )
    return layers


def stacked(views: Sequence[tuple[str, Json]]) -> Json:
    """Put charts under one another, each under its title; a single one stands alone."""
    if len(views) == 1:
        return views[0][1]
    inner = [
        {**{key: part for key, part in view.items() if key != "$schema"}, "width": STACKED_WIDTH,
         "title": {"text": title, "anchor": "start", "frame": "group"}}
        for title, view in views
    ]  # fmt: skip
    return {**_schema(), "vconcat": inner}
