"""`miles compare RUN RUN...`: estimates side by side with the interval of each change."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from audits.core import gates
from audits.core.errors import InputError
from audits.report.comparison import wording
from audits.report.comparison.changes import Change
from audits.report.comparison.comparing import Comparison, compare_all, read_run
from miles_cli.printable import line, named
from miles_cli.writing import check_path, write

MOST_ROWS = 200


def command(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders; the first is the one compared with.")],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Estimates to compare, as in a gate: 'gap\\[by=accent]'."),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option("--match", help="OLD=NEW: a system, candidate, model or group with another name in later runs."),
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every estimate, not only those that changed.")] = False,
    fail_on_regression: Annotated[
        bool,
        typer.Option("--fail-on-regression", help="Exit 1 where a number got worse, which holds after Holm."),
    ] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write the comparison as one offline page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON, nothing else.")] = False,
) -> None:
    """Two or more runs side by side, with the interval of each change, paired where both judged the same records."""
    if len(runs) < 2:
        raise InputError("One run cannot be compared.", where="RUN", hint="Give at least two run folders.")
    chosen = [gates.parse_selection(text, where="--only") for text in only or []]
    first, *others = [replace(read_run(run), name=named(run)) for run in runs]
    if html is not None:
        check_path(html, "--html", runs)
    found = compare_all(first, others, chosen, match or [])
    for one in found if fail_on_regression else ():
        _check_judged(one)
    if html is not None:
        from audits.report.comparison.page import to_html

        write(html, to_html(found))
    if as_json:
        text = json.dumps(wording.to_json(found), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        typer.echo(text)
    else:
        _print_result(found, everything=all_rows or bool(chosen))
    if fail_on_regression and any(row.is_regression for one in found for row in one.rows):
        typer.echo("A number got worse, which holds after Holm or is exact.", err=as_json)
        raise typer.Exit(1)


def _check_judged(found: Comparison) -> None:
    if not found.same and not any(row.can_be_judged for row in found.rows):
        raise InputError(
            f"No change of a number that can get worse, from {found.before.name} to {found.after.name}, has an "
            "interval: a regression could not be seen.",
            where="--fail-on-regression",
            hint="Compare runs of one audit that hold the same estimates.",
        )


def _print_result(found: list[Comparison], *, everything: bool) -> None:
    for one in found:
        old, new = one.before.name, one.after.name
        if one.same:
            typer.echo(f"{new} and {old} are the same run: same inputs, settings and estimates. Nothing changed.")
        if not one.same or everything:
            _print(one, everything=everything)


def _print(found: Comparison, *, everything: bool) -> None:
    differing = wording.differences(found)
    typer.echo(f"The runs differ in: {'' if differing else 'nothing that the reports tell.'}".rstrip())
    for word, what in differing:
        typer.echo(f"  {word}: {line(what)}")
    typer.echo(f"{found.after.name} against {found.before.name}: {wording.heading(found)}")
    for note in wording.notes(found):
        typer.echo(line(note))
    shown = found.rows if everything else [row for row in found.rows if row.verdict == "changed"]
    if shown:
        _print_table(shown[:MOST_ROWS], verdicts=everything)
    elif found.rows:
        typer.echo("Show all of them with --all.")
    if len(shown) > MOST_ROWS:
        typer.echo(f"... and {len(shown) - MOST_ROWS} more; choose with --only, or write them all with --html.")


def _print_table(rows: tuple[Change, ...] | list[Change], *, verdicts: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    # What is not to be cut wraps; the numbers keep their lines, so that they can be read down the column.
    table = Table(
        Column("estimate", overflow="fold", min_width=18),
        Column("before", justify="right", no_wrap=True),
        Column("after", justify="right", no_wrap=True),
        Column("change", overflow="fold"),
        Column("p, Holm", justify="right", no_wrap=True),
        *([Column("verdict", overflow="fold", min_width=7)] if verdicts else []),
        Column("paired", overflow="fold", min_width=7),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for row in rows:
        # As Text: in a plain string the brackets of the coordinates would be read as markup.
        name = Text(line(f"{row.name} [{wording.place(row)}]" if row.where else row.name))
        verdict = [row.verdict] if verdicts else []
        table.add_row(name, *wording.shown(row), wording.p_shown(row), *verdict, wording.paired(row))
    Console().print(table)
