"""Charts of the bounds of epsilon by method, against the claim and the most that could be proved."""

from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.numbers import bounded, percent
from audits.core.records import Figure, Json
from audits.membership.bounding import (
    ASSUMES_GDP,
    ASSUMES_INDEPENDENT,
    ASSUMES_INDEPENDENT_GDP,
    CERTIFIED,
    HEURISTIC,
    Bounds,
    Proved,
)
from audits.membership.claims import Claim
from audits.membership.figure_parts import MOST_PANELS, Names, label_of, rest_of, tabled
from audits.membership.measure import Counts
from audits.report.charts import Axis, bounds, figure_of, stacked

MOST_BOUNDS = 3
"""Attacks on one model whose bounds are drawn."""
STANDING = {
    CERTIFIED: ("circle", "certified"),
    HEURISTIC: ("diamond", "heuristic"),
    ASSUMES_GDP: ("triangle-up", "if Gaussian"),
    ASSUMES_INDEPENDENT: ("square", "if independent"),
    ASSUMES_INDEPENDENT_GDP: ("triangle-down", "if both"),
}
"""Shape and words of a bound by what it rests on."""


def proofs(draft: Draft, counts: Counts, attacks: Names, models: Names) -> Figure | None:
    """Draw the bounds of the attacks that prove most; None without bounds."""
    shown, left = _leading(counts, models)
    if not shown:
        return None
    proved = [one for own in shown for one in own.proved.values()]
    claims = [claim.epsilon for claim in counts.claims.values()]
    # What a perfect attack proves under an assumption, or a claim far beyond all that can be proved, would leave no
    # room for the rest.
    plain = [one.ceiling for one in proved if one.validity not in (ASSUMES_GDP, ASSUMES_INDEPENDENT_GDP)]
    edge = 1.1 * max([*plain, *(one.epsilon for one in proved), 0.1])
    near = [claim for claim in claims if claim <= 2 * edge]
    # A claim that is not too far away is drawn, even if that leaves the bounds less room.
    edge = max([edge, *(1.1 * claim for claim in near)])
    views = []
    for one in shown:
        claim = counts.claims.get(one.judged.attack.model)
        views.append((label_of(one.judged, attacks, models), _chart(list(one.proved.values()), claim, edge)))
    caption = (
        f"Lower bounds of epsilon ({percent(draft.level)}) of {_attacks(attacks, models, shown)}, by method; the line "
        "to the right ends where a perfect attack on as many points would be, or with an arrow where that is off the "
        "chart. Circle: certified. Diamond: heuristic, since points of one training run are no independent trials. "
        "Triangle: holds if the trade-off curve is Gaussian."
    )
    if any(one.validity == ASSUMES_INDEPENDENT for one in proved):
        caption += " Square: holds if canaries do not interfere (independent); triangle that points down: if both."
    if claims:
        caption += " Dashed: the claimed epsilon. A bound to the right of it contradicts the claim if it holds; the "
        caption += f"verdict is by {shown[0].leading.method}."
    return figure_of(
        "epsilon",
        "How large must epsilon at least be?",
        caption + rest_of(left),
        _listed(stacked(views), counts, shown, several=len(models) > 1),
    )


def _leading(counts: Counts, models: Names) -> tuple[list[Bounds], int]:
    """Return the bounds of the attacks that prove most, which are drawn, and how many are left out."""
    found = sorted((one for one in counts.bounds if one.proved), key=lambda one: -one.leading.epsilon)
    if len(models) <= 1:
        return found[:MOST_BOUNDS], len(found) - MOST_BOUNDS
    first = [next((one for one in found if one.judged.attack.model == model), None) for model in models]
    shown = [one for one in first if one is not None][:MOST_PANELS]
    return shown, len(found) - len(shown)


def _attacks(attacks: Names, models: Names, shown: Sequence[Bounds]) -> str:
    if len(models) > 1:
        return "the attack on each model that proves most"
    if len(shown) > 1:
        return f"the {len(shown)} attacks that prove most"
    return label_of(shown[0].judged, attacks, models)


def _listed(chart: Json, counts: Counts, shown: Sequence[Bounds], *, several: bool) -> Json:
    rows = []
    for own in shown:
        claim = counts.claims.get(own.judged.attack.model)
        head = [*([own.judged.attack.model] if several else []), own.judged.attack.name]
        for one in own.proved.values():
            ends = [bounded(one.epsilon), bounded(one.ceiling), "" if claim is None else claim.words]
            rows.append([*head, one.method, one.validity, *ends])
    titles = [
        *(["model"] if several else []),
        "attack",
        "method",
        "standing",
        "at least",
        "most provable",
        "claimed",
    ]
    return tabled(chart, titles, rows)


def _chart(proved: Sequence[Proved], claim: Claim | None, edge: float) -> Json:
    """Draw the bounds of one attack below each other, each with value and validity in words, up to `edge`."""
    off = ", off the chart" if claim is not None and claim.epsilon > edge else ""
    claimed = "" if claim is None else f" (claimed: {claim.words}{off})"
    rows = [
        {
            "method": one.method,
            "validity": one.validity,
            "bound": one.epsilon,
            "ceiling": one.ceiling,
            "at least": bounded(one.epsilon),
            "provable": bounded(one.ceiling),
            "words": f"{bounded(one.epsilon)}, {STANDING[one.validity][1]}",
        }
        for one in proved
    ]
    return bounds(
        rows,
        label="method",
        value=Axis("bound", f"Epsilon{claimed}", ends=(0, edge)),
        until="ceiling",
        words="words",
        kind="validity",
        kinds={kind: shape for kind, (shape, _) in STANDING.items()},
        hints=("method", "validity", "at least", "provable"),
        claim=None if claim is None else claim.epsilon,
    )
