"""The charts of the audit; each answers the question in its title."""

from collections.abc import Iterator

import numpy as np

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Figure
from audits.faithfulness.estimates import ALL
from audits.faithfulness.findings import NAMES, trust_rows
from audits.faithfulness.measure import Counts
from audits.faithfulness.metrics import KINDS, PLAUSIBILITY, said
from audits.report.charts import Axis, bars, figure_of, forest, heat_map, lines, with_table

WORST, LONGEST, MOST_PANELS = 10, 300, 16
"""Outputs that the page shows, their characters, and panels of a figure."""


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures that the estimates allow."""
    if any(True for _ in trust_rows(draft)):
        yield _trust(draft)
    if draft.select("human_auc"):
        yield _people(draft)
    if draft.select("dose_response"):
        yield from _doses(draft, counts)
    if any(unsupported.any() for _, unsupported in counts.mentions.values()):
        yield _worst(counts)


def _trust(draft: Draft) -> Figure:
    rows = [
        {"metric": said(metric), "error": "labels of people" if kind == "labels" else kind, "auc": row.value}
        for metric, kind, row in trust_rows(draft)
    ]
    rows += [
        {"metric": said(str(row.where["metric"])), "error": "omission (should be 0.5)", "auc": row.value}
        for row in draft.select("omission_auc")
        if row.where["metric"] != PLAUSIBILITY
    ]
    spec = heat_map(
        rows,
        x=Axis("error", "Kind of error", kind="ordinal"),
        y=Axis("metric", "Metric", kind="ordinal"),
        value=Axis("auc", "AUC", format=".2f"),
        diverging=False,
    )
    return figure_of(
        "trust",
        "Which errors can each metric see?",
        "Area under the ROC curve of faithful texts against those with an error, of other contexts, at the "
        "least strength: 1 sees all, 0.5 is blind. What leaves content out is no invention, and should be at 0.5.",
        spec,
    )


def _people(draft: Draft) -> Figure:
    rows = [
        {
            "metric": said(str(row.where["metric"])),
            "auc": row.value,
            "low": row.low,
            "high": row.high,
            "where": str(row.where["scope"]).replace("_", " ") if row.where["group"] == ALL else row.where["group"],
        }
        for row in draft.select("human_auc")
        if row.where["metric"] != PLAUSIBILITY
    ]
    panels = list(dict.fromkeys(row["where"] for row in rows))
    spec = forest(
        [row for row in rows if row["where"] in panels[:MOST_PANELS]],
        label="metric",
        value=Axis("auc", "AUC against labels of people", format=".2f"),
        low="low",
        high="high",
        reference=0.5,
        facet="where",
    )
    return figure_of(
        "people",
        "Do metrics agree with people, and within each system too?",
        f"Areas with {percent(draft.level)} intervals over contexts: pooled, within systems, for the same "
        "context, of each system, and of outputs by how much of them the context holds word by word."
        f"{f' The first {MOST_PANELS} of {len(panels)} are shown.' if len(panels) > MOST_PANELS else ''}",
        spec,
    )


def _doses(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield how mean scores fall with the share of errors, and of steps without the context."""
    del counts
    for knob, kinds in (("rate", [kind for kind in NAMES if kind not in ("labels", "shuffled")]), ("alpha", ["noisy"])):
        rows = [
            {
                "strength": row.where["strength"],
                "auc": row.value,
                "low": row.low,
                "high": row.high,
                "metric": said(str(row.where["metric"])),
                "error": row.where["corruption"],
            }
            for kind in kinds
            for row in draft.select("detection_auc", corruption=kind, pairing="pooled")
            if row.where["metric"] != PLAUSIBILITY
        ]
        if len({row["strength"] for row in rows}) < 2:
            continue
        what = "Share of mentions with an error" if knob == "rate" else "Share of steps without the context"
        spec = lines(
            rows,
            x=Axis("strength", what, format=".2~f"),
            y=Axis("auc", "AUC", format=".2f"),
            low="low",
            high="high",
            series="metric",
            series_title="Metric",
            facet="error" if len({row["error"] for row in rows}) > 1 else None,
        )
        yield figure_of(
            f"doses-{knob}",
            "Do metrics see more of stronger errors?"
            if knob == "rate"
            else "Do metrics see that the context is ignored more often?",
            f"AUC against faithful texts by strength, with {percent(draft.level)} intervals over contexts.",
            spec,
        )


def _worst(counts: Counts) -> Figure:
    """Show the outputs with the most mentions without support, and these marked in them."""
    totals = np.sum([unsupported for _, unsupported in counts.mentions.values()], axis=0)
    kinds = [
        {"kind": kind, "share": float(unsupported.sum() / max(mentions.sum(), 1))}
        for kind, (mentions, unsupported) in counts.mentions.items()
    ]
    worst = [row for row in np.argsort(-totals, kind="stable")[:WORST].tolist() if totals[row]]
    rows = [
        [counts.samples[row].id, counts.samples[row].system, str(int(totals[row])), marked(counts, row)]
        for row in worst
    ]
    spec = bars(kinds, label="kind", value=Axis("share", "Mentions without support", format=".2f"))
    columns = [("id", "Output"), ("system", "System"), ("count", "Without support"), ("text", "Text")]
    return figure_of(
        "worst",
        "What has no support in the context?",
        f"Shares of mentions, and the {len(rows)} outputs with the most; mentions without support stand "
        "in [[double brackets]].",
        with_table(spec, columns, rows),
    )


def marked(counts: Counts, row: int) -> str:
    """Return the beginning of an output with its unsupported mentions in double brackets."""
    text = counts.samples[row].pair.output
    spans = merged([span for name, found in counts.spans.items() if name in KINDS for span in found[row]])
    parts, last = [], 0
    for start, end in spans:
        parts += [text[last:start], f"[[{text[start:end]}]]"]
        last = end
    whole = "".join([*parts, text[last:]])
    return whole if len(whole) <= LONGEST else f"{whole[:LONGEST]} ..."


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, those that meet as one.

    >>> merged([(5, 8), (0, 3), (2, 4)])
    [(0, 4), (5, 8)]
    """
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
