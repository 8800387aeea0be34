"""Clips of the groups audit whose errors are counted: what its statistics see of them, and its inputs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audits.core.groups import group_sets
from audits.speaker_groups.clips import Inputs
from audits.speaker_groups.counts import MetricCounts, Utterances
from probes.speech.clips import as_columns
from probes.speech.manifests import Clip, Manifest

NAME = "clips.csv"


def counted(
    rows: Sequence[Mapping[str, str]], errors: Any, sizes: Any = 100.0, *, by: Iterable[str] = (), max_order: int = 2,
    speakers: Any = None, systems: Sequence[str] = (), parts: Mapping[str, Any] | None = None, **controls: Any,
) -> Utterances:  # fmt: skip
    """Return clips with the levels of `rows` by attribute.

    Parameters
    ----------
    errors
        Of shape (clips,), or (clips, systems).
    speakers
        Speaker number of each clip; by default each clip has its own.
    controls
        Values of control columns.
    """
    errors = np.asarray(errors, dtype=float).reshape(len(rows), -1)
    sizes = np.broadcast_to(np.asarray(sizes, dtype=float), len(rows))
    parts = {name: np.asarray(part, dtype=float) for name, part in (parts or {}).items()}
    wrong = parts["substitution"] + parts["deletion"] if parts else np.minimum(errors, sizes[:, None])
    words = MetricCounts(metric="wer", errors=errors, hits=sizes[:, None] - wrong, sizes=sizes, parts=parts)
    return Utterances(
        systems=tuple(systems or (f"system {place}" for place in range(errors.shape[1]))),
        counts=(words,),
        speakers=np.arange(len(rows)) if speakers is None else np.asarray(speakers, dtype=np.int64),
        attributes=rows,
        controls=controls,
        sets=tuple(group_sets(rows, tuple(by), max_order=max_order)),
    )


def inputs_of(
    data: Utterances, used: Iterable[Mapping[str, str]] = (), lost: Iterable[Mapping[str, str]] = ()
) -> Inputs:
    """Return the inputs of clips: used ones and ones left out, by their levels."""
    clips, skipped = (
        tuple(
            Clip(path=Path(NAME), name="", line=line, source=Path(NAME), attributes=row)
            for line, row in enumerate(part)
        )
        for part in (used, lost)
    )
    by = tuple(groups.by for groups in data.singles())
    return Inputs(
        manifest=Manifest(path=Path(NAME), sha256="", clips=(*clips, *skipped), by=by, columns=by, notes=()),
        clips=as_columns(clips), skipped=tuple((clip, "no text") for clip in skipped),
        systems=data.systems, texts={}, counted={}, speakers=data.speakers,
        unit=data.unit, controls={}, sets=data.sets, notes=(), empty={},
    )  # fmt: skip
