"""`miles compare RUN RUN...`: estimates side by side with the interval of each change."""

from pathlib import Path
from typing import Annotated

import typer

from audits import gates
from audits.comparison import Change, changes, differing, unmatched
from audits.errors import InputError
from audits.numbers import percent
from audits.records import Report
from audits.report_file import read_report


def command(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders; the first is the one compared with.")],
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Estimates to show, as in a gate: 'gap\\[by=accent]'.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every estimate, not only those that changed.")] = False,
    fail_on_regression: Annotated[
        bool,
        typer.Option("--fail-on-regression", help="Exit 1 where an error rate or a gap rose beyond its interval."),
    ] = False,
) -> None:
    """Two or more runs side by side, with the interval of each change."""
    if len(runs) < 2:
        raise InputError("One run cannot be compared.", where="RUN", hint="Give at least two run folders.")
    reports = [read_report(run) for run in runs]
    chosen = [gates.parse(f"{text} > 0") for text in only or []]
    regressed = False
    for run, report in zip(runs[1:], reports[1:], strict=True):
        rows = [
            row
            for row in changes(reports[0], report)
            if not chosen or any(gates.selects(gate, row.after) for gate in chosen)
        ]
        if chosen and not rows:
            raise InputError(f"{', '.join(only or [])} selects nothing that both runs hold.", where="--only")
        _print(runs[0], run, reports[0], report, rows, everything=all_rows or bool(chosen))
        regressed = regressed or any(row.excludes_zero and row.is_worse for row in rows)
    if fail_on_regression and regressed:
        typer.echo("A rate or a gap rose beyond its interval.")
        raise typer.Exit(1)


def _print(first: Path, second: Path, before: Report, after: Report, rows: list[Change], *, everything: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    level = percent(before.estimates[0].level) if before.estimates else ""
    changed = [row for row in rows if row.excludes_zero]
    shown = rows if everything else changed
    only_first, only_second = unmatched(before, after)
    typer.echo(f"The runs differ in: {', '.join(differing(before, after)) or 'nothing but chance'}.")
    typer.echo(
        f"{second} against {first}: {len(changed)} of {len(rows)} changes exclude zero "
        f"({level} intervals, each on its own)."
    )
    typer.echo(f"In one run only: {only_first} and {only_second} estimates. Both runs are taken as independent.")
    table = Table("estimate", "before", "after", "change")
    for row in shown[:200]:
        # As Text: in a plain string the brackets of the coordinates would be read as markup.
        place = Text(f"{row.name} [{', '.join(f'{key}={value}' for key, value in row.where)}]")
        change = "{:.3g} ({:.3g} to {:.3g})".format(*row.difference) if row.difference else "no interval"
        table.add_row(place, _point(row.before.value), _point(row.after.value), change)
    Console().print(table)
    if len(shown) > 200:
        typer.echo(f"... and {len(shown) - 200} more; choose with --only.")


def _point(value: float) -> str:
    return f"{value:.3g}"
