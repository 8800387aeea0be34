"""What goes with the cells? Charts of script and family, of mixtures, of scores, and of single trainings."""

from collections.abc import Mapping, Sequence

import numpy as np

from audits.charts import Axis
from audits.interference.drawing import MOST_LABELS, MOST_POINTS, UNIT, Stage, ends_of, figure_of, value_of
from audits.interference.effects import Association
from audits.interference.estimating import Entry
from audits.interference.likenesses import EFFECTS
from audits.interference.point_charts import groups, points, ranked, stacked
from audits.numbers import percent
from audits.records import Figure, Json
from audits.wording import many, p_words, span

MOST_DOTS = 150
"""Cells of a group that are dots of their own; of more, so many quantiles are drawn."""
MOST_SEEDED, MOST_NAMED_CELLS, MOST_SCORES = 12, 30, 4
"""Languages whose cells are drawn seed by seed, cells named on an axis, and columns of scores that are drawn."""
MOST_NAMED = 8
"""Languages whose codes stand at their points."""


def likeness(stage: Stage) -> Figure | None:
    """Draw the cells of pairs with one script, or one family, beside those of others."""
    columns = {name.lower(): column for name, column in stage.results.inputs.attributes.columns.items()}
    rows: list[Json] = []
    means: dict[str, float] = {}
    parts = []
    for name in EFFECTS:
        divided = _divided(stage, columns.get(name, {}))
        # What no relabelling can test is not held up beside what can.
        if not all(divided) or name not in {one.name for one in stage.results.effects.tests}:
            continue
        for which, cells in zip(("same", "other"), divided, strict=True):
            group = f"{which} {name}, {many(len(cells), 'cell', 'cells')}"
            means[group] = float(np.mean([value_of(entry) for _, entry in cells]))
            rows += _dots(stage, group, cells)
        parts.append(_effect_words(stage, name))
    if not rows:
        return None
    caption = f"A dot is a cell of the matrix; the upright line is the mean of its row. {' '.join(parts)}"
    if any("added" not in row for row in rows):
        caption += f" Of a row of more than {MOST_DOTS} cells, {MOST_DOTS} quantiles are drawn."
    elif any(row.get("open") for row in rows):
        caption += " Grey: no effect could be shown for the cell by itself."
    told = [key for key in ("added", "held-out", "change", "verdict", "group") if any(key in row for row in rows)]
    spec = groups(rows, means, value=Axis("value", f"Change of the held-out loss, {UNIT}", ".2f"), told=told)
    named = [name for name in EFFECTS if any(group.startswith(f"same {name},") for group in means)]
    title = f"Does sharing a {' or a '.join(named)} go with less harm?"
    return figure_of("likeness", title, caption, spec)


def _divided(stage: Stage, classes: Mapping[str, str]) -> tuple[list[tuple[tuple[str, str], Entry]], ...]:
    """Return the cells whose two languages are of one class, and of two."""
    known = [
        (pair, entry) for pair, entry in stage.results.found.cells.items() if all(code in classes for code in pair)
    ]
    return tuple([(pair, entry) for pair, entry in known if (classes[pair[0]] == classes[pair[1]]) is same]
                 for same in (True, False))  # fmt: skip


def _dots(stage: Stage, group: str, cells: Sequence[tuple[tuple[str, str], Entry]]) -> list[Json]:
    if len(cells) > MOST_DOTS:
        shares = (np.arange(MOST_DOTS) + 0.5) / MOST_DOTS
        values = np.quantile([value_of(entry) for _, entry in cells], shares)
        return [{"group": group, "value": float(f"{value:.3g}")} for value in values]
    return [
        {
            "group": group,
            "value": value_of(entry),
            "open": stage.open(entry),
            "added": stage.names[source],
            "held-out": stage.names[target],
            "change": span(stage.at(entry.place)),
            "verdict": entry.judged.verdict(stage.level),
        }
        for (target, source), entry in cells
    ]


def _effect_words(stage: Stage, name: str) -> str:
    """Return the difference of the two means, and whether chance would do as much."""
    tested = next(one for one in stage.results.effects.tests if one.name == name and not one.given)
    text = f"Same {name} less other: {span(stage.at(tested.effect))}, for these languages."
    return f"{text} {_chance(tested, 1 - stage.level)}"


def _chance(tested: Association, alpha: float) -> str:
    if tested.test.smallest_p > alpha:
        return (
            f"So few ways to deal the {_plural(tested.name)} to the languages could not show that {tested.name} is "
            "the reason."
        )
    test = f"p {p_words(tested.adjusted)} after Holm, relabelling the languages"
    if tested.adjusted <= alpha:
        return f"Chance would rarely part them so ({test})."
    return f"Chance might part them so too ({test})."


def _plural(name: str) -> str:
    return {"family": "families"}.get(name, f"{name}s")


