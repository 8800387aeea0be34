"""The charts of the audit; each answers the question in its title."""

from collections.abc import Iterator

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Estimate, Figure
from audits.gradients.counts import HIDDEN, Counts
from audits.report.charts import Axis, bars, figure_of, forest, heat_map, lines

MOST = 60
"""Rows that one figure can show."""


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures that the estimates allow."""
    if draft.select("cosine"):
        yield _cosines(draft, counts)
        yield _lengths(draft, counts)
    if draft.select("loss_at_budget"):
        yield _losses(draft)
    if draft.select("cost"):
        yield _costs(draft)
    errors = [row for row in draft.select("relative_error", layer=HIDDEN) if _iterations(row) is not None]
    if len({_iterations(row) for row in errors}) > 1:
        yield _iterated(draft, errors)


def _cosines(draft: Draft, counts: Counts) -> Figure:
    first, last = counts.steps[0], counts.steps[-1]
    rows = [
        {"layer": row.where["layer"], "method": f"{row.where['method']}, step {row.where['step']}", "cosine": row.value}
        for row in draft.select("cosine")
        if row.where["step"] in (first, last)
    ]
    spec = heat_map(
        rows,
        x=Axis("layer", "Layer", kind="ordinal"),
        y=Axis("method", "Method", kind="ordinal"),
        value=Axis("cosine", "Cosine", format=".2f"),
        diverging=True,
    )
    return figure_of(
        "cosine",
        "Where does each signal follow the gradient?",
        "Mean cosine with the reference gradient by layer, at the first and the last step that was looked at. "
        "1 is the same direction, 0 is chance.",
        spec,
    )


def _lengths(draft: Draft, counts: Counts) -> Figure:
    rows = [
        {
            "ratio": row.value,
            "low": row.low,
            "high": row.high,
            "layer": row.where["layer"],
            "method": row.where["method"],
        }
        for row in draft.select("norm_ratio", step=counts.steps[0])
        if row.where["method"] not in ("bp", "random")
    ][:MOST]
    spec = forest(
        rows,
        label="layer",
        value=Axis("ratio", "Length by that of the gradient", format=".2~f"),
        low="low",
        high="high",
        reference=1.0,
        facet="method" if len({row["method"] for row in rows}) > 1 else None,
    )
    return figure_of(
        "lengths",
        "How long is each signal?",
        f"Length by that of the gradient at the first step, with {percent(draft.level)} intervals over "
        "batches: a signal that is three times as long has three times the learning rate.",
        spec,
    )


def _losses(draft: Draft) -> Figure:
    rows = [
        {
            "loss": row.value,
            "low": row.low,
            "high": row.high,
            "method": row.where["method"],
            "budget": str(row.where["budget"]),
        }
        for row in draft.select("loss_at_budget")
    ]
    spec = forest(
        rows,
        label="method",
        value=Axis("loss", "Loss on held-out data", format=".2~f"),
        low="low",
        high="high",
        reference=0.0,
        facet="budget" if len({row["budget"] for row in rows}) > 1 else None,
    )
    return figure_of(
        "losses",
        "What does the same budget buy?",
        "Loss after equal cost, each method at its own best learning rate of the same grid, over seeds.",
        spec,
    )


def _costs(draft: Draft) -> Figure:
    rows = [
        {"cost": row.value, "method": f"{row.where['method']}, {row.where['kind']}"}
        for row in draft.select("cost")
        if row.where["kind"] in ("work", "span")
    ] or [{"cost": row.value, "method": str(row.where["method"])} for row in draft.select("cost", kind="seconds")]
    spec = bars(rows, label="method", value=Axis("cost", "Cost of a step", format=".3~g"))
    return figure_of(
        "costs",
        "What does a step cost?",
        "Work and span in forward passes of one layer where layers are known, else seconds. A faster backward "
        "pass alone gains no more than the ceiling among the numbers.",
        spec,
    )


def _iterations(row: Estimate) -> int | None:
    number = str(row.where["method"]).rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else None


def _iterated(draft: Draft, errors: list[Estimate]) -> Figure:
    rows = [
        {
            "k": _iterations(row),
            "error": row.value,
            "low": row.low,
            "high": row.high,
            "family": str(row.where["method"]).rpartition("-")[0],
        }
        for row in errors
        if row.where["step"] == errors[0].where["step"]
    ]
    spec = lines(
        rows,
        x=Axis("k", "Iterations or steps back", format="d"),
        y=Axis("error", "Relative error in hidden layers", format=".2~g"),
        low="low",
        high="high",
        series="family",
        series_title="Method",
    )
    return figure_of(
        "iterations",
        "How fast does the error fall with more iterations?",
        f"Relative error by k, with {percent(draft.level)} intervals over batches.",
        spec,
    )
