"""A matrix of languages, drawn so that what is known, what is not, and what is missing look different.

A row of the data is a row of the matrix, its cells in arrays that the chart unfolds: thousands of cells fit a page.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from audits.chart_parts import UNDECIDED
from audits.records import Json

VERDICTS = {
    "h": "interference",
    "s": "synergy",
    "i": "indistinguishable",
    "u": "untested",
    "x": "not converged",
    "m": "not measured",
    "d": "",
}
"""One letter a cell, so that a row of the matrix is one word; `d` is the diagonal."""
DECIDED, OPEN = ("h", "s"), ("i", "u")
MOST_NUMBERED, MOST_TOLD, MOST_SPACED = 8, 30, 40
"""Languages up to which cells hold numbers, tell all when pointed at, and stand apart from each other."""
CELL_HEIGHTS = ((8, 52), (16, 34), (30, 24), (50, 16))
"""Pixels of a row by the most languages for which it is so high."""
LOWEST = 11
HATCH, SINGLE = (0.4, 0.8, 1.2, 1.6), (1.0,)
"""Strokes of a hatched cell: where they meet its left or lower edge, in parts of it."""
CROSS = (0.3, 0.7)
DIGITS = 4
"""Significant digits of the largest number; smaller ones have as many decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A cell of the matrix as it is drawn.

    Parameters
    ----------
    letter
        A key of `VERDICTS`.
    value, half
        Nats per byte, and half of the width of the interval; None where there is none.
    p
        P-value after correction.
    """

    letter: str
    value: float | None = None
    half: float | None = None
    p: float | None = None
    seeds: int = 0


def matrix_map(codes: Sequence[str], names: Sequence[str], spots: Sequence[Sequence[Spot]]) -> Json:
    """Draw a matrix of the effects of languages on each other.

    Parameters
    ----------
    codes, names
        What stands on the axes, and what is told when a cell is pointed at, in the order of rows and columns.
    spots
        Rows are targets, columns sources.
    """
    count = len(codes)
    decided = [abs(spot.value) for row in spots for spot in row if spot.letter in DECIDED and spot.value is not None]
    places = _places([spot for row in spots for spot in row])
    hints = _hints(count, [name.partition(" (")[0] for name in names] != list(codes))
    return {
        **_schema(),
        "data": {"values": [_row(at, names[at], row, places, count) for at, row in enumerate(spots)]},
        "transform": _unfolded(names, places, count),
        "encoding": {**_sides(codes), "tooltip": hints},
        "layer": _layers(count, max(decided, default=0.0), places),
        "width": "container",
        "height": count * next((high for most, high in CELL_HEIGHTS if count <= most), LOWEST),
    }


def _schema() -> Json:
    import altair as alt

    return {"$schema": alt.SCHEMA_URL}


def _places(spots: Sequence[Spot]) -> int:
    """Return how many decimals the numbers of the matrix have."""
    far = max((abs(spot.value) + (spot.half or 0.0) for spot in spots if spot.value is not None), default=0.0)
    return min(12, max(0, DIGITS - 1 - math.floor(math.log10(far)))) if far else 0


def _row(at: int, name: str, row: Sequence[Spot], places: int, count: int) -> Json:
    """Return a row of the matrix, with numbers as whole ones: those take the fewest bytes."""

    def whole(number: float | None) -> int | None:
        return None if number is None else round(number * 10**places)

    found: Json = {
        "t": at,
        "target": name,
        "v": [whole(spot.value) for spot in row],
        "h": [whole(spot.half) for spot in row],
        "c": "".join(spot.letter for spot in row),
    }
    if count <= MOST_TOLD:
        found["p"] = [None if spot.p is None else float(f"{spot.p:.2g}") for spot in row]
        found["n"] = [spot.seeds for spot in row]
    return found


def _unfolded(names: Sequence[str], places: int, count: int) -> list[Json]:
    """Return the steps from rows to cells, each with its corners, its words and its number."""
    gap = 0.02 if count <= MOST_SPACED else 0.0
    unit, digits = f"{10**places}", f"'.{places}f'"
    low, high = (f"format((datum.v {sign} datum.h[datum.s]) / {unit}, {digits})" for sign in "-+")
    known = "isValid(datum.v) && isValid(datum.h[datum.s])"
    steps = {
        "s": "datum.s - 1",
        "state": "datum.c[datum.s]",
        "source": f"{json.dumps(list(names))}[datum.s]",
        # JavaScript takes null / 10 for 0: a cell without a number would be one without an effect.
        "value": f"isValid(datum.v) ? datum.v / {unit} : null",
        "verdict": f"{json.dumps(VERDICTS)}[datum.state]",
        "interval": f"{known} ? {low} + ' to ' + {high} : 'none'",
        "change": f"isValid(datum.v) ? format(datum.v / {unit}, '+.{places}f') : 'none'",
        "left": f"datum.s + {gap}",
        "right": f"datum.s + {1 - gap}",
        "upper": f"datum.t + {gap}",
        "lower": f"datum.t + {1 - gap}",
    }
    if count <= MOST_TOLD:
        steps["adjusted"] = (
            "!isValid(datum.p[datum.s]) ? 'none' : datum.p[datum.s] < 0.001 ? '< 0.001' : "
            "format(datum.p[datum.s], '.2~g')"
        )
        steps["trainings"] = "datum.n[datum.s]"
    return [
        {"flatten": ["v"]},
        {"window": [{"op": "row_number", "as": "s"}], "groupby": ["t"]},
        *({"calculate": step, "as": name} for name, step in steps.items()),
    ]


def _hints(count: int, named: bool) -> list[Json]:
    told = [("target", "held-out language" if named else "held-out"), ("source", "added"), ("change", "change of loss")]
    told += [("interval", "interval"), ("verdict", "verdict")]
    if count <= MOST_TOLD:
        told[4:4] = [("adjusted", "p, corrected")]
        told.append(("trainings", "seeds"))
    return [{"field": field, "type": "nominal", "title": title} for field, title in told]


def _sides(codes: Sequence[str]) -> Json:
    """Return both axes: of quantities, since only those let a stroke run across a cell."""
    count = len(codes)
    scale: Json = {"domain": [0, count], "nice": False, "zero": False}
    looks: Json = {
        "values": [place + 0.5 for place in range(count)],
        "labelExpr": f"{json.dumps(list(codes))}[floor(datum.value)]",
        "grid": False,
        "ticks": False,
        "domain": False,
        "labelOverlap": "greedy",
        "labelLimit": 140,
        "labelFontSize": 12 if count <= 30 else 9,
    }
    longest = max(map(len, codes), default=0)
    flat = longest * count <= 45
    across = {**looks, "title": "Language added", "labelAngle": 0 if flat else -90}
    across |= {} if flat else {"labelAlign": "right", "labelBaseline": "middle"}
    return {
        "x": {"field": "left", "type": "quantitative", "scale": scale, "axis": across},
        "x2": {"field": "right"},
        "y": {
            "field": "upper",
            "type": "quantitative",
            "scale": {**scale, "reverse": True},
            "axis": {**looks, "title": "Held-out language"},
        },
        "y2": {"field": "lower"},
    }


def _layers(count: int, far: float, places: int) -> list[Json]:
    title = ["Change of the held-out loss in nats per byte:", "blue helps, orange hurts"]
    legend = {"title": title, "titleLimit": 0, "orient": "top", "gradientLength": 230, "format": "+.2~g"}
    legend |= {"tickCount": 5, "labelOverlap": "greedy", "labelSeparation": 6}
    scale = {"scheme": "blueorange", "domain": [-far, far]}
    shade = {"field": "value", "type": "quantitative", "scale": scale, "legend": legend}
    layers: list[Json] = [
        _cells("d", {"fill": UNDECIDED, "fillOpacity": 0.4}),
        _cells("xm", {"fill": UNDECIDED, "fillOpacity": 0.001, "stroke": UNDECIDED, "strokeOpacity": 0.35}),
        _cells("iu", {"fill": UNDECIDED, "fillOpacity": 0.1}),
        _strokes("iu", HATCH if count <= MOST_TOLD else SINGLE, count),
        _crosses(count),
    ]
    if far:
        layers.append({**_cells("hs", {}), "encoding": {"color": shade}})
    if count <= MOST_NUMBERED:
        layers += _numbers(count, far, places)
    return layers


def _among(states: str) -> Json:
    return {"filter": f"indexof('{states}', datum.state) >= 0"}


def _cells(states: str, looks: Json) -> Json:
    return {"transform": [_among(states)], "mark": {"type": "rect", **looks}}


def _strokes(states: str, ends: Sequence[float], count: int) -> Json:
    """Return the hatch: strokes from the left or lower edge up to the upper or right one, whatever a cell's size.

    A stroke runs along u + v = c, u from the left and v from the top, both from 0 to 1.
    """
    steps = {
        "x0": "datum.left + max(0, datum.end - 1) * (datum.right - datum.left)",
        "x1": "datum.left + min(1, datum.end) * (datum.right - datum.left)",
        "y0": "datum.upper + min(1, datum.end) * (datum.lower - datum.upper)",
        "y1": "datum.upper + max(0, datum.end - 1) * (datum.lower - datum.upper)",
    }
    return _lines(states, "end", list(ends), steps, 1.0 if count <= MOST_TOLD else 0.5)


def _crosses(count: int) -> Json:
    """Return two crossing strokes in the middle of each cell whose model did not converge."""
    near, far = CROSS
    steps = {
        "x0": f"datum.s + {near}",
        "x1": f"datum.s + {far}",
        "y0": f"datum.t + (datum.way ? {near} : {far})",
        "y1": f"datum.t + (datum.way ? {far} : {near})",
    }
    return _lines("x", "way", [0, 1], steps, 1.5 if count <= MOST_TOLD else 0.75)


def _lines(states: str, name: str, values: Sequence[float], steps: Json, width: float) -> Json:
    several: list[Json] = [
        _among(states),
        {"calculate": json.dumps(values), "as": name},
        {"flatten": [name]},
        *({"calculate": step, "as": key} for key, step in steps.items()),
    ]
    sides = {"x": ("x0", "x1"), "y": ("y0", "y1")}
    where: Json = {}
    for side, (start, end) in sides.items():
        where |= {side: {"field": start, "type": "quantitative"}, f"{side}2": {"field": end}}
    return {
        "transform": several,
        "mark": {"type": "rule", "color": UNDECIDED, "strokeWidth": width, "opacity": 0.65},
        "encoding": where,
    }


def _numbers(count: int, far: float, places: int) -> list[Json]:
    """Return the numbers in the cells, which vanish where a cell is too narrow for them."""
    digits = places - DIGITS + 2
    middle: Json = {
        "x": {"field": "across", "type": "quantitative"},
        "y": {"field": "down", "type": "quantitative"},
        "x2": None,
        "y2": None,
        "text": {"field": "value", "type": "quantitative", "format": f"+.{max(digits, 0)}f"},
    }
    steps = [{"calculate": "datum.s + 0.5", "as": "across"}, {"calculate": "datum.t + 0.5", "as": "down"}]
    looks: Json = {"type": "text", "fontSize": 12, "opacity": {"expr": f"width < {count * 36} ? 0 : 1"}}
    ink = {"condition": {"test": f"abs(datum.value) > {0.8 * far!r}", "value": "#ffffff"}, "value": "#000000"}
    return [
        {"transform": [_among("hs"), *steps], "mark": looks, "encoding": {**middle, "color": ink}},
        {"transform": [_among("iu"), *steps], "mark": looks, "encoding": middle},
    ]
