"""Do intervals of clips that were drawn hold the rates and gaps of all clips, and are they wider for it?"""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from recorded_clips import inputs_of

from audits.asr_fairness.cohort import Cohort
from audits.asr_fairness.comparisons import compare
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.estimates import add_gaps, add_rates
from audits.asr_fairness.frame_sample import draw_sample, weights_of
from audits.core.context import Draft
from audits.core.groups import group_sets, reported_groups
from audits.statistics import cluster_weights

Floats = NDArray[np.float64]
PEOPLE, OWN, WORDS = 25, 0.05, 8
"""Speakers of each of two groups, standard deviation of their rates, and words of a clip."""
SHARE = 0.06
"""Of the clips, as many are drawn."""
CORPUS = np.random.default_rng(7)
CLIPS = np.where(np.arange(2 * PEOPLE) % 2, CORPUS.integers(30, 60, 2 * PEOPLE), CORPUS.integers(2, 6, 2 * PEOPLE))
SPEAKER = np.repeat(np.arange(2 * PEOPLE), CLIPS)
NAMES = [f"s{number:02d}" for number in SPEAKER]
LABELS = [{"by": str(number // PEOPLE)} for number in SPEAKER]
MEAN = np.repeat([0.2, 0.3], PEOPLE) + 0.15 * (CLIPS - CLIPS.mean()) / CLIPS.max()
"""Who says more errs more, in both groups: a speaker's share of the words matters."""
TRUTH = np.array([np.average(MEAN[part], weights=CLIPS[part]) for part in (slice(PEOPLE), slice(PEOPLE, None))])
"""The pooled rates of the groups."""


@cache
def inputs() -> object:
    return inputs_of(NAMES, LABELS, group_sets(LABELS, ["by"], max_order=1))


def judged(rng: np.random.Generator, sampled: bool, weighed: bool = True) -> Floats:
    """Return the gap of the second group over the first, and the rate of the first: low end, value, high end."""
    rates = np.clip(MEAN + rng.normal(0, OWN, len(MEAN)), 0.01, 0.9)
    # Some recordings are worse than others of the same speaker.
    errors = rng.binomial(WORDS, np.clip(rates[SPEAKER] * rng.gamma(4, 0.25, len(SPEAKER)), 0, 1)).astype(float)
    clips, weights = np.arange(len(SPEAKER)), np.ones(len(SPEAKER))
    if sampled:
        most = int(SHARE * 50 * len(SPEAKER))
        found = draw_sample(inputs().recordings, np.full(len(SPEAKER), 50), most, int(rng.integers(2**31)))
        assert found is not None
        clips = found.clips
        weights = weights_of(NAMES, np.full(len(SPEAKER), float(WORDS)), clips) if weighed else np.ones(len(clips))
    counts = TaskCounts(
        task="asr", metric="wer", layers=(0,), clips=np.arange(len(clips)), errors=errors[clips][:, None],
        hits=WORDS - errors[clips][:, None], sizes=np.full(len(clips), float(WORDS)),
    ).weighted(clips, weights)  # fmt: skip
    sets = inputs().sets
    names, member = reported_groups(LABELS, sets)
    cohort = Cohort(
        speakers=SPEAKER, weights=cluster_weights(2 * PEOPLE, 10, rng), names=names, member=member, min_speakers=5,
        permutations=100, seed=int(rng.integers(2**31)),
    )  # fmt: skip
    draft = Draft()
    add_rates(draft, counts, cohort)
    comparison = compare(sets[0], counts, cohort)
    assert comparison is not None
    add_gaps(draft, comparison)
    gap = draft.row("gap", **comparison.at(0, kind="absolute"))
    rate = draft.row("error_rate", **counts.at(0), group="by=0")
    assert gap.n == 2 * PEOPLE
    ends = [float(gap.low or 0), gap.value, float(gap.high or 0)]
    if comparison.worst(0) != "by=1":
        ends = [-end for end in reversed(ends)]
    return np.array([ends, [float(rate.low or 0), rate.value, float(rate.high or 0)]])


def seen(sampled: bool, weighed: bool = True, times: int = 100) -> tuple[Floats, Floats, Floats]:
    """Return of the gap and of the rate how often they lie in their intervals, how long these are, and how far off."""
    rng = np.random.default_rng(30)
    low, value, high = np.array([judged(rng, sampled, weighed) for _ in range(times)]).transpose(2, 0, 1)
    truth = np.array([TRUTH[1] - TRUTH[0], TRUTH[0]])
    return ((low <= truth) & (truth <= high)).mean(0), (high - low).mean(0), value.mean(0) - truth


def test_intervals_of_drawn_clips_hold_the_rates_of_all_and_are_wider() -> None:
    held, wide, off = seen(sampled=True)
    all_held, narrow, _ = seen(sampled=False, times=30)
    assert (held >= 0.93).all(), held
    assert (all_held >= 0.93).all(), all_held
    assert (wide > 1.5 * narrow).all(), (wide, narrow)
    assert (np.abs(off) < 0.015).all(), off


def test_without_weights_the_rates_of_all_would_be_missed() -> None:
    """One clip at least of everyone gives those who say little more than their share of so few clips."""
    _, _, off = seen(sampled=True, weighed=False, times=30)
    assert off[1] < -0.015, off


def test_where_short_clips_err_more_one_clip_of_each_speaker_gives_the_rate_of_all() -> None:
    """Commands of one word err three times as often as sentences: the mean of the rates of clips is far too high."""
    rng = np.random.default_rng(4)
    words = rng.choice([1.0, 2.0, 10.0, 20.0], len(SPEAKER))
    errors = words * np.where(words < 5, 0.45, 0.15)
    truth = errors.sum() / words.sum()
    found = []
    for seed in range(100):
        drawn = draw_sample(inputs().recordings, np.full(len(SPEAKER), 50), 50 * 3 * PEOPLE, seed)
        assert drawn is not None
        weights = weights_of(NAMES, words, drawn.clips)
        found.append((errors[drawn.clips] * weights).sum() / (words[drawn.clips] * weights).sum())
    # Truth is 0.175, the mean of clips 0.30.
    assert np.mean(found) == pytest.approx(truth, abs=0.015)
