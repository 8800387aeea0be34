"""Estimates and records of a run as data frames of pandas."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audits.core.records import Report
from audits.report.records_file import MOST_DIGITS, PARQUET, records_file
from audits.report.spreadsheet_cells import bare
from probes.core.errors import InputError
from probes.files.names import suggest
from probes.files.parquet_columns import ParquetColumns

if TYPE_CHECKING:
    import pandas

NUMBERS = ("value", "low", "high", "level", "method", "n", "unit")
"""Columns after the name of an estimate and its coordinates."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?")
"""A number as it is written into records; 007 is what something is called."""
_TRUTH = {"True": True, "False": False}


def estimates_frame(report: Report, name: str | None = None) -> "pandas.DataFrame":
    """Return the estimates, a row each: name, a column for every key of `where`, and what `NUMBERS` names.

    A key that is named like another column, such as `level`, has the column `where.level`. A coordinate that an
    estimate does not have is missing (None), as are both ends (NaN) where it has no interval.

    Parameters
    ----------
    name
        The estimates of this name alone, and only their keys.

    Raises
    ------
    InputError
        Where the report has no estimate of this name.
    """
    import pandas

    rows = [row for row in report.estimates if name in (None, row.name)]
    if name is not None and not rows:
        names = list(dict.fromkeys(row.name for row in report.estimates))
        raise InputError(f"The report has no estimate {name!r}.", where="frame()", hint=suggest(name, names))
    columns: dict[str, list[object]] = {"name": [row.name for row in rows]}
    for key in dict.fromkeys(key for row in rows for key in row.where):
        columns[f"where.{key}" if key in ("name", *NUMBERS) else key] = [row.where.get(key) for row in rows]
    columns |= {column: [getattr(row, column) for row in rows] for column in NUMBERS}
    return pandas.DataFrame(columns).astype({"value": float, "low": float, "high": float, "level": float, "n": int})


def records_frame(folder: Path) -> "pandas.DataFrame":
    """Return the records of a run folder, a row for each item that was judged; an empty cell is missing.

    Texts are as they were, without the apostrophe that keeps a spreadsheet from calculating. A column is of numbers
    where all of its cells are; one with 007 in it, or with more digits than 64 bits hold, is of texts. It is the same
    whether they lie in records.csv or in records.parquet.

    Raises
    ------
    InputError
        Where there is no such file, or it is no table.
    """
    import pandas

    file = records_file(folder)
    hint = "Give a run folder of miles that holds it; if this is one, run the audit again."
    try:
        # A pipe would be waited for.
        if not file.is_file() and file.exists():
            raise ValueError("this is no ordinary file")
        if file.name == PARQUET:
            return _frame_of_parquet(ParquetColumns(file, hint=hint))
        # A group may be named NA, null or nan: only an empty cell is missing.
        frame = pandas.read_csv(file, dtype=str, keep_default_na=False, na_values=[""])
    except pandas.errors.EmptyDataError:
        return pandas.DataFrame()
    except (OSError, ValueError) as error:
        raise InputError(f"The records cannot be read: {error}", where=str(file), hint=hint) from error
    for column in frame.columns:
        frame[column] = _typed(frame[column])
    return frame.rename(columns=bare)


def _frame_of_parquet(held: ParquetColumns) -> "pandas.DataFrame":
    import pandas

    return pandas.DataFrame({name: _column_of(held, name) for name in held.kinds}).rename(columns=bare)


def _column_of(held: ParquetColumns, name: str) -> "pandas.Series[Any]":
    """Return a column as `_typed` returns that of records.csv."""
    import numpy as np
    import pandas

    if held.kinds[name] == "text":
        cells = [text or None for part in held.parts(name) for text in part.values]
        return _typed(pandas.Series(cells, dtype=str))
    parts = [*held.parts(name)]
    values, given = (np.concatenate([getattr(part, key) for part in parts]) for key in ("values", "given"))
    if given.all():
        return pandas.Series(values)
    if held.kinds[name] == "truth":
        return pandas.Series(np.where(given, values.astype(object), np.nan))
    return pandas.Series(np.where(given, values, np.nan))


def _typed(column: "pandas.Series[Any]") -> "pandas.Series[Any]":
    """Return a column of texts as truth, whole or other numbers, or texts, whichever all of its cells are."""
    given = column.dropna()
    cells = given.tolist()
    if cells and all(cell in _TRUTH for cell in cells):
        return column.map(_TRUTH)
    if not all(_NUMBER.fullmatch(cell) for cell in cells):
        return column.map(bare, na_action="ignore")
    whole = [cell for cell in cells if cell.removeprefix("-").isdigit()]
    if any(len(cell.removeprefix("-")) > MOST_DIGITS for cell in whole):
        return column
    return column.astype("int64" if len(whole) == len(column) else float)
