"""The one console that summaries go to."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from audits.core.planted import Planted
from audits.core.records import Report

WIDEST = 100
"""Columns beyond which lines are no longer easy to read."""


def print_summary(report: Report, folder: Path) -> None:
    """Print findings, their evidence, and where to read on."""
    from audits.report.pages.terminal import summarise

    console = Console()
    console.print(summarise(report, folder=folder, width=min(console.width, WIDEST)))


def print_planted(plants: Sequence[Planted]) -> None:
    """Print what a demo planted, and whether it was found."""
    from audits.report.pages.terminal import tell_planted

    console = Console()
    console.print(tell_planted(plants), width=min(console.width, WIDEST))
