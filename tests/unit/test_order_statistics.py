"""Of order statistics that enclose a quantile, the probability to miss it is counted by the binomial itself."""

import pytest
from scipy.stats import binom

from audits.statistics.order_statistics import enclosing


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("n", [1, 5, 6, 20, 60, 71, 72, 73, 300])
def test_each_end_is_missed_by_what_the_level_leaves_and_none_nearer(n: int, share: float, level: float) -> None:
    tail = (1 - level) / 2

    def missed_low(place: int) -> float:
        return float(binom.cdf(place, n, share))

    def missed_high(place: int) -> float:
        return float(binom.sf(place, n, share))

    ends = enclosing(n, share, level)
    if ends is None:
        assert missed_low(0) >= tail or missed_high(n - 1) > tail
        return
    low, high = ends
    assert missed_low(low) <= tail <= missed_low(low + 1) and missed_high(high) <= tail < missed_high(high - 1)


def test_a_quantile_far_out_wants_many_values() -> None:
    """Of 71 values all are below the 95th percentile in 1 of 38 data sets: 95 % leave 1 of 40 for each side."""
    assert enclosing(71, 0.95, 0.95) is None and enclosing(72, 0.95, 0.95) == (63, 71)
