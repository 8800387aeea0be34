import numpy as np

from audits.group_rates.rates import group_rates
from audits.statistics import SpeakerSums


def test_a_rate_counts_the_speakers_that_its_interval_rests_on() -> None:
    # The second speaker said nothing, and of what the first system heard there the second heard none.
    errors = np.array([[[2.0, 2.0]], [[1.0, 0.0]], [[1.0, 1.0]]])
    sums = SpeakerSums(errors=errors, hits=0 * errors, sizes=np.array([[10.0], [0.0], [10.0]]))
    ((first, second),) = group_rates(sums, level=0.95)
    assert (first.n, second.n) == (3, 2)
