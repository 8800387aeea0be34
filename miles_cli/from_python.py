"""Audits from Python: `run` carries one out, `read` reads a run folder, and both return a `Report`.

    from miles_cli import run

    report = run("audit-groups", manifest="clips.csv", by=["gender"], out="runs/a")
    report.frame()

Options, checks, files and errors are those of the command line.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from audits.core import gates, registry
from audits.core.errors import IncompleteError, InputError, MilesError, shadowed
from audits.core.options import METADATA, flag_of
from audits.core.records import GateResult
from audits.core.records import Report as Recorded
from audits.core.registry import AuditSpec
from audits.core.settings_file import check_known
from audits.report.registration_file import Registered
from miles_cli import interrupts, system_errors, threads
from miles_cli.options import Common

if TYPE_CHECKING:
    import pandas

__all__ = ["IncompleteError", "InputError", "Registered", "Report", "read", "register", "run"]

_OF_THE_TERMINAL = ("json", "quiet", "verbose", "dry_run", "array", "sbatch")
_WITHOUT_REPORT = ("dry_run", "array", "sbatch")
"""Those of them with which there would be no report to return, or not only that."""
_OF_A_RUN = ("out", "force", "registration")
"""Options of `run` that `register` has otherwise, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Recorded):
    """A finished report, with its run folder; what it holds is described under `audits.core.records.Report`."""

    folder: Path = field(metadata={"plain": False})

    def frame(self, name: str | None = None) -> "pandas.DataFrame":
        """Return the estimates as a table, a row each: name, coordinates, value, low, high, level, method, n, unit.

        A key of `where` that is named like another column has the column `where.KEY`.

        Parameters
        ----------
        name
            The estimates of this name alone, and only the keys that they have.

        Raises
        ------
        InputError
            Where the report has no estimate of this name.
        """
        from audits.report.frames import estimates_frame

        with _errors_with_notes():
            return estimates_frame(self, name)

    def records(self) -> "pandas.DataFrame":
        """Return the records, of either file, as a table: a row for each item that was judged, such as a clip.

        Raises
        ------
        InputError
            Where the run folder has no such file any more.
        """
        from audits.report.frames import records_frame

        with _errors_with_notes():
            return records_frame(self.folder)

    def gate(self, expression: str) -> GateResult:
        """Judge a gate, as `--fail-if` does: it fails if any estimate that it selects makes the expression true.

        The result is true where the gate passed; `rows` are the indices, in `estimates` and in `frame()`, of what it
        looked at.

        Raises
        ------
        InputError
            Where the expression is none, or selects nothing.
        """
        known = dict.fromkeys((*registry.measures_of(self.audit), *(row.name for row in self.estimates)))
        with _errors_with_notes():
            parsed = gates.parse(expression, known=tuple(known))
            return gates.judge(parsed, self.estimates, self.warnings, self.findings)

    def __repr__(self) -> str:
        counts = f"{len(self.estimates)} estimates, {len(self.findings)} findings, {len(self.warnings)} warnings"
        return f"<Report of {self.audit}: {counts}, in {self.folder}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from audits.report.pages.notebook import fragment

        return fragment(self, self.folder)


def run(audit: str, *, progress: bool = False, **options: Any) -> Report:
    """Carry out an audit and return its report, as the command of that name does.

    Options are those of the command line by name, with `_` for `-`; a list of them takes a list, and NAME=FILE a
    dictionary of names and files. In the place of a table file goes a data frame too: it is kept as CSV in the cache,
    by the hash of its content. A finished run of the same settings in `out` is read, not run again.

    Parameters
    ----------
    audit
        The name of the command, such as `audit-groups`.
    progress
        Whether progress is shown on standard error; nothing else is printed.

    Raises
    ------
    InputError
        Where an option or an input is wrong; nothing was written then but frames into the cache.
    IncompleteError
        Where the audit could not be completed.
    """
    _prepare_process()
    with _errors_with_notes(), _errors_as_on_the_command_line(audit):
        spec = registry.find(audit)
        return _run(spec, _given(spec, options, f"run({audit!r}, {{}}=...)"), progress)


def register(audit: str, *, out: str | Path, force: bool = False, **options: Any) -> Registered:
    """Write criteria down before a run, as `miles register` does: `digest` of what it returns is to be published.

    Parameters
    ----------
    audit
        The name of the command, such as `audit-groups`.
    out
        The file to write, for `run(..., registration=FILE)`.
    force
        Whether another registration that is there is replaced.
    options
        Those of the run; `fail_if` lists the criteria.

    Raises
    ------
    InputError
        Where an option or an input is wrong, or something else is in the file; nothing was written then.
    """
    _prepare_process()
    with _errors_with_notes(), _errors_as_on_the_command_line(audit):
        from miles_cli import registering

        spec = registry.find(audit)
        given = _given(spec, options, f"register({audit!r}, {{}}=...)", without=_OF_A_RUN)
        defaults = _defaults(spec)
        command = tuple(_words(spec, given, {**defaults, **given}))
        call = f"register({audit!r})"
        return registering.register(spec, given, defaults, command, out=Path(out), force=force, call=call).registered


