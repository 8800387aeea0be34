"""Shared parts of the figures: short, distinct and safe names of groups."""

import unicodedata
from collections.abc import Iterable

from audits.speaker_groups.counts import Utterances

LONGEST, LONGEST_TITLE = 22, 44
"""Width in letters of a name on a chart and of a line above a panel; tables and tooltips hold the whole name."""
OVERRIDES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def levels_of(group: str, by: str) -> str:
    """Return the levels of a group without the names of the attributes, which stand above."""
    parts = zip(group.split("&"), by.split("&"), strict=True)
    return " & ".join(short(part.removeprefix(f"{name}=")) for part, name in parts)


def attribute_of(data: Utterances, by: str) -> str:
    """Return the title of a panel for the attributes of a set."""
    every = [groups.by for groups in data.singles()]
    called = dict(zip(every, named_apart(every), strict=True))
    return " & ".join(called[name] for name in by.split("&"))


def named_apart(names: Iterable[str]) -> list[str]:
    """Return distinct short names, since a step of a chart holds all rows of its name."""
    return distinct(short(name) for name in names)


def distinct(texts: Iterable[str]) -> list[str]:
    """Make texts distinct: a repeated one gets a number."""
    seen: dict[str, None] = {}
    for text in texts:
        found, number = text, 1
        while found in seen:
            number += 1
            found = f"{text} ({number})"
        seen[found] = None
    return list(seen)


def short(name: str) -> str:
    """Return a name without bidirectional controls, and with its middle cut where it is wide."""
    name = "".join(letter for letter in name if unicodedata.bidirectional(letter) not in OVERRIDES)
    if width(name) <= LONGEST:
        return name
    head = next(name[:end] for end in range(LONGEST, -1, -1) if width(name[:end]) <= LONGEST * 2 // 3)
    tail = next(name[-end:] for end in range(LONGEST, 0, -1) if width(name[-end:]) < LONGEST - width(head))
    return f"{head.rstrip()}…{tail.lstrip()}"


def width(text: str) -> int:
    """Return the display width of a text in letters: East Asian ones and emoji take two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)
