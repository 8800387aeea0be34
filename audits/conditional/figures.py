"""The charts of the audit; each answers the question in its title."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from audits.conditional import ALL
from audits.conditional.counts import Counts, Rows
from audits.conditional.estimates import reached
from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Figure
from audits.report.charts import Axis, Picture, figure_of, forest, images, lines

BINS, MOST_GROUPS, MOST_CANDIDATES = 10, 4, 9
"""Bins of ranks, and lines and panels that a chart can show."""


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures that the estimates allow."""
    shown = _shown(draft, counts)
    if any(rows.pits is not None and not rows.untested for rows in shown):
        yield _ranks(draft, counts, [rows for rows in shown if rows.pits is not None and not rows.untested])
    if draft.select("coverage"):
        yield _reliability(draft, counts, shown)
    if draft.select("difference", against=counts.against):
        yield _differences(draft, counts)
    if len({row.where["points"] for row in draft.select("distortion")}) > 1:
        yield _distortion(draft, counts)
    for at, (name, pictures) in enumerate(list(counts.pictures.items())[:2], 1):
        yield _pictures(at, name, pictures)


def _shown(draft: Draft, counts: Counts) -> list[Rows]:
    """Return the candidates that a chart shows: those with the worst verdict first."""
    order = [claim.where["candidate"] for claim in draft.by_severity() if claim.where.get("group") == ALL]
    rank = {name: at for at, name in enumerate(order)}
    return sorted(counts.candidates, key=lambda rows: rank.get(rows.name, len(rank)))[:MOST_CANDIDATES]


def _groups(draft: Draft, counts: Counts) -> tuple[str, ...]:
    """Return the groups that a chart shows: those that deviate most, where there are many."""
    names = counts.groups.names
    if len(names) > MOST_GROUPS:
        least = dict.fromkeys(names, 1.0)
        for row in draft.select("p_value", correction="none"):
            group = str(row.where["group"])
            least[group] = min(least.get(group, 1.0), row.value)
        worst = sorted(names, key=lambda name: least[name])[:MOST_GROUPS]
        names = tuple(name for name in names if name in worst)
    return names or (ALL,)


def _left_out(counts: Counts, shown: list[Rows]) -> str:
    """Return a sentence on what a chart does not show; empty where it shows all."""
    parts = []
    if len(counts.groups.names) > MOST_GROUPS:
        parts.append(f"{MOST_GROUPS} of {len(counts.groups.names)} groups, those that deviate most")
    if len(counts.candidates) > len(shown):
        parts.append(f"{len(shown)} of {len(counts.candidates)} candidates")
    return f" Shown are {' and '.join(parts)}." if parts else ""


def _lead(draft: Draft, rows: Rows) -> str:
    """Return the projection that the verdict on everyone rests on."""
    for claim in draft.findings:
        if claim.id == "conditional.verdict" and claim.where["candidate"] == rows.name and claim.where["group"] == ALL:
            named = [row.where["projection"] for row in claim.evidence if "projection" in row.where]
            if named:
                return str(named[0])
    return rows.projections[0].name


def _ranks(draft: Draft, counts: Counts, shown: list[Rows]) -> Figure:
    from scipy.stats import norm

    table = []
    for rows in shown:
        lead = _lead(draft, rows)
        at = [one.name for one in rows.projections].index(lead)
        for group in _groups(draft, counts):
            assert rows.pits is not None
            u = rows.pits[counts.groups.rows()[group], at]
            if not len(u):
                continue
            share = np.histogram(u, bins=BINS, range=(0.0, 1.0))[0] / len(u) * BINS
            z = float(norm.isf((1 - draft.level) / 2 / BINS))
            reach = z * float(np.sqrt((BINS - 1) / len(u)))
            for bin, value in enumerate(share.tolist()):
                table.append(
                    {
                        "rank": (bin + 0.5) / BINS,
                        "density": value,
                        "one": 1.0,
                        "low": max(1 - reach, 0.0),
                        "high": 1 + reach,
                        "none": None,
                        "group": group,
                        "candidate": f"{rows.name}: {lead}",
                    }
                )
    spec = lines(
        table,
        x=Axis("rank", "Rank of the outcome among draws", format=".2~f"),
        y=Axis("density", "Density", format=".2~f"),
        low="none",
        high="none",
        series="group",
        series_title="Group",
        facet="candidate",
        level=("one", "low", "high"),
    )
    return figure_of(
        "ranks",
        "Where do outcomes lie among the draws?",
        "Histogram of randomised ranks by group, in the projection that the verdict rests on. Ranks of the "
        f"true law are uniform: all bins of a line lie in the band around 1 in {percent(draft.level)} of the cases."
        f"{_left_out(counts, shown)}",
        spec,
    )


