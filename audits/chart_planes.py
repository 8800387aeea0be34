"""How are two numbers of a thing drawn against each other, and single things by how far away they are?

Charts in the manner of `audits.charts` whose points have an interval both ways, or none and a text beside them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from audits.chart_parts import COLUMNS, MOST_SERIES, OKABE_ITO, PANEL_HEIGHT, PANEL_WIDTH, UNDECIDED, Axis, Rows
from audits.chart_text import Side, distinct, finer, plain_rows, span_of
from audits.records import Json

PLANE_WIDTH, PLANE_HEIGHT = 300, 340
"""Pixels: the width at which labels must not meet, that of a phone, and the height of a lone panel."""
LETTER, LINE, MARGIN = 6.5, 14.0, 8.0
"""Pixels that a letter of a label is wide, a label high, and how far it may reach beyond the panel."""
MOST_LABELS = 12
ROW = 38
"""Pixels of a row of dots, which holds a text and, under it, its point."""
CLEAR = "transparent"
PLACES: Mapping[str, tuple[str, int, int]] = {
    "above": ("left", 8, -8),
    "below": ("left", 8, 17),
    "above left": ("right", -8, -8),
    "below left": ("right", -8, 17),
    "over": ("center", 0, -18),
    "under": ("center", 0, 28),
}
"""Where a label may stand, clear of the bars: which side is held, and how far right of and below its point."""


def plane(
    rows: Rows,
    *,
    x: Axis,
    y: Axis,
    label: str,
    kind: str,
    kinds: Mapping[str, str],
    hollow: str,
    order: str,
    named: str,
) -> Json:
    """Draw points with an interval both ways, in the keys `<field>_low` and `<field>_high` of either axis.

    Parameters
    ----------
    kind, kinds
        Key of what a point is, and the shape of each kind, in the order of the colours.
    hollow, named
        Keys of whether a point is drawn hollow, and has its label beside it rather than in its tooltip only.
    order
        Key of the place on the line that joins points; those without one are not joined.
    """
    table = plain_rows(rows)
    across, up = _ends(x.field), _ends(y.field)
    _name(table, x, y, label, named)
    sides = {"x": _side(x, table, across), "y": _side(y, table, up)}
    scale = {"domain": list(kinds), "range": list(OKABE_ITO[: len(kinds)])}
    shade = {"field": kind, "type": "nominal", "scale": scale, "legend": None}
    shape = {**shade, "scale": {"domain": list(kinds), "range": list(kinds.values())}}
    inside = {**shade, "condition": {"test": f"datum[{json.dumps(hollow)}]", "value": CLEAR}}
    hints = _hints([(label, ""), (x.field, x.title), (y.field, y.title)], [x, y])
    line: Json = {
        "transform": [{"filter": f"isValid(datum[{json.dumps(order)}])"}],
        "mark": {"type": "line", "strokeWidth": 1, "color": UNDECIDED},
        "encoding": {**sides, "order": {"field": order, "type": "quantitative"}},
    }
    points = {
        "mark": {"type": "point", "size": 80, "strokeWidth": 2, "opacity": 1},
        "encoding": {**sides, "stroke": shade, "fill": inside, "shape": shape, "tooltip": hints},
    }
    # A layer without a row would have axes without ends, of which browsers complain.
    joined = [line] if any(row[order] is not None for row in table) else []
    bars = _bars(x, y, sides, {"strokeWidth": 1.5, "opacity": 0.6}, {"color": shade})
    return _whole([*joined, *bars, points, *_words(table, sides)], table, PLANE_HEIGHT)


def paths(rows: Rows, *, x: Axis, y: Axis, series: str, order: str) -> Json:
    """Draw one line per series through points with an interval both ways, in the order of the key `order`.

    More than four series become small multiples, in each of which the others stand in grey.
    """
    table = plain_rows(rows)
    names = distinct(table, series)
    apart = len(names) > MOST_SERIES
    sides = {"x": _side(x, table, _ends(x.field)), "y": _side(y, table, _ends(y.field))}
    shade: Json = {"color": {"value": OKABE_ITO[0]}}
    if 1 < len(names) <= MOST_SERIES:
        scale = {"domain": names, "range": list(OKABE_ITO[: len(names)])}
        columns = len(names) if sum(len(str(name)) for name in names) <= 30 else 1
        legend = {"title": None, "orient": "top", "symbolOpacity": 1, "columns": columns}
        shade = {"color": {"field": series, "type": "nominal", "sort": names, "scale": scale, "legend": legend}}
        # Colour never stands alone.
        shade["shape"] = {"field": series, "type": "nominal", "sort": names, "scale": {"domain": names}}
    drawn: Json = {"color": shade["color"]}
    along: Json = {"order": {"field": order, "type": "quantitative"}}
    hints = _hints([(series, ""), (order, ""), (x.field, x.title), (y.field, y.title)], [x, y])
    layers: list[Json] = [
        *_bars(x, y, sides, {"strokeWidth": 1.5, "opacity": 0.45}, drawn),
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {**sides, **along, **drawn}},
        {
            "mark": {"type": "point", "filled": True, "size": 24, "opacity": 1},
            "encoding": {**sides, **shade, "tooltip": hints},
        },
    ]
    if not apart:
        return _whole(layers, table, PLANE_HEIGHT)
    keys = (x.field, y.field, order)
    others = [{**{key: row[key] for key in keys}, "other": row[series]} for row in table]
    ground = {
        # Rows of its own are not split among the panels.
        "data": {"values": others},
        "mark": {"type": "line", "strokeWidth": 1, "opacity": 0.35, "color": UNDECIDED},
        "encoding": {**sides, **along, "detail": {"field": "other", "type": "nominal"}},
    }
    # The last label of a panel would run into the first one of the next.
    sides["x"]["axis"]["labelFlush"] = True
    return _panels([ground, *layers], table, series, names)


def dots(rows: Rows, *, value: Axis, label: str, edge: float | None) -> Json:
    """Draw one point per row in the order of the rows, its text above it, beside a rule at `edge`."""
    table = [{**row, "rank": rank} for rank, row in enumerate(plain_rows(rows))]
    side = _side(value, table, [], edge)
    place: Json = {"field": "rank", "type": "ordinal", "axis": None}
    hints = _hints([(key, "") for key in table[0] if key not in ("rank", value.field)] if table else [], [])
    hints += _hints([(value.field, value.title)], [value])
    where: Json = {"y": place}
    under = {**where, "x": side}
    layers: list[Json] = [
        {
            "mark": {
                "type": "text",
                "align": "left",
                "dx": 6,
                "dy": -8,
                "fontSize": 12,
                "limit": {"expr": "width - 6"},
            },
            "encoding": {**where, "x": {"value": 0}, "text": {"field": label, "type": "nominal"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1, "yOffset": 8, "color": OKABE_ITO[0]},
            "encoding": {**under, "tooltip": hints},
        },
    ]
    if edge is not None:
        for row in table:
            row["edge"] = edge
        level = {**side, "field": "edge", "aggregate": "min"}
        beyond = {**where, "x": {**side, "field": "edge"}, "x2": {"field": value.field}}
        layers[:0] = [
            {"mark": {"type": "rule", "strokeDash": [4, 3], "color": UNDECIDED}, "encoding": {"x": level}},
            {"mark": {"type": "rule", "yOffset": 8, "opacity": 0.6, "color": UNDECIDED}, "encoding": beyond},
        ]
    return _whole(layers, table, max(len(table), 1) * ROW)


def _ends(field: str) -> list[str]:
    return [f"{field}_low", f"{field}_high"]


def _side(axis: Axis, rows: list[Json], ends: Sequence[str], *more: float | None) -> Json:
    """Return where marks stand in one direction, with the digits that tell the ticks apart."""
    low, high = span_of([*rows, *({axis.field: number} for number in more)], [axis.field, *ends], zero=axis.zero)
    ticks: Json = {"title": axis.title, "tickCount": 6, "labelSeparation": 8}
    if axis.format:
        ticks["format"] = finer(axis.format, low, high)
    return {"field": axis.field, "type": "quantitative", "scale": {"zero": axis.zero}, "axis": ticks}


def _bars(x: Axis, y: Axis, sides: Json, looks: Json, shade: Json) -> list[Json]:
    """Return the intervals of both directions; a point without one has none."""
    found: list[Json] = []
    for axis, side, other in ((x, "x", "y"), (y, "y", "x")):
        low, high = _ends(axis.field)
        ends: Json = {side: {**sides[side], "field": low}, f"{side}2": {"field": high}, other: sides[other]}
        known: list[Json] = [{"filter": f"isValid(datum[{json.dumps(low)}])"}]
        found.append({"transform": known, "mark": {"type": "rule", **looks}, "encoding": {**ends, **shade}})
    return found


def _words(rows: list[Json], sides: Json) -> list[Json]:
    """Return one layer of labels for each side on which any stands."""
    layers: list[Json] = []
    for side in distinct(rows, "side"):
        held, right, down = PLACES[side]
        layers.append(
            {
                "transform": [{"filter": f"datum.side == '{side}'"}],
                "mark": {"type": "text", "align": held, "dx": right, "dy": down, "fontSize": 12},
                "encoding": {**sides, "text": {"field": "name", "type": "nominal"}},
            }
        )
    return layers


def _name(rows: list[Json], x: Axis, y: Axis, label: str, named: str) -> None:
    """Give each row that is named the `name` that stands at its point and the `side` of it, where one is free."""
    sides = [
        Side(axis.field, *span_of(rows, [axis.field, *_ends(axis.field)], zero=axis.zero), size)
        for axis, size in ((x, PLANE_WIDTH), (y, PLANE_HEIGHT))
    ]
    points = [(sides[0].pixel(row), sides[1].pixel(row)) for row in rows]
    taken = [(a - 5, a + 5, b - 5, b + 5) for a, b in points]
    for row, (a, b) in zip(rows, points, strict=True):
        if not row[named]:
            continue
        # Towards the farther edge first, and never beyond one: a phone would cut the label.
        order = ("right", "left", "center") if a > PLANE_WIDTH / 2 else ("left", "right", "center")
        for side in sorted(PLACES, key=lambda side: order.index(PLACES[side][0])):
            box = _box(a, b, str(row[label]), side)
            if box[0] < -MARGIN or box[1] > PLANE_WIDTH + MARGIN:
                continue
            if not any(box[0] < o[1] and o[0] < box[1] and box[2] < o[3] and o[2] < box[3] for o in taken):
                row.update(name=str(row[label]), side=side)
                taken.append(box)
                break


def _box(a: float, b: float, text: str, side: str) -> tuple[float, float, float, float]:
    """Return left, right, lower and upper end of a label in pixels; heights grow upwards."""
    held, right, down = PLACES[side]
    width = LETTER * len(text)
    left = a + right - {"left": 0.0, "center": width / 2, "right": width}[held]
    return left, left + width, b - down - 3, b - down - 3 + LINE


def _hints(named: Sequence[tuple[str, str]], axes: Sequence[Axis]) -> list[Json]:
    """List what a mark tells when pointed at; the values of these axes with their intervals."""
    formats = {axis.field: axis.format for axis in axes}
    hints: list[Json] = []
    for key, title in named:
        if key not in formats:
            hints.append({"field": key, "type": "nominal", "title": title or key})
            continue
        style: Json = {"type": "quantitative", "format": formats[key] or ".3~g"}
        hints.append({"field": key, "title": title, **style})
        if len(axes) > 1:
            words = zip(_ends(key), ("from", "to"), strict=True)
            hints += [{"field": end, "title": f"{key} {word}", **style} for end, word in words]
    return hints


def _whole(layers: list[Json], rows: list[Json], height: int) -> Json:
    return {**_schema(), "data": {"values": rows}, "layer": layers, "width": "container", "height": height}


def _panels(layers: list[Json], rows: list[Json], field: str, names: Sequence[Any]) -> Json:
    facet = {"field": field, "type": "nominal", "sort": list(names), "header": {"title": None, "labelLimit": 0}}
    inner: Json = {"layer": layers, "width": PANEL_WIDTH, "height": PANEL_HEIGHT}
    return {
        **_schema(),
        "data": {"values": rows},
        "facet": facet,
        "spec": inner,
        "columns": min(COLUMNS, len(names)),
    }


def _schema() -> Json:
    import altair as alt

    return {"$schema": alt.SCHEMA_URL}
