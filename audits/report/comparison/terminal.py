"""A comparison at the terminal: what changed, the runs, and the matrix, in as many columns as there is room for."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.report.comparison import runs_table, wording
from audits.report.comparison.comparing import Comparison
from audits.report.comparison.matrix import Block, Cell, Line, Matrix, matrix_of

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_MAIN, MOST_ROWS = 20, 400
"""Most rows of the main estimates, and of the others."""
NARROWEST, GAP, CHANGE = 20, 1, 24
"""Letters of the names of rows at the least, between columns, and of a change in one line; the interval of a longer one
is below it."""
STYLES = {"worse": "bold red", "better": "green", "changed": "bold", "": ""}
SIGNS = {"worse": "!", "better": "+", "changed": "", "": ""}
KEY = "Significantly higher ↑ or lower ↓ than in run 1 after Holm: ! worse, + better."

Clean = Callable[[object], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the matrix: its head, and what it shows of a line, as text with a style."""

    head: str
    shows: Callable[[Line], tuple[str, str]]
    right: bool = True
    widest: int = 99

    def width(self, lines: Sequence[Line]) -> int:
        """Return the letters of its longest cell, as far as it may be that wide."""
        words = (part for line in lines for part in self.shows(line)[0].split("\n"))
        return min(self.widest, max(map(len, (self.head, *words))))


def shown(
    comparisons: Sequence[Comparison], clean: Clean, *, everything: bool = False, width: int = 80
) -> "Iterator[RenderableType]":
    """Yield the parts of the comparison, for rich to print.

    Parameters
    ----------
    clean
        Makes foreign text one line that cannot steer the terminal.
    everything
        Whether estimates that did not change are shown too.
    width
        Columns of the terminal.
    """
    from rich.text import Text

    for found in comparisons:
        # Of several runs their table says it.
        if found.same and len(comparisons) == 1:
            same = "are the same run: same inputs, settings and estimates. Nothing changed."
            yield Text(f"{clean(found.after.name)} and {clean(found.before.name)} {same}")
    if all(found.same for found in comparisons) and not everything:
        return
    yield Text(clean(wording.overall(comparisons)), style="bold")
    yield from _differences(comparisons, clean)
    if len(comparisons) > 1:
        yield from _runs(comparisons, clean)
    yield from _matrix(matrix_of(comparisons), clean, everything=everything, width=width)
    yield Text()
    for note in runs_table.notes(comparisons):
        yield _item(clean(note))


def _differences(comparisons: Sequence[Comparison], clean: Clean) -> "Iterator[RenderableType]":
    from rich.text import Text

    found = runs_table.differences(comparisons)
    yield Text(f"The runs differ in:{'' if found else ' nothing that the reports tell.'}")
    for word, text in found:
        yield _item(clean(f"{word}: {text}"))


def _item(text: str) -> "RenderableType":
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(text, overflow="fold"), (0, 0, 0, 2))


def _runs(comparisons: Sequence[Comparison], clean: Clean) -> "Iterator[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for side in runs_table.sides(comparisons):
        head = Text(f"{clean(side.name)}, {clean(side.date)}")
        grid.add_row(f"{side.number}", head.append(f"  {clean(side.changes)}", style="dim"))
    yield from (Text(), Text("Runs, with their significant changes"), grid)


def _matrix(matrix: Matrix, clean: Clean, *, everything: bool, width: int) -> "Iterator[RenderableType]":
    from rich.text import Text

    if not matrix.lines:
        return
    others = [("Others that changed", matrix.changed), *([("The rest", matrix.rest)] if everything else [])]
    parts = [("Main estimates", matrix.main), *others]
    seen = [line for _, blocks in parts for block in blocks for line in block.lines]
    columns = _columns(matrix, seen or matrix.lines, width)
    if len(matrix.runs) > 2 and any(line.is_changed for line in seen):
        yield from (Text(), Text(KEY, style="dim"))
    for title, blocks in parts:
        most = MOST_ROWS if everything or blocks is not matrix.main else MOST_MAIN
        if blocks:
            yield from (Text(), Text(title, style="bold underline"))
            yield from _section(blocks, columns, clean, most=most, seen=seen, width=width)
    unseen = sum(len(block.lines) for block in matrix.rest)
    if unseen and not everything:
        yield from (Text(), Text(f"{unseen:,} others did not change significantly; --all shows them."))


