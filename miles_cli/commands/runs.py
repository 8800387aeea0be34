"""`miles runs [DIR]`: all runs below a folder in one table, or as one page."""

import json
import os
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from audits.core.errors import InputError
from audits.core.wording import many
from audits.report.pages.content import MARKS
from audits.report.run_index.listing import Gate, Listing, Run, list_runs
from miles_cli.printable import line, named
from miles_cli.writing import check_path, to_stdout, write

MOST_ROWS = 200


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder below which runs are looked for.")] = Path(
        "runs"
    ),
    audit: Annotated[
        list[str] | None, typer.Option("--audit", metavar="NAME", help="Only runs of this audit; repeatable.")
    ] = None,
    contains: Annotated[
        list[str] | None,
        typer.Option(
            "--contains", metavar="TEXT", help="Only runs with this in folder, subject or answer; repeatable."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DAY", help="Only runs from this day on, such as 2026-11-25.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only runs with a failed gate.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the overview as one offline page.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the overview as JSON and nothing else there.")] = False,
) -> None:
    """Show all runs below a folder: audit, subject, date, answer and gates, the newest first."""
    if not folder.is_dir():
        raise InputError("There is no such folder.", where=str(folder), hint="Name the folder that holds your runs.")
    if since is not None:
        since = _day(since)
    if html is not None:
        check_path(html, "--html", [])
    found = list_runs(folder)
    chosen = [run for run in found.runs if _wanted(run, audit or [], contains or [], since, failed)]
    found = Listing(found.root, tuple(chosen), found.unreadable, found.cut)
    if html is not None:
        from audits.report.run_index.page import to_html

        write(html, to_html(found, Path(os.path.realpath(html)).parent))
    if as_json:
        to_stdout(json.dumps(_plain(found), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        return
    _print(found)
    if html is not None:
        typer.echo(f"Page     {html}")


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise InputError(f"{text!r} is no day.", where="--since", hint="Write it as 2026-11-25.") from error


def _wanted(run: Run, audits: list[str], contains: list[str], since: str | None, failed: bool) -> bool:
    return (
        (not audits or run.audit in audits)
        and all(run.holds(text) for text in contains)
        and (since is None or run.created[:10] >= since)
        and (not failed or run.failed > 0)
    )


def _plain(found: Listing) -> dict[str, object]:
    rows = [
        {
            "folder": run.folder, "audit": run.audit, "subject": run.subject, "created": run.created,
            "answer": run.answer, "worst": run.worst,
            "gates": [_gate(one) for one in run.gates],
        }
        for run in found.runs
    ]  # fmt: skip
    return {"schema": "miles.runs/1", "runs": rows, "unreadable": dict(found.unreadable)}


def _gate(gate: Gate) -> dict[str, object]:
    known = {} if gate.registered is None else {"registered": gate.registered}
    return {"expression": gate.expression, "outcome": "pass" if gate.passed else "fail", **known}


def _print(found: Listing) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for run in found.runs[:MOST_ROWS]:
        icon = f"{MARKS[run.worst][0]} " if run.worst else ""
        words = Text(f"{icon}{line(run.answer)}\n", style="bold")
        words.append(f"{line(run.audit)} · {line(run.named)} · ", style="default not bold")
        words.append(run.state, style="bold red" if run.failed else "not bold")
        # As Text: in a plain string brackets of a report that others wrote would be read as markup.
        grid.add_row(Text(line(run.created[:10])), words.append(f" · {line(run.folder)}", style="not bold dim"))
    if found.runs:
        Console().print(grid)
    more = len(found.runs) - MOST_ROWS
    if more > 0:
        typer.echo(f"... and {more} more: choose with --audit, --contains, --since or --failed, or write --html.")
    fails = sum(run.failed > 0 for run in found.runs)
    typer.echo(f"{many(len(found.runs), 'run', 'runs')} below {named(found.root)}, {fails} with a failed gate.")
    if found.cut:
        typer.echo("There are more runs than can be listed.")
    for folder, why in list(found.unreadable.items())[:5]:
        typer.echo(f"Not read: {line(folder)} ({line(why)})", err=True)
    if len(found.unreadable) > 5:
        typer.echo(f"Not read: and {len(found.unreadable) - 5} more.", err=True)
