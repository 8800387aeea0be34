"""Inputs of the fairness audit of recordings that nobody opens."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from audits.asr_fairness.recordings import Inputs, Recording
from audits.core.groups import GroupSet
from probes.models.checkpoints import ModelFolder
from probes.speech.manifests import Clip, Manifest


def inputs_of(speakers: Sequence[str], attributes: Sequence[Mapping[str, str]], sets: Sequence[GroupSet]) -> Inputs:
    """Return the inputs of a recording of one second by each of these speakers, with their levels."""
    clips = [
        Clip(path=Path("a"), name="a", line=at, source=Path("m"), speaker=speaker, attributes=row)
        for at, (speaker, row) in enumerate(zip(speakers, attributes, strict=True), start=2)
    ]
    recordings = tuple(
        Recording(clip=clip, sha256=f"{clip.line:064x}", samples=16_000, text="", rate=16_000, channels=1)
        for clip in clips
    )
    folder = ModelFolder(reference="m", path=Path("m"), family="wav2vec2", config={}, weights=(), sha256="")
    by = tuple(groups.by for groups in sets if "&" not in groups.by)
    manifest = Manifest(path=Path("m"), sha256="", clips=tuple(clips), by=by, columns=(), notes=())
    return Inputs(folder=folder, manifest=manifest, recordings=recordings, skipped=(), sets=tuple(sets), layers=None)
