"""How do all reports draw alike? The few kinds of chart that audits share, as Vega-Lite with its data inside.

A chart says nothing about background or text colour, so that it follows the page it stands on; marks take
Okabe-Ito colours, viridis, or a diverging scheme centred on zero. Equal rows give equal bytes in any call
order.
"""

import json
from dataclasses import replace
from typing import Any

from audits.chart_parts import (
    HEIGHT,
    MOST_SERIES,
    OKABE_ITO,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    STACKED_WIDTH,
    UNDECIDED,
    Axis,
    Rows,
    colours_of,
    finished,
    fitted,
    ordered,
    position,
    stacked,
    tooltips,
)
from audits.chart_text import (
    SIDES,
    Side,
    alike,
    distinct,
    height_of,
    name_points,
    numeric,
    one_tone,
    panels_of,
    plain,
    plain_rows,
    shown,
    span_of,
    titled,
)
from audits.records import Json

__all__ = ["Axis", "bars", "forest", "heat_map", "interval_lines", "scatter"]

MOST_NUMBERED_COLUMNS = 24
DARKEST = 0.45
"""Share of viridis up to which a cell is so dark that black numbers cannot be read on it."""

NEUTRAL = "#AAB4BF"
"""Of a heat map whose cells do not differ to the digits shown."""


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

    table, x = ordered(plain_rows(rows), x)
    x, y = fitted(x, table), fitted(y, table, low, high)
    apart = len(distinct(table, series)) > MOST_SERIES
    if apart and facet is not None:
        table = [{**row, "panel": f"{row[facet]} · {row[series]}"} for row in table]
    looks = {} if apart else colours_of(table, series, series_title)
    hints = tooltips(table, [(series, series_title), (x.field, x.title), (y.field, y.title)], low, high, y.format)
    base = alt.Chart().encode(x=position("x", x, table), color=looks.get("color", alt.value(OKABE_ITO[0])))
    band = base.mark_area(fillOpacity=0.2).encode(
        y=position("y", y, table, field=low), y2=alt.Y2(field=high), tooltip=hints
    )
    middle = base.encode(y=position("y", y, table))
    points = middle.mark_point(filled=True, size=42, opacity=1).encode(tooltip=hints, **looks)
    layers = [band, middle.mark_line(strokeWidth=2), points]
    if rule is not None:
        layers += _rule(x, table, *rule)
        table = [{**row, "rule": plain(rule[0])} for row in table]
    panels = ("panel" if facet is not None else series) if apart else facet
    return finished(alt.layer(*layers), table, panels, height=HEIGHT)


def _rule(x: Axis, rows: list[Json], at: float, name: str) -> list[Any]:
    """Return a dashed vertical line and its name, which stands on the side that has more room."""
    import altair as alt

    low, high = span_of([*rows, {x.field: at}], [x.field])
    held, right = ("right", -5) if at - low > high - at else ("left", 5)
    # Of all rows one, lest as many rules lie on each other as there are rows.
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

    table, x = ordered(plain_rows(rows), x, force=True)
    table, y = ordered(table, y, force=True)
    undecided = f"datum[{json.dumps(faded)}]" if faded else "false"
    decided = [row[value.field] for row in table if row.get(value.field) is not None and not (faded and row.get(faded))]
    texts = {shown(number, value.format) for number in decided}
    if len(texts) > 1:
        value = fitted(replace(value, zero=False), table)
    scale, dark = _shades(decided or [0.0], value.field, diverging)
    named = [(y.field, y.title), (x.field, x.title), (value.field, value.title)]
    base = alt.Chart().encode(
        x=position("x", x, table),
        y=position("y", y, table),
        tooltip=tooltips(table, named, "", "", value.format),
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
    return finished(chart, table, None, height=height_of(distinct(table, y.field), 28))


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
        mine = fitted(axis, table if shared else panel, low, high, "reference")
        base = alt.Chart().encode(
            y=position("y", Axis(label, "", kind="ordinal"), panel),
            tooltip=tooltips(panel, [(label, label), (value.field, value.title)], low, high, mine.format),
            color=tone,
        )
        # Of all rows one, lest as many rules lie on each other as there are rows.
        level = alt.X(field="reference", aggregate="min", type="quantitative", title=mine.title)
        rule = alt.Chart().mark_rule(strokeDash=[4, 3], color=UNDECIDED).encode(x=level)
        interval = base.mark_rule(strokeWidth=2).encode(x=position("x", mine, panel, field=low), x2=alt.X2(field=high))
        point = base.mark_point(filled=True, size=60, opacity=1)
        layers = alt.layer(rule, interval, point.encode(x=position("x", mine, panel)))
        return finished(layers, panel, None, height=height_of(distinct(panel, label)))

    return stacked(draw, table, facet, shared=shared)


def scatter(rows: Rows, *, x: Axis, y: Axis, label: str, order: str | None, facet: str | None) -> Json:
    """Draw labelled points, joined in the order of the key `order` where one is given.

    Points that lie on each other have one label with all their names.
    """
    import altair as alt

    table = plain_rows(rows)
    x, y = fitted(x, table), fitted(y, table)
    hints = tooltips(table, [(label, label), (x.field, x.title), (y.field, y.title)], "", "", "")
    base = alt.Chart().encode(x=position("x", x, table), y=position("y", y, table))
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
    return finished(alt.layer(*layers), table, facet, height=HEIGHT)


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
    shades = colours_of(table, series, series_title) if series else {}

    def draw(panel: list[Json]) -> Json:
        chart = alt.Chart().encode(
            y=position("y", Axis(label, "", kind="ordinal"), panel),
            x=position("x", value, panel),
            color=shades.get("color", alt.value(OKABE_ITO[0])),
            tooltip=tooltips(panel, named, "", "", value.format),
        )
        return finished(chart.mark_bar(), panel, None, height=height_of(distinct(panel, label)))

    return stacked(draw, table, facet)


def _shades(numbers: list[float], field: str, diverging: bool) -> tuple[Any, str]:
    """Return the colour scale and the test for a cell so dark that its number must be white."""
    import altair as alt

    read = f"datum[{json.dumps(field)}]"
    if diverging:
        far = max(abs(number) for number in numbers) or 1.0
        return alt.Scale(scheme="blueorange", domain=[-far, far]), f"abs({read}) > {0.8 * far!r}"
    bottom, top = min(numbers), max(numbers)
    return alt.Scale(scheme="viridis", domain=[bottom, top]), f"{read} < {bottom + DARKEST * (top - bottom)!r}"
