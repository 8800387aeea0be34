"""Whose error rate a sentence of the findings is about, and how a difference of two stands in it."""

from audits.numbers import decimals, point, written
from audits.records import Estimate
from audits.speaker_groups.counts import Utterances
from audits.wording import size_words


def whose(data: Utterances, system: int) -> str:
    """Return the name of a system at the start of a sentence; none is needed where there is one only."""
    return f"{data.systems[system]} errs" if len(data.systems) > 1 else "The system errs"


def gap_words(gap: Estimate) -> str:
    """Return how large a difference is: of an excess, which is tested on one side, what it is at least."""
    if gap.name != "excess" or gap.low is None:
        return size_words(gap)
    return f"{point(gap)} (at least {written(gap.low, decimals(gap))})"
