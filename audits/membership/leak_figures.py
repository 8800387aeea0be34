"""Charts of the leaks of several models, side by side and against what each model learnt."""

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Estimate, Figure, Json
from audits.membership.figure_parts import MOST_ROWS, Names, forests, row_of
from audits.membership.measure import Counts
from audits.report.charts import Axis, ends_of, figure_of, points

ACCESS = {"samples": "From samples alone", "weights": "With the weights", "full": "With all that was released"}
MEASURES = {"held_out_loss": "Loss on non-members (lower: better)", "recall": "Recall (higher: better)"}
PRIVATE, OPEN = "claims privacy", "claims none"


def leakage(draft: Draft, counts: Counts, models: Names) -> Figure | None:
    """Draw the area of the best attack on each model by access; None of one model."""
    if len(models) <= 1:
        return None
    shown = list(models)[:MOST_ROWS]
    groups: dict[str, list[Json]] = {}
    for access, title in ACCESS.items():
        own = [leak for leak in counts.leaks if leak.access == access and leak.model in shown]
        own.sort(key=lambda leak: -leak.area.value)
        groups[title] = [
            row_of(draft.row("leakage", **leak.where), "model", models[leak.model], attack=leak.judged.attack.name)
            for leak in own
        ]
    if not any(groups.values()):
        return None
    caption = (
        f"AUC of each model's best attack with each access, with its {percent(draft.level)} interval. The attack was "
        "chosen on one half of the points and is judged on the other. Models are compared within a panel, never across "
        "panels: who holds more can do more. Grey: the interval holds 0.5."
    )
    spec = forests(groups, Axis("value", "AUC of the best attack", ".2f", zero=False))
    return figure_of("leakage", "Who leaks more, with which access?", caption, spec)


def utility(draft: Draft, counts: Counts, models: Names) -> Figure | None:
    """Draw leaks against the first measure of quality that two models share; None where there is none."""
    measure = next((one for one in MEASURES if len(_measured(draft, one)) > 1), None)
    if len(models) <= 1 or measure is None:
        return None
    good = _measured(draft, measure)
    leaks = [leak for leak in counts.leaks if leak.model in good]
    # The access by which most of them can be compared; not every release has weights.
    access = max(("weights", "samples", "full"), key=lambda access: sum(leak.access == access for leak in leaks))
    rows: list[Json] = []
    for leak in leaks:
        if leak.access == access:
            row = {"model": models[leak.model], "n": len(leak.area.of_members)}
            row |= {"kind": PRIVATE if leak.model in counts.claims else OPEN}
            rows.append(
                row | ends_of(measure, good[leak.model]) | ends_of("leakage", draft.row("leakage", **leak.where))
            )
    # One model alone says nothing of whether learning and leaking go together.
    if len(rows) < 2:
        return None
    spec = points(
        rows,
        x=Axis(measure, MEASURES[measure], ".3f" if measure == "held_out_loss" else ".2f", zero=False),
        y=Axis("leakage", "AUC of the best attack", ".2f", zero=False),
        label="model",
        kind="kind",
        kinds={PRIVATE: "circle", OPEN: "square"},
    )
    kind = "private models" if counts.claims else "models"
    better = "left" if measure == "held_out_loss" else "right"
    caption = (
        f"Leakage {ACCESS[access].lower()} against how well each model does its work, on points that it did not see; "
        f"bars are {percent(draft.level)} intervals. Models further to the {better} learnt more. One that leaks less "
        "and learnt less may owe its privacy to that. Circle: epsilon is claimed; square: it is not."
    )
    return figure_of("utility", f"Do {kind} leak less because they learnt less?", caption, spec)


def _measured(draft: Draft, measure: str) -> dict[str, Estimate]:
    return {str(row.where.get("model", "")): row for row in draft.select("utility", measure=measure)}
