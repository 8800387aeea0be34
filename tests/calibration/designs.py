"""Gaps between groups of equal pooled rates that differ in spread, in number or in how much their speakers say.

    python tests/calibration/designs.py [SIMULATIONS]

prints for each design how often the interval of the largest gap lies above 0, how often the test of all pairs rejects
at 5 %, and how often the interval held the true gap; then how often rates are held. For docs/audits/asr_fairness.md.
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from audits.statistics import SpeakerSums, clearest, extremes, gap_between, rate_intervals

Floats = NDArray[np.float64]
Group = tuple[Floats, Floats]
"""True rates and words of the speakers of a group."""
Draw = Callable[[np.random.Generator], Group]


def skewed(count: int, mean: float, spread: float, words: int = 40) -> Draw:
    """Return a group whose rates are log-normal with this spread of their logarithm, 1 at most, and this mean."""
    normal = np.random.default_rng(0).normal(size=400_000)

    def capped(centre: float) -> float:
        return float(np.minimum(centre * np.exp(spread * normal - spread**2 / 2), 1.0).mean()) - mean

    centre = brentq(capped, mean / 2, mean * 2) if spread else mean
    sizes = np.full(count, float(words))
    return lambda rng: (np.minimum(centre * np.exp(spread * rng.normal(size=count) - spread**2 / 2), 1.0), sizes)


def talkative(count: int) -> Draw:
    """Return a group of whom one in five says 400 words with a rate of 0.5, and the others 20 with 0.1."""

    def draw(rng: np.random.Generator) -> Group:
        many = rng.random(count) < 0.2
        return np.where(many, 0.5, 0.1), np.where(many, 400.0, 20.0)

    return draw


def spread_as_beta(count: int, words: int = 40) -> Draw:
    """Return a group whose rates are beta(2, 6)."""
    return lambda rng: (rng.beta(2, 6, count), np.full(count, float(words)))


def near(count: int, mean: float, spread: float = 0.03, words: int = 60) -> Draw:
    """Return a group of speakers much alike."""
    return lambda rng: (np.clip(rng.normal(mean, spread, count), 0, 1), np.full(count, float(words)))


def none_or_many(count: int) -> Draw:
    """Return a group of whom one in five errs at 0.5, and the others never."""
    return lambda rng: (np.where(rng.random(count) < 0.2, 0.5, 0.0), np.full(count, 40.0))


TALKATIVE = (0.2 * 400 * 0.5 + 0.8 * 20 * 0.1) / (0.2 * 400 + 0.8 * 20)
"""The pooled rate of all speakers of `talkative`."""


def sums_of(groups: list[Draw], rng: np.random.Generator) -> SpeakerSums:
    """Draw the speakers of all groups and what they get wrong."""
    drawn = [draw(rng) for draw in groups]
    people = sum(len(rates) for rates, _ in drawn)
    errors, sizes, start = np.zeros((people, len(groups), 1)), np.zeros((people, len(groups))), 0
    for place, (rates, words) in enumerate(drawn):
        part = slice(start, start + len(rates))
        errors[part, place, 0], sizes[part, place] = rng.binomial(words.astype(int), rates), words
        start += len(rates)
    return SpeakerSums(errors=errors, hits=sizes[..., None] - errors, sizes=sizes)


def designs() -> Iterator[tuple[str, list[Draw], list[float]]]:
    """Yield the designs with the true pooled rates of their groups."""
    for groups, people, spreads in ((10, 10, (0.9, 1.2, 1.5)), (20, 20, (0.9, 1.2)), (2, 40, (0.9, 1.2))):
        for spread in spreads:
            yield (
                f"{groups} groups of {people}, half with a spread of 0.3 of the log rate, half {spread}",
                [skewed(people, 0.1, one) for one in (0.3, spread)] * (groups // 2),
                [0.1] * groups,
            )
    yield "10 of spread 1.5 against 60 alike", [skewed(10, 0.1, 1.5), skewed(60, 0.1, 0.0)], [0.1, 0.1]
    yield "10 against 60, spread 1.2 both", [skewed(10, 0.1, 1.2), skewed(60, 0.1, 1.2)], [0.1, 0.1]
    yield "the same, the small group 1.8 times worse", [skewed(10, 0.18, 1.2), skewed(60, 0.1, 1.2)], [0.18, 0.1]
    for groups, people in ((2, 12), (2, 6)):
        yield f"{groups} groups of {people}, beta(2, 6)", [spread_as_beta(people)] * groups, [0.25] * groups
    yield "10 groups of 10, most without an error", [none_or_many(10)] * 10, [0.1] * 10
    yield "25 and 25, 0.10 and 0.22, speakers much alike", [near(25, 0.1), near(25, 0.22)], [0.1, 0.22]
    for small, large in ((5, 30), (6, 60), (10, 60), (15, 100)):
        yield (
            f"{small} of whom one in five says 20 times as much and errs 5 times as often, against {large} alike",
            [talkative(small), skewed(large, TALKATIVE, 0.2)],
            [TALKATIVE, TALKATIVE],
        )


def measure(groups: list[Draw], truth: list[float], count: int, rng: np.random.Generator) -> Floats:
    """Return the shares of simulations with a gap above 0, with any pair told apart, and with the truth held."""
    found = np.zeros(3)
    for _ in range(count):
        sums = sums_of(groups, rng)
        worst, best = extremes(sums, 0)
        _, low, high = gap_between(sums, 0, "absolute", (worst, best), level=0.95)
        found += [low > 0, clearest(sums, 0, "pairs")[0] < 0.05, low <= truth[worst] - truth[best] <= high]
    return found / count


def held(draw: Draw, truth: float, count: int, rng: np.random.Generator) -> float:
    """Return how often the interval of a rate holds the truth."""
    drawn = [draw(rng) for _ in range(count)]
    sizes = np.stack([words for _, words in drawn], axis=1)
    errors = rng.binomial(sizes.astype(int), np.stack([rates for rates, _ in drawn], axis=1))
    found = rate_intervals(errors.astype(float), sizes)
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def rates() -> Iterator[tuple[str, Callable[[int], Draw], float, tuple[int, ...]]]:
    """Yield worlds of rates, by the number of speakers, with the true pooled rate."""

    def uneven(count: int) -> Draw:
        return lambda rng: (rng.beta(2, 6, count), np.maximum(1.0, np.round(40 * rng.lognormal(0, 1.2, count))))

    def dominated(count: int) -> Draw:
        sizes = np.full(count, 40.0)
        sizes[0] = 40.0 * (count - 1)
        return lambda rng: (rng.beta(2, 6, count), sizes)

    yield "beta(2, 6), as many words each", spread_as_beta, 0.25, (3, 5, 10, 15, 30, 60)
    yield "beta(2, 6), words log-normal (1.2)", uneven, 0.25, (3, 5, 10, 30, 60)
    yield "one speaker has half of the words", dominated, 0.25, (5, 15, 60)
    yield "one in five says 20 times as much and errs 5 times as often", talkative, TALKATIVE, (3, 5, 8, 10, 15, 30, 60)
    yield "rates log-normal (1.2)", lambda count: skewed(count, 0.1, 1.2, 200), 0.1, (3, 5, 8, 10, 20, 60)


def main(count: int) -> None:
    """Print both tables, in Markdown."""
    rng = np.random.default_rng(22)
    print("| simulated speakers | largest gap told | any pair told | interval held |\n| --- | --- | --- | --- |")
    for name, groups, truth in designs():
        few = count if len(groups) < 20 else count // 3
        found = measure(groups, truth, few, rng)
        print(f"| {name} | {found[0]:.3f} | {found[1]:.3f} | {found[2]:.3f} |", flush=True)
    print("\n| rates of one group | how often 95 % intervals hold, by speakers |\n| --- | --- |")
    for name, made, truth, counts in rates():
        shares = ", ".join(f"{people}: {held(made(people), truth, 4 * count, rng):.3f}" for people in counts)
        print(f"| {name} | {shares} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
