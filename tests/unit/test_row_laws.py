"""Do draws reach the levels that they are said to, and is the loss with inputs exchanged as sure as it says?"""

import numpy as np
import pytest

from audits.conditional.mean_rows import mean_row
from audits.conditional.measure import _cycle
from audits.conditional.row_laws import central_pair, exchanged, ranks_outside
from audits.core.intervals import Interval


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


def test_no_row_is_exchanged_with_itself() -> None:
    for n in (2, 3, 50):
        swap = _cycle(n, np.random.default_rng(n))
        assert sorted(swap) == list(range(n)) and (swap != np.arange(n)).all()


def test_the_interval_of_the_loss_holds_it_as_often_as_it_says() -> None:
    rng, n, held = np.random.default_rng(1), 80, 0
    for _ in range(400):
        x = rng.normal(size=n)
        y = x + rng.normal(size=n)
        swaps = np.stack([_cycle(n, rng) for _ in range(4)])
        # Of the squared error of x: 1 with the own outcome, 3 with another.
        found = mean_row(exchanged((x - y) ** 2, (x - y[swaps]) ** 2, swaps), np.arange(n), 0.95)
        assert isinstance(found, Interval) and found.low is not None and found.high is not None
        held += found.low <= 2 <= found.high
    assert held >= 0.93 * 400
