"""Axes, legends and tooltips: positions, colours and words of the values of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from audits.core.records import Json
from audits.report.charts.text import (
    TICKS,
    decimals_of,
    distinct,
    finer,
    lifts,
    most_lines,
    numeric,
    span_of,
    titled,
    wrapped,
)
from audits.report.charts.theme import OKABE_ITO


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a chart, or its colour: field, title, scale and format.

    Parameters
    ----------
    field
        Key of the rows: letters, digits and underscores, since Vega-Lite takes `.` and `[` for paths.
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
    ends
        The two ends of an axis of quantities; without them it reaches as far as the rows do.
    ticks
        The numbers at its ticks; without them round ones are chosen.
    steps
        The order of the steps, where it is not that of appearance.
    """

    field: str
    title: str
    format: str = ""
    zero: bool = True
    kind: Literal["auto", "quantitative", "ordinal"] = "auto"
    scale: Literal["linear", "log"] = "linear"
    ends: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()
    steps: tuple[str, ...] = ()


def ends_of(field: str) -> tuple[str, str]:
    """Return the keys of the two ends of an interval around a key."""
    return f"{field}_low", f"{field}_high"


def fitted(axis: Axis, rows: list[Json], *more: str) -> Axis:
    """Return the axis with a number format that keeps its ticks distinct, over its own and `more` keys of the rows."""
    low, high = axis.ends or span_of(rows, [axis.field, *more], zero=axis.zero)
    return replace(axis, format=finer(axis.format, low, high))


def widened(span: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of an axis with a little room, so that no mark lies on its edge."""
    room = 0.05 * (span[1] - span[0]) or 0.05 * abs(span[0]) or 1.0
    return float(f"{span[0] - room:.6g}"), float(f"{span[1] + room:.6g}")


def as_steps(rows: list[Json], axis: Axis, *, force: bool = False) -> tuple[list[Json], Axis]:
    """Turn mixed steps such as 0, 1, "head" into words, which one scale can hold in order of appearance."""
    if axis.kind == "quantitative" or (axis.kind == "auto" and not force and numeric(rows, axis.field)):
        return rows, axis
    worded = [{**row, axis.field: str(row[axis.field])} for row in rows]
    return worded, replace(axis, kind="ordinal")


def position(side: Literal["x", "y"], axis: Axis, rows: list[Json], field: str = "") -> Json:
    """Return the encoding of x or y by the key of the axis or by `field`, on the axis's own scale."""
    name = field or axis.field
    if axis.kind == "quantitative" or (axis.kind == "auto" and numeric(rows, axis.field)):
        return {"field": name, "type": "quantitative", "scale": scale_of(axis), "axis": _ticks(side, axis, rows)}
    steps = list(axis.steps) or distinct(rows, axis.field)
    looks: Json = {"title": axis.title or None, "labelLimit": 0}
    if side == "y":
        looks["labelExpr"] = wrapped("datum.label")
        # Vega aligns a multi-line label by its first line; this centres it on the row.
        looks["labelOffset"] = {"condition": lifts(most_lines(steps)), "value": 0}
    else:
        looks["labelAngle"] = 0 if max((len(str(step)) for step in steps), default=0) <= 4 else -40
    return {"field": name, "type": "ordinal", "sort": steps, "axis": looks}


def scale_of(axis: Axis) -> Json:
    """Return the scale of an axis of quantities."""
    if axis.ends is not None:
        kind: Json = {"type": "log"} if axis.scale == "log" else {}
        return {**kind, "domain": list(axis.ends), "nice": False}
    return {"type": "log", "nice": False} if axis.scale == "log" else {"zero": axis.zero}


def _ticks(side: str, axis: Axis, rows: list[Json]) -> Json:
    looks: Json = {"title": axis.title, "tickCount": TICKS}
    looks |= {"format": axis.format} if axis.format else {}
    looks |= {"values": list(axis.ticks)} if axis.ticks else {}
    # Whole numbers, such as layers, get no ticks between them.
    if all(isinstance(row.get(axis.field), int) for row in rows):
        looks["tickMinStep"] = 1
    if axis.format == "d":
        # Vega sets a tick at 0.5 between 0 and 1 all the same, and would write 1 at it.
        looks["labelExpr"] = "datum.value % 1 ? '' : datum.label"
    if side == "x":
        # Long tick labels would overlap each other and those of the next panel.
        looks |= {"labelSeparation": 8, "labelFlush": decimals_of(axis.format) > 3}
    return looks


def level_at(field: str, axis: Axis) -> Json:
    """Return the encoding of a line across a panel: an aggregate, so that it is drawn once and not for each row."""
    encoding: Json = {"field": field, "aggregate": "min", "type": "quantitative", "title": axis.title}
    return encoding if axis.ends is None else {**encoding, "scale": scale_of(axis)}


def tooltips(rows: list[Json], named: Sequence[tuple[str, str]], low: str, high: str, digits: str) -> list[Json]:
    """Return the tooltip of a mark: the named keys, the interval, then all other keys of the rows."""
    present = dict.fromkeys(key for row in rows for key in row)
    titles = {key: title or key for key, title in named}
    if low and high:
        titles |= {low: "from", high: "to"}
    titles |= {key: key for key in present if key not in titles and key != "panel"}
    hints = []
    for key, title in titles.items():
        amount = numeric(rows, key)
        style = {"format": digits or ".3~g"} if amount and any(isinstance(r.get(key), float) for r in rows) else {}
        hints.append({"field": key, "type": "quantitative" if amount else "nominal", "title": title, **style})
    return hints


def words_of(keys: Sequence[str]) -> list[Json]:
    """Return a tooltip of these keys alone, as words."""
    return [{"field": key, "type": "nominal", "title": key} for key in keys]


def amounts_of(axes: Sequence[Axis], rows: list[Json]) -> list[Json]:
    """Return tooltip entries for the numbers of these axes, with the ends of intervals where the rows have any."""
    hints: list[Json] = []
    for axis in axes:
        style: Json = {"type": "quantitative", "format": axis.format or ".3~g"}
        hints.append({"field": axis.field, "title": axis.title, **style})
        for end, word in zip(ends_of(axis.field), ("from", "to"), strict=True):
            if any(row.get(end) is not None for row in rows):
                hints.append({"field": end, "title": f"{axis.field} {word}", **style})
    return hints


def legend_of(rows: list[Json], series: str, title: str) -> Json:
    """Return colour and shape by series, since colour must not stand alone; empty for a single series."""
    names = distinct(rows, series)
    if len(names) < 2:
        return {}
    palette = [OKABE_ITO[index % len(OKABE_ITO)] for index in range(len(names))]
    longest = max(len(str(name)) for name in names)
    # Long names go below each other, so that the legend fits a phone.
    columns = len(names) if longest * len(names) <= 30 else 2 if longest <= 20 else 1
    legend = {"title": titled(title), "titleLimit": 0, "orient": "top", "symbolOpacity": 1, "columns": columns}
    common: dict[str, Any] = {"field": series, "type": "nominal", "sort": names, "legend": legend}
    return {
        "color": {**common, "scale": {"domain": names, "range": palette}},
        "shape": {**common, "scale": {"domain": names}},
    }
