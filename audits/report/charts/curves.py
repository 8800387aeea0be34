"""Curves through points of two numbers: in an order of their own, and hits against false alarms."""

import math
from collections.abc import Sequence
from dataclasses import replace

from audits.core.records import Json
from audits.report.charts.axes import Axis, amounts_of, ends_of, fitted, legend_of, position
from audits.report.charts.marks import alone, has, layer, multiples
from audits.report.charts.points import interval_layers
from audits.report.charts.text import Rows, distinct, plain_rows
from audits.report.charts.theme import DASHES, HEIGHT, MOST_SERIES, OKABE_ITO, TALL, UNDECIDED

SHAPES = ("circle", "square", "triangle-up", "diamond")
STROKES = ([1, 0], [7, 2], [2, 2], [7, 2, 2, 2])
ROC_PANEL = 170
"""Pixels of the height of a small panel of rates."""


def curves(rows: Rows, *, x: Axis, y: Axis, series: str, order: str) -> Json:
    """Draw one line per series through points with an interval both ways, in the order of the key `order`.

    More than four series become small multiples, in each of which the others stand in grey. Ends of intervals are in
    the keys `<field>_low` and `<field>_high`.
    """
    table = plain_rows(rows, x.field, y.field)
    apart = len(distinct(table, series)) > MOST_SERIES
    x, y = (fitted(axis, table, *ends_of(axis.field)) for axis in (x, y))
    sides = {"x": position("x", x, table), "y": position("y", y, table)}
    if apart:
        # Without this, the last tick label of a panel overlaps the first one of the next.
        sides["x"]["axis"]["labelFlush"] = True
    shades = {} if apart else legend_of(table, series, "")
    color = {"color": shades.get("color", {"value": OKABE_ITO[0]})}
    along: Json = {**sides, "order": {"field": order, "type": "quantitative"}}
    hints = [{"field": key, "type": "nominal", "title": key} for key in (series, order)] + amounts_of([x, y], table)
    layers = [
        *interval_layers(x, y, sides, table, strokeWidth=1.5, opacity=0.45, **color),
        layer("line", {**along, **color}, strokeWidth=2),
        layer("point", {**sides, **color, **shades, "tooltip": hints}, filled=True, size=24, opacity=1),
    ]
    if not apart:
        return alone(layers, table, TALL)
    # A layer with its own data is not faceted: every panel shows all curves in grey.
    others = [{**{key: row[key] for key in (x.field, y.field, order)}, "other": row[series]} for row in table]
    detail = {"detail": {"field": "other", "type": "nominal"}}
    ground = layer("line", {**along, **detail}, rows=others, strokeWidth=1, opacity=0.35, color=UNDECIDED)
    return multiples([ground, *layers], table, series)


def roc(rows: Rows, *, x: Axis, y: Axis, guides: Sequence[str], label: str) -> Json:
    """Draw hits against false alarms, both on scales of powers, with the interval of the hits at every rate.

    On plain scales the rates that matter, those of few false alarms, would be one line at the left edge.

    Parameters
    ----------
    rows
        All have `panel` and `series`; a panel each makes small multiples. A point of a curve has `fpr`, `tpr` (none
        where it is 0, of which there is no power), `low` and `high`; a mark on it `at`, `tpr`, `from`, `to` and the key
        `label`; a point of a line to read against `fpr` and `most`.
    x, y
        Axes whose least number is the lower of their ends.
    guides
        Series that are lines to read against: the last is dashed.
    """
    table = plain_rows(rows)
    x, y = _powers(x), _powers(y)
    series = [name for name in distinct(table, "series") if name not in guides]
    looks = _roc_looks(series, guides)
    drawn = {key: looks[key] for key in ("color", "strokeDash")}
    color = {"color": looks["color"]}

    def at(across: str, up: str) -> Json:
        return {"x": position("x", x, table, across), "y": position("y", y, table, up)}

    hints = [
        {"field": label, "type": "nominal", "title": label},
        {"field": "at", "type": "quantitative", "title": "false alarms", "format": ".3~g"},
        *(
            {"field": key, "type": "quantitative", "title": title, "format": ".3f"}
            for key, title in (("tpr", "found"), ("from", "from"), ("to", "to"))
        ),
    ]
    band = {**at("fpr", "low"), "y2": {"field": "high"}, **color}
    interval = {**at("at", "from"), "y2": {"field": "to"}, **color}
    mark = {**at("at", "tpr"), **color, "shape": looks["shape"], "tooltip": hints}
    known = f"{has('tpr')} && {has('fpr')}"
    layers = [
        layer("line", {**at("fpr", "most"), **drawn}, only=has("most"), clip=True, strokeWidth=1.5),
        layer("area", band, only=has("low"), clip=True, fillOpacity=0.16, interpolate="step-after"),
        layer("line", {**at("fpr", "tpr"), **drawn}, only=known, clip=True, strokeWidth=2, interpolate="step-after"),
        layer("rule", interval, only=has("at"), clip=True, strokeWidth=1.5),
        layer("point", mark, only=has("at"), clip=True, filled=True, size=44, opacity=1),
    ]
    if len(distinct(table, "panel")) > 1:
        return multiples(layers, table, "panel", height=ROC_PANEL)
    return alone(layers, table, HEIGHT)


def _powers(axis: Axis) -> Axis:
    """Return an axis of powers up to 1 with ticks at these."""
    floor, _ = axis.ends or (0.001, 1.0)
    decades = range(math.ceil(math.log10(floor) - 1e-9), 1)
    # Below two decades, powers of ten alone would leave too few ticks.
    ticks = [round(m * 10.0**k, 9) for k in decades for m in ((1,) if len(decades) > 2 else (1, 2, 5))]
    ends = float(f"{min(floor, 0.5):.4g}"), 1
    return replace(axis, ends=ends, ticks=tuple(tick for tick in ticks if tick <= 1), scale="log", format="~g")


def _roc_looks(series: Sequence[str], guides: Sequence[str]) -> Json:
    """Return colour, dashes and shapes in one legend: what is measured, then the references."""
    names = [*series, *guides]
    longest = max(len(name) for name in names)
    columns = len(names) if longest * len(names) <= 30 else 1
    legend = {"title": None, "orient": "top", "symbolOpacity": 1, "columns": columns, "labelLimit": 0}
    ranges = {
        "color": [*OKABE_ITO[: len(series)], *[UNDECIDED] * len(guides)],
        "strokeDash": [*STROKES[: len(series)], *([1, 0] for _ in guides[:-1]), DASHES],
        "shape": [*SHAPES[: len(series)], *["stroke"] * len(guides)],
    }
    return {
        channel: {
            "field": "series",
            "type": "nominal",
            "sort": names,
            "scale": {"domain": names, "range": values},
            "legend": legend,
        }
        for channel, values in ranges.items()
    }