def _section(
    blocks: Sequence[Block], columns: Sequence[Column], clean: Clean, *, most: int, seen: Sequence[Line], width: int
) -> "Iterator[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    widths = [column.width(seen) for column in columns]
    room = max(NARROWEST, width - sum(widths) - GAP * len(columns))

    def grid() -> Table:
        made = Table.grid(padding=(0, GAP, 0, 0))
        made.add_column(width=room, overflow="fold")
        for column, own in zip(columns, widths, strict=True):
            made.add_column(width=own, justify="right" if column.right else "left", overflow="fold")
        return made

    heads = grid()
    heads.add_row("", *(Text(column.head, style="dim") for column in columns))
    yield heads
    left = most
    for block in blocks:
        rows = grid()
        for line in block.lines[:left]:
            cells = (Text(text, style=style) for text, style in (column.shows(line) for column in columns))
            rows.add_row(Text("\n".join(f"  {part}" for part in _wrapped(clean(line.place), room - 2))), *cells)
        yield from (Text(clean(block.title)), rows)
        left -= len(block.lines)
        if left <= 0:
            break
    more = sum(len(block.lines) for block in blocks) - most
    if more > 0:
        yield Text(f"... and {more:,} more; choose with --only, or write them all with --html.")


def _wrapped(text: str, width: int) -> list[str]:
    """Break a name after a space or a mark, and within a word only where the word is longer than a line.

    >>> _wrapped("accent=indian&gender=female, wer", 16)
    ['accent=indian&', 'gender=female,', 'wer']
    """
    lines = [""]
    for piece in re.findall(r"[^ ,&=/-]*[ ,&=/-]*", text):
        # A value stays beside its key where both fit.
        if len(lines[-1] + piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _columns(matrix: Matrix, lines: Sequence[Line], width: int) -> list[Column]:
    """Return a column for each run, or where these do not fit the first, the last, the change and where it changed."""
    last = len(matrix.runs) - 1
    change = Column("change", _moved, right=False)
    if last == 1:
        values = [Column(head, _value(at)) for at, head in enumerate(("before", "after"))]
        return [*values, change, Column("", _verdict, right=False, widest=9), Column("p", _p)]
    every = [Column(str(at + 1), _marked(at)) for at in range(last + 1)]
    if sum(column.width(lines) + GAP for column in every) + NARROWEST <= width:
        return every
    return [every[0], every[last], change, Column("changed in", _when, right=False, widest=14)]


def _value(at: int) -> Callable[[Line], tuple[str, str]]:
    # Over the records of both runs where the change is paired, so that they fit their change.
    return lambda line: ("–" if line.last is None else wording.shown(line.last)[at], "")


def _moved(line: Line) -> tuple[str, str]:
    text = "–" if line.last is None else wording.shown(line.last)[2]
    return text if len(text) <= CHANGE else text.replace(" (", "\n(").replace(", ", "\n"), ""


def _verdict(line: Line) -> tuple[str, str]:
    cell = line.cells[-1]
    if cell is None or cell.change is None:
        return "", ""
    return cell.words or ("" if cell.change.verdict == "same" else cell.change.verdict), STYLES[cell.kind]


def _p(line: Line) -> tuple[str, str]:
    return "" if line.last is None else wording.p_shown(line.last).replace(" ", ""), ""


def _sign(cell: Cell) -> str:
    return f"{cell.arrow}{SIGNS[cell.kind]}"


def _marked(at: int) -> Callable[[Line], tuple[str, str]]:
    def shows(line: Line) -> tuple[str, str]:
        cell = line.cells[at]
        if cell is None:
            return "–   ", ""
        # Numbers stay below each other, whether a mark follows or not.
        return f"{cell.number} {_sign(cell):<2}" if at else cell.number, STYLES[cell.kind]

    return shows


def _when(line: Line) -> tuple[str, str]:
    found: dict[str, list[int]] = {}
    for number, cell in enumerate(line.cells, 1):
        if cell is not None and cell.is_changed:
            found.setdefault(_sign(cell), []).append(number)
    last = line.cells[-1]
    style = STYLES[last.kind] if last is not None else ""
    return ", ".join(f"{runs_table.ranges(numbers)} {sign}" for sign, numbers in found.items()), style
