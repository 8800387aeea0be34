"""Error rates of the checkpoint that placed the phones, over everyone and by group."""

from collections.abc import Sequence

import numpy as np

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.intervals import Interval
from audits.core.numbers import described
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.speech import Recording
from audits.phoneme_errors.values import UNIT
from audits.statistics import rate_intervals

POOR = 0.3
"""Rate from which what such a checkpoint places is warned of."""


def add_alignment_errors(draft: Draft, recordings: Sequence[Recording], corpus: Corpus, by: Sequence[str]) -> None:
    """Add the error rate of the aligner's own reading against the transcripts, of everyone and of every group.

    Insertions, deletions and substitutions over the symbols of the transcripts (phones, or letters), summed over each
    speaker's clips.
    """
    people = zip(corpus.names, corpus.attributes, strict=True)
    numbers = {(name, *(levels[key] for key in by)): number for number, (name, levels) in enumerate(people)}
    sums = np.zeros((2, len(corpus.names)))
    for item in recordings:
        number = numbers.get((str(item.clip.speaker), *(item.clip.attributes[key] for key in by)))
        if number is not None:
            sums[:, number] += item.errors, item.length
    groups = (ALL, *corpus.groups)
    masks = np.stack([corpus.inside(group) for group in groups], axis=1)
    rates = rate_intervals(sums[0][:, None] * masks, sums[1][:, None] * masks, level=draft.level)
    for column, group in enumerate(groups):
        low, high = float(rates.low[column]), float(rates.high[column])
        if not np.isfinite([low, high]).all():
            continue
        value, method, n = float(rates.value[column]), rates.method[column], int(rates.clusters[column])
        found = Interval(value=value, low=low, high=high, method=method, n=n, unit=UNIT)
        row = draft.add("alignment_error_rate", found, group=group)
        if value > POOR:
            draft.warn(
                "poor-alignment",
                f"The checkpoint that placed the phones misreads {described(row)} of the symbols of {group}: where "
                "it places them is worth little, and so is all that is measured there.",
                group=group,
            )
