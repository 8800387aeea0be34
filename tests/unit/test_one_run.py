"""Are the bounds of one run those of their definitions, and do they stay below the truth?"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from audits.statistics.one_run import (
    Guesses,
    count_guesses,
    one_run_epsilon,
    one_run_p,
    one_run_search,
    published_grid,
)
from audits.statistics.one_run_fdp import one_run_fdp_epsilon, one_run_mu

pytestmark = pytest.mark.numerical


def defined_p(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return the p-value with every i tried."""
    q = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, q))
    i = np.arange(1, correct + 1)
    steepest = ((binom.sf(correct - i - 1, guesses, q) - tail) / i).max(initial=0.0)
    return min(1.0, tail + 2 * canaries * delta * float(steepest))


def defined_epsilon(correct: int, guesses: int, canaries: int, delta: float, level: float = 0.95) -> float:
    low, high = 0.0, 30.0
    if defined_p(correct, guesses, canaries, 0.0, delta) >= 1 - level:
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if defined_p(correct, guesses, canaries, middle, delta) < 1 - level else (low, middle)
        )
    return low


def planted(canaries: int, shift: float, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    included = rng.random(canaries) < 0.5
    return rng.normal(size=canaries) + shift * included, included


@pytest.mark.parametrize(("guesses", "expected"), [(10, 1.015), (50, 2.756), (100, 3.465), (500, 5.088), (1000, 5.782)])
def test_all_guesses_right(guesses: int, expected: float) -> None:
    assert one_run_epsilon(guesses, guesses, 1000, delta=1e-5) == pytest.approx(expected, abs=6e-4)


def test_known_figures() -> None:
    assert one_run_p(90, 100, 1000, 1.0, 1e-5) == pytest.approx(8.4129e-4, rel=1e-5)
    assert one_run_epsilon(80, 100, 1000, delta=1e-5) == pytest.approx(0.9553, abs=6e-5)
    # A million canaries have no list of a million terms.
    assert one_run_epsilon(600_000, 1_000_000, 1_000_000, delta=0.0) == pytest.approx(math.log(1.5), abs=0.005)
    assert 0 < one_run_epsilon(600_000, 1_000_000, 1_000_000, delta=1e-9) < math.log(1.5)


@pytest.mark.parametrize("seed", range(4))
def test_values_are_those_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        canaries = int(rng.integers(1, 2000))
        guesses = int(rng.integers(0, canaries + 1))
        correct = int(guesses * rng.uniform(0.4, 1.0) + rng.random())
        correct, epsilon, delta = min(correct, guesses), float(rng.exponential(1.0)), float(10 ** rng.uniform(-8, -1))
        expected = defined_p(correct, guesses, canaries, epsilon, delta)
        assert one_run_p(correct, guesses, canaries, epsilon, delta) == pytest.approx(expected, rel=1e-7, abs=1e-300)
        if expected < 0.5:
            # What bisection rests on.
            assert one_run_p(correct, guesses, canaries, 0.98 * epsilon, delta) <= expected * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5, 1e-3])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_epsilon_is_the_last_that_is_refuted(delta: float, level: float) -> None:
    for correct, guesses in ((0, 0), (0, 10), (7, 10), (10, 10), (80, 100), (400, 700), (699, 700)):
        found = one_run_epsilon(correct, guesses, 700, delta=delta, level=level)
        assert found == pytest.approx(defined_epsilon(correct, guesses, 700, delta, level), abs=1e-5)
        if found > 0 and delta > 0:
            assert one_run_p(correct, guesses, 700, found, delta) < 1 - level
            assert one_run_p(correct, guesses, 700, found + 1e-6, delta) >= 1 - level


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((11, 10, 100, 1.0, 0.0), "11 right of 10"),
        ((1, 101, 100, 1.0, 0.0), "101 guesses"),
        ((-1, 10, 100, 1.0, 0.0), "-1 right"),
        ((1, 10, 100, -1.0, 0.0), "epsilon"),
        ((1, 10, 100, 1.0, 1.5), "delta"),
    ],
)
def test_nonsense_is_refused(wrong: tuple[int, int, int, float, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        one_run_p(*wrong)
    with pytest.raises(ValueError, match="level"):
        one_run_epsilon(1, 2, 3, delta=0.0, level=0.4)


@pytest.mark.parametrize(("canaries", "delta"), [(9, 0.0), (200, 0.0), (200, 1e-5)])
@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_the_search_finds_the_best_of_all_pairs(canaries: int, delta: float, shift: float) -> None:
    scores, included = planted(canaries, shift, seed=canaries)
    grid = published_grid(canaries)
    epsilon, best = one_run_search(scores, included, grid, delta=delta)
    counts = [count_guesses(scores, included, int(high), int(low)) for low, high in grid]
    every = [one_run_epsilon(one.correct, one.guesses, canaries, delta=delta) for one in counts]
    assert epsilon == pytest.approx(max(every), abs=1e-8)
    assert best in counts
    assert one_run_epsilon(best.correct, best.guesses, canaries, delta=delta) == pytest.approx(epsilon, abs=1e-8)
    if shift == 3.0 and canaries > 9:
        assert epsilon > 1.5


@pytest.mark.parametrize("seed", range(4))
def test_pairs_that_promise_more_than_they_hold_do_not_win(seed: int) -> None:
    """With a large delta the best pair is seldom the one that is best without."""
    scores, included = planted(400, 1.5, seed)
    low, high = np.random.default_rng(seed).integers(0, 201, size=(2, 20))
    grid = np.stack([low, high], axis=1)
    epsilon, best = one_run_search(scores, included, grid, delta=2e-4)
    counts = [count_guesses(scores, included, *pair[::-1]) for pair in grid.tolist()]
    assert epsilon == pytest.approx(
        max(one_run_epsilon(one.correct, one.guesses, 400, delta=2e-4) for one in counts), abs=1e-8
    )
    assert one_run_epsilon(best.correct, best.guesses, 400, delta=2e-4) == pytest.approx(epsilon, abs=1e-8)


def test_the_published_grid_is_all_pairs_of_steps() -> None:
    for canaries in (1, 2, 10, 1000):
        step = int(np.sqrt(canaries))
        starts = range(0, canaries, step)
        expected = [[out, canaries - start] for start in starts for out in range(0, start, step)]
        assert published_grid(canaries).tolist() == expected
    assert len(published_grid(1000)) == 528
    with pytest.raises(ValueError, match="no pair"):
        one_run_search([1.0], [1], published_grid(1), delta=0.0)


def test_guesses_are_counted_at_both_ends() -> None:
    scores = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    included = [1, 0, 1, 0, 1, 0]
    for (high, low), correct in {(0, 0): 0, (1, 0): 1, (3, 0): 2, (0, 1): 1, (0, 3): 2, (3, 3): 4, (6, 0): 3}.items():
        assert count_guesses(scores, included, high, low) == Guesses(high=high, low=low, correct=correct)
    for high, low in ((4, 3), (-1, 2)):
        with pytest.raises(ValueError, match="more guesses"):
            count_guesses(scores, included, high, low)
    for wrong in ([1.0, math.nan], [1.0, math.inf], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="finite"):
            count_guesses(wrong, [0, 1], 1, 0)


def test_the_order_of_a_file_counts_for_nothing() -> None:
    """A file that lists the members first and has the same score for everyone proves nothing, either way round."""
    included = np.arange(400) < 200
    for rows in (included, ~included):
        assert count_guesses(np.zeros(400), rows, 100, 100).correct == 0
        assert one_run_search(np.zeros(400), rows, published_grid(400), delta=1e-5)[0] == 0.0
    # One value for half of them: those above the border are guessed, none of the tie.
    scores = np.where(np.arange(400) < 50, 2.0, 1.0)
    assert count_guesses(scores, included, 100, 0).correct == 50
    assert count_guesses(scores, included, 50, 100).correct == 50


def test_ties_in_an_order_drawn_at_random_are_guessed() -> None:
    rng = np.random.default_rng(0)
    included = np.arange(1000) < 500
    order = rng.permutation(1000)
    found = count_guesses(np.zeros(1000), included, 100, 100, order=order).correct
    assert found == included[order >= 900].sum() + (~included[order < 100]).sum()
    # The order of ties never overrules a score.
    scores = rng.normal(size=1000)
    assert count_guesses(scores, included, 90, 80, order=order) == count_guesses(scores, included, 90, 80)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0])
