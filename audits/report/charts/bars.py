"""Horizontal bars, stacked where they have parts."""

from audits.core.records import Json
from audits.report.charts.axes import Axis, legend_of, position, tooltips
from audits.report.charts.marks import layer, under_each_other
from audits.report.charts.text import Rows, distinct, height_of, plain_rows
from audits.report.charts.theme import OKABE_ITO, SCHEMA


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
    table = plain_rows(rows)
    named = [(label, label), *([(series, series_title)] if series else []), (value.field, value.title)]
    shades = legend_of(table, series, series_title) if series else {}

    def draw(panel: list[Json], last: bool) -> Json:
        encoding = {
            "y": position("y", Axis(label, "", kind="ordinal"), panel),
            "x": position("x", value, panel),
            "color": shades.get("color", {"value": OKABE_ITO[0]}),
            "tooltip": tooltips(panel, named, "", "", value.format),
        }
        size = {"width": "container", "height": height_of(distinct(panel, label))}
        return {"$schema": SCHEMA, **layer("bar", encoding, rows=panel), **size}

    return under_each_other(draw, table, facet)
