"""How many words and characters did each system get wrong in each clip?"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from audits.context import Context
from audits.speaker_groups import Options
from audits.speaker_groups.columns import WORDS
from audits.speaker_groups.counts import PARTS, Counts, Floats, Utterances
from audits.speaker_groups.inputs import Inputs
from probes.words import EditTotals, count_edits, normalise_all

UNITS: tuple[tuple[str, Literal["word", "character"]], ...] = (("wer", "word"), ("cer", "character"))


def count(inputs: Inputs, options: Options, context: Context) -> Utterances:
    """Align every transcript with its reference, or take the counts of the manifest."""
    counts = _given(inputs) if inputs.counted else _aligned(inputs, options, context)
    controls = dict(inputs.controls)
    if WORDS in controls and not controls[WORDS]:
        controls[WORDS] = tuple(counts[0].sizes.tolist())
    return Utterances(
        systems=inputs.systems,
        counts=tuple(counts),
        speakers=inputs.speakers,
        attributes=[clip.attributes for clip in inputs.clips],
        controls=controls,
        sets=inputs.sets,
        unit=inputs.unit,
    )


def _aligned(inputs: Inputs, options: Options, context: Context) -> list[Counts]:
    references = normalise_all([clip.text or "" for clip in inputs.clips], options.normalise)
    found: dict[str, list[EditTotals]] = {metric: [] for metric, _ in UNITS}
    with context.progress.phase("Aligning transcripts", len(inputs.systems), "systems") as advance:
        for system in inputs.systems:
            heard = normalise_all(inputs.texts[system], options.normalise)
            for metric, unit in UNITS:
                found[metric].append(count_edits(references, heard, unit))
            advance(1)
    return [_joined(metric, totals) for metric, totals in found.items()]


def _joined(metric: str, totals: Sequence[EditTotals]) -> Counts:
    def stacked(name: str) -> Floats:
        return np.stack([getattr(total, name) for total in totals], axis=1).astype(np.float64)

    return Counts(
        metric=metric,
        errors=stacked("errors"),
        hits=stacked("hits"),
        sizes=totals[0].lengths.astype(np.float64),
        parts={part: stacked(f"{part}s") for part in PARTS},
    )


def _given(inputs: Inputs) -> list[Counts]:
    rows = list(inputs.counted.values())
    errors, sizes = np.stack([row["errors"] for row in rows], axis=1), rows[0]["words"]
    parts = {}
    if all(part in row for row in rows for part in PARTS):
        parts = {part: np.stack([row[part] for row in rows], axis=1) for part in PARTS}
    # Of a mere sum of errors it is not known which are insertions: as many words went wrong as can have.
    wrong = parts["substitution"] + parts["deletion"] if parts else np.minimum(errors, sizes[:, None])
    return [Counts(metric="wer", errors=errors, hits=sizes[:, None] - wrong, sizes=sizes, parts=parts)]
