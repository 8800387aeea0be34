"""Data frames in the place of table files: kept as CSV in the cache, by the hash of their content."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from audits.core.context import Cache
from audits.core.errors import InputError
from audits.report.report_file import write_bytes

KIND = "frames"
"""Subfolder of the cache."""


def as_given(value: Any, name: str) -> Any:
    """Return a value of an option as the command line would give it: names of files for frames, NAME=VALUE for pairs.

    A frame is an object of pandas, or one that has a method `to_pandas`.

    Raises
    ------
    InputError
        Where a frame cannot be written as a table.

    Examples
    --------
    >>> as_given({"small": "small.csv", "large": "large.csv"}, "predictions")
    ['small=small.csv', 'large=large.csv']
    """
    if isinstance(value, Mapping):
        return [f"{key}={as_given(one, f'{name}-{key}')}" for key, one in value.items()]
    if isinstance(value, list | tuple):
        return [as_given(one, name) for one in value]
    if hasattr(value, "to_pandas"):
        value = value.to_pandas()
    if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns"):
        return _kept(value, name)
    return value


def _kept(frame: Any, name: str) -> str:
    """Write a frame into the cache, if it is not there, and return its path."""
    where = f"{name}, a data frame"
    if any(label is not None for label in frame.index.names):
        frame = frame.reset_index()
    columns = [str(column) for column in frame.columns]
    if not columns or len(set(columns)) < len(columns):
        raise InputError("Its columns have no names, or one name twice.", where=where, hint="Name every column once.")
    data = frame.set_axis(columns, axis=1).apply(lambda cells: cells.map(_cell, na_action="ignore"))
    text = data.to_csv(index=False, lineterminator="\n").encode("utf-8", "surrogatepass")
    stem = "".join(letter if letter.isalnum() else "-" for letter in name)[:60]
    path = Cache.default().folder / KIND / f"{stem}-{hashlib.sha256(text).hexdigest()[:16]}.csv"
    # An entry that was cut or changed is written again.
    if not path.is_file() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text)
    return str(path)


def _cell(value: Any) -> Any:
    """Return a cell as a CSV file holds it: lists and objects, truth and whole numbers as JSON writes them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False)
    return value.isoformat() if hasattr(value, "isoformat") else value
