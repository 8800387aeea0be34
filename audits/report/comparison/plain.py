"""A comparison as plain values for programs: `miles.comparison/1`."""

from collections.abc import Sequence
from typing import Any

from audits.core.records import Estimate
from audits.report.comparison.changes import Change, key_of
from audits.report.comparison.comparing import Comparison
from audits.report.comparison.matrix import Cell, Matrix, matrix_of
from audits.report.comparison.wording import counts, heading, notes

SCHEMA = "miles.comparison/1"


def to_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return comparisons with one first run as plain values."""
    first = comparisons[0].before
    return {
        "schema": SCHEMA,
        "audit": first.report.audit,
        "before": first.name,
        "runs": [*map(_run, comparisons)],
        "matrix": _matrix(matrix_of(comparisons)),
    }


def _run(found: Comparison) -> dict[str, Any]:
    other = found.differing
    records = None if found.records is None else dict(zip(("both", "before", "after"), found.records, strict=True))
    sides = ("before", "after")
    return {
        "after": found.after.name,
        "same": found.same,
        "level": found.level,
        "statement": heading(found),
        "notes": [*notes(found), *counts([found])],
        "differing": {
            "model": other.model,
            "data": list(other.data),
            "settings": [{"name": key, "before": old, "after": new} for key, old, new in other.settings],
            "version": other.version,
            "surroundings": [{"name": name, "before": old, "after": new} for name, old, new in other.surroundings],
        },
        "records": records,
        "estimates_in_one_run": dict(zip(sides, map(len, found.alone), strict=True)),
        "alone": {side: [*map(_place, rows)] for side, rows in zip(sides, found.alone, strict=True)},
        "renamed": [{"before": old, "after": new} for new, old in found.renames.items()],
        "changes": [_change(row) for row in found.rows],
    }


def _place(row: Estimate) -> dict[str, Any]:
    name, where = key_of(row)
    return {"name": name, "where": dict(where)}


def _change(row: Change) -> dict[str, Any]:
    value, low, high = row.difference or (row.moved, None, None)
    return {
        "name": row.name,
        "where": dict(row.where),
        "before": row.values[0],
        "after": row.values[1],
        "change": value,
        "low": low,
        "high": high,
        "p": row.p,
        "p_holm": row.p_holm,
        "verdict": row.verdict,
        "worse": row.is_regression,
        "better": row.is_improvement,
        "paired": None if row.matched is None else {"matched": row.matched[0], "of": row.matched[1]},
        "why": row.why,
    }


def _matrix(found: Matrix) -> dict[str, Any]:
    """Return the matrix: every row with a cell for each run, null where the run does not hold the estimate."""
    rows = [
        {"name": line.name, "where": dict(line.where), "main": line.main, "cells": [*map(_cell, line.cells)]}
        for line in found.lines
    ]
    return {"runs": [run.name for run in found.runs], "rows": rows}


def _cell(cell: Cell | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    own = cell.estimate
    return {"value": own.value, "low": own.low, "high": own.high, "change": cell.words or None}
