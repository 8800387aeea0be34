"""`miles list`: the audits, and what each needs. Nothing of an audit is imported."""

import typer

from audits.core.registry import entries


def command() -> None:
    """List the audits, and what each needs."""
    for entry in entries():
        typer.echo(f"{entry.name}\n    {entry.summary}\n    needs: {entry.needs}")
    typer.echo("\nRun one with: miles NAME --help, or see it at work with: miles demo [NAME]")
