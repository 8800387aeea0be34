"""The tables of spellings and names, read once."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def spellings() -> Mapping[str, str]:
    """Return the American spelling of each word that has another.

    >>> spellings()["colour"]
    'color'
    """
    return _table("spellings.txt")


@cache
def names() -> Mapping[str, str]:
    """Return the one spelling that stands for the others of a name.

    >>> names()["stephen"]
    'steven'
    """
    return _table("names.txt")


def _table(name: str) -> dict[str, str]:
    lines = (files(__package__) / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))
