"""The charts of the audit, each answering the question in its title."""

from typing import TYPE_CHECKING

from audits.charts import Axis
from audits.context import Draft
from audits.membership.bound_figure import bounds
from audits.membership.drawing import (
    MOST_PANELS,
    MOST_ROWS,
    TIERS,
    Stage,
    best_first,
    figure_of,
    forests,
    model_of,
    names_of,
    rest_of,
    row_of,
)
from audits.membership.estimating import Judged
from audits.membership.leak_figures import leakage, utility
from audits.membership.roc_figure import roc
from audits.membership.score_figure import scores
from audits.numbers import percent
from audits.records import Figure, Json

if TYPE_CHECKING:
    from audits.membership.report import Results


def draw(draft: Draft, results: "Results") -> list[Figure]:
    """Return the figures; one that would have nothing to show is left out."""
    levels = [row.level for row in draft.estimates if row.low is not None]
    if not results.judged or not levels:
        return []
    names = names_of([one.attack.name for one in results.judged])
    models = names_of([model_of(one) for one in results.judged])
    stage = Stage(draft, results, names, models, levels[0])
    kinds = (roc, _areas, bounds, leakage, utility, scores)
    return [figure for kind in kinds if (figure := kind(stage)) is not None]


def _areas(stage: Stage) -> Figure:
    found = best_first(stage.results.judged)
    groups: dict[str, list[Json]] = {}
    if stage.several:
        models = list(stage.models)[:MOST_PANELS]
        each = max(MOST_ROWS // len(models), 2)
        for model in models:
            groups[stage.models[model]] = [_area(stage, one) for one in found if model_of(one) == model][:each]
    else:
        kept = found[:MOST_ROWS]
        for tier, title in TIERS.items():
            groups[title] = [_area(stage, one) for one in kept if one.attack.tier == tier]
    left = len(found) - sum(map(len, groups.values()))
    caption = (
        f"Probability that a member scores above a non-member (AUC), with its {percent(stage.level)} interval. Dashed: "
        "0.5, no better than chance; an attack whose interval holds it is grey."
    )
    if stage.results.blind is not None:
        groups["Without the model"] = [
            row_of(stage.at(place), "classifier", name) for name, place in stage.results.blind.places.items()
        ]
        caption += " The last panel is of classifiers that saw the points and no model: they should be at 0.5."
    spec = forests(groups, Axis("value", "AUC", ".2f", zero=False))
    return figure_of("auc", "How well does each attack tell members from non-members?", caption + rest_of(left), spec)


def _area(stage: Stage, one: Judged) -> Json:
    more = {"tier": one.attack.tier} | ({"setting": one.attack.setting} if one.attack.setting else {})
    return row_of(stage.at(one.places["auc"]), "attack", stage.names[one.attack.name], name=one.attack.name, **more)
