"""`miles show RUN`: the summary of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from audits.report.report_file import read_report
from miles_cli.terminal import print_summary


def command(run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, or its report.json.")]) -> None:
    """Summarise a finished run in the terminal."""
    print_summary(read_report(run), run if run.is_dir() else run.parent)
