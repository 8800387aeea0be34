"""The checked inputs of the audit: used clips, their speakers, and each system's transcripts or counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.groups import GroupSet, LevelRows
from audits.core.records import Skipped
from audits.group_rates.clips import reasons_of
from probes.files.levels import Note
from probes.speech.manifests import Clip, Clips, Manifest
from probes.speech.normalisers import Normaliser


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    clips
        The clips that are used.
    skipped
        Left-out clips with the reason.
    systems
        Names of the recognisers.
    texts
        What each system wrote, by name and clip, None for nothing; empty where the manifest holds counts.
    references
        The normalised text of each clip; empty where the manifest holds counts.
    counted
        Columns of the manifest with counts, by system; empty where there are texts.
    speakers
        Speaker number of each clip, shape (clips,).
    unit
        What a speaker number stands for.
    empty
        Missing transcripts that count as empty, by system.
    wordless
        How many of the clips have no word of reference.
    read_as
        What the transcripts or counts were read from, in sentences.
    normaliser
        How texts are compared.
    """

    manifest: Manifest
    clips: Clips
    skipped: tuple[tuple[Clip, str], ...]
    systems: tuple[str, ...]
    texts: Mapping[str, Sequence[str | None]]
    counted: Mapping[str, Any]
    speakers: NDArray[np.int64]
    unit: str
    controls: Mapping[str, tuple[float | str | None, ...]]
    sets: tuple[GroupSet, ...]
    notes: tuple[Note, ...]
    empty: Mapping[str, int]
    references: Sequence[str | None] = ()
    wordless: int = 0
    read_as: tuple[str, ...] = ()
    normaliser: Normaliser = field(default_factory=lambda: Normaliser("basic"))

    @property
    def reasons(self) -> tuple[Skipped, ...]:
        """How many clips were left out for each reason."""
        return reasons_of(self.skipped)


def levels_of(clips: Clips) -> LevelRows:
    """Return the levels of all attributes of the clips."""
    return LevelRows({name: clips.each_level(name) for name in clips.attributes}, len(clips))
