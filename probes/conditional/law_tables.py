"""Outcomes and laws from tables (CSV, TSV, JSON lines, Parquet): a line for each row, or one for each draw of a row."""

import math
import re
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from probes.conditional.image_laws import View
from probes.conditional.law_arrays import MOST, NEEDED, Held, Laws, Numbers, find_kind
from probes.conditional.laws import Floats, Ints
from probes.core.errors import InputError
from probes.files.decimals import plain_float
from probes.files.table_sources import find_table
from probes.files.tables import Table, is_json, read_table

_INPUT, _DRAW = re.compile(r"x_?(\d{0,9})"), re.compile(r"sample_?(\d{1,9})")
CALIBRATION = "calibration_size"
"""Column of how many rows an interval was calibrated on."""
_QUANTILE = re.compile(r"q_?(0?\.\d{1,12})")
_FORMS = (
    "Give columns row, sample and the outcomes, a line for each draw; or a line for each row with sample_0, sample_1; "
    "q0.05, q0.5; mean and std; or lower, upper and level."
)


def read_truth_table(
    path: Path, target: Sequence[str], inputs: Sequence[str], decimal: str | None
) -> tuple[Numbers, Floats | None, dict[str, list[str]], tuple[str, ...]]:
    """Return outcomes (n, d), inputs (n, p), the other columns as text, and notes.

    Columns of a law that stands beside the outcomes are left out.

    Raises
    ------
    InputError
        Where the table cannot be read, lacks a column, or a cell holds no finite number.
    """
    table = read_table(path, decimal)
    named = [*target, *inputs]
    missing = next((name for name in named if name not in table.columns), None)
    if missing or not target:
        message = f"There is no column {missing!r}." if missing else "Which column is the outcome is not said."
        raise _refusal(table, message, f"Name the outcome with --target. {table.suggest(missing or 'y')}")
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise _refusal(table, f"The column {twice!r} is named twice.", "Name each column once.")
    inputs = inputs or _default_inputs(table, target)
    table = table.with_points((*target, *inputs))
    taken = {*target, *inputs, *law_columns(table.columns, target), *table.nested}
    return (
        _held(table, "y", _numbers(table, target)),
        _numbers(table, inputs) if inputs else None,
        {name: [row.values.get(name) or "" for row in table.rows] for name in table.columns if name not in taken},
        table.notes,
    )


def _default_inputs(table: Table, target: Sequence[str]) -> list[str]:
    """Return columns named x, or x0, x1 and so on, that begin with a number."""
    found = sorted((int(match[1] or -1), name) for name in table.columns if (match := _INPUT.fullmatch(name)))
    names = [name for _, name in found if name not in target]
    first = table.with_points(names).rows[0].values
    return [name for name in names if not math.isnan(_number(first.get(name)))]


