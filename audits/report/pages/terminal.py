"""The summary at the terminal: the answer, three numbers, the findings, what may be reported, and a next command.

Returns something for rich to print; colour is left to the console, which knows about NO_COLOR and pipes.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from audits.core.gates import abridged
from audits.core.numbers import interval, point
from audits.core.planted import Planted
from audits.core.records import Answer, Estimate, GateResult, Report, Severity
from audits.core.wording import capitalised
from audits.report.pages import content, overview, registered
from audits.report.pages.glyphs import Reference, Span, reference, scale_of, span, text_glyph

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.text import Text

GLYPH = 18
NARROWEST = 60

STYLES: dict[Severity, str] = {"high": "bold red", "medium": "yellow", "low": "cyan", "info": "dim"}


def summarise(report: Report, *, folder: Path, width: int = 80) -> "Group":
    """Return the answer with its numbers, the findings, warnings in words, the path of the page and a next command.

    Parameters
    ----------
    report
        What was found.
    folder
        The run folder, for the path of report.html.
    width
        Columns of the terminal; below 60 the interval glyphs are left out.
    """
    from rich.console import Group
    from rich.text import Text

    report = content.canonical(report)
    answer = overview.answer(report)
    parts: list[RenderableType] = [Text(_clean(content.over(report)), style="dim")]
    parts.append(Text(_clean(answer.title), style="bold"))
    for gate in report.gates:
        parts.append(_gate(gate))
        style = "yellow" if registered.is_later(gate) else "red"
        parts += [Text(f"  {_clean(row)}", style=style) for row in content.broken(report, gate)]
    if report.registration is not None:
        held = report.registration
        words = f"Criteria registered at {registered.registered_at(report)}, sha256 {held.sha256}"
        parts.append(Text(_clean(words), style="dim", overflow="fold"))
    if answer.numbers:
        parts += [Text(), _numbers(report, answer, width)]
    found = content.findings(report)
    more = content.folded(found)
    shown = (finding for finding, one in zip(found, more, strict=True) if not one)
    parts += [Text(), *(_finding(finding.severity, finding.title) for finding in shown)]
    if any(more):
        parts.append(Text(f"  and {sum(more)} more of these kinds, in the report", style="dim"))
    advice = (answer.next_step,) if answer.next_step else ()
    for title, lines in (("What now?", advice), ("You may report", answer.may), ("Do not report", answer.may_not)):
        if report.answer is not None and lines:
            parts += [Text(), Text(title, style="bold"), *(_bullet(line) for line in lines)]
    parts.append(Text())
    warned = [_bullet(notice) for notice in _warned(report)]
    parts += [*warned, Text()] if warned else []
    parts += [_line("Report", str(folder / "report.html")), _line("Next", _next(folder))]
    return Group(*parts)


def tell_planted(plants: Sequence[Planted]) -> "Group":
    """Return what a demo planted, each with whether the report shows it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1, no_wrap=True)
    grid.add_column(width=8, no_wrap=True)
    grid.add_column(overflow="fold")
    for plant in plants:
        mark = Text("✓", style="green") if plant.as_planted else Text("✗", style="bold red")
        grid.add_row(mark, Text("Planted", style="dim"), Text(_clean(plant.what)))
        found = Text(_clean(capitalised(plant.verdict)), style="bold")
        grid.add_row(Text(), Text("Found", style="dim"), found.append(_clean(f". {plant.seen}"), style="not bold"))
    return Group(Text(), Text("What was planted in this example, and was it found?", style="bold"), grid)


def _finding(severity: Severity, statement: str) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    icon, word = content.MARKS[severity]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=8, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"{icon} {word}", style=STYLES[severity]), Text(_clean(statement)))
    return grid


def _gate(gate: GateResult) -> "Text":
    from rich.text import Text

    passed, later = gate.outcome == "pass", registered.is_later(gate)
    words = f"{'✓' if passed else '✗'} gate {registered.outcome(gate)}  "
    style = "green" if passed else "yellow" if later else "bold red"
    return Text(words, style=style).append(_clean(abridged(gate.expression)), style="default")


def _numbers(report: Report, answer: Answer, width: int) -> "RenderableType":
    """Return the numbers on top: words, glyph and number; those of one measure share an axis.

    Words stand beside their number where all of them fit into a line, and else above it: a label that is broken over
    three lines cannot be read beside a glyph.
    """
    from rich.table import Table
    from rich.text import Text

    shown = [number.row for number in answer.numbers]
    against = {index: reference(report, index) for index in shown}
    glyphs = {index: _glyph(report, shown, index, against) for index in shown} if width >= NARROWEST else {}
    words = [_clean(number.words) for number in answer.numbers]
    held = [_clean(_held(report.estimates[index])) for index in shown]
    room = width - max(map(len, held)) - (GLYPH + 2 if glyphs else 1)
    beside = max(map(len, words)) <= room
    grid = Table.grid(padding=(0, 1))
    grid.add_column(overflow="fold", ratio=1)
    if beside:
        for size in [GLYPH] * bool(glyphs) + [max(map(len, held))]:
            grid.add_column(width=size, no_wrap=True)
    grid.width = width
    for index, said, number in zip(shown, words, held, strict=True):
        if beside:
            glyph = [Text(glyphs[index])] if glyphs else []
            grid.add_row(Text(said), *glyph, Text(number, style="bold"))
        else:
            grid.add_row(Text(said))
            below = f"  {glyphs[index]:<{GLYPH}} " if glyphs else "  "
            grid.add_row(Text(below).append(number, "bold"))
    return grid


def _glyph(report: Report, shown: list[int], index: int, against: dict[int, Reference | None]) -> str:
    """Return the interval of a number as a line of characters, empty where it has none."""
    estimate = report.estimates[index]
    if estimate.low is None:
        return ""
    return text_glyph(estimate, _axis(report, shown, index, against), against=against[index], width=GLYPH)


def _held(estimate: Estimate) -> str:
    return f"{point(estimate)} ({interval(estimate)})"


def _axis(report: Report, shown: list[int], index: int, against: dict[int, Reference | None]) -> Span:
    scale = scale_of(report.estimates[index])
    alike = [other for other in shown if scale_of(report.estimates[other]) == scale]
    return span([report.estimates[other] for other in alike], [against[other] for other in alike])


def _warned(report: Report) -> Iterator[str]:
    """Yield the first warning of each kind in words, with how many there are of it."""
    for notice in content.notices(report):
        if notice.id != "input":
            more = f" And {len(notice.warnings) - 1} more of the kind." if len(notice.warnings) > 1 else ""
            yield f"Warning: {notice.warnings[0].message}{more}"


def _bullet(text: str) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text("-", style="dim"), Text(_clean(text)))
    return grid


def _line(word: str, text: str) -> "Text":
    from rich.text import Text

    return Text(f"{word:<8} ", style="dim", overflow="fold").append(_clean(text), style="default")


def _next(folder: Path) -> str:
    """Return the command to run next: a comparison with another run."""
    return f"miles compare {shlex.quote(str(folder))} OTHER_RUN"


def _clean(text: str) -> str:
    """Remove control characters, so that a group's name cannot steer the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
