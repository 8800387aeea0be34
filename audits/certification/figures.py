"""The charts of the audit; each answers the question in its title."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from audits.certification.certificates import ABSTAIN, Verdict
from audits.certification.log_comparison import LogCounts
from audits.certification.measure import Counts
from audits.certification.parts import LEAST
from audits.certification.radii import rounded_down
from audits.certification.rules import Mode, Rule
from audits.core.context import Draft
from audits.core.numbers import bounded, percent
from audits.core.records import Figure, Json
from audits.report.charts import Axis, bars, figure_of, heat_map, lines
from audits.statistics import clopper_pearson

POINTS = 40
BINS = 12
MOST_CLASSES = 30
_STOPS: Mapping[Mode, str] = {
    "decide": "Draws stop as soon as the radii that they are made for are decided.",
    "anytime": "Draws stop as soon as they settle what they are made for.",
    "pilot": "A pilot chose how many.",
}


def figures(draft: Draft, counts: Counts | LogCounts) -> Iterator[Figure]:
    """Yield the figures; the maps only where two classes or groups have numbers of their own."""
    if isinstance(counts, LogCounts):
        if counts.logs.certified:
            yield _curves_of_logs(counts, draft.level)
        return
    rule, verdicts = counts.rule, counts.verdicts
    yield _curve(verdicts, rule, draft.level, log=counts.inputs.log is not None)
    yield _distribution(verdicts, rule)
    for key, title in (("label", "class"), ("group", "group")):
        rows = _by_part(draft, rule, key)
        if len({row["part"] for row in rows}) > 1:
            yield _map(rows, key, title, rule)
    if rule.mode != "fixed" and verdicts[0].draws is not None:
        yield _cost(verdicts, rule)


def _unit(rule: Rule) -> str:
    return f"{rule.geometry.norm} distance, pixels in [0, 1]"


def _reach(rule: Rule) -> str:
    """Return the ceiling as a sentence."""
    top = f"No image can be certified beyond {bounded(rule.ceiling, up=True)},"
    if rule.soft:
        return f"{top} where all soft outputs are 1."
    if not rule.randomised:
        return f"{top} where all draws agree."
    unlucky = bounded(replace(rule, randomised=False).ceiling, up=True)
    return (
        f"{top} where all draws agree and the random number of the image is the luckiest; with the unluckiest one not "
        f"beyond {unlucky}."
    )


def _curve(verdicts: Sequence[Verdict], rule: Rule, level: float, *, log: bool) -> Figure:
    # Rounded down like the radii, or those at the ceiling would fall short of it.
    top = max(rounded_down(rule.ceiling), max(row.radius for row in verdicts))
    series = [("certified", [row.radius for row in verdicts])]
    if verdicts[0].published is not None:
        series = [("with the Lipschitz constant", series[0][1])]
        series.append(("published bound", [row.published or 0.0 for row in verdicts]))
        series.append(("without it", [row.gaussian or 0.0 for row in verdicts]))
    rows: list[Json] = []
    decides = rule.asked and rule.mode in ("decide", "anytime")
    asked = rule.radii if decides else tuple(np.linspace(0.0, top, POINTS + 1))
    for name, radii in series:
        for radius in asked:
            hits = sum(row.correct and own >= radius for row, own in zip(verdicts, radii, strict=True))
            rows.append({**_share(radius, hits, len(verdicts), level), "radii": name})
    return figure_of(
        "certified-accuracy",
        "How far does the certified accuracy reach?",
        f"Share of {len(verdicts)} images on which the smoothed classifier is right and no perturbation within the "
        f"distance can change its answer; band: {percent(level)} for each distance alone, over images. "
        + ("" if log else _reach(rule)),
        _against_radius(rows, rule, "radii", "Radius", ceiling=not log),
    )


def _share(radius: float, hits: int, count: int, level: float) -> Json:
    low, high = clopper_pearson(hits, count, level=level)
    return {"radius": radius, "value": hits / count, "low": low, "high": high}


def _against_radius(rows: list[Json], rule: Rule, series: str, title: str, *, ceiling: bool = False) -> Json:
    return lines(
        rows,
        x=Axis("radius", f"Radius ({_unit(rule)})", format=".2~f"),
        y=Axis("value", "Certified accuracy", format=".2f"),
        low="low",
        high="high",
        series=series,
        series_title=title,
        rule=(rule.ceiling, "ceiling") if ceiling else None,
    )


def _curves_of_logs(counts: LogCounts, level: float) -> Figure:
    logs = counts.logs
    first = logs.logs[0].rule
    assert first is not None
    top = max(row.radius for rows in logs.verdicts.values() for row in rows) or first.ceiling
    rows: list[Json] = []
    for name, verdicts in logs.verdicts.items():
        for radius in np.linspace(0.0, top, POINTS + 1).tolist():
            hits = sum(row.correct and row.radius >= radius for row in verdicts)
            rows.append({**_share(radius, hits, len(verdicts), level), "log": name})
    return figure_of(
        "certified-accuracy",
        "How far does the certified accuracy of each log reach?",
        f"Share of the {logs.used} images that all logs have on which the log says right with at least this radius;"
        f" band: {percent(level)} for each distance alone, over images. Bands of two logs that overlap can differ "
        "all the same: the images are the same ones.",
        _against_radius(rows, first, "log", "Log"),
    )


def _distribution(verdicts: Sequence[Verdict], rule: Rule) -> Figure:
    top = max(rule.ceiling, max(row.radius for row in verdicts)) or 1.0
    edges = np.linspace(0.0, top, BINS + 1)
    names = [f"{low:.2f} to {high:.2f}" for low, high in pairwise(edges)]
    rows: list[Json] = []
    for answer, right in (("right", True), ("wrong", False)):
        radii = [row.radius for row in verdicts if row.predict != ABSTAIN and row.correct == right]
        counts, _ = np.histogram(radii, edges)
        rows += [
            {"radius": name, "images": int(count), "answer": answer} for name, count in zip(names, counts, strict=True)
        ]
    abstained = sum(row.predict == ABSTAIN for row in verdicts)
    rows.append({"radius": "abstains", "images": abstained, "answer": "none"})
    return figure_of(
        "radii",
        "Which radii were certified?",
        "Images by certified radius. A wrong answer can be certified too: then no perturbation within the radius "
        "makes it right.",
        bars(
            rows,
            label="radius",
            value=Axis("images", "Images"),
            series="answer",
            series_title="Answer",
        ),
    )


def _by_part(draft: Draft, rule: Rule, key: str) -> list[Json]:
    rows = [row for row in draft.rows("certified_accuracy") if key in row]
    return [
        {
            "part": f"{row[key]} (n {row['n']})",
            "radius": f"{row['radius']:g}",
            "value": row["value"],
            "few": row["n"] < 2 * LEAST,
        }
        for row in rows[: MOST_CLASSES * len(rule.radii)]
    ]


def _map(rows: list[Json], key: str, title: str, rule: Rule) -> Figure:
    return figure_of(
        f"by-{key}",
        f"Which {title} is certified how far?",
        f"Certified accuracy of each {title} at each radius. With few images a cell is a rough guess (faded under "
        f"{2 * LEAST}): the table has the intervals.",
        heat_map(
            rows,
            x=Axis("radius", f"Radius ({_unit(rule)})"),
            y=Axis("part", title.capitalize()),
            value=Axis("value", "Certified accuracy", format=".2f"),
            diverging=False,
            faded="few",
        ),
    )


def _cost(verdicts: Sequence[Verdict], rule: Rule) -> Figure:
    numbers = [row.draws or 0 for row in verdicts]
    counts = Counter(sorted(numbers))
    if len(counts) > BINS:
        edges = np.unique(np.geomspace(min(numbers), max(numbers) + 1, BINS + 1).round())
        found, _ = np.histogram(numbers, edges)
        rows = [
            {"draws": f"{low:,.0f} to {high - 1:,.0f}", "images": int(count)}
            for low, high, count in zip(edges[:-1], edges[1:], found, strict=True)
        ]
    else:
        rows = [{"draws": f"{number:,}", "images": count} for number, count in counts.items()]
    return figure_of(
        "draws",
        "How many draws did an image take?",
        "Forward passes under noise, those that choose the class included. " + _STOPS[rule.mode],
        bars(rows, label="draws", value=Axis("images", "Images")),
    )
