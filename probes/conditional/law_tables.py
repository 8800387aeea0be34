"""Outcomes and laws from tables (CSV, TSV, JSON lines, Parquet): a line for each row, or one for each draw of a row."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from probes.conditional.image_laws import View
from probes.conditional.law_arrays import NEEDED, Spot, find_kind
from probes.conditional.laws import Floats, Ints, Kind
from probes.core.errors import InputError
from probes.files.decimals import plain_float
from probes.files.tables import Table, read_table

_INPUT, _SAMPLE, _QUANTILE = re.compile(r"x_?(\d*)"), re.compile(r"sample_?(\d+)"), re.compile(r"q_?(0?\.\d+)")
_FORMS = (
    "Give columns row, sample and the outcomes, a line for each draw; or a line for each row with sample_0, sample_1; "
    "q0.05, q0.5; mean and std; or lower, upper and level."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TruthTable:
    """Outcomes (n, d), inputs (n, p), and the other columns as text."""

    y: Floats
    x: Floats | None
    columns: Mapping[str, Sequence[str]]
    targets: tuple[str, ...]
    notes: tuple[str, ...]
    spot: Spot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LawTable:
    """Laws of all rows, by the names in `laws.KEYS`."""

    kind: Kind
    arrays: Mapping[str, Floats]
    levels: Floats | None
    level: float | None
    notes: tuple[str, ...]
    spot: Spot


def read_truth_table(path: Path, target: Sequence[str], inputs: Sequence[str], decimal: str | None) -> TruthTable:
    """Read outcomes and inputs; columns of a law that stands beside them are left out.

    Raises
    ------
    InputError
        Where the table cannot be read, lacks a column, or a cell holds no finite number.
    """
    table = read_table(path, decimal)
    if not target:
        raise InputError("Which columns are the outcome is not said.", where=str(path), hint=_named(table, "y"))
    for name in (*target, *inputs):
        if name not in table.columns:
            raise InputError(f"There is no column {name!r}.", where=str(path), hint=_named(table, name))
    twice = next((name for name in target if [*target, *inputs].count(name) > 1), None)
    if twice is not None:
        message = f"The column {twice!r} is named twice, as an outcome and again."
        raise InputError(message, where=str(path), hint="Name each column once.")
    inputs = tuple(inputs) or _default_inputs(table, target)
    table = table.with_points((*target, *inputs))
    taken = {*target, *inputs, *law_columns(table.columns, target), *table.nested}
    others = [name for name in table.columns if name not in taken]
    return TruthTable(
        y=_numbers(table, target),
        x=_numbers(table, inputs) if inputs else None,
        columns={name: [row.values.get(name) or "" for row in table.rows] for name in others},
        targets=tuple(target),
        notes=table.notes,
        spot=partial(_spot, path, [row.line for row in table.rows]),
    )


def _named(table: Table, name: str) -> str:
    return f"Name the columns of the outcome with --target. {table.suggest(name)}"


def _default_inputs(table: Table, target: Sequence[str]) -> tuple[str, ...]:
    """Return columns named x, or x0, x1 and so on, that begin with a number."""
    found = [(int(match[1] or -1), name) for name in table.columns if (match := _INPUT.fullmatch(name))]
    first = table.with_points([name for _, name in found]).rows[0].values
    return tuple(name for _, name in sorted(found) if name not in target and not math.isnan(_number(first.get(name))))


def law_columns(columns: Collection[str], target: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that make a law of each row; () where there is none.

    >>> law_columns(["id", "q0.9", "q0.1", "mean"], ["y"])
    ('q0.1', 'q0.9')
    """
    found = _wide(columns, target)
    return tuple(chain.from_iterable(found[key] for keys in NEEDED.values() if {*keys} <= {*found} for key in keys))


