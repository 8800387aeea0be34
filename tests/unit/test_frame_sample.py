"""Which clips are drawn where frames are sampled, what each counts, and is no more kept than was said?"""

import numpy as np
import pytest
from recorded_clips import inputs_of

from audits.asr_fairness.frame_sample import draw_sample, parse_frames, trials_of, weights_of
from audits.asr_fairness.recordings import Recording
from probes.core.errors import InputError

RNG = np.random.default_rng(3)
SPEAKERS = np.repeat(np.arange(12), np.where(np.arange(12) % 2, 40, 4))
"""Twelve speakers, every second with ten times the clips of the others."""
FRAMES = RNG.integers(20, 80, len(SPEAKERS))


def recordings(order: np.ndarray | None = None) -> tuple[Recording, ...]:
    names = [f"s{number:02d}" for number in SPEAKERS]
    made = inputs_of(names, [{}] * len(names), []).recordings
    return made if order is None else tuple(made[place] for place in order)


@pytest.mark.parametrize("text", ["sample:", "sample:0", "sample:-3", "sample:1e6", "some", "sample:" + "9" * 30])
def test_what_says_no_number_of_frames_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_frames(text, ("asr",))
    assert caught.value.where == "--frames" and "sample:N" in caught.value.hint


def test_frames_are_of_transcription_alone() -> None:
    with pytest.raises(InputError, match="for the task asr alone"):
        parse_frames("sample:100", ("sid",))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_clips_fill_the_frames_and_every_speaker_has_a_like_share(share: float) -> None:
    most = int(share * FRAMES.sum())
    drawn = draw_sample(recordings(), FRAMES, most, 0)
    assert drawn is not None and most - 80 < drawn.frames <= most
    assert drawn.frames == FRAMES[drawn.clips].sum() and drawn.given == FRAMES.sum()
    assert (np.diff(drawn.clips) > 0).all()
    shares = np.bincount(SPEAKERS[drawn.clips], minlength=12) / np.bincount(SPEAKERS)
    # One clip at least; beyond it no speaker is further than a clip from the share of all.
    assert (shares > 0).all()
    assert (np.abs(shares - len(drawn.clips) / len(SPEAKERS)) * np.bincount(SPEAKERS) <= 1.5).all()


def test_the_same_clips_are_drawn_however_they_are_sorted_and_others_by_another_seed() -> None:
    order = RNG.permutation(len(SPEAKERS))
    drawn, other = (draw_sample(recordings(), FRAMES, 3000, seed) for seed in (0, 1))
    sorted_otherwise = draw_sample(recordings(order), FRAMES[order], 3000, 0)
    assert drawn is not None and sorted_otherwise is not None and other is not None
    assert set(order[sorted_otherwise.clips].tolist()) == set(drawn.clips.tolist()) != set(other.clips.tolist())


def test_all_that_fits_is_all() -> None:
    assert draw_sample(recordings(), FRAMES, int(FRAMES.sum()), 0) is None


def test_too_few_frames_for_all_speakers_are_refused_with_the_least_that_will_do() -> None:
    with pytest.raises(InputError, match="One clip of each of 12 speakers takes") as caught:
        draw_sample(recordings(), FRAMES, 100, 0)
    least = int(caught.value.hint.split("sample:")[1].split()[0])
    drawn = draw_sample(recordings(), FRAMES, least, 0)
    assert drawn is not None and len(drawn.clips) == 12
    with pytest.raises(InputError):
        draw_sample(recordings(), FRAMES, least - 1, 0)


def test_a_drawn_clip_stands_for_its_share_of_the_clips_of_its_speaker() -> None:
    drawn = draw_sample(recordings(), FRAMES, 2500, 0)
    assert drawn is not None
    names, trials = [str(number) for number in SPEAKERS], RNG.integers(1, 9, len(SPEAKERS)).astype(float)
    weights = weights_of(names, trials, drawn.clips)
    clips = np.bincount(SPEAKERS[drawn.clips], weights)
    assert clips / clips.sum() == pytest.approx(np.bincount(SPEAKERS) / len(SPEAKERS))
    assert all(len(set(weights[SPEAKERS[drawn.clips] == who].round(12))) == 1 for who in range(12))
    # No more is known than was seen.
    assert (trials[drawn.clips] * weights).sum() == pytest.approx(trials[drawn.clips].sum())


def test_trials_are_of_drawn_clips_alone() -> None:
    from dataclasses import replace

    inputs = inputs_of([f"s{number:02d}" for number in SPEAKERS], [{}] * len(SPEAKERS), [])
    inputs = replace(inputs, recordings=tuple(replace(item, text="go on up") for item in inputs.recordings))
    assert trials_of(inputs, "wer").tolist() == [3.0] * len(SPEAKERS) and inputs.heard == inputs.recordings
    sample = draw_sample(inputs.recordings, FRAMES, 2500, 0)
    assert sample is not None
    inputs = replace(inputs, sample=sample)
    trials = trials_of(inputs, "cer")
    assert np.flatnonzero(trials).tolist() == sample.clips.tolist()
    assert trials.sum() == pytest.approx(8 * len(sample.clips)) and len(inputs.heard) == len(sample.clips)
