"""Numbers of a text, however they are written, and whether the evidence has them.

1,000 = 1000 = 1.000,00 = one thousand; 7th = seventh = seven; 12 % = 12 percent = .12; 2.5 million = 2500000. "First"
and "second" alone, and "one" where it is a pronoun, support a number and are no mention themselves.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from probes.texts.evidence import Evidence, Grounded
from probes.texts.grounding_words import Span, kept
from probes.texts.support_checks import SupportCheck

_CARDINALS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_ORDINALS = """zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"""
_TEN = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for words in (_CARDINALS, _ORDINALS) for value, word in enumerate(words.split())}
_TENS = {word: value for value, word in zip(range(20, 100, 10), _TEN.split(), strict=True)}
_VALUES = {**_SMALL, **_TENS, **{f"{word[:-1]}ieth": value for word, value in _TENS.items()}}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_LONGEST = 28
"""Characters of a number in digits, as many as it is compared by; what is longer is a code."""
_BEFORE_PRONOUN = re.compile(r"(?<![^\W_])(?:the|this|that|these|which|no|any|some|every|each|another|an?)\s+$", re.I)
_AFTER_PRONOUN = re.compile(r"\s*(?:[.,!?;:]|$|another\b)", re.I)
_MOST = 60
"""Numbers of the evidence at most that sums and differences are made of."""


def _any_of(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(words, key=len, reverse=True))})"


_GAP = r"(?:[ \t\u00a0]+|-)"
_AND = rf"{_GAP}(?:and{_GAP})?"
_DIGIT = _any_of(word for word, value in _SMALL.items() if 0 < value < 10)
_BELOW_100 = rf"(?:{_any_of(_TENS)}{_GAP}{_DIGIT}|{_any_of(_VALUES)})(?![^\W_])"
_BELOW_1000 = rf"(?:(?:an?|{_BELOW_100}){_GAP}hundred(?![^\W_])(?:{_AND}{_BELOW_100})?|{_BELOW_100})"
_LARGE = _any_of(_SCALES)
_DIGITS = (
    r"(?:(?<!\S)[-\u2212])?(?:"
    r"\d{1,3}(?:[,\u00a0\u2009\u202f]\d{3}){1,40}(?:\.\d+)?(?!,?\d)"  # 1,000.5
    r"|\d{1,3}(?:\.\d{3}){1,40},\d+(?!\.?\d)|\d{1,3}(?:\.\d{3}){2,40}(?!\.?\d)"  # 1.000,5 and 1.000.000
    r"|\d+\.\d+|(?<!\d,)\d+,\d{1,2}(?!,?\d)|\d+|(?<!\d)\.\d+)"
)
_SPOKEN = _BELOW_1000
for _scale in _SCALES:
    # Scales fall: one million two thousand is one number, and one thousand a thousand are two.
    _SPOKEN = rf"(?:(?:an?|{_BELOW_1000}){_GAP}{_scale}(?![^\W_])(?:{_AND}{_SPOKEN})?|{_SPOKEN})"
_NUMBER = re.compile(
    rf"(?<![^\W_])(?:(?P<digits>{_DIGITS})(?:st|nd|rd|th|(?P<scale>{_GAP}(?:hundred|{_LARGE})(?![^\W_])))?"
    rf"|(?P<words>(?=(?:an?|{_any_of(_VALUES)})(?![^\W_])){_SPOKEN}))"
    r"(?P<percent>\s*(?:%|percent\b|per cent\b))?",
    re.IGNORECASE,
)


class Number(NamedTuple):
    """A number of a text, where it stands, whether it is a percentage, and whether it may be no number at all."""

    value: Decimal
    span: Span
    percent: bool = False
    vague: bool = False

    @property
    def readings(self) -> tuple[Decimal, ...]:
        """What it may be compared as: 12 % is .12 too."""
        return (self.value, self.value / 100) if self.percent else (self.value,)


@kept
def read_numbers(text: str) -> tuple[Number, ...]:
    """Return the numbers of a text in order.

    >>> [str(number.value) for number in read_numbers("1,000 of twenty-one thousand and five, 3,5 % on the 7th")]
    ['1000', '21005', '3.5', '7']
    """
    return tuple(_number(match) for match in _NUMBER.finditer(text) if len(match["digits"] or "") <= _LONGEST)


def _number(match: re.Match[str]) -> Number:
    words = re.findall(r"[a-z]+", (match["words"] or match["scale"] or "").lower())
    before, now = Decimal(0), _decimal(match["digits"]) if match["digits"] else Decimal(0)
    for word in words:
        if word == "hundred":
            now *= 100
        elif word in _SCALES:
            before, now = before + now * _SCALES[word], Decimal(0)
        else:
            now += word in ("a", "an") or _VALUES.get(word, 0)
    alone, text = match.group().lower(), match.string
    pronoun = _BEFORE_PRONOUN.search(text[max(match.start() - 12, 0) : match.start()]) or _AFTER_PRONOUN.match(
        text, match.end()
    )
    vague = alone in ("first", "second") or (alone == "one" and pronoun is not None)
    return Number(before + now, match.span(), match["percent"] is not None, vague)


def _decimal(digits: str) -> Decimal:
    plain = re.sub(r"[\u00a0\u2009\u202f]", "", digits.replace("\u2212", "-"))
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", plain):
        plain = plain.replace(",", "")
    elif plain.count(".") > 1 or "," in plain:
        plain = plain.replace(".", "").replace(",", ".")
    return Decimal(plain)


@dataclass(frozen=True, slots=True)
class NumberSupport(SupportCheck):
    """Check of numbers; `derived` ones too, which are the sum, difference, rounding or count of the evidence's."""

    derived: bool = False
    name = "numbers"
    kind = "number"

    def mentions(self, pair: Grounded) -> Iterator[tuple[Span, bool]]:
        """Yield the numbers of the output, and whether the evidence has each.

        >>> list(NumberSupport().mentions(Grounded(Evidence("twelve pubs"), "12 pubs, 3 bars")))
        [((0, 2), True), ((9, 10), False)]
        """
        known = _known(pair.evidence)
        for number in read_numbers(pair.output):
            if not number.vague:
                plain = not known.isdisjoint(number.readings)
                yield number.span, plain or (self.derived and _follows(number.value, known, pair.evidence))


@lru_cache(maxsize=2048)
def _known(evidence: Evidence) -> frozenset[Decimal]:
    return frozenset(value for number in read_numbers(evidence.text) for value in number.readings)


def _follows(value: Decimal, known: Iterable[Decimal], evidence: Evidence) -> bool:
    if value in (len(evidence.cells), len(evidence.chunks)):
        return True
    # Half a unit of the last digit that is no zero: 5,000,000 may be 4,960,000, and 5 is no rounding of 4.
    unit = Decimal(10) ** int(value.normalize().as_tuple().exponent)
    if any(abs(value - one) * 2 <= unit for one in known):
        return True
    some = sorted(known)[:_MOST]
    return any(value in (one + other, abs(one - other)) for one, other in combinations(some, 2))
