"""Reader of Praat TextGrids: interval tiers, and the choice of those that hold phones.

A TextGrid has a long and a short form. To Praat both are one row of numbers and quoted texts, whatever else stands
between them, and they are read that way here. What a file says about its size is never allocated. Times are those
of the file, not yet checked against the recording.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from probes.core.errors import InputError
from probes.files import text
from probes.files.names import suggest

MAX_BYTES = 200 * 2**20
PHONE_TIERS = frozenset({"phones", "phone", "phoneme", "phonemes", "segments", "mau", "phonetic"})
"""Names of the tier of phones, in any case: those of MFA, of WebMAUS (MAU) and of Praat's users."""
# Possessive: a text that is never closed must not end at the first half of a doubled quotation mark inside it.
_TOKEN = re.compile(r'"[^"]*+(?:""[^"]*+)*+"|"|![^\n]*|[^\s"]+')
_NUMBER = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE)
_UNDEFINED = "--undefined--"
_LONGEST_NUMBER = 100


class Mark(NamedTuple):
    """An interval as a file writes it: `start` and `end` in seconds, not yet checked, and the line it begins on."""

    label: str
    start: float
    end: float
    line: int


class Tier(NamedTuple):
    """A tier of intervals."""

    name: str
    marks: Sequence[Mark]


def read_number(text: str) -> float | None:
    """Parse a number of a file of times, finite or not; None where the text is no number.

    >>> read_number("-1.5e-2"), read_number("1_0"), read_number("0,5")
    (-0.015, None, None)
    """
    if text == _UNDEFINED:
        return math.nan
    return float(text) if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) else None


def check_size(path: Path) -> None:
    """Refuse a file of more than `MAX_BYTES`."""
    text.check_size(path, MAX_BYTES, hint="Give a folder of smaller files, for example one for each clip.")


def read_plain(path: Path) -> str:
    """Read a text in UTF-8, or in UTF-16 with a byte order mark as Praat writes it; lines end in a line feed.

    Raises
    ------
    InputError
        Where it is too large, unreadable, empty, binary or in another encoding.
    """
    check_size(path)
    found = text.read_text(path, hint="Give an alignment in text form.", largest=MAX_BYTES, wide=True)
    return found.replace("\r\n", "\n").replace("\r", "\n")


def read_textgrid(path: Path) -> list[Tier]:
    """Read the interval tiers of a TextGrid; point tiers are skipped.

    Raises
    ------
    InputError
        Where the file is no TextGrid in text form, ends early, or holds more or less than its counts say.
    """
    content = read_plain(path)
    tokens = _Tokens(path, content)
    head = [tokens.header(), tokens.header()]
    if not head[0].startswith("ooTextFile") or head[1] != "TextGrid":
        message = f"This is no TextGrid: it begins with {(head[0] or content.lstrip())[:60]!r}."
        raise InputError(message, where=str(path), hint="In Praat: Save as text file, or Save as short text file.")
    for what in ("the start", "the end"):
        tokens.number(what)
    tiers = [tier for number in range(1, tokens.count("tiers") + 1) if (tier := _tier(tokens, number))]
    tokens.finish()
    return tiers


def _tier(tokens: "_Tokens", tier: int) -> Tier | None:
    tokens.inside = f" of tier {tier}"
    kind = tokens.string("the class")
    if kind not in ("IntervalTier", "TextTier"):
        tokens.refuse(f"The class of tier {tier} is {kind[:60]!r}.", "It is IntervalTier or TextTier.")
    name = tokens.string("the name")
    tokens.inside = f" of tier {name[:60]!r}"
    for what in ("the start", "the end"):
        tokens.number(what)
    marks = []
    for interval in range(1, tokens.count("intervals") + 1):
        tokens.interval = interval
        start = tokens.number("the start")
        line = tokens.line
        end = tokens.number("the end") if kind == "IntervalTier" else start
        marks.append(Mark(tokens.string("the text"), start, end, line))
    tokens.interval = 0
    return Tier(name, marks) if kind == "IntervalTier" else None


