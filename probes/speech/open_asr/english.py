"""The steps of the normaliser, in their order."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby

from probes.speech.open_asr.clock import standardise_times
from probes.speech.open_asr.numbers import standardise_numbers
from probes.speech.open_asr.tables import names, spellings

# A hyphen parts words: of "ah-ha" else "ha" would stay.
_FILLERS = re.compile(
    r"\b(?:ah-ha|a+h+(?:m*|a+)|e+h+m*|e+m+|e+r+m*|h+a+h+|h+e+h+|h+m+|h+u+h+|m{2,}|m+h+m*|t+s+k+|u+g+h+|u+h+m*|"
    r"u+h+u+[hm]*|u+m+h*|ahem|ehehe?|ehr|hmmph|hum|hunh|mhum|mmkay)\b"
)
_WHOLE = {
    "won't": "will not", "can't": "can not", "let's": "let us", "ain't": "aint", "y'all": "you all",
    "wanna": "want to", "gotta": "got to", "gonna": "going to", "i'ma": "i am going to", "imma": "i am going to",
    "woulda": "would have", "coulda": "could have", "shoulda": "should have", "ma'am": "madam",
}  # fmt: skip
_TITLES = {
    "mr": "mister", "mrs": "missus", "st": "saint", "dr": "doctor", "prof": "professor", "capt": "captain",
    "gov": "governor", "ald": "alderman", "gen": "general", "sen": "senator", "rep": "representative",
    "pres": "president", "rev": "reverend", "hon": "honorable", "asst": "assistant", "assoc": "associate",
    "lt": "lieutenant", "col": "colonel", "jr": "junior", "sr": "senior", "esq": "esquire",
}  # fmt: skip
_ENDS = (
    ("'d been", "had been"), ("'s been", "has been"), ("'d gone", "had gone"), ("'s gone", "has gone"),
    ("'d done", "had done"), ("'s got", "has got"), ("n't", "not"), ("'re", "are"),
)  # fmt: skip
_IS_SHORT = "it|he|she|what|that|who|here|there|how|when|where|why|this"
_LATER_ENDS = (("'d", "would"), ("'ll", "will"), ("'t", "not"), ("'ve", "have"), ("'m", "am"))
_EXPANDED = (
    *((re.compile(rf"\b{word}\b"), text) for word, text in _WHOLE.items()),
    *((re.compile(rf"\b{word}\b"), f"{text} ") for word, text in _TITLES.items()),
    *((re.compile(rf"{end}\b"), f" {text}") for end, text in _ENDS),
    (re.compile(rf"\b({_IS_SHORT})'s\b"), r"\1 is"),
    *((re.compile(rf"{end}\b"), f" {text}") for end, text in _LATER_ENDS),
)
"""Contractions and titles, written out one after the other."""
_PARTED = (
    ("et cetera", "etc"), ("al right", "alright"), ("all right", "alright"), ("how ever", "however"),
    ("wi fi", "wifi"), ("hi fi", "hifi"), ("lo fi", "lofi"), ("sci fi", "scifi"), ("e mail", "email"),
    ("e book", "ebook"), ("e commerce", "ecommerce"), ("x ray", "xray"), ("t shirt", "tshirt"), ("a m", "am"),
    ("p m", "pm"), ("o k", "okay"), ("o+h+", "oh"), ("ooo+", "oh"),
)  # fmt: skip
_JOINED = tuple((re.compile(rf"\b{parts}\b".replace(" ", r"\s+")), word) for parts, word in _PARTED)
_KEPT = frozenset(".%$¢€£")
_LETTERS = {
    "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "ß": "ss", "ẞ": "SS", "đ": "d", "Đ": "D",
    "ð": "d", "Ð": "D", "þ": "th", "Þ": "th", "ł": "l", "Ł": "L",
}  # fmt: skip


def normalise_open_asr(text: str) -> str:
    """Return a text as the Open ASR Leaderboard compares it; runs of space become one space, none around the text.

    Examples
    --------
    >>> normalise_open_asr("Um, Dr. Stephen's favourite colour isn't grey (laughs).")
    'doctor steven s favorite color is not gray'
    >>> normalise_open_asr("It's 20% of twenty-five dollars, at half past three, in the U.S.")
    'it is 20% of $25 at 3 30 in the us'
    """
    text = _without(_without(text.lower(), "<[", ">]", least=0), "(", ")", least=1)
    text = _FILLERS.sub("", text)
    text = standardise_times(re.sub(r"(?<!\s)\s+'", "'", text))
    for pattern, words in _EXPANDED:
        text = pattern.sub(words, text)
    text = re.sub(r"(\d),(\d)", r"\1\2", text)
    text = re.sub(r"\.(?![0-9])", " ", text)
    text = unicodedata.normalize("NFKD", text).translate(_PLAIN)
    for pattern, word in _JOINED:
        text = pattern.sub(word, text)
    usual, one_name = spellings(), names()
    spelt = [usual.get(word, word) for word in standardise_numbers(text).split()]
    joined = _acronyms([one_name.get(word, word) for word in spelt])
    text = re.sub(r"[.$¢€£](?![0-9])", " ", " ".join(joined))
    return " ".join(re.sub(r"(?<![0-9])%", " ", text).split())


def _without(text: str, opening: str, closing: str, *, least: int) -> str:
    """Drop what stands between brackets, of at least so many letters; time grows with the length alone.

    >>> _without("a [b] c [d", "<[", ">]", least=0), _without("() (a(b) c", "(", ")", least=1)
    ('a  c [d', '()  c')
    """
    opens, closes = re.compile(f"[{re.escape(opening)}]"), re.compile(f"[{re.escape(closing)}]")
    kept, start = [], 0
    found = opens.search(text)
    while found:
        end = closes.search(text, found.end())
        if end is None:
            break
        if end.start() - found.end() >= least:
            kept.append(text[start : found.start()])
            start = end.end()
        found = opens.search(text, end.end() if end.start() - found.end() >= least else found.end())
    return "".join([*kept, text[start:]])


class _Plain(dict[int, str]):
    """Cache of what becomes of each character: marks over letters go, other signs become spaces."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        category = unicodedata.category(letter)
        if letter in _KEPT:
            plain = letter
        elif letter in _LETTERS:
            plain = _LETTERS[letter]
        else:
            plain = "" if category == "Mn" else " " if category[0] in "MSP" else letter
        self[code] = plain
        return plain


_PLAIN = _Plain()


def _acronyms(words: list[str]) -> Iterator[str]:
    """Join single letters and digits that follow one another: two, or three where "a" or "i" is among them.

    >>> list(_acronyms("the b b c has a 5 g test".split()))
    ['the', 'bbc', 'has', 'a5g', 'test']
    """
    for single, group in groupby(words, lambda word: len(word) == 1 and word.isalnum()):
        run = list(group)
        if single and len(run) >= (3 if {"a", "i"} & {*run} else 2):
            yield "".join(run)
        else:
            yield from run
