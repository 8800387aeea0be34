"""Gates: conditions such as `--fail-if 'gap[by=accent].low > 0.05'`, read and evaluated on a report.

Grammar: name[key=value,key=value].field OP number. The field is value (default), low or high; a gate
fails if ANY estimate that it selects makes the expression true. The name `findings`, with the key severity, stands for
how many findings there are.
"""

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

from audits.core.measures import Measure
from audits.core.numbers import coordinate
from audits.core.records import SEVERITIES, Coordinate, Estimate, Finding, GateResult, Warning
from probes.core.errors import InputError

_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*")
# No text matches in two ways, so the patterns never backtrack and parsing takes linear time.
_JUDGED = re.compile(
    r"(?:\.(?P<field>value|low|high)\s*)?(?P<op><=|>=|==|!=|<|>)\s*"
    # Digits of other scripts are numbers too, and some look like another digit.
    r"(?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


MOST_LETTERS = 1000
"""Maximal length of an expression."""

MOST_SHOWN = 200
"""Length to which a longer one, from somebody else's report, is cut in messages."""

MOST_LISTED = 12
"""Values that an error message suggests, the nearest ones."""

MOST_REASONS = 3
"""Warnings that an error message quotes."""

FINDINGS = "findings"
"""The name that stands for the count of findings; no estimate may have it."""

GATE = "--fail-if"
"""The option by which gates are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A selection of estimates: name[key=value,key=value]."""

    text: str
    name: str
    keys: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A parsed gate."""

    expression: str
    name: str
    keys: tuple[tuple[str, str], ...]
    field: str
    op: str
    number: float


def parse(expression: str, *, known: Sequence[str] = ()) -> Gate:
    """Parse one gate; `known` are the names of estimates that it may use, if they are known beforehand.

    Raises
    ------
    InputError
        Where the expression has not the shape of a gate, or names no estimate.

    Examples
    --------
    >>> gate = parse("gap[by=accent,kind=absolute].low > 0.05")
    >>> gate.name, gate.keys, gate.field, gate.op, gate.number
    ('gap', (('by', 'accent'), ('kind', 'absolute')), 'low', '>', 0.05)
    """
    _check_length(expression, "gate", GATE)
    name, inside, tail = _rows(expression) or ("", None, "")
    judged = _JUDGED.fullmatch(tail)
    if not name or judged is None:
        raise InputError(
            f"The gate {expression!r} cannot be read.",
            where=GATE,
            hint="Write name[key=value,key=value].field OP number, such as 'gap[by=accent].low > 0.05'.",
        )
    keys = _conditions(inside, f"the gate {expression!r}", GATE)
    field = judged["field"] or "value"
    if name == FINDINGS:
        _check_findings(keys, field, expression)
    elif known and name not in known:
        raise InputError(
            f"The gate {expression!r} names no estimate of this audit.",
            where=GATE,
            hint=f"There are: {', '.join((*known, FINDINGS))}.",
        )
    return Gate(
        expression=expression,
        name=name,
        keys=keys,
        field=field,
        op=judged["op"],
        number=float(judged["number"]),
    )


def abridged(expression: str) -> str:
    """Return an expression for display, cut where it is longer than a gate may be.

    Examples
    --------
    >>> abridged("gap > 0"), len(abridged("x" * 70_000))
    ('gap > 0', 218)
    """
    if len(expression) <= MOST_LETTERS:
        return expression
    return f"{expression[:MOST_SHOWN]}… ({len(expression):,} letters)"


def _check_length(text: str, what: str, where: str) -> None:
    if len(text) > MOST_LETTERS:
        raise InputError(
            f"The {what} {text[:40]!r}... has {len(text):,} letters; {MOST_LETTERS:,} are the most.",
            where=where,
            hint="Write a shorter one.",
        )


def _rows(text: str) -> tuple[str, str | None, str] | None:
    """Split a gate into name, conditions and the rest; None where the text does not begin like a gate."""
    named = _NAME.match(text)
    if named is None:
        return None
    if not text.startswith("[", named.end()):
        return named[1], None, text[named.end() :].strip()
    # Conditions end at the last bracket, since names of groups may contain brackets.
    end = text.rfind("]")
    inside = text[named.end() + 1 : end]
    return None if end < 0 or "\n" in inside else (named[1], inside, text[end + 1 :].strip())


def _check_findings(keys: tuple[tuple[str, str], ...], field: str, expression: str) -> None:
    """Refuse conditions that no finding can meet: a typing error must not make a gate that always passes."""
    if field != "value" or any(k != "severity" or v not in SEVERITIES for k, v in keys):
        raise InputError(
            f"The gate {expression!r} cannot be read: findings are counted, all of them or those of a severity.",
            where=GATE,
            hint=f"Write findings[severity=high] > 0; severities are {', '.join(SEVERITIES)}.",
        )


def parse_selection(text: str, *, where: str) -> Selection:
    """Parse a selection of estimates: a gate without field, operator and number.

    Raises
    ------
    InputError
        Where the text has not that shape; `where` is the option to blame.

    Examples
    --------
    >>> parse_selection("gap[by=accent]", where="--only").keys
    (('by', 'accent'),)
    """
    _check_length(text, "selection", where)
    found = _rows(text)
    if found is None or found[2]:
        raise InputError(
            f"{text!r} cannot be read.",
            where=where,
            hint="Write name or name[key=value,key=value], such as 'gap[by=accent]'.",
        )
    return Selection(text=text, name=found[0], keys=_conditions(found[1], repr(text), where))


def _conditions(text: str | None, whole: str, where: str) -> tuple[tuple[str, str], ...]:
    keys = []
    # A comma separates conditions only if another key follows: names of groups may contain commas.
    for part in re.split(r",(?=\s*[A-Za-z_]\w*\s*=)", text) if text else []:
        key, found, value = part.partition("=")
        if not found or not key.strip():
            raise InputError(
                f"The condition {part!r} of {whole} is not key=value.",
                where=where,
                hint="Write a key of the estimate, =, and its value, such as by=accent.",
            )
        keys.append((key.strip(), value.strip()))
    return tuple(keys)


def check_coordinates(
    gate: Gate, coordinates: Mapping[str, Sequence[Coordinate]], measures: Mapping[str, Measure] = MappingProxyType({})
) -> None:
    """Refuse a gate on a coordinate that no estimate of the run can have.

    Parameters
    ----------
    coordinates
        Every key that an estimate of the run can have, with its values; empty: not known.
    measures
        What the audit declares, with the keys of each name; empty: not known.

    Raises
    ------
    InputError
        Where a key or a value of the gate is not among them.
    """
    if gate.name in measures and not measures[gate.name].gated:
        message = f"The gate {gate.expression!r} rests on {gate.name}, which a worse model can have the better of."
        hint = "Gate a proper score or a finding instead, such as findings[severity=high] > 0."
        raise InputError(message, where=GATE, hint=hint)
    # First what the name can have: among the keys of all names the reader would have to search.
    for key, _ in gate.keys if gate.name in measures else ():
        if key not in measures[gate.name].keys:
            raise InputError(
                f"The gate {gate.expression!r} names the key {key!r}, which no {gate.name} has.",
                where=GATE,
                hint=f"{gate.name} has: {_listed(key, measures[gate.name].keys)}.",
            )
    for key, wanted in gate.keys if coordinates and gate.name != FINDINGS else ():
        if key not in coordinates:
            raise InputError(
                f"The gate {gate.expression!r} names the key {key!r}, which no estimate of this run has.",
                where=GATE,
                hint=f"There are: {_listed(key, coordinates)}.",
            )
        if not any(_matches(value, wanted) for value in coordinates[key]):
            raise InputError(
                f"The gate {gate.expression!r} asks for {key}={wanted}, which no estimate of this run has.",
                where=GATE,
                hint=f"{key} can be: {_listed(wanted, coordinates[key])}.",
            )


def judge(
    gate: Gate,
    estimates: Sequence[Estimate],
    warnings: Sequence[Warning] = (),
    findings: Sequence[Finding] = (),
) -> GateResult:
    """Evaluate a gate over the estimates or the findings; `warnings` may explain why an estimate is missing.

    Raises
    ------
    InputError
        Where it selects nothing, or an estimate that has no interval to judge.
    """
    compare = _OPERATORS[gate.op]
    if gate.name == FINDINGS:
        counted = _counted(gate, findings)
        evidence = sorted({row for finding in counted for row in finding.evidence})
        outcome: Literal["pass", "fail"] = "fail" if compare(len(counted), gate.number) else "pass"
        return GateResult(expression=gate.expression, outcome=outcome, rows=tuple(evidence))
    rows = [index for index, row in enumerate(estimates) if selects(gate, row)]
    if not rows:
        raise InputError(
            " ".join((f"The gate {gate.expression!r} selects no estimate.", *_reasons(gate, estimates, warnings))),
            where=GATE,
            hint=nearest(gate, estimates),
        )
    broken = [compare(_field(estimates[index], gate), gate.number) for index in rows]
    return GateResult(expression=gate.expression, outcome="fail" if any(broken) else "pass", rows=tuple(rows))


def counted_findings(expression: str, findings: Sequence[Finding]) -> list[Finding] | None:
    """Return the findings that a gate counts; None for a gate on estimates, or one that another program wrote."""
    try:
        gate = parse(expression)
    except InputError:
        return None
    return _counted(gate, findings) if gate.name == FINDINGS else None


def _counted(gate: Gate, findings: Sequence[Finding]) -> list[Finding]:
    return [row for row in findings if all(row.severity == severity for _, severity in gate.keys)]


def breaking(result: GateResult, estimates: Sequence[Estimate]) -> list[int]:
    """Return the indices of the estimates that made a gate fail; none where it passed.

    Where that cannot be told, as of an expression that another program wrote, all that it looked at are returned.
    """
    if result.outcome == "pass":
        return []
    try:
        gate = parse(result.expression)
        found = [row for row in result.rows if judge(gate, [estimates[row]]).outcome == "fail"]
    except InputError:
        found = []
    return found or list(result.rows)


def selects(gate: Gate | Selection, row: Estimate) -> bool:
    """Tell whether an estimate has the name and all the coordinates of a gate or a selection."""
    return row.name == gate.name and all(_matches(row.where.get(key), value) for key, value in gate.keys)


def _matches(found: Coordinate | None, wanted: str) -> bool:
    if found is None:
        return False
    if isinstance(found, str):
        return found == wanted
    try:
        return wanted.isascii() and float(found) == float(wanted)
    except ValueError:
        return False


def _field(row: Estimate, gate: Gate) -> float:
    end = getattr(row, gate.field)
    if end is not None:
        return float(end)
    # An exact number is both ends of its own interval.
    if row.method == "exact":
        return row.value
    raise InputError(
        f"The gate {gate.expression!r} asks for the interval of {row.name} {dict(row.where)}: it has none.",
        where=GATE,
        hint="Select other rows, or judge the value; the report's warnings say why there is no interval.",
    )


def nearest(gate: Gate | Selection, estimates: Sequence[Estimate]) -> str:
    """Return a hint for a gate that selects nothing: what it could have selected, the nearest first."""
    same = [row for row in estimates if row.name == gate.name]
    if not same:
        return f"There are: {_listed(gate.name, {row.name for row in estimates})}."
    coordinates: dict[str, set[Coordinate]] = {}
    for row in same:
        for key, value in row.where.items():
            coordinates.setdefault(key, set()).add(value)
    hints = [_nearest_value(gate.name, key, wanted, coordinates) for key, wanted in gate.keys]
    return " ".join(filter(None, hints)) or (
        f"No {gate.name} has all of these conditions at once. "
        + " ".join(f"{gate.name} has {key}: {_listed('', coordinates[key])}." for key in sorted(coordinates))
    )


def _nearest_value(name: str, key: str, wanted: str, coordinates: Mapping[str, Collection[Coordinate]]) -> str:
    if key not in coordinates:
        return f"{name} has no such key as {key}; it has: {_listed(key, coordinates)}."
    if any(_matches(value, wanted) for value in coordinates[key]):
        return ""
    return f"{name} has {key}: {_listed(wanted, coordinates[key])}."


def _listed(wanted: str, values: Collection[Coordinate]) -> str:
    """Return the values as text, those that are spelt most like `wanted` first."""
    names = sorted({coordinate(value) for value in values}, key=lambda name: (len(name), name))
    close = get_close_matches(wanted, names)
    names = close + [name for name in names if name not in close]
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "") if names else "none"


def _reasons(gate: Gate, estimates: Sequence[Estimate], warnings: Sequence[Warning]) -> list[str]:
    """Return the messages of the warnings that explain why there is no estimate for the gate."""
    found = []
    named = [row for row in estimates if row.name == gate.name]
    for warning in warnings:
        about = dict(warning.where)
        shared = {key: about[key] for key, _ in gate.keys if key in about}
        if not about or any(key in about and not _matches(about[key], wanted) for key, wanted in gate.keys):
            continue
        # A warning without a key of the gate can only explain why there is no estimate of that name at all.
        rows = named if shared else estimates
        if (shared or not named) and not any((shared or about).items() <= row.where.items() for row in rows):
            found.append(warning.message)
    return list(dict.fromkeys(found))[:MOST_REASONS]
