"""Does the checkpoint that placed the phones hear what was said, and of every group alike?"""

from collections.abc import Sequence

import numpy as np

from audits.context import Context, Draft
from audits.groups import ALL
from audits.numbers import described
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.speech import Recording
from audits.records import Estimate
from audits.statistics import rate_intervals

NAME = "alignment_error_rate"
POOR = 0.3
"""Rate from which what such a checkpoint places is warned of."""


def add_alignment_errors(
    draft: Draft, recordings: Sequence[Recording], corpus: Corpus, options: Options, context: Context
) -> None:
    """Add the error rate of the aligner's own reading against the transcripts, of everyone and of every group.

    Insertions, deletions and substitutions over the symbols of the transcripts (phones, or letters), summed over each
    speaker's clips.
    """
    people = zip(corpus.names, corpus.attributes, strict=True)
    place = {(name, *(levels[by] for by in options.by)): number for number, (name, levels) in enumerate(people)}
    sums = np.zeros((2, len(corpus.names)))
    for item in recordings:
        number = place.get((str(item.clip.speaker), *(item.clip.attributes[by] for by in options.by)))
        if number is not None:
            sums[:, number] += item.errors, item.length
    groups = (ALL, *corpus.groups)
    masks = np.stack([corpus.inside(group) for group in groups], axis=1)
    rates = rate_intervals(sums[0][:, None] * masks, sums[1][:, None] * masks, level=context.level)
    for column, group in enumerate(groups):
        if not np.isfinite([rates.low[column], rates.high[column]]).all():
            continue
        row = Estimate(
            name=NAME,
            value=float(rates.value[column]),
            low=float(rates.low[column]),
            high=float(rates.high[column]),
            level=context.level,
            method=rates.method[column],
            n=int(rates.clusters[column]),
            unit="speakers",
            where={"group": group},
        )
        draft.add(row)
        if row.value > POOR:
            draft.warn(
                "poor-alignment",
                f"The checkpoint that placed the phones misreads {described(row)} of the symbols of {group}: where "
                "it places them is worth little, and so is all that is measured there.",
                group=group,
            )
