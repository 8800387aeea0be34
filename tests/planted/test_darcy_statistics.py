"""Do flows made here have the statistics of the benchmark that they stand for?"""

import math

import numpy as np
import pytest

from probes.operators.darcy import darcy_samples


@pytest.mark.slow
def test_flows_have_the_known_statistics() -> None:
    """Known from 520 samples of an earlier generator on the same grid: means 0.494, 0.005658 and 0.01326."""
    count = 40
    high, pressure = darcy_samples(count, 241, 0)
    assert pressure.mean() == pytest.approx(0.0057, abs=3e-4)
    known = ((high.mean((1, 2)), 0.494), (pressure.mean((1, 2)), 0.005658), (pressure.max((1, 2)), 0.01326))
    for values, mean in known:
        # Four standard errors of the difference of both means.
        error = float(np.std(values, ddof=1)) * math.sqrt(1 / count + 1 / 520)
        assert values.mean() == pytest.approx(mean, abs=4 * error)
    assert pressure.max() < 0.02
    assert pressure.std() == pytest.approx(0.00384, rel=0.06)
