"""A sample of the clips for transcription, where the frames of all would not fit the disk.

The probes of a clip need all of its frames, so clips are drawn, and N limits the frames of all of them. Every speaker
keeps one clip at least, and otherwise the same share of the own clips, at random. Each drawn clip stands for as many of
its speaker as there are to one that was drawn: intervals are about the pooled rate of the whole corpus, even where
short clips err otherwise. What the clips that were not drawn would have changed shows in the spread between speakers,
each of whom is sampled independently, and so in every interval over speakers.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness.counts import METRICS
from audits.asr_fairness.recordings import FrameSample, Inputs, Recording
from audits.statistics import generator
from probes.core.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ALL, SAMPLE = "all", "sample:"


def parse_frames(text: str, tasks: Sequence[str]) -> int | None:
    """Return the most frames that `--frames` lets the task asr keep; None without a limit.

    Raises
    ------
    InputError
        Where it is neither `all` nor `sample:N`, or nothing needs frames.

    Examples
    --------
    >>> parse_frames("sample:200000", ("sid", "asr")), parse_frames("all", ("asr",))
    (200000, None)
    """
    if text == ALL:
        return None
    number = text.removeprefix(SAMPLE)
    if not (text.startswith(SAMPLE) and number.isascii() and number.isdigit() and 0 < int(number[:20]) < 10**15):
        raise InputError(
            f"{text!r} says neither that all frames are kept nor how many.",
            where="--frames",
            hint="Give all, or sample:N with the most frames that may be kept, such as sample:2000000.",
        )
    if "asr" not in tasks:
        raise InputError(
            "Frames are kept for the task asr alone.",
            where="--frames",
            hint="Leave it out, or give --tasks sid,asr.",
        )
    return int(number)


def draw_sample(recordings: Sequence[Recording], frames: Ints, most: int, seed: int) -> FrameSample | None:
    """Draw clips of at most so many frames, a like share of every speaker's; None where the frames of all fit.

    The clips of each speaker are put into a random order. Of a speaker with n clips the first comes at 0, the next at
    1/n, and so on; clips are taken as they come, those that come together in a random order, until one does not fit.
    So the number of a speaker's clips does not depend on how long they are.

    Parameters
    ----------
    frames
        Of each recording, shape (recordings,).

    Raises
    ------
    InputError
        Where not even one clip of each speaker fits.
    """
    if frames.sum() <= most:
        return None
    names = {name: number for number, name in enumerate(sorted({item.speaker for item in recordings}))}
    speakers = np.array([names[item.speaker] for item in recordings], dtype=np.int64)
    # The same clips are drawn however the manifest is sorted.
    order = np.array(sorted(range(len(recordings)), key=lambda at: _identity(recordings[at])), dtype=np.int64)
    first, tie = (np.empty(len(order)) for _ in range(2))
    rng = generator(seed, "asr", "frames")
    first[order], tie[order] = rng.random((2, len(order)))
    turn = np.lexsort((tie, _ranks(speakers, first)))
    before = np.cumsum(frames[turn])
    least = int(before[len(names) - 1])
    if least > most:
        raise InputError(
            f"One clip of each of {len(names):,} speakers takes {least:,} frames: {most:,} are too few.",
            where="--frames",
            hint=f"Give sample:{least} or more, or --tasks sid.",
        )
    taken = np.sort(turn[: int((before <= most).sum())])
    return FrameSample(clips=taken, frames=int(frames[taken].sum()), given=int(frames.sum()))


def _identity(item: Recording) -> tuple[str, str, float, str]:
    return item.speaker, item.sha256, item.clip.start or 0.0, item.clip.name


def _ranks(speakers: Ints, draws: Floats) -> Floats:
    """Return the place of each clip among those of its speaker, in the order of its draw, as a share of their number.

    Examples
    --------
    >>> _ranks(np.array([0, 0, 1]), np.array([0.9, 0.1, 0.5])).tolist()
    [0.5, 0.0, 0.0]
    """
    order = np.lexsort((draws, speakers))
    counts = np.bincount(speakers)
    starts = np.cumsum(counts) - counts
    found = np.empty(len(speakers))
    found[order] = (np.arange(len(speakers)) - starts[speakers[order]]) / counts[speakers[order]]
    return found


def weights_of(speakers: Sequence[str], trials: Floats, clips: Ints) -> Floats:
    """Return the weights of the drawn clips, shape (drawn,): how many of its speaker's clips each stands for, scaled.

    They are the inverse of the probability to be drawn. With the words of a speaker in their place, a single drawn clip
    would count alike, short or long, and groups would get the mean of the rates of clips (Cochran 1977, section 6.12:
    ratios taken in each of many small strata are biased, their sums are not).

    Weighted trials sum to those of the drawn clips, so that no more is known than was seen.

    Parameters
    ----------
    speakers, trials
        Of all clips: who speaks, and words or characters of the reference, shape (clips,).
    clips
        Numbers of those that were drawn: one of every speaker, at least.

    Examples
    --------
    >>> weights_of(["a", "a", "b", "b"], np.array([6.0, 6.0, 3.0, 3.0]), np.array([0, 2, 3])).round(2).tolist()
    [1.33, 0.67, 0.67]
    """
    known = {name: number for number, name in enumerate(dict.fromkeys(speakers))}
    number = np.array([known[name] for name in speakers], dtype=np.int64)
    drawn = number[clips]
    stands = np.bincount(number)[drawn] / np.bincount(drawn, minlength=len(known))[drawn]
    scaled: Floats = stands * (trials[clips].sum() / (stands * trials[clips]).sum())
    return scaled


def trials_of(inputs: Inputs, metric: str) -> Floats:
    """Return the words or characters of the reference of each clip, shape (recordings,).

    Where clips were drawn, those of the others are 0, and theirs are weighted.
    """
    trials = _units(inputs, metric)
    if inputs.sample is None:
        return trials
    weighted: Floats = np.zeros(len(trials))
    clips = inputs.sample.clips
    weighted[clips] = trials[clips] * weights_of([item.speaker for item in inputs.recordings], trials, clips)
    return weighted


def _units(inputs: Inputs, metric: str) -> Floats:
    units = [len(item.text.split()) if metric == "wer" else len(item.text) for item in inputs.recordings]
    return np.array(units, dtype=np.float64)


def weighed_sample(inputs: Inputs) -> tuple[Ints, dict[str, Floats]] | None:
    """Return the numbers of the drawn clips, and their weights in each metric of asr; None where all are used."""
    if inputs.sample is None:
        return None
    speakers, clips = [item.speaker for item in inputs.recordings], inputs.sample.clips
    return clips, {metric: weights_of(speakers, _units(inputs, metric), clips) for metric in METRICS["asr"]}
