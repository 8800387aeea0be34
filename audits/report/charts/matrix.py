"""A square matrix of effects, in which proven, undecided and missing cells look different.

A row of the data is a row of the matrix, its cells in arrays that the chart unfolds: thousands of cells fit a page.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from audits.core.records import Json
from audits.report.charts.marks import alone, either, layer
from audits.report.charts.theme import UNDECIDED

Look = Literal["colour", "hatch", "cross", "empty", "diagonal"]
MOST_NUMBERED, MOST_DETAILED, MOST_SPACED = 8, 30, 40
"""Rows up to which cells hold numbers, say all when pointed at, and stand apart from each other."""
CELL_HEIGHTS = ((8, 52), (16, 34), (30, 24), (50, 16))
"""Pixels of a row by the most rows for which it is so high."""
LOWEST = 11
HATCH, SINGLE = (0.4, 0.8, 1.2, 1.6), (1.0,)
"""Strokes of a hatched cell: where they meet its left or lower edge, in parts of it."""
CROSS = (0.3, 0.7)
DIGITS = 4
"""Significant digits of the largest number; smaller ones have as many decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A cell of the matrix as it is drawn.

    Parameters
    ----------
    letter
        Its state, one letter so that a row of the matrix is one word.
    value, half
        The number, and half of the width of its interval; None where there is none.
    p
        P-value after correction.
    count
        Of what the number is made.
    """

    letter: str
    value: float | None = None
    half: float | None = None
    p: float | None = None
    count: int = 0


def effect_matrix(
    codes: Sequence[str],
    names: Sequence[str],
    cells: Sequence[Sequence[Tile]],
    *,
    states: Mapping[str, tuple[str, Look]],
    titles: tuple[str, str],
    legend: Sequence[str],
    hints: tuple[str, str, str, str],
) -> Json:
    """Draw a square matrix of effects on a scale around zero.

    Parameters
    ----------
    codes, names
        What stands on the axes, and what a cell says when pointed at, in the order of rows and columns.
    cells
        By row and column.
    states
        Words and look of each state by its letter.
    titles, legend
        Of the columns and the rows, and of the colours, in lines.
    hints
        Titles of what a cell says when pointed at: its row, its column, its number, and of what that is made.
    """
    count = len(codes)
    own = {look: "".join(letter for letter, (_, its) in states.items() if its == look) for look in _LOOKS}
    decided = [
        abs(cell.value) for row in cells for cell in row if cell.letter in own["colour"] and cell.value is not None
    ]
    decimals = _decimals([cell for row in cells for cell in row])
    rows = [_row(at, names[at], row, decimals, count) for at, row in enumerate(cells)]
    height = count * next((high for most, high in CELL_HEIGHTS if count <= most), LOWEST)
    words = {letter: text for letter, (text, _) in states.items()}
    return {
        **alone(_layers(count, max(decided, default=0.0), decimals, own, legend), rows, height),
        "transform": _unfolded(names, words, decimals, count),
        "encoding": {**_sides(codes, titles), "tooltip": _hints(count, hints)},
    }


_LOOKS: tuple[Look, ...] = ("colour", "hatch", "cross", "empty", "diagonal")


def _decimals(cells: Sequence[Tile]) -> int:
    """Return the number of decimals in the cells of the matrix."""
    far = max((abs(cell.value) + (cell.half or 0.0) for cell in cells if cell.value is not None), default=0.0)
    return min(12, max(0, DIGITS - 1 - math.floor(math.log10(far)))) if far else 0


def _row(at: int, name: str, row: Sequence[Tile], decimals: int, count: int) -> Json:
    """Return a row of the matrix with its numbers as scaled integers, which take the fewest bytes."""

    def whole(number: float | None) -> int | None:
        return None if number is None else round(number * 10**decimals)

    found: Json = {
        "t": at,
        "target": name,
        "v": [whole(cell.value) for cell in row],
        "h": [whole(cell.half) for cell in row],
        "c": "".join(cell.letter for cell in row),
    }
    if count <= MOST_DETAILED:
        found["p"] = [None if cell.p is None else float(f"{cell.p:.2g}") for cell in row]
        found["n"] = [cell.count for cell in row]
    return found


def _unfolded(names: Sequence[str], words: Mapping[str, str], decimals: int, count: int) -> list[Json]:
    """Return the Vega transforms from rows to cells, each with its corners, its words and its number."""
    gap = 0.02 if count <= MOST_SPACED else 0.0
    unit, digits = f"{10**decimals}", f"'.{decimals}f'"
    low, high = (f"format((datum.v {sign} datum.h[datum.s]) / {unit}, {digits})" for sign in "-+")
    known = "isValid(datum.v) && isValid(datum.h[datum.s])"
    steps = {
        "s": "datum.s - 1",
        "state": "datum.c[datum.s]",
        "source": f"{json.dumps(list(names))}[datum.s]",
        # In JavaScript null / 10 is 0, which would show a missing cell as one without an effect.
        "value": f"isValid(datum.v) ? datum.v / {unit} : null",
        "verdict": f"{json.dumps(words)}[datum.state]",
        "interval": f"{known} ? {low} + ' to ' + {high} : 'none'",
        "change": f"isValid(datum.v) ? format(datum.v / {unit}, '+.{decimals}f') : 'none'",
        "left": f"datum.s + {gap}",
        "right": f"datum.s + {1 - gap}",
        "upper": f"datum.t + {gap}",
        "lower": f"datum.t + {1 - gap}",
    }
    if count <= MOST_DETAILED:
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


def _hints(count: int, titles: tuple[str, str, str, str]) -> list[Json]:
    target, source, change, number = titles
    named = [("target", target), ("source", source), ("change", change), ("interval", "interval")]
    named += [("adjusted", "p, corrected")] if count <= MOST_DETAILED else []
    named.append(("verdict", "verdict"))
    named += [("trainings", number)] if count <= MOST_DETAILED else []
    return [{"field": field, "type": "nominal", "title": title} for field, title in named]


def _sides(codes: Sequence[str], titles: tuple[str, str]) -> Json:
    """Return both axes as quantities, since only these let a stroke run across a cell."""
    count = len(codes)
    scale: Json = {"domain": [0, count], "nice": False, "zero": False}
    looks: Json = {
        "values": [index + 0.5 for index in range(count)],
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
    across = {**looks, "title": titles[0], "labelAngle": 0 if flat else -90}
    across |= {} if flat else {"labelAlign": "right", "labelBaseline": "middle"}
    down = {**looks, "title": titles[1]}
    return {
        "x": {"field": "left", "type": "quantitative", "scale": scale, "axis": across},
        "x2": {"field": "right"},
        "y": {"field": "upper", "type": "quantitative", "scale": {**scale, "reverse": True}, "axis": down},
        "y2": {"field": "lower"},
    }


def _layers(count: int, far: float, decimals: int, own: Mapping[Look, str], legend_title: Sequence[str]) -> list[Json]:
    legend = {"title": list(legend_title), "titleLimit": 0, "orient": "top", "gradientLength": 230, "format": "+.2~g"}
    legend |= {"tickCount": 5, "labelOverlap": "greedy", "labelSeparation": 6}
    scale = {"scheme": "blueorange", "domain": [-far, far]}
    shade = {"field": "value", "type": "quantitative", "scale": scale, "legend": legend}
    outlined: Json = {"fill": UNDECIDED, "fillOpacity": 0.001, "stroke": UNDECIDED, "strokeOpacity": 0.35}
    strokes = HATCH if count <= MOST_DETAILED else SINGLE
    layers = [
        _rectangles(own["diagonal"], fill=UNDECIDED, fillOpacity=0.4),
        _rectangles(own["cross"] + own["empty"], **outlined),
        _rectangles(own["hatch"], fill=UNDECIDED, fillOpacity=0.1),
        _strokes(own["hatch"], strokes, count),
        _crosses(own["cross"], count),
    ]
    if far:
        layers.append({**_rectangles(own["colour"]), "encoding": {"color": shade}})
    if count <= MOST_NUMBERED:
        layers += _numbers(count, far, decimals, own)
    return layers


def _among(states: str) -> str:
    return f"indexof('{states}', datum.state) >= 0"


def _rectangles(states: str, **looks: Any) -> Json:
    """Return the layer of whole cells, whose positions are those of the chart."""
    return {"transform": [{"filter": _among(states)}], "mark": {"type": "rect", **looks}}


def _strokes(states: str, ends: Sequence[float], count: int) -> Json:
    """Return the hatch: diagonal strokes from edge to edge, whatever a cell's size.

    A stroke runs along u + v = c, u from the left and v from the top, both from 0 to 1.
    """
    steps = {
        "x0": "datum.left + max(0, datum.end - 1) * (datum.right - datum.left)",
        "x1": "datum.left + min(1, datum.end) * (datum.right - datum.left)",
        "y0": "datum.upper + min(1, datum.end) * (datum.lower - datum.upper)",
        "y1": "datum.upper + max(0, datum.end - 1) * (datum.lower - datum.upper)",
    }
    return _segments(states, "end", list(ends), steps, 1.0 if count <= MOST_DETAILED else 0.5)


def _crosses(states: str, count: int) -> Json:
    """Return two crossing strokes in the middle of each cell."""
    near, far = CROSS
    steps = {
        "x0": f"datum.s + {near}",
        "x1": f"datum.s + {far}",
        "y0": f"datum.t + (datum.way ? {near} : {far})",
        "y1": f"datum.t + (datum.way ? {far} : {near})",
    }
    return _segments(states, "way", [0, 1], steps, 1.5 if count <= MOST_DETAILED else 0.75)


def _segments(states: str, name: str, values: Sequence[float], steps: Mapping[str, str], width: float) -> Json:
    where: Json = {}
    for side, (start, end) in {"x": ("x0", "x1"), "y": ("y0", "y1")}.items():
        where |= {side: {"field": start, "type": "quantitative"}, f"{side}2": {"field": end}}
    several: list[Json] = [
        {"filter": _among(states)},
        {"calculate": json.dumps(values), "as": name},
        {"flatten": [name]},
        *({"calculate": step, "as": key} for key, step in steps.items()),
    ]
    return {**layer("rule", where, color=UNDECIDED, strokeWidth=width, opacity=0.65), "transform": several}


def _numbers(count: int, far: float, decimals: int, own: Mapping[Look, str]) -> list[Json]:
    """Return the numbers in the cells, hidden where a cell is too narrow for them."""
    digits = decimals - DIGITS + 2
    middle: Json = {
        "x": {"field": "across", "type": "quantitative"},
        "y": {"field": "down", "type": "quantitative"},
        "x2": None,
        "y2": None,
        "text": {"field": "value", "type": "quantitative", "format": f"+.{max(digits, 0)}f"},
    }
    steps = [{"calculate": "datum.s + 0.5", "as": "across"}, {"calculate": "datum.t + 0.5", "as": "down"}]
    looks: Json = {"fontSize": 12, "opacity": {"expr": f"width < {count * 36} ? 0 : 1"}}
    ink = either(f"abs(datum.value) > {0.8 * far!r}", "#ffffff", "#000000")
    return [
        {**layer("text", words, **looks), "transform": [{"filter": _among(states)}, *steps]}
        for states, words in ((own["colour"], {**middle, "color": ink}), (own["hatch"], middle))
    ]
