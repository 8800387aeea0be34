"""The one console that summaries go to."""

from pathlib import Path

from rich.console import Console

from audits.core.records import Report


def print_summary(report: Report, folder: Path) -> None:
    """Print findings, their evidence, and where to read on."""
    from audits.report.pages.terminal import summarise

    console = Console()
    console.print(summarise(report, folder=folder, width=min(console.width, 100)))
