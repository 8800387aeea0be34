"""Are intervals of means finite, in range, wider than their point, and wide enough? Numbers that once broke them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from audits.statistics.mean_intervals import claim_interval, mean_interval, ratio_interval

Floats = NDArray[np.float64]


def ends(values: Floats, *, level: float = 0.95, positive: bool = False) -> tuple[float, float]:
    found = mean_interval(values, level=level, positive=positive)
    assert found is not None
    return found[1]


# The first two had an end of 22,777,504, or one that equals the mean.
FEW_LARGE = [[0.0] * 9 + [1.0], [0.0] * 19 + [1.0], [1.0] * 11 + [2.0, 2.0], [0.0, 0.0, 5.0], [3.0, 3.0, 3.0 + 1e-6]]


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999, 0.9999])
@pytest.mark.parametrize("values", FEW_LARGE)
def test_no_interval_explodes_or_ends_at_its_mean(values: list[float], level: float) -> None:
    column = np.array(values)
    for positive in (False, True):
        low, high = ends(column, level=level, positive=positive)
        assert low < column.mean() < high
        # By Student's quantile for two numbers at the highest level, and less than a ten-thousand-fold of the range.
        assert high - low < 1e4 * np.ptp(column)
        assert not positive or low >= 0


def test_what_never_varied_has_no_interval() -> None:
    # A third added up ten times is off by rounding.
    for column in (np.full(10, 1 / 3), np.zeros(4), np.array([2.0]), np.array([0.1 + 0.2, 0.3])):
        assert mean_interval(column) is None and claim_interval(column) is None


def test_an_interval_moves_and_stretches_with_its_numbers() -> None:
    values = np.random.default_rng(0).exponential(size=9)
    low, high = ends(values)
    for shift, factor in ((0.0, 1e-150), (0.0, 1e150), (1e6, 1.0), (-3.0, 2.0)):
        assert ends(shift + factor * values) == pytest.approx((shift + factor * low, shift + factor * high), rel=1e-6)
    # Turned over, and in another order.
    assert ends(-values) == pytest.approx((-high, -low))
    assert ends(values[::-1]) == pytest.approx((low, high), rel=1e-12)


def test_of_symmetric_numbers_it_is_students() -> None:
    values = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    half = 2.776445 * values.std(ddof=1) / np.sqrt(5)
    assert ends(values) == pytest.approx((-half, half), rel=1e-6)


# Nominal 95 %; before, by Student's and the studentised bootstrap: .87 .89 .95 .93 and .71 .66 .86 .88.
@pytest.mark.parametrize(
    "sigma, n, least",
    [(0, 3, 0.94), (0, 5, 0.94), (0, 20, 0.94), (1.5, 3, 0.86), (1.5, 5, 0.84), (1.5, 10, 0.86), (1.5, 50, 0.9)],
)
def test_means_of_skewed_numbers_are_covered(sigma: float, n: int, least: float) -> None:
    rng, repeats = np.random.default_rng(n), 1500
    table = np.exp(sigma * rng.normal(size=(repeats, n))) if sigma else rng.exponential(size=(repeats, n))
    truth = np.exp(sigma**2 / 2) if sigma else 1.0
    covered = [low <= truth <= high for low, high in (ends(row, positive=True) for row in table)]
    assert np.mean(covered) >= least - 2.5 * np.sqrt(least * (1 - least) / repeats)


@pytest.mark.parametrize("n", [5, 20, 60])
def test_ratios_are_covered_where_one_sample_has_half_of_the_energy(n: int) -> None:
    rng = np.random.default_rng(3)
    below = np.array([n - 1.0, *[1.0] * (n - 1)])
    found = [ratio_interval(rng.beta(2, 6, n) * below, below) for _ in range(300)]
    assert np.mean([ends is not None and ends[1][0] <= 0.25 <= ends[1][1] for ends in found]) > 0.93


def test_a_pair_of_hardly_any_denominator_makes_no_ratio_explode() -> None:
    above, below = np.array([1.0, 2.0, 2.0, 1.0, 1.0]), np.array([2.0, 5.0, 6.0, 2.0, 1e-30])
    found, same = ratio_interval(above, below), ratio_interval(2 * below, below)
    assert found is not None and 0 <= found[1][0] < 7 / 15 < found[1][1] < 5
    assert same is None and ratio_interval(above[:1], below[:1]) is None
    alone = ratio_interval(np.array([1.0, 0.0, 0.0]), np.array([2.0, 0.0, 0.0]))
    assert alone is None


def test_claims_are_wider_and_hold_together() -> None:
    values = np.random.default_rng(1).normal(size=12)
    one, three = claim_interval(values), claim_interval(values, claims=3)
    assert one is not None and three is not None
    low, high = ends(values)
    assert three[0] < one[0] < low and high < one[1] < three[1]


@pytest.mark.parametrize("largest", [1e-300, 1.0, 1e300, 1.7e308])
def test_numbers_at_the_edge_of_the_range_have_finite_ends_or_none(largest: float) -> None:
    found = mean_interval(largest * np.array([0.6, 1.0, 0.6]), positive=True)
    assert (found is None) == (largest > 1e305)
    if found is not None:
        assert 0 <= found[1][0] < 0.7 * largest < found[1][1] < 10 * largest
