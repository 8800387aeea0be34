"""Are the rows the units of means and ratios, or their inputs where these repeat?"""

import numpy as np
import pytest

from audits.conditional.mean_rows import ALIKE, mean_row, of_units, ratio_row, surely_below
from audits.core.intervals import Interval, Undefined

RNG = np.random.default_rng(0)


def test_rows_of_one_input_tell_no_more_than_one_of_them() -> None:
    values, rows = RNG.normal(size=50), np.arange(50)
    once = mean_row(values, rows, 0.95)
    twice = mean_row(np.repeat(values, 2), np.repeat(rows, 2), 0.95)
    assert isinstance(once, Interval) and isinstance(twice, Interval)
    assert (twice.value, twice.low, twice.high) == pytest.approx((once.value, once.low, once.high))
    assert (once.unit, twice.unit, twice.n) == ("rows", "inputs", 50)


def test_the_interval_of_a_mean_over_unequal_inputs_holds_it_as_often_as_it_says() -> None:
    rng, units, held = np.random.default_rng(1), np.repeat(np.arange(40), np.arange(40) % 5 + 1), 0
    for _ in range(300):
        values = rng.normal(size=40)[units] + 0.3 * rng.normal(size=len(units))
        found = mean_row(values, units, 0.95)
        assert isinstance(found, Interval) and found.low is not None and found.high is not None
        held += found.low <= 0 <= found.high
    assert held >= 273


def test_the_interval_of_a_ratio_holds_it_and_there_is_none_by_zero() -> None:
    rng, held = np.random.default_rng(2), 0
    for _ in range(300):
        below = rng.exponential(size=100)
        found = ratio_row(2 * below + rng.normal(size=100) * 0.3, below, np.arange(100), 0.95)
        assert isinstance(found, Interval) and found.low is not None and found.high is not None
        held += found.low <= 2 <= found.high
    assert held >= 276
    assert isinstance(ratio_row(np.ones(3), np.zeros(3), np.arange(3), 0.95), Undefined)
    assert isinstance(mean_row(np.zeros(0), np.arange(0), 0.95), Undefined)


def test_what_never_varied_is_told_and_what_is_below_zero_in_one_unit_alone_is_not_sure() -> None:
    found = mean_row(np.ones(20), np.arange(20), 0.95)
    assert isinstance(found, Interval) and found.method == ALIKE
    values = np.array([-1.0, *np.linspace(-0.5, 0.5, 19)])
    assert not surely_below(values, np.arange(20), 0.95, 1) and surely_below(values - 1, np.arange(20), 0.95, 10)
    assert of_units(values, np.arange(20)) is values
