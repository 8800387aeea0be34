"""`miles compare RUN RUN...`: estimates side by side with the interval of each change."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from audits.core import gates
from audits.core.errors import InputError
from audits.report.comparison.comparing import Comparison, Run, compare_all, read_run
from miles_cli.printable import line, named
from miles_cli.writing import check_path, to_stdout, write


class Harness(StrEnum):
    """A harness whose logs can be read."""

    inspect = "inspect"
    lm_eval = "lm-eval"


MOST_RUNS = 30
_OF_LM_EVAL = re.compile(r"(samples_.+\.jsonl|results_.+\.json)$")
"""Names of files that lm-evaluation-harness writes."""
FILES = ("comparison.html", "comparison.md", "comparison.json")
"""What `--out` writes into its folder."""


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="2 to 30 run folders, or logs with --from; the others are compared with the first."
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="ESTIMATE", help="Estimates to compare, as in a gate: 'gap\\[by=accent]'; repeatable."
        ),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            "--match",
            metavar="OLD=NEW",
            help="A system, candidate, model, task or group with another name in later runs; repeatable.",
        ),
    ] = None,
    harness: Annotated[
        Harness | None,
        typer.Option(
            "--from",
            metavar="inspect|lm-eval",
            help="The runs are logs of another harness: files, or folders with those of a model.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="FIELD", help="With --from: field of samples whose values are the clusters."),
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every estimate, not only those that changed.")] = False,
    fail_on_regression: Annotated[
        bool,
        typer.Option("--fail-on-regression", help="Exit 1 where a number got significantly worse, after Holm."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write page, Markdown and JSON into this folder.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the comparison as one offline page.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as JSON and nothing else there.")
    ] = False,
) -> None:
    """2 to 30 runs side by side, with the interval of each change, paired where both judged the same records."""
    chosen = [gates.parse_selection(text, where="--only") for text in only or []]
    first, *others = _read(runs, harness, cluster)
    if html is not None:
        check_path(html, "--html", runs)
    if out is not None:
        _check_folder(out, runs)
    found = compare_all(first, others, chosen, match or [])
    for one in found if fail_on_regression else ():
        _check_judged(one)
    _write(found, out, html)
    if as_json:
        to_stdout(_json(found) + "\n")
    else:
        _print(found, everything=all_rows or bool(chosen))
        if html is not None:
            typer.echo(f"Page     {html}")
    if fail_on_regression and any(row.is_regression for one in found for row in one.rows):
        typer.echo("A number got significantly worse after Holm, or is exact and got worse.", err=as_json)
        raise typer.Exit(1)


def _read(runs: list[Path], harness: Harness | None, cluster: str | None) -> list[Run]:
    if harness is None:
        if cluster is not None:
            hint = "Runs of miles know their clusters: leave it out, or give --from."
            raise InputError("--cluster is for logs of other harnesses.", where="--cluster", hint=hint)
        _check_runs(runs, "Give at least two run folders.")
        for run in runs:
            _check_no_log(run)
        return [replace(read_run(run), name=named(run)) for run in runs]
    from audits.report.comparison.log_files import read_logs

    found = read_logs(harness.value, runs, cluster=cluster or "", shown=named)
    found = [replace(run, name=line(run.name)) for run in found]
    _check_runs(found, "Give the logs of at least two models.")
    return found


def _check_no_log(run: Path) -> None:
    """Refuse what is by its name a log of another harness, with the option that reads it."""
    names = [run.name] if run.is_file() else [file.name for file in run.glob("*.jsonl")]
    harness = "inspect" if run.suffix == ".eval" else "lm-eval" if any(map(_OF_LM_EVAL.match, names)) else ""
    if harness:
        message = "This is no run of miles, but by its name a log of another harness."
        raise InputError(message, where=str(run), hint=f"Add --from {harness}.")


def _check_runs(runs: Sequence[object], hint: str) -> None:
    if len(runs) < 2:
        raise InputError("One run cannot be compared.", where="RUN", hint=hint)
    if len(runs) > MOST_RUNS:
        raise InputError(
            f"{len(runs)} runs are more than {MOST_RUNS}, the most that are compared at once.",
            where="RUN",
            hint="Give fewer; `miles runs DIR --html FILE` shows the trends of any number.",
        )


def _check_folder(out: Path, runs: list[Path]) -> None:
    if not out.exists():
        check_path(out, "--out", runs)
    elif not out.is_dir():
        raise InputError(f"{line(out)} is no folder.", where="--out", hint="Give the name of a folder for the files.")
    else:
        for name in FILES:
            check_path(out / name, "--out", runs)


def _write(found: list[Comparison], out: Path | None, html: Path | None) -> None:
    if out is None and html is None:
        return
    from audits.report.comparison.markdown import to_markdown
    from audits.report.comparison.page import to_html

    page = to_html(found)
    if html is not None:
        write(html, page)
    if out is not None:
        out.mkdir(exist_ok=True)
        for name, text in zip(FILES, (page, to_markdown(found), f"{_json(found)}\n"), strict=True):
            write(out / name, text)


def _json(found: list[Comparison]) -> str:
    from audits.report.comparison.plain import to_json

    return json.dumps(to_json(found), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)


def _print(found: list[Comparison], *, everything: bool) -> None:
    from rich.console import Console

    from audits.report.comparison.terminal import shown

    console = Console(highlight=False)
    for part in shown(found, line, everything=everything, width=console.width):
        console.print(part)


def _check_judged(found: Comparison) -> None:
    if found.same or any(row.can_be_judged for row in found.rows):
        return
    if found.rows and all(row.measure.worse is None for row in found.rows):
        raise InputError(
            f"{found.before.report.audit} does not say of any number that {found.after.name} shares with "
            f"{found.before.name} which direction is worse, so regressions cannot be judged.",
            where="--fail-on-regression",
            hint="Compare estimates that have a direction: the column `worse` in docs/reference.md.",
        )
    raise InputError(
        f"No change of a number that can get worse, from {found.before.name} to {found.after.name}, has an "
        "interval: a regression could not be seen.",
        where="--fail-on-regression",
        hint="Compare runs of one audit that hold the same estimates.",
    )
