"""Parts shared by the figures of attacks: names of attacks and models, forest plots, tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from audits.core.context import Draft
from audits.core.records import Estimate, Json
from audits.core.wording import many
from audits.membership.rates import Judged
from audits.report.charts import Axis, forest, stacked, with_table
from audits.report.charts.text import span_of

LONGEST, HALF = 24, 12
"""Letters of a name on a chart, so that it leaves room for the chart on a phone, and of its ends where it is longer."""
MOST_PANELS, MOST_ROWS = 12, 30
"""Small multiples of a figure, and rows of a forest."""
TIERS = {"samples": "From samples", "generator": "With the generator", "denoiser": "With the denoiser", "full": "Full"}

Names = Mapping[str, str]
"""Full names of attacks or of models, each with the short one of the charts."""


def names_of(full: Sequence[str]) -> dict[str, str]:
    """Return the short name of each; a number is added where two would be the same."""
    names: dict[str, str] = {}
    for name in dict.fromkeys(full):
        # Names that begin alike mostly end otherwise.
        short = name if len(name) <= LONGEST else f"{name[: HALF - 1].rstrip()}…{name[-HALF:].lstrip()}"
        called, number = short, 1
        # A name may itself end in a number, as one that was made here does.
        while called in names.values():
            number += 1
            called = f"{short} ({number})"
        names[name] = called
    return names


def label_of(one: Judged, attacks: Names, models: Names) -> str:
    """Return the label of an attack in a chart of all models."""
    name = attacks[one.attack.name]
    return f"{name} · {models[one.attack.model]}" if len(models) > 1 else name


def best_first(found: Sequence[Judged]) -> list[Judged]:
    """Return attacks by descending AUC."""
    return sorted(found, key=lambda one: -one.area.value)


def rest_of(left: int, noun: str = "attack") -> str:
    """Return a sentence on how many were left out of a figure."""
    return f" {many(left, f'more {noun} is', f'more {noun}s are')} in the tables only." if left > 0 else ""


def hit_rows(draft: Draft, one: Judged) -> list[Estimate]:
    """Return the hits of an attack at the reported rates of false alarms."""
    return [draft.row("tpr", **one.where, fpr=rate) for rate in one.calls]


def tabled(chart: Json, titles: Sequence[str], rows: list[list[str]]) -> Json:
    """Return a chart with the table that a page shows under it in place of its data."""
    return with_table(chart, [(title, title) for title in titles], rows)


def row_of(row: Estimate, key: str, called: str, **more: Any) -> Json:
    """Return a row of a forest plot; its first key is that of its label."""
    holds = row.low is None or row.high is None or row.low <= 0.5 <= row.high
    return {key: called, "value": row.value, "low": row.low, "high": row.high, "n": row.n, "as chance": holds, **more}


def forests(groups: Mapping[str, list[Json]], value: Axis) -> Json:
    """Stack one forest plot per group, all on one axis, so that they can be compared."""
    groups = {title: rows for title, rows in groups.items() if rows}
    low, high = span_of([row for rows in groups.values() for row in rows], ["value", "low", "high"])
    low, high = min(low, 0.5), max(high, 0.5)
    # All values may be one number.
    room = 0.03 * (high - low) or 0.05
    ends = round(max(0.0, low - room), 4), round(min(1.0, high + room), 4)
    axis = replace(value, ends=ends)
    views = [
        (
            title,
            forest(rows, label=next(iter(rows[0])), value=axis, low="low", high="high", reference=0.5,
                   greyed="as chance", ranked=False, axis_title=number == len(groups)),
        )
        for number, (title, rows) in enumerate(groups.items(), 1)
    ]  # fmt: skip
    return stacked(views)
