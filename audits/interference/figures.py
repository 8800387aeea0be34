"""The charts of the matrix, each answering the question in its title."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from audits.charts import Axis
from audits.context import Draft
from audits.interference.clustering import leaf_order
from audits.interference.effects import EFFECTS, Tested
from audits.interference.estimating import Entry
from audits.interference.heat_map import DECIDED, MOST_NUMBERED, OPEN, VERDICTS, Spot, matrix_map
from audits.interference.point_charts import groups, points, ranked, stacked
from audits.numbers import percent
from audits.records import Estimate, Figure, Json
from audits.wording import many, p_words, span

if TYPE_CHECKING:
    from audits.interference.report import Results

LETTERS: Mapping[str, str] = {verdict: letter for letter, verdict in VERDICTS.items()}
UNIT = "nats per byte"
MOST_POINTS, MOST_LABELS = 120, 4
"""Pairs drawn with their intervals, and with their names, where not all can be."""
MOST_DOTS = 240
"""Cells of a group that are dots of their own; of more, so many quantiles are drawn."""
MOST_SEEDED, MOST_NAMED_CELLS, MOST_SCORES = 12, 30, 4
"""Languages whose cells are drawn seed by seed, cells named on an axis, and columns of scores that are drawn."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """What all figures are drawn from; `names` is what a language is called when pointed at."""

    draft: Draft
    results: "Results"
    names: Mapping[str, str]

    @property
    def level(self) -> float:
        return self.results.matrix.level

    def at(self, place: int) -> Estimate:
        return self.draft.estimates[place]

    def open(self, entry: Entry) -> bool:
        """Tell whether a contrast cannot be told from 0."""
        return LETTERS[entry.judged.verdict(self.level)] in OPEN


def draw(draft: Draft, results: "Results") -> list[Figure]:
    """Return the figures; one that would have nothing to show is left out."""
    if results.inputs.part is not None or not results.found.cells:
        return []
    stage = _Stage(draft, results, _names(results))
    kinds = (_matrix, _asymmetry, _likeness, _mixtures, _downstream, _seeds)
    return [figure for kind in kinds if (figure := kind(stage)) is not None]


def _names(results: "Results") -> dict[str, str]:
    """Return the code, or the name where a table gives one, and the script."""
    columns = results.inputs.attributes.columns
    called = {name.lower(): column for name, column in columns.items()}
    names = {}
    for code in results.inputs.languages:
        own, script = (called.get(key, {}).get(code, "") for key in ("name", "script"))
        told = [part[:40] for part in (own and code, script) if part]
        names[code] = f"{(own or code)[:40]} ({', '.join(told)})" if told else code
    return names


def _figure(name: str, title: str, caption: str, spec: Json) -> Figure:
    return Figure(id=name, title=title, caption=caption, file=name, spec=spec)


def _matrix(stage: _Stage) -> Figure:
    results = stage.results
    languages = results.inputs.languages
    order = [languages[place] for place in leaf_order(results.found.array(languages))]
    spots = [[_spot(stage, target, source) for source in order] for target in order]
    count = Counter(spot.letter for row in spots for spot in row)
    caption = (
        "Each row is a language whose held-out text is read, each column one that was added to it. Colour: the change "
        f"of the loss ({UNIT}); positive is harm."
    )
    if any(count[letter] for letter in DECIDED):
        rule = {"holm": "Holm", "bh": "Benjamini and Hochberg"}[results.matrix.correction]
        caption += f" Verdicts are corrected for {many(len(results.found.cells), 'cell', 'cells')} ({rule})."
    caption += _marks(count)
    if len(order) > 2:
        caption += " Languages stand beside those with which they hurt each other least (average linkage)."
    if len(order) <= MOST_NUMBERED:
        caption += " Intervals are in the table."
    spec = {**matrix_map(order, [stage.names[code] for code in order], spots), **_listing(order, spots)}
    return _figure("matrix", "Who hurts whom?", caption, spec)


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


def _spot(stage: _Stage, target: str, source: str) -> Spot:
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


def _asymmetry(stage: _Stage) -> Figure | None:
    found = sorted(stage.results.found.asymmetries.items(),
                   key=lambda item: (stage.open(item[1]), -abs(item[1].judged.crossed.value), item[0]))  # fmt: skip
    if not found:
        return None
    cells = stage.results.found.cells
    drawn, rest = found[:MOST_POINTS], found[MOST_POINTS:]
    rows = [
        {
            **_ends("x", stage.at(cells[a, b].place)),
            **_ends("y", stage.at(cells[b, a].place)),
            "pair": f"{a}, {b}",
            f"first, {a} or {b} by name": f"{a}",
            "first": f"{stage.names[a]}: {span(stage.at(cells[a, b].place))}",
            "second": f"{stage.names[b]}: {span(stage.at(cells[b, a].place))}",
            "difference": span(stage.at(entry.place)),
            "open": stage.open(entry),
            "named": place < MOST_LABELS and not stage.open(entry),
        }
        for place, ((a, b), entry) in enumerate(drawn)
    ]
    return None if not rows else None