def mixtures(stage: Stage) -> Figure | None:
    """Draw what real mixtures of three do against what their pairs foretell."""
    errors = stage.results.mixed.errors
    if not errors:
        return None
    rows: list[Json] = []
    cells = stage.results.found.cells
    for (chosen, target), entry in errors.items():
        off, others = stage.at(entry.place), [code for code in chosen if code != target]
        if any((target, other) not in cells for other in others):
            continue
        predicted = sum(value_of(cells[target, other]) for other in others)
        moved = [None if end is None else predicted + end for end in (off.low, off.high)]
        rows.append(
            {
                "x": predicted,
                "x_low": None,
                "x_high": None,
                "y": predicted + off.value,
                "y_low": moved[0],
                "y_high": moved[1],
                "held-out": stage.names[target],
                "added": ", ".join(others),
                "real less predicted": span(off),
                "cell": f"{target} in {'+'.join(chosen)}",
                "open": stage.open(entry),
                "named": False,
            }
        )
    if not rows:
        return None
    rows.sort(key=lambda row: (row["open"], -abs(row["y"] - row["x"])))
    shown = [row for row in rows if not row["open"]]
    for row in shown[:MOST_LABELS]:
        row["named"] = True
    spec = points(
        rows[:MOST_POINTS],
        x=Axis("x", f"Predicted change, {UNIT}", ".2f"),
        y=Axis("y", f"Real change, {UNIT}", ".2f"),
        label="cell",
        told=("held-out", "added", "real less predicted"),
        alike=True,
    )
    caption = (
        "A point is one language in a mixture of three; the change is against its loss when it is trained on alone. "
        "Predicted is the sum of the changes that the two others cause in pairs; on the diagonal it is right. "
    )
    if any(row["y_low"] is not None for row in rows):
        caption += f"Bars: the {percent(stage.level)} interval of real less predicted. "
    total = many(len(rows), "case", "cases")
    caption += (
        f"Filled: off beyond the noise ({len(shown)} of {total})."
        if shown
        else f"In none of {total} could the prediction be shown to be off."
    )
    if 0 < len(shown) < len(rows):
        caption += " Hollow: not shown to be off."
    if len(rows) > MOST_POINTS:
        caption += f" The other {len(rows) - MOST_POINTS:,} are in the tables."
    return figure_of("mixtures", "Do the effects of pairs add up in mixtures?", caption, spec)


def downstream(stage: Stage) -> Figure | None:
    """Draw scores of languages against what these receive."""
    related = [one for one in stage.results.downstream.related if one.side == "received"]
    table = stage.results.inputs.downstream
    if not related or table is None:
        return None
    views, parts = [], []
    scores = dict(zip(table.names, table.values, strict=True))
    for one in related[:MOST_SCORES]:
        rows: list[Json] = []
        for code, score in zip(stage.results.inputs.languages, scores[one.score].tolist(), strict=True):
            if code in stage.results.found.received and np.isfinite(score):
                received = stage.at(stage.results.found.received[code].place)
                point = {**ends_of("x", received), "y": score, "y_low": None, "y_high": None}
                told = {"language": stage.names[code], "received": span(received), "score": f"{score:.4g}"}
                rows.append({**point, **told, "code": code, "open": False, "named": False})
        for row in rows:
            row["named"] = len(rows) <= MOST_NAMED
        x = Axis("x", f"Mean change, {UNIT}", ".2f")
        view = points(rows, x=x, y=Axis("y", one.score, zero=False), label="code",
                      told=("language", "received", "score"), alike=False)  # fmt: skip
        views.append((one.score, view))
        p = stage.at(one.p).value
        parts.append(f"{one.score}: rank correlation {span(stage.at(one.correlation))}, p {p_words(p)}")
    caption = (
        "A point is a language; its mean change is over all languages that were added to it, bars are "
        f"{percent(stage.level)} intervals of that. {'; '.join(parts)}."
    )
    if len(related) > len(views):
        caption += f" {many(len(related) - len(views), 'more score is', 'more scores are')} in the tables."
    return figure_of("downstream", "Do scores go with the harm that a language receives?", caption, stacked(views))


def seeds(stage: Stage) -> Figure | None:
    """Draw every cell with the value that each training gave it."""
    cells = sorted(stage.results.found.cells.items(), key=lambda item: value_of(item[1]))
    if len(stage.results.inputs.languages) > MOST_SEEDED or max(entry.judged.crossed.seeds for _, entry in cells) < 2:
        return None
    rows: list[Json] = []
    for (target, source), entry in cells:
        row = stage.at(entry.place)
        values = _trained(stage, target, source)
        rows.append(
            {
                "cell": f"{target} ← {source}",
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "added": stage.names[source],
                "held-out": stage.names[target],
                "change": span(row),
                "verdict": entry.judged.verdict(stage.level),
                "each seed": ", ".join(f"{value:+.4f}" for value in values),
                "seeds": values,
                "open": stage.open(entry),
            }
        )
    sentences = all(entry.judged.crossed.sentences_known for _, entry in cells)
    over = "trainings and held-out sentences" if sentences else "trainings"
    caption = (
        f"A column is a cell, a dot one training of its models, the bar the {percent(stage.level)} interval of the "
        f"mean over {over}, each for itself. "
    )
    faint = sum(row["open"] for row in rows)
    caption += (
        f"Grey ({faint} of {len(rows)}): not told apart from 0 once all cells are looked at."
        if faint
        else f"All {len(rows)} are told apart from 0."
    )
    deviation = next((row for row in stage.draft.estimates if row.name == "seed_deviation"), None)
    if deviation is not None:
        caption += f" From one training to another a cell scatters by {span(deviation)}."
    spec = ranked(
        rows,
        value=Axis("value", f"Change of the held-out loss, {UNIT}", ".2f"),
        label="cell",
        told=("added", "held-out", "change", "each seed", "verdict"),
        labelled=len(rows) <= MOST_NAMED_CELLS,
    )
    return figure_of("seeds", "Are the cells beyond the noise of training?", caption, spec)


def _trained(stage: Stage, target: str, source: str) -> list[float]:
    """Return the value of a cell under each seed that both of its models have."""
    losses = stage.results.matrix.losses
    pair, alone = (min(target, source), max(target, source)), (target,)
    both = sorted(losses.seeds(pair, target) & losses.seeds(alone, target))
    return [losses.cells[pair, seed, target].loss - losses.cells[alone, seed, target].loss for seed in both]
