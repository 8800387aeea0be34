"""The charts of the matrix, each answering the question in its title."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from audits.charts import Axis
from audits.context import Draft
from audits.interference.clustering import leaf_order
from audits.interference.drawing import (
    FIRST_POINTS,
    LETTERS,
    MOST_LABELS,
    MOST_POINTS,
    UNIT,
    Stage,
    ends_of,
    figure_of,
    names_of,
    value_of,
)
from audits.interference.effect_figures import downstream, likeness, mixtures, seeds
from audits.interference.estimating import Entry
from audits.interference.heat_map import DECIDED, MOST_NUMBERED, VERDICTS, Spot, matrix_map
from audits.interference.point_charts import points
from audits.numbers import percent
from audits.records import Estimate, Figure, Json
from audits.wording import many, span

if TYPE_CHECKING:
    from audits.interference.report import Results


def draw(draft: Draft, results: "Results") -> list[Figure]:
    """Return the figures; one that would have nothing to show is left out."""
    if results.inputs.part is not None or not results.found.cells:
        return []
    stage = Stage(draft, results, names_of(results))
    kinds = (_matrix, _asymmetry, likeness, mixtures, downstream, seeds)
    return [figure for kind in kinds if (figure := kind(stage)) is not None]


def _matrix(stage: Stage) -> Figure:
    results = stage.results
    languages = results.inputs.languages
    order = [languages[place] for place in leaf_order(results.found.array(languages))]
    spots = [[_spot(stage, target, source) for source in order] for target in order]
    count = Counter(spot.letter for row in spots for spot in row)
    caption = (
        "Each row is a language whose held-out text is read, each column one that was added to it. Where its loss "
        f"rises ({UNIT} above 0), the row is hurt."
    )
    if any(count[letter] for letter in DECIDED):
        rule = {"holm": "Holm", "bh": "Benjamini and Hochberg"}[results.matrix.correction]
        caption += f" Verdicts are corrected for {many(len(results.found.cells), 'cell', 'cells')} ({rule})."
    caption += _marks(count)
    if len(order) > 2:
        caption += " Languages stand beside those with which they hurt each other least (average linkage)."
    if len(order) <= MOST_NUMBERED and any(spot.half is not None for row in spots for spot in row):
        caption += " Intervals, each for itself, are in the table."
    spec = {**matrix_map(order, [stage.names[code] for code in order], spots), **_listing(order, spots)}
    return figure_of("matrix", "Who hurts whom?", caption, spec)


def _marks(count: Mapping[str, int]) -> str:
    """Return what the cells without a colour are."""
    parts = []
    if count["i"]:
        parts.append(f"hatched: no effect could be shown ({count['i']})")
    if count["u"]:
        parts.append(
            f"hatched: one seed, so not tested ({count['u']})" if not count["i"] else f"or not tested ({count['u']})"
        )
    if count["x"]:
        parts.append(f"crossed: a model did not converge ({count['x']})")
    if count["m"]:
        parts.append(f"empty: not measured ({count['m']})")
    text = ", ".join(parts)
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _spot(stage: Stage, target: str, source: str) -> Spot:
    if target == source:
        return Spot(letter="d")
    entry = stage.results.found.cells.get((target, source))
    if entry is not None:
        crossed = entry.judged.crossed
        return Spot(
            letter=LETTERS[entry.judged.verdict(stage.level)],
            value=crossed.value,
            half=None if crossed.high is None else crossed.high - crossed.value,
            p=entry.judged.adjusted,
            seeds=crossed.seeds,
        )
    pair = (min(target, source), max(target, source))
    failed = stage.results.matrix.failed
    return Spot(letter="x" if (pair, target) in failed or ((target,), target) in failed else "m")


def _listing(order: Sequence[str], spots: Sequence[Sequence[Spot]]) -> Json:
    """Return the matrix as a table, where it is small enough to be read as one."""
    if len(order) > MOST_NUMBERED:
        return {}
    rows = [[code, *map(_words, row)] for code, row in zip(order, spots, strict=True)]
    columns = [["held-out", "held-out"], *([code, f"+ {code}"] for code in order)]
    return {"usermeta": {"miles": {"table": {"columns": columns, "rows": rows}}}}


def _words(spot: Spot) -> str:
    if spot.value is None:
        return VERDICTS[spot.letter] or "–"
    if spot.half is None:
        return f"{spot.value:+.3g} (no interval)"
    ends = Estimate(name="cell", value=spot.value, low=spot.value - spot.half, high=spot.value + spot.half,
                    method="t", n=1, unit="")  # fmt: skip
    return span(ends)


def _asymmetry(stage: Stage) -> Figure | None:
    found = sorted(stage.results.found.asymmetries.items(),
                   key=lambda item: (stage.open(item[1]), -abs(item[1].judged.crossed.value), item[0]))  # fmt: skip
    if not found:
        return None
    cells = stage.results.found.cells
    whole = len(found) if len(found) <= MOST_POINTS else FIRST_POINTS
    drawn, rest = found[:whole], found[whole:]
    rows = [
        {
            **ends_of("x", stage.at(cells[a, b].place)),
            **ends_of("y", stage.at(cells[b, a].place)),
            "pair": f"{a}, {b}",
            "loss of the first": span(stage.at(cells[a, b].place)),
            "loss of the second": span(stage.at(cells[b, a].place)),
            "first less second": span(stage.at(entry.place)),
            "verdict": "not mutual" if not stage.open(entry) else entry.judged.verdict(stage.level),
            "open": stage.open(entry),
            "named": place < MOST_LABELS and not stage.open(entry),
        }
        for place, ((a, b), entry) in enumerate(drawn)
    ]
    shown = sum(not stage.open(entry) for _, entry in found)
    spec = points(
        rows,
        x=Axis("x", f"Change for the first, {UNIT}", ".2f"),
        y=Axis("y", f"Change for the second, {UNIT}", ".2f"),
        label="pair",
        told=("pair", "loss of the first", "loss of the second", "first less second", "verdict"),
        alike=True,
        cloud=[(value_of(cells[a, b]), value_of(cells[b, a])) for (a, b), _ in rest],
    )
    caption = (
        "A point is a pair of languages: how the loss of each changes with the other added, the first by alphabet "
        "along the bottom. On the diagonal both change alike. "
    )
    if any(row["x_low"] is not None for row in rows):
        caption += f"Bars are {percent(stage.level)} intervals, each for itself. "
    caption += (
        f"Filled: the two changes differ ({shown} of {many(len(found), 'pair', 'pairs')}, corrected)."
        if shown
        else f"For none of {many(len(found), 'pair', 'pairs')} could a difference of the two changes be shown."
    )
    if shown and any(row["open"] for row in rows):
        caption += " Hollow: no difference could be shown."
    if shown > 1:
        caption += f" Named: the {min(shown, MOST_LABELS)} largest of those."
    if rest:
        caption += f" Dots without bars: the other {len(rest):,} pairs{_of_rest(stage, rest)}."
    return figure_of("asymmetry", "Is the harm mutual?", caption, spec)


def _of_rest(stage: Stage, rest: Sequence[tuple[object, Entry]]) -> str:
    left = sum(not stage.open(entry) for _, entry in rest)
    return f", {left:,} of which differ" if left else ""
