"""The recordings of the audit, before an encoder runs."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness import Options
from audits.asr_fairness.counts import CONTROLS
from audits.core.groups import GroupSet
from probes.models.checkpoints import ModelFolder
from probes.speech.layer_vectors import LayerVectors
from probes.speech.manifests import Clip, Manifest
from probes.speech.normalisers import Normaliser
from probes.speech.vocabularies import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A clip that can be used: its content hash, samples at 16 kHz, normalised text and file format.

    `silent` tells that all of its samples are equal. `decoder` is what decoded it, where not
    libsndfile. `key` and `digest` are of its vectors, where MODEL is vectors.
    """

    clip: Clip
    sha256: str
    samples: int
    text: str
    rate: int
    channels: int
    silent: bool = False
    decoder: str = ""
    key: str = ""
    digest: str = ""

    @property
    def speaker(self) -> str:
        """Name of the speaker."""
        return str(self.clip.speaker)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameSample:
    """The clips that the task asr is trained and judged on.

    Parameters
    ----------
    clips
        Numbers of their recordings, in order.
    frames, given
        Their frames, and those of all recordings.
    """

    clips: NDArray[np.int64]
    frames: int
    given: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    folder
        The model, or vectors of its layers.
    skipped
        Left-out clips with the reason.
    layers
        Layers to probe, or None for all.
    vocabulary
        The symbols of the checkpoint's own head, or why it is not judged; empty where there is nothing to judge.
    normaliser
        How texts are compared.
    sample
        The clips that the task asr is trained and judged on; None: all.
    """

    folder: ModelFolder | LayerVectors
    manifest: Manifest
    recordings: tuple[Recording, ...]
    skipped: tuple[tuple[Clip, str], ...]
    sets: tuple[GroupSet, ...]
    layers: tuple[int, ...] | None
    vocabulary: Vocabulary | str = ""
    normaliser: Normaliser = field(default_factory=lambda: Normaliser("basic"))
    sample: FrameSample | None = None

    @property
    def heard(self) -> tuple[Recording, ...]:
        """The recordings that the task asr is trained and judged on."""
        if self.sample is None:
            return self.recordings
        return tuple(self.recordings[clip] for clip in self.sample.clips.tolist())

    @property
    def depth(self) -> int | None:
        """Number of the encoder's layers, its input included; None where its configuration does not say."""
        if isinstance(self.folder, LayerVectors):
            return self.folder.layers
        count = self.folder.config.get("encoder_layers" if self.folder.family == "whisper" else "num_hidden_layers")
        return count + 1 if type(count) is int else None


def controls_of(inputs: Inputs, options: Options) -> tuple[str, ...]:
    """Return the controls that are asked for; vectors have no twin without training."""
    if not options.controls:
        return ()
    return CONTROLS[:1] if isinstance(inputs.folder, LayerVectors) else CONTROLS
