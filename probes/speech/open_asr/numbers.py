"""Numbers in words, written in digits.

A number grows word by word: as an integer while its words add up ("two hundred" and "five"), as a string of digits from
where they are read one by one ("four oh one"). It ends at the first word that does not go on with it.
"""

import re
from collections.abc import Sequence
from fractions import Fraction

_TO_NINETEEN = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TO_NINETY = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ONES = {word: value for value, word in enumerate(_TO_NINETEEN, start=1)}
TENS = {word: 10 * tens for tens, word in enumerate(_TO_NINETY, start=2)}
_ZEROS = frozenset({"o", "oh", "zero"})
_LARGE = (
    "thousand", "million", "billion", "trillion", "quadrillion", "quintillion", "sextillion", "septillion",
    "octillion", "nonillion", "decillion",
)  # fmt: skip
_MULTIPLIERS = {"hundred": 100} | {word: 1000**power for power, word in enumerate(_LARGE, start=1)}
_IRREGULAR = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "twelve": "twelfth",
}
_ENDINGS = {"one": "st", "two": "nd", "three": "rd"}
_ONES_ENDED = (
    {"zeroth": (0, "th")}
    | {_IRREGULAR.get(word, f"{word}th"): (value, _ENDINGS.get(word, "th")) for word, value in ONES.items()}
    | {"sixes" if word == "six" else f"{word}s": (value, "s") for word, value in ONES.items()}
)
_TENS_ENDED = {word[:-1] + ending: (value, ending[-2:] if ending == "ieth" else "s")
               for word, value in TENS.items() for ending in ("ies", "ieth")}  # fmt: skip
_MULTIPLIERS_ENDED = {word + ending: (value, ending) for word, value in _MULTIPLIERS.items() for ending in ("s", "th")}
_SIGNS = {"minus": "-", "negative": "-", "plus": "+", "positive": "+"}
_CURRENCIES = {"pound": "£", "euro": "€", "dollar": "$", "cent": "¢"}
_CURRENCIES |= {f"{word}s": sign for word, sign in _CURRENCIES.items()}
_PREFIXES = frozenset({*_SIGNS.values(), *_CURRENCIES.values()})
_PER_CENT = frozenset({"per", "percent"})
_JOINING = frozenset({"and", "double", "triple", "point"})
_DIGITS = _ZEROS | ONES.keys() | TENS.keys()
_WORDS = frozenset().union(
    *(_DIGITS, _ONES_ENDED, _TENS_ENDED, _MULTIPLIERS, _MULTIPLIERS_ENDED, _SIGNS, _CURRENCIES, _PER_CENT, _JOINING)
)
_FIGURES = re.compile(r"\d+(\.\d+)?")
_HALF = re.compile(r"\band\s+a\s+half\b")
_MOST_DIGITS = 4000
"""Longer figures are words: Python refuses to read them as numbers."""


def standardise_numbers(text: str) -> str:
    """Write the numbers of a text, lower case and without punctuation, in digits.

    Examples
    --------
    >>> standardise_numbers("two hundred and five dollars and seven cents on the twenty first")
    '$205.07 on the 21st'
    >>> standardise_numbers("four oh one but oh no")
    '401 but oh no'
    >>> standardise_numbers("one of three and a half percent")
    'one of 3.5%'
    """
    return _with_cents(" ".join(_Reading(_prepared(text).split()).tokens()))


def _prepared(text: str) -> str:
    """Write "and a half" after a number as "point five", and part figures from letters but for endings such as 1st."""
    parts = _HALF.split(text)
    found: list[str] = []
    for at, part in enumerate(parts):
        if not part.strip():
            continue
        found.append(part)
        if at < len(parts) - 1:
            before = part.rsplit(maxsplit=1)[-1]
            found.append("point five" if before in _DIGITS or before in _MULTIPLIERS else "and a half")
    text = re.sub(r"([a-z])(?=[0-9])", r"\1 ", " ".join(found))
    text = re.sub(r"([0-9])(?=[a-z])", r"\1 ", text)
    return re.sub(r"([0-9])\s+(st|nd|rd|th|s)\b", r"\1\2", text)


def _with_cents(text: str) -> str:
    """Join cents to what they belong to, and write "one" in letters."""
    text = re.sub(r"([€£$])([0-9]+) (?:and )?¢([0-9]{1,2})\b", lambda m: f"{m[1]}{m[2]}.{int(m[3]):02d}", text)
    # Any sign may stand between: so it does there.
    text = re.sub(r"[€£$]0.([0-9]{1,2})\b", lambda m: f"¢{int(m[1])}", text)
    return re.sub(r"\b1(s?)\b", r"one\1", text)


def _fraction(text: str | int) -> Fraction | None:
    try:
        return Fraction(text)
    except ValueError:
        return None


