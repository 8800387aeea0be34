"""Layers of marks, assembled to a chart: alone, as small multiples, or one under another."""

import json
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from audits.core.records import Estimate, Figure, Json
from audits.report.charts.text import LONGEST_LINE, distinct, panels_of, wrapped
from audits.report.charts.theme import (
    COLUMNS,
    DASHES,
    OKABE_ITO,
    PANEL_HEIGHT,
    PANEL_WIDTH,
    SCHEMA,
    STACKED_WIDTH,
    UNDECIDED,
)

DASHED: Json = {"strokeDash": DASHES, "color": UNDECIDED}
"""Style of a guide line."""


def layer(mark: str, encoding: Json, *, only: str = "", rows: Sequence[Json] | None = None, **looks: Any) -> Json:
    """Return one layer of marks, over the rows that pass the test `only` or over rows of its own."""
    found: Json = {"mark": {"type": mark, **looks}, "encoding": encoding}
    if only:
        found["transform"] = [{"filter": only}]
    return found if rows is None else {**found, "data": {"values": list(rows)}}


def figure_of(id: str, title: str, caption: str, spec: Json) -> Figure:
    """Return a figure whose file has its id for a name."""
    return Figure(id=id, title=title, caption=caption, file=id, spec=spec)


def numbers_of(row: Estimate, **more: Any) -> Json:
    """Return the columns of an estimate for a chart, and more of them."""
    return {"value": row.value, "low": row.low, "high": row.high, "n": row.n, **more}


def ends_of(key: str, row: Estimate) -> Json:
    """Return the columns of an estimate for a chart of several: the key, and the key with `_low` and `_high`."""
    return {key: row.value, f"{key}_low": row.low, f"{key}_high": row.high}


def dashed(encoding: Json, **more: Any) -> Json:
    """Return a dashed guide line."""
    return layer("rule", encoding, **DASHED, **more)


def flag(key: str) -> str:
    """Return the test for rows whose key is true."""
    return f"datum[{json.dumps(key)}]"


def has(key: str) -> str:
    """Return the test for rows that have a number under a key."""
    return f"isValid({flag(key)})"


def either(test: str, then: object, other: object) -> Json:
    """Return one value where a test holds and another elsewhere."""
    return {"condition": {"test": test, "value": then}, "value": other}


def grey_where(key: str | None) -> Json:
    """Return the first colour, or grey where the rows say so."""
    return {"value": OKABE_ITO[0]} if key is None else either(flag(key), UNDECIDED, OKABE_ITO[0])


def alone(layers: Sequence[Json], rows: list[Json], height: float) -> Json:
    """Return one chart as wide as the page."""
    return {
        "$schema": SCHEMA,
        "data": {"values": rows},
        "layer": list(layers),
        "width": "container",
        "height": height,
    }


def multiples(layers: Sequence[Json], rows: list[Json], facet: str, *, height: float = PANEL_HEIGHT) -> Json:
    """Return a small chart for each value of `facet`, in order of appearance."""
    panels = distinct(rows, facet)
    if len(panels) > 1:
        layers = [_in_narrow_panels(one) for one in layers]
    header = {"title": None, "labelExpr": wrapped("datum.label"), "labelLimit": 0}
    return {
        "$schema": SCHEMA,
        "data": {"values": rows},
        "facet": {"field": facet, "type": "nominal", "sort": panels, "header": header},
        "spec": {"layer": list(layers), "width": PANEL_WIDTH, "height": height},
        "columns": min(COLUMNS, len(panels)),
    }


def _in_narrow_panels(layer: Json) -> Json:
    """Return a layer whose title along x stands in lines: as one, it would run into that of the next panel."""
    across = layer["encoding"].get("x") or {}
    title = (across.get("axis") or {}).get("title")
    if not isinstance(title, str) or len(title) <= LONGEST_LINE:
        return layer
    axis = {**across["axis"], "title": textwrap.wrap(title, LONGEST_LINE)}
    return {**layer, "encoding": {**layer["encoding"], "x": {**across, "axis": axis}}}


def assembled(layers: Sequence[Json], rows: list[Json], facet: str | None, *, height: float) -> Json:
    """Return one chart as wide as the page or, where there is a facet and a row, small multiples."""
    if facet is None or not rows:
        return alone(layers, rows, height)
    return multiples(layers, rows, facet)


def under_each_other(
    draw: Callable[[list[Json], bool], Json],
    rows: list[Json],
    facet: str | None,
    *,
    shared: bool = True,
    title: Callable[[str], str | list[str]] = str,
) -> Json:
    """Stack one chart per value of `facet`, on one axis or each on its own, as high as it needs.

    Parameters
    ----------
    draw
        Returns the chart of a panel, given its rows and whether it is the last one.
    title
        Returns the title of a panel, or its lines, given the value of `facet`.
    """
    panels = panels_of(rows, facet)
    if facet is None or not panels:
        return draw(rows, True)
    views = []
    for number, panel in enumerate(panels, 1):
        view = _inner(draw(panel, number == len(panels)))
        views.append({**view, "title": {"text": title(str(panel[0][facet])), "anchor": "start"}})
    resolve = {"scale": {"x": "shared" if shared else "independent"}}
    return {"$schema": SCHEMA, "vconcat": views, "resolve": resolve}


def stacked(charts: Sequence[tuple[str, Json]]) -> Json:
    """Stack finished charts, each under its title; a single one has none."""
    if len(charts) == 1:
        return charts[0][1]
    views = [
        {**_inner(chart), "title": {"text": title, "anchor": "start", "frame": "group"}} for title, chart in charts
    ]
    return {"$schema": SCHEMA, "vconcat": views}


def _inner(chart: Json) -> Json:
    return {**{key: part for key, part in chart.items() if key != "$schema"}, "width": STACKED_WIDTH}


def with_table(chart: Json, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> Json:
    """Return a chart with a table under it on the page; columns are pairs of a key and a title."""
    table = {"columns": [list(column) for column in columns], "rows": [list(row) for row in rows]}
    return {**chart, "usermeta": {"miles": {"table": table}}}
