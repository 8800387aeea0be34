"""A comparison in Markdown, for a pull request or a wiki: what changed, the runs, and the estimates by run."""

from collections.abc import Iterator, Sequence

from audits.report.comparison import runs_table, wording
from audits.report.comparison.comparing import Comparison
from audits.report.comparison.matrix import Block, Cell, Line, matrix_of
from audits.report.pages.markdown import escaped

MOST_ROWS = 60
"""Rows of each table; the page has more, and the JSON all."""


def to_markdown(comparisons: Sequence[Comparison]) -> str:
    """Return the comparison of runs that share their first run."""
    title, *further = wording.sentences(comparisons)
    matrix = matrix_of(comparisons)
    heads = [side.short for side in runs_table.sides(comparisons)]
    parts = [f"# {escaped(title)}", *further, escaped(wording.over(comparisons)), *_runs(comparisons)]
    if matrix.main:
        parts += ["## Main estimates", _table(matrix.main, heads)]
    for name, blocks in (("Others that changed", matrix.changed), ("The rest", matrix.rest)):
        count = sum(len(block.lines) for block in blocks)
        if blocks:
            summary = f"<details><summary>{name}: {count:,}</summary>"
            parts += [summary, _table(blocks, heads), "</details>"]
    parts += ["## How they were compared", _list(runs_table.notes(comparisons))]
    return "\n\n".join(parts) + "\n"


def _runs(comparisons: Sequence[Comparison]) -> Iterator[str]:
    rows = ["| # | run | date | significant changes since the first run |", "| ---: | --- | --- | --- |"]
    rows += [
        f"| {side.number} | {escaped(side.name)} | {escaped(side.date)} | {escaped(side.changes)} |"
        for side in runs_table.sides(comparisons)
    ]
    yield "\n".join(rows)
    differing = runs_table.differences(comparisons)
    yield f"The runs differ in:{'' if differing else ' nothing that the reports tell.'}"
    yield from [_list([f"{word}: {text}" for word, text in differing])] if differing else []


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(item)}" for item in items)


def _table(blocks: Sequence[Block], heads: Sequence[str]) -> str:
    rows = [f"| estimate | {' | '.join(map(escaped, heads))} | change, last less first |"]
    rows.append(f"| --- |{' ---: |' * (len(heads) + 1)}")
    left = MOST_ROWS
    for block in blocks:
        rows += [_row(block, line) for line in block.lines[: max(0, left)]]
        left -= len(block.lines)
    # A line after the table: in it, it would be a row.
    return "\n".join(rows) + (f"\n\n... and {-left:,} more." if left < 0 else "")


def _row(block: Block, line: Line) -> str:
    name = ", ".join(filter(None, (block.label, line.place, block.shared)))
    change = "–" if line.last is None else wording.shown(line.last)[2]
    return f"| {' | '.join(map(escaped, [name, *map(_cell, line.cells), change]))} |"


def _cell(cell: Cell | None) -> str:
    return "–" if cell is None else f"{cell.number} {cell.words}".strip()
