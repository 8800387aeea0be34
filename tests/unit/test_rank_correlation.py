"""Are rank correlation, interval and p-value over orders those of their definitions, and of scipy?"""

import math
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import spearmanr

from audits.statistics.rank_correlation import EXACT_UP_TO, bonett_wright, order_p, spearman

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [3, 1000])
def test_the_coefficient_is_scipys_with_ties_and_without(seed: int, levels: int) -> None:
    x, y = np.random.default_rng(seed).integers(0, levels, (2, 12)).astype(float)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic)


@pytest.mark.parametrize("value", [-1.0, -0.5, 0.0, 0.7, 1.0])
def test_an_interval_holds_the_coefficient_and_stays_within_its_bounds(value: float) -> None:
    low, high = bonett_wright(value, 6)
    assert -1 <= low <= value <= high <= 1
    half = 1.959964 * math.sqrt((1 + value**2 / 2) / 6)
    if abs(value) < 1:
        assert (low, high) == pytest.approx((math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half)))


def test_of_few_units_all_orders_are_counted() -> None:
    x, y = np.array([1.0, 2, 2, 4, 5]), np.array([2.0, 1, 3, 3, 9])
    seen = abs(spearmanr(x, y).statistic)
    orders = [abs(spearmanr(x, np.array(order)).statistic) for order in permutations(y)]
    assert order_p(x, y, 0, np.random.default_rng(0)) == (np.mean(np.array(orders) >= seen - 1e-9), None, None)


def test_of_many_units_orders_are_drawn() -> None:
    x = np.arange(EXACT_UP_TO + 12.0)
    y = np.random.default_rng(1).permutation(x)
    value, low, high = order_p(x, y, 4000, np.random.default_rng(2))
    assert low is not None and high is not None and low <= value <= high
    assert value == pytest.approx(spearmanr(x, y).pvalue, abs=0.03)
    assert order_p(x, x, 500, np.random.default_rng(3))[0] == 1 / 501


def test_a_column_that_is_all_alike_has_no_order() -> None:
    assert spearman(np.ones(5), np.arange(5.0)) is None
    with pytest.raises(ValueError, match="no order"):
        order_p(np.arange(5.0), np.ones(5), 10, np.random.default_rng(0))
