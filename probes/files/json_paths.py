"""Paths into nested JSON: `messages.-1.content` is the content of the last message.

Between points stand the key of an object or the number of an entry of a list, from 0, or from -1 backwards. A key that
is written so as a whole wins over the path.
"""

import re

_NUMBER = re.compile(r"-?\d{1,9}", re.ASCII)
_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
_SHOWN = 8


class PathError(LookupError):
    """A path leads nowhere in a value; the text says at which step."""


def kind_of(value: object) -> str:
    """Return what a JSON value is, in words.

    >>> kind_of([]), kind_of(1.5)
    ('a list', 'a number')
    """
    return _KINDS.get(type(value), "a number")


def value_at(value: object, path: str) -> object:
    """Return what a path leads to.

    Raises
    ------
    PathError
        Where an object has no such key, a list no such entry, or a text or number is gone into.

    >>> value_at({"messages": [{"content": "a"}, {"content": "b"}]}, "messages.-1.content")
    'b'
    >>> value_at({"a.b": 1, "a": {"b": 2}}, "a.b")
    1
    """
    if isinstance(value, dict) and path in value:
        return value[path]
    steps = path.split(".")
    for at, step in enumerate(steps):
        value = _step(value, step, ".".join(steps[:at]))
    return value


def _step(value: object, step: str, before: str) -> object:
    subject = f"{before!r}" if before else "the entry"
    if isinstance(value, dict):
        if step in value:
            return value[step]
        keys = ", ".join(repr(str(key)[:40]) for key in list(value)[:_SHOWN]) or "none"
        raise PathError(f"{subject} has no key {step[:60]!r}; its keys: {keys}")
    if isinstance(value, list):
        if not _NUMBER.fullmatch(step):
            raise PathError(f"{subject} is a list, and {step[:60]!r} is no number of an entry")
        if not -len(value) <= int(step) < len(value):
            raise PathError(f"{subject} is a list of {len(value)} entries")
        return value[int(step)]
    raise PathError(f"{subject} is {kind_of(value)}, and has no {step[:60]!r}")


def leads(value: object, path: str) -> bool:
    """Tell whether a path leads to anything.

    >>> leads({"a": [1]}, "a.0"), leads({"a": [1]}, "a.1")
    (True, False)
    """
    try:
        value_at(value, path)
    except PathError:
        return False
    return True
