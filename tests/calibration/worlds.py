"""Worlds in which the truth is known: units (speakers, sites, texts) with their own rates and sizes, in groups.

One generator for every audit. Groups with an even number are the calm ones of a world, groups with an odd number the
ones that give it its name. Without a shift all groups have the same pooled estimand, the expected errors over the
expected trials of a unit drawn from the group's law: whoever finds a difference between them is wrong.

The designs are those in which intervals of rates were measured to fail or to hold before this package was there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WORLDS = {
    "exchangeable": "rates beta(2, 6), sizes log-normal(1.2) about 60; all groups alike",
    "unequal-spread": "sizes of 60, mean rate .10; sd of the log rate .3 in even groups, .9 or 1.2 in odd ones",
    "informative-size": "in odd groups one unit in five has 400 trials at rate .5, the others 20 at .1; in even groups "
    "all have 96 at .433",
    "dominant-unit": "rates beta(2, 6); in odd groups one unit has half of all trials, else sizes are 60",
    "rare-events": "sizes of 40; three units in four never err, the others have rates beta(2, 6)",
    "ties": "sizes of 20; each unit makes exactly 1, 2, 3 or 4 errors",
}
UNITS = (3, 5, 10, 20, 60)
"""Units a group."""
LEVELS = (0.5, 0.9, 0.95, 0.999)
GAP = 0.12
"""Planted difference of the pooled rate of a group; 0.10 among ties, which keep to their grid."""

_MEAN, _LOW = 0.25, 0.10
_TALKER, _QUIET, _SHARE = (400.0, 0.5), (20.0, 0.1), 0.2
_GRID, _WEIGHTS = np.array([0.05, 0.10, 0.15, 0.20]), np.array([0.4, 0.3, 0.2, 0.1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Units of one group with what is true of them.

    Parameters
    ----------
    rates, sizes
        True rate and number of trials of every unit, shape (units,).
    estimand
        Pooled rate of the law they were drawn from: expected errors over expected trials.
    words
        Expected number of trials of the group.
    exact
        Whether a unit makes its rate times its size in errors, without chance.
    """

    rates: Floats
    sizes: Floats
    estimand: float
    words: float
    exact: bool = False

    def trials(
        self, rng: np.random.Generator, systems: int = 1, *, each: int = 20, most: int = 12
    ) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Draw errors in clips of about so many trials, at most so many clips a unit, by systems alike in truth.

        Returns
        -------
        unit and trials of every clip, shape (clips,), and errors, shape (clips, systems)
        """
        if self.exact:
            # Each system deals the same numbers of errors over the units anew: alike in truth, and as full of ties.
            fixed = np.rint(self.rates * self.sizes)
            dealt = [fixed, *(rng.permutation(fixed) for _ in range(systems - 1))]
            return np.arange(len(fixed)), self.sizes, np.stack(dealt, axis=1)
        pieces = np.clip(np.ceil(self.sizes / each), 1, most).astype(np.int64)
        unit = np.repeat(np.arange(len(pieces)), pieces)
        number = np.arange(len(unit)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        words = np.floor(self.sizes[unit] / pieces[unit])
        words += number < self.sizes[unit] - words * pieces[unit]
        rates = np.repeat(self.rates[unit][:, None], systems, axis=1)
        return unit, words, rng.binomial(words.astype(np.int64)[:, None], rates).astype(float)

    def scaled(self, factors: Floats | float, mean: float) -> "Group":
        """Return the group with every unit's rate times a factor of its own, of which the law's mean is known."""
        return replace(self, rates=self.rates * factors, estimand=self.estimand * mean, exact=False)


def groups_of(world: str, units: int, rng: np.random.Generator, shifts: Sequence[float] = (0.0, 0.0)) -> list[Group]:
    """Draw one group for every shift, each of so many units; a shift is what its pooled rate is above the null.

    Examples
    --------
    >>> calm, odd = groups_of("informative-size", 5, np.random.default_rng(0))
    >>> round(calm.estimand, 3) == round(odd.estimand, 3) == 0.433
    True
    """
    drawn = [_LAWS[world](place, units, rng) for place in range(len(shifts))]
    return [_shifted(group, shift) for group, shift in zip(drawn, shifts, strict=True)]


def _shifted(group: Group, shift: float) -> Group:
    """Raise the pooled rate: a share of what went right goes wrong, the same in every unit."""
    if shift == 0:
        return group
    if group.exact:
        step = round(shift / 0.05) * 0.05
        return replace(group, rates=group.rates + step, estimand=group.estimand + step)
    share = shift / (1 - group.estimand)
    rates = group.rates + share * (1 - group.rates)
    return replace(group, rates=rates, estimand=group.estimand + shift)


def _exchangeable(place: int, units: int, rng: np.random.Generator) -> Group:
    sizes = np.clip(np.rint(60 * rng.lognormal(0.0, 1.2, units)), 2, 10_000)
    expected = 60 * math.exp(1.2**2 / 2) * units
    return Group(rates=rng.beta(2, 6, units), sizes=sizes, estimand=_MEAN, words=expected)


def _unequal(place: int, units: int, rng: np.random.Generator) -> Group:
    spread = 0.3 if place % 2 == 0 else (0.9, 1.2)[place // 2 % 2]
    middle = _median(spread)
    rates = np.minimum(middle * np.exp(spread * rng.standard_normal(units)), 1.0)
    return Group(rates=rates, sizes=np.full(units, 60.0), estimand=_LOW, words=60.0 * units)


@cache
def _median(spread: float) -> float:
    """Return the median of a log-normal rate, cut at 1, whose mean is the one wanted."""
    normal, middle = NormalDist(), _LOW
    for _ in range(50):
        edge = -math.log(middle) / spread
        mean = middle * math.exp(spread**2 / 2) * normal.cdf(edge - spread) + 1 - normal.cdf(edge)
        middle *= _LOW / mean
    return middle


def _informative(place: int, units: int, rng: np.random.Generator) -> Group:
    (many, often), (few, seldom) = _TALKER, _QUIET
    size = _SHARE * many + (1 - _SHARE) * few
    pooled = (_SHARE * many * often + (1 - _SHARE) * few * seldom) / size
    if place % 2 == 0:
        return Group(rates=np.full(units, pooled), sizes=np.full(units, size), estimand=pooled, words=size * units)
    talks = rng.random(units) < _SHARE
    return Group(
        rates=np.where(talks, often, seldom), sizes=np.where(talks, many, few), estimand=pooled, words=size * units
    )


def _dominant(place: int, units: int, rng: np.random.Generator) -> Group:
    sizes = np.full(units, 60.0)
    if place % 2:
        sizes[rng.integers(units)] = 60.0 * (units - 1)
    return Group(rates=rng.beta(2, 6, units), sizes=sizes, estimand=_MEAN, words=float(sizes.sum()))


def _rare(place: int, units: int, rng: np.random.Generator) -> Group:
    rates = np.where(rng.random(units) < 0.25, rng.beta(2, 6, units), 0.0)
    return Group(rates=rates, sizes=np.full(units, 40.0), estimand=_MEAN / 4, words=40.0 * units)


def _ties(place: int, units: int, rng: np.random.Generator) -> Group:
    rates = rng.choice(_GRID, units, p=_WEIGHTS)
    return Group(
        rates=rates, sizes=np.full(units, 20.0), estimand=float(_GRID @ _WEIGHTS), words=20.0 * units, exact=True
    )


_LAWS = {
    "exchangeable": _exchangeable,
    "unequal-spread": _unequal,
    "informative-size": _informative,
    "dominant-unit": _dominant,
    "rare-events": _rare,
    "ties": _ties,
}
