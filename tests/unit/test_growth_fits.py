"""Exponents of seconds that are given, not measured."""

import time

import numpy as np
import pytest

from audits.core.intervals import Interval, Undefined
from audits.scaling.claim_verdicts import verdict
from audits.scaling.growth_claims import Law
from audits.scaling.growth_fits import Growth, local_exponents, seconds_excess, seconds_exponent
from audits.scaling.rounds import medians

SIZES = 16 * 2.0 ** np.arange(9)


def cells(values: np.ndarray, rounds: int = 9, noise: float = 0.0) -> np.ndarray:
    drawn = np.exp(noise * np.random.default_rng(3).normal(size=(rounds, values.size)))
    return np.asarray(values * drawn)


def of(found: Growth) -> Interval:
    assert isinstance(found.exponent, Interval)
    return found.exponent


@pytest.mark.parametrize(
    ("power", "overhead"),
    [*((power, 0) for power in (0.5, 1, 4 / 3, 1.5, 2, 3)), *((power, 300) for power in (1, 2, 3))],
)
def test_without_noise_the_exponent_and_the_overhead_are_those_of_the_clock(power: float, overhead: float) -> None:
    found = seconds_exponent(SIZES, cells(overhead + 2 * SIZES**power), level=0.95, seed=0)
    # Between grid points a parabola is an approximation.
    assert of(found).value == pytest.approx(power, abs=1e-3)
    assert found.overhead is not None and found.overhead.value == pytest.approx(overhead, rel=0.03, abs=0.5)
    assert found.fitted == pytest.approx(overhead + 2 * SIZES**power, rel=0.01)
    if overhead:
        assert found.equal_at == pytest.approx((overhead / 2) ** (1 / power), rel=0.03)
        assert found.far_enough == pytest.approx(16 * max(16, (overhead * 2) ** (1 / power)), rel=0.03)
    else:
        assert found.equal_at is None or found.equal_at < 1.1
        assert found.decided and found.tail_from == 16


def test_growth_that_shows_at_the_last_lengths_alone_has_no_exponent() -> None:
    # A launch takes as long as the work that it covers: the greater of both, not their sum.
    for seconds in (300 + 2 * SIZES**0.5, np.maximum(3000, 2 * SIZES), np.maximum(SIZES[-2], SIZES)):
        found = seconds_exponent(SIZES, cells(seconds, noise=0.02), level=0.95, seed=0)
        assert isinstance(found.exponent, Undefined) and not found.refutable
        assert "at fewer than 3 lengths" in found.exponent.why


def test_a_kink_is_no_power() -> None:
    kinked = cells(np.maximum(SIZES[3], SIZES), noise=0.02)
    found = seconds_exponent(SIZES, kinked, level=0.95, seed=0)
    assert isinstance(found.exponent, Undefined) and "follow no overhead and power" in found.exponent.why
    assert verdict(seconds_excess(SIZES, kinked, Law(1), level=0.95, seed=0), Law(1), 0.15).word == "undecided"


def test_the_tail_begins_where_the_leading_term_has_four_fifths() -> None:
    # 2 n >= 4 * 300 from 600 on; the next size is 1024, and the greatest only 4 times that.
    found = seconds_exponent(SIZES, cells(300 + 2 * SIZES), level=0.95, seed=0)
    assert found.tail_from == 1024 and not found.decided
    assert found.far_enough == pytest.approx(9600, rel=0.03)


@pytest.mark.parametrize("claim", [Law(1), Law(2), Law(1, 1)])
def test_seconds_of_the_claimed_law_have_no_excess(claim: Law) -> None:
    found = seconds_excess(SIZES, cells(claim.values(SIZES), noise=0.02), claim, level=0.95, seed=0)
    exponent = of(found)
    assert exponent.low is not None and exponent.high is not None
    assert exponent.low - 1e-9 <= 0 <= exponent.high + 1e-9 and exponent.high - exponent.low < 0.1