def test_randomised_response_is_refuted_as_often_as_stated(epsilon: float) -> None:
    """Exact: the number of right guesses of randomised response is binomial, the worst that delta 0 allows."""
    guesses, truth = 100, 1 / (1 + math.exp(-epsilon))
    counts = np.arange(guesses + 1)
    found = np.array([one_run_epsilon(int(count), guesses, 1000, delta=0.0) for count in counts])
    assert (np.diff(found) >= 0).all()
    wrong = binom.pmf(counts, guesses, truth)[found > epsilon].sum()
    assert 0.02 < wrong <= 0.05


@pytest.mark.parametrize("mu", [1.0, 3.0])
def test_the_gaussian_mechanism_is_bounded_from_below(mu: float) -> None:
    """Each canary's score is one of a Gaussian mechanism's: mu itself is known, and its epsilon at delta 1e-5."""
    epsilon = {1.0: 4.377, 3.0: 16.676}[mu]
    plain, gaussian = [], []
    for seed in range(30):
        scores, included = planted(1000, mu, seed)
        right = count_guesses(scores, included, 150, 150)
        plain.append(one_run_epsilon(right.correct, 300, 1000, delta=1e-5))
        gaussian.append(one_run_mu(right.correct, 300, 1000))
    assert max(plain) < epsilon
    assert np.mean(np.array(gaussian) > mu) <= 0.05
    assert np.mean(plain) > 0.3 * epsilon - 0.6
    # With 300 of 1000 guesses mu comes nearer to the truth than epsilon without it.
    assert np.mean(gaussian) > 0.35 * mu


