"""`miles register AUDIT`: the criteria of a run that is yet to come, written down with a digest."""

import sys
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand

from audits.core import registry
from audits.core.registry import AuditSpec
from miles_cli.lazy_commands import LazyCommands

HELP = "\n\n".join(
    (
        "Write criteria down before a run: AUDIT is the command of an audit, with its inputs and options.",
        "Every input is checked as by a run, and nothing is run. The file holds the criteria, the hashes of the "
        "inputs, the seed, the level and every option, with a digest. A run that is given it by --registration cites "
        "that digest, judges all of the criteria and marks those that were added later.",
        "Such as: miles register audit-groups clips.csv --by accent --fail-if 'gap\\[by=accent].low > 0.05' "
        "--out criteria.json",
    )
)


class Registrations(LazyCommands):
    """The audits as commands that register instead of running."""

    def rows(self) -> Iterable[tuple[str, str, str]]:
        """Return the audits."""
        return [(entry.name, entry.summary, "Audits that can be registered") for entry in registry.entries()]

    def real(self, name: str) -> TyperCommand:
        """Import the audit that was named."""
        return command_for(registry.find(name))


def command_for(spec: AuditSpec) -> TyperCommand:
    """Return the command that registers criteria for an audit."""
    from miles_cli import registering
    from miles_cli.audit_command import given_of, make_command

    def carry_out(**values: Any) -> None:
        context, out, force = (values.pop(name) for name in ("context", "out", "force"))
        given = given_of(context, values)
        command = ("miles", *sys.argv[1:])
        written = registering.register(spec, given, values, command, out=out, force=force)
        typer.echo(registering.summary(written))

    help = f"Write down criteria for this audit; nothing is run. {spec.summary}"
    return make_command(spec.name, help, (spec.options, registering.Target, registering.shared()), carry_out)


command = Registrations(
    name="register",
    help=HELP,
    no_args_is_help=True,
    subcommand_metavar="AUDIT [its options]",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
