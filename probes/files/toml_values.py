"""Read untrusted TOML, within limits of size and depth: the standard reader is quadratic in the depth."""

import re
import tomllib
from pathlib import Path
from typing import Any

from probes.core.errors import InputError
from probes.files.file_kinds import unexpected_kind
from probes.files.opening import check_ordinary, unreadable

MOST_BYTES = 1_000_000
"""Bytes of a file that is read."""
MOST_PARTS = 100
"""Parts that a key may have, such as three in a.b.c."""
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
# Possessive, so that no letter is tried twice from one start.
_DEEP = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_PARTS}}}")


def read_toml(path: Path, *, hint: str) -> dict[str, Any]:
    """Return the content of a TOML file; an empty one is an empty dictionary.

    Parameters
    ----------
    hint
        What to write where it is something else.

    Raises
    ------
    InputError
        Where it is no ordinary file, cannot be read, is too large, is no UTF-8 or no TOML.
    """
    where = str(path)
    check_ordinary(path, hint=hint)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > MOST_BYTES:
        message = f"The file has more than {MOST_BYTES:,} bytes, which no file of settings needs."
        raise InputError(message, where=where, hint=hint)
    disguise = unexpected_kind(data[:512])
    if disguise:
        raise InputError(f"This is {disguise.what}, not TOML.", where=where, hint=disguise.hint)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"The byte 0x{data[error.start]:02x} is not UTF-8 text."
        raise InputError(message, where=f"{where}:{line}", hint="Save it as UTF-8.") from None
    deep = _DEEP.search(text)
    if deep is not None:
        line = text.count("\n", 0, deep.start()) + 1
        message = f"A key has more than {MOST_PARTS} parts with dots between them."
        raise InputError(message, where=f"{where}:{line}", hint=hint)
    try:
        return tomllib.loads(text)
    # A number of thousands of digits is no TOMLDecodeError, but another ValueError.
    except (ValueError, RecursionError) as error:
        raise InputError(f"This is not TOML: {error}.", where=where, hint=hint) from None
