"""What a run could show with the units that it has: the minimum detectable effects of an audit.

An audit that has intervals brings a step `detectable`: a function of options, plan and context that returns them before
anything is measured.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

POWER = 0.8
"""Probability with which an effect of the reported size is shown: the usual one of sample size tables."""

MOST_LISTED = 12
"""Effects that are listed; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The least effect that would be shown with probability `POWER`.

    Parameters
    ----------
    what
        The effect, as its audit calls it, with the groups that it lies between: "gap in WER by accent, indian and us".
    effect
        Its least size that would be shown, in the unit of the estimate; None: none would, and `assuming` says why.
    units
        On how many units that rests, in words: "12 and 240 speakers".
    assuming
        What was taken as given: spread, base rate, correction for how many tests.
    needed
        The units, in words, that an effect of this size needs; None: no number of units would do, or it is not known.
        Where there are two groups, both grow alike.
    possible
        Between which numbers such an effect lies; nothing can be asked for beyond them.

    Examples
    --------
    >>> found = Detectable(what="gap in accuracy", effect=0.123456, units="40 and 50 images", assuming="a rate of 0.5")
    >>> found.line
    'gap in accuracy: 0.12 or more (40 and 50 images; a rate of 0.5)'
    >>> found.asked(0.05)
    'gap in accuracy: no number of units is known that would show it'
    """

    what: str
    effect: float | None
    units: str
    assuming: str
    needed: Callable[[float], str | None] | None = None
    possible: tuple[float, float] = (0.0, math.inf)

    @property
    def line(self) -> str:
        """The effect in a line."""
        return f"{self._size} ({self.units}; {self.assuming})"

    @property
    def brief(self) -> str:
        """The effect in a line, without what was assumed."""
        return f"{self._size} ({self.units})"

    @property
    def _size(self) -> str:
        return f"{self.what}: " + ("no size" if self.effect is None else f"{self.effect:.2g} or more")

    def asked(self, effect: float) -> str:
        """Return in a line which units an effect of this size needs."""
        low, high = self.possible
        if not low < effect <= high:
            return f"{self.what}: no such size, it lies between {low:g} and {high:g}"
        units = self.needed(effect) if self.needed else None
        return f"{self.what}: " + (f"needs {units}" if units else "no number of units is known that would show it")


def listed(found: tuple[Detectable, ...], level: float, effect: float | None = None) -> list[tuple[str, str]]:
    """Return the lines of a dry run as (what, how much): the effects that could be shown, and what `effect` needs.

    Examples
    --------
    >>> gap = Detectable(what="gap", effect=0.2, units="9 and 9 users", assuming="a rate of 0.5")
    >>> for line in listed((gap,), 0.95):
    ...     print(line)
    ('can show', 'with probability 0.8, at the level 0.95:')
    ('', 'gap: 0.2 or more (9 and 9 users; a rate of 0.5)')

    What several assume is said once, before them.

    >>> for line in listed((gap, gap), 0.95)[1:]:
    ...     print(line)
    ('assuming', 'a rate of 0.5:')
    ('', 'gap: 0.2 or more (9 and 9 users)')
    ('', 'gap: 0.2 or more (9 and 9 users)')
    """
    if not found:
        return []
    more = len(found) - MOST_LISTED
    rest = [("", f"and {more} more")] if more > 0 else []
    lines = [("can show", f"with probability {POWER:g}, at the level {level:g}:")]
    lines += [*_lines(found[:MOST_LISTED]), *rest]
    if effect is not None:
        lines += [("--detect", f"{effect:g}, with the same probability:")]
        lines += [*(("", one.asked(effect)) for one in found[:MOST_LISTED]), *rest]
    return lines


def _lines(found: Sequence[Detectable]) -> Iterator[tuple[str, str]]:
    by_assumption: dict[str, list[Detectable]] = {}
    for one in found:
        by_assumption.setdefault(one.assuming, []).append(one)
    for assuming, several in by_assumption.items():
        if len(several) == 1:
            yield "", several[0].line
        else:
            yield "assuming", f"{assuming}:"
            yield from (("", one.brief) for one in several)
