"""Tables of what a user knows about languages: how alike two are, and how well a task goes in each.

All matrices are (n, n) over the codes as asked, the target in the rows and the source in the columns. What a file
does not say is NaN there, never 0; how much that is stands in the notes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.names import suggest
from probes.files.tables import Row, Table, read_table

Floats = NDArray[np.float64]

MOST_BYTES = 2**25
_ABSENT = frozenset({"", "na", "n/a", "<na>", "nan", "null", "none"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_LARGEST = 1e100
_KEYS: tuple[tuple[str, ...], ...] = (("target", "source"), ("lang", "with"), ("code",), ("lang",))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Similarity:
    """One measure of similarity or distance of languages; which of both, the user knows.

    Parameters
    ----------
    name
        Of its column; of a square file its stem.
    matrix
        (n, n); NaN where absent. Symmetric, unless the file gives both directions of a pair and they differ.
    """

    name: str
    matrix: Floats
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Downstream:
    """Scores of a task; whether higher is better, the user knows.

    Parameters
    ----------
    kind
        Whether a score is of a language, or of a target and the source that was added.
    names
        Of the columns.
    values
        (names, n) for languages, (names, n, n) for pairs; NaN where absent.
    """

    kind: Literal["languages", "pairs"]
    names: tuple[str, ...]
    values: Floats
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """Values by column and cell, each with its line, and the languages that are not in the matrix."""

    cells: dict[tuple[str, ...], int]
    values: dict[str, dict[tuple[str, ...], float]]
    strange: set[str]
    unused: list[str]


def read_similarity(path: Path, codes: Sequence[str]) -> tuple[Similarity, ...]:
    """Read measures of pairs of languages: columns a, b and one or more of numbers, or one square table.

    A square table has codes in its first column and in its header. A pair that is given in one direction counts in
    both; where both are given and differ, row a, column b is the cell of the target a and the source b.

    Raises
    ------
    InputError
        Where the file cannot be read, gives a pair twice, holds something that is no number, or knows no two of the
        languages.
    """
    table = _table(path)
    if {"a", "b"} <= {*table.columns} and not _is_square(table):
        found = _long(table, ("a", "b"), codes)
    else:
        found = _square(table, codes)
    given = {name: _fill(values, codes, 2) for name, values in found.values.items()}
    if all(np.isnan(matrix[~np.eye(len(codes), dtype=np.bool_)]).all() for matrix in given.values()):
        raise _nothing("pair", path, found, codes)
    return tuple(_similarity(name, matrix, found) for name, matrix in given.items())


def read_downstream(path: Path, codes: Sequence[str]) -> Downstream:
    """Read scores of a task: a column code or lang, or columns target and source or lang and with; then numbers.

    Raises
    ------
    InputError
        Where the file cannot be read, gives a language or pair twice, holds something that is no number, or knows
        none of the languages.
    """
    table = _table(path)
    keys = next((keys for keys in _KEYS if {*keys} <= {*table.columns}), None)
    if keys is None:
        hint = "Name a column code, for a score of each language, or two columns target and source."
        message = "The columns do not say of which language a score is."
        raise InputError(message, where=str(path), hint=f"{hint} {table.suggest('code')}")
    found = _long(table, keys, codes)
    values = np.stack([_fill(column, codes, len(keys)) for column in found.values.values()])
    if np.isnan(values).all():
        raise _nothing("language" if len(keys) == 1 else "pair", path, found, codes)
    notes = _notes(found)
    for name, column in zip(found.values, values, strict=True):
        if len(keys) == 1 and (missing := [code for code, value in zip(codes, column, strict=True) if np.isnan(value)]):
            notes.append(f"{name} is not given for {_some(missing)}.")
        elif len(keys) == 2:
            lacking = int(np.isnan(column[~np.eye(len(codes), dtype=np.bool_)]).sum())
            notes += [f"{name} is not given for {lacking} of {len(codes) * (len(codes) - 1)} cells."] if lacking else []
    kind: Literal["languages", "pairs"] = "languages" if len(keys) == 1 else "pairs"
    return Downstream(kind=kind, names=tuple(found.values), values=values, notes=tuple(notes))


def dyads(column: Mapping[str, str], codes: Sequence[str]) -> tuple[Literal["class", "number"], Floats]:
    """Turn an attribute of languages into one of pairs: a number if all values are and over two differ, else a class.

    Parameters
    ----------
    column
        Value by code; a blank one counts as absent.

    Returns
    -------
    tuple
        The kind, and a symmetric matrix (n, n), NaN in the rows and columns of a language without a value. Of a
        number it holds the absolute difference; of a class 1 where both languages are of one, 0 where not.

    Examples
    --------
    >>> kind, matrix = dyads({"en": "Latn", "fr": "Latn", "fa": "Arab"}, ["en", "fr", "fa"])
    >>> kind, matrix.tolist()
    ('class', [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> kind, matrix = dyads({"en": "5", "fr": "3", "fa": "9"}, ["en", "fr", "fa"])
    >>> kind, matrix[0].tolist()
    ('number', [0.0, 2.0, 4.0])
    """
    texts = [column.get(code, "").strip() for code in codes]
    there = [text for text in texts if text]
    matrix = np.full((len(codes), len(codes)), np.nan)
    known = np.flatnonzero([bool(text) for text in texts])
    numbers = np.array([_number(text) for text in there], dtype=np.float64)
    kind: Literal["class", "number"] = "class"
    if not np.isnan(numbers).any() and len(np.unique(numbers)) > 2:
        kind, pairs = "number", np.abs(numbers[:, None] - numbers[None, :])
    else:
        pairs = np.array([[float(one == other) for other in there] for one in there]).reshape(len(there), len(there))
    matrix[np.ix_(known, known)] = pairs
    return kind, matrix


def _number(text: str) -> float:
    """Return a plain number of reasonable size, else NaN."""
    value = float(text) if _NUMBER.fullmatch(text) else np.nan
    return value if abs(value) <= _LARGEST else np.nan


def _table(path: Path) -> Table:
    size = path.stat().st_size if path.is_file() else 0
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError("This is not an ordinary file.", where=str(path), hint="Name a CSV, TSV or JSON file.")
    if size > MOST_BYTES:
        message = f"The table has {size} bytes; {MOST_BYTES} can be read."
        raise InputError(message, where=str(path), hint="Keep the rows of the languages that are audited.")
    table = read_table(path)
    table.check_flat({"a", "b", "", *(name for keys in _KEYS for name in keys)})
    return table


def _cell(row: Row, column: str) -> str:
    return (row.values.get(column) or "").strip()


def _is_square(table: Table) -> bool:
    first, *others = table.columns
    return {_cell(row, first) for row in table.rows} == {*others}


def _long(table: Table, keys: Sequence[str], codes: Sequence[str]) -> _Found:
    """Read rows that name a language or a pair; columns without a name or numbers are skipped, with a note."""
    names = [name for name in table.columns if name not in keys]
    # A column without a name is the index that a data frame writes beside its rows.
    named = [name for number, name in enumerate(table.columns, start=1) if name in names and name != f"column {number}"]
    table = table.with_points(named)
    numeric = [name for name in named if any(not np.isnan(_number(_cell(row, name))) for row in table.rows)]
    if not numeric:
        hint = f"Put numbers beside {' and '.join(keys)}. {suggest('score', names)}"
        raise InputError("No column holds a number.", where=str(table.path), hint=hint)
    found = _Found({}, {name: {} for name in numeric}, set(), [name for name in names if name not in numeric])
    asked = frozenset(codes)
    for row in table.rows:
        key = tuple(_cell(row, name) for name in keys)
        where = f"{table.path}:{row.line}"
        for name, code in zip(keys, key, strict=True):
            if not code:
                raise InputError("The row names no language.", where=f"{where}, {name}", hint="Write its code.")
        _enter(found, key, row.line, where)
        numbers = {name: _read(row, name, table) for name in numeric}
        if asked.issuperset(key):
            for name, number in numbers.items():
                found.values[name][key] = number
        found.strange |= {*key} - asked
    return found


def _square(table: Table, codes: Sequence[str]) -> _Found:
    first, *others = table.columns
    found = _Found({}, {table.path.stem: {}}, {*others} - {*codes}, [])
    asked = frozenset(codes)
    here = [_cell(row, first) for row in table.rows]
    if asked.isdisjoint(others) or asked.isdisjoint(here):
        message = f"The table is neither of pairs nor square: its columns are {_some(table.columns)}."
        hint = f"Name two columns a and b, or write the codes in the first column and the header: {_some(codes)}."
        raise InputError(message, where=str(table.path), hint=hint)
    for row, code in zip(table.with_points(others).rows, here, strict=True):
        where = f"{table.path}:{row.line}"
        _enter(found, (code,), row.line, where)
        found.strange |= {code} - asked
        for other in others:
            number = _read(row, other, table)
            if code in asked and other in asked:
                found.values[table.path.stem][code, other] = number
    return found


def _enter(found: _Found, key: tuple[str, ...], line: int, where: str) -> None:
    if found.cells.setdefault(key, line) != line:
        message = f"{' and '.join(key)} stands in line {found.cells[key]} already."
        raise InputError(message, where=where, hint="Give every language or pair once.")


def _read(row: Row, column: str, table: Table) -> float:
    """Return the number in a cell, or NaN where a missing value is marked."""
    text = _cell(row, column)
    number = np.nan if text.casefold() in _ABSENT else _number(text)
    if np.isnan(number) and text.casefold() not in _ABSENT:
        usual = "Write plain numbers with a decimal point; leave the cell empty where there is none."
        hint = table.mark_hint([text], usual, option=False)
        raise InputError(f"{text[:60]!r} is not a number.", where=f"{table.path}:{row.line}, {column}", hint=hint)
    return number


def _fill(values: Mapping[tuple[str, ...], float], codes: Sequence[str], axes: int) -> Floats:
    position = {code: index for index, code in enumerate(codes)}
    array = np.full((len(codes),) * axes, np.nan)
    for key, value in values.items():
        array[tuple(position[code] for code in key)] = value
    return array


def _similarity(name: str, given: Floats, found: _Found) -> Similarity:
    """Return a symmetric similarity: a pair known in one direction has that value in the other too."""
    matrix = np.where(np.isnan(given), given.T, given)
    notes = _notes(found)
    upper = np.triu_indices(len(matrix), k=1)
    missing = int(np.isnan(matrix[upper]).sum())
    # A missing pair differs from itself here: NaN is not equal to NaN.
    differ = int((matrix[upper] != matrix.T[upper]).sum()) - missing
    if missing:
        notes.append(f"{name} is not given for {missing} of {len(upper[0])} pairs.")
    if differ:
        notes.append(f"{name} differs between the two directions of {differ} pairs.")
    return Similarity(name=name, matrix=matrix, notes=tuple(notes))


def _notes(found: _Found) -> list[str]:
    strange = [f"Not asked for, and not used: {_some(sorted(found.strange))}."] if found.strange else []
    return strange + (
        [f"Columns without a name or without numbers, not used: {_some(found.unused)}."] if found.unused else []
    )


def _nothing(what: str, path: Path, found: _Found, codes: Sequence[str]) -> InputError:
    message = f"The file has no number for any {what} of {_some(codes)}"
    message += f"; it knows {_some(sorted(found.strange))}." if found.strange else "."
    return InputError(message, where=str(path), hint="Use the codes of the corpus, as in the names of its files.")


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "")
