"""Read untrusted JSON, and write its values as they would stand in a table."""

import json
import re
from collections import Counter
from functools import cache, partial

from probes.core.errors import InputError

LARGEST = 2**64
"""Whole numbers of JSON are smaller than this: the product of many long ones would take hours."""
LARGEST_SETTING = 10**31
"""The same of settings: transformers writes int(1e30) for a length without a limit."""
_LONG = re.compile(r"\d{20}", re.ASCII)


def parse_json(text: str, where: str, *, once: bool = False, lone: bool = False, largest: int = LARGEST) -> object:
    """Return the value of a JSON text.

    Parameters
    ----------
    once
        No key may occur twice in one object.
    lone
        Strings may hold what no text in UTF-8 can: NUL, or half a surrogate pair.
    largest
        Whole numbers are smaller than this.

    Raises
    ------
    InputError
        Where it is no JSON, nested or long beyond what can be read, or holds a larger whole number.
    """
    try:
        # A hook is called for each number, so only a text with a long one is read with it.
        value: object = _decoder(once, largest if _LONG.search(text) else None).decode(text)
        if not lone and "\\u" in text and not _is_text(value):
            raise InputError("A \\u escape stands for no character of a text.", where=where, hint="Remove it.")
        return value
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if error.lineno > 1 else ""
        raise InputError(
            f"This is not JSON: {error.msg} (column {error.colno}{line}).",
            where=where,
            hint="Write one object a line (JSONL), or one list of objects.",
        ) from None
    except (ValueError, RecursionError) as error:
        hint = "Write flat objects, one a line, with every key once."
        raise InputError(f"The JSON cannot be read: {error}.", where=where, hint=hint) from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as a dictionary; refuse a key that occurs twice, since either value could be meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {twice[:60]!r} stands twice in one object")
    return found


def _whole(largest: int, digits: str) -> int:
    # Python takes time that grows with the square of the digits, so they are counted first.
    if len(digits) > len(str(largest)) + 1 or abs(number := int(digits)) >= largest:
        raise ValueError(f"a whole number has {len(digits.lstrip('-'))} digits; write it as a text")
    return number


@cache
def _decoder(once: bool, largest: int | None) -> json.JSONDecoder:
    # Cached, since making a decoder takes longer than reading a line with it.
    whole = None if largest is None else partial(_whole, largest)
    return json.JSONDecoder(object_pairs_hook=_once if once else None, parse_int=whole)


def _is_text(value: object) -> bool:
    """Tell whether every string can stand in a file name and be written as UTF-8: no NUL, no lone surrogate."""
    if isinstance(value, dict):
        return all(_is_text(key) and _is_text(item) for key, item in value.items())
    if isinstance(value, list):
        return all(_is_text(item) for item in value)
    return not isinstance(value, str) or ("\0" not in value and value == value.encode("utf-8", "replace").decode())


def cell_text(value: object, where: str) -> str | None:
    """Return a JSON value as `json_text` does, but refuse a list and an object.

    Raises
    ------
    InputError
        Where it is one.
    """
    if isinstance(value, list | dict):
        what = "a list" if isinstance(value, list) else "an object"
        raise InputError(f"The value is {what}, not one text or number.", where=where, hint="Write one text or number.")
    return json_text(value)


def json_text(value: object) -> str | None:
    """Return a JSON value as it would stand in a CSV file.

    >>> json_text(25.0), json_text(True), json_text(None), json_text([1])
    ('25', 'true', None, '[1]')
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
