"""The charts of the matrix; each answers the question in its title."""

from collections import Counter
from collections.abc import Iterator, Mapping

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Estimate, Figure, Json
from audits.core.wording import capitalised, many, span
from audits.interference.clustering import leaf_order
from audits.interference.effect_figures import downstream, likeness, mixtures, seeds
from audits.interference.figure_parts import (
    DECIDED,
    FIRST_POINTS,
    LETTERS,
    MOST_LABELS,
    MOST_POINTS,
    STATES,
    UNIT,
    is_open,
    names_of,
)
from audits.interference.matrix import Cell, Matrix
from audits.interference.measure import Counts
from audits.report.charts import Axis, Tile, effect_matrix, ends_of, figure_of, points, with_table
from audits.report.charts.matrix import MOST_NUMBERED


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures; empty ones are left out."""
    if not counts.matrix.cells:
        return
    yield _matrix(counts)
    if counts.matrix.asymmetries:
        yield _asymmetry(draft, counts.matrix)
    for draw in (likeness, mixtures, downstream, seeds):
        yield from draw(draft, counts)


def _matrix(counts: Counts) -> Figure:
    languages, measured = counts.inputs.languages, counts.matrix
    order = [languages[index] for index in leaf_order(measured.array(languages))]
    spots = [[_spot(measured, target, source) for source in order] for target in order]
    count = Counter(spot.letter for row in spots for spot in row)
    caption = (
        "Each row is a language whose held-out text is read, each column one that was added to it. Where its loss "
        f"rises ({UNIT} above 0), the row is hurt."
    )
    if any(count[letter] for letter in DECIDED):
        rule = {"holm": "Holm", "bh": "Benjamini and Hochberg"}[measured.correction]
        caption += f" Verdicts are corrected for {many(len(measured.cells), 'cell', 'cells')} ({rule})."
    caption += _marks(count)
    if len(order) > 2:
        caption += " Languages stand beside those with which they hurt each other least (average linkage)."
    if len(order) <= MOST_NUMBERED and any(spot.half is not None for row in spots for spot in row):
        caption += " Intervals, each for itself, are in the table."
    names = [names_of(counts.inputs)[code] for code in order]
    named = [name.partition(" (")[0] for name in names] != order
    spec = effect_matrix(
        order,
        names,
        spots,
        states=STATES,
        titles=("Language added", "Held-out language"),
        legend=("Change of the held-out loss in nats per byte:", "blue helps, orange hurts"),
        hints=("held-out language" if named else "held-out", "added", "change of loss", "seeds"),
    )
    if len(order) <= MOST_NUMBERED:
        rows = [[code, *map(_words, row)] for code, row in zip(order, spots, strict=True)]
        spec = with_table(spec, [("held-out", "held-out"), *((code, f"+ {code}") for code in order)], rows)
    return figure_of("matrix", "Who hurts whom?", caption, spec)


def _marks(count: Mapping[str, int]) -> str:
    """Return the meaning of the cells without a colour, in words."""
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
    return f" {capitalised(text)}." if text else ""


def _spot(matrix: Matrix, target: str, source: str) -> Tile:
    if target == source:
        return Tile(letter="d")
    judged = matrix.cells.get((target, source))
    if judged is None:
        return Tile(letter="x" if matrix.reasons(target, source) else "m")
    crossed = judged.crossed
    return Tile(
        letter=LETTERS[judged.verdict(matrix.level)],
        value=crossed.value,
        half=None if crossed.high is None else crossed.high - crossed.value,
        p=judged.adjusted,
        count=crossed.seeds,
    )


def _words(spot: Tile) -> str:
    if spot.value is None:
        return STATES[spot.letter][0] or "–"
    if spot.half is None:
        return f"{spot.value:+.3g} (no interval)"
    ends = Estimate(name="cell", value=spot.value, low=spot.value - spot.half, high=spot.value + spot.half,
                    method="t", n=1, unit="")  # fmt: skip
    return span(ends)


def _asymmetry(draft: Draft, matrix: Matrix) -> Figure:
    found, cells = matrix.asymmetries, matrix.cells
    faint = {pair: is_open(judged, draft.level) for pair, judged in found.items()}
    order = sorted(found, key=lambda pair: (faint[pair], -abs(found[pair].value), pair))
    whole = len(order) if len(order) <= MOST_POINTS else FIRST_POINTS
    drawn, rest = order[:whole], order[whole:]
    rows = [_pair(draft, matrix, pair, named=index < MOST_LABELS) for index, pair in enumerate(drawn)]
    spec = points(
        rows,
        x=Axis("x", f"Change for the first, {UNIT}", ".2f"),
        y=Axis("y", f"Change for the second, {UNIT}", ".2f"),
        label="pair",
        named="named",
        hollow="open",
        greyed="open",
        hints=("pair", "loss of the first", "loss of the second", "first less second", "verdict"),
        alike=True,
        cloud=[(cells[a, b].value, cells[b, a].value) for a, b in rest],
    )
    caption = (
        "A point is a pair of languages: how the loss of each changes with the other added, the first by alphabet "
        "along the bottom. On the diagonal both change alike. "
    )
    if any(row["x_low"] is not None for row in rows):
        caption += f"Bars are {percent(draft.level)} intervals, each for itself. "
    shown = sum(not one for one in faint.values())
    pairs = many(len(found), "pair", "pairs")
    caption += (
        f"Filled: the two changes differ ({shown} of {pairs}, corrected)."
        if shown
        else f"For none of {pairs} could a difference of the two changes be shown."
    )
    if shown and any(row["open"] for row in rows):
        caption += " Hollow: no difference could be shown."
    if shown > 1:
        caption += f" Named: the {min(shown, MOST_LABELS)} largest of those."
    if rest:
        left = sum(not faint[pair] for pair in rest)
        caption += f" Dots without bars: the other {len(rest):,} pairs{f', {left:,} of which differ' if left else ''}."
    return figure_of("asymmetry", "Is the harm mutual?", caption, spec)


def _pair(draft: Draft, matrix: Matrix, pair: Cell, *, named: bool) -> Json:
    a, b = pair
    judged = matrix.asymmetries[pair]
    faint = is_open(judged, draft.level)
    first, second = (draft.row("interference", target=one, source=other) for one, other in ((a, b), (b, a)))
    return {
        **ends_of("x", first),
        **ends_of("y", second),
        "pair": f"{a}, {b}",
        "loss of the first": span(first),
        "loss of the second": span(second),
        "first less second": span(draft.row("asymmetry", a=a, b=b)),
        "verdict": judged.verdict(draft.level) if faint else "not mutual",
        "open": faint,
        "named": named and not faint,
    }
