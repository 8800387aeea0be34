"""The recordings of the audit, and what is known of them before an encoder runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audits.asr_fairness import Options
from audits.groups import GroupSet
from audits.records import Skipped
from probes.loading.checkpoints import ModelFolder
from probes.loading.manifests import Clip, Manifest
from probes.loading.vocabularies import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A clip that can be used: its content hash, samples at 16 kHz, normalised text and file format.

    `silent` tells that all of its samples are equal.
    """

    clip: Clip
    sha256: str
    samples: int
    text: str
    rate: int
    channels: int
    silent: bool = False

    @property
    def speaker(self) -> str:
        """Name of the speaker."""
        return str(self.clip.speaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the audit runs on.

    Parameters
    ----------
    skipped
        Left-out clips with the reason.
    layers
        Layers to probe, or None for all.
    vocabulary
        The symbols of the checkpoint's own head, or why it is not judged; empty where there is nothing to judge.
    """

    folder: ModelFolder
    manifest: Manifest
    recordings: tuple[Recording, ...]
    skipped: tuple[tuple[Clip, str], ...]
    sets: tuple[GroupSet, ...]
    layers: tuple[int, ...] | None
    vocabulary: Vocabulary | str = ""

    @property
    def reasons(self) -> tuple[Skipped, ...]:
        """How many clips were left out for each reason."""
        counts = Counter(reason for _, reason in self.skipped)
        return tuple(Skipped(reason=reason, count=count) for reason, count in sorted(counts.items()))

    def varying(self, groups: GroupSet) -> frozenset[str]:
        """Return the speakers who are in several of these groups."""
        known = zip(self.recordings, groups.member.tolist(), strict=True)
        pairs = {(item.speaker, group) for item, group in known if group >= 0}
        counts = Counter(speaker for speaker, _ in pairs)
        return frozenset(speaker for speaker, count in counts.items() if count > 1)

    @property
    def depth(self) -> int | None:
        """How many layers the encoder has, its input included; None where its configuration does not say."""
        count = self.folder.config.get("encoder_layers" if self.folder.family == "whisper" else "num_hidden_layers")
        return count + 1 if type(count) is int else None


def enrolled_speakers(recordings: Sequence[Recording], options: Options) -> Mapping[str, int]:
    """Return the speakers with enough clips to be told apart, and how many clips each has."""
    clips = Counter(item.speaker for item in recordings)
    return {name: count for name, count in clips.items() if count >= options.min_utterances}


def few_clips_for_folds(recordings: Sequence[Recording], options: Options) -> str:
    """Say how many speakers have fewer clips than there are folds, and how many folds they reach; empty where none.

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


def silent_clips(recordings: Sequence[Recording]) -> str:
    """Say how many clips hold digital silence, and name the first; empty where none does."""
    silent = [item.clip for item in recordings if item.silent]
    if not silent:
        return ""
    clips = "1 clip holds" if len(silent) == 1 else f"{len(silent):,} clips hold"
    return (
        f"{clips} nothing but digital silence (all samples are equal), the first at {silent[0].where}. They are used, "
        "and what a probe makes of them is counted against their groups."
    )
