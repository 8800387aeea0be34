"""The charts of the audit; each answers the question in its title."""

from collections.abc import Iterator

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Figure, Json
from audits.membership.attack_figures import rates, scores
from audits.membership.bound_figures import proofs
from audits.membership.figure_parts import (
    MOST_PANELS,
    MOST_ROWS,
    TIERS,
    Names,
    best_first,
    forests,
    names_of,
    rest_of,
    row_of,
)
from audits.membership.leak_figures import leakage, utility
from audits.membership.measure import Counts
from audits.membership.rates import Judged
from audits.report.charts import Axis, figure_of


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures; empty ones are left out."""
    if not counts.judged or all(row.low is None for row in draft.estimates):
        return
    attacks = names_of([one.attack.name for one in counts.judged])
    models = names_of([one.attack.model for one in counts.judged])
    found = (
        rates(draft, counts, attacks, models),
        areas(draft, counts, attacks, models),
        proofs(draft, counts, attacks, models),
        leakage(draft, counts, models),
        utility(draft, counts, models),
        scores(draft, counts, attacks, models),
    )
    yield from (figure for figure in found if figure is not None)


def areas(draft: Draft, counts: Counts, attacks: Names, models: Names) -> Figure:
    """Draw the area of each attack by access, or for several models by model."""
    found = best_first(counts.judged)
    groups: dict[str, list[Json]] = {}
    if len(models) > 1:
        first = list(models)[:MOST_PANELS]
        each = max(MOST_ROWS // len(first), 2)
        for model in first:
            own = [one for one in found if one.attack.model == model][:each]
            groups[models[model]] = [_area(draft, attacks[one.attack.name], one) for one in own]
    else:
        kept = found[:MOST_ROWS]
        for tier, title in TIERS.items():
            groups[title] = [_area(draft, attacks[one.attack.name], one) for one in kept if one.attack.tier == tier]
    left = len(found) - sum(map(len, groups.values()))
    caption = (
        f"Probability that a member scores above a non-member (AUC), with its {percent(draft.level)} interval. Dashed: "
        "0.5, no better than chance; an attack whose interval holds it is grey."
    )
    if counts.blind:
        groups["Without the model"] = [
            row_of(row, "classifier", str(row.where["classifier"])) for row in draft.select("blind_auc")
        ]
        caption += " The last panel is of classifiers that saw the points and no model: they should be at 0.5."
    spec = forests(groups, Axis("value", "AUC", ".2f", zero=False))
    return figure_of("auc", "How well does each attack tell members from non-members?", caption + rest_of(left), spec)


def _area(draft: Draft, name: str, one: Judged) -> Json:
    row = draft.row("auc", **one.where, tier=one.attack.tier)
    more = {"tier": one.attack.tier} | ({"setting": one.attack.setting} if one.attack.setting else {})
    return row_of(row, "attack", name, name=one.attack.name, **more)
