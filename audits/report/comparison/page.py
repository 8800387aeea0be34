"""A comparison as one page that opens anywhere, offline: what changed, the runs, trends, estimates by run, changes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from audits.core.numbers import coordinate, interval, percent
from audits.core.records import Coordinate
from audits.report.comparison import runs_table, trends, wording
from audits.report.comparison.changes import Change, key_of
from audits.report.comparison.comparing import Comparison
from audits.report.comparison.matrix import Block, Cell, Line, Matrix, matrix_of
from audits.report.pages import content, offline
from audits.report.pages.glyphs import Span, scale_of

HERE = "audits.report.comparison"
MOST_ROWS = 900
"""Rows of all tables of changes together: with more, the page would be slow to open."""
MOST_CELLS = 3500
"""Cells of the estimates by run, with those of the change; what changed comes first."""
MOST_ALONE = 300
"""Estimates of one run only that are named."""
ICONS = {"changed": "●", "unclear": "○", "same": "=", "no interval": "–"}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page: one change."""

    change: Change
    place: str
    before: str
    after: str
    moved: str
    p: str
    basis: str
    icon: str
    verdict: str
    glyph: Markup


def to_html(comparisons: Sequence[Comparison]) -> str:
    """Return the page of comparisons that share their first run."""
    script = offline.script(HERE, "compare.js")
    matrix = matrix_of(comparisons)
    sides = runs_table.sides(comparisons)
    parts, left_out = _parts(matrix)
    title, *further = wording.sentences(comparisons)
    page: str = offline.template(HERE, "compare.html.jinja").render(
        first=comparisons[0].before,
        over=wording.over(comparisons),
        title=title,
        further=further,
        comparisons=comparisons,
        sides=sides,
        differences=runs_table.differences(comparisons),
        notes=runs_table.notes(comparisons),
        level=percent(comparisons[0].level).replace(" ", "\u00a0"),
        trends=trends.drawn(matrix, comparisons, [side.short for side in sides]),
        parts=parts,
        left_out=left_out,
        cells=_cells,
        pieces=_pieces,
        typed=_typed,
        alone=[_alone(found, MOST_ALONE // len(comparisons)) for found in comparisons],
        tables=[_rows(found.rows[: MOST_ROWS // len(comparisons)]) for found in comparisons],
        content=content,
        policy=offline.policy(script),
        style=Markup(offline.style() + offline.beside("audits.report.pages", "courses.css")),
        script=Markup(script),
    )
    return page


def _parts(matrix: Matrix) -> tuple[list[tuple[str, list[Block], int, bool]], int]:
    """Return the parts of the matrix with title, number of rows and whether folded; and how many rows are left out."""
    room = MOST_CELLS // (len(matrix.runs) + 1)
    parts: list[tuple[str, list[Block], int, bool]] = []
    left_out = 0
    named = (("Main estimates", matrix.main), ("Others that changed", matrix.changed), ("The rest", matrix.rest))
    for title, blocks in named:
        kept = []
        for block in blocks:
            if block.lines[:room]:
                kept.append(replace(block, lines=block.lines[:room]))
            left_out += max(0, len(block.lines) - room)
            room = max(0, room - len(block.lines))
        if kept:
            # Where there is nothing above, the first part stands open.
            parts.append((title, kept, sum(len(block.lines) for block in kept), bool(parts)))
    return parts, left_out


def _cells(line: Line, sides: Sequence[runs_table.Side]) -> Markup:
    """Return the cells of a row: one for each run, then the change from the first to the last."""
    names = [side.short for side in sides]
    cells = [
        _cell(cell, name, "mid" if 0 < at < len(names) - 1 else "")
        for at, (cell, name) in enumerate(zip(line.cells, names, strict=True))
    ]
    moved, held = ("–", "") if line.last is None else (wording.shown(line.last)[2], wording.p_shown(line.last))
    value, _, ends = moved.partition(" (")
    small = "".join((f"({ends}" if ends else "", f", p {held}" if ends and held else ""))
    cell = Markup('<td class="right moved" data-key="change">{} <small>{}</small></td>').format(value, small)
    return Markup("").join([*cells, cell])


def _cell(cell: Cell | None, name: str, place: str) -> Markup:
    kind = cell.kind if cell is not None else ""
    classes = " ".join(filter(None, ("right", place, kind or "still")))
    if cell is None:
        return Markup('<td class="{}" data-key="{}">–</td>').format(classes, name)
    mark = Markup("<em>{}</em>").format(cell.words) if cell.words else ""
    frame = Markup('<td class="{}" data-key="{}">{} <small>{}</small> {}</td>')
    return frame.format(classes, name, cell.number, interval(cell.estimate), mark)


def _pieces(text: str) -> Markup:
    """Return text whose parts between commas are broken only where they are longer than a line."""
    parts = text.split(", ")
    pieces = [f"{part}," for part in parts[:-1]] + parts[-1:]
    return Markup(" ").join(Markup('<span class="piece">{}</span>').format(piece) for piece in pieces)


def _typed(line: Line) -> str:
    """Return the name and the coordinates of a row as a gate writes them."""
    return f"{line.name}[{','.join(f'{key}={coordinate(value)}' for key, value in line.where)}]"


def _alone(found: Comparison, most: int) -> list[str]:
    """Name the estimates that are in one run only."""
    named = []
    for run, rows in zip((found.before, found.after), found.alone, strict=True):
        for row in rows:
            name, where = key_of(row)
            named.append(f"{name} [{', '.join(f'{key}={coordinate(value)}' for key, value in where)}] in {run.name}")
    return named if len(named) <= most else [*named[:most], f"and {len(named) - most:,} more"]


def _rows(changes: Sequence[Change]) -> list[Row]:
    axes = _axes(changes)
    found = []
    for row in changes:
        before, after, moved = wording.shown(row)
        way = ", worse" if row.is_regression else ", better" if row.is_improvement else ""
        verdict = f"{row.verdict}{way}"
        found.append(
            Row(
                change=row,
                place=wording.place(row),
                before=before,
                after=after,
                moved=moved,
                p=wording.p_shown(row),
                basis=wording.basis(row),
                icon="▲" if row.is_regression else ICONS[row.verdict],
                verdict=verdict,
                glyph=_glyph(row, axes[scale_of(row.before)]),
            )
        )
    return found


def _axes(changes: Sequence[Change]) -> dict[tuple[Coordinate, ...], Span]:
    """Return an axis for each scale that spans all of its changes, with zero in the middle."""
    reach: dict[tuple[Coordinate, ...], float] = {}
    for row in changes:
        ends = row.difference or (row.moved,)
        scale = scale_of(row.before)
        reach[scale] = max(reach.get(scale, 0.0), *map(abs, ends))
    return {scale: Span(-(most or 1.0), most or 1.0) for scale, most in reach.items()}


def _glyph(row: Change, axis: Span) -> Markup:
    def position(value: float) -> str:
        return f"{6 + 128 * axis.share(value):.1f}"

    parts = [Markup('<line class="axis" x1="0" x2="140" y1="8" y2="8"/>')]
    parts.append(Markup('<line class="reference" x1="70" x2="70" y1="1" y2="15"/>'))
    if row.difference is not None:
        ends = position(row.difference[1]), position(row.difference[2])
        parts.append(Markup('<line class="interval" x1="{}" x2="{}" y1="8" y2="8"/>').format(*ends))
    parts.append(Markup('<circle class="point" cx="{}" cy="8" r="4"/>').format(position(row.moved)))
    frame = Markup('<svg class="glyph" viewBox="0 0 140 16" width="140" height="16" aria-hidden="true">{}</svg>')
    return frame.format(Markup("").join(parts))