def _reliability(draft: Draft, counts: Counts, shown: list[Rows]) -> Figure:
    table = []
    for rows in shown:
        for group in _groups(draft, counts):
            for row in draft.select("coverage", candidate=rows.name, group=group):
                stated = reached(rows, float(row.where["level"]), counts.dimensions)
                ends = [None if end is None else end - stated for end in (row.low, row.high)]
                table.append(
                    {
                        "stated": round(stated, 4),
                        "beyond": row.value - stated,
                        "low": ends[0],
                        "high": ends[1],
                        "group": group,
                        "candidate": rows.name,
                    }
                )
    inside = Axis("beyond", "Inside beyond stated", format="+.2~f")
    if len(table) == len({(row["candidate"], row["group"]) for row in table}):
        spec = forest(
            table,
            label="group",
            value=inside,
            low="low",
            high="high",
            reference=0.0,
            facet="candidate" if len({row["candidate"] for row in table}) > 1 else None,
            ranked=False,
        )
    else:
        spec = lines(
            table,
            x=Axis("stated", "Stated level", format=".2~f"),
            y=inside,
            low="low",
            high="high",
            series="group",
            series_title="Group",
            facet="candidate",
            level=0.0,
        )
    return figure_of(
        "reliability",
        "Do intervals hold as many outcomes as they state?",
        "Share of outcomes inside less the stated level, by group. Below zero intervals are too narrow or lie "
        f"elsewhere. Bands are {percent(draft.level)} intervals.{_left_out(counts, shown)}",
        spec,
    )


def _differences(draft: Draft, counts: Counts) -> Figure:
    metrics = [row.where["metric"] for row in draft.select("difference", against=counts.against)]
    metric = next(one for one in ("energy", "crps", *metrics) if one in metrics)
    said = "CRPS" if metric == "crps" else f"{metric} score"
    table = [
        {
            "difference": row.value,
            "low": row.low,
            "high": row.high,
            "group": row.where["group"],
            "candidate": row.where["candidate"],
        }
        for row in draft.select("difference", metric=metric, against=counts.against)
        if row.where["candidate"] != "climatology"
    ][:60]
    spec = forest(
        table,
        label="group",
        value=Axis("difference", f"{said} beyond that of {counts.against}", format=".2~g"),
        low="low",
        high="high",
        reference=0.0,
        facet="candidate" if len({row["candidate"] for row in table}) > 1 else None,
        ranked=False,
    )
    return figure_of(
        "differences",
        f"Whose score is better than that of {counts.against}, and where?",
        f"Paired differences of the {said} by group with {percent(draft.level)} intervals; below zero is better.",
        spec,
    )


def _distortion(draft: Draft, counts: Counts) -> Figure:
    table: list[dict[str, Any]] = [
        {
            "points": row.where["points"],
            "distortion": row.value,
            "low": row.low,
            "high": row.high,
            "law": row.where["candidate"],
            "line": "measured",
        }
        for row in draft.select("distortion", group=ALL)
    ]
    first: dict[Any, dict[str, Any]] = {}
    for row in table:
        first.setdefault(row["law"], row)
    slope = f"slope of -2/{counts.dimensions}"
    for row in list(table):
        start = first[row["law"]]
        ideal = start["distortion"] * (row["points"] / start["points"]) ** (-2 / counts.dimensions)
        table.append({**row, "distortion": ideal, "low": None, "high": None, "line": slope})
    spec = lines(
        table,
        x=Axis("points", "Points", scale="log", format="d"),
        y=Axis("distortion", "Distortion", scale="log", format=".2~g"),
        low="low",
        high="high",
        series="line",
        series_title="",
        facet="law" if len(first) > 1 else None,
    )
    return figure_of(
        "distortion",
        "How fast does the distortion fall with more points?",
        "Mean squared distance from the outcome to the nearest point of the law. The slope is what an optimal "
        f"quantiser reaches with many points. Bands are {percent(draft.level)} intervals.",
        spec,
    )


def _pictures(at: int, name: str, pictures: tuple[tuple[str, np.ndarray], ...]) -> Figure:
    ends = min(float(one.min()) for _, one in pictures), max(float(one.max()) for _, one in pictures)
    return figure_of(
        f"pictures-{at}",
        f"Which rows does {name} cover best, and which worst?",
        "The outcome, what was known of it where pixels are masked, and two draws: of the rows with the least "
        "and the greatest energy score.",
        images([Picture(title, values, ends) for title, values in pictures]),
    )
