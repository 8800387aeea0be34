"""Foreign text, from reports and paths, made harmless to the terminal that shows it."""

import os
from pathlib import Path


def printable(text: str) -> str:
    r"""Return text with all that would move the cursor, change colours or reverse the writing replaced.

    Examples
    --------
    >>> printable("a\x1b[31m\n")
    'a�[31m\n'
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def line(text: object) -> str:
    r"""Return text as one printable line, so that none of it can pose as a line of miles.

    Examples
    --------
    >>> line("a\nb\x07")
    'a b�'
    """
    return printable(" ".join(str(text).split()))


def named(path: Path) -> str:
    """Return a path as text that every file and terminal takes, even where its name is no UTF-8."""
    return line(os.fsencode(path).decode("utf-8", "replace"))
