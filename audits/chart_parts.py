"""What is a chart made of? Axes, colours, tooltips, and how panels share a page: the parts of all kinds of chart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from audits.chart_text import (
    TICKS,
    decimals_of,
    distinct,
    finer,
    lifts,
    most_lines,
    numeric,
    panels_of,
    span_of,
    titled,
    wrapped,
)
from audits.records import Json

Rows = Sequence[Mapping[str, Any]]

OKABE_ITO = ("#3B8EDE", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442", "#999999")
"""Colours that people with any common colour vision can tell apart; the blue is lighter, for dark pages."""

MOST_SERIES = 4
"""More labelled lines than this in one panel become small multiples."""

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 190, 140, 3
"""Size of one small multiple in pixels and how many stand side by side; the page narrows both on a phone."""

STACKED_WIDTH, HEIGHT = 440, 280
"""Width in pixels of panels that stand under one another, which the page fits to its own; height of a lone panel."""
UNDECIDED = "#888888"
"""Of what is not beyond chance, and of lines that only help to read; one grey for light and dark pages."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What one direction of a chart, or its colour, shows.

    Parameters
    ----------
    field
        Key of the rows.
    title
        Words beside the axis, with the unit in them.
    format
        A d3 number format such as ".2f" or ".0%"; empty leaves it to the scale.
    zero
        Whether the axis must reach zero.
    kind
        How the values are read: "auto" takes numbers as quantities, all else as steps in order of
        appearance.
    scale
        "linear" or, for positive quantities, "log".
    """

    field: str
    title: str
    format: str = ""
    zero: bool = True
    kind: Literal["auto", "quantitative", "ordinal"] = "auto"
    scale: Literal["linear", "log"] = "linear"


def finished(chart: Any, rows: list[Json], facet: str | None, *, height: int) -> Json:
    """Put the data in, once, and make room: as wide as the page, or in small multiples."""
    import altair as alt

    if facet is None or not rows:
        spec: Json = chart.properties(width="container", height=height).to_dict()
    else:
        panels = distinct(rows, facet)
        header = alt.Header(title=None, labelExpr=wrapped("datum.label"), labelLimit=0)
        field = alt.Facet(field=facet, type="nominal", sort=panels, header=header)
        panel = chart.properties(width=PANEL_WIDTH, height=PANEL_HEIGHT)
        # The facet wants data of its own at once; the name stands in until the rows are put at the top below.
        spec = panel.facet(field, data=alt.NamedData(name="rows"), columns=min(COLUMNS, len(panels))).to_dict()
    spec.pop("config", None)
    # Altair gives each layer an empty source of its own, which would hide the rows at the top.
    for view in (*spec.get("layer", ()), *spec.get("spec", {}).get("layer", ())):
        view.pop("data", None)
    return {**spec, "data": {"values": rows}}


def stacked(draw: Callable[[list[Json]], Json], rows: list[Json], facet: str | None, *, shared: bool = True) -> Json:
    """Put one chart per value of `facet` under another, on one axis or each on its own, as high as it needs."""
    if facet is None:
        return draw(rows)
    views = []
    for panel in panels_of(rows, facet):
        view = draw(panel)
        schema = view.pop("$schema")
        views.append({**view, "width": STACKED_WIDTH, "title": {"text": str(panel[0][facet]), "anchor": "start"}})
    resolve = {"scale": {"x": "shared" if shared else "independent"}}
    return {"$schema": schema, "vconcat": views, "resolve": resolve} if views else draw(rows)


def fitted(axis: Axis, rows: list[Json], *more: str) -> Axis:
    """Return the axis with the digits that tell its ticks apart, over its own and `more` keys of the rows."""
    low, high = span_of(rows, [axis.field, *more], zero=axis.zero)
    return replace(axis, format=finer(axis.format, low, high))


def position(side: str, axis: Axis, rows: list[Json], field: str = "") -> Any:
    """Return where marks stand along x or y, by the key of the axis or by `field`, on one scale of its values."""
    import altair as alt

    channel = alt.X if side == "x" else alt.Y
    if axis.kind == "quantitative" or (axis.kind == "auto" and numeric(rows, axis.field)):
        scale = alt.Scale(type="log", nice=False) if axis.scale == "log" else alt.Scale(zero=axis.zero)
        style: dict[str, Any] = {"format": axis.format} if axis.format else {}
        # There is no layer 2.5.
        if all(isinstance(row.get(axis.field), int) for row in rows):
            style["tickMinStep"] = 1
        if side == "x":
            # Many digits would run into each other, and into the next panel.
            style |= {"labelSeparation": 8, "labelFlush": decimals_of(axis.format) > 3}
        ticks = alt.Axis(title=axis.title, tickCount=TICKS, **style)
        return channel(field=field or axis.field, type="quantitative", scale=scale, axis=ticks)
    steps = distinct(rows, axis.field)
    looks: dict[str, Any] = {"title": axis.title or None, "labelLimit": 0}
    if side == "y":
        looks["labelExpr"] = wrapped("datum.label")
        # A label of several lines hangs from its first one; this lifts it to the middle of its row.
        looks["labelOffset"] = {"condition": lifts(most_lines(steps)), "value": 0}
    else:
        looks["labelAngle"] = 0 if max((len(str(step)) for step in steps), default=0) <= 4 else -40
    return channel(field=field or axis.field, type="ordinal", sort=steps, axis=alt.Axis(**looks))


def tooltips(rows: list[Json], named: list[tuple[str, str]], low: str, high: str, digits: str) -> list[Any]:
    """List what a mark tells when pointed at: the named keys, the interval, then all else the rows hold."""
    import altair as alt

    present = dict.fromkeys(key for row in rows for key in row)
    titles = {key: title or key for key, title in named}
    if low and high:
        titles |= {low: "from", high: "to"}
    titles |= {key: key for key in present if key not in titles and key != "panel"}
    hints = []
    for key, title in titles.items():
        amount = numeric(rows, key)
        style = {"format": digits or ".3~g"} if amount and any(isinstance(r.get(key), float) for r in rows) else {}
        hints.append(alt.Tooltip(field=key, type="quantitative" if amount else "nominal", title=title, **style))
    return hints


def colours_of(rows: list[Json], series: str, title: str) -> dict[str, Any]:
    """Return colour and, so that colour never stands alone, shape by series; nothing for a single one."""
    import altair as alt

    names = distinct(rows, series)
    if len(names) < 2:
        return {}
    palette = [OKABE_ITO[place % len(OKABE_ITO)] for place in range(len(names))]
    longest = max(len(str(name)) for name in names)
    # Long names stand under each other, so that the legend fits a phone.
    side_by_side = len(names) if longest * len(names) <= 30 else 2 if longest <= 20 else 1
    legend = alt.Legend(title=titled(title), titleLimit=0, orient="top", symbolOpacity=1, columns=side_by_side)
    common = {"field": series, "type": "nominal", "sort": names, "legend": legend}
    return {
        "color": alt.Color(scale=alt.Scale(domain=names, range=palette), **common),
        "shape": alt.Shape(scale=alt.Scale(domain=names), **common),
    }


def ordered(rows: list[Json], axis: Axis, force: bool = False) -> tuple[list[Json], Axis]:
    """Turn mixed steps such as 0, 1, "head" into words, which one scale can hold in order of appearance."""
    if axis.kind == "quantitative" or (axis.kind == "auto" and not force and numeric(rows, axis.field)):
        return rows, axis
    worded = [{**row, axis.field: str(row[axis.field])} for row in rows]
    return worded, Axis(axis.field, axis.title, axis.format, axis.zero, "ordinal")
