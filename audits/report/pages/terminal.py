"""The summary at the terminal: the findings, the numbers that carry them, and a next command.

Returns something for rich to print; colour is left to the console, which knows about NO_COLOR and pipes.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from audits.core.gates import abridged
from audits.core.numbers import described
from audits.core.records import Report, Severity
from audits.report.pages import content
from audits.report.pages.glyphs import Reference, Span, reference, scale_of, span, text_glyph

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.text import Text

MOST_ESTIMATES = 10
GLYPH = 18
NARROWEST = 60

STYLES: dict[Severity, str] = {"high": "bold red", "medium": "yellow", "low": "cyan", "info": "dim"}


def summarise(report: Report, *, folder: Path, width: int = 80) -> "Group":
    """Return the findings, up to ten estimates that carry them, the path of the page and a next command.

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
    parts: list[RenderableType] = [Text(_clean(report.title), style="bold")]
    for gate in report.gates:
        parts.append(_gate(abridged(gate.expression), gate.outcome))
        parts += [Text(f"  {_clean(row)}", style="red") for row in content.broken(report, gate)]
    parts.append(Text())
    parts += [_finding(finding.severity, finding.statement) for finding in content.findings(report)]
    if not report.findings:
        parts.append(Text("Nothing was found that the estimates would carry."))
    if content.cited(report):
        parts += [Text(), _estimates(report, width)]
    warned = ", ".join(dict.fromkeys(warning.id for warning in report.warnings if warning.id != "input"))
    parts += [Text(), *([_line("Warned", f"{warned} (see the report)")] if warned else [])]
    parts += [_line("Report", str(folder / "report.html")), _line("Next", _next(folder))]
    return Group(*parts)


def _finding(severity: Severity, statement: str) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    icon, word = content.MARKS[severity]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=8, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"{icon} {word}", style=STYLES[severity]), Text(_clean(statement)))
    return grid


def _gate(expression: str, outcome: str) -> "Text":
    from rich.text import Text

    passed = outcome == "pass"
    words = Text("✓ gate passed  " if passed else "✗ gate failed  ", style="green" if passed else "bold red")
    return words.append(_clean(expression), style="default")


def _estimates(report: Report, width: int) -> "RenderableType":
    """Return lines of label, glyph and number; estimates of the same measure share an axis."""
    from rich.table import Table
    from rich.text import Text

    shown = content.cited(report)[:MOST_ESTIMATES]
    against = {index: reference(report, index) for index in shown}
    grid = Table.grid(padding=(0, 1))
    grid.add_column(overflow="fold", ratio=1)
    if width >= NARROWEST:
        grid.add_column(width=GLYPH, no_wrap=True)
    grid.add_column(width=24, overflow="fold")
    grid.width = width
    for index in shown:
        estimate = report.estimates[index]
        name = Text(_clean(estimate.name), style="bold").append(f" {_clean(content.label(estimate))}", style="default")
        glyph = text_glyph(estimate, _axis(report, shown, index, against), against=against[index], width=GLYPH)
        number = Text(_clean(described(estimate)))
        grid.add_row(*([name, Text(glyph), number] if width >= NARROWEST else [name, number]))
    more = len(content.cited(report)) - len(shown)
    if more > 0:
        grid.add_row(Text(f"and {more} more in the report", style="dim"))
    return grid


def _axis(report: Report, shown: list[int], index: int, against: dict[int, Reference | None]) -> Span:
    scale = scale_of(report.estimates[index])
    alike = [other for other in shown if scale_of(report.estimates[other]) == scale]
    return span([report.estimates[other] for other in alike], [against[other] for other in alike])


def _line(word: str, text: str) -> "Text":
    from rich.text import Text

    return Text(f"{word:<8} ", style="dim", overflow="fold").append(_clean(text), style="default")


def _next(folder: Path) -> str:
    """Return the command to run next: a comparison with another run."""
    return f"miles compare {shlex.quote(str(folder))} OTHER_RUN"


def _clean(text: str) -> str:
    """Remove control characters, so that a group's name cannot steer the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
