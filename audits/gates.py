"""Does the report pass? `--fail-if 'gap[by=accent].low > 0.05'` read and judged.

Grammar: name[key=value,key=value].field OP number. The field is value (default), low or high; a gate
fails if ANY estimate that it selects makes the expression true.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audits.records import Coordinate, Estimate, GateResult
from probes.errors import InputError

_SHAPE = re.compile(
    r"^\s*(?P<name>[A-Za-z_]\w*)\s*(?:\[(?P<keys>.*)\])?\s*(?:\.(?P<field>value|low|high))?\s*"
    r"(?P<op><=|>=|==|!=|<|>)\s*(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*$"
)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A gate that was read and can be judged."""

    expression: str
    name: str
    keys: tuple[tuple[str, str], ...]
    field: str
    op: str
    number: float


def parse(expression: str, *, known: Sequence[str] = ()) -> Gate:
    """Read one gate; `known` are the names of estimates that it may use, if they are known beforehand.

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
    match = _SHAPE.match(expression)
    if match is None:
        raise InputError(
            f"The gate {expression!r} cannot be read.",
            where="--fail-if",
            hint="Write name[key=value,key=value].field OP number, such as 'gap[by=accent].low > 0.05'.",
        )
    if known and match["name"] not in known:
        raise InputError(
            f"The gate {expression!r} names no estimate of this audit.",
            where="--fail-if",
            hint=f"There are: {', '.join(known)}.",
        )
    keys = []
    # A comma separates two conditions only where another key follows: group names may hold commas.
    for part in re.split(r",(?=\s*[A-Za-z_]\w*\s*=)", match["keys"]) if match["keys"] else []:
        key, found, value = part.partition("=")
        if not found or not key.strip():
            raise InputError(f"The condition {part!r} of the gate {expression!r} is not key=value.", where="--fail-if")
        keys.append((key.strip(), value.strip()))
    return Gate(
        expression=expression,
        name=match["name"],
        keys=tuple(keys),
        field=match["field"] or "value",
        op=match["op"],
        number=float(match["number"]),
    )


def judge(gate: Gate, estimates: Sequence[Estimate]) -> GateResult:
    """Evaluate a gate over the estimates.

    Raises
    ------
    InputError
        Where it selects nothing, or an estimate that has no interval to judge.
    """
    rows = [index for index, row in enumerate(estimates) if selects(gate, row)]
    if not rows:
        raise InputError(
            f"The gate {gate.expression!r} selects no estimate.",
            where="--fail-if",
            hint=_nearest(gate, estimates),
        )
    compare = _OPERATORS[gate.op]
    broken = [compare(_field(estimates[index], gate), gate.number) for index in rows]
    return GateResult(expression=gate.expression, outcome="fail" if any(broken) else "pass", rows=tuple(rows))


def selects(gate: Gate, row: Estimate) -> bool:
    """Tell whether an estimate has the name and all the coordinates of a gate."""
    return row.name == gate.name and all(_matches(row.where.get(key), value) for key, value in gate.keys)


def _matches(found: Coordinate | None, wanted: str) -> bool:
    if found is None:
        return False
    if isinstance(found, str):
        return found == wanted
    try:
        return float(found) == float(wanted)
    except ValueError:
        return False


def _field(row: Estimate, gate: Gate) -> float:
    end = getattr(row, gate.field)
    if end is not None:
        return float(end)
    if row.method == "exact":
        return row.value
    raise InputError(
        f"The gate {gate.expression!r} asks for the interval of {row.name} {dict(row.where)}: it has none.",
        where="--fail-if",
        hint="Select other rows, or judge the value; the report's warnings say why there is no interval.",
    )


def _nearest(gate: Gate, estimates: Sequence[Estimate]) -> str:
    same = [row for row in estimates if row.name == gate.name]
    if not same:
        return "There are: " + ", ".join(sorted({row.name for row in estimates})) + "."
    for key, wanted in gate.keys:
        values = {str(row.where[key]) for row in same if key in row.where}
        if wanted not in values:
            known = ", ".join(sorted(values)[:12]) if values else "no such key"
            return f"{gate.name} has {key}: {known}."
    return f"No {gate.name} has all of these conditions at once."
