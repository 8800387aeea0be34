"""`miles compare RUN RUN...`: estimates side by side with the interval of each change."""

from pathlib import Path
from typing import Annotated

import typer

from audits import gates
from audits.comparison import Change, changes, check_levels, differing, ranked, same_run, unmatched
from audits.errors import InputError
from audits.numbers import percent
from audits.records import Estimate, Report
from audits.report_file import read_report

MOST_ROWS = 200


def command(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders; the first is the one compared with.")],
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Estimates to show, as in a gate: 'gap\\[by=accent]'.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every estimate, not only those that changed.")] = False,
    fail_on_regression: Annotated[
        bool,
        typer.Option("--fail-on-regression", help="Exit 1 where a number got worse beyond its interval."),
    ] = False,
) -> None:
    """Two or more runs side by side, with the interval of each change."""
    if len(runs) < 2:
        raise InputError("One run cannot be compared.", where="RUN", hint="Give at least two run folders.")
    chosen = [gates.parse_selection(text, where="--only") for text in only or []]
    first, *others = [(run, read_report(run)) for run in runs]
    for run, report in others:
        check_levels(first[1], report, where=f"{first[0]} and {run}")
    compared = []
    for run, report in others:
        same = same_run(first[1], report)
        rows = _chosen(first[1], report, chosen)
        if fail_on_regression and not same and not any(row.can_be_judged for row in rows):
            raise InputError(
                f"No change of a number that can get worse, from {first[0]} to {run}, has an interval: "
                "a regression could not be seen.",
                where="--fail-on-regression",
                hint="Compare runs of one audit that hold the same estimates.",
            )
        compared.append((run, report, rows, same))
    everything = all_rows or bool(chosen)
    for run, report, rows, same in compared:
        if same:
            typer.echo(f"{run} and {first[0]} are the same run: same inputs, settings and estimates. Nothing changed.")
        if not same or everything:
            _print(first, (run, report), rows, everything=everything)
    if fail_on_regression and any(row.excludes_zero and row.is_worse for _, _, rows, _ in compared for row in rows):
        typer.echo("A number got worse beyond its interval.")
        raise typer.Exit(1)


def _chosen(before: Report, after: Report, chosen: list[gates.Selection]) -> list[Change]:
    """Return the changes of the estimates that --only selects, or of all."""
    rows = ranked(changes(before, after))
    for selection in chosen:
        if not any(gates.selects(selection, row.after) for row in rows):
            raise InputError(
                f"{selection.text!r} selects nothing that both runs hold.",
                where="--only",
                hint=gates.nearest(selection, [row.after for row in rows]),
            )
    return [row for row in rows if not chosen or any(gates.selects(selection, row.after) for selection in chosen)]


def _print(first: tuple[Path, Report], second: tuple[Path, Report], rows: list[Change], *, everything: bool) -> None:
    (old, before), (new, after) = first, second
    level = f" ({percent(before.estimates[0].level)} intervals, each on its own)" if before.estimates else ""
    beyond = sum(row.excludes_zero for row in rows)
    bare = sum(row.difference is None for row in rows)
    only_first, only_second = unmatched(before, after)
    typer.echo(f"The runs differ in: {', '.join(differing(before, after)) or 'nothing but chance'}.")
    typer.echo(f"{new} against {old}: {beyond} of {len(rows)} changes exclude zero{level}.")
    if bare:
        typer.echo(f"{bare} of {len(rows)} changes have no interval: nothing can be said of them.")
    typer.echo(f"In one run only: {only_first} and {only_second} estimates. Both runs are taken as independent.")
    shown = rows if everything else [row for row in rows if row.excludes_zero]
    if shown:
        _print_table(shown[:MOST_ROWS])
    elif rows:
        typer.echo("Show all of them with --all.")
    if len(shown) > MOST_ROWS:
        typer.echo(f"... and {len(shown) - MOST_ROWS} more; choose with --only.")


def _print_table(rows: list[Change]) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    # What is not to be cut wraps; the numbers keep their lines, so that they can be read down the column.
    table = Table(
        Column("estimate", overflow="fold"),
        Column("before", justify="right", no_wrap=True),
        Column("after", justify="right", no_wrap=True),
        Column("change", overflow="fold"),
    )
    for row in rows:
        # As Text: in a plain string the brackets of the coordinates would be read as markup.
        place = Text(f"{row.name} [{', '.join(f'{key}={value}' for key, value in row.where)}]")
        table.add_row(place, _point(row.before), _point(row.after), _change(row))
    Console().print(table)


def _change(row: Change) -> str:
    if row.difference is None:
        return f"{row.after.value - row.before.value:.3g}, no interval"
    return "{:.3g} ({:.3g} to {:.3g})".format(*row.difference)


def _point(row: Estimate) -> str:
    return f"{row.value:.3g}"
