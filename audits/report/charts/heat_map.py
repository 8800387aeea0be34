"""A table of numbers as colours, a row of data for each cell."""

from dataclasses import replace

from audits.core.records import Json
from audits.report.charts.axes import Axis, as_steps, fitted, position, tooltips
from audits.report.charts.marks import assembled, either, flag, layer
from audits.report.charts.text import Rows, distinct, height_of, one_tone, plain_rows, shown, titled
from audits.report.charts.theme import UNDECIDED

MOST_NUMBERED_COLUMNS = 24
DARKEST = 0.45
"""Share of viridis up to which a cell is so dark that black numbers cannot be read on it."""

NEUTRAL = "#AAB4BF"
"""Of a heat map whose cells do not differ to the digits shown."""
LINE = 28
"""Least pixels of a row."""


def heat_map(rows: Rows, *, x: Axis, y: Axis, value: Axis, diverging: bool, faded: str | None = None) -> Json:
    """Draw a table of numbers as colours; cells where the key `faded` is true stay uncoloured, as undecided.

    A diverging scale is centred on zero and reaches equally far both ways. Where no two numbers differ to the
    digits shown, all cells have one neutral tone.
    """
    table, x = as_steps(plain_rows(rows), x, force=True)
    table, y = as_steps(table, y, force=True)
    undecided = flag(faded) if faded else "false"
    decided = [row[value.field] for row in table if row.get(value.field) is not None and not (faded and row.get(faded))]
    texts = {shown(number, value.format) for number in decided}
    if len(texts) > 1:
        value = fitted(replace(value, zero=False), table)
    scale, dark = _shades(decided or [0.0], value.field, diverging)
    named = [(y.field, y.title), (x.field, x.title), (value.field, value.title)]
    encoding = {
        "x": position("x", x, table),
        "y": position("y", y, table),
        "tooltip": tooltips(table, named, "", "", value.format),
    }
    style = {"format": value.format} if value.format else {}
    legend = {"title": titled(value.title), "titleLimit": 0, "orient": "top", "gradientLength": 200, **style}
    shade: Json = {"field": value.field, "type": "quantitative", "scale": scale, "legend": legend}
    if len(texts) < 2:
        shade, dark = {"value": NEUTRAL}, "false"
    known, unknown = f"!({undecided})", undecided
    layers = [layer("rect", {**encoding, "color": shade}, only=known)]
    if faded:
        pale: Json = {"color": UNDECIDED, "fillOpacity": 0.12, "stroke": UNDECIDED, "strokeDash": [2, 3]}
        layers.append(layer("rect", encoding, only=unknown, **pale))
    columns = len(distinct(table, x.field))
    if columns <= MOST_NUMBERED_COLUMNS:
        # Hide the numbers where cells are too narrow for them: overlapping ones are worse than none.
        looks: Json = {"fontSize": 11, "opacity": {"expr": f"width < {columns * 34} ? 0 : 1"}}
        number = {**encoding, "text": {"field": value.field, "type": "quantitative", "format": value.format or ".2f"}}
        layers.append(layer("text", {**number, "color": either(dark, "#ffffff", "#000000")}, only=known, **looks))
        layers += [layer("text", number, only=unknown, **looks)] if faded else []
    chart = assembled(layers, table, None, height=height_of(distinct(table, y.field), LINE))
    if len(texts) > 1:
        return chart
    text = one_tone(value.title, texts, len(decided) < len(table))
    return {**chart, "title": {"text": text, "anchor": "start", "fontWeight": "normal"}}


def _shades(numbers: list[float], field: str, diverging: bool) -> tuple[Json, str]:
    """Return the colour scale, and the test for cells so dark that their numbers must be white."""
    read = flag(field)
    if diverging:
        far = max(abs(number) for number in numbers) or 1.0
        return {"scheme": "blueorange", "domain": [-far, far]}, f"abs({read}) > {0.8 * far!r}"
    bottom, top = min(numbers), max(numbers)
    return {"scheme": "viridis", "domain": [bottom, top]}, f"{read} < {bottom + DARKEST * (top - bottom)!r}"
