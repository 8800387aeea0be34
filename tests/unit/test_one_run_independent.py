"""Are bounds for canaries that do not interfere the best guesser's own chances, and false where they do?"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom, norm

from audits.statistics.epsilon_bounds import gdp_epsilon
from audits.statistics.one_run import count_guesses, one_run_epsilon, one_run_p
from audits.statistics.one_run_fdp import one_run_mu
from audits.statistics.one_run_independent import (
    FAR,
    one_run_independent_epsilon,
    one_run_independent_gdp_epsilon,
    one_run_independent_gdp_p,
    one_run_independent_mu,
    one_run_independent_p,
)

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]
SMALL = [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 2), (4, 3), (4, 4)]
"""Canaries, and guesses about them."""


def leaky(epsilon: float, delta: float) -> Floats:
    """Return the mechanism that shows most of a coin: chances of its four outcomes, in and out, shape (2, 4)."""
    q = 1 / (1 + math.exp(-epsilon))
    return np.array(
        [[delta, (1 - delta) * q, (1 - delta) * (1 - q), 0], [0, (1 - delta) * (1 - q), (1 - delta) * q, delta]]
    )


def cut(mu: float, edges: Floats) -> Floats:
    """Return a Gaussian mechanism of which only the cell between edges is shown, shape (2, cells)."""
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    return np.array([np.diff(norm.cdf(ends - mu)), np.diff(norm.cdf(ends))])


def everything(shown: Floats, canaries: int, guesses: int, wild: np.random.Generator | None = None) -> Floats:
    """Return the probability of each number of right guesses, shape (guesses + 1,), with all outcomes gone through.

    The surest are guessed, or whatever `wild` draws for each of the outcomes.
    """
    found = np.zeros(guesses + 1)
    seen, posterior = shown.mean(0), shown[0] / np.maximum(shown.sum(0), 1e-300)
    for outcome in itertools.product(range(shown.shape[1]), repeat=canaries):
        place = list(outcome)
        chance, believed = float(np.prod(seen[place])), posterior[place]
        if not chance:
            continue
        if wild is None:
            chosen = np.argsort(-np.abs(believed - 0.5), kind="stable")[:guesses]
            right = np.maximum(believed, 1 - believed)[chosen]
        else:
            chosen = wild.permutation(canaries)[:guesses]
            right = np.where(wild.random(guesses) < 0.5, believed[chosen], 1 - believed[chosen])
        counted = np.ones(1)
        for one in right:
            counted = np.convolve(counted, [1 - one, one])
        found += chance * counted
    return found


def tails(chances: Floats) -> Floats:
    """Return P(at least v right guesses) for each v."""
    return np.cumsum(chances[::-1])[::-1]


def p_values(canaries: int, guesses: int, epsilon: float, delta: float) -> list[float]:
    return [one_run_independent_p(correct, guesses, canaries, epsilon, delta) for correct in range(guesses + 1)]


@pytest.mark.parametrize(("canaries", "guesses"), SMALL)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.0, 0.2), (1.0, 0.01), (2.5, 0.3), (0.7, 1.0)])
def test_the_best_guesser_of_the_leakiest_mechanism_reaches_it(
    canaries: int, guesses: int, epsilon: float, delta: float
) -> None:
    expected = tails(everything(leaky(epsilon, delta), canaries, guesses))
    found = p_values(canaries, guesses, epsilon, delta)
    assert found == pytest.approx(expected.tolist(), rel=1e-8)
    # Rounding is for the safe side.
    assert all(one >= other for one, other in zip(found, np.minimum(expected, 1 - 1e-12), strict=True))


def mechanisms(epsilon: float, delta: float, rng: np.random.Generator) -> Iterator[Floats]:
    """Draw mechanisms that are (epsilon, delta)-private: garblings of the leakiest one."""
    for _ in range(10):
        yield leaky(epsilon, delta) @ rng.dirichlet(np.full(3, 0.3), size=4)


@pytest.mark.parametrize(("canaries", "guesses"), [(2, 1), (3, 2), (4, 4)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.5, 0.02)])
def test_no_other_mechanism_or_guesser_exceeds_it(canaries: int, guesses: int, epsilon: float, delta: float) -> None:
    rng = np.random.default_rng(3)
    most = np.array(p_values(canaries, guesses, epsilon, delta))
    for shown in mechanisms(epsilon, delta, rng):
        for wild in (None, rng):
            assert (tails(everything(shown, canaries, guesses, wild)) <= most + 1e-12).all()


@pytest.mark.parametrize(("canaries", "guesses"), [(2, 1), (3, 1), (3, 2), (3, 3)])
@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0])
def test_a_gaussian_mechanism_cut_into_cells_stays_below_and_comes_near(canaries: int, guesses: int, mu: float) -> None:
    most = np.array([one_run_independent_gdp_p(correct, guesses, canaries, mu) for correct in range(guesses + 1)])
    rough = tails(everything(cut(mu, np.array([mu / 2])), canaries, guesses))
    fine = tails(everything(cut(mu, np.linspace(mu / 2 - 2.4, mu / 2 + 2.4, 13)), canaries, guesses))
    assert (rough <= most + 1e-12).all() and (fine <= most + 1e-12).all()
    assert most == pytest.approx(fine, abs=0.03)
    rng = np.random.default_rng(5)
    wild = tails(everything(cut(mu, np.linspace(-1, 1 + mu, 5)), canaries, guesses, rng))
    assert (wild <= most + 1e-12).all()


@pytest.mark.parametrize(("guesses", "mu"), [(20, 1.0), (100, 0.5), (100, 2.0), (400, 2.0), (500, 1.0)])
def test_chances_with_a_gaussian_mechanism_are_those_of_simulated_canaries(guesses: int, mu: float) -> None:
    canaries, draws = 500, 4000
    rng = np.random.default_rng([guesses, int(10 * mu)])
    included = rng.random((draws, canaries)) < 0.5
    shown = rng.standard_normal((draws, canaries)) + mu * included - mu / 2
    surest = np.argsort(-np.abs(shown), axis=1)[:, :guesses]
    correct = np.take_along_axis((shown > 0) == included, surest, axis=1).sum(1)
    for count in np.quantile(correct, [0.05, 0.5, 0.95], method="nearest").astype(int).tolist():
        seen = float((correct >= count).mean())
        expected = one_run_independent_gdp_p(count, guesses, canaries, mu)
        # Cells count as their worst edge: a little too much, and never too little.
        assert -0.03 <= seen - expected <= 4 * math.sqrt(expected * (1 - expected) / draws), count


@pytest.mark.parametrize(
    ("guesses", "canaries", "mu"), [(20, 500, 1.0), (100, 500, 2.0), (400, 1000, 0.3), (1, 2, 3.0)]
)
def test_cells_make_chances_a_little_larger_than_the_integral_and_never_smaller(
    guesses: int, canaries: int, mu: float
) -> None:
    # Midpoints of many equal shares of the law of the surest canary left out.
    surer = beta.ppf((np.arange(4000) + 0.5) / 4000, guesses + 1, canaries - guesses)
    grid = np.linspace(0, 12, 200_001)
    exceeded = norm.cdf(mu / 2 - grid) + norm.cdf(-mu / 2 - grid)
    places = np.interp(surer, exceeded[::-1], grid[::-1])
    right = norm.cdf(mu / 2 - places) / surer
    for share in (0.55, 0.75, 0.9, 1.0):
        correct = math.ceil(share * guesses)
        exact = float(binom.sf(correct - 1, guesses, right).mean())
        found = one_run_independent_gdp_p(correct, guesses, canaries, mu)
        assert exact * (1 - 1e-6) <= found <= 1.15 * exact + 2 * FAR, (correct, exact, found)
    # What is outside of the cells counts as right guesses: so much is never refuted.
    assert one_run_independent_gdp_p(200, 200, 1000, 0.1) >= FAR > 0.55**200


@pytest.mark.parametrize(("correct", "guesses", "canaries"), [(10, 10, 1000), (80, 100, 1000), (300, 500, 500)])
def test_without_delta_it_is_the_bound_that_holds_with_interference(correct: int, guesses: int, canaries: int) -> None:
    for epsilon in (0.0, 0.4, 2.0):
        expected = one_run_p(correct, guesses, canaries, epsilon, 0.0)
        assert one_run_independent_p(correct, guesses, canaries, epsilon, 0.0) == pytest.approx(expected, rel=1e-8)
    expected = one_run_epsilon(correct, guesses, canaries, delta=0.0)
    assert one_run_independent_epsilon(correct, guesses, canaries, delta=0.0) == pytest.approx(expected, abs=1e-7)


def test_delta_does_not_add_up_over_canaries() -> None:
    # 0.1 of a hundred thousand canaries is revealed on average.
    delta, counts = 1e-6, (950, 1000, 100_000)
    free, exact = one_run_epsilon(*counts, delta=0.0), one_run_independent_epsilon(*counts, delta=delta)
    assert one_run_epsilon(*counts, delta=delta) < exact < free
    assert free - exact < 0.1 * (free - one_run_epsilon(*counts, delta=delta))


@pytest.mark.parametrize("canaries", [10, 1000, 1_000_000])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.01, 0.4])
def test_a_bound_is_the_largest_that_is_refuted_and_is_refuted_itself(canaries: int, delta: float) -> None:
    for share, level in itertools.product((0.6, 0.9, 1.0), (0.9, 0.95, 0.999)):
        guesses = canaries // 2
        correct = int(share * guesses)
        found = one_run_independent_epsilon(correct, guesses, canaries, delta=delta, level=level)
        p = one_run_independent_p(correct, guesses, canaries, found, delta)
        assert p < 1 - level if found else p >= 1 - level
        assert one_run_independent_p(correct, guesses, canaries, found + 2e-8, delta) >= 1 - level
        mu = one_run_independent_mu(correct, guesses, canaries, level=level)
        p = one_run_independent_gdp_p(correct, guesses, canaries, mu)
        assert p < 1 - level if mu else p >= 1 - level
        assert one_run_independent_gdp_p(correct, guesses, canaries, mu + 2e-8) >= 1 - level


def test_bounds_rise_with_right_guesses_and_fall_with_the_level() -> None:
    for of in (
        lambda correct, level: one_run_independent_epsilon(correct, 100, 500, delta=1e-4, level=level),
        lambda correct, level: one_run_independent_mu(correct, 100, 500, level=level),
    ):
        found = [of(correct, 0.95) for correct in range(0, 101, 4)]
        assert found == sorted(found) and found[0] == 0 < found[-1]
        assert of(80, 0.999) < of(80, 0.9)
    assert one_run_independent_mu(80, 100, 500) > one_run_mu(80, 100, 500)
    mu = one_run_independent_mu(90, 100, 500)
    found_epsilon = one_run_independent_gdp_epsilon(90, 100, 500, delta=1e-5)
    assert gdp_epsilon(mu, 1e-5) - 1e-8 < found_epsilon < gdp_epsilon(mu, 1e-5)


@pytest.mark.parametrize("wrong", [(3, 2, 5), (2, 6, 5), (-1, 2, 5)])
def test_counts_that_cannot_be_are_refused(wrong: tuple[int, int, int]) -> None:
    for refuse in (
        lambda: one_run_independent_p(*wrong, 1.0, 0.0),
        lambda: one_run_independent_gdp_p(*wrong, 1.0),
        lambda: one_run_independent_epsilon(*wrong, delta=0.0),
        lambda: one_run_independent_mu(*wrong),
    ):
        with pytest.raises(ValueError, match="canaries"):
            refuse()


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="epsilon"):
        one_run_independent_p(1, 2, 5, -1.0, 0.0)
    with pytest.raises(ValueError, match="delta"):
        one_run_independent_p(1, 2, 5, 1.0, 1.5)
    with pytest.raises(ValueError, match="mu"):
        one_run_independent_gdp_p(1, 2, 5, -0.1)
    with pytest.raises(ValueError, match="level"):
        one_run_independent_epsilon(1, 2, 5, delta=0.0, level=1.0)
    with pytest.raises(ValueError, match="level"):
        one_run_independent_mu(1, 2, 5, level=0.0)
    with pytest.raises(ValueError, match="delta"):
        one_run_independent_gdp_epsilon(1, 2, 5, delta=0.0)


def sized(mu: float, canaries: int, rng: np.random.Generator, *, shared: bool) -> tuple[Floats, NDArray[np.bool_]]:
    """Draw scores of a mu-Gaussian mechanism; how sure the guesses are is drawn once for all canaries, or for each.

    The distance T from mu / 2 does not depend on the coin, and given T the side tells the coin with the odds e^(mu T):
    whoever knows T and all other coins learns of a coin what a normal variable tells.
    """
    included = rng.random(canaries) < 0.5
    size = np.abs(rng.standard_normal(1 if shared else canaries) + mu / 2 * rng.choice([-1, 1]))
    told = rng.random(canaries) < 1 / (1 + np.exp(-mu * size))
    return np.where(told == included, size, -size), included


def above(mu: float, guesses: int, *, shared: bool, of: str, draws: int = 200) -> float:
    """Return how often a bound from m = 400 canaries lies above the truth."""
    rng, canaries, truth = np.random.default_rng([guesses, shared]), 400, gdp_epsilon(mu, 1e-5)
    bound = one_run_epsilon if of == "one-run" else one_run_independent_gdp_epsilon
    met = []
    for _ in range(draws):
        scores, included = sized(mu, canaries, rng, shared=shared)
        order = rng.permutation(canaries)
        met.append(count_guesses(scores, included, guesses // 2, guesses // 2, order=order).correct)
    # Each count once: many draws have the same.
    false = {count: bound(count, guesses, canaries, delta=1e-5) > truth for count in set(met)}
    return sum(false[count] for count in met) / draws


@pytest.mark.parametrize("guesses", [200, 400])
def test_bounds_lie_above_the_truth_as_often_as_they_may(guesses: int) -> None:
    share = above(2.0, guesses, shared=False, of="independent")
    assert 0 < share <= binom.isf(1e-4, 200, 0.05) / 200


def test_where_canaries_interfere_the_bound_is_false_and_the_certified_one_holds() -> None:
    assert above(2.0, 400, shared=True, of="independent") > 0.3
    assert above(2.0, 400, shared=True, of="one-run") <= binom.isf(1e-4, 200, 0.05) / 200


def test_coins_revealed_together_refute_more_than_is_true() -> None:
    # A hundred of the thousand coins are revealed together once in ten runs: each with probability 0.01 = delta.
    delta, epsilon = 0.01, 0.0
    assert (
        one_run_independent_p(100, 100, 1000, epsilon, delta) < 1e-6 < 0.1 <= one_run_p(100, 100, 1000, epsilon, delta)
    )
