"""Is the scale of clipped coverage that of its law, wherever it is read?"""

import numpy as np
import pytest
from scipy.stats import betabinom

from probes.vectors.good_shares import good_share

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize(("n", "m", "k"), [(100, 100, 5), (37, 500, 5), (400, 60, 3), (60, 60, 20), (3, 3, 5)])
def test_a_share_is_read_from_the_law_of_the_filling(n: int, m: int, k: int) -> None:
    good, fewer = np.unique(np.round(np.linspace(0, 4, 801) * m).astype(int)), np.arange(k)
    law = betabinom.pmf(fewer, good[:, None], k, max(n - k, 1))
    expected = np.maximum.accumulate(1 - (law * (1 - fewer / k)).sum(1))
    for held in (0.0, 1e-9, 0.2, 0.5, 0.9, 0.999, 1 - 1e-9, 1.0):
        found = {good_share(held, n, m, k, again=again) for again in (False, True)}
        assert found == {float(np.interp(held, expected, good / m))}, held
