"""Lower limits of how much more often members are hit than non-members at few false alarms.

The threshold is that of few false alarms. An average over all thresholds, as the area is, hides an attack that is right
about one member in twenty and of the rest knows nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audits.core.intervals import Interval
from audits.core.numbers import LOWER_BOUND
from audits.membership.rates import Judged
from audits.statistics.binomial import upper_limit
from audits.statistics.roc import Call

RATE = 0.01
"""Rate of false alarms that counts; of rates that are reported, the next above it, or the highest below."""
LARGE_TIMES, NOTABLE_TIMES = 5, 2
"""How much more often members are hit, at least, for a leak of high or of medium severity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Hits of an attack at one rate of false alarms, and the lower limit of their ratio to false alarms."""

    judged: Judged
    rate: float
    ratio: Interval

    @property
    def call(self) -> Call:
        """The counts at the threshold of the rate."""
        return self.judged.calls[self.rate]

    @property
    def where(self) -> dict[str, str | float]:
        """The keys of the hits and of their ratio to the false alarms."""
        return {**self.judged.where, "fpr": self.rate}


def hits_of(found: Sequence[Judged], level: float) -> list[Hit]:
    """Return lower limits of the ratio of hits to false alarms, which hold for all attacks at once."""
    made = []
    for one in found:
        if one.constant or not one.calls:
            continue
        rate = min((rate for rate in one.calls if rate >= RATE), default=max(one.calls))
        call, alpha = one.calls[rate], (1 - level) / len(found)
        times = ratio(call.hits, call, rate, alpha)
        bound = Interval(
            value=times,
            low=times,
            high=max(times, ratio(call.members, call, rate, alpha)),
            method=f"{LOWER_BOUND} one-sided Clopper-Pearson, hits over false alarms, error shared by {len(found)} "
            "attacks; the upper end is what a perfect attack would reach",
            n=call.members + call.others,
            unit="points",
        )
        made.append(Hit(judged=one, rate=rate, ratio=bound))
    return made


def ratio(hits: int, call: Call, rate: float, alpha: float) -> float:
    """Return the lower limit of hits over the upper one of false alarms, both with half of the error.

    The threshold is set by the non-members: that which so many of them reach. What share of all others reaches it has
    a beta distribution, whose quantile is the limit of Clopper and Pearson for as many alarms as were allowed.
    """
    # As `call_at` counts: a product of floats may fall just below a whole number.
    allowed = math.floor(rate * call.others + 1e-9)
    low = 1 - float(upper_limit(call.members - hits, call.members, alpha / 2))
    return low / float(upper_limit(allowed, call.others, alpha / 2))