def read(run_folder: str | Path) -> Report:
    """Read a finished run, given as its folder or its report.json.

    Raises
    ------
    InputError
        Where there is none, or it is damaged.
    """
    from audits.report.report_file import read_report

    path = Path(run_folder)
    with _errors_with_notes():
        return _with_folder(read_report(path), path if path.is_dir() else path.parent)


def _prepare_process() -> None:
    if shadowed():
        raise ImportError(f"probes is another package ({shadowed()}); miles needs its own.")
    threads.let_idle_sleep()
    threads.fix_order_of_sums()


def _with_folder(report: Recorded, folder: Path) -> Report:
    return Report(**{item.name: getattr(report, item.name) for item in fields(Recorded)}, folder=folder)


def _run(spec: AuditSpec, given: Mapping[str, Any], progress: bool) -> Report:
    from miles_cli.audit_command import built, explained, merge
    from miles_cli.audit_run import audited
    from miles_cli.progress import Watch

    merged = merge(spec.name, spec.options, given, _defaults(spec), call=f"run({spec.name!r})")
    for name in _WITHOUT_REPORT:
        if merged.get(name):
            _refuse_of_the_terminal(spec, name, f"{merged['config']}, key {name}")
    with explained(spec.name, spec.options, given, merged):
        options, common = built(spec, merged)
        command = tuple(_words(spec, given, merged))
        with interrupts.remembered() as check_interrupt:
            watch = Watch(quiet=not progress, check_interrupt=check_interrupt)
            outcome = audited(spec, options, common, watch, command, [])
    assert outcome.report is not None, "only a dry run has no report"
    return _with_folder(outcome.report, outcome.folder)


def _fields(spec: AuditSpec) -> list[Field[Any]]:
    return [item for record in (spec.options, Common) for item in fields(record)]


def _defaults(spec: AuditSpec) -> dict[str, Any]:
    return {item.name: None if item.default is MISSING else item.default for item in _fields(spec)}


def _given(spec: AuditSpec, options: Mapping[str, Any], call: str, without: Sequence[str] = ()) -> dict[str, Any]:
    """Return the options that have a value, with files in the place of data frames.

    `call` is what a refusal shows, with the name of the option in it; options `without` are none.

    Raises
    ------
    InputError
        Where the audit has no such option.
    """
    from miles_cli.given_tables import as_given

    names = [item.name for item in _fields(spec)]
    known = [name for name in names if name not in (*_OF_THE_TERMINAL, *without)]
    given = {name.replace("-", "_"): value for name, value in options.items() if value is not None}
    for name in _WITHOUT_REPORT:
        if name in given and name in names:
            _refuse_of_the_terminal(spec, name, call.format(name))
    check_known(given, spec.name, known, call.format)
    paired = {item.name for item in fields(spec.options) if (item.metadata[METADATA].metavar or "").startswith("NAME=")}
    return {name: as_given(value, name, pairs=name in paired) for name, value in given.items()}


def _refuse_of_the_terminal(spec: AuditSpec, name: str, where: str) -> NoReturn:
    flag = f"--{name.replace('_', '-')}"
    done = "What its parts leave in the cache, run() finds. " if name == "array" else ""
    raise InputError(
        f"{name!r} is an option of the command line alone.",
        where=where,
        hint=f"{done}Give {flag} to the command: miles {spec.name} ... {flag}{'' if name == 'dry_run' else ' ...'}",
    )


def _words(spec: AuditSpec, given: Mapping[str, Any], merged: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of the command line that does the same."""
    yield from ("miles", spec.name)
    # What is typed at its default counts, and may be refused beside others; only a file of options needs it.
    items = [
        item
        for item in _fields(spec)
        if item.name in given and ("config" in given or merged[item.name] != item.default)
    ]
    for item in sorted(items, key=lambda item: not item.metadata[METADATA].positional):
        option, value = item.metadata[METADATA], merged[item.name]
        flag = flag_of(item.name, option)
        values = [str(one) for one in value] if isinstance(value, tuple) else [str(value)]
        if option.positional:
            yield from values
        elif isinstance(value, bool):
            yield flag if value else f"--no-{flag[2:]}"
        else:
            # A value that begins with a dash would be taken for an option.
            yield from (word for one in values for word in ([f"{flag}={one}"] if one[:1] == "-" else [flag, one]))


@contextmanager
def _errors_with_notes() -> Iterator[None]:
    """Add to an error where it is and what to do, as notes, which a traceback shows below its message."""
    try:
        yield
    except MilesError as error:
        for label, text in (("where", error.where), ("fix", error.hint)):
            if text:
                error.add_note(f"{label}: {text}")
        raise


@contextmanager
def _errors_as_on_the_command_line(audit: str) -> Iterator[None]:
    """Turn errors of the system into the two kinds that a caller expects, with what the panel would say."""
    try:
        yield
    except OSError as error:
        what, where, hint = system_errors.words(error, audit)
        kind = InputError if system_errors.status(error) == InputError.exit_code else IncompleteError
        raise kind(what, where=where, hint=hint) from error
