"""The charts of the audit, each of which answers the question in its title, and the texts behind them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Figure, Json
from audits.core.wording import many, span
from audits.precision_recall.counts import Counts
from audits.precision_recall.listing import Listed, different, outside, uncovered
from audits.precision_recall.lookup import difference, least_precise, score, shown
from audits.precision_recall.records import held_in
from audits.precision_recall.sides import CEILING, DIVERSITY, FLOOR, QUALITY, REFERENCE, RELABELLED
from audits.precision_recall.sweep import front_of, path_of
from audits.report.charts import Axis, curves, ends_of, figure_of, forest, lines, numbers_of, points, texts, with_table

Names = Mapping[str, str]
"""What each candidate is called on a chart."""
MOST_ROWS, MOST_PANELS = 24, 12
"""Candidates that are drawn as a row of each panel, and as a panel each."""
MOST_DOTS, MOST_LISTED = 12, 20
"""Texts that are drawn, and those that are listed in full under the chart."""
MOST_LABELS = 12
"""Candidates whose names stand at their points."""
LONGEST, LETTERS = 24, 60
"""Letters of a candidate's name and of a text on a chart."""
METRICS = ("precision", "recall", "density", "coverage")
_LESS = {CEILING: "reference against itself", RELABELLED: "sets of one source"}
KINDS = {"candidate": "circle", CEILING: "diamond", FLOOR: "square"}


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures; empty ones are left out."""
    names = _names(counts.names)
    for kind in (_plane, _temperature, _shortfall, _curve, _outside, _uncovered):
        figure = kind(draft, counts, names)
        if figure is not None:
            yield figure


def _first(names: Names, most: int) -> tuple[tuple[str, ...], str]:
    """Return the first candidates, and the words of a caption on the others."""
    left = max(len(names) - most, 0)
    rest = f" {many(left, 'more candidate is', 'more candidates are')} in the tables only." if left else ""
    return tuple(names)[:most], rest


def _names(candidates: Sequence[str]) -> dict[str, str]:
    """Return short names; a number is added where two would be the same."""
    names: dict[str, str] = {}
    for name in candidates:
        short = _short(name, LONGEST)
        again = sum(_short(other, LONGEST) == short for other in names)
        names[name] = short + (f" ({again + 1})" if again else "")
    return names


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _plane(draft: Draft, counts: Counts, names: Names) -> Figure | None:
    level, sizes = percent(draft.level), counts.inputs
    heat, front = {name: at for at, name in path_of(counts)}, front_of(draft, counts)
    labels = list(names) if len(names) <= MOST_LABELS else front[:MOST_LABELS]
    rows: list[Json] = []
    # The first are the first to find room for their labels.
    for name in (CEILING, FLOOR, *names):
        pair = [score(draft, counts, metric, name) for metric in ("precision", "recall")]
        if pair[0] is not None and pair[1] is not None:
            own = name in names
            row = {"set": names.get(name, name), "what": "candidate" if own else name, "n": pair[0].n}
            row |= {"order": heat.get(name), "hollow": own and name not in front, "named": not own or name in labels}
            rows.append(row | ends_of("recall", pair[1]) | ends_of("precision", pair[0]))
    if not any(row["what"] == "candidate" for row in rows):
        return None
    kinds = {row["what"] for row in rows}
    caption = (
        "Recall: share of the reference texts that lie in a ball around a generated text. Precision: share of the "
        "generated texts that lie in a ball around a reference text. Balls reach to the nearest text number "
        f"{counts.k} of the same side; bars are {level} intervals over halves of the texts. Filled: no other candidate "
        "has a higher value of one and no lower value of the other; hollow: another has."
    )
    if len(heat) > 1:
        caption += " The line joins the temperatures, from the lowest to the highest."
    if CEILING in kinds:
        caption += " Diamond, ceiling: the reference set against itself."
    if FLOOR in kinds:
        caption += " Square, floor: reference texts with their words shuffled."
    if kinds & {CEILING, FLOOR} and sizes.control != sizes.size:
        caption += f" These are of {sizes.control:,} texts a side, the candidates of {sizes.size:,}: compare with care."
    spec = points(
        rows,
        x=Axis("recall", "Recall (share of reference texts): diversity", ".2f", zero=False),
        y=Axis("precision", "Precision (share of generated texts): quality", ".2f", zero=False),
        label="set",
        kind="what",
        kinds=KINDS,
        hollow="hollow",
        order="order",
        named="named",
    )
    title = "What does each candidate trade, quality against diversity?"
    return figure_of("plane", title, caption, _scored(spec, draft, counts, names))


def _scored(chart: Json, draft: Draft, counts: Counts, names: Names) -> Json:
    """Return a chart with the scores of all candidates and of the controls as a table under it."""
    columns = ("precision", "density", "recall", "coverage", "mauve")
    rows = []
    for name in (*names, CEILING, FLOOR):
        cells = [score(draft, counts, metric, name) for metric in columns]
        if any(cell is not None for cell in cells):
            rows.append([names.get(name, name), *("" if cell is None else span(cell) for cell in cells)])
    return with_table(chart, [("name", "set"), *((metric, metric) for metric in columns)], rows[:20])


def _temperature(draft: Draft, counts: Counts, names: Names) -> Figure | None:
    rows: list[Json] = []
    for metric in METRICS:
        ceiling = score(draft, counts, metric, CEILING)
        for heat, name in path_of(counts):
            if (row := score(draft, counts, metric, name)) is not None:
                bound = (
                    {} if ceiling is None else {"ceiling": ceiling.value, "from": ceiling.low, "up_to": ceiling.high}
                )
                rows.append({"temperature": heat, "metric": metric, "series": "sweep", **numbers_of(row), **bound})
    if len({row["temperature"] for row in rows}) < 2:
        return None
    x = Axis("temperature", "Temperature", ".2~f", zero=False, kind="quantitative")
    y = Axis("value", "Score (scales differ)", ".2f", zero=False)
    level = ("ceiling", "from", "up_to") if "ceiling" in rows[0] else None
    # The panels are of different quantities, each as high as it needs.
    spec = lines(rows, x=x, y=y, low="low", high="high", series="series", series_title="", facet="metric", level=level,
                 own_scales=True)  # fmt: skip
    caption = (
        "Scores of the candidates of the sweep by temperature; precision and density are of quality, recall and "
        f"coverage of diversity. Bands are {percent(draft.level)} intervals over halves of the texts. Precision, "
        "recall and coverage are shares; density is a mean count over k, and may exceed 1."
    )
    if level is not None:
        caption += " Dashed, with its interval: the reference set against itself."
    return figure_of("temperature", "What does temperature buy, and what does it cost?", caption, spec)


def _shortfall(draft: Draft, counts: Counts, names: Names) -> Figure | None:
    level, against = percent(draft.level), counts.benchmark
    first, rest = _first(names, MOST_ROWS)
    rows = [
        {
            **numbers_of(row),
            "candidate": names[name],
            "metric": f"{metric}: {'quality' if metric in QUALITY else 'diversity'}",
            "undecided": shown(draft, counts, metric, name, against) == 0,
        }
        for metric in (*QUALITY, *DIVERSITY)
        for name in first
        if (row := difference(draft, counts, metric, name, against)) is not None and row.low is not None
    ]
    if not rows:
        return None
    axis = Axis("value", "Candidate less " + _LESS[against], ".2f")
    spec = forest(rows, label="candidate", value=axis, low="low", high="high", reference=0.0, facet="metric",
                  greyed="undecided", hollow=True, ranked=False)  # fmt: skip
    caption = (
        f"Each candidate's score less {_LESS[against]}, with {level} intervals over halves of the texts, of "
        f"{rows[0]['n']:,} texts a side. Left of the dashed line the candidate falls short. Filled: shown, with all "
        "that is asked of all candidates counted (Holm); hollow and grey: no difference could be "
        f"shown.{rest}"
    )
    benchmark = "the reference itself" if against == CEILING else "a set of the reference's source"
    return figure_of("shortfall", f"How far does each candidate fall short of {benchmark}?", caption, spec)


def _curve(draft: Draft, counts: Counts, names: Names) -> Figure | None:
    level = percent(draft.level)
    first, rest = _first(names, MOST_PANELS)
    rows: list[Json] = []
    for name in first:
        sides = {
            side: {float(row.where["lambda"]): row for row in draft.select("curve", candidate=name, side=side)}
            for side in ("precision", "recall")
        }
        for slope in sorted(sides["precision"].keys() & sides["recall"].keys()):
            both = ends_of("precision", sides["precision"][slope]) | ends_of("recall", sides["recall"][slope])
            rows.append({"candidate": names[name], "slope": slope, **both})
    if not rows:
        return None
    spec = curves(
        rows,
        x=Axis("recall", "Recall", ".1f"),
        y=Axis("precision", "Precision", ".1f"),
        series="candidate",
        order="slope",
    )
    caption = (
        "Curve of precision and recall of distributions over clusters of all texts: each point weighs one against the "
        "other anew (slope, in its tooltip). The nearer a curve comes to the corner above on the right, the more alike "
        f"are the two distributions. Bars are {level} intervals over halves of the texts.{rest}"
    )
    return figure_of("curve", "How much of the reference is reached at which quality?", caption, spec)


def _outside(draft: Draft, counts: Counts, names: Names) -> Figure | None:
    name = least_precise(draft, counts)
    rows, count = outside(counts, name, MOST_LISTED)
    lowest = "; of all candidates it has the lowest precision" if len(names) > 1 else ""
    caption = (
        f"{count:,} of the {different(counts, name):,} different texts of {name} in the first draw "
        f"{'lies' if count == 1 else 'lie'} in no ball around a reference text{lowest}. Those of "
        f"all are in {held_in(counts)}."
    )
    title = f"Which texts of {names[name]} lie outside the reference?"
    words = "generated text", "nearest reference text"
    return _texts("outside", title, caption, rows, count, (_unit(counts, name), _unit(counts, REFERENCE)), words)


def _uncovered(draft: Draft, counts: Counts, names: Names) -> Figure | None:
    rows, count = uncovered(counts, MOST_LISTED)
    caption = (
        f"{count:,} of the {different(counts, REFERENCE):,} different reference texts in the first draw "
        f"{'lies' if count == 1 else 'lie'} in no ball around a text of any candidate."
    )
    units = {_unit(counts, name) for name in names}
    columns = _unit(counts, REFERENCE), units.pop() if len(units) == 1 else "place"
    near = [names[_nearest_of(counts, row)] for row in rows]
    words = "reference text", "nearest generated text"
    return _texts(
        "uncovered", "Which reference texts does no candidate reach?", caption, rows, count, columns, words, near
    )


def _nearest_of(counts: Counts, row: Listed) -> str:
    """Return the candidate with the nearest generated text, to which index and distance belong."""
    text = int(np.flatnonzero(counts.inputs.reference.places == row.place)[0])
    far = {name: float(counts.main[name].first[1].distance[text]) for name in counts.names}
    return min(far, key=lambda name: (far[name] != row.distance, far[name]))


def _unit(counts: Counts, name: str) -> str:
    """Return the unit that the positions of a set count."""
    return counts.inputs.sets[name].where


def _texts(
    id: str,
    title: str,
    caption: str,
    found: Sequence[Listed],
    count: int,
    columns: tuple[str, str],
    words: tuple[str, str],
    near: Sequence[str] = (),
) -> Figure | None:
    """Draw texts by distance and list them in full; `near` names the candidate of the nearest."""
    if not found:
        return None
    # A ball without a radius, or without end, is no measure.
    radii = all(math.isfinite(row.share) for row in found)
    key = "radii" if radii else "distance"
    rows = [
        {"text": _short(row.text, LETTERS) or f"{columns[0]} {row.place}", columns[0]: row.place, "copies": row.copies,
         key: row.share if radii else row.distance}
        for row in found[:MOST_DOTS]
    ]  # fmt: skip
    measure = "distance in radii" if radii else "distance"
    spec = texts(
        rows, value=Axis(key, measure.capitalize(), ".2f", zero=False), label="text", edge=1.0 if radii else None
    )
    drawn = (
        f"The farthest {len(rows)} are drawn, the farthest {len(found)} listed below"
        if count > len(rows)
        else "All are drawn, and listed below"
    )
    caption += f" {drawn}, by the distance to the nearest {words[1].split()[1]} text"
    caption += ", in radii of the ball around that (dashed: its edge)." if radii else "."
    caption += (
        " These are distances of single texts for this encoder: they have no interval, and a far text need not be bad."
    )
    return figure_of(id, title, caption, _listed(spec, found, measure, columns, words, near))


def _listed(
    chart: Json,
    found: Sequence[Listed],
    measure: str,
    columns: tuple[str, str],
    words: tuple[str, str],
    near: Sequence[str],
) -> Json:
    """Return a chart with a table of the texts beside their nearest."""
    cells: dict[tuple[str, str], list[Any]] = {
        ("place", columns[0]): [row.place for row in found],
        ("text", words[0]): [row.text for row in found],
        ("copies", "copies"): [row.copies for row in found],
        (measure.split()[-1], measure): [round(row.share if "radii" in measure else row.distance, 4) for row in found],
        ("nearest_text", words[1]): [row.nearest_text for row in found],
        ("nearest_of", "of"): list(near),
        ("nearest_place", columns[1]): [row.nearest_place for row in found],
    }
    kept = {column: values for column, values in cells.items() if any(value != "" for value in values)}
    return with_table(chart, list(kept), list(zip(*kept.values(), strict=True)))
