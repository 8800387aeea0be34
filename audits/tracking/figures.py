"""The charts of the audit; each answers the question in its title."""

from collections.abc import Iterator, Mapping

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Coordinate, Estimate, Figure
from audits.report.charts import Axis, bars, figure_of, forest, heat_map, lines
from audits.tracking.estimates import OVERWRITE
from audits.tracking.measure import Counts

MOST_PANELS, MOST_ROWS = 12, 60
"""Tasks, and rows, that one figure can show."""


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures that the estimates allow."""
    if draft.select("accuracy"):
        yield _curves(draft)
    if draft.select("critical_n"):
        yield _depths(draft)
    if draft.select("layer_critical_n"):
        yield _readings(draft)
    if draft.select("heuristic_agreement"):
        yield _rules(draft)
    if draft.select("block_share"):
        yield _blocks(draft)
    if draft.select("operator_difference"):
        yield _operators(draft)


def _curves(draft: Draft) -> Figure:
    rows = []
    for row in draft.select("accuracy"):
        changes = row.where.get("n_changes", row.where["depth"])
        system = f"{row.where['system']}, {row.where['scoring']}"
        rows.append({**_ends(row), "n": changes, "task": row.where["task"], "system": system})
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    rows = [row for row in rows if row["task"] in tasks[:MOST_PANELS]]
    floors = {
        row.where["task"]: row.value for row in draft.select("chance") if row.where["task"] in tasks[:MOST_PANELS]
    }
    note = f" Guessing is right on a share of {_floors(floors)}." if floors else ""
    spec = lines(
        rows,
        x=Axis("n", "Chained changes (overwrite: changes)", format="d"),
        y=Axis("share", "Right answers", format=".2f", ends=(0.0, 1.0)),
        low="low",
        high="high",
        series="system",
        series_title="System and scoring",
        facet="task" if len({row["task"] for row in rows}) > 1 else None,
    )
    return figure_of(
        "accuracy",
        "How many chained changes are followed?",
        f"Share of right answers by depth, with {percent(draft.level)} intervals (Clopper-Pearson). Texts of "
        f"one task are equally long at every depth; {OVERWRITE} has as many changes that do not chain.{note}"
        f"{_first(MOST_PANELS, len(tasks), 'tasks')}",
        spec,
    )


def _first(shown: int, there: int, what: str) -> str:
    """Return what a caption says where a figure does not show all."""
    return f" The first {shown} of {there} {what} are shown; report.json has all." if there > shown else ""


def _floors(floors: Mapping[Coordinate, float]) -> str:
    if len({round(value, 3) for value in floors.values()}) == 1:
        return f"{next(iter(floors.values())):.3g}"
    return ", ".join(f"{value:.3g} ({task})" for task, value in floors.items())


def _ends(row: Estimate) -> dict[str, float | None]:
    return {"share": row.value, "low": row.low, "high": row.high}


def _depths(draft: Draft) -> Figure:
    rows = [
        {
            "depth": row.value,
            "low": row.low,
            "high": row.high,
            "name": f"{row.where['system']}, {row.where['task']}, {row.where['scoring']}",
        }
        for row in draft.select("critical_n")
    ]
    spec = forest(
        rows[:MOST_ROWS],
        label="name",
        value=Axis("depth", "Largest depth followed", format="d"),
        low="low",
        high="high",
        reference=0.0,
    )
    return figure_of(
        "depths",
        "How deep does each system follow?",
        "The last depth before accuracy first falls below the level, and its interval, which at the greatest "
        "depth that was asked means at least."
        f"{_first(MOST_ROWS, len(rows), 'rows')}",
        spec,
    )


def _readings(draft: Draft) -> Figure:
    rows = [
        {"layer": str(row.where["layer"]), "system": row.where["system"], "depth": row.value}
        for row in draft.select("layer_critical_n")
    ]
    spec = heat_map(
        rows,
        x=Axis("layer", "Layers passed", kind="ordinal"),
        y=Axis("system", "Network"),
        value=Axis("depth", "Largest depth read", format="d"),
        diverging=False,
    )
    return figure_of(
        "layers",
        "What can be read after each layer?",
        "A linear reading of the residual stream after each layer, the network unchanged. If every layer "
        "doubles what is followed, it is 0, 1, 3, 7.",
        spec,
    )


def _rules(draft: Draft) -> Figure:
    rows = []
    for row in draft.select("heuristic_agreement"):
        gold = draft.row("heuristic_gold", heuristic=row.where["heuristic"], task=row.where["task"])
        rule = str(row.where["heuristic"]).replace("_", " ")
        name = f"{row.where['task']}: {rule} (right in {gold.value:.2f})"
        rows.append({**_ends(row), "rule": name, "system": row.where["system"]})
    spec = forest(
        rows[:MOST_ROWS],
        label="rule",
        value=Axis("share", "Share of answers that the rule gives too", format=".2f"),
        low="low",
        high="high",
        reference=0.0,
        facet="system" if len({row["system"] for row in rows}) > 1 else None,
    )
    return figure_of(
        "rules",
        "Do answers go with a cheap rule?",
        "Rules that follow no chain, with the share of items on which each is right. A rule whose share of "
        "answers lies above that and above the system's own accuracy explains them better than the story does."
        f"{_first(MOST_ROWS, len(rows), 'rows')}",
        spec,
    )


def _blocks(draft: Draft) -> Figure:
    rows = [
        {
            **_ends(row),
            "head": f"layer {row.where['layer']}, head {row.where['head']}, block {row.where['block']}",
            "kind": row.where["kind"],
        }
        for row in draft.select("block_share")
        if row.where["kind"] != "uniform"
    ]
    spec = forest(
        rows[:MOST_ROWS],
        label="head",
        value=Axis("share", "Attention within blocks", format=".2f", ends=(0.0, 1.0)),
        low="low",
        high="high",
        reference=0.0,
        facet="kind",
    )
    return figure_of(
        "blocks",
        "Does attention stay within blocks?",
        "Share of each head's attention within blocks, with the grid of blocks shifted (phase), and, of items "
        "made here, of attention that only follows the chains (graph)."
        f"{_first(MOST_ROWS, len(rows), 'rows')}",
        spec,
    )


def _operators(draft: Draft) -> Figure:
    import math

    rows = [
        {"form": f"{row.where['form']}, gamma {row.where['gamma']}", "orders": math.log10(max(row.value, 1e-17))}
        for row in draft.select("operator_difference")
        if row.where["form"] != "triangular"
    ]
    spec = bars(rows, label="form", value=Axis("orders", "Relative difference, powers of ten", format=".1f"))
    return figure_of(
        "operators",
        "How far is each form from the solution?",
        "Largest difference from the triangular solution in float64, relative to its largest number.",
        spec,
    )
