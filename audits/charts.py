"""How do all reports draw alike? The few kinds of chart that audits share, as Vega-Lite with its data inside.

A chart says nothing about background or text colour, so that it follows the page it stands on; marks take
Okabe-Ito colours, viridis, or a diverging scheme centred on zero. Equal rows give equal bytes in any call
order.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from audits.chart_text import (
    SIDES,
    TICKS,
    Side,
    alike,
    decimals_of,
    distinct,
    finer,
    height_of,
    lifts,
    most_lines,
    name_points,
    numeric,
    one_tone,
    panels_of,
    plain,
    plain_rows,
    shown,
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
MOST_NUMBERED_COLUMNS, DARKEST = 24, 0.45
UNDECIDED = "#888888"
NEUTRAL = "#AAB4BF"
"""Of a heat map whose cells do not differ to the digits shown."""


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


def interval_lines(
    rows: Rows,
    *,
    x: Axis,
    y: Axis,
    low: str,
    high: str,
    series: str,
    series_title: str,
    facet: str | None = None,
    rule: tuple[float, str] | None = None,
) -> Json:
    """Draw one line with its interval band per series; more than four series become small multiples.

    Rows without an interval (`low` or `high` None or absent) keep their point and have no band there. `rule`, a place
    on an x axis of quantities and its name, is a dashed vertical line.
    """
    import altair as alt

    table, x = _ordered(plain_rows(rows), x)
    x, y = _fitted(x, table), _fitted(y, table, low, high)
    apart = len(distinct(table, series)) > MOST_SERIES
    if apart and facet is not None:
        table = [{**row, "panel": f"{row[facet]} · {row[series]}"} for row in table]
    looks = {} if apart else _colours_of(table, series, series_title)
    hints = _tooltips(table, [(series, series_title), (x.field, x.title), (y.field, y.title)], low, high, y.format)
    base = alt.Chart().encode(x=_position("x", x, table), color=looks.get("color", alt.value(OKABE_ITO[0])))
    band = base.mark_area(fillOpacity=0.2).encode(
        y=_position("y", y, table, field=low), y2=alt.Y2(field=high), tooltip=hints
    )
    middle = base.encode(y=_position("y", y, table))
    points = middle.mark_point(filled=True, size=42, opacity=1).encode(tooltip=hints, **looks)
    layers = [band, middle.mark_line(strokeWidth=2), points]
    if rule is not None:
        layers += _rule(x, table, *rule)
        table = [{**row, "rule": plain(rule[0])} for row in table]
    panels = ("panel" if facet is not None else series) if apart else facet
    return _finished(alt.layer(*layers), table, panels, height=HEIGHT)


def _rule(x: Axis, rows: list[Json], at: float, name: str) -> list[Any]:
    """Return a dashed vertical line and its name, which stands on the side that has more room."""
    import altair as alt

    low, high = span_of([*rows, {x.field: at}], [x.field])
    held, right = ("right", -5) if at - low > high - at else ("left", 5)
    base = alt.Chart().encode(x=alt.X(field="rule", aggregate="min", type="quantitative", title=x.title))
    words = base.mark_text(align=held, dx=right, baseline="top", fontSize=11)
    line = base.mark_rule(strokeDash=[4, 3], color=UNDECIDED)
    return [line, words.encode(y=alt.value(2), text=alt.value(name))]


def heat_map(rows: Rows, *, x: Axis, y: Axis, value: Axis, diverging: bool, faded: str | None = None) -> Json:
    """Draw a matrix of numbers; cells where the key `faded` is true are shown as undecided, without colour.

    A diverging scale is centred on zero and reaches equally far both ways. Where no two numbers differ to the
    digits shown, all cells have one neutral tone.
    """
    import altair as alt

    table, x = _ordered(plain_rows(rows), x, force=True)
    table, y = _ordered(table, y, force=True)
    undecided = f"datum[{json.dumps(faded)}]" if faded else "false"
    decided = [row[value.field] for row in table if row.get(value.field) is not None and not (faded and row.get(faded))]
    texts = {shown(number, value.format) for number in decided}
    if len(texts) > 1:
        value = _fitted(replace(value, zero=False), table)
    scale, dark = _shades(decided or [0.0], value.field, diverging)
    named = [(y.field, y.title), (x.field, x.title), (value.field, value.title)]
    base = alt.Chart().encode(
        x=_position("x", x, table),
        y=_position("y", y, table),
        tooltip=_tooltips(table, named, "", "", value.format),
    )
    known, unknown = base.transform_filter(f"!({undecided})"), base.transform_filter(undecided)
    style = {"format": value.format} if value.format else {}
    legend = alt.Legend(title=titled(value.title), titleLimit=0, orient="top", gradientLength=200, **style)
    shade = alt.Color(field=value.field, type="quantitative", scale=scale, legend=legend)
    if len(texts) < 2:
        shade, dark = alt.value(NEUTRAL), "false"
    layers = [known.mark_rect().encode(color=shade)]
    if faded:
        layers.append(unknown.mark_rect(color=UNDECIDED, fillOpacity=0.12, stroke=UNDECIDED, strokeDash=[2, 3]))
    columns = len(distinct(table, x.field))
    if columns <= MOST_NUMBERED_COLUMNS:
        # Numbers that would run into each other are worse than none: they vanish where a cell is too narrow.
        number = {"fontSize": 11, "opacity": alt.ExprRef(f"width < {columns * 34} ? 0 : 1")}
        text = alt.Text(field=value.field, type="quantitative", format=value.format or ".2f")
        ink = alt.condition(dark, alt.value("#ffffff"), alt.value("#000000"))
        layers.append(known.mark_text(**number).encode(text=text, color=ink))
        layers += [unknown.mark_text(**number).encode(text=text)] if faded else []
    chart = alt.layer(*layers)
    if len(texts) < 2:
        said = one_tone(value.title, texts, len(decided) < len(table))
        chart = chart.properties(title={"text": said, "anchor": "start", "fontWeight": "normal"})
    return _finished(chart, table, None, height=height_of(distinct(table, y.field), 28))


def forest(
    rows: Rows,
    *,
    label: str,
    value: Axis,
    low: str,
    high: str,
    reference: float,
    facet: str | None = None,
    greyed: str | None = None,
    ranked: bool = True,
) -> Json:
    """Draw points with their intervals beside a rule at `reference`, the highest on top or, unless `ranked`, the first.

    `greyed` names a true-or-false key whose true rows are drawn grey. Panels share one axis unless one spans less
    than a fifth of another.
    """
    import altair as alt

    table = [{**row, "reference": plain(reference)} for row in plain_rows(rows)]
    table.sort(key=lambda row: (-row[value.field], str(row[label])) if ranked else ())
    tone = alt.value(OKABE_ITO[0])
    if greyed:
        tone = alt.condition(f"datum[{json.dumps(greyed)}]", alt.value(UNDECIDED), tone)
    ends = (value.field, low, high, "reference")
    shared = alike([span_of(panel, ends, zero=value.zero) for panel in panels_of(table, facet)])
    axis = value if shared else replace(value, title=f"{value.title} (scales differ)")

    def draw(panel: list[Json]) -> Json:
        mine = _fitted(axis, table if shared else panel, low, high, "reference")
        base = alt.Chart().encode(
            y=_position("y", Axis(label, "", kind="ordinal"), panel),
            tooltip=_tooltips(panel, [(label, label), (value.field, value.title)], low, high, mine.format),
            color=tone,
        )
        level = alt.X(field="reference", aggregate="min", type="quantitative", title=mine.title)
        rule = alt.Chart().mark_rule(strokeDash=[4, 3], color=UNDECIDED).encode(x=level)
        interval = base.mark_rule(strokeWidth=2).encode(x=_position("x", mine, panel, field=low), x2=alt.X2(field=high))
        point = base.mark_point(filled=True, size=60, opacity=1)
        layers = alt.layer(rule, interval, point.encode(x=_position("x", mine, panel)))
        return _finished(layers, panel, None, height=height_of(distinct(panel, label)))

    return _stacked(draw, table, facet, shared=shared)


def scatter(rows: Rows, *, x: Axis, y: Axis, label: str, order: str | None, facet: str | None) -> Json:
    """Draw labelled points, joined in the order of the key `order` where one is given.

    Points that lie on each other have one label with all their names.
    """
    import altair as alt

    table = plain_rows(rows)
    x, y = _fitted(x, table), _fitted(y, table)
    hints = _tooltips(table, [(label, label), (x.field, x.title), (y.field, y.title)], "", "", "")
    base = alt.Chart().encode(x=_position("x", x, table), y=_position("y", y, table))
    layers = []
    if order is not None:
        path = alt.Order(field=order, type="quantitative" if numeric(table, order) else "ordinal")
        layers.append(base.mark_line(strokeWidth=1, opacity=1, color=UNDECIDED).encode(order=path))
    layers.append(base.mark_point(filled=True, size=60, opacity=1, color=OKABE_ITO[0]).encode(tooltip=hints))
    size = (PANEL_WIDTH, PANEL_HEIGHT) if facet else (STACKED_WIDTH, HEIGHT)
    sides = [Side(a.field, *span_of(table, [a.field], zero=a.zero), size[n]) for n, a in enumerate((x, y))]
    for panel in panels_of(table, facet):
        name_points(panel, sides[0], sides[1], label)
    for side in distinct(table, "side"):
        held, right, down = SIDES[side]
        words = base.transform_filter(f"datum.side == '{side}'")
        layers.append(words.mark_text(align=held, dx=right, dy=down, fontSize=11).encode(text="name:N"))
    return _finished(alt.layer(*layers), table, facet, height=HEIGHT)


def bars(
    rows: Rows,
    *,
    label: str,
    value: Axis,
    series: str | None = None,
    series_title: str = "",
    facet: str | None = None,
) -> Json:
    """Draw one horizontal bar per label in the order of the rows, stacked by `series` where one is given."""
    import altair as alt

    table = plain_rows(rows)
    named = [(label, label), *([(series, series_title)] if series else []), (value.field, value.title)]
    shades = _colours_of(table, series, series_title) if series else {}

    def draw(panel: list[Json]) -> Json:
        chart = alt.Chart().encode(
            y=_position("y", Axis(label, "", kind="ordinal"), panel),
            x=_position("x", value, panel),
            color=shades.get("color", alt.value(OKABE_ITO[0])),
            tooltip=_tooltips(panel, named, "", "", value.format),
        )
        return _finished(chart.mark_bar(), panel, None, height=height_of(distinct(panel, label)))

    return _stacked(draw, table, facet)


def _finished(chart: Any, rows: list[Json], facet: str | None, *, height: int) -> Json:
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


def _stacked(draw: Callable[[list[Json]], Json], rows: list[Json], facet: str | None, *, shared: bool = True) -> Json:
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


def _fitted(axis: Axis, rows: list[Json], *more: str) -> Axis:
    """Return the axis with the digits that tell its ticks apart, over its own and `more` keys of the rows."""
    low, high = span_of(rows, [axis.field, *more], zero=axis.zero)
    return replace(axis, format=finer(axis.format, low, high))


def _position(side: str, axis: Axis, rows: list[Json], field: str = "") -> Any:
    import altair as alt

    channel = alt.X if side == "x" else alt.Y
    if axis.kind == "quantitative" or (axis.kind == "auto" and numeric(rows, axis.field)):
        scale = alt.Scale(type="log", nice=False) if axis.scale == "log" else alt.Scale(zero=axis.zero)
        style: dict[str, Any] = {"format": axis.format} if axis.format else {}
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


def _tooltips(rows: list[Json], named: list[tuple[str, str]], low: str, high: str, digits: str) -> list[Any]:
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


def _colours_of(rows: list[Json], series: str, title: str) -> dict[str, Any]:
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


def _shades(numbers: list[float], field: str, diverging: bool) -> tuple[Any, str]:
    """Return the colour scale and the test for a cell so dark that its number must be white."""
    import altair as alt

    read = f"datum[{json.dumps(field)}]"
    if diverging:
        far = max(abs(number) for number in numbers) or 1.0
        return alt.Scale(scheme="blueorange", domain=[-far, far]), f"abs({read}) > {0.8 * far!r}"
    bottom, top = min(numbers), max(numbers)
    return alt.Scale(scheme="viridis", domain=[bottom, top]), f"{read} < {bottom + DARKEST * (top - bottom)!r}"


def _ordered(rows: list[Json], axis: Axis, force: bool = False) -> tuple[list[Json], Axis]:
    """Turn mixed steps such as 0, 1, "head" into words, which one scale can hold in order of appearance."""
    if axis.kind == "quantitative" or (axis.kind == "auto" and not force and numeric(rows, axis.field)):
        return rows, axis
    worded = [{**row, axis.field: str(row[axis.field])} for row in rows]
    return worded, Axis(axis.field, axis.title, axis.format, axis.zero, "ordinal")