def law_columns(columns: Collection[str], target: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that make a law of each row; () where there is none.

    >>> law_columns(["id", "q0.9", "q0.1", "mean"], ["y"])
    ('q0.1', 'q0.9')
    """
    found = _wide(columns, target)
    return tuple(name for keys in NEEDED.values() if {*keys} <= {*found} for key in keys for name in found[key])


def _wide(columns: Collection[str], target: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each array of a law."""
    found = {}
    for key, form in (("samples", _DRAW), ("quantiles", _QUANTILE)):
        matches = sorted((float(match[1]), name) for name in columns if (match := form.fullmatch(name)))
        found[key] = [name for _, name in matches]
    for key in ("mean", "std"):
        each = [f"{key}_{name}" for name in target]
        found[key] = each if each and {*each} <= {*columns} else [key] * (key in columns and len(target) < 2)
    found |= {key: [key] * (key in columns) for key in ("lower", "upper", "level")}
    return {key: names for key, names in found.items() if names} | ({"levels": []} if found["quantiles"] else {})


def read_law_table(
    path: Path, view: View, target: Sequence[str], ids: Sequence[str] | None, decimal: str | None
) -> tuple[Laws, tuple[str, ...]]:
    """Return laws in the order of the data, and notes.

    Parameters
    ----------
    target
        Names of the outcomes, where they have some.
    ids
        The column `row` of the data, where they have one; else `row` counts from 0.

    Raises
    ------
    InputError
        Where the table cannot be read, holds no law or two, or its lines do not fit the rows.
    """
    # The mark is that of the data or of another candidate where this file can have none.
    source = find_table(path)
    table = read_table(path, None if source.is_arrow or is_json(source.file) else decimal)
    if {"row", "sample"} <= {*table.columns}:
        names = _outcomes(table, view, target)
        order, draws = _arranged(table, view.n, ids, [row.values.get("sample") or "" for row in table.rows])
        values = _numbers(table.with_points(names), names)[order].reshape(view.n, draws, len(names))
        return Laws(kind="samples", numbers={"samples": _held(table, "samples", values)}, view=view), table.notes
    found = _wide(table.columns, target)
    kind = find_kind(found, str(path), f"Its columns are {', '.join(table.columns[:40])}.", _FORMS)
    table = table.with_points([name for key in NEEDED[kind] for name in found[key]])
    order, _ = _arranged(table, view.n, ids, None)
    keys = [key for key in NEEDED[kind] if key not in ("levels", "level")]
    laws = Laws(
        kind=kind,
        numbers={key: _held(table, key, _numbers(table, found[key])[order], order) for key in keys},
        view=view,
        levels=np.array([float(name.lstrip("q_")) for name in found["quantiles"]]) if kind == "quantiles" else None,
        level=_single(table, "level", "level") if kind == "intervals" else None,
        calibration=_calibration(table) if kind == "intervals" and CALIBRATION in table.columns else 0,
    )
    return laws, table.notes


def _outcomes(table: Table, view: View, target: Sequence[str]) -> Sequence[str]:
    """Return the columns that hold draws."""
    single = math.prod(view.shape) == 1
    if target and {*target} <= {*table.columns}:
        return target
    if single and "value" in table.columns:
        return ("value",)
    missing = next((name for name in target if name not in table.columns), "value")
    hint = f"Name the outcomes with --target{', or call the column value' * single}. {table.suggest(missing)}"
    raise _refusal(table, f"Draws of {math.prod(view.shape)} values stand in no columns that are known.", hint)


def _arranged(table: Table, n: int, ids: Sequence[str] | None, draws: Sequence[str] | None) -> tuple[Ints, int]:
    """Return lines in the order of the data, with the draws of a row in one order, and how many each row has.

    `draws` names the draw of each line; None: a line is a row.
    """
    rows = _positions(table, n, ids)
    known = {text: number for number, text in enumerate(dict.fromkeys(draws or ()))}
    numbers = np.array([known[text] for text in draws]) if draws else np.zeros(len(rows), dtype=np.int64)
    order = np.lexsort((numbers, rows))
    again = np.flatnonzero((np.diff(rows[order]) == 0) & (np.diff(numbers[order]) == 0))
    if len(again):
        line = int(order[again[0] + 1])
        what = f"The draw {draws[line][:60]!r} of row" if draws else "The row"
        hint = "Number the draws of a row: 0, 1, 2." if draws else "Give one line for each row."
        raise _refusal(table, f"{what} {_cell(table, line)} stands here again.", hint, line)
    counts = np.bincount(rows, minlength=n)
    missing = np.flatnonzero(counts == 0)
    if len(missing):
        message = f"There is no line on row {ids[missing[0]] if ids else missing[0]} of the data"
        others = f", and none on {len(missing) - 1:,} others" * (len(missing) > 1)
        raise _refusal(table, f"{message}{others}.", "Give a law of each row of the data.")
    usual = int(np.bincount(counts).argmax())
    other = np.flatnonzero(counts != usual)
    if len(other):
        line = int(order[counts[: other[0] + 1].sum() - 1])
        message = f"The row {_cell(table, line)} has {counts[other[0]]} draws, and others have {usual}."
        raise _refusal(table, message, "Give each row as many draws.", line)
    return order, usual


def _positions(table: Table, n: int, ids: Sequence[str] | None) -> Ints:
    """Return the row of the data to which each line belongs: as its column `row` says, or in their order."""
    if "row" not in table.columns or [row.values.get("row") or "" for row in table.rows] == ids:
        if len(table.rows) != n:
            message = f"The table has {len(table.rows):,} lines, and the data have {n:,} rows."
            raise _refusal(table, message, "Give one line for each row of the data, in their order.")
        return np.arange(n)
    known = {_plain(text): index for index, text in enumerate(ids or map(str, range(n)))}
    if len(known) < n:
        hint = "Give each row of the data a name of its own in that column, or name the column otherwise."
        raise _refusal(table, "The column row of the data names a row twice.", hint)
    found = [known.get(_plain(row.values.get("row"))) for row in table.rows]
    if None in found:
        line = found.index(None)
        hint = "Write the names in the column row of the data." if ids else f"Count rows from 0 to {n - 1}."
        raise _refusal(table, f"The data have no row {_cell(table, line)}.", hint, line)
    return np.array(found, dtype=np.int64)


def _plain(text: str | None) -> str:
    # A data frame writes whole numbers as 3.0 where others of the column are missing.
    return (text or "").strip().removesuffix(".0")


def _cell(table: Table, line: int, name: str = "row") -> str:
    return repr((table.rows[line].values.get(name) or "")[:60])


def _single(table: Table, name: str, what: str) -> float:
    values = _numbers(table, (name,))[:, 0]
    other = np.flatnonzero(values != values[0])
    if len(other):
        message = f"The {what} is {values[other[0]]:g} here, and {values[0]:g} above."
        raise _refusal(table, message, f"Give each {what} as a candidate with a file of its own.", int(other[0]))
    return float(values[0])


def _calibration(table: Table) -> int:
    size = _single(table, CALIBRATION, "number of rows of the calibration")
    if size < 0 or size % 1:
        raise _refusal(table, f"{size:g} is no number of rows.", f"Give a whole number as {CALIBRATION}.", 0)
    return int(size)


def _numbers(table: Table, names: Sequence[str]) -> Floats:
    """Return columns of numbers, shape (lines, columns); refuse what is no finite number, with its line."""
    found = np.empty((len(table.rows), len(names)))
    for column, name in enumerate(names):
        found[:, column] = [_number(row.values.get(name)) for row in table.rows]
        wrong = np.flatnonzero(~(np.abs(found[:, column]) <= MOST))
        if len(wrong):
            text, usual = (
                table.rows[wrong[0]].values.get(name) or "",
                "Write plain numbers; leave out rows without one.",
            )
            hint = table.mark_hint([text], usual, option=True)
            message = f"{_cell(table, wrong[0], name)} is no number up to {MOST:g} in the column {name!r}."
            raise _refusal(table, message, hint, int(wrong[0]))
    return found


def _number(text: str | None) -> float:
    try:
        return plain_float((text or "").strip())
    except ValueError:
        return math.nan


def _held(table: Table, key: str, values: Floats, order: Ints | None = None) -> Numbers:
    lines = [table.rows[index].line for index in (range(len(table.rows)) if order is None else order)]
    return Numbers(key, Held(values), partial(_spot, table.path, lines))


def _spot(path: Path, lines: Sequence[int], key: str, index: Sequence[int]) -> str:
    return f"{path}:{lines[index[0]]}, {key}" if index else str(path)


def _refusal(table: Table, message: str, hint: str, line: int | None = None) -> InputError:
    where = str(table.path) if line is None else f"{table.path}:{table.rows[line].line}"
    return InputError(message, where=where, hint=hint)
