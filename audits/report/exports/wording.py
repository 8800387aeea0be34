"""Rows, intervals and foreign text as plain text, for exports that no page of miles shows."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from audits.core import gates
from audits.core.numbers import LOWER_BOUND, coordinate
from audits.core.records import Coordinate, Estimate, Report
from audits.report.pages import content
from audits.report.report_file import MADE_BY_MILES
from probes.core.errors import InputError

_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def plain(text: str) -> str:
    r"""Return text without the characters that XML cannot hold, that steer a terminal or that reverse the writing.

    Examples
    --------
    >>> plain("a\x1b[31m\x00b\u202e\n")
    'a[31mb\n'
    """
    return _UNWRITABLE.sub("", text)


def line(text: object) -> str:
    """Return foreign text as one plain line."""
    return plain(" ".join(str(text).split()))


def named(name: str, where: Mapping[str, Coordinate]) -> str:
    """Return the selection of a row, as in a gate.

    Examples
    --------
    >>> named("gap", {"layer": 3, "by": "accent"})
    'gap[by=accent,layer=3]'
    """
    conditions = ",".join(f"{key}={coordinate(value)}" for key, value in sorted(where.items()))
    return line(f"{name}[{conditions}]" if conditions else name)


def spelled(where: Mapping[str, Coordinate]) -> dict[str, Coordinate]:
    """Return coordinates with their words as plain lines, and numbers as they are.

    Examples
    --------
    >>> spelled({"layer": 3, "by": "accent\\n"})
    {'by': 'accent', 'layer': 3}
    """
    return {line(key): line(value) if isinstance(value, str) else value for key, value in sorted(where.items())}


def ends(estimate: Estimate) -> dict[str, float]:
    """Return the ends of an interval by name; the upper one of a lower bound is `provable`.

    Examples
    --------
    >>> bound = {"value": 1.5, "low": 1.5, "high": 4.0, "method": "Lower bound: one-sided"}
    >>> ends(Estimate(name="epsilon_lower", **bound, n=9, unit="points"))
    {'low': 1.5, 'provable': 4.0}
    """
    if estimate.low is None or estimate.high is None:
        return {}
    upper = "provable" if estimate.method.startswith(LOWER_BOUND) else "high"
    return {"low": estimate.low, upper: estimate.high}


def carrying(report: Report) -> list[int]:
    """Return the indices of the estimates that findings and gates rest on, those of the findings first."""
    judged = [row for gate in report.gates for row in gate.rows]
    return list(dict.fromkeys([*content.cited(report), *judged]))


def chosen(report: Report, only: Sequence[str]) -> list[int]:
    """Return the indices of the estimates that `--only` selects, or of those that findings and gates rest on.

    Raises
    ------
    InputError
        Where a selection cannot be read or selects nothing.
    """
    if not only:
        return carrying(report)
    found = []
    for text in only:
        selection = gates.parse_selection(text, where="--only")
        rows = [index for index, row in enumerate(report.estimates) if gates.selects(selection, row)]
        if not rows:
            hint = gates.nearest(selection, report.estimates)
            raise InputError(f"{text!r} selects no estimate of this run.", where="--only", hint=hint)
        found += rows
    return list(dict.fromkeys(found))


def outcome(report: Report) -> str:
    """Return "failed", "passed" or "none" for the gates of a report."""
    if not report.gates:
        return "none"
    return "failed" if any(gate.outcome == "fail" for gate in report.gates) else "passed"


def moment(report: Report) -> datetime:
    """Return when the report was made, in UTC.

    Raises
    ------
    InputError
        Where that is no time.
    """
    try:
        found = datetime.fromisoformat(report.created)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"The report was made at no time: {line(report.created)}.", where="key created", hint=MADE_BY_MILES
        ) from error