def test_equal_seconds_do_not_grow() -> None:
    for claim in (Law(0), Law(1)):
        found = seconds_excess(SIZES, cells(np.full(9, 0.25)), claim, level=0.95, seed=0)
        assert of(found).value == pytest.approx(-float(claim.power)) and not found.refutable
        assert found.decided is (claim == Law(0))


def test_missing_cells_and_sizes_change_little() -> None:
    whole = cells(5 + SIZES**1.5, noise=0.03)
    holed = whole.copy()
    holed[2, 3] = holed[5:, 8] = holed[:, 1] = np.nan
    full, part = (of(seconds_exponent(SIZES, one, level=0.95, seed=0)) for one in (whole, holed))
    assert part.value == pytest.approx(full.value, abs=0.05) and part.low is not None
    assert len(seconds_exponent(SIZES, holed, level=0.95, seed=0).fitted) == 8


def test_an_overhead_is_never_below_nothing() -> None:
    found = seconds_exponent(SIZES, cells(SIZES - 4), level=0.95, seed=0)
    assert found.overhead is not None and found.overhead.value == 0
    assert np.abs(np.asarray(found.fitted) / (SIZES - 4) - 1).max() < 0.2


def test_one_round_has_no_interval_and_three_sizes_no_exponent() -> None:
    alone = of(seconds_exponent(SIZES, cells(SIZES, rounds=1), level=0.95, seed=0))
    assert (alone.low, alone.high, alone.method) == (None, None, "none")
    found = seconds_exponent(SIZES[:3], cells(SIZES[:3]), level=0.95, seed=0)
    assert isinstance(found.exponent, Undefined) and not found.decided


def test_the_unit_of_seconds_and_the_order_of_calls_make_no_difference() -> None:
    drawn = cells(5 + SIZES, noise=0.1)
    first = of(seconds_exponent(SIZES, drawn, level=0.95, seed=4))
    assert of(seconds_exponent(SIZES, drawn, level=0.95, seed=4)) == first
    assert of(seconds_exponent(SIZES, drawn * 1e-6, level=0.95, seed=4)).value == pytest.approx(first.value, abs=1e-6)
    wide = of(seconds_exponent(SIZES, drawn, level=0.999, seed=4))
    assert wide.low is not None and first.low is not None and wide.low <= first.low


def test_the_least_of_two_sums_of_squares_is_found_as_by_hand() -> None:
    # With p = 1 given by noiseless data, a and b are those of non-negative least squares.
    from scipy.optimize import nnls

    values = cells(5 + SIZES, rounds=1, noise=0.2)[0]
    found = seconds_exponent(SIZES, values[None], level=0.95, seed=0)
    power = of(found).value
    errors = {}
    for shift in (-0.1, 0.0, 0.1):
        design = np.stack([1 / values, SIZES ** (power + shift) / values], axis=1)
        errors[shift] = nnls(design, np.ones(values.size))[1]
    fitted = np.asarray(found.fitted)
    assert np.linalg.norm(fitted / values - 1) == pytest.approx(errors[0.0], rel=1e-6)
    assert errors[0.0] < min(errors[-0.1], errors[0.1])


def test_local_exponents_of_zeros() -> None:
    assert local_exponents([1, 2, 4], [0, 0, 3]).tolist()[0] == 0.0
    assert np.isnan(local_exponents([1, 2, 4], [0, 0, 3])[1])


def test_medians_skip_missing_cells() -> None:
    drawn = np.random.default_rng(0).normal(size=(4, 7, 5))
    drawn[:, 3, 2] = drawn[1, :, 0] = np.nan
    found = medians(drawn)
    assert np.isnan(found[1, 0])
    found[1, 0] = drawn[1, :, 0] = 0.0
    np.testing.assert_allclose(found, np.nanmedian(drawn, axis=1))


def test_a_fit_takes_no_time_worth_the_name() -> None:
    begun = time.process_time()
    seconds_exponent(np.append(SIZES, SIZES[-1] * 2.0 ** np.arange(1, 4)), cells(np.ones(12)), level=0.95, seed=0)
    assert time.process_time() - begun < 0.3
