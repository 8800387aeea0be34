"""Times of the clock, written as hours and minutes."""

import re

from probes.speech.open_asr.numbers import ONES, standardise_numbers

_DIGIT = "|".join(word for word, value in ONES.items() if value < 10)
_NUMBER = rf"(?:[0-9]{{1,2}}|(?:twenty|thirty|forty|fifty)(?:[\s-]+(?:{_DIGIT}))?|{'|'.join(ONES)}|zero)"
_CLOCK = r"o\s*(?:['\u2019]\s*)?clock"
_RELATIVE = re.compile(
    rf"(?<![\w.:])(half|(?:a\s+)?quarter|{_NUMBER}\s+minutes?)\s+(past|after|to|before)\s+({_NUMBER})(?:\s+{_CLOCK})?\b"
)
_ON_THE_HOUR = re.compile(rf"(?<![\w.:])({_NUMBER})\s+{_CLOCK}\b")
_FIGURES = re.compile(r"(?<![\w:./])([01]?[0-9]|2[0-3]):([0-5][0-9])(?![\w:]|\.[0-9])")


def standardise_times(text: str) -> str:
    """Write the times of a text in lower case as 3:30, and full hours as 3.

    Examples
    --------
    >>> standardise_times("at half past three, a quarter to one and 7 o'clock, not at 08:00")
    'at 3:30, 12:45 and 7, not at 8'
    """
    text = _ON_THE_HOUR.sub(_on_the_hour, _RELATIVE.sub(_relative, text))
    return _FIGURES.sub(lambda m: f"{int(m[1])}:{m[2]}" if int(m[2]) else str(int(m[1])), text)


def _value(text: str) -> int:
    found = standardise_numbers(text.replace("-", " ")).strip()
    return 1 if found == "one" else int(found)


def _on_the_hour(match: re.Match[str]) -> str:
    hour = _value(match[1])
    return f"{hour}:00" if hour < 24 else match[0]


def _relative(match: re.Match[str]) -> str:
    amount, relation, hour = match[1], match[2], _value(match[3])
    short = {"half": 30, "quarter": 15}.get(amount.split()[-1])
    minute = _value(amount.rpartition("minute")[0]) if short is None else short
    if hour > 23 or minute > 59:
        return match[0]
    if relation in ("to", "before") and minute:
        # Before one it is twelve; before 13, twelve too.
        hour, minute = ((hour - 2) % 12 + 1 if 1 <= hour <= 12 else (hour - 1) % 24), 60 - minute
    return f"{hour}:{minute:02d}"
