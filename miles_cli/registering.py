"""Register criteria: check every input as a run would, and write down what will be asked before anything runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Any

from audits.core.errors import InputError
from audits.core.option_groups import Workers
from audits.core.options import build, option
from audits.core.registry import AuditSpec
from audits.report.registration_file import Registered, read_registration
from miles_cli import registered_gates
from miles_cli.audit_command import built, explained, merge
from miles_cli.audit_run import prepare
from miles_cli.options import Common
from miles_cli.printable import line
from miles_cli.progress import Watch
from miles_cli.writing import check_path, write

_SHARED = ("seed", "level", "device", "dtype", "fail_if", "config", "verbose")
ADVICE = (
    "Publish the digest where its date can be seen (a commit, a mail, a registry): miles cannot prove when it was made."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a registration goes."""

    out: Path | None = option(
        "File to write the registration into.", metavar="FILE", panel="Registration", required=True
    )
    force: bool = option("Replace another registration that is there.", False, panel="Registration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was registered, and whether the file said so already, so that nothing was written."""

    registered: Registered
    file: Path
    earlier: bool


def register(
    spec: AuditSpec,
    given: Mapping[str, Any],
    defaults: Mapping[str, Any],
    command: Sequence[str],
    *,
    out: Path | None,
    force: bool = False,
    call: str = "",
) -> Written:
    """Check every input, then write the criteria with all that decides the run.

    Parameters
    ----------
    given, defaults
        Options by name, without those of `Target`.
    command
        The words of the command line.
    call
        What gave the options, for errors, where it was not the command line.

    Raises
    ------
    MilesError
        Where something is wrong that the user can fix; nothing was written then.
    """
    target = build(Target, {"out": out, "force": force})
    check_path(target.out, "--out", [])
    merged = merge(spec.name, spec.options, given, defaults, call=call)
    with explained(spec.name, spec.options, given, merged):
        typed = () if call else given
        options, common = built(spec, merged, typed)
        planned = _planned(spec, options, common, command, typed)
    earlier = _earlier(target.out, planned, force=force)
    if earlier is None:
        write(target.out, planned.dumps())
    return Written(registered=earlier or planned, file=target.out, earlier=earlier is not None)


def shared() -> type:
    """Return a record of the options that a registration shares with every audit."""
    kept = [item for item in fields(Common) if item.name in _SHARED]
    declared = [(item.name, item.type, field(default=item.default, metadata=item.metadata)) for item in kept]
    return make_dataclass("Shared", declared, frozen=True, kw_only=True)


def summary(written: Written) -> str:
    """Return what is printed: digest, criteria, what to do with the digest, and how a run cites the file."""
    held = written.registered
    when = f"registered already, at {held.created}; nothing was written" if written.earlier else "registered"
    lines = [f"{line(str(written.file))}: {when}.", f"sha256  {held.digest}"]
    lines += [f"  fail if  {line(expression)}" for expression in held.criteria]
    lines += [ADVICE, f"Then: miles {held.audit}, with the same options, --registration {line(str(written.file))}"]
    return "\n".join(lines)


def _planned(
    spec: AuditSpec, options: Any, common: Common, command: Sequence[str], typed: Collection[str]
) -> Registered:
    if not common.fail_if:
        raise InputError(
            "There is nothing to register: no criterion is given.",
            where="--fail-if",
            hint="Give at least one, such as --fail-if 'findings[severity=high] > 0'.",
        )
    if isinstance(options, Workers) and options.sbatch is not None:
        raise InputError("A registration runs nothing, and writes no job.", where="--sbatch", hint="Leave it out.")
    asked = registered_gates.asked(spec, common.fail_if, None)
    prepared = prepare(spec, options, common, Watch(quiet=True), command, typed)
    asked.check(prepared.plan.coordinates, spec.by_name)
    return prepared.registered(spec, common.fail_if)


def _earlier(file: Path, planned: Registered, *, force: bool) -> Registered | None:
    """Return the registration that is there and says the same; None where one may be written.

    Raises
    ------
    InputError
        Where something else is there.
    """
    if not file.exists():
        return None
    try:
        held = read_registration(file)
    except InputError as error:
        raise InputError(
            f"The file is there already, and is no registration: {error.message}",
            where=f"--out {file}",
            hint="Name another file, or remove this one.",
        ) from error
    if held.says_as(planned):
        return held
    if not force:
        raise InputError(
            f"Another registration is there already, {held.digest[:12]}… of {held.created}.",
            where=f"--out {file}",
            hint="Name another file; --force replaces it.",
        )
    return None
