"""The texts that are taken to be faithful, in which errors are planted: which they are, and how many."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audits.faithfulness.samples import Sample
from audits.statistics import generator
from probes.texts.evidence import Grounded

Integers = NDArray[np.int64]
LEAST_LABELLED = 20
"""Faithful outputs by label, from which on errors are planted in these."""
LABELLED, REFERENCES, OUTPUTS = "outputs labelled faithful", "references", "outputs, taken to be faithful"


def faithful_texts(samples: Sequence[Sample], most: int, seed: int) -> tuple[str, Integers, list[Grounded]]:
    """Return what is taken to be faithful, its rows, at most so many, and its texts."""
    labelled = [row for row, sample in enumerate(samples) if sample.label]
    referred = [row for row, sample in enumerate(samples) if sample.pair.reference]
    # Several systems share a context and its reference: one of them is enough.
    once = list({(samples[row].context_id, samples[row].pair.reference): row for row in reversed(referred)}.values())
    if len(labelled) >= LEAST_LABELLED:
        source, rows = LABELLED, labelled
    elif len(once) >= LEAST_LABELLED:
        source, rows = REFERENCES, sorted(once)
    else:
        source, rows = OUTPUTS, list(range(len(samples)))
    if len(rows) > most:
        rows = sorted(generator(seed, "faithful").choice(rows, most, replace=False).tolist())
    pairs = [samples[row].pair for row in rows]
    if source == REFERENCES:
        pairs = [replace(pair, output=pair.reference or "") for pair in pairs]
    return source, np.array(rows, dtype=np.int64), pairs
