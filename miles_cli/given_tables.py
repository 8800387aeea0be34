"""Data frames in the place of table files: kept as CSV in the cache, by the hash of their content."""

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

from audits.core.context import Cache
from audits.core.errors import InputError, first_line
from audits.report.report_file import write_bytes


def as_given(value: Any, name: str, *, pairs: bool = False) -> Any:
    """Return a value of an option as the command line would give it: names of files for frames, NAME=VALUE for pairs.

    A frame is an object of pandas, or one that has a method `to_pandas`.

    Parameters
    ----------
    pairs
        Whether the option takes NAME=VALUE, and so a dictionary of frames and not one alone.

    Raises
    ------
    InputError
        Where a frame cannot be written as a table, or a value is of a kind that no option takes.

    Examples
    --------
    >>> as_given({"small": "small.csv", "large": "large.csv"}, "predictions")
    ['small=small.csv', 'large=large.csv']
    """
    if isinstance(value, Mapping):
        return [f"{_key(key, name)}={_one(one, f'{name}[{str(key)[:40]!r}]')}" for key, one in value.items()]
    if isinstance(value, list | tuple) and not hasattr(value, "to_pandas"):
        return [_one(one, name, pairs=pairs) for one in value]
    return _one(value, name, pairs=pairs)


def _key(key: object, name: str) -> str:
    if not isinstance(key, str) or not key or "=" in key:
        message = f"{str(key)[:40]!r} cannot be a name."
        raise InputError(message, where=name, hint="Give texts without an equals sign as keys.")
    return key


def _one(value: Any, name: str, *, pairs: bool = False) -> Any:
    """Return one value: a text, a number, a path, or the path of a frame."""
    if hasattr(value, "to_pandas"):
        value = value.to_pandas()
    # Frames of geopandas and others are kinds of those of pandas.
    homes = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    if "pandas" in homes and hasattr(value, "columns"):
        if pairs:
            raise InputError("A data frame stands without a name.", where=name, hint=f"Give {name}={{NAME: frame}}.")
        return _kept(value, name)
    scalar = hasattr(value, "item") and getattr(value, "ndim", 1) == 0
    if scalar or isinstance(value, str | int | float | PathLike):
        return value
    message = f"It is of the type {type(value).__name__}, which no option takes."
    raise InputError(message, where=name, hint="Give a text, a number, a path or a data frame.")


def _kept(frame: Any, name: str) -> str:
    """Write a frame into the cache, if it is not there, and return its path."""
    text = _csv(frame, f"{name}, a data frame")
    path = Cache.default().frame_path(name, hashlib.sha256(text).hexdigest())
    # An entry that was cut or changed is written again.
    if not path.is_file() or path.read_bytes() != text:
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
