"""Estimates by runs: a row for each estimate, a cell for each run, marked where it changed since the first run.

Rows of one measure stand together under its label. The main ones come first: the numbers on top of a report, those that
a gate looks at, and those of the audit's summary.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from audits.core.numbers import coordinate, point
from audits.core.records import Coordinate, Estimate, Report
from audits.report.comparison.changes import Change, Where, key_of
from audits.report.comparison.comparing import Comparison, Run
from audits.report.comparison.renaming import Renames
from audits.report.pages import content, overview

Key = tuple[str, Where]


@dataclass(frozen=True, slots=True)
class Cell:
    """An estimate in one run, and its change since the first run; None in the first run itself."""

    estimate: Estimate
    change: Change | None = None

    @property
    def is_changed(self) -> bool:
        """Tell whether it changed: significantly, or an exact number at all."""
        return self.change is not None and self.change.verdict == "changed"

    @property
    def kind(self) -> str:
        """The kind of the change: "worse", "better", "changed" without a direction, or empty where none is shown."""
        if self.change is None or not self.is_changed:
            return ""
        if self.change.is_regression:
            return "worse"
        return "better" if self.change.is_improvement else "changed"

    @property
    def arrow(self) -> str:
        """Where the number moved, if it changed."""
        if self.change is None or not self.is_changed:
            return ""
        return "↑" if self.change.moved > 0 else "↓"

    @property
    def words(self) -> str:
        """Arrow and kind; empty where no change is shown."""
        return f"{self.arrow} {self.kind}".strip()

    @property
    def number(self) -> str:
        """The number as the run's own report shows it."""
        return point(self.estimate)


@dataclass(frozen=True, slots=True)
class Line:
    """One estimate over the runs; a cell is None where a run does not hold it.

    `place` are the coordinates in words that the other lines of its block do not share.
    """

    name: str
    where: Where
    place: str
    cells: tuple[Cell | None, ...]
    main: bool = False

    @property
    def is_changed(self) -> bool:
        """Tell whether any run changed since the first."""
        return any(cell is not None and cell.is_changed for cell in self.cells)

    @property
    def last(self) -> Change | None:
        """The change of the last run since the first; None where that run does not hold the estimate."""
        cell = self.cells[-1]
        return None if cell is None else cell.change


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of one measure: its label, and the coordinates in words that all of them share."""

    name: str
    label: str
    shared: str
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """Label and shared coordinates."""
        return f"{self.label} ({self.shared})" if self.shared else self.label


@dataclass(frozen=True, slots=True)
class Matrix:
    """All estimates that the first run shares with a later one, in blocks: main, others that changed, and the rest."""

    runs: tuple[Run, ...]
    main: tuple[Block, ...]
    changed: tuple[Block, ...]
    rest: tuple[Block, ...]

    @property
    def lines(self) -> list[Line]:
        """All lines, the main ones first."""
        return [line for block in (*self.main, *self.changed, *self.rest) for line in block.lines]


def matrix_of(comparisons: Sequence[Comparison]) -> Matrix:
    """Return the matrix of runs that were compared with one first run."""
    first = comparisons[0].before
    changes = [{(row.name, row.where): row for row in found.rows} for found in comparisons]
    leading = _leading(first.report, {})
    for found in comparisons:
        leading |= _leading(found.after.report, found.renames)
    lines = []
    for row in first.report.estimates:
        key = key_of(row)
        later = [_cell(found.get(key)) for found in changes]
        if any(cell is not None for cell in later):
            lines.append(Line(*key, place="", cells=(Cell(row), *later), main=key in leading))
    others = [line for line in lines if not line.main]
    moved = _blocks(line for line in others if line.is_changed)
    return Matrix(
        runs=(first, *(found.after for found in comparisons)),
        main=_blocks(line for line in lines if line.main),
        # What got worse stands first, then what got better.
        changed=tuple(sorted(moved, key=lambda block: min(map(_rank, block.lines)))),
        rest=_blocks(line for line in others if not line.is_changed),
    )


def _cell(change: Change | None) -> Cell | None:
    return None if change is None else Cell(change.after, change)


def _rank(line: Line) -> int:
    kinds = {cell.kind for cell in line.cells if cell is not None}
    return next((rank for rank, kind in enumerate(("worse", "better", "changed")) if kind in kinds), 3)


def _leading(report: Report, renames: Renames) -> set[Key]:
    """Return the keys of the main estimates of a report: its numbers on top, gated ones, and those of its summary."""
    rows = {number.row for number in overview.answer(report).numbers}
    for gate in report.gates:
        rows.update(gate.rows)
    summary = overview.matrix(report)
    if summary is not None:
        rows.update(cell.index for cells in summary.cells for cell in cells if cell is not None)
    return {key_of(report.estimates[row], renames) for row in rows}


def _blocks(lines: Iterable[Line]) -> tuple[Block, ...]:
    """Put lines of one measure together, in the order in which measures appear."""
    kinds: dict[str, list[Line]] = {}
    for line in lines:
        kinds.setdefault(line.name, []).append(line)
    return tuple(_block(name, alike) for name, alike in kinds.items())


def _block(name: str, lines: Sequence[Line]) -> Block:
    places = [_renamed(line) for line in lines]
    shared = {key: value for key, value in places[0].items() if all(place.get(key) == value for place in places)}
    rest = ({key: value for key, value in place.items() if key not in shared} for place in places)
    own = lines[0].cells[0]
    label = own.estimate.measure.label if own is not None else ""
    named = tuple(replace(line, place=_words(place) or "all") for line, place in zip(lines, rest, strict=True))
    if len(named) == 1:
        named = (replace(named[0], place=""),)
    return Block(name, label or name, _words(shared), named)


def _renamed(line: Line) -> dict[str, Coordinate]:
    """Return the coordinates of a line, with both names of what has another one in a later run."""
    places = dict(line.where)
    for cell in line.cells:
        for key, value in cell.estimate.where.items() if cell is not None else ():
            if coordinate(value) not in coordinate(places[key]).split(" → "):
                places[key] = f"{coordinate(places[key])} → {coordinate(value)}"
    return places


def _words(where: Mapping[str, Coordinate]) -> str:
    return content.label(Estimate(name="", value=0.0, method="exact", n=0, unit="", where=where))
