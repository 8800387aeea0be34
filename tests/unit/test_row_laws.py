"""Is the loss with inputs exchanged as sure as it says, and no row exchanged with itself?"""

import numpy as np

from audits.conditional.mean_rows import mean_row
from audits.conditional.measure import _cycle
from audits.conditional.row_laws import exchanged
from audits.core.intervals import Interval


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
