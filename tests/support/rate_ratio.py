"""How many times the errors per word of one level of an attribute does another have?"""

import numpy as np

from audits.speaker_groups.populations import Counts


def ratio(counts: Counts, attribute: str, high: str, low: str, **fixed: str) -> float:
    """Return the ratio of the two rates over the clips that have all the fixed levels."""
    chosen = np.ones(len(counts.errors), dtype=bool)
    for other, level in fixed.items():
        chosen &= counts.labels[other] == level
    rates = []
    for level in (high, low):
        inside = chosen & (counts.labels[attribute] == level)
        rates.append(counts.errors[inside].sum() / counts.words[inside].sum())
    return float(rates[0] / rates[1])
