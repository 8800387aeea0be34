"""`miles demo [AUDIT]`: run an audit on an example that miles makes itself, with a planted answer."""

from pathlib import Path
from typing import Annotated

import typer

from audits.core import registry
from audits.core.context import Cache, Context
from audits.core.errors import InputError
from audits.core.options import check_record
from audits.core.records import Report
from miles_cli.environment import choose_device
from miles_cli.options import Common
from miles_cli.printable import line
from miles_cli.progress import Watch

MEASURED = """
About how many seconds a first run takes on two cores with nothing else to do,
reckoned from the computing that was measured on a busy server. What was made is
kept, so that a second run takes less. Run one with: miles demo NAME"""


def command(
    audit: Annotated[str, typer.Argument(metavar="AUDIT", help="The audit to show.")] = "audit-fairness",
    balanced: Annotated[bool, typer.Option("--balanced", help="Make the same example without the plant.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List all demos, with what they take, and run none.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Run folder. Default: runs/<command>-<UTC time>-<4 hex>."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the example and of the audit.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print report.json to stdout and nothing else there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Add tracebacks to errors.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a finished run folder.")] = False,
) -> None:
    """Run an audit on a built-in example with a planted answer."""
    if listed:
        _list()
        return
    from miles_cli.audit_run import carry_out

    spec = registry.find(audit)
    prepare = spec.step("demo", "prepare")
    if prepare is None:
        raise InputError(f"{audit} has no demo.", where="AUDIT", hint="These have one: miles demo --list.")
    common = Common(out=out, seed=seed, device="cpu", json=json, quiet=quiet, verbose=verbose, force=force)
    check_record(common)
    watch = Watch(quiet=quiet)
    context = Context(seed=seed, device=choose_device("cpu"), cache=Cache.default(), progress=watch)
    with registry.blamed(audit):
        options = prepare(context, balanced=balanced)

    def tell(report: Report) -> None:
        _tell(spec, report, balanced)

    raise typer.Exit(carry_out(spec, options, common, ending=tell))


def _tell(spec: registry.AuditSpec, report: Report, balanced: bool) -> None:
    """Print what was planted and whether the report shows it, where the demo says so."""
    from miles_cli.terminal import print_planted

    planted = spec.step("demo", "planted")
    if planted is None:
        return
    with registry.blamed(spec.name):
        plants = tuple(planted(report, balanced=balanced))
    print_planted(plants)


def _list() -> None:
    """Print a line for each demo; whether another package's audit has one is not known without importing it."""
    found = registry.entries()
    width = max(len(entry.name) for entry in found)
    for entry in found:
        seconds = f"{entry.seconds:>3} s" if entry.seconds else "    ?"
        typer.echo(f"{line(entry.name):<{width}}  {seconds}  {line(entry.demo or entry.summary)}")
    typer.echo(MEASURED)
    if any(not entry.demo for entry in found):
        typer.echo("?: an audit of another package, whose demo, if it has one, was not measured.")
