"""Speakers in groups of any size whose rates and gap are known, and what the audit of groups makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from counted_clips import counted, inputs_of
from numpy.typing import NDArray

from audits.core.context import Cache, Context, Plan
from audits.core.detectable import Detectable
from audits.speaker_groups import Options
from audits.speaker_groups.counts import Utterances
from audits.speaker_groups.detectable import detectable
from audits.speaker_groups.gaps import compare
from audits.speaker_groups.hypotheses import Verdict, verdicts_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class World:
    """Groups of so many speakers, whose rates are of a beta law or log-normal, and whose words are log-normal.

    Parameters
    ----------
    people
        Speakers of each group; what is planted is planted in the first.
    rate, spread
        Mean of the speakers' rates, and by group their standard deviation (of the logarithm where `skewed`).
    words, uneven
        Middle number of words of a speaker, and the standard deviation of its logarithm.
    """

    people: Sequence[int]
    rate: float = 0.15
    spread: Sequence[float] = (0.1,)
    skewed: bool = False
    words: float = 60.0
    uneven: float = 0.8

    def sizes(self, rng: np.random.Generator) -> Floats:
        """Draw the words of every speaker."""
        drawn = self.words * rng.lognormal(0.0, self.uneven, sum(self.people))
        return np.clip(np.rint(drawn), 5.0, 10_000.0)

    def data(self, sizes: Floats, gap: float, rng: np.random.Generator) -> Utterances:
        """Draw errors of speakers with so many words, of whom the first group errs more."""
        place = np.repeat(np.arange(len(self.people)), self.people)
        rates = np.concatenate([self._rates(at, count, rng) for at, count in enumerate(self.people)])
        errors = rng.binomial(sizes.astype(np.int64), np.clip(rates + gap * (place == 0), 0.0, 1.0))
        return counted([{"group": f"g{at}"} for at in place.tolist()], errors, sizes, by=("group",), max_order=1)

    def _rates(self, at: int, count: int, rng: np.random.Generator) -> Floats:
        spread = self.spread[at % len(self.spread)]
        if self.skewed:
            return np.minimum(self.rate * np.exp(spread * rng.standard_normal(count) - spread**2 / 2), 1.0)
        known = self.rate * (1 - self.rate) / spread**2 - 1
        return rng.beta(self.rate * known, (1 - self.rate) * known, count)


def asked(data: Utterances, **more: object) -> Options:
    """Return the options of an audit of this data, with few shuffles."""
    by = tuple(groups.by for groups in data.singles())
    return Options(manifest=Path("m.csv"), by=by, min_speakers=5, permutations=400, **more)  # type: ignore[arg-type]


def told(data: Utterances, **more: object) -> tuple[Detectable, ...]:
    """Return what the dry run of an audit of this data tells."""
    words = data.counts[0].sizes
    table = {name: {"errors": data.counts[0].errors[:, at], "words": words} for at, name in enumerate(data.systems)}
    inputs = replace(inputs_of(data, data.attributes), counted=table)
    plan = Plan(inputs=inputs, subject=None, data=(), cost=())
    return detectable(asked(data, **more), plan, Context(cache=Cache(Path("nowhere"))))


def verdict(data: Utterances, seed: int, **more: object) -> Verdict:
    """Return the verdict of the declared test on the only attribute."""
    options = asked(data, **more)
    found = compare(data, data.counts[0], data.sets[0], options, seed=seed, level=0.95)
    (only,) = verdicts_of(data, [found], (), options.hypothesis, 0.95)
    return only


def shown(
    world: World, rng: np.random.Generator, *, designs: int, draws: int, share: float = 1.0
) -> tuple[float, float]:
    """Return how often a gap of the told size, or a share of it, is shown, and the mean size.

    In each of several designs (words of the speakers) the size is told from data without a gap, then planted in fresh
    ones.
    """
    hits, sizes = 0, []
    for _ in range(designs):
        words = world.sizes(rng)
        effect = told(world.data(words, 0.0, rng))[0].effect
        assert effect is not None
        sizes.append(effect)
        for _ in range(draws):
            hits += verdict(world.data(words, share * effect, rng), int(rng.integers(2**31))).found
    return hits / designs / draws, float(np.mean(sizes))
