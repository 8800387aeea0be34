"""Wording that several findings share: system names, differences and ratios in sentences."""

from math import ceil, floor

from audits.core.context import Draft
from audits.core.numbers import decimals, point, written
from audits.core.records import Estimate
from audits.core.wording import many, size_words
from audits.speaker_groups.adjusting import Rung
from audits.speaker_groups.columns import ONE_SYSTEM
from audits.speaker_groups.counts import Utterances
from audits.speaker_groups.measure import Counts
from audits.statistics import Ends


def who(data: Utterances, system: int) -> str:
    """Return the name of a system at the start of a sentence; a lone one that was given none is the system."""
    return "The system" if data.systems == (ONE_SYSTEM,) else data.systems[system]


def all_tests(counts: Counts) -> str:
    """Return over how many tests a p-value is corrected, in words."""
    return f"{many(len(counts.verdicts), 'test', 'tests')} of the hypothesis"


def ratio_rows(draft: Draft, counts: Counts, rung: Rung) -> tuple[Estimate, Estimate]:
    """Return the ratios of the rates of two levels before and after adjusting."""
    where = counts.where(rung.system, **rung.where)
    return draft.row("rate_ratio", **where, adjusted="no"), draft.row("rate_ratio", **where, adjusted="yes")


def gap_words(gap: Estimate) -> str:
    """Return the size of a difference in words; of an excess, tested on one side, its lower limit."""
    if gap.name != "excess" or gap.low is None:
        return size_words(gap)
    return f"{point(gap)} (at least {written(gap.low, decimals(gap))})"


def left_words(share: Ends) -> str:
    """Return the share of a log ratio that is left, in whole percent, its ends rounded outwards.

    Examples
    --------
    >>> left_words((0.102, -0.704, 0.473))
    '10 % (-71 to 48 %) of the logarithm of the ratio is left'
    """
    value, low, high = (100 * end for end in share)
    return f"{round(value)} % ({floor(low)} to {ceil(high)} %) of the logarithm of the ratio is left"
