"""Charts of what goes with the cells: script and family, mixtures, scores, and single trainings."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Figure, Json
from audits.core.wording import many, p_words, span
from audits.interference.effects import Association
from audits.interference.figure_parts import MOST_LABELS, MOST_POINTS, UNIT, is_open, names_of
from audits.interference.likenesses import EFFECTS, plural
from audits.interference.matrix import Cell, Judged, Matrix
from audits.interference.measure import Counts
from audits.interference.mixtures import where_error
from audits.report.charts import Axis, columns, ends_of, figure_of, points, stacked, strips

MOST_DOTS = 150
"""Cells of a group that are dots of their own; of more, so many quantiles are drawn."""
MOST_SEEDED, MOST_NAMED_CELLS, MOST_SCORES = 12, 30, 4
"""Languages whose cells are drawn seed by seed, cells named on an axis, and columns of scores that are drawn."""
MOST_NAMED = 8
"""Languages whose codes stand at their points."""


def likeness(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Draw the cells of pairs that share script, or family, beside those of other pairs."""
    classes = {name.lower(): column for name, column in counts.inputs.attributes.columns.items()}
    # What no relabelling can test is not held up beside what can.
    tests = {one.name: one for one in counts.effects if one.name in EFFECTS and not one.given}
    rows: list[Json] = []
    means: dict[str, float] = {}
    parts = []
    for name in (name for name in EFFECTS if name in tests):
        divided = _divided(counts.matrix, classes[name])
        for which, cells in divided.items():
            group = f"{which} {name}, {many(len(cells), 'cell', 'cells')}"
            means[group] = float(np.mean([judged.value for judged in cells.values()]))
            rows += _dots(draft, counts, group, cells)
        parts.append(_effect_words(draft, tests[name]))
    if not rows:
        return
    caption = f"A dot is a cell of the matrix; the upright line is the mean of its row. {' '.join(parts)}"
    if any("added" not in row for row in rows):
        caption += f" Of a row of more than {MOST_DOTS} cells, {MOST_DOTS} quantiles are drawn."
    elif any(row.get("open") for row in rows):
        caption += " Grey: no effect could be shown for the cell by itself."
    hints = [key for key in ("added", "held-out", "change", "verdict", "group") if any(key in row for row in rows)]
    value = Axis("value", f"Change of the held-out loss, {UNIT}", ".2f")
    spec = strips(rows, means, value=value, group="group", hints=hints, greyed="open")
    named = [name for name in EFFECTS if any(group.startswith(f"same {name},") for group in means)]
    title = f"Does sharing a {' or a '.join(named)} go with less harm?"
    yield figure_of("likeness", title, caption, spec)


def _divided(matrix: Matrix, classes: Mapping[str, str]) -> dict[str, dict[Cell, Judged]]:
    """Return the cells whose languages share a class, and those whose languages do not."""
    found: dict[str, dict[Cell, Judged]] = {"same": {}, "other": {}}
    for (target, source), judged in matrix.cells.items():
        if target in classes and source in classes:
            which = "same" if classes[target] == classes[source] else "other"
            found[which][target, source] = judged
    return found


def _dots(draft: Draft, counts: Counts, group: str, cells: Mapping[Cell, Judged]) -> list[Json]:
    if len(cells) > MOST_DOTS:
        shares = (np.arange(MOST_DOTS) + 0.5) / MOST_DOTS
        values = np.quantile([judged.value for judged in cells.values()], shares)
        return [{"group": group, "value": float(f"{value:.3g}")} for value in values]
    names = names_of(counts.inputs)
    return [
        {
            "group": group,
            "value": judged.value,
            "open": is_open(judged, draft.level),
            "added": names[source],
            "held-out": names[target],
            "change": span(draft.row("interference", target=target, source=source)),
            "verdict": judged.verdict(draft.level),
        }
        for (target, source), judged in cells.items()
    ]


def _effect_words(draft: Draft, one: Association) -> str:
    """Return the difference of the two means with its p-value, in words."""
    text = f"Same {one.name} less other: {span(draft.row(one.estimate, **one.where))}, for these languages."
    return f"{text} {_chance(one, 1 - draft.level)}"


def _chance(one: Association, alpha: float) -> str:
    if one.test.smallest_p > alpha:
        return (
            f"So few ways to deal the {plural(one.name)} to the languages could not show that {one.name} is the reason."
        )
    test = f"p {p_words(one.adjusted)} after Holm, relabelling the languages"
    if one.adjusted <= alpha:
        return f"Chance would rarely part them so ({test})."
    return f"Chance might part them so too ({test})."


