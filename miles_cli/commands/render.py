"""`miles render RUN`: make pages and figures again from report.json alone."""

from pathlib import Path
from typing import Annotated

import typer

from audits.report.report_file import read_report


def command(run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, or its report.json.")]) -> None:
    """Make the Markdown, the HTML page and the figures of a run again from its report.json."""
    from audits.report.pages import write_pages

    folder = run if run.is_dir() else run.parent
    write_pages(read_report(run), folder)
    typer.echo(f"Written: {folder / 'report.html'}, {folder / 'report.md'}, {folder / 'figures'}")
