"""A report inside a notebook: the answer, gates, numbers, findings and a figure, as one piece of HTML."""

import base64
from contextlib import suppress
from pathlib import Path

from audits.core.gates import abridged
from audits.core.numbers import interval, point
from audits.core.records import Report
from audits.report.pages import content, offline, overview, registered

LARGEST = 2**21
"""Bytes of a figure that is shown; a larger one is left to the page."""


def fragment(report: Report, folder: Path) -> str:
    """Return HTML without scripts, with the style of the notebook around it.

    Parameters
    ----------
    folder
        The run folder: its first figure is shown, and its page is named.
    """
    report = content.canonical(report)
    answer = overview.answer(report)
    found = content.findings(report)
    shown = [finding for finding, more in zip(found, content.folded(found), strict=True) if not more]
    numbers = [(number.words, report.estimates[number.row]) for number in answer.numbers]
    html: str = offline.template("audits.report.pages", "notebook.html.jinja").render(
        over=content.over(report),
        title=answer.title,
        gates=[
            (bool(gate), registered.outcome(gate), abridged(gate.expression), content.broken(report, gate))
            for gate in report.gates
        ],
        registration=report.registration,
        registered_at=registered.registered_at(report),
        numbers=[(words, point(row), interval(row)) for words, row in numbers],
        findings=[(*content.MARKS[finding.severity], finding.title, finding.statement) for finding in shown],
        more=len(found) - len(shown),
        warnings=len(report.warnings),
        may_not=answer.may_not if report.answer is not None else (),
        figure=_figure(report, folder),
        page=str(folder / "report.html"),
    )
    return html


def _figure(report: Report, folder: Path) -> tuple[str, str, str] | None:
    """Return the first figure as title, caption and a data address; an image runs no script, whoever drew it."""
    for figure in report.figures[:1]:
        file = folder / "figures" / f"{Path(figure.file).name}.svg"
        # Whatever is wrong with the file, the rest is shown.
        with suppress(OSError):
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= LARGEST:
                drawn = base64.b64encode(file.read_bytes()).decode()
                return figure.title, figure.caption, f"data:image/svg+xml;base64,{drawn}"
    return None
