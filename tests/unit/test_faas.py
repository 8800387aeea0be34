"""Is the published score computed as published, and is its flaw the one that is told?"""

import numpy as np
import pytest
from numpy.typing import NDArray

from audits.statistics.faas import Undefined, fairness_adjusted_score

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def clips(shifts: list[float], *, speakers: int = 24, seed: int = 0) -> tuple[Floats, Whole, Whole]:
    """Draw WERs of five clips of each speaker, speakers dealt to one level after the other."""
    rng = np.random.default_rng(seed)
    people = np.repeat(np.arange(speakers), 5)
    level = people % len(shifts)
    noise = rng.normal(0, 0.05, speakers)[people] + rng.normal(0, 0.1, len(people))
    return np.abs(0.3 + np.array(shifts)[level] + noise), people, level


def likelihood_by_hand(rates: Floats, people: Whole, levels: Whole) -> float:
    """Return the largest log-likelihood over a grid of variances of speakers; five clips of each speaker."""
    design = np.eye(levels.max() + 1)[levels]
    same = (people[:, None] == people).astype(float)
    found = []
    for share in np.linspace(0, 1.5, 301):
        # (I + s ZZ')^-1 with five clips of each speaker.
        inverse = np.eye(len(rates)) - share / (1 + 5 * share) * same
        effects = np.linalg.solve(design.T @ inverse @ design, design.T @ inverse @ rates)
        rest = rates - design @ effects
        variance = rest @ inverse @ rest / len(rates)
        spread = len(rates) * np.log(2 * np.pi * variance) + (people.max() + 1) * np.log(1 + 5 * share)
        found.append(-(spread + len(rates)) / 2)
    return max(found)


@pytest.mark.parametrize("shifts", [[0.0, 0.02, 0.05], [0.0, 0.15, 0.05]])
def test_the_score_is_that_of_its_formula(shifts: list[float]) -> None:
    from scipy.stats import chi2

    rates, people, level = clips(shifts)
    found = fairness_adjusted_score(rates, people, [level])
    # As many clips of each speaker: what the model predicts are the means of the levels.
    means = np.array([rates[level == one].mean() for one in range(3)])
    category = np.mean(100 * (1 - (means - means.min()) / np.ptp(means)))
    ratio = 2 * (likelihood_by_hand(rates, people, level) - likelihood_by_hand(rates, people, 0 * level))
    p = chi2.sf(ratio, 2)
    assert (p < 0.05) == (shifts[1] > 0.1)
    assert found.categories == pytest.approx((category,), rel=1e-6)
    assert found.p_values == pytest.approx((p,), rel=0.02)
    assert found.score == pytest.approx(10 * np.log10(category * min(p / 0.05, 1) / rates.mean()), abs=0.1)


@pytest.mark.parametrize("gap", [0.001, 0.05, 2.0])
@pytest.mark.parametrize("better", [0.25, 0.75])
def test_with_two_levels_the_score_is_the_share_of_the_better_one_whatever_the_gap(gap: float, better: float) -> None:
    rates, people, part = clips([0.0] * 4)
    level = part >= 4 * better
    # Level means alike to begin with, so that the gap is exactly this one.
    even = rates - np.where(level, rates[level].mean(), rates[~level].mean()) + 0.5
    found = fairness_adjusted_score(even + gap * level, people, [np.where(level, "worse", "better")])
    assert found.categories == pytest.approx((100 * better,))


def test_more_clips_of_the_same_kind_lower_the_score() -> None:
    drawn = [clips([0.0, 0.1], speakers=count) for count in (16, 64)]
    small, large = (fairness_adjusted_score(rates, people, [level]) for rates, people, level in drawn)
    assert large.p_values[0] < small.p_values[0] < 0.05
    assert large.score < small.score - 10


def test_attributes_are_averaged_each_with_its_own_p() -> None:
    rates, people, level = clips([0.0, 0.1, 0.0, 0.1])
    attributes = [level % 2, level // 2]
    both = fairness_adjusted_score(rates, people, attributes)
    each = [fairness_adjusted_score(rates, people, [one]) for one in attributes]
    adjusted = [10 ** (one.score / 10) for one in each]
    assert both.score == pytest.approx(10 * np.log10(np.mean(adjusted)))
    assert both.p_values == tuple(one.p_values[0] for one in each)
    assert both.categories == (each[0].categories[0], each[1].categories[0])
    assert both.p_values[0] < 0.05 < both.p_values[1]


def without_speaker_effect(seed: int) -> tuple[Floats, Whole, list[Whole]]:
    """Draw WERs of speakers who all have the same mean: the variance between them is at 0."""
    rates = np.random.default_rng(seed).uniform(0.1, 0.5, 40)
    rates -= np.repeat(rates.reshape(10, 4).mean(1), 4) - 0.3
    return rates, np.arange(40) // 4, [np.arange(40) % 2]


@pytest.mark.parametrize("seed", range(3))
def test_speakers_that_do_not_differ_are_no_failure(seed: int) -> None:
    assert np.isfinite(fairness_adjusted_score(*without_speaker_effect(seed)).score)


def test_a_fit_that_did_not_converge_is_not_reported() -> None:
    with pytest.raises(Undefined, match="did not converge"):
        fairness_adjusted_score(*without_speaker_effect(1), methods=["bfgs"])


@pytest.mark.parametrize(
    ("rates", "people", "attributes", "said"),
    [
        ([0.1, 0.2, 0.3, 0.2], [0, 0, 1, 1], [], "no attribute"),
        ([], [], [[]], "no clips"),
        ([0.0, 0.0, 0.0, 0.0], [0, 0, 1, 1], [[0, 0, 1, 1]], "mean WER is 0"),
        ([0.1, 0.2, 0.3, 0.2], [0, 0, 1, 1], [[7, 7, 7, 7]], "one level only, 7"),
        ([0.1, 0.2, 0.3, 0.2], [0, 0, 0, 0], [[0, 1, 0, 1]], "one speaker"),
        ([0.2, 0.2, 0.2, 0.2], [0, 0, 1, 1], [[0, 0, 1, 1]], "mixed model"),
    ],
)
def test_where_there_is_no_score_the_reason_is_told(
    rates: list[float], people: list[int], attributes: list[list[int]], said: str
) -> None:
    with pytest.raises(Undefined, match=said):
        fairness_adjusted_score(np.array(rates), np.array(people), [np.array(one) for one in attributes])


def test_a_score_of_nothing_has_no_logarithm() -> None:
    rates, people, level = clips([0.0, 50.0], speakers=160)
    with pytest.raises(Undefined, match="score is 0"):
        fairness_adjusted_score(rates, people, [level])
