"""Points of two numbers each, with an interval both ways where there is one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from audits.core.records import Json
from audits.report.charts.axes import Axis, amounts_of, ends_of, fitted, position, tooltips, widened, words_of
from audits.report.charts.labels import Side, label_layers, name_points
from audits.report.charts.marks import assembled, dashed, flag, grey_where, has, layer
from audits.report.charts.text import Rows, panels_of, plain, plain_rows, span_of
from audits.report.charts.theme import CLEAR, OKABE_ITO, PANEL_HEIGHT, PANEL_WIDTH, PHONE_WIDTH, SQUARE, UNDECIDED

HEIGHT = 300
"""Pixels of a lone panel of points."""


def points(
    rows: Rows,
    *,
    x: Axis,
    y: Axis,
    label: str | None = None,
    named: str | None = None,
    kind: str | None = None,
    kinds: Mapping[str, str] | None = None,
    hollow: str | None = None,
    greyed: str | None = None,
    order: str | None = None,
    facet: str | None = None,
    hints: Sequence[str] | None = None,
    alike: bool = False,
    cloud: Sequence[tuple[float, float]] = (),
) -> Json:
    """Draw points with an interval each way, in the keys `<field>_low` and `<field>_high`, where they have one.

    Points that lie on each other have one label with all their names. Where an axis that reaches zero has numbers on
    both sides of it, a dashed line stands at zero.

    Parameters
    ----------
    label, named
        Key of the name that stands beside a point, and of whether it does; names without room are left to tooltips.
    kind, kinds
        Key of what a point is, and the shape of each kind, in the order of the colours.
    hollow, greyed
        Keys of whether a point is drawn hollow, and grey.
    order
        Key of the place on the line that joins the points; those without one are not joined.
    facet
        Key of the panel, where there are small multiples.
    hints
        Keys of what a point says when pointed at. Without them it says its name and numbers and their intervals or,
        where there are none, all that its row holds.
    alike
        Whether both axes are one: they are as long as each other, and have a diagonal.
    cloud
        More points, (x, y), too many to say anything of.
    """
    # A point without a logarithm cannot be drawn on a log axis.
    logs = [axis.field for axis in (x, y) if axis.scale == "log"]
    table = [row for row in plain_rows(rows, x.field, y.field) if all(row[field] > 0 for field in logs)]
    cloud = [pair for pair in cloud if all(map(math.isfinite, pair))]
    spans = [
        span_of(table, [axis.field, *ends_of(axis.field)], zero=axis.zero and axis.scale == "linear") for axis in (x, y)
    ]
    if alike:
        every = [number for pair in cloud for number in pair] + [end for span in spans for end in span]
        spans = [(min(every), max(every))] * 2
    x, y = (_with_room(axis, table, span) for axis, span in zip((x, y), spans, strict=True))
    sides = {"x": position("x", x, table), "y": position("y", y, table)}
    tooltip = words_of(hints) if hints is not None else _hints(table, x, y, label)
    height = SQUARE if alike else HEIGHT
    if label is not None:
        size = (PANEL_WIDTH, PANEL_HEIGHT) if facet else (PHONE_WIDTH, height)
        across, up = (Side(axis, pixels) for axis, pixels in zip((x, y), size, strict=True))
        for panel in panels_of(table, facet):
            name_points(panel, across, up, label, named)
    shade, looks = _looks(kind, kinds, hollow, greyed)
    layers = [
        *_guides(x, y, sides, alike=alike),
        *_cloud(cloud, sides, x),
        *_path(table, sides, order),
        *interval_layers(x, y, sides, table, strokeWidth=1.5, opacity=0.5, **shade),
        layer("point", {**sides, **looks, "tooltip": tooltip}, size=50, strokeWidth=1.5, opacity=1),
        *label_layers(table, sides),
    ]
    return assembled(layers, table, facet, height=height)


def _hints(rows: list[Json], x: Axis, y: Axis, label: str | None) -> list[Json]:
    """Return the tooltip of a point: its name, both numbers with their intervals, and all other keys of the rows."""
    ends = [end for axis in (x, y) for end in ends_of(axis.field)]
    if any(row.get(end) is not None for row in rows for end in ends):
        return [*([{"field": label, "type": "nominal", "title": label}] if label else []), *amounts_of([x, y], rows)]
    return tooltips(rows, [*([(label, label)] if label else []), (x.field, x.title), (y.field, y.title)], "", "", "")


def _looks(
    kind: str | None, kinds: Mapping[str, str] | None, hollow: str | None, greyed: str | None
) -> tuple[Json, Json]:
    """Return the colour of intervals and the encodings of points."""
    tone: Json = grey_where(greyed)
    shape: Json = {}
    if kind is not None and kinds is not None:
        tone = {"field": kind, "type": "nominal", "legend": None}
        shape = {"shape": {**tone, "scale": {"domain": list(kinds), "range": list(kinds.values())}}}
        tone = {**tone, "scale": {"domain": list(kinds), "range": list(OKABE_ITO[: len(kinds)])}}
    fill = tone
    if hollow is not None:
        clear = {"test": flag(hollow), "value": CLEAR}
        others = tone.get("condition")
        fill = {**tone, "condition": clear if others is None else [clear, others]}
    return {"color": tone}, {"stroke": tone, "fill": fill, **shape}


def _with_room(axis: Axis, rows: list[Json], span: tuple[float, float]) -> Axis:
    """Return an axis whose ends leave room for the marks; one that begins or ends at zero stays there."""
    if axis.ends is None and axis.scale == "log" and span[0] > 0:
        axis = replace(axis, ends=(plain(0.9 * span[0]), plain(1.1 * span[1])))
    if axis.ends is None and axis.scale == "linear":
        low, high = widened(span)
        held = axis.zero and span[0] != span[1]
        axis = replace(axis, ends=(0.0 if held and span[0] == 0 else low, 0.0 if held and span[1] == 0 else high))
    return fitted(axis, rows, *ends_of(axis.field))


def _guides(x: Axis, y: Axis, sides: Json, *, alike: bool) -> list[Json]:
    """Return the lines of no effect, and the diagonal where both axes have one scale."""
    found = [
        dashed({side: {**sides[side], "field": "at"}}, rows=[{"at": 0.0}])
        for side, axis in zip("xy", (x, y), strict=True)
        if axis.zero and axis.ends is not None and axis.ends[0] < 0 < axis.ends[1]
    ]
    if alike and x.ends is not None:
        channels = {side: {**sides[side], "field": "at"} for side in "xy"}
        found.append(layer("line", channels, rows=[{"at": end} for end in x.ends], color=UNDECIDED, strokeWidth=1))
    return found


def _cloud(cloud: Sequence[tuple[float, float]], sides: Json, x: Axis) -> list[Json]:
    if not cloud:
        return []
    low, high = x.ends or (min(pair[0] for pair in cloud), max(pair[0] for pair in cloud))
    decimals = 3 - math.floor(math.log10((high - low) or 1.0))
    # As two arrays instead of a row for each point, which takes the fewest bytes.
    first, second = ([round(pair[side], decimals) for pair in cloud] for side in (0, 1))
    where = {"x": {**sides["x"], "field": "a"}, "y": {**sides["y"], "field": "b"}}
    mark: Json = {"filled": True, "size": 8, "opacity": 0.35, "color": UNDECIDED}
    return [{**layer("point", where, rows=[{"a": first, "b": second}], **mark), "transform": [{"flatten": ["a", "b"]}]}]


def _path(rows: list[Json], sides: Json, order: str | None) -> list[Json]:
    # A layer without rows would have an empty domain, for which Vega logs warnings in the browser.
    if order is None or all(row[order] is None for row in rows):
        return []
    along = {**sides, "order": {"field": order, "type": "quantitative"}}
    return [layer("line", along, only=has(order), strokeWidth=1, color=UNDECIDED)]


def interval_layers(x: Axis, y: Axis, sides: Json, rows: list[Json], *, color: Json, **looks: Any) -> list[Json]:
    """Return the intervals of both directions; a point without one has none."""
    found = []
    for axis, side, other in ((x, "x", "y"), (y, "y", "x")):
        low, high = ends_of(axis.field)
        if any(row.get(low) is not None for row in rows):
            ends = {side: {**sides[side], "field": low}, f"{side}2": {"field": high}, other: sides[other]}
            found.append(layer("rule", {**ends, "color": color}, only=has(low), **looks))
    return found