def slow_refuted(mu: float, correct: int, guesses: int, canaries: int, tail: float) -> bool:
    """Follow the probabilities of each number of right guesses in the words of the recursion, with scipy's normal."""
    from scipy.stats import norm

    inside, outside = {correct: tail * correct / canaries}, {correct: tail * (guesses - correct) / canaries}
    for i in range(correct - 1, -1, -1):
        if inside[i + 1] + outside[i + 1] >= guesses / canaries:
            return True
        outside[i] = max(outside[i + 1], float(norm.cdf(norm.ppf(inside[i + 1]) - mu)))
        inside[i] = inside[i + 1] + i / (guesses - i) * (outside[i] - outside[i + 1])
    return inside[0] + outside[0] >= guesses / canaries


@pytest.mark.parametrize(
    ("correct", "guesses", "canaries"), [(9, 10, 10), (28, 30, 100), (30, 30, 40), (70, 100, 1000), (100, 100, 100)]
)
def test_mu_is_the_last_that_is_refuted(correct: int, guesses: int, canaries: int) -> None:
    mu = one_run_mu(correct, guesses, canaries)
    assert mu > 0
    assert slow_refuted(mu - 1e-6, correct, guesses, canaries, 1 - 0.95)
    assert not slow_refuted(mu + 1e-6, correct, guesses, canaries, 1 - 0.95)


def test_mu_rises_with_right_guesses_and_falls_with_confidence() -> None:
    found = [one_run_mu(correct, 100, 500) for correct in range(0, 101, 4)]
    assert found[0] == found[12] == 0.0
    assert (np.diff(found)[15:] > 0).all()
    assert one_run_mu(80, 100, 500, level=0.999) < one_run_mu(80, 100, 500, level=0.9)
    assert one_run_mu(0, 0, 5) == one_run_mu(0, 5, 5) == 0.0
    with pytest.raises(ValueError, match="each number is in the next"):
        one_run_mu(3, 2, 5)
    with pytest.raises(ValueError, match="delta"):
        one_run_fdp_epsilon(1, 2, 5, delta=0.0)
    # As the notion of privacy is narrower, the same guesses refute more of it.
    assert one_run_fdp_epsilon(90, 100, 1000, delta=1e-5) > one_run_epsilon(90, 100, 1000, delta=1e-5)
