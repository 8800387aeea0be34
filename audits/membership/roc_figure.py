"""Curves of hits against false alarms, and the most that a claim allows.

Hits stand against false alarms on scales of powers: on plain ones the rates that matter, those of few false alarms,
would be one line at the left edge.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audits.chart_parts import COLUMNS, HEIGHT, MOST_SERIES, OKABE_ITO, PANEL_WIDTH, UNDECIDED
from audits.chart_text import distinct, plain_rows
from audits.context import Draft
from audits.membership.claims import Claim
from audits.membership.drawing import MOST_PANELS, TIERS, Names, best_first, figure_of, hit_rows, rest_of, table_of
from audits.membership.measure import Counts
from audits.membership.rates import Judged
from audits.numbers import percent
from audits.records import Estimate, Figure, Json
from audits.statistics.binomial import upper_limit
from audits.statistics.epsilon_bounds import most_hits
from audits.statistics.roc import Floats, call_at
from audits.wording import listed, span

MOST_POINTS, LEAST_POINTS, ALL_POINTS = 120, 16, 720
"""Points of a curve at most and at least, and about how many those of all curves have: the page has to hold them."""
CLAIMED = 12
"""Points of the line of a claim."""
CHANCE = "chance"
PANEL_HEIGHT = 170
SHAPES = ("circle", "square", "triangle-up", "diamond")
DASHES = ([1, 0], [7, 2], [2, 2], [7, 2, 2, 2])
_GREY_DASHES = {True: [4, 3], False: [1, 0]}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """One curve: the panel it stands in, which of the lines it is there, and its hits at the rates that are told."""

    panel: str
    series: str
    judged: Judged
    hits: Sequence[Estimate]


def roc(draft: Draft, counts: Counts, names: Names) -> Figure:
    """Draw all attacks in one panel where they are few, else each in its own; of several models, the best by tier."""
    found, more = best_first(counts.judged), ""
    if names.several:
        models = list(names.models)[:MOST_PANELS]
        drawn = [one for model in models for one in _best_by_tier(found, model)]
        more = " Drawn is the attack with the highest AUC of each kind of access." + rest_of(
            len(names.models) - len(models), "model"
        )
        panels = [names.models[one.attack.model] for one in drawn]
        series = [TIERS[one.attack.tier] for one in drawn]
    else:
        drawn = found[: MOST_SERIES if len(found) <= MOST_SERIES else MOST_PANELS]
        apart = len(drawn) > MOST_SERIES
        shown = [names.attacks[one.attack.name] for one in drawn]
        panels, series = (shown, ["attack"] * len(drawn)) if apart else ([""] * len(drawn), shown)
        more = rest_of(len(found) - len(drawn))
    claims = {panel: counts.claims[one.attack.model] for one, panel in zip(drawn, panels, strict=True)
              if one.attack.model in counts.claims}  # fmt: skip
    lines = [
        Line(panel=panel, series=name, judged=one, hits=hit_rows(draft, one))
        for one, panel, name in zip(drawn, panels, series, strict=True)
    ]
    caption = (
        "Hits against false alarms at every threshold, both on scales of powers: the left end is where a call "
        f"is nearly never wrong. Bands are {percent(draft.level)} intervals of the hits, each threshold for itself; "
        "points are the rates in the tables. On the dashed line a call is no better than chance."
    )
    if claims:
        name = claim_name(list(claims.values()))
        caption += f" Grey, {name}: no attack on a model that keeps its claim is above it, on average."
        others = max(line.judged.curve.others for line in lines)
        free = [panel for panel, claim in claims.items() if allows_all(claim, others)]
        if free:
            which = f"That of {listed(free)}" if len(claims) > len(free) else "It"
            caption += f" {which} allows everything at all rates that so few non-members can show."
    spec = {**roc_chart(lines, claims, draft.level), **_rates(draft, names, drawn)}
    return figure_of("roc", "At few false alarms, how many members are found?", caption + more, spec)


def _best_by_tier(found: Sequence[Judged], model: str) -> list[Judged]:
    best: dict[str, Judged] = {}
    for one in found:
        if one.attack.model == model:
            best.setdefault(one.attack.tier, one)
    return [best[tier] for tier in TIERS if tier in best]


def _rates(draft: Draft, names: Names, drawn: Sequence[Judged]) -> Json:
    """Return area and hits of the attacks that are drawn as a table, with their whole names."""
    fprs = list(dict.fromkeys(str(row.where["fpr"]) for one in drawn for row in hit_rows(draft, one)))
    rows = []
    for one in drawn:
        found = {str(row.where["fpr"]): span(row) for row in hit_rows(draft, one)}
        auc = draft.row("auc", **one.where, tier=one.attack.tier)
        head = [*([one.attack.model] if names.several else []), one.attack.name, one.attack.tier]
        rows.append([*head, span(auc), *(found.get(fpr, "") for fpr in fprs)])
    titles = [*(["model"] if names.several else []), "attack", "tier", "AUC", *(f"found at {fpr}" for fpr in fprs)]
    return table_of(titles, rows)


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
    floors = [min(1 / getattr(line.judged.curve, side) for line in lines) for side in ("others", "members")]
    # Shared by the lines, so that a page of many models is no larger than one of few.
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
    each = {claim.number for claim in claims}
    return f"most that epsilon = {each.pop()} allows" if len(each) == 1 else "most that the claimed epsilon allows"


def allows_all(claim: Claim, others: int) -> bool:
    """Tell whether a claim allows to find everybody at the smallest rate of false alarms that there can be."""
    return float(most_hits(1 / others, claim.epsilon, claim.delta)) > 1 - 1e-3


def _of_curve(line: Line, most: int, floor: float, level: float) -> list[Json]:
    curve = line.judged.curve
    alarms = np.geomspace(1, curve.others, most).round()
    # The rates that are told are among those drawn, so that their points lie on the line.
    # The slack keeps 0.29 x 100 from being 28.
    shown = [max(1.0, math.floor(float(row.where["fpr"]) * curve.others + 1e-9)) for row in line.hits]
    alarms = np.unique(np.concatenate((alarms, shown)))
    hits = np.array([call_at(curve, count / curve.others).hits for count in alarms])
    high = upper_limit(hits, curve.members, (1 - level) / 2)
    low = 1 - upper_limit(curve.members - hits, curve.members, (1 - level) / 2)
    common = {"panel": line.panel, "series": line.series}
    rows = [
        # A scale of powers has no zero: where nobody is found there is the band alone.
        {**common, "fpr": fpr, "low": from_, "high": to} | ({"tpr": tpr} if tpr > 0 else {})
        for fpr, tpr, from_, to in _rounded(
            alarms / curve.others, hits / curve.members, np.maximum(low, floor), np.maximum(high, floor)
        )
    ]
    for row in line.hits:
        if row.value > 0:
            found = {"attack": line.judged.attack.name, "at": row.where["fpr"], "tpr": row.value}
            rows.append({**common, **found, "from": row.low, "to": row.high})
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
