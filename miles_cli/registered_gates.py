"""The gates of a call: those of a registration, which none can drop, and those that are given beside them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from audits.core.errors import InputError
from audits.core.gates import GATE, Gate, check_coordinates, judge, parse
from audits.core.measures import Measure
from audits.core.records import Coordinate, GateResult, Report, Warning
from audits.core.registration import Registration
from audits.core.registry import AuditSpec
from audits.report.registration_checks import began, differences
from audits.report.registration_file import Registered, moment, read_registration
from audits.report.report_file import MADE_BY_MILES, fingerprint_of
from miles_cli import folders
from miles_cli.environment import version

OPTION = "--registration"
OTHER_RUN = (
    f"Give the inputs and options that were registered, or leave {OPTION} out: its gates are then not called so."
)
MOST_SHOWN = 12
"""Differences that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The gates to judge, those that were registered first, and the registration that the report will cite.

    Parameters
    ----------
    gates, registered
        Each gate, and whether it was registered; None where nothing is cited.
    given
        Whether gates were given beside those registered. If not, those that a finished report has stay.
    """

    gates: tuple[Gate, ...] = ()
    registered: tuple[bool | None, ...] = ()
    registration: Registration | None = None
    given: bool = False

    def check(self, coordinates: Mapping[str, Sequence[Coordinate]], measures: Mapping[str, Measure]) -> None:
        """Check that every gate can select an estimate of the run.

        Raises
        ------
        InputError
            Where one names a key or a value that no estimate has.
        """
        for gate, mark in zip(self.gates, self.registered, strict=True):
            with _blamed(self._place(mark)):
                check_coordinates(gate, coordinates, measures)

    def _place(self, mark: bool | None) -> str:
        """Return where a gate stands."""
        return f"{self.registration.file}, key criteria" if mark and self.registration is not None else GATE

    def judged(self, report: Report) -> tuple[GateResult, ...]:
        """Return the outcome of every gate on a report.

        Raises
        ------
        InputError
            Where one selects nothing.
        """
        found = []
        for gate, mark in zip(self.gates, self.registered, strict=True):
            with _blamed(self._place(mark)):
                result = judge(gate, report.estimates, report.warnings, report.findings)
            found.append(replace(result, registered=mark))
        return tuple(found)

    def stand_in(self, report: Report) -> bool:
        """Tell whether a report has these gates, with the outcomes that its estimates give, and this citation."""
        return self.registration == report.registration and self.judged(report) == report.gates

    def warnings(self) -> tuple[Warning, ...]:
        """Return what the report must say of its registration."""
        if self.registration is None or self.registration.miles == version():
            return ()
        message = f"The criteria were registered with miles {self.registration.miles}; this run is of {version()}."
        return (Warning(id="registration.version", message=f"{message} Numbers may differ for that alone."),)


def cited(spec: AuditSpec, files: Sequence[str]) -> tuple[Registered, Path] | None:
    """Return the registration that was named, with its file; None where none was.

    Raises
    ------
    InputError
        Where it cannot be read, is one of another audit, was made after now, or several are named.
    """
    if not files:
        return None
    if len(files) > 1:
        message = f"{len(files)} registrations are named; a run has one."
        raise InputError(message, where=OPTION, hint="Name one; criteria that belong together are registered together.")
    path = Path(files[0])
    held = read_registration(path)
    if held.audit != spec.name:
        message = f"This is a registration for {held.audit}, not for {spec.name}."
        raise InputError(message, where=f"{path}, key audit", hint=f"Name that of this audit with {OPTION}.")
    now = datetime.now(UTC)
    if moment(held.created) > now:
        message = f"The registration says that it was made at {held.created}; here it is {now:%Y-%m-%dT%H:%M:%SZ}."
        hint = "Set the clock of this machine; if it is right, register again by a right one."
        raise InputError(message, where=f"{path}, key created", hint=hint)
    return held, path


def asked(spec: AuditSpec, given: Sequence[str], registration: tuple[Registered, Path] | None) -> Asked:
    """Return the gates of a call, parsed.

    Raises
    ------
    InputError
        Where one has not the shape of a gate, or names no estimate of the audit.
    """
    own = [parse(expression, known=spec.estimates) for expression in given]
    if registration is None:
        return Asked(gates=tuple(own), registered=(None,) * len(own), given=bool(own))
    held, path = registration
    criteria = _parsed(held.criteria, f"{path}, key criteria", spec.estimates)
    return _beside(criteria, own, held.cited(path), given=bool(own))


def check_planned(registration: tuple[Registered, Path] | None, planned: Registered) -> None:
    """Check that a run is the one that was registered.

    Raises
    ------
    InputError
        Where an input, the seed, the level or an option differs: the message has both values of each.
    """
    if registration is None:
        return
    held, path = registration
    found = differences(held, planned)
    if found:
        more = len(found) - MOST_SHOWN
        shown = "; ".join(found[:MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise InputError(f"This is not the run that was registered. {shown}.", where=str(path), hint=OTHER_RUN)


def of_finished(wanted: Asked, report: Report, folder: Path) -> Asked:
    """Return the gates for a run that is finished already: its citation and its registered gates stay.

    Raises
    ------
    InputError
        Where it cites another registration, or had begun before the one that is named now was made.
    """
    held, named = report.registration, wanted.registration
    citation = held or named
    if citation is None:
        return wanted
    if held is None:
        _check_order(citation, report, folder)
    elif named is not None and named.sha256 != held.sha256:
        raise _other(held.sha256, folder, "was judged by")
    kept = _parsed([gate.expression for gate in report.gates if gate.registered], str(folder), ())
    # One that is marked as registered, and is not among those of the file that was named, was not: it stays as added.
    added = _parsed([gate.expression for gate in report.gates], str(folder), ())
    criteria = [gate for gate, mark in zip(wanted.gates, wanted.registered, strict=True) if mark]
    own = [gate for gate, mark in zip(wanted.gates, wanted.registered, strict=True) if not mark]
    return _beside(criteria or kept, own if wanted.given else added, citation, given=wanted.given)


def check_folder(wanted: Asked, folder: Path, mark: str, *, force: bool) -> None:
    """Check what an unfinished run, or one that `--force` overwrites, says of registrations.

    Raises
    ------
    InputError
        Where its citation would vanish, or where criteria were made after it had begun.
    """
    citation = wanted.registration
    _check_unfinished(citation, folder, mark, force=force)
    old = folders.overwritten(folder) if force else None
    cites = old.registration.sha256 if old is not None and old.registration is not None else None
    if cites is not None and citation is None:
        raise _vanishing(cites, folder)
    # A run made anew gives the same numbers, so that what is registered after the first is registered after both.
    if old is not None and citation is not None and fingerprint_of(old) == mark:
        _check_order(citation, old, folder)


def _check_unfinished(citation: Registration | None, folder: Path, mark: str, *, force: bool) -> None:
    begun = folders.begun(folder)
    # An unfinished run of other settings is refused elsewhere, where it is not overwritten.
    if begun is None or (begun.mark != mark and not force):
        return
    if citation is None:
        if begun.registration is not None:
            raise _vanishing(begun.registration, folder)
    elif begun.mark == mark and begun.registration != citation.sha256:
        if begun.registration is not None and not force:
            raise _other(begun.registration, folder, "was begun under")
        if moment(citation.created).timestamp() > begun.at:
            raise _late(citation, folder, "The unfinished run in this folder had begun")


def _check_order(citation: Registration, report: Report, folder: Path) -> None:
    try:
        began_at = began(report)
    except ValueError as error:
        raise InputError(
            f"It cannot be told when the run began: {error}.", where=f"{folder}", hint=MADE_BY_MILES
        ) from None
    if moment(citation.created) >= began_at:
        raise _late(citation, folder, f"The run in this folder, finished at {report.created}, had begun")


def _late(registration: Registration, folder: Path, what: str) -> InputError:
    message = f"{what} before the criteria were registered, at {registration.created}."
    hint = f"Give the criteria with --fail-if, without {OPTION}: they were added after the run."
    return InputError(message, where=f"{folder}, {registration.file}", hint=hint)


def _other(digest: str, folder: Path, how: str) -> InputError:
    message = f"The run in this folder {how} another registration, {digest[:12]}…."
    return InputError(message, where=str(folder), hint="Name that one, or another folder with --out.")


def _vanishing(digest: str, folder: Path) -> InputError:
    message = f"The run in this folder cites the registration {digest[:12]}…, which would vanish from it."
    hint = f"Name the registration with {OPTION}, or another folder with --out."
    return InputError(message, where=str(folder), hint=hint)


def _parsed(expressions: Iterable[str], where: str, known: Sequence[str]) -> list[Gate]:
    with _blamed(where):
        return [parse(expression, known=known) for expression in expressions]


@contextmanager
def _blamed(where: str) -> Iterator[None]:
    """Say in a refusal of a gate where it stands."""
    try:
        yield
    except InputError as error:
        error.where = where
        raise


def _beside(criteria: list[Gate], own: list[Gate], citation: Registration, *, given: bool) -> Asked:
    """Put gates beside those registered; one that says the same as a registered one is that one."""
    known = {_meaning(gate) for gate in criteria}
    added = [gate for gate in own if _meaning(gate) not in known]
    return Asked(
        gates=(*criteria, *added),
        registered=(*(True for _ in criteria), *(False for _ in added)),
        registration=citation,
        given=given,
    )


def _meaning(gate: Gate) -> tuple[object, ...]:
    return gate.name, frozenset(gate.keys), gate.field, gate.op, gate.number