class _Reading:
    """One pass over the words: what was read so far, the number that grows, and the sign before it."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._found: list[str] = []
        self._value: int | str | None = None
        self._prefix = ""
        self._skip = False

    def tokens(self) -> list[str]:
        """Return the words, numbers among them in digits."""
        for at, word in enumerate(self._words):
            if self._skip:
                self._skip = False
            else:
                self._read(at, word)
        self._end()
        return self._found

    def _word(self, step: int) -> str:
        return self._words[step] if 0 <= step < len(self._words) else ""

    def _put(self, text: str | int) -> None:
        """Put out a word or a number; the sign that waits goes before it."""
        self._found.append(f"{self._prefix}{text}")
        self._value, self._prefix = None, ""

    def _end(self) -> None:
        if self._value is not None:
            self._put(self._value)

    def _plain(self, word: str) -> None:
        self._end()
        self._put(word)

    def _read(self, at: int, word: str) -> None:
        before, after = self._word(at - 1), self._word(at + 1)
        signed = word[0] in _PREFIXES
        figures = word[1:] if signed else word
        if _FIGURES.fullmatch(figures) and len(figures) <= _MOST_DIGITS:
            self._figures(word, figures, word[0] if signed else "")
        elif word not in _WORDS:
            self._plain(word)
        elif word in _ZEROS:
            self._zero(word, after, self._word(at + 2))
        elif word in ONES:
            self._value = self._with_ones(ONES[word], before)
        elif word in _ONES_ENDED:
            ones, ending = _ONES_ENDED[word]
            self._put(f"{self._with_ones(ones, before)}{ending}")
        elif word in TENS:
            self._value = self._with_tens(TENS[word])
        elif word in _TENS_ENDED:
            tens, ending = _TENS_ENDED[word]
            self._put(f"{self._with_tens(tens)}{ending}")
        elif word in _MULTIPLIERS:
            self._multiply(_MULTIPLIERS[word])
        elif word in _MULTIPLIERS_ENDED:
            self._multiply_ended(*_MULTIPLIERS_ENDED[word])
        elif word in _JOINING:
            self._join(word, before, after)
        else:
            self._sign(word, after)

    def _figures(self, word: str, figures: str, sign: str) -> None:
        if isinstance(self._value, str) and self._value.endswith("."):
            self._value += word
            return
        self._end()
        self._prefix = sign or self._prefix
        found = Fraction(figures)
        self._value = found.numerator if found.denominator == 1 else figures

    def _zero(self, word: str, after: str, later: str) -> None:
        # "oh" is a zero among digits only: "four oh one", "oh seven nine eight".
        if word == "oh" and not (_is_digit(after) and (self._value is not None or _is_digit(later))):
            self._plain(word)
        else:
            self._value = f"{self._value or ''}0"

    def _with_ones(self, ones: int, before: str) -> int | str:
        """Return the number with 1 to 19 (or 0, of "zeroth") added, or put behind it as digits."""
        value = self._value
        if value is None:
            return ones
        if isinstance(value, str):
            # The zero of "twenty" gives way to the digit.
            return f"{value[:-1] if before in TENS and ones < 10 else value}{ones}"
        fits = before not in ONES and value % (10 if ones < 10 else 100) == 0
        return value + ones if fits else f"{value}{ones}"

    def _with_tens(self, tens: int) -> int | str:
        value = self._value
        if value is None:
            return tens
        return value + tens if isinstance(value, int) and value % 100 == 0 else f"{value}{tens}"

    def _multiply(self, factor: int) -> None:
        value = self._value
        if value is None:
            self._value = factor
        elif isinstance(value, str) or value == 0:
            product = _times(value, factor)
            if product is None:
                self._put(value)
            self._value = factor if product is None else product
        else:
            self._value = _scaled(value, factor)

    def _multiply_ended(self, factor: int, ending: str) -> None:
        value = self._value
        if isinstance(value, str):
            product = _times(value, factor)
            if product is None:
                self._put(value)
            self._put(f"{factor if product is None else product}{ending}")
        else:
            self._put(f"{factor if value is None else _scaled(value, factor)}{ending}")

    def _sign(self, word: str, after: str) -> None:
        """Read a word for a sign before the number, or for a currency or "percent" after it."""
        if word in _SIGNS:
            self._end()
            if after in _WORDS or _FIGURES.fullmatch(after):
                self._prefix = _SIGNS[word]
            else:
                self._put(word)
        elif self._value is None:
            self._put(word)
        elif word in _CURRENCIES:
            self._prefix = _CURRENCIES[word]
            self._put(self._value)
        elif word == "percent" or after == "cent":
            self._skip = word == "per"
            self._put(f"{self._value}%")
        else:
            self._plain(word)

    def _join(self, word: str, before: str, after: str) -> None:
        """Read "and", "double", "triple" or "point", which mean something before a number only."""
        numeric = _FIGURES.fullmatch(after)
        if after not in _WORDS and not numeric:
            self._plain(word)
        elif word == "and":
            # "two hundred and five" goes on.
            if before not in _MULTIPLIERS:
                self._plain(word)
        elif word == "point":
            if after in _DIGITS or numeric:
                self._value = f"{self._value or ''}."
        elif after in ONES or after in _ZEROS:
            self._value = f"{self._value or ''}{str(ONES.get(after, 0)) * (2 if word == 'double' else 3)}"
            self._skip = True
        else:
            self._plain(word)


def _is_digit(word: str) -> bool:
    return word in _DIGITS or word.isdecimal()


def _times(value: str | int, factor: int) -> int | None:
    """Return the product where it is a whole number."""
    found = _fraction(value)
    product = None if found is None else found * factor
    return product.numerator if product is not None and product.denominator == 1 else None


def _scaled(value: int, factor: int) -> int:
    """Multiply what lies below the thousands: "two thousand five hundred" is 2500."""
    return value // 1000 * 1000 + value % 1000 * factor
