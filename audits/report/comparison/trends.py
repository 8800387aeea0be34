"""How the main estimates went over three runs or more, drawn in the order of the runs."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from audits.core.numbers import interval
from audits.report.comparison.changes import key_of
from audits.report.comparison.comparing import Comparison
from audits.report.comparison.matrix import Block, Cell, Key, Line, Matrix
from audits.report.pages import courses
from audits.report.pages.glyphs import LIMIT

LEAST, MOST = 3, 12
"""Runs from which on there is a course, and most courses: those that a gate looks at first."""


def drawn(
    matrix: Matrix, comparisons: Sequence[Comparison], names: Sequence[str]
) -> list[tuple[str, str, Markup, str]]:
    """Return label, place, picture and the words of both ends, for each main estimate that three runs hold."""
    limits = _limits(comparisons)
    found = [
        (block, line)
        for block in matrix.main
        for line in block.lines
        if sum(cell is not None for cell in line.cells) >= LEAST
    ]
    # Stable: the others keep the order of the report.
    found.sort(key=lambda pair: (pair[1].name, pair[1].where) not in limits)
    return [_course(block, line, names, limits.get((line.name, line.where))) for block, line in found[:MOST]]


def _course(block: Block, line: Line, names: Sequence[str], limit: float | None) -> tuple[str, str, Markup, str]:
    stops = [None if cell is None else _stop(cell, name) for cell, name in zip(line.cells, names, strict=True)]
    there = [(name, cell) for name, cell in zip(names, line.cells, strict=True) if cell is not None]
    ends = " to ".join(f"{cell.number} in {name}" for name, cell in (there[0], there[-1]))
    label = f"{block.label}, {line.place}" if line.place else block.label
    against = there[0][1].estimate.measure.neutral if limit is None else limit
    return label, block.shared, courses.drawn(stops, f"{label}: from {ends}", line=against), f"from {ends}"


def _stop(cell: Cell, name: str) -> courses.Stop:
    own = cell.estimate
    kind: courses.Kind = "fail" if cell.kind == "worse" else "" if cell.is_changed else "plain"
    words = " ".join(filter(None, (f"{name}: {cell.number} ({interval(own)})", cell.words)))
    return courses.Stop(own.value, own.low, own.high, words, kind)


def _limits(comparisons: Sequence[Comparison]) -> dict[Key, float]:
    """Return the limits that gates set, by the estimates that they look at; those of the last run count."""
    found: dict[Key, float] = {}
    runs = [(comparisons[0].before.report, {}), *((one.after.report, one.renames) for one in comparisons)]
    for report, renames in runs:
        for gate in report.gates:
            limit = LIMIT.search(gate.expression)
            if limit and math.isfinite(float(limit[1])):
                found |= {key_of(report.estimates[row], renames): float(limit[1]) for row in gate.rows}
    return found
