"""Tables of estimates packed as columns of whole numbers, so that twenty thousand rows fit into one page.

Every number travels as an integer with its count of decimals, rounded by the same rule as everywhere else, so that
the script shows the very digits that Markdown and terminal show.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from audits.core.numbers import MOST_DECIMALS, coordinate, decimals, interval, is_rounded, level_of, percent, point
from audits.core.records import Estimate, Json, Report, Warning
from audits.report.pages import content
from audits.report.pages.content import Table
from audits.report.pages.glyphs import equality, scale_of, span

LARGEST = 2**53
"""The largest integer that JavaScript represents exactly."""


def packed_tables(report: Report, most: int) -> list[Json]:
    """Return the tables for the page, each with at most `most` rows and its full count."""
    limits = content.limits(report)
    return [_table(report, table, limits, most) for table in content.tables(report)]


def fitting_tables(report: Report, room: int) -> list[Json]:
    """Return the tables with as many rows each as `room` bytes of JSON hold."""
    most = max((len(table.rows) for table in content.tables(report)), default=0)
    tables = packed_tables(report, most)
    while most > 1 and len(inlined(tables)) > room:
        most //= 2
        tables = packed_tables(report, most)
    return tables


def inlined(value: Any) -> str:
    r"""Return JSON that is safe inside a script element: nothing in it can close the element.

    Examples
    --------
    >>> inlined({"group": "</script>"})
    '{"group":"\\u003c/script>"}'
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return text.replace("<", "\\u003c")


def pack(column: Sequence[Any]) -> Any:
    """Encode a column as one value, as runs, or unchanged, whichever is shortest.

    Examples
    --------
    >>> pack([7, 7, 7]), pack([1, 1, 1, 1, 2, 2]), pack([1, 2, 3])
    ({'all': 7}, {'runs': [1, 4, 2, 2]}, [1, 2, 3])
    """
    runs: list[list[Any]] = []
    for value in column:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    if len(runs) == 1:
        return {"all": runs[0][0]}
    if 2 * len(runs) < len(column):
        return {"runs": [part for run in runs for part in run]}
    return list(column)


class _Codes:
    """Codes of texts, numbered in order of appearance."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.known.setdefault(value, len(self.known))


def _table(report: Report, table: Table, limits: dict[int, list[Warning]], most: int) -> Json:
    rows = table.rows[:most]
    estimates = [report.estimates[index] for index in rows]
    notes, methods, units, levels = _Codes(), _Codes(), _Codes(), _Codes()
    scales, sayings = _Codes(), _Codes()
    note_codes = [tuple(notes(warning.message) for warning in limits.get(index, ())) for index in rows]
    faint = [int(any(warning.id == content.SMALL for warning in limits.get(index, ()))) for index in rows]
    exceptions = {index: _exception(row) for index, row in enumerate(estimates) if _is_exception(row)}
    whole = [[0, None, None] if index in exceptions else _whole(row) for index, row in enumerate(estimates)]
    # A column of numbers without any interval is not headed by a level.
    held = any(row.low is not None for row in estimates)
    packed = {
        "name": table.name,
        "count": len(table.rows),
        "rows": len(rows),
        "keys": list(table.keys),
        "where": [_coordinates(estimates, key) for key in table.keys],
        "decimals": pack([0 if index in exceptions else decimals(row) for index, row in enumerate(estimates)]),
        "value": pack([numbers[0] for numbers in whole]),
        "below": pack([numbers[1] for numbers in whole]),
        "above": pack([numbers[2] for numbers in whole]),
        "odd": exceptions,
        "exact": pack([int(row.method == "exact") for row in estimates]),
        "n": pack([row.n for row in estimates]),
        "method": pack([methods(row.method) for row in estimates]),
        "unit": pack([units(row.unit) for row in estimates]),
        "level": pack([levels(_level(row) if held else "") for row in estimates]),
        "faint": pack(faint),
        "notes": pack([sayings(codes) for codes in note_codes]),
        "scale": pack([scales(scale_of(row)) for row in estimates]),
    }
    names = {"methods": list(methods.known), "units": list(units.known), "levels": list(levels.known)}
    against = equality(estimates[0]) if estimates else None
    axes = _axes(estimates, scales.known)
    return {
        **packed,
        **names,
        "messages": list(notes.known),
        "sayings": [list(codes) for codes in sayings.known],
        "axes": axes,
        "reference": None if against is None else against.value,
    }


def _coordinates(estimates: Iterable[Estimate], key: str) -> Json:
    codes = _Codes()
    column = [codes(coordinate(row.where[key]) if key in row.where else "") for row in estimates]
    return {"codes": pack(column), "values": list(codes.known)}


def _whole(row: Estimate) -> list[int | None]:
    """Return the value and the distances to its ends, as integers in units of the last decimal."""
    scale = 10 ** decimals(row)
    value, low, high = (
        # Round in decimals before scaling, as the text does: scaling first may round a half the other way.
        None if number is None else round(round(number, decimals(row)) * scale)
        for number in (row.value, row.low, row.high)
    )
    if value is None or low is None or high is None:
        return [value, None, None]
    return [value, value - low, high - value]


def _is_exception(row: Estimate) -> bool:
    """Tell whether the script would write a row differently: bounds, and numbers beyond its integers."""
    if not is_rounded(row):
        return True
    ends = [abs(number) for number in (row.value, row.low, row.high) if number is not None]
    return decimals(row) > MOST_DECIMALS or max(ends) * 10 ** decimals(row) >= LARGEST


def _level(row: Estimate) -> str:
    """Return the level of a row, also without an interval, lest it break up a run of one level."""
    return level_of(row) if row.low is not None else percent(row.level)


def _exception(row: Estimate) -> list[Any]:
    return [row.value, row.low, row.high, point(row), interval(row)]


def _axes(estimates: list[Estimate], scales: dict[Any, int]) -> list[list[float]]:
    against = equality(estimates[0]) if estimates else None
    members: list[list[Estimate]] = [[] for _ in scales]
    for row in estimates:
        members[scales[scale_of(row)]].append(row)
    axes = [span(rows, [against]) for rows in members]
    return [[float(f"{axis.low:.6g}"), float(f"{axis.high:.6g}")] for axis in axes]