class _Tokens:
    """Stream of the numbers and texts of a TextGrid, with the line of the last one."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.line = 1
        self.inside = ""
        self.interval = 0
        self._text = text
        self._offset = 0
        self._matches = _TOKEN.finditer(text)

    def _next(self) -> str | float | None:
        for match in self._matches:
            token = match[0]
            if token[0] == '"':
                self._move(match.start())
                if token == '"':
                    self.refuse("The quotation mark is never closed.", "Inside a text it is written twice.")
                return token[1:-1].replace('""', '"')
            number = read_number(token)
            if number is not None:
                self._move(match.start())
                return number
        self._move(len(self._text))
        return None

    def _move(self, offset: int) -> None:
        self.line += self._text.count("\n", self._offset, offset)
        self._offset = offset

    def header(self) -> str:
        """Return the next token, whatever it is: a file that is no TextGrid may hold anything."""
        return str(self._next() or "")

    def string(self, what: str) -> str:
        found = self._next()
        if not isinstance(found, str):
            self._wrong(what, "a text in quotation marks", found)
        return found

    def number(self, what: str) -> float:
        found = self._next()
        if not isinstance(found, float):
            self._wrong(what, "a number", found)
        return found

    def count(self, what: str) -> int:
        found = self.number(f"the number of {what}")
        if not (found >= 0 and found.is_integer()):
            self.refuse(f"The number of {what}{self.inside} is {found:g}.", "It is a whole number.")
        return int(found)

    def finish(self) -> None:
        found = self._next()
        if found is not None:
            self.refuse(f"After the last tier there is more: {str(found)[:60]!r}.", "A count (size) is too small.")

    def _wrong(self, what: str, kind: str, found: str | float | None) -> NoReturn:
        interval = f" of interval {self.interval}" if self.interval else ""
        instead = "the file ends" if found is None else f"there is {str(found)[:60]!r}"
        self.refuse(
            f"Here {what}{interval}{self.inside} was to come, {kind}; but {instead}.",
            "The file is cut, or one of its counts (size) is wrong: write it again.",
        )

    def refuse(self, message: str, hint: str) -> NoReturn:
        raise InputError(message, where=f"{self.path}:{self.line}", hint=hint)


def phone_tiers(tiers: Sequence[Tier], tier: str | None, where: str) -> list[Tier]:
    """Choose the phone tiers: one, or one for each speaker as MFA names them (`Ann - phones`).

    Parameters
    ----------
    tier
        Name of the tier, in any case, or what follows the speaker in it; None: one of `PHONE_TIERS`, or the only tier.

    Raises
    ------
    InputError
        Where no tier or several ones may be meant.
    """
    wanted = PHONE_TIERS if tier is None else {tier.strip().casefold()}
    plain = [one for one in tiers if one.name.strip().casefold() in wanted]
    spoken = [one for one in tiers if " - " in one.name and one.name.rpartition(" - ")[2].strip().casefold() in wanted]
    found = plain or spoken
    if not found and tier is None and len(tiers) == 1:
        found = list(tiers)
    if len(plain) > 1 or (tier is None and plain and spoken):
        both = ", ".join(one.name[:60] for one in (*plain, *spoken)[:12])
        hint = "Choose one with --tier NAME, or rename one."
        raise InputError(f"Several tiers may hold the phones: {both}.", where=where, hint=hint)
    if not found:
        message = "No tier is called like one of phones" if tier is None else f"There is no tier {tier!r}"
        hint = suggest(tier or "phones", [one.name[:60] for one in tiers])
        raise InputError(f"{message}.", where=where, hint=f"Choose one with --tier NAME. {hint}")
    if not any(one.marks for one in found):
        raise InputError(f"The tier {found[0].name[:60]!r} is empty.", where=where, hint="Align the recording again.")
    return found
