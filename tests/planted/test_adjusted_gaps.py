"""Do tests and intervals with other things held fixed hold where groups are many, small, uneven or unlike each other?

Each world says who is in which group, the speakers' own error rates and how many words they say; an age that has
nothing to do with it is held fixed.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from audits.statistics import NotFitted, adjusted_gap, adjusted_rates, fit_poisson_gee, wald_test
from audits.statistics.poisson_tests import freedom

Floats = NDArray[np.float64]
World = tuple[NDArray[np.int64], Floats, Floats]
SKEW = 1.2
"""Standard deviation of the logarithm of a speaker's rate: one in six has more than three times the median."""


def alike(groups: int, people: int) -> Callable[[np.random.Generator], World]:
    def drawn(rng: np.random.Generator) -> World:
        count = groups * people
        return np.repeat(np.arange(groups), people), 0.1 * rng.gamma(4, 0.25, count), np.full(count, 60.0)

    return drawn


def few_against_many(rng: np.random.Generator) -> World:
    return np.repeat([0, 1], [10, 60]), 0.1 * rng.gamma(4, 0.25, 70), np.full(70, 60.0)


def unequal_skew(rng: np.random.Generator) -> World:
    own = np.exp(SKEW * rng.normal(size=10) - SKEW**2 / 2)
    return np.repeat([0, 1], [10, 60]), np.append(0.1 * own, np.full(60, 0.1)), np.full(70, 60.0)


def talkative_err_more(rng: np.random.Generator) -> World:
    talks = rng.random(10) < 0.2
    rates, words = np.where(talks, 0.5, 0.1), np.where(talks, 400.0, 20.0)
    # Of all words, 80 of 96 are of those who talk: both groups err in 41.6 of 96.
    return np.repeat([0, 1], [10, 60]), np.append(rates, np.full(60, 41.6 / 96)), np.append(words, np.full(60, 96.0))


def uneven_words(rng: np.random.Generator) -> World:
    words = np.ceil(60 * np.exp(1.2 * rng.normal(size=30)))
    return np.repeat([0, 1], 15), 0.1 * rng.gamma(4, 0.25, 30), words


def apart(rng: np.random.Generator) -> World:
    rates = np.repeat([0.22, 0.10], 25) + 0.03 * rng.normal(size=50)
    return np.repeat([0, 1], 25), np.maximum(rates, 0.005), np.full(50, 60.0)


def found(world: Callable[[np.random.Generator], World], trials: int) -> tuple[float, int]:
    """Return how often test and interval both show a gap, and in how many samples there was a model."""
    shown = fitted = 0
    for seed in range(trials):
        rng = np.random.default_rng((3, seed))
        group, rates, words = world(rng)
        errors, age = rng.poisson(words * rates).astype(float), rng.random(group.size) < 0.5
        count = int(group.max()) + 1
        design = np.column_stack([group == place for place in range(count)] + [age]).astype(float)
        design[:, 0] = 1.0
        try:
            fit = fit_poisson_gee(errors, words, design, np.arange(group.size))
        except NotFitted:
            continue
        logs = np.eye(count + 1)[:count]
        logs[0] = 0.0
        adjusted = adjusted_rates(fit, logs, words, group)
        worst = int(adjusted.value.argmax())
        best = int(np.where(np.arange(count) == worst, np.inf, adjusted.value).argmin())
        _, gap = adjusted_gap(fit, adjusted, (worst, best), level=0.95, top=max(1.0, float((errors / words).max())))
        shown += wald_test(fit, range(1, count)) < 0.05 and gap[1] > 0
        fitted += 1
    return shown / fitted, fitted


@pytest.mark.parametrize(
    "world",
    [alike(2, 12), alike(4, 10), alike(8, 5), few_against_many, uneven_words],
    ids=["2x12", "4x10", "8x5", "10 against 60", "uneven words"],
)
def test_no_gap_is_seldom_shown_where_there_is_none(world: Callable[[np.random.Generator], World]) -> None:
    share, trials = found(world, 120)
    assert trials >= 115
    assert share <= binom.ppf(0.999, trials, 0.05) / trials


@pytest.mark.parametrize(
    ("world", "known"), [(unequal_skew, 0.10), (talkative_err_more, 0.13)], ids=["unequal skew", "talkative err more"]
)
def test_where_speakers_who_were_never_drawn_decide_no_more_is_shown_than_documented(
    world: Callable[[np.random.Generator], World], known: float
) -> None:
    share, trials = found(world, 150)
    assert share <= binom.ppf(0.999, trials, known) / trials


def test_a_real_gap_is_shown() -> None:
    assert found(apart, 60)[0] >= 0.9


def test_the_joint_test_alone_keeps_its_level_with_many_levels_of_few_speakers() -> None:
    rejected = 0
    for seed in range(150):
        rng = np.random.default_rng((4, seed))
        group, rates, words = alike(8, 5)(rng)
        design = (group[:, None] == np.arange(8)).astype(float)
        design[:, 0] = 1.0
        fit = fit_poisson_gee(rng.poisson(words * rates).astype(float), words, design, np.arange(40))
        rejected += wald_test(fit, range(1, 8)) < 0.05
        assert freedom(fit, np.eye(8)[1:]) < 25, "more degrees of freedom than eight levels of five have"
    assert rejected <= binom.ppf(0.999, 150, 0.05)
