"""Do halves without common units tell how far the whole may be off?"""

import warnings

import numpy as np
import pytest
from scipy.stats import norm, t

from audits.statistics import wilson
from audits.statistics.halves import Halved, half_splits, halved

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("units", [0, 1, 2, 9, 100])
def test_halves_are_halves(units: int) -> None:
    found = half_splits(units, 7, np.random.default_rng(0))
    assert found.shape == (7, units) and found.dtype == bool
    assert (found.sum(1) == units // 2).all()


def test_every_pair_of_units_is_as_often_together() -> None:
    found = half_splits(6, 40_000, np.random.default_rng(1)).astype(float)
    together = found.T @ found / len(found)
    # Any of six is in with 1/2, any two with 1/2 times 2/5.
    np.testing.assert_allclose(np.diag(together), 0.5, atol=0.012)
    np.testing.assert_allclose(together[~np.eye(6, dtype=bool)], 0.2, atol=0.01)


def test_splits_follow_the_generator() -> None:
    one, two, three = (half_splits(50, 5, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert (one == two).all() and (one != three).any()
    assert len({row.tobytes() for row in one}) == 5


def of_a_mean(values: np.ndarray, splits: int, rng: np.random.Generator) -> Halved:
    inside = half_splits(len(values), splits, rng)
    halves = [[values[first].mean(), values[~first].mean()] for first in inside]
    return halved(np.array([values.mean(), *np.ravel(halves)])[:, None])


def test_the_variance_of_a_mean_is_that_of_its_standard_error() -> None:
    rng = np.random.default_rng(5)
    values = rng.exponential(size=60)
    found = of_a_mean(values, 20_000, rng)
    # Over all splits the two are equal, not only in expectation over samples.
    assert found.value == values.mean()
    assert found.error() ** 2 == pytest.approx(values.var(ddof=1) / 60, rel=0.04)


def test_intervals_of_a_mean_hold_it() -> None:
    rng, draws = np.random.default_rng(2), 600
    held = 0
    for _ in range(draws):
        low, high = of_a_mean(rng.normal(2.0, 3.0, 50), 50, rng).interval(0.9) or (np.inf, np.inf)
        held += low <= 2.0 <= high
    assert abs(held / draws - 0.9) < 4 * np.sqrt(0.09 / draws)


def test_rows_are_the_whole_and_then_halves_in_pairs_averaged_over_draws() -> None:
    parts = np.array([[5.0, 7.0], [1.0, 3.0], [0.0, 1.0], [10.0, 10.0], [4.0, 8.0]])
    found = halved(parts)
    assert found.value == 6.0 and found.gaps.tolist() == [1.5, 4.0] and found.chance == 0.0


def test_a_difference_is_that_of_the_gaps() -> None:
    one, two = Halved(3.0, np.array([1.0, -2.0]), 0.25), Halved(1.0, np.array([1.0, 2.0]), 0.5)
    found = one - two
    assert (found.value, found.gaps.tolist(), found.chance) == (2.0, [0.0, -4.0], 0.75)
    assert found.error() == np.sqrt(16 / 2 / 4 + 0.75)
    # What both share, such as the reference, goes away.
    shared = np.random.default_rng(0).normal(size=50)
    paired = Halved(0.0, shared + 0.1) - Halved(0.0, shared - 0.1)
    assert paired.error() == pytest.approx(0.1)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_intervals_are_those_of_student(level: float) -> None:
    gaps = np.full(10, 0.2)
    half = t.ppf(0.5 + level / 2, 10) * 0.1
    assert Halved(0.4, gaps).interval(level) == pytest.approx((0.4 - half, 0.4 + half))


@pytest.mark.parametrize(("successes", "trials"), [(1, 20), (7, 10), (50, 100), (999, 1000)])
def test_intervals_of_shares_are_those_of_as_many_trials_as_have_the_error(successes: int, trials: int) -> None:
    share = successes / trials
    # So many splits that Student's quantile is that of the normal distribution.
    gaps = np.full(1_000_000, 2 * np.sqrt(share * (1 - share) / trials))
    assert Halved(share, gaps).interval(0.9, share=True) == pytest.approx(
        wilson(successes, trials, level=0.9), abs=1e-5
    )
    few = Halved(share, gaps[:5]).interval(0.9, share=True)
    assert few is not None and few[0] < wilson(successes, trials, level=0.9)[0]


@pytest.mark.parametrize("value", [0.01, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("gap", [1e-4, 0.01, 0.1])
def test_intervals_of_shares_hold_the_value_and_stay_shares(value: float, gap: float) -> None:
    low, high = Halved(value, np.full(50, gap)).interval(0.95, share=True)  # type: ignore[misc]
    assert 0 <= low < value < high <= 1
    turned = Halved(1 - value, np.full(50, gap)).interval(0.95, share=True)
    assert turned == pytest.approx((1 - high, 1 - low))


def test_no_interval_is_shorter_than_the_least_error_makes_it() -> None:
    narrow, wide = Halved(0.5, np.full(50, 0.01)), Halved(0.5, np.full(50, 0.2))
    assert narrow.interval(0.95, least=0.1) == wide.interval(0.95) == wide.interval(0.95, least=0.05)
    assert Halved(0.5, np.zeros(50)).interval(0.95, least=0.1) == wide.interval(0.95)


@pytest.mark.parametrize(
    ("value", "gap", "share"), [(0.5, 0.0, False), (0.5, 0.0, True), (0.0, 0.1, True), (1.0, 0.1, True)]
)
def test_without_spread_or_at_the_end_of_the_scale_there_is_no_interval(value: float, gap: float, share: bool) -> None:
    assert Halved(value, np.full(5, gap)).interval(0.95, share=share) is None


def test_chance_adds_to_the_error() -> None:
    assert Halved(1.0, np.zeros(4), 0.09).error() == pytest.approx(0.3)
    assert Halved(1.0, np.array([0.8, -0.8]), 0.09).error() == pytest.approx(0.5)


def test_p_values() -> None:
    assert Halved(0.0, np.ones(8)).p() == 1.0
    assert Halved(3.0, np.zeros(8)).p() == 1.0
    assert Halved(-0.2, np.full(8, 0.2)).p() == Halved(0.2, np.full(8, 0.2)).p() == pytest.approx(2 * t.sf(2.0, 8))
    assert Halved(0.2, np.full(5000, 0.2)).p() == pytest.approx(2 * norm.sf(2.0), rel=0.01)


def test_p_values_of_no_difference_are_even() -> None:
    rng, draws = np.random.default_rng(8), 400
    found = []
    for _ in range(draws):
        one, two = rng.exponential(size=(2, 40))
        inside = half_splits(40, 50, rng)
        sides = []
        for values in (one, two):
            halves = [[values[first].mean(), values[~first].mean()] for first in inside]
            sides.append(halved(np.array([values.mean(), *np.ravel(halves)])[:, None]))
        found.append((sides[0] - sides[1]).p())
    for level in (0.05, 0.2, 0.5):
        share = np.mean(np.array(found) < level)
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / draws), (level, share)


def test_a_wide_interval_next_to_the_end_of_the_scale_is_made_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = Halved(1e-4, np.full(50, 0.2)).interval(0.95, share=True)  # type: ignore[misc]
    assert 0 <= low < 1e-4 < high <= 1
