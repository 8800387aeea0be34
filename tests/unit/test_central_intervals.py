"""Do draws reach the levels that they are said to?"""

import numpy as np
import pytest

from audits.conditional.central_intervals import central_pair, ranks_outside


@pytest.mark.parametrize(
    ("draws", "level", "d", "held"), [(20, 0.9, 1, 19 / 21), (20, 0.9, 2, 19 / 21), (19, 0.5, 1, 0.5)]
)
def test_so_many_true_outcomes_lie_inside_as_the_ranks_say(draws: int, level: float, d: int, held: float) -> None:
    outside = ranks_outside(draws, level, d)
    assert outside is not None
    rng = np.random.default_rng(0)
    rank = (rng.random((20000, draws)) < rng.random((20000, 1))).sum(1)
    inside = rank < draws + 1 - outside if d > 1 else (rank >= outside) & (rank < draws + 1 - outside)
    assert inside.mean() == pytest.approx(held, abs=0.01)


def test_few_draws_reach_no_level_that_is_far_out() -> None:
    assert ranks_outside(20, 0.95, 1) is None and ranks_outside(1, 0.5, 1) is None and ranks_outside(2, 0.9, 2) is None
    assert central_pair(np.array([0.1, 0.9]), 0.8) == (0, 1) and central_pair(np.array([0.1, 0.9]), 0.5) is None
