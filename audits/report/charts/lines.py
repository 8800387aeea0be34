"""Lines over quantities or steps, each with the band of its interval."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from audits.core.records import Json
from audits.report.charts.axes import Axis, as_steps, fitted, legend_of, level_at, position, tooltips
from audits.report.charts.marks import assembled, dashed, flag, layer
from audits.report.charts.text import Rows, distinct, plain, plain_rows, span_of
from audits.report.charts.theme import HEIGHT, MOST_SERIES, OKABE_ITO, UNDECIDED

STRETCH, LONE = "stretch", "lone"
"""Keys of the stretch of a line that a point is on, and of whether it is alone on it."""


def lines(
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
    level: float | tuple[str, str, str] | None = None,
    own_scales: bool = False,
    apart: Sequence[str] = (),
) -> Json:
    """Draw one line with its interval band per series; more than four series become small multiples.

    Rows without an interval (`low` or `high` None or absent) keep their point and have no band there.

    Parameters
    ----------
    series_title
        What the series are, above their names; "" for nothing.
    rule
        A place on an x axis of quantities and its name: a dashed vertical line.
    level
        A dashed horizontal line: a number, or the keys of a number and of the ends of its interval, which each panel
        takes from its rows.
    apart
        Steps of x that no line joins to their neighbours, such as what is no layer beside layers.
    own_scales
        Whether each panel has a y axis of its own, as panels of different quantities need; two stand side by side.
    """
    table, x = as_steps(plain_rows(rows), x)
    x, y = fitted(x, table), fitted(y, table, low, high)
    parted = len(distinct(table, series)) > MOST_SERIES
    if parted and facet is not None:
        table = [{**row, "panel": f"{row[facet]} · {row[series]}"} for row in table]
    if any(row[x.field] in apart for row in table):
        table = _in_stretches(table, x.field, apart)
    looks = {} if parted else legend_of(table, series, series_title)
    hints = tooltips(table, [(series, series_title), (x.field, x.title), (y.field, y.title)], low, high, y.format)
    along = {"x": position("x", x, table), "color": looks.get("color", {"value": OKABE_ITO[0]})}
    middle = {**along, "y": position("y", y, table)}
    ends = {**along, "y": position("y", y, table, low), "y2": {"field": high}, "tooltip": hints}
    points = {**middle, **looks, "tooltip": hints}
    layers = [
        layer("area", {**ends, **_broken(table)}, fillOpacity=0.2),
        *([layer("rule", ends, only=flag(LONE), strokeWidth=6, opacity=0.3)] if _broken(table) else []),
        layer("line", {**middle, **_broken(table)}, strokeWidth=2),
        layer("point", points, filled=True, size=42, opacity=1),
    ]
    if not table:
        # The position of a line across a panel comes from the rows, and there are none.
        level, rule = None, None
    if isinstance(level, tuple):
        layers[:0] = _level(y, *level)
    elif level is not None:
        layers[:0] = [dashed({"y": level_at("reference", y)})]
        table = [{**row, "reference": plain(level)} for row in table]
    if rule is not None:
        layers += _rule(x, table, *rule)
        table = [{**row, "rule": plain(rule[0])} for row in table]
    panels = ("panel" if facet is not None else series) if parted else facet
    chart = assembled(layers, table, panels, height=HEIGHT)
    return {**chart, "resolve": {"scale": {"y": "independent"}}, "columns": 2} if own_scales else chart


def _in_stretches(table: list[Json], x: str, apart: Sequence[str]) -> list[Json]:
    """Return rows with the number of the stretch of x that each is on; a step that stands apart is one of its own."""
    numbers, number = {}, 0
    for step in distinct(table, x):
        number += step in apart
        numbers[step] = number
        number += step in apart
    return [{**row, STRETCH: numbers[row[x]], LONE: row[x] in apart} for row in table]


def _broken(table: list[Json]) -> Json:
    """Return the channel that breaks lines where a stretch ends."""
    return {"detail": {"field": STRETCH, "type": "nominal"}} if any(STRETCH in row for row in table) else {}


def _level(y: Axis, middle: str, low: str, high: str) -> list[Json]:
    """Return a dashed horizontal line and the band of its interval."""
    channel: Json = {"aggregate": "min", "type": "quantitative", "title": y.title}
    band = {"y": {"field": low, **channel}, "y2": {"field": high, "aggregate": "min"}}
    return [layer("rect", band, color=UNDECIDED, opacity=0.15), dashed({"y": level_at(middle, y)})]


def _rule(x: Axis, rows: list[Json], at: float, name: str) -> list[Json]:
    """Return a dashed vertical line with its name on the side that has more room."""
    low, high = span_of([*rows, {x.field: at}], [x.field])
    held, right = ("right", -5) if at - low > high - at else ("left", 5)
    channel = {"x": level_at("rule", replace(x, ends=None))}
    words: dict[str, Any] = {**channel, "y": {"value": 2}, "text": {"value": name}}
    return [dashed(channel), layer("text", words, align=held, dx=right, baseline="top", fontSize=11)]
