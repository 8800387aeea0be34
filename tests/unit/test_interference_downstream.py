"""Is what is said of scores of a task that of its definitions?"""

import numpy as np
import pytest

from audits.interference.downstream import left_out_errors


def test_languages_are_foretold_by_a_line_through_the_others() -> None:
    received = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert left_out_errors(received, 3 - 2 * received) == pytest.approx(np.zeros(5), abs=1e-9)
    # Left out, the last of 0 0 0 0 5 is foretold as 0, by line and mean alike.
    score = np.array([0.0, 0, 0, 0, 5])
    assert left_out_errors(received, score)[4] == pytest.approx(5) and left_out_errors(None, score)[4] == 5
    assert left_out_errors(None, score)[0] == pytest.approx(1.25)


def test_a_line_that_cannot_be_drawn_is_the_mean() -> None:
    received = np.array([1.0, 1.0, 1.0, 1.0, 2.0])
    assert left_out_errors(received, np.array([0.0, 2, 4, 6, 9]))[4] == pytest.approx(9 - 3)
