"""The gaps between groups that a run could show, before it runs: of an attribute's hardest and easiest pair."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from audits.core.detectable import Detectable
from audits.core.wording import first_of, many
from audits.group_rates.wording import levels_of
from audits.statistics import Family, Floats, tail_of
from audits.statistics.power import units_needed
from audits.statistics.rate_power import Law, expected, least_gap

NAMED = 3
"""Groups of too few speakers that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What is known of a comparison before it is made.

    Parameters
    ----------
    what
        The gap in words: "gap in word error rate by accent".
    names, sizes
        The groups that are compared, and their trials by speaker, shape (speakers, groups); 0: not in the group.
    family, reference
        What is compared: all pairs, each with all others, or each with the group of reference, by its place.
    one_sided
        Whether only rates above count.
    chance
        Of an error of all intervals together, corrected for the number of tests.
    least
        Standard errors that the shuffled labels ask of a gap.
    assuming
        What was taken as given, in words.
    fewest
        Units of a group from which on it is compared.
    """

    what: str
    names: Sequence[str]
    sizes: Floats
    family: Family = "pairs"
    reference: int | None = None
    one_sided: bool = False
    chance: float = 0.05
    least: float = 0.0
    unit: str = "speakers"
    assuming: str = ""
    fewest: int = 2

    @property
    def tail(self) -> float:
        """Tail probability of each end of one interval."""
        return tail_of(self.family, len(self.names), self.chance, one_sided=self.one_sided)

    def pairs(self, law: Law) -> list[tuple[str, str, Floats, Floats]]:
        """Return the hardest pair and, where there are more than one, the easiest: both names, and trials by speaker.

        The hardest is that of the largest standard error; the first of a pair has fewer speakers, or is compared.
        """
        own = [column[column > 0] for column in self.sizes.T]
        errors = [expected(law, column, law.rate).true for column in own]
        if self.family == "pairs":
            order = np.argsort(errors, kind="stable")
            ends = [(order[-1], order[-2]), (order[0], order[1])]
            sides = [sorted(map(int, both), key=lambda at: (len(own[at]), at)) for both in ends]
            found = [(self.names[one], self.names[two], own[one], own[two]) for one, two in sides]
            return found[:1] if len(self.names) == 2 else found
        rest = self.sizes.sum(axis=1, keepdims=True) - self.sizes
        found = []
        for at in [at for at in np.argsort(errors, kind="stable")[::-1].tolist() if at != self.reference]:
            if self.reference is None:
                found.append((self.names[at], "all others", own[at], rest[rest[:, at] > 0, at]))
            else:
                found.append((self.names[at], self.names[self.reference], own[at], own[self.reference]))
        return found if len(found) == 1 else [found[0], found[-1]]


def least_gaps(design: Design, law: Law) -> list[Detectable]:
    """Return the least gaps that the comparison could show.

    Examples
    --------
    >>> sizes = np.kron(np.eye(2), np.ones((40, 1))) * 200
    >>> design = Design(what="gap by sex", names=("sex=f", "sex=m"), sizes=sizes, assuming="a rate of 0.2")
    >>> (gap,) = least_gaps(design, Law(rate=0.2, between=0.01))
    >>> gap.line
    'gap by sex, f and m: 0.068 or more (40 and 40 speakers; a rate of 0.2)'
    >>> gap.asked(0.05)
    'gap by sex, f and m: needs 73 and 73 speakers'
    """
    found = []
    for one, other, first, second in design.pairs(law):
        gap = partial(_gap, design, law, first, second)
        found.append(
            Detectable(
                what=f"{design.what}, {levels_of(one)} and {levels_of(other)}",
                effect=gap(1.0),
                units=f"{len(first):,} and {len(second):,} {design.unit}",
                assuming=design.assuming,
                needed=partial(_needed, gap, (len(first), len(second)), design),
            )
        )
    # Where groups are as large, and speak as much, one pair says it of all.
    alike = len(found) > 1 and all(part(found[0]) == part(found[1]) for part in (_size, lambda one: one.units))
    return found[:1] if alike else found


def _size(found: Detectable) -> str:
    return "" if found.effect is None else f"{found.effect:.2g}"


def _gap(design: Design, law: Law, first: Floats, second: Floats, factor: float) -> float | None:
    from scipy.stats import norm

    # What shuffled labels ask beyond the joint intervals is due to skew, which fades with the root of their number.
    plain = float(norm.isf(design.tail))
    least = plain + (design.least - plain) / math.sqrt(factor) if design.least else 0.0
    return least_gap(law, first, second, design.tail, least=least, factor=factor)


def _needed(gap: Callable[[float], float | None], counts: tuple[int, int], design: Design, effect: float) -> str | None:
    smaller = min(counts)
    units = units_needed(lambda count: gap(count / smaller), effect, most=10**6)
    if units is None:
        return None
    # Fewer would show it, but are not compared.
    units = max(units, design.fewest)
    return " and ".join(f"{math.ceil(count * units / smaller):,}" for count in counts) + f" {design.unit}"


def left_out(what: str, names: Sequence[str], counts: Sequence[int], why: str, unit: str, fewest: int) -> Detectable:
    """Return what a run says of groups that are not compared, since they have fewer than `fewest` units or few trials.

    >>> found = left_out("gap by accent", ("accent=welsh",), (3,), "groups of 10 are compared", "speakers", 10)
    >>> found.line
    'gap by accent, welsh: no size (3 speakers; groups of 10 are compared)'
    >>> found.asked(0.1)
    'gap by accent, welsh: needs at least 10 speakers in each group to be compared at all'
    """
    known = [levels_of(name) for name in names]
    shown = first_of(known, NAMED)
    few, more = min(counts), max(counts)
    people = f"{few:,} {unit}" if few == more else f"{few:,} to {more:,} {unit}"
    return Detectable(
        what=f"{what}, {shown}",
        effect=None,
        units=people,
        assuming=why,
        needed=lambda _: f"at least {fewest:,} {unit} in each group to be compared at all",
    )


def corrected_words(tests: int) -> str:
    """Return the words on the correction for so many tests.

    >>> corrected_words(1), corrected_words(3)
    ('', ', the strictest of 3 tests (Holm)')
    """
    return f", the strictest of {many(tests, 'test', 'tests')} (Holm)" if tests > 1 else ""
