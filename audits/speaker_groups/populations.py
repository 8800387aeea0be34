"""Simulated populations of speakers whose errors depend in a known way on their groups.

Invents speakers whose attributes hang together, and counts of their errors without any text, for trials by the
hundred. Every effect is a ratio of error rates and is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError

SPREAD = 0.4
"""Coefficient of variation of the speakers' own factors."""

Floats = NDArray[np.float64]
Levels = tuple[str, ...]
Case = Literal["confounded", "real", "real-confounded", "null"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """One simulated speaker, with a level of each attribute."""

    name: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The speakers, numbered from 0 in their order."""

    speakers: tuple[Speaker, ...]

    def labels(self, attribute: str) -> NDArray[np.str_]:
        """Return each speaker's level of an attribute, shape (speakers,)."""
        return np.array([speaker.attributes[attribute] for speaker in self.speakers])


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The factor on the error rate of those who have all these levels."""

    where: Mapping[str, str]
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The error model of a speaker, per word: base x effects x a Gamma factor of the speaker with mean 1.

    `spread` is the Gamma factor's coefficient of variation; with 0, speakers differ by their attributes alone. Counts
    by the law "poisson" may exceed the words, as insertions can; by "binomial" they cannot, and a rate above 1 is 1.
    """

    base: float
    effects: tuple[Effect, ...] = ()
    spread: float = SPREAD
    law: Literal["poisson", "binomial"] = "poisson"

    def rates(self, population: Population) -> Floats:
        """Return the expected errors per word of each speaker, before the speaker's own factor; shape (speakers,)."""
        rates = np.full(len(population.speakers), self.base)
        for effect in self.effects:
            masks = [population.labels(attribute) == level for attribute, level in effect.where.items()]
            rates[np.logical_and.reduce(masks)] *= effect.ratio
        return rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Errors and reference words, the speaker's number and the levels of each clip; arrays of shape (clips,)."""

    errors: NDArray[np.int64]
    words: NDArray[np.int64]
    speaker: NDArray[np.int64]
    labels: Mapping[str, NDArray[np.str_]]


def draw_speakers(
    attributes: Sequence[str], shares: Mapping[Levels, float], count: int, rng: np.random.Generator
) -> Population:
    """Draw speakers from a joint distribution of attributes, in random order.

    `shares` are weights of combinations of levels, in the order of `attributes`; they need not add up to 1. Every
    combination gets its share of the speakers rounded down; the few that remain are drawn by what was cut off.

    Examples
    --------
    >>> halves = {("north", "old"): 1, ("south", "young"): 1}
    >>> people = draw_speakers(["accent", "age"], halves, 6, np.random.default_rng(0))
    >>> sorted(people.labels("age").tolist())
    ['old', 'old', 'old', 'young', 'young', 'young']
    """
    levels, weights = list(shares), np.array(list(shares.values()), dtype=np.float64)
    if count < 1 or not (np.isfinite(weights).all() and np.all(weights >= 0) and weights.sum() > 0):
        raise InputError(
            f"{count} speakers with weights {weights.tolist()} were asked for.",
            where="count, shares",
            hint="Ask for one speaker or more, with weights of 0 or more, one of them above 0.",
        )
    wanted = count * weights / weights.sum()
    # 0.3 x 10 must not become 2 for want of a last digit.
    whole = np.floor(wanted + 1e-9).astype(np.int64)
    left, cut = count - int(whole.sum()), np.clip(wanted - whole, 0, None)
    if left:
        whole[rng.choice(len(levels), size=left, replace=False, p=cut / cut.sum())] += 1
    dealt = rng.permutation(np.repeat(np.arange(len(levels)), whole))
    people = [
        Speaker(name=f"s{number:03d}", attributes=dict(zip(attributes, levels[cell], strict=True)))
        for number, cell in enumerate(dealt, start=1)
    ]
    return Population(speakers=tuple(people))


def draw_factors(count: int, spread: float, rng: np.random.Generator) -> Floats:
    """Return Gamma factors with mean 1 and coefficient of variation `spread`, shape (count,)."""
    return rng.gamma(spread**-2, spread**2, size=count) if spread else np.ones(count)


def draw_counts(
    population: Population,
    plan: Plan,
    rng: np.random.Generator,
    *,
    clips: tuple[int, int] = (6, 12),
    words: tuple[int, int] = (4, 14),
) -> Counts:
    """Draw the errors of every clip, without any text.

    Numbers of clips per speaker and of words per clip are uniform from the first to the second number, for everyone.
    """
    count = len(population.speakers)
    rates = plan.rates(population) * draw_factors(count, plan.spread, rng)
    speaker = np.repeat(np.arange(count), rng.integers(clips[0], clips[1] + 1, size=count))
    sizes = rng.integers(words[0], words[1] + 1, size=len(speaker))
    if plan.law == "poisson":
        errors = rng.poisson(sizes * rates[speaker])
    else:
        errors = rng.binomial(sizes, np.minimum(rates, 1.0)[speaker])
    labels = {attribute: population.labels(attribute)[speaker] for attribute in population.speakers[0].attributes}
    return Counts(errors=errors, words=sizes, speaker=speaker, labels=labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario: two accents (east, west), two ages (young, old), and the true ratio of west's rate to east's.

    `marginal` is the ratio of the two rates, `adjusted` the ratio among speakers of one age.
    """

    shares: Mapping[Levels, float]
    plan: Plan
    marginal: float
    adjusted: float

    def draw(self, rng: np.random.Generator, *, speakers: int = 300) -> Counts:
        """Draw the speakers and their errors: 6 to 12 clips each, of 4 to 14 words."""
        return draw_counts(draw_speakers(("accent", "age"), self.shares, speakers, rng), self.plan, rng)


def scenario(case: Case, *, base: float = 0.12, age_ratio: float = 2.0, tilt: float = 0.8) -> Scenario:
    """Return one of four cases, the first three with the same error rate in east, and the same in west.

    - "confounded": old speakers err `age_ratio` times as much, and they are a share `tilt` of west, 1 - tilt of east;
    - "real-confounded": the same speakers, but accent has the effect and age has none;
    - "real": as that, with half of the speakers old in either accent;
    - "null": the speakers of the first, and no effect of anything: all have `base` errors per word, as the young there.

    Examples
    --------
    Rates are 0.12 x (0.2 + 0.8 x 2) in west and 0.12 x (0.8 + 0.2 x 2) in east:

    >>> round(scenario("confounded").marginal, 6), scenario("confounded").adjusted
    (1.5, 1.0)
    """
    old = {"east": 0.5, "west": 0.5} if case == "real" else {"east": 1 - tilt, "west": tilt}
    shares: dict[Levels, float] = {}
    for accent, share in old.items():
        shares |= {(accent, "young"): 1 - share, (accent, "old"): share}
    east = 1 + (1 - tilt) * (age_ratio - 1)
    gap = (1 + tilt * (age_ratio - 1)) / east
    if case == "null":
        return Scenario(shares=shares, plan=Plan(base=base), marginal=1.0, adjusted=1.0)
    if case == "confounded":
        plan = Plan(base=base, effects=(Effect(where={"age": "old"}, ratio=age_ratio),))
        return Scenario(shares=shares, plan=plan, marginal=gap, adjusted=1.0)
    plan = Plan(base=base * east, effects=(Effect(where={"accent": "west"}, ratio=gap),))
    return Scenario(shares=shares, plan=plan, marginal=gap, adjusted=gap)
