"""Read the options of a command from TOML: keys at the top, or in a table named like the command."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from audits.core.registry import entries
from probes.core.errors import InputError
from probes.files.names import suggest
from probes.files.toml_values import read_toml


def read_settings(path: Path, name: str, known: Collection[str]) -> dict[str, Any]:
    """Return options by their names; `-` and `_` in a key are alike, and those of the command's table win.

    Parameters
    ----------
    name
        The command.
    known
        Names of options that may stand there.

    Raises
    ------
    InputError
        Where the file cannot be read, or a key is no option of the command.
    """
    data = read_toml(
        path,
        hint='Give with --config a text file with one option a line, such as seed = 0 or by = ["gender", "accent"]; '
        "text needs quotation marks.",
    )
    merged = _top_and_table(data, name, path)
    found = {key.replace("-", "_"): value for key, value in merged.items()}
    check_known(found, name, known, lambda key: f"{path}, key {key}")
    return found


def check_known(names: Iterable[str], audit: str, known: Collection[str], where: Callable[[str], str]) -> None:
    """Check that all names are options of an audit; `where` says where a name stands.

    Raises
    ------
    InputError
        With the most similar option.
    """
    for name in names:
        if name not in known:
            raise InputError(
                f"{name!r} is no option of miles {audit}.", where=where(name), hint=suggest(name, sorted(known))
            )


def _top_and_table(data: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    audits = {entry.name for entry in entries()} | {name}
    for key in tables:
        # Otherwise the options under a misspelt table name would be ignored without a word.
        if key not in audits:
            raise InputError(
                f"The table [{key}] is named like no audit.",
                where=f"{path}, key {key}",
                hint=f"Write [{name}], or the options at the top.",
            )
    return {key: value for key, value in data.items() if key not in tables} | tables.get(name, {})
