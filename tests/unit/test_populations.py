"""Are speakers and their errors drawn as planned?"""

from collections import Counter

import numpy as np
import pytest
from rate_ratio import ratio

from audits.speaker_groups.populations import (
    SPREAD,
    Effect,
    Plan,
    Population,
    Speaker,
    draw_counts,
    draw_factors,
    draw_speakers,
    scenario,
)
from audits.speaker_groups.transcripts import ATTRIBUTES, SHARES
from probes.core.errors import InputError

CASES = ("confounded", "real", "real-confounded", "null")


@pytest.mark.parametrize("count", [1, 7, 60, 240, 301])
def test_every_combination_has_its_share_of_the_speakers(count: int) -> None:
    population = draw_speakers(ATTRIBUTES, SHARES, count, np.random.default_rng(count))
    assert len({speaker.name for speaker in population.speakers}) == len(population.speakers) == count
    found = Counter(tuple(speaker.attributes.values()) for speaker in population.speakers)
    for levels, share in SHARES.items():
        assert abs(found[levels] - count * share) < 1
    assert all(tuple(speaker.attributes) == ATTRIBUTES for speaker in population.speakers)


def test_the_last_speakers_are_drawn_by_the_rest_of_their_shares() -> None:
    rng, shares = np.random.default_rng(0), {("a",): 3, ("b",): 1}
    found = Counter(draw_speakers(["x"], shares, 1, rng).speakers[0].attributes["x"] for _ in range(400))
    assert found["a"] / 400 == pytest.approx(0.75, abs=0.08)


@pytest.mark.parametrize("weights", [[], [0, 0], [2, -1], [1, np.nan], [np.inf, 1]])
def test_shares_that_are_none_are_refused(weights: list[float]) -> None:
    shares = {(str(number),): weight for number, weight in enumerate(weights)}
    with pytest.raises(InputError, match="weights"):
        draw_speakers(["x"], shares, 5, np.random.default_rng(0))


def test_a_population_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="0 speakers"):
        draw_speakers(["x"], {("a",): 1}, 0, np.random.default_rng(0))


def test_effects_multiply_where_all_their_levels_meet() -> None:
    people = [("old", "female"), ("old", "male"), ("young", "female")]
    population = Population(
        speakers=tuple(Speaker(name=age + sex, attributes={"age": age, "sex": sex}) for age, sex in people)
    )
    plan = Plan(
        base=0.1,
        effects=(Effect(where={"age": "old"}, ratio=2), Effect(where={"age": "old", "sex": "female"}, ratio=3)),
    )
    assert plan.rates(population) == pytest.approx([0.6, 0.2, 0.1])


@pytest.mark.parametrize("law", ["poisson", "binomial"])
@pytest.mark.parametrize("case", CASES)
def test_the_planted_ratios_are_in_a_large_draw(case: str, law: str) -> None:
    truth = scenario(case)
    rng = np.random.default_rng(CASES.index(case))
    plan = Plan(base=truth.plan.base, effects=truth.plan.effects, law=law)
    counts = draw_counts(draw_speakers(("accent", "age"), truth.shares, 20_000, rng), plan, rng)
    assert ratio(counts, "accent", "west", "east") == pytest.approx(truth.marginal, rel=0.025)
    aged = 2.0 if case == "confounded" else 1.0
    for age in ("young", "old"):
        assert ratio(counts, "accent", "west", "east", age=age) == pytest.approx(truth.adjusted, rel=0.04)
    for accent in ("east", "west"):
        assert ratio(counts, "age", "old", "young", accent=accent) == pytest.approx(aged, rel=0.04)


def test_the_first_three_cases_look_alike_without_age() -> None:
    for accent in ("east", "west"):
        rates = []
        for case in CASES[:3]:
            truth = scenario(case, age_ratio=3.0, tilt=0.7)
            population = draw_speakers(("accent", "age"), truth.shares, 200, np.random.default_rng(0))
            rates.append(truth.plan.rates(population)[population.labels("accent") == accent].mean())
        assert rates == pytest.approx([0.12 * {"east": 1.6, "west": 2.4}[accent]] * 3)
    assert scenario("confounded", age_ratio=3.0, tilt=0.7).marginal == pytest.approx(1.5)


@pytest.mark.parametrize(("case", "old"), [("confounded", 0.8), ("real", 0.5), ("real-confounded", 0.8), ("null", 0.8)])
def test_how_many_are_old_in_either_accent(case: str, old: float) -> None:
    labels = scenario(case).draw(np.random.default_rng(0), speakers=1000).labels
    assert np.mean(labels["age"][labels["accent"] == "west"] == "old") == pytest.approx(old, abs=0.02)
    assert np.mean(labels["age"][labels["accent"] == "east"] == "old") == pytest.approx(1 - old, abs=0.02)


@pytest.mark.parametrize("spread", [0.0, SPREAD, 1.0])
def test_speakers_differ_by_their_own_factor(spread: float) -> None:
    rng = np.random.default_rng(5)
    factors = draw_factors(200_000, spread, rng)
    assert factors.mean() == pytest.approx(1, abs=0.01) and factors.std() == pytest.approx(spread, abs=0.02)
    population = draw_speakers(["x"], {("a",): 1}, 20_000, rng)
    counts = draw_counts(population, Plan(base=0.2, spread=spread), rng)
    errors, words = (np.bincount(counts.speaker, values) for values in (counts.errors, counts.words))
    # Errors of a speaker have variance m + (spread m)^2 about their mean m = 0.2 x words.
    excess = ((errors - 0.2 * words) ** 2 - 0.2 * words).sum() / ((0.2 * words) ** 2).sum()
    assert excess == pytest.approx(spread**2, abs=0.05)


def test_clips_and_words_fill_their_ranges() -> None:
    counts = scenario("null").draw(np.random.default_rng(1))
    clips = np.bincount(counts.speaker)
    assert len(clips) == 300 and (clips.min(), clips.max()) == (6, 12)
    assert (counts.words.min(), counts.words.max()) == (4, 14)
    assert {len(values) for values in (counts.errors, counts.words, *counts.labels.values())} == {clips.sum()}
    assert all(len(set(counts.labels["age"][counts.speaker == number])) == 1 for number in range(300))


def test_binomial_errors_never_exceed_the_words_and_poisson_ones_may() -> None:
    population = draw_speakers(["x"], {("a",): 1}, 100, np.random.default_rng(0))
    bounded, free = (
        draw_counts(population, Plan(base=0.8, law=law), np.random.default_rng(0)) for law in ("binomial", "poisson")
    )
    assert (bounded.errors <= bounded.words).all() and (free.errors > free.words).any()


def test_a_draw_depends_on_its_generator_alone() -> None:
    first, again, other = (scenario("real").draw(np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first.errors, again.errors) and np.array_equal(first.labels["age"], again.labels["age"])
    assert not np.array_equal(first.errors[:1000], other.errors[:1000])
