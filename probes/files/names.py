"""Suggest existing names of files, columns and options that are similar to a missing one."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

_SEPARATORS = {"|": "Bars", ";": "Semicolons", ",": "Commas"}


def nearest_name(path: Path, taken: Sequence[Path] = ()) -> str | None:
    """Return the name beside a missing path that is most similar: the same stem first, then by spelling.

    Files that are `taken` are not meant.
    """
    try:
        other = {item.name for item in taken if item.parent.resolve() == path.parent.resolve()}
        names = sorted(item.name for item in path.parent.iterdir() if item.name not in other)
    except (OSError, ValueError, RuntimeError):
        return None
    same = [name for name in names if name.casefold() == path.name.casefold()]
    same += [name for name in names if Path(name).stem == path.stem]
    # Comparing spellings is slow; among very many names the first letters narrow the choice.
    pool = names if len(names) <= 5000 else [name for name in names if name[:3] == path.name[:3]][:5000]
    found = same or get_close_matches(path.name, pool, n=1)
    return found[0] if found else None


def suggest(name: str, names: Sequence[str]) -> str:
    """Return a hint that lists the existing names, the most similar one first if there is one.

    >>> suggest("gendre", ["path", "gender"])
    "Did you mean 'gender'? There are: path, gender."
    """
    lower = {item.casefold(): item for item in names}
    close = get_close_matches(name.casefold(), list(lower), n=1)
    shown = ", ".join(names[:40]) + (", ..." if len(names) > 40 else "")
    return (f"Did you mean {lower[close[0]]!r}? " if close else "") + f"There are: {shown or 'none'}."


def suggest_column(name: str, columns: Sequence[str], separator: str) -> str:
    """Return the hint of `suggest`, or one on the separator of a delimited file where another one stands in its header.

    >>> suggest_column("path", ["path|text"], ",")
    'There are: path|text. Bars (|) seem to separate the fields: let the first line be sep=|.'
    """
    marks = separator_hint(columns, separator)
    return f"There are: {columns[0]}.{marks}" if marks else suggest(name, columns)


def separator_hint(columns: Sequence[str], separator: str) -> str:
    """Return a hint where the only column of a delimited file holds another separator in its name, else nothing.

    `separator` is empty where the table is not delimited.
    """
    name = columns[0].strip("".join(_SEPARATORS)) if len(columns) == 1 and separator else ""
    mark = max((mark for mark in _SEPARATORS if mark != separator), key=name.count)
    if mark not in name:
        return ""
    return f" {_SEPARATORS[mark]} ({mark}) seem to separate the fields: let the first line be sep={mark}."
