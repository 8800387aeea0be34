"""How are curves of hits, spreads of scores and bounds of epsilon drawn? The charts that only this audit has.

Hits stand against false alarms on scales of powers: on plain ones the rates that matter, those of few false alarms,
would be one line at the left edge.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audits.chart_text import distinct, plain_rows
from audits.charts import COLUMNS, HEIGHT, OKABE_ITO, PANEL_WIDTH, UNDECIDED, Axis, interval_lines
from audits.membership.bounding import ASSUMES_GDP, CERTIFIED, HEURISTIC, Proved
from audits.membership.claims import Claim
from audits.records import Estimate, Json
from audits.statistics import wilson
from audits.statistics.epsilon_bounds import most_hits, upper_rate
from audits.statistics.roc import Bools, Floats, Roc, call_at

MOST_POINTS, LEAST_POINTS, ALL_POINTS = 120, 16, 720
"""Points of a curve at most and at least, and about how many those of all curves have: the page has to hold them."""
CLAIMED = 12
"""Points of the line of a claim."""
CHANCE = "chance"
PANEL_HEIGHT = 170
SHAPES = ("circle", "square", "triangle-up", "diamond")
DASHES = ([1, 0], [7, 2], [2, 2], [7, 2, 2, 2])
_GREY_DASHES = {True: [4, 3], False: [1, 0]}
MOST_BINS = 60
STANDING = {
    CERTIFIED: ("circle", "certified"),
    HEURISTIC: ("diamond", "heuristic"),
    ASSUMES_GDP: ("triangle-up", "if Gaussian"),
}
"""Shape and words of a bound by what it rests on."""
ROW = 40
"""Pixels of a bound, which holds its words and, under them, its line."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """One curve: the panel it stands in, which of the lines it is there, and its hits at the rates that are told."""

    panel: str
    series: str
    attack: str
    curve: Roc
    told: Sequence[Estimate]


def roc_chart(lines: Sequence[Line], claims: Mapping[str, Claim], level: float) -> Json:
    """Draw curves with their pointwise intervals, chance, and by panel the most that a claim allows.

    Parameters
    ----------
    claims
        By panel; a panel need have none.
    level
        Of the intervals of Clopper and Pearson, each threshold for itself.
    """
    panels = list(dict.fromkeys(line.panel for line in lines))
    floors = [min(1 / getattr(line.curve, side) for line in lines) for side in ("others", "members")]
    most = min(MOST_POINTS, max(LEAST_POINTS, ALL_POINTS // len(lines)))
    rows = [row for line in lines for row in _of_curve(line, most, floors[1], level)]
    series = distinct(rows, "series")
    name = claim_name(list(claims.values()))
    for panel in panels:
        rows += _of_chance(panel, max(floors))
        if panel in claims:
            rows += _of_claim(panel, name, claims[panel], floors)
    looks = _looks(series, [*([name] if claims else []), CHANCE])
    sides = {side: _side(side, floor) for side, floor in zip("xy", floors, strict=True)}
    return _chart(_layers(sides, looks), plain_rows(rows), panels)


def claim_name(claims: Sequence[Claim]) -> str:
    """Return what the line of the claims is called."""
    met = {f"{claim.epsilon:.3g}" for claim in claims}
    return f"most that epsilon = {met.pop()} allows" if len(met) == 1 else "most that the claimed epsilon allows"


def allows_all(claim: Claim, others: int) -> bool:
    """Tell whether a claim allows to find everybody at the smallest rate of false alarms that there can be."""
    return float(most_hits(1 / others, claim.epsilon, claim.delta)) > 1 - 1e-3


def _of_curve(line: Line, most: int, floor: float, level: float) -> list[Json]:
    curve = line.curve
    alarms = np.geomspace(1, curve.others, most).round()
    # The rates that are told are among those drawn, so that their points lie on the line.
    told = [max(1.0, math.floor(float(row.where["fpr"]) * curve.others + 1e-9)) for row in line.told]
    alarms = np.unique(np.concatenate((alarms, told)))
    hits = np.array([call_at(curve, count / curve.others).hits for count in alarms])
    high = upper_rate(hits, curve.members, (1 - level) / 2)
    low = 1 - upper_rate(curve.members - hits, curve.members, (1 - level) / 2)
    common = {"panel": line.panel, "series": line.series}
    rows = [
        # A scale of powers has no zero: where nobody is found there is the band alone.
        {**common, "fpr": fpr, "low": from_, "high": to} | ({"tpr": tpr} if tpr > 0 else {})
        for fpr, tpr, from_, to in _rounded(
            alarms / curve.others, hits / curve.members, np.maximum(low, floor), np.maximum(high, floor)
        )
    ]
    for row in line.told:
        if row.value > 0:
            found = {"attack": line.attack, "at": row.where["fpr"], "tpr": row.value, "from": row.low, "to": row.high}
            rows.append({**common, **found})
    return rows


def _rounded(*columns: Floats) -> list[tuple[float, ...]]:
    return [tuple(float(f"{number:.4g}") for number in row) for row in zip(*columns, strict=True)]


def _of_chance(panel: str, start: float) -> list[Json]:
    return [{"panel": panel, "series": CHANCE, "fpr": rate, "most": rate} for rate in (start, 1.0)]


def _of_claim(panel: str, name: str, claim: Claim, floors: Sequence[float]) -> list[Json]:
    # The line has a corner, which must not fall between two points.
    corner = (1 - claim.delta) / (1 + math.exp(min(claim.epsilon, 700.0)))
    rates = np.unique([*np.geomspace(floors[0], 1.0, CLAIMED), max(corner, floors[0])])
    allowed = np.maximum(most_hits(rates, claim.epsilon, claim.delta), floors[1])
    common = {"panel": panel, "series": name}
    return [{**common, "fpr": rate, "most": hit} for rate, hit in _rounded(rates, allowed)]


def _looks(series: Sequence[str], lines: Sequence[str]) -> Json:
    """Return colour, dashes and shapes, in one legend: what is measured, then what it is to be read against."""
    names = [*series, *lines]
    longest = max(len(name) for name in names)
    columns = len(names) if longest * len(names) <= 30 else 1
    legend = {"title": None, "orient": "top", "symbolOpacity": 1, "columns": columns, "labelLimit": 0}
    ranges: dict[str, list[Any]] = {
        "color": [*OKABE_ITO[: len(series)], *[UNDECIDED] * len(lines)],
        "strokeDash": [*DASHES[: len(series)], *(_GREY_DASHES[name == CHANCE] for name in lines)],
        "shape": [*SHAPES[: len(series)], *["stroke"] * len(lines)],
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


def _side(side: str, floor: float) -> Json:
    decades = range(math.ceil(math.log10(floor) - 1e-9), 1)
    # Of less than two decades, powers alone would leave an axis without a scale.
    ticks = [round(m * 10.0**k, 9) for k in decades for m in ((1,) if len(decades) > 2 else (1, 2, 5))]
    title = {"x": "False alarms (share of non-members)", "y": "Found (share of members)"}[side]
    axis = {"title": title, "values": [tick for tick in ticks if tick <= 1], "format": "~g", "labelSeparation": 6}
    scale = {"type": "log", "domain": [float(f"{min(floor, 0.5):.4g}"), 1], "nice": False}
    return {"type": "quantitative", "scale": scale, "axis": axis}


def _layers(sides: Json, looks: Json) -> list[Json]:
    def at(x: str, y: str) -> Json:
        return {"x": {**sides["x"], "field": x}, "y": {**sides["y"], "field": y}}

    drawn = {key: looks[key] for key in ("color", "strokeDash")}
    hints = [
        {"field": "attack", "type": "nominal", "title": "attack"},
        {"field": "at", "type": "quantitative", "title": "false alarms", "format": ".3~g"},
        *(
            {"field": key, "type": "quantitative", "title": title, "format": ".3f"}
            for key, title in (("tpr", "found"), ("from", "from"), ("to", "to"))
        ),
    ]
    return [
        _layer("most", {"type": "line", "strokeWidth": 1.5}, {**at("fpr", "most"), **drawn}),
        _layer(
            "low",
            {"type": "area", "fillOpacity": 0.16, "interpolate": "step-after"},
            {**at("fpr", "low"), "y2": {"field": "high"}, "color": looks["color"]},
        ),
        _layer(
            "tpr",
            {"type": "line", "strokeWidth": 2, "interpolate": "step-after"},
            {**at("fpr", "tpr"), **drawn},
            "isValid(datum.fpr)",
        ),
        _layer(
            "at",
            {"type": "rule", "strokeWidth": 1.5},
            {**at("at", "from"), "y2": {"field": "to"}, "color": looks["color"]},
        ),
        _layer(
            "at",
            {"type": "point", "filled": True, "size": 44, "opacity": 1},
            {**at("at", "tpr"), "color": looks["color"], "shape": looks["shape"], "tooltip": hints},
        ),
    ]  # fmt: skip


def _layer(key: str, mark: Json, encoding: Json, *more: str) -> Json:
    """Return the marks of the rows that have a key."""
    tests = [f"isValid(datum.{key})", *more]
    return {"transform": [{"filter": " && ".join(tests)}], "mark": {**mark, "clip": True}, "encoding": encoding}


def _chart(layers: list[Json], rows: list[Json], panels: Sequence[str]) -> Json:
    import altair as alt

    head = {"$schema": alt.SCHEMA_URL, "data": {"values": rows}}
    if len(panels) == 1:
        return {**head, "layer": layers, "width": "container", "height": HEIGHT}
    header = {"title": None, "labelLimit": 0}
    facet = {"field": "panel", "type": "nominal", "sort": list(panels), "header": header}
    inner = {"layer": layers, "width": PANEL_WIDTH, "height": PANEL_HEIGHT}
    return {**head, "facet": facet, "spec": inner, "columns": min(COLUMNS, len(panels))}


def scores_chart(scores: Floats, member: Bools, threshold: tuple[float, str] | None, level: float) -> Json | None:
    """Draw the share of each side in bins of the score; None where all scores are equal.

    Parameters
    ----------
    threshold
        A score and what it is called; not drawn where it is outside the bins.
    """
    edges = _edges(scores)
    if edges is None:
        return None
    unit, base = _unit(edges)
    rows = _binned(scores, member, edges, level)
    for row in rows:
        row["score"] = row["score"] / unit - base / unit
    title = "Score (higher: member)" + (f" less {base!r}" if base else "")
    rule = None
    if threshold is not None and edges[0] <= threshold[0] <= edges[-1]:
        rule = threshold[0] / unit - base / unit, threshold[1]
    return interval_lines(
        rows,
        x=Axis("score", title + (f", in units of {unit:g}" if unit != 1 else ""), zero=False, kind="quantitative"),
        y=Axis("share", "Share of its side", ".2f"),
        low="low",
        high="high",
        series="points",
        series_title="",
        rule=rule,
    )


def _edges(scores: Floats) -> Floats | None:
    """Return the edges of bins over all but the outermost scores; None where these do not differ."""
    for tail in (0.005, 0.0):
        low, high = np.quantile(scores, [tail, 1 - tail], method="nearest")
        if low < high:
            break
    else:
        return None
    part = np.linspace(0, 1, int(np.clip(2 * np.cbrt(len(scores)), 8, MOST_BINS)) + 1)
    # A weighted mean, since the difference of two large numbers may be infinite.
    return np.asarray(low * (1 - part) + high * part)


def _unit(edges: Floats) -> tuple[float, float]:
    """Return a unit and an origin in which six digits tell the bins apart."""
    low, high = float(edges[0]), float(edges[-1])
    far = max(abs(low), abs(high))
    unit = 1.0 if 1e-6 < far < 1e9 else float(f"1e{int(np.floor(np.log10(far)))}")
    return unit, low if high / unit - low / unit < 1e-3 * far / unit else 0.0


def _binned(scores: Floats, member: Bools, edges: Floats, level: float) -> list[Json]:
    """Return the share of each side in each bin, with its interval (Wilson)."""
    bins = np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, len(edges) - 2)
    middles = edges[:-1] / 2 + edges[1:] / 2
    rows = []
    for name, side in (("members", member), ("non-members", ~member)):
        counts = np.bincount(bins[side], minlength=len(middles))
        total = int(counts.sum())
        for middle, count in zip(middles.tolist(), counts.tolist(), strict=True):
            low, high = wilson(count, total, level=level)
            share = count / total
            ends = {"low": min(low, share), "high": max(high, share)}
            rows.append({"score": middle, "share": share, **ends, "points": name})
    return rows


def bounds_chart(proved: Sequence[Proved], claim: Claim | None, edge: float) -> Json:
    """Draw the bounds of one attack under each other, each with its value and standing in words, up to `edge`.

    A line goes on from each bound to what a perfect attack would prove, with an arrow where that is beyond the edge.
    """
    import altair as alt

    names = [one.method for one in proved]
    off = ", off the chart" if claim is not None and claim.epsilon > edge else ""
    told = "" if claim is None else f" (claimed: {claim.epsilon:.4g}{off})"
    axis = {"title": f"Epsilon{told}", "labelSeparation": 8, "tickCount": 6}
    x = {"type": "quantitative", "scale": {"domain": [0, float(f"{edge:.4g}")], "nice": False}, "axis": axis}
    y = {"field": "method", "type": "ordinal", "sort": names, "axis": {"title": None, "labelLimit": 0}}
    layers = _marks_of_bounds(x, y)
    if claim is not None and claim.epsilon <= edge:
        mark = {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.5, "color": UNDECIDED}
        data = {"values": [{"claimed": claim.epsilon}]}
        layers.insert(0, {"data": data, "mark": mark, "encoding": {"x": {**x, "field": "claimed"}}})
    rows = plain_rows(_bound(one, edge) for one in proved)
    return {
        "$schema": alt.SCHEMA_URL,
        "data": {"values": rows},
        "layer": layers,
        "width": "container",
        "height": ROW * len(rows),
    }


def _marks_of_bounds(x: Json, y: Json) -> list[Json]:
    kinds = list(STANDING)
    tone: Json = {"field": "validity", "type": "nominal", "legend": None}
    shape = {**tone, "scale": {"domain": kinds, "range": [look for look, _ in STANDING.values()]}}
    tone = {**tone, "scale": {"domain": kinds, "range": list(OKABE_ITO[: len(kinds)])}}
    hints: list[Json] = [{"field": key, "type": "nominal"} for key in ("method", "validity")]
    hints += [{"field": key, "type": "quantitative", "format": ".3~g"} for key in ("bound", "ceiling")]
    at, until = {"x": {**x, "field": "bound"}, "y": y}, {"x": {**x, "field": "until"}, "y": y, "color": tone}
    end = {"type": "tick", "thickness": 2, "size": 12}
    beyond = {"type": "point", "shape": "triangle-right", "filled": True, "size": 60, "opacity": 1}
    words = {"text": {"field": "words", "type": "nominal"}}
    marks: list[Json] = [
        {
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55},
            "encoding": {**at, "x2": {"field": "until"}, "color": tone},
        },
        {"transform": [{"filter": "!datum.beyond"}], "mark": end, "encoding": until},
        {"transform": [{"filter": "datum.beyond"}], "mark": beyond, "encoding": until},
        {
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
            "encoding": {**at, "color": tone, "shape": shape, "tooltip": hints},
        },
    ]
    for held in ("left", "right"):
        text = {"type": "text", "dy": -12, "fontSize": 12, "align": held}
        side = [{"filter": f"datum.held == '{held}'"}]
        marks.append({"transform": side, "mark": text, "encoding": {**at, **words}})
    return marks


def _bound(one: Proved, edge: float) -> Json:
    return {
        "method": one.method,
        "validity": one.validity,
        "bound": one.epsilon,
        "ceiling": one.ceiling,
        "until": min(one.ceiling, edge),
        "beyond": one.ceiling > edge,
        # On the side that has room for it.
        "held": "right" if one.epsilon > edge / 2 else "left",
        "words": f"{one.epsilon:.3g}, {STANDING[one.validity][1]}",
    }
