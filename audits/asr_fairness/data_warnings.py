"""Warnings about recordings, speakers and options."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from audits.asr_fairness import Options
from audits.asr_fairness.counts import HEAD
from audits.asr_fairness.recordings import FrameSample, Inputs, Recording
from audits.core.context import Draft
from audits.core.wording import many
from audits.group_rates.cautions import beyond_samples, decoded_elsewhere, in_several, in_several_words
from probes.speech.frames import RATE

if TYPE_CHECKING:
    from audits.asr_fairness.measure import Counts


def warn_about_data(draft: Draft, counts: "Counts") -> None:
    """Add every warning that needs no estimate."""
    inputs, options = counts.inputs, counts.options
    fewest = len(inputs.sets) * min(1 + (HEAD in task.layers) for task in counts.tasks)
    for name, message in beyond_samples(options.permutations, options.bootstrap, fewest, draft.level):
        draft.warn(name, message)
    for note in inputs.manifest.notes:
        draft.warn(note.id, note.message)
    _warn_about_recordings(draft, inputs)
    if isinstance(inputs.vocabulary, str) and inputs.vocabulary:
        draft.warn("head-not-judged", f"The checkpoint's own CTC head is not judged: {inputs.vocabulary}.", task="asr")
    warn_about_attributes(draft, inputs)
    if inputs.sample is not None:
        draft.warn("frames-sampled", sampled_words(inputs.sample, len(inputs.recordings)), task="asr")
    if counts.sid:
        _warn_about_enrolment(draft, counts)
    if counts.asr is not None and not counts.asr.dev.any(axis=1).all():
        draft.warn(
            "no-early-stopping",
            "There are too few speakers to keep some for early stopping: the CTC probes stop after alignment.",
            task="asr",
        )


def _warn_about_recordings(draft: Draft, inputs: Inputs) -> None:
    resampled = sum(item.rate != RATE for item in inputs.recordings)
    mixed = sum(item.channels != 1 for item in inputs.recordings)
    if resampled:
        draft.warn("resampled", f"{resampled} clips had another sample rate and were resampled to {RATE} Hz.")
    if mixed:
        draft.warn("mixed-down", f"{mixed} clips had several channels, which were averaged.")
    for message in decoded_elsewhere(item.decoder for item in inputs.recordings):
        draft.warn("decoded-by-ffmpeg", message)
    contents = [(item.sha256, item.clip.start, item.clip.end) for item in inputs.recordings]
    repeated = len(contents) - len(set(contents))
    if repeated:
        draft.warn(
            "repeated-recordings",
            f"{repeated} clips have the same content as another: a probe may be tested on what it was trained on.",
        )
    silent = silent_clips(inputs.recordings)
    if silent:
        draft.warn("silent-clips", silent)


def warn_about_attributes(draft: Draft, inputs: Inputs) -> None:
    """Warn where the same speakers are in several groups, whose pooled rates are compared nevertheless."""
    speakers = [item.speaker for item in inputs.recordings]
    for by, member in [(groups.by, groups.member.tolist()) for groups in inputs.sets if "&" not in groups.by]:
        varying = in_several(speakers, member)
        if varying:
            who = many(varying, "speaker is", "speakers are")
            draft.warn("varies-within-speaker", in_several_words(who, by, "speakers"), by=by)


def _warn_about_enrolment(draft: Draft, counts: "Counts") -> None:
    recordings, options = counts.inputs.recordings, counts.options
    first, sizes = counts.sid[0], [size for split in counts.sid for size in split.enrolled]
    least, most = min(sizes), max(sizes)
    amount = f"{least}" if least == most else f"{least} to {most}"
    draft.limit(
        f"Speaker probes were trained on {amount} clips of each of {first.classes} speakers, the same number "
        "for every speaker of a fold; with more, all of them would err less."
    )
    if len(counts.sid) < 2:
        draft.warn(
            "one-deal",
            "In speaker identification the clips were dealt over the folds once (--repeats 1): how much another deal "
            "would change is not known, and is in the intervals only as far as speakers differ by it.",
            task="sid",
        )
    few = few_clips_for_folds(recordings, options)
    if few:
        draft.warn("few-clips-for-folds", f"In speaker identification, {few}")
    out = [item.speaker for item, fold in zip(recordings, first.fold, strict=True) if fold < 0]
    if out:
        draft.warn(
            "not-enrolled",
            f"{len(set(out))} speakers with fewer than {options.min_utterances} clips ({len(out)} clips) take no part "
            "in speaker identification.",
            task="sid",
        )


def enrolled_speakers(recordings: Sequence[Recording], options: Options) -> Mapping[str, int]:
    """Return the speakers with enough clips for identification, and the number of clips of each."""
    clips = Counter(item.speaker for item in recordings)
    return {name: count for name, count in clips.items() if count >= options.min_utterances}


def few_clips_for_folds(recordings: Sequence[Recording], options: Options) -> str:
    """Return the text on speakers with fewer clips than folds, and how many folds they reach; empty where none.

    Examples
    --------
    >>> from pathlib import Path
    >>> from types import SimpleNamespace
    >>> clips = [SimpleNamespace(speaker=name) for name in "aaabbbbccccc"]
    >>> few_clips_for_folds(clips, Options(model="m", manifest=Path("f"), by=("x",), folds=5))
    '2 of 3 speakers have fewer clips than the 5 folds of --folds: 1 can be tested in 3, 1 can be tested in 4.'
    """
    counts = enrolled_speakers(recordings, options)
    few = Counter(count for count in counts.values() if count < options.folds)
    if not few:
        return ""
    reached = ", ".join(f"{number:,} can be tested in {count}" for count, number in sorted(few.items()))
    whole = f"{sum(few.values()):,} of {len(counts):,} speakers"
    return f"{whole} have fewer clips than the {options.folds} folds of --folds: {reached}."


def sampled_words(sample: FrameSample, clips: int) -> str:
    """Return the text on the clips that were drawn for transcription.

    Examples
    --------
    >>> import numpy as np
    >>> sampled_words(FrameSample(clips=np.arange(3), frames=150, given=1000), 20).partition(":")[0]
    'Transcription probes are trained and judged on 3 of 20 clips, 150 of 1,000 frames (--frames)'
    """
    return (
        f"Transcription probes are trained and judged on {len(sample.clips):,} of {clips:,} clips, {sample.frames:,} "
        f"of {sample.given:,} frames (--frames): clips of every speaker, each weighted by how many of the speaker's it "
        "stands for. Intervals are wider for it, and probes that have fewer frames to learn from err a little more."
    )


def silent_clips(recordings: Sequence[Recording]) -> str:
    """Return the text on clips of digital silence, naming the first; empty where there is none."""
    silent = [item.clip for item in recordings if item.silent]
    if not silent:
        return ""
    clips = "1 clip holds" if len(silent) == 1 else f"{len(silent):,} clips hold"
    return (
        f"{clips} nothing but digital silence (all samples are equal), the first at {silent[0].where}. They are used, "
        "and what a probe makes of them is counted against their groups."
    )