def mixtures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Draw measured losses of mixtures of three against predictions from pairs."""
    names, cells = names_of(counts.inputs), counts.matrix.cells
    rows: list[Json] = []
    for (chosen, target), judged in counts.mixtures.errors.items():
        off, others = (
            draft.row("prediction_error", **where_error(chosen, target)),
            [code for code in chosen if code != target],
        )
        if any((target, other) not in cells for other in others):
            continue
        predicted = sum(cells[target, other].value for other in others)
        low, high = (None if end is None else predicted + end for end in (off.low, off.high))
        rows.append(
            {
                "x": predicted,
                "x_low": None,
                "x_high": None,
                "y": predicted + off.value,
                "y_low": low,
                "y_high": high,
                "held-out": names[target],
                "added": ", ".join(others),
                "real less predicted": span(off),
                "cell": f"{target} in {'+'.join(chosen)}",
                "open": is_open(judged, draft.level),
                "named": False,
            }
        )
    if not rows:
        return
    rows.sort(key=lambda row: (row["open"], -abs(row["y"] - row["x"])))
    shown = [row for row in rows if not row["open"]]
    for row in shown[:MOST_LABELS]:
        row["named"] = True
    spec = points(
        rows[:MOST_POINTS],
        x=Axis("x", f"Predicted change, {UNIT}", ".2f"),
        y=Axis("y", f"Real change, {UNIT}", ".2f"),
        label="cell",
        named="named",
        hollow="open",
        greyed="open",
        hints=("held-out", "added", "real less predicted"),
        alike=True,
    )
    yield figure_of("mixtures", "Do the effects of pairs add up in mixtures?", _mixture_words(draft, rows), spec)


def _mixture_words(draft: Draft, rows: Sequence[Json]) -> str:
    shown, total = sum(not row["open"] for row in rows), many(len(rows), "case", "cases")
    caption = (
        "A point is one language in a mixture of three; the change is against its loss when it is trained on alone. "
        "Predicted is the sum of the changes that the two others cause in pairs; on the diagonal it is right. "
    )
    if any(row["y_low"] is not None for row in rows):
        caption += f"Bars: the {percent(draft.level)} interval of real less predicted. "
    caption += (
        f"Filled: off beyond the noise ({shown} of {total})."
        if shown
        else f"In none of {total} could the prediction be shown to be off."
    )
    if 0 < shown < len(rows):
        caption += " Hollow: not shown to be off."
    if len(rows) > MOST_POINTS:
        caption += f" The other {len(rows) - MOST_POINTS:,} are in the tables."
    return caption


def downstream(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Draw scores of languages against their mean received interference."""
    related = [one for one in counts.downstream if one.side == "received"]
    table = counts.inputs.downstream
    if not related or table is None:
        return
    scores = dict(zip(table.names, table.values, strict=True))
    views, parts = [], []
    for one in related[:MOST_SCORES]:
        rows = _scored(draft, counts, scores[one.score].tolist())
        x = Axis("x", f"Mean change, {UNIT}", ".2f")
        view = points(rows, x=x, y=Axis("y", one.score, zero=False), label="code", named="named",
                      hints=("language", "received", "score"))  # fmt: skip
        views.append((one.score, view))
        correlation = span(draft.row("downstream_correlation", **one.where))
        parts.append(f"{one.score}: rank correlation {correlation}, p {p_words(one.p.value)}")
    caption = (
        "A point is a language; its mean change is over all languages that were added to it, bars are "
        f"{percent(draft.level)} intervals of that. {'; '.join(parts)}."
    )
    if len(related) > len(views):
        caption += f" {many(len(related) - len(views), 'more score is', 'more scores are')} in the tables."
    yield figure_of("downstream", "Do scores go with the harm that a language receives?", caption, stacked(views))


def _scored(draft: Draft, counts: Counts, scores: Sequence[float]) -> list[Json]:
    """Return a point for every language with a score and a row mean."""
    names, rows = names_of(counts.inputs), list[Json]()
    for code, score in zip(counts.inputs.languages, scores, strict=True):
        received = draft.get("received", target=code)
        if received is not None and np.isfinite(score):
            point = {**ends_of("x", received), "y": score, "y_low": None, "y_high": None}
            tooltip = {"language": names[code], "received": span(received), "score": f"{score:.4g}"}
            rows.append({**point, **tooltip, "code": code, "open": False, "named": False})
    return [{**row, "named": len(rows) <= MOST_NAMED} for row in rows]


def seeds(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Draw the value of every cell under each training seed."""
    cells = sorted(counts.matrix.cells.items(), key=lambda item: item[1].value)
    if len(counts.inputs.languages) > MOST_SEEDED or max(judged.crossed.seeds for _, judged in cells) < 2:
        return
    names = names_of(counts.inputs)
    rows: list[Json] = []
    for (target, source), judged in cells:
        row = draft.row("interference", target=target, source=source)
        values = _trained(counts.matrix, target, source)
        rows.append(
            {
                "cell": f"{target} ← {source}",
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "added": names[source],
                "held-out": names[target],
                "change": span(row),
                "verdict": judged.verdict(draft.level),
                "each seed": ", ".join(f"{value:+.4f}" for value in values),
                "seeds": values,
                "open": is_open(judged, draft.level),
            }
        )
    sentences = all(judged.crossed.sentences_known for _, judged in cells)
    over = "trainings and held-out sentences" if sentences else "trainings"
    caption = (
        f"A column is a cell, a dot one training of its models, the bar the {percent(draft.level)} interval of the "
        f"mean over {over}, each for itself. "
    )
    faint = sum(row["open"] for row in rows)
    caption += (
        f"Grey ({faint} of {len(rows)}): not told apart from 0 once all cells are looked at."
        if faint
        else f"All {len(rows)} are told apart from 0."
    )
    deviation = draft.get("seed_deviation")
    if deviation is not None:
        caption += f" From one training to another a cell scatters by {span(deviation)}."
    spec = columns(
        rows,
        value=Axis("value", f"Change of the held-out loss, {UNIT}", ".2f"),
        low="low",
        high="high",
        dots="seeds",
        label="cell",
        title="Cells, by value (held-out ← added)",
        hints=("added", "held-out", "change", "each seed", "verdict"),
        greyed="open",
        labelled=len(rows) <= MOST_NAMED_CELLS,
    )
    yield figure_of("seeds", "Are the cells beyond the noise of training?", caption, spec)


def _trained(matrix: Matrix, target: str, source: str) -> list[float]:
    """Return the value of a cell under each seed that both of its models have."""
    losses = matrix.losses
    pair, alone = (min(target, source), max(target, source)), (target,)
    both = sorted(losses.seeds(pair, target) & losses.seeds(alone, target))
    return [losses.cells[pair, seed, target].loss - losses.cells[alone, seed, target].loss for seed in both]
