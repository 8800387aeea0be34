"""Charts of attacks: hits against false alarms beside the most that a claim allows; the scores of the best."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Figure, Json
from audits.core.wording import listed, span
from audits.membership.claims import Claim
from audits.membership.figure_parts import MOST_PANELS, TIERS, Names, best_first, hit_rows, label_of, rest_of, tabled
from audits.membership.measure import Counts
from audits.membership.rates import Judged
from audits.report.charts import Axis, figure_of, lines, roc
from audits.report.charts.theme import MOST_SERIES
from audits.statistics import wilson
from audits.statistics.binomial import upper_limit
from audits.statistics.epsilon_bounds import most_hits
from audits.statistics.roc import Bools, Floats, call_at

MOST_POINTS, LEAST_POINTS, ALL_POINTS = 120, 16, 720
"""Points of a curve at most and at least, and about how many those of all curves have: the page has to hold them."""
CLAIMED = 12
"""Points of the line of a claim."""
CHANCE = "chance"
MOST_BINS = 60


def rates(draft: Draft, counts: Counts, attacks: Names, models: Names) -> Figure:
    """Draw few attacks in one panel, many each in its own; of several models, the best for each access."""
    found, more = best_first(counts.judged), ""
    if len(models) > 1:
        first = list(models)[:MOST_PANELS]
        drawn = [one for model in first for one in _best_by_tier(found, model)]
        more = " Drawn is the attack with the highest AUC of each kind of access." + rest_of(
            len(models) - len(first), "model"
        )
        panels = [models[one.attack.model] for one in drawn]
        series = [TIERS[one.attack.tier] for one in drawn]
    else:
        drawn = found[: MOST_SERIES if len(found) <= MOST_SERIES else MOST_PANELS]
        apart = len(drawn) > MOST_SERIES
        shown = [attacks[one.attack.name] for one in drawn]
        panels, series = (shown, ["attack"] * len(drawn)) if apart else ([""] * len(drawn), shown)
        more = rest_of(len(found) - len(drawn))
    claims = {panel: counts.claims[one.attack.model] for one, panel in zip(drawn, panels, strict=True)
              if one.attack.model in counts.claims}  # fmt: skip
    caption = (
        "Hits against false alarms at every threshold, both on scales of powers: the left end is where a call "
        f"is nearly never wrong. Bands are {percent(draft.level)} intervals of the hits, each threshold for itself; "
        "points are the rates in the tables. On the dashed line a call is no better than chance."
    )
    if claims:
        name = claim_name(list(claims.values()))
        caption += f" Grey, {name}: no attack on a model that keeps its claim is above it, on average."
        others = max(one.curve.others for one in drawn)
        free = [panel for panel, claim in claims.items() if allows_all(claim, others)]
        if free:
            which = f"That of {listed(free)}" if len(claims) > len(free) else "It"
            caption += f" {which} allows everything at all rates that so few non-members can show."
    spec = _listed(_chart(draft, drawn, panels, series, claims), draft, drawn, several=len(models) > 1)
    return figure_of("roc", "At few false alarms, how many members are found?", caption + more, spec)


def _best_by_tier(found: Sequence[Judged], model: str) -> list[Judged]:
    best: dict[str, Judged] = {}
    for one in found:
        if one.attack.model == model:
            best.setdefault(one.attack.tier, one)
    return [best[tier] for tier in TIERS if tier in best]


def _listed(chart: Json, draft: Draft, drawn: Sequence[Judged], *, several: bool) -> Json:
    """Return a chart with a table of area and hits of the drawn attacks, under their full names."""
    fprs = list(dict.fromkeys(str(row.where["fpr"]) for one in drawn for row in hit_rows(draft, one)))
    rows = []
    for one in drawn:
        found = {str(row.where["fpr"]): span(row) for row in hit_rows(draft, one)}
        auc = draft.row("auc", **one.where, tier=one.attack.tier)
        head = [*([one.attack.model] if several else []), one.attack.name, one.attack.tier]
        rows.append([*head, span(auc), *(found.get(fpr, "") for fpr in fprs)])
    titles = [*(["model"] if several else []), "attack", "tier", "AUC", *(f"found at {fpr}" for fpr in fprs)]
    return tabled(chart, titles, rows)


def _chart(
    draft: Draft, drawn: Sequence[Judged], panels: Sequence[str], series: Sequence[str], claims: Mapping[str, Claim]
) -> Json:
    """Draw curves with their pointwise intervals, chance, and in each panel the most that a claim allows.

    Parameters
    ----------
    panels, series
        Where each attack is drawn, and its name there.
    claims
        By panel; a panel need have none.
    """
    floors = [min(1 / getattr(one.curve, side) for one in drawn) for side in ("others", "members")]
    # Shared by the lines, so that a page of many models is no larger than one of few.
    most = min(MOST_POINTS, max(LEAST_POINTS, ALL_POINTS // len(drawn)))
    rows = []
    for one, panel, name in zip(drawn, panels, series, strict=True):
        rows += _of_curve(draft, one, {"panel": panel, "series": name}, most, floors[1])
    name = claim_name(list(claims.values()))
    for panel in dict.fromkeys(panels):
        rows += _of_chance(panel, max(floors))
        if panel in claims:
            rows += _of_claim(panel, name, claims[panel], floors)
    x = Axis("fpr", "False alarms (share of non-members)", ends=(floors[0], 1.0))
    y = Axis("tpr", "Found (share of members)", ends=(floors[1], 1.0))
    return roc(rows, x=x, y=y, guides=[*([name] if claims else []), CHANCE], label="attack")


def claim_name(claims: Sequence[Claim]) -> str:
    """Return the name of the line of the claims."""
    each = {claim.number for claim in claims}
    return f"most that epsilon = {each.pop()} allows" if len(each) == 1 else "most that the claimed epsilon allows"


def allows_all(claim: Claim, others: int) -> bool:
    """Tell whether a claim allows every member to be found at the smallest possible rate of false alarms."""
    return float(most_hits(1 / others, claim.epsilon, claim.delta)) > 1 - 1e-3


def _of_curve(draft: Draft, one: Judged, common: Json, most: int, floor: float) -> list[Json]:
    """Return the curve of an attack with intervals of Clopper and Pearson, each threshold for itself."""
    curve, reported, error = one.curve, hit_rows(draft, one), (1 - draft.level) / 2
    alarms = np.geomspace(1, curve.others, most).round()
    # Include the reported rates, so that their points are on the line.
    # The slack keeps 0.29 x 100 from being 28.
    shown = [max(1.0, math.floor(float(row.where["fpr"]) * curve.others + 1e-9)) for row in reported]
    alarms = np.unique(np.concatenate((alarms, shown)))
    hits = np.array([call_at(curve, count / curve.others).hits for count in alarms])
    high = upper_limit(hits, curve.members, error)
    low = 1 - upper_limit(curve.members - hits, curve.members, error)
    rows = [
        # A scale of powers has no zero: where nobody is found there is the band alone.
        {**common, "fpr": fpr, "low": from_, "high": to} | ({"tpr": tpr} if tpr > 0 else {})
        for fpr, tpr, from_, to in _rounded(
            alarms / curve.others, hits / curve.members, np.maximum(low, floor), np.maximum(high, floor)
        )
    ]
    for row in reported:
        if row.value > 0:
            found = {"attack": one.attack.name, "at": row.where["fpr"], "tpr": row.value}
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


def scores(draft: Draft, counts: Counts, attacks: Names, models: Names) -> Figure | None:
    """Draw the distributions of the scores of members and non-members, for the attack with the highest AUC."""
    best = best_first(counts.judged)[0]
    attack = best.attack
    threshold, words = None, ""
    for row in sorted(hit_rows(draft, best), key=lambda row: float(row.where["fpr"])):
        if row.value > 0:
            rate = f"{100 * float(row.where['fpr']):g} %"
            threshold = call_at(best.curve, float(row.where["fpr"])).threshold, f"{rate} false alarms"
            words = f" Dashed: the threshold that {rate} of the non-members reach."
            break
    spec = scores_chart(attack.scores[attack.judged], attack.member[attack.judged], threshold, draft.level)
    if spec is None:
        return None
    caption = (
        f"The attack with the highest AUC, {label_of(best, attacks, models)}: its scores in bins, of which the "
        f"outermost hold all beyond them. Each side adds up to 1; bands are {percent(draft.level)} intervals (Wilson), "
        f"each bin for itself. Where the two lines are one, a score tells nothing.{words}"
    )
    return figure_of("scores", "What do the scores look like?", caption, spec)


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
    return lines(
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
    # Single far scores would leave all others in one bin; where most are equal, they are all there is.
    for tail in (0.005, 0.0):
        low, high = np.quantile(scores, [tail, 1 - tail], method="nearest")
        if low < high:
            break
    else:
        return None
    # Rice's rule for the number of bins.
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
