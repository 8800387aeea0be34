"""Data frames in the place of table files: kept as CSV in the cache, by the hash of their content."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from audits.core.context import Cache
from audits.core.errors import InputError
from audits.report.report_file import write_bytes
from probes.core.errors import first_line

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
    # Frames of geopandas and others are kinds of those of pandas.
    homes = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    return _kept(value, name) if "pandas" in homes and hasattr(value, "columns") else value


def _kept(frame: Any, name: str) -> str:
    """Write a frame into the cache, if it is not there, and return its path."""
    text = _csv(frame, f"{name}, a data frame")
    stem = "".join(letter if letter.isalnum() else "-" for letter in name)[:60]
    path = Cache.default().folder / KIND / f"{stem}-{hashlib.sha256(text).hexdigest()[:16]}.csv"
    # An entry that was cut or changed is written again.
    if not path.is_file() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text)
    return str(path)


def _csv(frame: Any, where: str) -> bytes:
    """Return a frame as CSV.

    Raises
    ------
    InputError
        Where a column has no name of its own, or cells that no table holds.
    """
    levels = [label for label in frame.index.names if label is not None]
    columns = [str(column) for column in (*levels, *frame.columns)]
    if not columns or len(set(columns)) < len(columns):
        raise InputError("Its columns have no names, or one name twice.", where=where, hint="Name every column once.")
    try:
        frame = frame.reset_index() if levels else frame
        frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
        data = frame.apply(lambda cells: cells.map(_cell, na_action="ignore"))
        text: bytes = data.to_csv(index=False, lineterminator="\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        hint = "Leave out columns that are no texts, numbers or dates: frame.drop(columns=[...])."
        raise InputError(f"It cannot be written as a table: {first_line(error)}", where=where, hint=hint) from error
    return text


def _cell(value: Any) -> Any:
    """Return a cell as a CSV file holds it: lists and objects, truth and whole numbers as JSON writes them."""
    if isinstance(value, bytes | bytearray):
        raise TypeError("a column holds bytes, not texts")
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=_inside)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _inside(value: Any) -> Any:
    """Return what stands in a list or an object as JSON writes it; bytes are null there, as of Parquet."""
    if isinstance(value, bytes | bytearray):
        return None
    return value.tolist() if hasattr(value, "tolist") else _cell(value) if hasattr(value, "isoformat") else str(value)
