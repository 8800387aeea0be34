"""Exponents of counts that can be worked out by hand."""

from fractions import Fraction

import numpy as np
import pytest

from audits.core.intervals import Interval, Undefined
from audits.scaling.claim_verdicts import verdict
from audits.scaling.growth_claims import Law
from audits.scaling.growth_counts import count_exponent, limit_of, terms_of

SIZES = 256 * 2.0 ** np.arange(9)


@pytest.mark.parametrize(
    "law", [Law(0), Law(0, 1), Law(1), Law(1, 1), Law(Fraction(4, 3)), Law(2), Law(Fraction(7, 3))]
)
def test_a_pure_law_has_no_excess_over_itself(law: Law) -> None:
    found = count_exponent(SIZES, 6 * law.values(SIZES), law)
    assert isinstance(found.exponent, Interval) and found.decided and found.refutable
    assert (found.exponent.low, found.exponent.high) == pytest.approx((0, 0), abs=1e-9)
    assert found.exponent.method == "Range: local exponents in the tail" and found.exponent.unit == "lengths"


def test_attention_with_projections_goes_to_two() -> None:
    d = 64
    found = count_exponent(SIZES, 4 * SIZES**2 * d + 6 * SIZES * d * d)
    assert isinstance(found.exponent, Interval)
    low, high = found.exponent.low, found.exponent.high
    last = np.log2((4 * 65536 + 6 * d) / (4 * 32768 + 6 * d)) + 1
    assert found.exponent.value == pytest.approx(last)
    assert low is not None and high is not None and low < last < high and high == pytest.approx(2, abs=1e-3)
    assert found.leading == Law(2)
    # 4 n d = 4 * 6 d d at n = 6 d = 384.
    assert found.tail_from == pytest.approx(384, rel=0.01) and found.far_enough == pytest.approx(6144, rel=0.01)


def test_a_hidden_square_is_seen_before_it_leads() -> None:
    sizes = SIZES[:6]
    found = count_exponent(sizes, 65536 * sizes + sizes**2, Law(1))
    assert found.leading == Law(2) and found.tail_from == pytest.approx(262144, rel=0.01)
    assert not count_exponent(sizes, 65536 * sizes + sizes**2).decided


def test_less_than_a_factor_of_16_settles_nothing() -> None:
    found = count_exponent([256, 512, 1024], [256, 512, 1024], Law(1))
    assert not found.decided and found.far_enough == 4096


def test_counts_of_zero_and_of_one_number_do_not_grow() -> None:
    for value in (0.0, 7.0):
        found = count_exponent(SIZES, np.full(9, value))
        assert isinstance(found.exponent, Interval) and found.exponent.value == 0 and found.decided
    slower = count_exponent(SIZES, np.zeros(9), Law(1))
    assert isinstance(slower.exponent, Interval) and slower.exponent.high == -1
    started = count_exponent(SIZES, [0] * 8 + [1])
    assert isinstance(started.exponent, Undefined)
    assert isinstance(count_exponent([8], [1]).exponent, Undefined)


def test_steps_that_fall_refute_nothing_where_their_limit_is_unknown() -> None:
    # Local exponents 2, 1.9, 1.7, 1.4: falling ever faster.
    counts = 2.0 ** np.cumsum([0, 2, 1.9, 1.7, 1.4])
    found = count_exponent([1, 2, 4, 8, 16], counts, Law(1))
    assert isinstance(found.exponent, Interval) and not found.refutable and found.exponent.low == pytest.approx(0.4)


def test_a_limit_needs_steps_that_shrink() -> None:
    assert limit_of(np.array([1.0, 1.5, 1.75])) == pytest.approx(2)
    assert limit_of(np.array([1.0, 1.25, 1.75])) is None
    assert limit_of(np.array([1.0, 1.5, 1.25])) is None
    assert limit_of(np.array([1.0, 1.0, 1.0])) is None


def test_terms_are_those_of_the_sum() -> None:
    found, error = terms_of(SIZES, 3 * SIZES * np.log(SIZES) + 100 * SIZES + 5000)
    assert error < 1e-9 and set(found) <= {Law(0), Law(1), Law(1, 1)}
    assert found[Law(1, 1)] == pytest.approx(3, rel=1e-3) and found[Law(1)] == pytest.approx(100, rel=0.01)


def test_a_line_from_which_something_is_subtracted_is_no_n_log_n() -> None:
    # A scan of n - 1 steps; a convolution without padding.
    sizes = SIZES
    for counts in (1000 * (sizes - 1), 4096 * sizes - 1, 8192 * sizes - 3, 1e9 * sizes - 1e6 * np.sqrt(sizes)):
        found = count_exponent(sizes, np.round(counts), Law(1))
        assert verdict(found, Law(1), 0.15).word != "refuted"


def test_a_square_of_a_logarithm_is_faster_than_a_logarithm() -> None:
    # A sorting network has n log2(n) (log2(n) + 1) / 4 comparisons.
    counts = SIZES * np.log2(SIZES) * (np.log2(SIZES) + 1) / 4
    found = count_exponent(SIZES, counts, Law(1, 1))
    assert found.leading is not None and found.leading.text == "n log^2 n"
    assert verdict(found, Law(1, 1), 0.15).word == verdict(found, Law(1), 0.15).word == "refuted"
