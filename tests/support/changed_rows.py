"""Tables that are right but for one thing: rows as dictionaries, changed and written."""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write(path: Path, rows: Iterable[Row], delimiter: str = ",") -> Path:
    """Write rows whose columns are those of the first."""
    rows = list(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    return path


def drop(*columns: str) -> Callable[[list[Row]], list[Row]]:
    """Return what leaves columns out."""
    return lambda rows: [{key: value for key, value in row.items() if key not in columns} for row in rows]


def put(at: int, **values: Any) -> Callable[[list[Row]], None]:
    """Return what changes cells of one row in place."""
    return lambda rows: rows[at].update(values)


def every(**values: Any) -> Callable[[list[Row]], list[Row]]:
    """Return what gives every row these cells."""
    return lambda rows: [{**row, **values} for row in rows]
