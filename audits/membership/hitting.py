"""How many members are found where a call is hardly ever wrong, and how much more often than non-members, at least?

The threshold is that of few false alarms. An average over all thresholds, as the area is, hides an attack that is right
about one member in twenty and of the rest knows nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audits.context import Context, Draft
from audits.membership.estimating import Judged, where_of
from audits.numbers import LOWER_BOUND
from audits.records import Estimate
from audits.statistics.epsilon_bounds import upper_rate
from audits.statistics.roc import Call

RATE = 0.01
"""Rate of false alarms that counts; of rates that are told, the next above it, or the highest below."""
LARGE_TIMES, NOTABLE_TIMES = 5, 2
"""How much more often members are hit, at least, for a leak of high or of medium severity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Hits of an attack at few false alarms: members are hit at least so many `times` as often as non-members."""

    judged: Judged
    call: Call
    times: float
    tpr_at: int
    place: int


def hits_of(draft: Draft, found: Sequence[Judged], context: Context) -> list[Hit]:
    """Add how much more often members are hit than non-members, at least; all attacks together hold at the level."""
    made = []
    for one in found:
        rates = [float(name.removeprefix("tpr ")) for name in one.calls]
        if one.constant or not rates:
            continue
        rate = min((rate for rate in rates if rate >= RATE), default=max(rates))
        met = one.calls[f"tpr {rate:g}"]
        alpha = (1 - context.level) / len(found)
        times = ratio(met.hits, met, rate, alpha)
        row = Estimate(
            name="hit_ratio",
            value=times,
            low=times,
            high=max(times, ratio(met.members, met, rate, alpha)),
            level=context.level,
            method=f"{LOWER_BOUND} one-sided Clopper-Pearson, hits over false alarms, error shared by {len(found)} "
            "attacks; the upper end is what a perfect attack would reach",
            n=met.members + met.others,
            unit="points",
            where=where_of(one.attack, fpr=rate),
        )
        made.append(Hit(judged=one, call=met, times=times, tpr_at=one.places[f"tpr {rate:g}"], place=draft.add(row)))
    return made


def ratio(hits: int, met: Call, rate: float, alpha: float) -> float:
    """Return the lower limit of hits over the upper one of false alarms, both with half of the error.

    The threshold is set by the non-members: that which so many of them reach. What share of all others reaches it has
    a beta distribution, whose quantile is the limit of Clopper and Pearson for as many alarms as were allowed.
    """
    # As `call_at` counts: a product of floats may fall just below a whole number.
    allowed = math.floor(rate * met.others + 1e-9)
    low = 1 - float(upper_rate(met.members - hits, met.members, alpha / 2))
    return low / float(upper_rate(allowed, met.others, alpha / 2))
