"""The records of a run: records.csv, or records.parquet where they are many. Rows are written block by block."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from audits.report.report_file import in_one_step
from audits.report.spreadsheet_cells import guarded
from probes.core.errors import InputError

CSV, PARQUET = "records.csv", "records.parquet"
NAMES = (CSV, PARQUET)
MOST_IN_CSV = 100_000
"""Rows of records.csv; more are written as Parquet where pyarrow is installed."""
MOST_DIGITS = 18
"""Digits of a whole number that 64 bits hold whatever they are."""
_BLOCK = 2**14
"""Rows of a group of Parquet, which are held at a time."""
_LEAST_BEYOND = 10**MOST_DIGITS

Rows = Sequence[Mapping[str, Any]]
Cells = list[Any]


def records_file(folder: Path) -> Path:
    """Return the file of the records in a run folder: records.parquet where it is there, else records.csv.

    Raises
    ------
    InputError
        Where both are there, of which no run makes more than one.
    """
    there = [folder / name for name in NAMES if (folder / name).exists()]
    if len(there) == 2:
        raise InputError(
            f"There are {CSV} and {PARQUET}: a run makes one of them.",
            where=str(folder),
            hint="Move the one away that the run did not make.",
        )
    return there[0] if there else folder / CSV


def write_records(rows: Rows, folder: Path) -> Path:
    """Write the records of a run and return the file: CSV, or Parquet of more than `MOST_IN_CSV` rows.

    Without pyarrow it is CSV always. Every row has the keys of the first; they may be made when they are asked for.
    """
    parquet = _parquet() if len(rows) > MOST_IN_CSV else None
    path = folder / (CSV if parquet is None else PARQUET)
    with in_one_step(path) as file:
        if parquet is None:
            _write_csv(rows, file)
        else:
            _write_parquet(rows, file, parquet)
    return path


def _parquet() -> Any:
    """Return the module that writes Parquet; None where it is not installed, or not whole."""
    with suppress(ImportError):
        from pyarrow import parquet

        return parquet
    return None


def _write_csv(rows: Rows, file: BinaryIO) -> None:
    if not rows:
        return
    names = list(rows[0])
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writerow({name: _harmless(name) for name in names})
    whole = iter(rows)
    while block := list(islice(whole, _BLOCK)):
        writer.writerows({key: _harmless(value) for key, value in row.items()} for row in block)
        file.write(text.getvalue().encode("utf-8"))
        text.seek(0)
        text.truncate()


def _harmless(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula and no reader for a line break."""
    return guarded(_broken(value)) if isinstance(value, str) else value


def _broken(text: str) -> str:
    # The csv module does not quote a bare carriage return, and most readers end the row at one.
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _write_parquet(rows: Rows, file: BinaryIO, parquet: Any) -> None:
    """Write rows in groups of `_BLOCK`; they are gone through twice, first for the types of the columns.

    A column is of whole numbers, of floats or of truth where the audit gave nothing else for it; a cell that is empty
    in CSV is null and says nothing. Whole numbers of more than `MOST_DIGITS` digits, floats that are not finite, and
    mixed columns are texts, as they would stand in CSV.
    """
    import pyarrow

    names = list(rows[0])
    kinds = dict.fromkeys(names, "")
    for columns in _blocks(rows, names):
        for name, cells in columns.items():
            kinds[name] = _joint(kinds[name], _kind(cells))
    types = {"whole": pyarrow.int64(), "number": pyarrow.float64(), "truth": pyarrow.bool_()}
    fields = [(_broken(name), types.get(kind, pyarrow.string())) for name, kind in kinds.items()]
    schema = pyarrow.schema(fields)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for columns in _blocks(rows, names):
            arrays = [
                pyarrow.array([*map(_null_if_empty if kinds[name] in types else _text, cells)], type=kind)
                for (name, cells), (_, kind) in zip(columns.items(), fields, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def _blocks(rows: Rows, names: Sequence[str]) -> Iterator[dict[str, Cells]]:
    """Yield some rows at a time, column by column."""
    known, whole = frozenset(names), iter(rows)
    while block := list(islice(whole, _BLOCK)):
        for row in block:
            if not row.keys() <= known:
                raise ValueError(f"a row has other columns than the first: {sorted(row.keys() - known)}")
        yield {name: _plain([row.get(name) for row in block]) for name in names}


def _plain(cells: Cells) -> Cells:
    """Return cells in which numbers of numpy are those of Python that are written alike."""
    if {*map(type, cells)} <= {str, int, float, bool, type(None)}:
        return cells
    import numpy as np

    def plain(cell: Any) -> Any:
        if isinstance(cell, np.floating):
            # Of fewer bits: 0.1 is not 0.10000000149. And 16777216.0 may be written 1.6777216e+07.
            text = str(cell)
            return float(text) if str(float(text)) == text else text
        return cell.item() if isinstance(cell, np.generic) else cell

    return [plain(cell) for cell in cells]


def _kind(cells: Cells) -> str:
    """Return what cells hold: "whole", "number", "truth" or "text"; an empty text where all are empty."""
    given = [cell for cell in cells if cell is not None and cell != ""]
    types = {*map(type, given)}
    if types == {bool}:
        return "truth"
    if types == {int}:
        return "whole" if min(given) > -_LEAST_BEYOND and max(given) < _LEAST_BEYOND else "text"
    if types == {float}:
        return "number" if all(map(math.isfinite, given)) else "text"
    return "text" if types else ""


def _joint(one: str, other: str) -> str:
    """Return what two parts of a column hold together."""
    return one or other if one == other or not (one and other) else "text"


def _text(cell: Any) -> str | None:
    if cell is None or cell == "":
        return None
    return _broken(cell) if isinstance(cell, str) else str(cell)


def _null_if_empty(cell: Any) -> Any:
    return None if cell == "" else cell
