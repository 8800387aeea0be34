"""Words of a text as metrics of grounding compare them, with where in the text they stand."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import wraps
from typing import NamedTuple, TypeVar

from probes.texts.text_words import UNSPACED

T = TypeVar("T")
Span = tuple[int, int]
"""First character, and the one behind the last."""
KEPT = 2**23
"""Characters of the texts whose words or numbers are kept, since many outputs share an evidence: some 250 MB."""
_WORD = re.compile(f"[{UNSPACED}]|[^ {UNSPACED}]+")


class Words(NamedTuple):
    """Words in order, in the form that is compared, and where each stands."""

    forms: tuple[str, ...]
    spans: tuple[Span, ...]


class _Letters(dict[int, str]):
    """Lazy table for `str.translate` that turns all but letters, marks and digits into spaces."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        # One character for one, so that what is found stands where it stood. Marks belong to their letter.
        self[code] = letter if unicodedata.category(letter)[0] in "LMN" else " "
        return self[code]


_LETTERS = _Letters()


def kept(function: Callable[[str], T]) -> Callable[[str], T]:
    """Keep what a function returns for texts, until these are `KEPT` characters long, and then begin anew."""
    held: dict[str, T] = {}
    size = 0

    @wraps(function)
    def found(text: str) -> T:
        nonlocal size
        value = held.get(text)
        if value is None:
            size += len(text)
            if size > KEPT:
                held.clear()
                size = len(text)
            held[text] = value = function(text)
        return value

    return found


@kept
def split_words(text: str) -> Words:
    """Return the words of a text: runs of letters, marks and digits, in lower case.

    In scripts that are written without spaces each letter is a word.

    >>> split_words("Café-bar, 2nd floor")
    Words(forms=('café', 'bar', '2nd', 'floor'), spans=((0, 4), (5, 8), (10, 13), (14, 19)))
    """
    found = tuple(word.span() for word in _WORD.finditer(text.translate(_LETTERS)))
    return Words(tuple(compared_form(text[start:end]) for start, end in found), found)


def compared_form(word: str) -> str:
    """Return the form of a word that is compared: without case, and composed.

    >>> compared_form("CAFE\\u0301") == compared_form("café")
    True
    """
    return word.casefold() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def joined(forms: Sequence[str]) -> str:
    """Return words as one text in which a phrase joined in the same way is found word by word.

    >>> joined(["all", "bar", "one"]), joined(["bar"]) in joined(["barn", "owl"])
    (' all bar one ', False)
    """
    return f" {' '.join(forms)} "
