"""What an export is about where the form has room for one model: its name, and the estimates that are of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audits.core.numbers import coordinate
from audits.core.records import Coordinate, Report
from audits.report.exports.places import file_name
from audits.report.exports.wording import chosen, line
from probes.core.errors import InputError

SYSTEMS = ("system", "candidate", "log")
"""Coordinates that tell several models of one run apart."""

MOST_NAMES = 5
"""Names that a refusal lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What an export is about.

    Parameters
    ----------
    name
        The model; None where the run audited data and nobody named one.
    system
        The one of several systems of the run; None where none was asked for.
    rows
        Indices of the estimates to export.
    """

    name: str | None
    system: str | None
    rows: tuple[int, ...]

    def holds(self, where: Mapping[str, Coordinate]) -> bool:
        """Tell whether something at these coordinates concerns the system, or no system in particular."""
        return self.system is None or all(coordinate(where[key]) == self.system for key in SYSTEMS if key in where)


def about(report: Report, *, only: Sequence[str] = (), system: str | None = None, name: str | None = None) -> About:
    """Return the model and its estimates.

    Parameters
    ----------
    only
        Selections of estimates, as in a gate. Empty: those that findings and gates rest on.
    system
        The system of the run that the export is about. Estimates of no system or of another are left out.
    name
        The name of the model. None: the system, or the last part of the audited model's path.

    Raises
    ------
    InputError
        Where a selection selects nothing, the run has no such system, or one model would get the numbers of several.
    """
    rows = chosen(report, only)
    if system is not None:
        rows = _of(report, rows, system)
    found = name or system or own_name(report)
    held = systems(report, rows)
    if found is not None and len(held) > 1:
        raise InputError(
            f"The estimates are of {len(held)} systems, and this is about one model.",
            where="--system",
            hint=f"Name one of them: {listed(held)}.",
        )
    return About(name=found, system=system, rows=tuple(rows))


def own_name(report: Report) -> str | None:
    """Return the last part of the audited model's path; None where the run audited data."""
    return line(file_name(report.subject.path, report.provenance.platform)) or None if report.subject else None


def _of(report: Report, rows: Sequence[int], system: str) -> list[int]:
    names = systems(report, range(len(report.estimates)))
    if system not in names:
        hint = f"There are: {listed(names)}." if names else "Leave it out: the run audited one model, or data."
        raise InputError(f"The run has no system {line(system)!r}.", where="--system", hint=hint)
    found = [row for row in rows if system in systems(report, [row])]
    if not found:
        key = next(key for row in report.estimates for key in SYSTEMS if key in row.where)
        raise InputError(
            f"None of the chosen estimates is of {line(system)}.",
            where="--system",
            hint=f"Choose some with --only, such as --only 'NAME[{key}={line(system)}]'.",
        )
    return found


def systems(report: Report, rows: Sequence[int]) -> list[str]:
    """Return the systems of these estimates, in order of appearance."""
    wheres = [report.estimates[row].where for row in rows]
    return list(dict.fromkeys(coordinate(where[key]) for where in wheres for key in SYSTEMS if key in where))


def listed(names: Sequence[str]) -> str:
    """Return the first of these names, and how many there are besides.

    Examples
    --------
    >>> listed(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d, e and 1 more'
    """
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(line(name) for name in names[:MOST_NAMES]) + more
