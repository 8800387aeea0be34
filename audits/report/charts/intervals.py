"""Points with their intervals, a row each: estimates beside a reference, and bounds that hold on one side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from audits.core.records import Json
from audits.report.charts.axes import Axis, fitted, legend_of, level_at, position, tooltips, words_of
from audits.report.charts.marks import (
    DASHED,
    alone,
    assembled,
    dashed,
    either,
    flag,
    grey_where,
    layer,
    under_each_other,
)
from audits.report.charts.text import Rows, alike, distinct, height_of, panels_of, plain, plain_rows, span_of
from audits.report.charts.theme import CLEAR, OKABE_ITO, UNDECIDED

LONGEST_TITLE = 26
"""Letters of the title of a panel beyond which a crossing of attributes is broken into lines."""
STEP, ROOM = 11, 1.06
"""Pixels of one of several points on a row, and the factor by which an axis of powers reaches beyond its marks."""
BOUND = 40
"""Pixels of a bound, which holds its words and, under them, its line."""


def forest(
    rows: Rows,
    *,
    label: str,
    value: Axis,
    low: str,
    high: str,
    reference: float | None,
    series: str | None = None,
    facet: str | None = None,
    greyed: str | None = None,
    hollow: bool = False,
    ranked: bool = True,
    tight: bool = False,
    axis_title: bool = True,
    title_break: Literal["", "&", "\n"] = "",
) -> Json:
    """Draw points with their intervals beside a rule at `reference`, the highest on top or, unless `ranked`, the first.

    Panels share one axis unless one spans less than a fifth of another.

    Parameters
    ----------
    series
        Key of what stands side by side on a row, each in its colour and shape, such as the systems.
    greyed, hollow
        Key of whether a row is drawn grey, and whether such a point is hollow, too.
    tight
        Whether an axis that panels share reaches no further than its marks, and has its title under the last alone.
    axis_title
        Whether the axis has its title; of charts that are stacked only the last needs it.
    title_break
        Where the title of a panel goes on in a new line: nowhere, after each `&` where it is long, or where it has
        line breaks.
    """
    ruled = {} if reference is None else {"reference": plain(reference)}
    table = [{**row, **ruled} for row in plain_rows(rows, value.field)]
    table.sort(key=lambda row: (-row[value.field], str(row[label])) if ranked else ())
    ends = (value.field, low, high, *ruled)
    shared = alike([span_of(panel, ends, zero=value.zero) for panel in panels_of(table, facet)])
    axis = value if shared else replace(value, title=f"{value.title} (scales differ)")
    kinds = [] if series is None else distinct(table, series)

    def draw(panel: list[Json], last: bool) -> Json:
        mine = fitted(axis, table if shared else panel, low, high, *ruled)
        drawn = _roomy(replace(mine, zero=mine.zero and not (tight and shared)), table if shared else panel, ends)
        looks = {} if series is None else legend_of(table, series, "")
        if looks and panel[:1] != table[:1]:
            # One legend for all panels.
            looks = {channel: {**look, "legend": None} for channel, look in looks.items()}
        color = looks.pop("color", None)
        color = grey_where(greyed) if color is None else _greyed(color, greyed)
        named = {
            "y": position("y", Axis(label, "", kind="ordinal"), panel),
            **({"yOffset": {"field": series, "type": "nominal", "sort": kinds}} if len(kinds) > 1 else {}),
            "tooltip": tooltips(panel, [(label, label), (value.field, value.title)], low, high, mine.format),
        }
        rule, start, point = (
            level_at("reference", drawn),
            position("x", drawn, panel, low),
            position("x", drawn, panel),
        )
        if not axis_title or (tight and shared and not last):
            rule, start, point = (_untitled(channel) for channel in (rule, start, point))
        interval = {**named, "x": start, "x2": {"field": high}, "color": color}
        layers = [
            # Its position comes from the rows, so it cannot be drawn without any.
            *([dashed({"x": rule})] if panel and ruled else []),
            layer("rule", interval, strokeWidth=2),
            _points({**named, "x": point, **looks}, color, greyed, hollow=hollow),
        ]
        return assembled(layers, panel, None, height=height_of(distinct(panel, label), max(20, STEP * len(kinds) + 6)))

    return under_each_other(draw, table, facet, shared=shared, title=lambda text: _lines_of(text, title_break))


def _roomy(axis: Axis, rows: list[Json], fields: Sequence[str]) -> Axis:
    """Return an axis of powers with room at its ends: an interval that ends at the edge would look cut off."""
    low, high = span_of(rows, fields)
    return replace(axis, ends=(low / ROOM, high * ROOM)) if axis.scale == "log" and not axis.ends and low > 0 else axis


def _greyed(color: Json, greyed: str | None) -> Json:
    return color if greyed is None else {**color, "condition": {"test": flag(greyed), "value": UNDECIDED}}


def _points(encoding: Json, color: Json, greyed: str | None, *, hollow: bool) -> Json:
    if not hollow or greyed is None:
        return layer("point", {**encoding, "color": color}, filled=True, size=60, opacity=1)
    looks = {"stroke": grey_where(greyed), "fill": either(flag(greyed), CLEAR, OKABE_ITO[0])}
    return layer("point", {**encoding, **looks}, filled=False, size=60, opacity=1, strokeWidth=2)


def _untitled(channel: Json) -> Json:
    return {**channel, "title": None, "axis": {**channel.get("axis", {}), "title": None}}


def _lines_of(title: str, at: str) -> str | list[str]:
    """Return the title of a panel, in lines where it is to be broken."""
    if at == "\n":
        return title.split("\n")
    return title.replace("&", "&\n").split("\n") if at == "&" and len(title) > LONGEST_TITLE else title


def bounds(
    rows: Rows,
    *,
    label: str,
    value: Axis,
    until: str,
    words: str,
    kind: str,
    kinds: Mapping[str, str],
    hints: Sequence[str],
    claim: float | None = None,
) -> Json:
    """Draw one-sided bounds, each with its words above it and a line on to its largest possible value.

    An arrow stands where that is beyond the axis.

    Parameters
    ----------
    value
        The bound, on an axis with its ends; without them it reaches as far as the lines do.
    until
        Key of how far the line goes on.
    kind, kinds
        Key of what a bound rests on, and the shape of each, in the order of the colours.
    hints
        Keys of what a bound says when pointed at.
    claim
        A value that a dashed line is drawn at, where it is not beyond the axis.
    """
    low, edge = value.ends or (0.0, max((row[until] for row in rows if math.isfinite(row[until])), default=1.0))
    rows = [row for row in rows if math.isfinite(row[value.field])]
    table = [
        {
            **plain,
            "until": min(row[until], edge),
            "beyond": row[until] > edge,
            # Anchor the words on the side that has room for them.
            "held": "right" if row[value.field] > edge / 2 else "left",
        }
        for row, plain in zip(rows, plain_rows(rows), strict=True)
    ]
    axis = replace(value, ends=(low, float(f"{edge:.4g}")))
    y = position("y", Axis(label, "", kind="ordinal"), table)
    at, end = ({"x": position("x", axis, table, field), "y": y} for field in (value.field, "until"))
    shade: Json = {"field": kind, "type": "nominal", "legend": None}
    tone = {"color": {**shade, "scale": {"domain": list(kinds), "range": list(OKABE_ITO[: len(kinds)])}}}
    shape = {"shape": {**shade, "scale": {"domain": list(kinds), "range": list(kinds.values())}}}
    text = {**at, "text": {"field": words, "type": "nominal"}}
    layers = [
        layer("rule", {**at, "x2": {"field": "until"}, **tone}, strokeWidth=2, opacity=0.55),
        layer("tick", {**end, **tone}, only="!datum.beyond", thickness=2, size=12),
        layer("point", {**end, **tone}, only="datum.beyond", shape="triangle-right", filled=True, size=60, opacity=1),
        layer("point", {**at, **tone, **shape, "tooltip": words_of(hints)}, filled=True, size=90, opacity=1),
        *(
            layer("text", text, only=f"datum.held == '{held}'", dy=-12, fontSize=12, align=held)
            for held in ("left", "right")
        ),
    ]
    if claim is not None and claim <= edge:
        channel = position("x", axis, table, "claimed")
        layers[:0] = [layer("rule", {"x": channel}, rows=[{"claimed": claim}], **DASHED, strokeWidth=1.5)]
    return alone(layers, plain_rows(table), BOUND * len(table))
