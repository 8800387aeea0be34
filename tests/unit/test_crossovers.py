"""Where two costs are equal."""

import numpy as np
import pytest

from audits.scaling.crossovers import crossovers, zeros

SIZES = 16 * 2.0 ** np.arange(8)


def noisy(values: np.ndarray, noise: float, seed: int) -> np.ndarray:
    return np.asarray(values * np.exp(noise * np.random.default_rng(seed).normal(size=(9, values.size))))


def test_seconds_cross_where_they_are_equal() -> None:
    found = crossovers(SIZES, noisy(SIZES**2, 0.03, 1), noisy(SIZES * 300, 0.03, 2), level=0.95, seed=0)
    (crossing,) = found.crossings
    at = crossing.n
    assert at.low is not None and at.high is not None and at.low < 300 < at.high < 1.2 * at.low
    assert crossing.decided and not crossing.cheaper_beyond
    assert [ratio.value for ratio in found.ratios] == pytest.approx([16 / 300, 2048 / 300], rel=0.1)
    turned = crossovers(SIZES, noisy(SIZES * 300, 0.03, 2), noisy(SIZES**2, 0.03, 1), level=0.95, seed=0)
    assert turned.crossings[0].cheaper_beyond and turned.crossings[0].n.value == pytest.approx(at.value)


def test_a_slowness_of_whole_rounds_does_not_widen_the_interval() -> None:
    slow = np.exp(np.random.default_rng(5).normal(size=(9, 1)))
    found = crossovers(SIZES, SIZES**2 * slow, SIZES * 300 * slow, level=0.95, seed=0)
    at = found.crossings[0].n
    assert (at.low, at.high) == pytest.approx((300, 300), rel=1e-6)


def test_flat_crossings_are_not_decided() -> None:
    one, other = noisy(SIZES**1.02, 0.2, 1), noisy(SIZES * 200**0.02, 0.2, 2)
    assert not any(one.decided for one in crossovers(SIZES, one, other, level=0.95, seed=0).crossings)


def test_all_crossings_are_listed_and_none_leaves_the_ratios() -> None:
    x = np.log2(SIZES)
    found = crossovers(SIZES, np.exp((x - 5.5) * (x - 8.5)), np.ones(8), level=0.95, seed=0)
    assert [one.cheaper_beyond for one in found.crossings] == [True, False]
    assert [one.n.method for one in found.crossings] == ["exact"] * 2
    apart = crossovers(SIZES, SIZES * 2, SIZES, level=0.95, seed=0)
    assert apart.crossings == () and [ratio.value for ratio in apart.ratios] == pytest.approx([2, 2])


def test_equal_costs_at_a_size_are_one_crossing_or_none() -> None:
    places = np.arange(3.0)
    assert zeros(places, np.array([-1.0, 0.0, 2.0])) == [(1.0, False)]
    assert zeros(places, np.array([1.0, 0.0, 1.0])) == [] and zeros(places, np.zeros(3)) == []
    assert zeros(places, np.array([1.0, np.nan, -1.0])) == [(1.0, True)]
