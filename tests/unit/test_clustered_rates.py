"""Rates of speakers who have errors and not a word: one set of speakers for rates, differences and gaps."""

import numpy as np
import pytest

from audits.statistics import SpeakerSums, change_of_rate, mean_of_rates, rate_intervals, shuffle_labels
from audits.statistics.clustered_rates import spread_of
from audits.statistics.group_gaps import clearest, gap_between, spread_between

WORDS = np.array([20.0] * 10 + [0.0])[:, None]
ERRORS = np.array([2.0] * 10 + [400.0])[:, None]
"""Ten speakers of one and the same rate, and one who was only heard where nobody was to speak."""


def test_errors_without_a_word_widen_the_interval_of_the_rate_they_are_in() -> None:
    found = rate_intervals(ERRORS, WORDS)
    assert found.value.tolist() == [2.1] and found.clusters.tolist() == [11]
    assert found.low[0] == 0 and found.high[0] > 4
    # The speaker moves the rate by 400 errors over 200 words.
    assert spread_of(ERRORS, WORDS).error[0] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("others", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("silent", [1.0, 50.0])
def test_no_rate_is_certain_where_something_was_heard_in_silence(others: float, silent: float) -> None:
    errors = np.array([others] * 10 + [silent])[:, None]
    found, spread = rate_intervals(errors, WORDS), spread_of(errors, WORDS)
    assert not spread.certain.any() and "Clopper" not in found.method[0]
    assert found.low[0] < found.value[0] < found.high[0] < np.inf
    assert spread.top[0] > 1


def test_silence_without_an_error_changes_nothing() -> None:
    errors = np.random.default_rng(0).poisson(3.0, (10, 1)).astype(float)
    quiet, alone = rate_intervals(np.vstack([errors, [[0.0]]]), WORDS), rate_intervals(errors, WORDS[:10])
    for name in ("value", "low", "high", "clusters"):
        assert getattr(quiet, name).tolist() == getattr(alone, name).tolist()


def test_one_speaker_with_words_has_no_interval() -> None:
    found = rate_intervals(np.array([[2.0], [9.0]]), np.array([[20.0], [0.0]]))
    assert found.method == ("none",) and np.isnan(found.low[0])


def test_the_mean_over_speakers_is_of_those_with_words_and_its_distance_knows_the_others() -> None:
    mean, above = mean_of_rates(ERRORS, WORDS)
    assert mean.value[0] == pytest.approx(0.1)
    assert above.value[0] == pytest.approx(-2.0) and above.error[0] == pytest.approx(2.0, rel=0.15)


def test_gaps_differences_and_shuffles_have_the_same_speakers_as_rates() -> None:
    rng = np.random.default_rng(1)
    sizes = np.zeros((22, 2))
    sizes[:10, 0], sizes[11:21, 1] = 20.0, 20.0
    errors = rng.binomial(20, 0.1, (22, 2)) * (sizes > 0.0)
    errors[10, 0] = 400.0
    sums = SpeakerSums(errors=errors[..., None], hits=(sizes - np.minimum(errors, sizes))[..., None], sizes=sizes)
    assert sums.speakers.tolist() == [11, 10] and sums.people == 21
    rate = rate_intervals(errors, sizes)
    assert spread_between(sums, 0).rates.error == pytest.approx(spread_of(errors, sizes).error)
    gap, low, high = gap_between(sums, 0, "absolute", (0, 1), level=0.95)
    assert gap == pytest.approx(rate.value[0] - rate.value[1])
    assert low < 0 and high > 0.99 * rate.high[0]
    assert clearest(sums, 0, "pairs")[0] > 0.2
    # The one speaker goes from group to group: a gap as large comes with every shuffle.
    assert np.median(shuffle_labels(sums, 200, rng, level=0.95).gaps) > 1.5
    value, side = change_of_rate(errors[:11, 0], sizes[:11, 0])
    assert value == pytest.approx(rate.value[0]) and side.moved[10] == 2.0 and side.shares[10] == 0.0