def _wide(columns: Collection[str], target: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each array of a law."""
    drawn = sorted((int(match[1]), name) for name in columns if (match := _SAMPLE.fullmatch(name)))
    levels = sorted((float(match[1]), name) for name in columns if (match := _QUANTILE.fullmatch(name)))
    found = {"samples": tuple(name for _, name in drawn), "quantiles": tuple(name for _, name in levels)}
    for key in ("mean", "std"):
        each = tuple(f"{key}_{name}" for name in target)
        found[key] = each if each and {*each} <= {*columns} else (key,) * (key in columns and len(target) < 2)
    found |= {key: (key,) * (key in columns) for key in ("lower", "upper", "level")}
    return {key: names for key, names in found.items() if names} | ({"levels": ()} if levels else {})


def read_law_table(
    path: Path, view: View, target: Sequence[str], ids: Sequence[str] | None, decimal: str | None
) -> LawTable:
    """Read laws in the order of the data.

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
    table = read_table(path, decimal)
    if {"row", "sample"} <= {*table.columns}:
        names = _outcomes(table, view, target)
        values, lines = _long(table.with_points(names), view.n, names, ids)
        spot = partial(_spot, path, lines)
        arrays = {"samples": values}
        return LawTable(kind="samples", arrays=arrays, levels=None, level=None, notes=table.notes, spot=spot)
    found = _wide(table.columns, target)
    kind = find_kind(found, str(path), f"Its columns are {', '.join(table.columns[:40])}.", _FORMS)
    names = [name for key in NEEDED[kind] for name in found[key]]
    order = _order(table, view.n, ids)
    table = table.with_points(names)
    arrays = {key: _numbers(table, found[key])[order] for key in NEEDED[kind] if key not in ("levels", "level")}
    return LawTable(
        kind=kind,
        arrays=arrays,
        levels=_levels(found["quantiles"]) if kind == "quantiles" else None,
        level=_level(table) if kind == "intervals" else None,
        notes=table.notes,
        spot=partial(_spot, path, [table.rows[index].line for index in order]),
    )


def _outcomes(table: Table, view: View, target: Sequence[str]) -> Sequence[str]:
    """Return the columns that hold draws."""
    count = math.prod(view.shape)
    if target and {*target} <= {*table.columns}:
        return target
    if count == 1 and "value" in table.columns:
        return ("value",)
    missing = next((name for name in target if name not in table.columns), "value")
    if not target and count > 1:
        message = f"Outcomes have {count} values, and which columns hold their draws is not said."
        raise InputError(message, where=str(table.path), hint=f"Name them with --target, or save an NPZ. {_FORMS}")
    hint = f"Draws stand in the columns of the outcome{', or in value' * (count == 1)}. {table.suggest(missing)}"
    raise InputError(f"There is no column {missing!r}.", where=str(table.path), hint=hint)


def _long(table: Table, n: int, names: Sequence[str], ids: Sequence[str] | None) -> tuple[Floats, list[int]]:
    """Return draws (n, K, d) of a table with a line for each, and the first line of each row."""
    rows = _positions(table, n, ids)
    _, draws = np.unique([(row.values.get("sample") or "").strip() for row in table.rows], return_inverse=True)
    order = np.lexsort((draws, rows))
    counts = np.bincount(rows, minlength=n)
    starts = np.cumsum(counts) - counts
    again = np.flatnonzero((np.diff(rows[order]) == 0) & (np.diff(draws[order]) == 0))
    if len(again):
        line = table.rows[order[again[0] + 1]]
        message = f"The draw {line.values.get('sample')!r} of row {line.values.get('row')!r} stands here again."
        raise InputError(message, where=f"{table.path}:{line.line}", hint="Number the draws of a row: 0, 1, 2, ...")
    _check_rows(table, counts, ids)
    usual = int(np.bincount(counts).argmax())
    other = np.flatnonzero(counts != usual)
    if len(other):
        last = table.rows[order[starts[other[0]] + counts[other[0]] - 1]]
        message = f"The row {last.values.get('row')!r} has {counts[other[0]]} draws, and others have {usual}."
        hint = "Give each row as many draws."
        raise InputError(message, where=f"{table.path}:{last.line}", hint=hint)
    values = _numbers(table, names)[order].reshape(n, usual, len(names))
    return values, [table.rows[index].line for index in order[starts]]


def _order(table: Table, n: int, ids: Sequence[str] | None) -> Ints:
    """Return which line of a table with one for each row belongs to each of them."""
    if "row" in table.columns and [row.values.get("row") or "" for row in table.rows] != ids:
        rows = _positions(table, n, ids)
        counts = np.bincount(rows, minlength=n)
        if (counts > 1).any():
            line = table.rows[np.flatnonzero(rows == counts.argmax())[1]]
            message = f"The row {line.values.get('row')!r} stands here again."
            raise InputError(message, where=f"{table.path}:{line.line}", hint="Give one line for each row.")
        _check_rows(table, counts, ids)
        return np.argsort(rows)
    if len(table.rows) != n:
        message = f"The table has {len(table.rows):,} lines, and the data have {n:,} rows."
        hint = "Give one line for each row of the data, in their order."
        raise InputError(message, where=str(table.path), hint=hint)
    return np.arange(n)


def _positions(table: Table, n: int, ids: Sequence[str] | None) -> Ints:
    """Return the row of the data to which each line belongs."""
    known = {_plain(text): index for index, text in enumerate(ids or map(str, range(n)))}
    if len(known) < n:
        hint = "Give each row of the data a name of its own in that column, or name it otherwise."
        raise InputError("The column row of the data names a row twice.", where=str(table.path), hint=hint)
    found = [known.get(_plain(row.values.get("row"))) for row in table.rows]
    if None in found:
        line = table.rows[found.index(None)]
        how = "It is a name in the column row of the data" if ids else f"It counts from 0 to {n - 1}"
        message = f"The data have no row {(line.values.get('row') or '')[:60]!r}."
        raise InputError(message, where=f"{table.path}:{line.line}, row", hint=f"{how}.")
    return np.array(found, dtype=np.int64)


def _plain(text: str | None) -> str:
    # A data frame writes whole numbers as 3.0 where others of the column are missing.
    return (text or "").strip().removesuffix(".0")


def _check_rows(table: Table, counts: Ints, ids: Sequence[str] | None) -> None:
    missing = np.flatnonzero(counts == 0)
    if len(missing):
        named = f"row {ids[missing[0]] if ids else missing[0]}"
        others = f" and {len(missing) - 1:,} others" * (len(missing) > 1)
        message = f"There is no line on {named}{others} of the data."
        raise InputError(message, where=str(table.path), hint="Give a law of each row of the data.")


def _levels(names: Sequence[str]) -> Floats:
    return np.array([float(match[1]) for name in names if (match := _QUANTILE.fullmatch(name))])


def _level(table: Table) -> float:
    values = _numbers(table, ("level",))[:, 0]
    other = np.flatnonzero(values != values[0])
    if len(other):
        message = f"The level is {values[other[0]]:g} here, and {values[0]:g} above."
        where = f"{table.path}:{table.rows[other[0]].line}, level"
        raise InputError(message, where=where, hint="Give each level as a candidate with a file of its own.")
    return float(values[0])


def _numbers(table: Table, names: Sequence[str]) -> Floats:
    """Return columns of numbers, shape (lines, columns); refuse what is no finite number, with its line."""
    found = np.empty((len(table.rows), len(names)))
    for column, name in enumerate(names):
        found[:, column] = [_number(row.values.get(name)) for row in table.rows]
        wrong = np.flatnonzero(~np.isfinite(found[:, column]))
        if len(wrong):
            line = table.rows[wrong[0]]
            text = line.values.get(name) or ""
            hint = table.mark_hint([text], "Write plain numbers, and leave out rows that lack one.", option=True)
            message = f"{text[:60]!r} is no finite number."
            raise InputError(message, where=f"{table.path}:{line.line}, {name}", hint=hint)
    return found


def _number(text: str | None) -> float:
    try:
        return plain_float((text or "").strip())
    except ValueError:
        return math.nan


def _spot(path: Path, lines: Sequence[int], key: str, index: Sequence[int]) -> str:
    return f"{path}:{lines[index[0]]}, {key}" if index else str(path)
