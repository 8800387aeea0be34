"""`miles demo [AUDIT]`: run an audit on an example that miles makes itself, with a planted answer."""

from pathlib import Path
from typing import Annotated

import typer

from audits.core import registry
from audits.core.context import Cache, Context
from audits.core.errors import InputError
from miles_cli.environment import choose_device
from miles_cli.options import Common
from miles_cli.progress import Watch


def command(
    audit: Annotated[str, typer.Argument(help="The audit to show.")] = "audit-fairness",
    balanced: Annotated[bool, typer.Option("--balanced", help="Make the same example without the plant.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Run folder.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the example and of the audit.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print report.json to stdout and nothing else there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Add tracebacks to errors.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a finished run folder.")] = False,
) -> None:
    """Run an audit on a built-in example with a planted answer."""
    from miles_cli.run import carry_out

    spec = registry.find(audit)
    prepare = spec.step("demo", "prepare")
    if prepare is None:
        raise InputError(f"{audit} has no demo.", where="AUDIT", hint="Others have one: miles list.")
    watch = Watch(quiet=quiet)
    context = Context(seed=seed, device=choose_device("cpu"), cache=Cache.default(), progress=watch)
    with registry.blamed(audit):
        options = prepare(context, balanced=balanced)
    common = Common(out=out, seed=seed, device="cpu", json=json, quiet=quiet, verbose=verbose, force=force)
    raise typer.Exit(carry_out(spec, options, common))
