"""The application: its commands, found without importing what they run, and the error boundary."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from audits.core import registry
from audits.core.errors import InputError, MilesError, shadowed
from audits.core.missing_packages import refusal
from miles_cli import system_errors, threads
from miles_cli.lazy_commands import LazyCommands
from miles_cli.plain_help import PlainCommand
from miles_cli.printable import printable

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Verb:
    """A command that is no audit: its line in the help, and the module of its function."""

    name: str
    summary: str
    target: str


VERBS = (
    Verb("list", "List the audits and what each needs.", "miles_cli.commands.list:command"),
    Verb("demo", "Run an audit on a built-in example with a planted answer.", "miles_cli.commands.demo:command"),
    Verb(
        "canaries",
        "Random canaries with fair coin flips, and a sealed list for membership.",
        "miles_cli.commands.canaries:command",
    ),
    Verb(
        "register",
        "Write criteria for a run down before it, with a digest that the run cites.",
        "miles_cli.commands.register:command",
    ),
    Verb("show", "Summarise a finished run in the terminal.", "miles_cli.commands.show:command"),
    Verb(
        "runs", "All runs below a folder: answers and gates, as a table or a page.", "miles_cli.commands.runs:command"
    ),
    Verb(
        "compare",
        "Two or more runs side by side, with the interval of each change.",
        "miles_cli.commands.compare:command",
    ),
    Verb(
        "render",
        "Make the pages and figures of a run again from its report.json.",
        "miles_cli.commands.render:command",
    ),
    Verb(
        "export",
        "Export a report to another tool, such as MLflow, a model card, JUnit, SARIF or in-toto.",
        "miles_cli.commands.export:command",
    ),
    Verb("schema", "Print the JSON Schema of report.json.", "miles_cli.commands.schema:command"),
    Verb("cache", "Show the size of the cache, or clear it.", "miles_cli.commands.cache:command"),
)
"""In the order of use: before a run, after it, and around them all."""


def _audits() -> tuple[registry.Entry, ...]:
    found = registry.entries()
    verbs = {verb.name for verb in VERBS}
    for entry in found:
        if entry.name in verbs:
            raise InputError(
                f"The package {entry.distribution} brings an audit named {entry.name}, a command of ours.",
                where=entry.target,
                hint=f"pip uninstall {entry.distribution}, or ask its authors for another name.",
            )
    return found


class Commands(LazyCommands):
    """All commands, audits first."""

    def rows(self) -> Iterable[tuple[str, str, str]]:
        """Return the audits, then the commands around them."""
        rows = [(entry.name, entry.summary, "Audits") for entry in _audits()]
        return [*rows, *((verb.name, verb.summary, "Around the audits") for verb in VERBS)]

    def real(self, name: str) -> TyperCommand:
        """Import the command that was called."""
        found: TyperCommand = _real(name)
        return found


def _real(name: str) -> Any:
    for verb in VERBS:
        if verb.name == name:
            target = registry.load(verb.target)
            if isinstance(target, TyperGroup):
                return target
            app = typer.Typer(add_completion=False)
            # typer would break the lines of a docstring where they are broken there.
            help = "\n\n".join(" ".join(part.split()) for part in (target.__doc__ or "").split("\n\n"))
            settings = {"help_option_names": ["-h", "--help"]}
            app.command(name, cls=PlainCommand, help=help, context_settings=settings)(target)
            return typer.main.get_command(app)
    from miles_cli.audit_command import command_for

    return command_for(registry.find(name))


app = typer.Typer(
    cls=Commands,
    name="miles",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit machine-learning models: numbers with intervals, findings that say no more than the intervals do.",
    epilog="Start with: miles demo",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"miles {version('miles-audit')}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", is_eager=True, callback=_print_version
    ),
) -> None:
    """Hold the options of `miles` itself."""


def main() -> None:
    """Run the command line; every exit goes through here."""
    threads.let_idle_sleep()
    threads.fix_order_of_sums()
    _spare_grammars()
    if shadowed():
        sys.exit(f"probes is another package ({shadowed()}); miles needs its own.")
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character shows a question mark; a finished run must not fail for it.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    words = " ".join(["miles", *sys.argv[1:2]])
    try:
        app(prog_name="miles")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            # Where the interrupt came while a string was executed, as dataclasses do, Python would forget the status
            # and die of the signal in the end.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise
    except MilesError as error:
        _panel(error.message, error.where, error.hint)
        sys.exit(error.exit_code)
    except MemoryError as error:
        _panel(
            f"Out of memory: {error}",
            "",
            "Use a smaller batch or fewer layers, then run it again: it resumes.",
        )
        sys.exit(3)
    except OSError as error:
        _panel(*system_errors.words(error, words))
        sys.exit(system_errors.status(error))
    except Exception as error:
        refused = refusal(error, words) if isinstance(error, ModuleNotFoundError) else None
        if refused is not None:
            _panel(refused.message, refused.where, refused.hint)
            sys.exit(refused.exit_code)
        _panel(
            f"miles ran into an error of its own: {type(error).__name__}: {error}",
            "",
            "Run it again with --verbose for the traceback, and please report it.",
        )
        sys.exit(3)


def _spare_grammars() -> None:
    """Keep jsonschema, where it is imported later, from building the grammars of a format that no schema here names.

    It would as soon as rfc3987_syntax is installed, as with Jupyter, and take 2 s for that. Not where this is a
    library: whose process it is may need the format.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("rfc3987_syntax", None)


def _panel(message: str, where: str, hint: str) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    console = Console(stderr=True)
    if "--verbose" in sys.argv:
        import traceback

        traceback.print_exc()
    body = Text(printable(message))
    for label, text in (("where: ", where), ("fix:   ", hint)):
        if text:
            # On one line: names of files and columns stand in them, and could fake another part of the panel.
            body.append(f"\n{label}", style="bold").append(printable(" ".join(text.splitlines())))
    console.print(Panel(body, title="Error", title_align="left", border_style="red", expand=False))


if __name__ == "__main__":
    main()
