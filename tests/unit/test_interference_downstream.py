"""Is what is said of scores of a task that of its definitions?"""

import math

import numpy as np
import pytest

from audits.interference.downstream import _bonett_wright, _left_out, _spearman


def test_languages_are_foretold_by_a_line_through_the_others() -> None:
    received = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert _left_out(received, 3 - 2 * received) == pytest.approx(np.zeros(5), abs=1e-9)
    # Left out, the last of 0 0 0 0 5 is foretold as 0, by line and mean alike.
    score = np.array([0.0, 0, 0, 0, 5])
    assert _left_out(received, score)[4] == pytest.approx(5) and _left_out(None, score)[4] == 5
    assert _left_out(None, score)[0] == pytest.approx(1.25)


def test_a_line_that_cannot_be_drawn_is_the_mean() -> None:
    received = np.array([1.0, 1.0, 1.0, 1.0, 2.0])
    assert _left_out(received, np.array([0.0, 2, 4, 6, 9]))[4] == pytest.approx(9 - 3)


@pytest.mark.parametrize("value", [-1.0, -0.5, 0.0, 0.7, 1.0])
def test_an_interval_of_a_correlation_holds_it_and_stays_within_its_bounds(value: float) -> None:
    low, high = _bonett_wright(value, 9, 0.95)
    assert -1 <= low <= value <= high <= 1
    half = 1.959964 * math.sqrt((1 + value**2 / 2) / 6)
    if abs(value) < 1:
        assert (low, high) == pytest.approx((math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half)))


def test_ties_share_their_rank() -> None:
    assert _spearman(np.array([1.0, 1, 2]), np.array([5.0, 5, 9])) == pytest.approx(1)
    assert _spearman(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])) == pytest.approx(0.8)
