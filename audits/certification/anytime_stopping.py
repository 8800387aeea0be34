"""When the draws of an image may stop under a confidence sequence; whichever moment is chosen, the limits hold."""

import numpy as np

from audits.certification.bounds import Counts, Floats, Interval, fullest_rival
from audits.certification.confidence_sequences import sequence_limit, sequence_limits
from audits.certification.rules import Rule

LEAST_SEEN = 1000
"""Draws before which it is not reckoned what all of them would give: as many as a pilot looks at."""


def settled(selection: Counts, votes: Counts, interval: Interval, rule: Rule) -> bool:
    """Tell whether more draws of an image would be wasted, from its votes so far, shape (classes,).

    With radii asked: each is proved, or the least open one lies above the radius that the limits from the other side
    leave. Without: the radius lacks at most the target share of the one that all n draws would give, should votes go on
    as they fell; the share is one of that radius, or of sigma / 2 where it is smaller.
    """
    radius = rule.geometry.radius
    reached = radius(*sequence_limits(selection, votes, interval, rule.share))
    if rule.asked:
        unproved = [asked for asked in rule.radii if asked > reached]
        return not unproved or _hoped(selection, votes, interval, rule) < unproved[0]
    if votes.sum() < min(LEAST_SEEN, rule.n):
        return False
    expected = _projected(selection + votes, interval.top, rule.n)
    projected = radius(*sequence_limits(selection, expected, interval, rule.share))
    return projected <= 0 or reached >= projected - rule.target_loss * max(projected, rule.geometry.sigma / 2)


def _projected(seen: Counts, top: int, draws: int) -> Floats:
    """Return the votes that so many draws would give in the shares of those seen.

    A quarter of a vote is taken from a unanimous top: m votes cannot tell 1 from 1 - 1/m.
    """
    shares = seen / seen.sum()
    short = max(shares[top] - (1 - 0.25 / seen.sum()), 0.0)
    shares[top] -= short
    shares[0 if top else 1] += short
    return np.asarray(shares * draws)


def _hoped(selection: Counts, votes: Counts, interval: Interval, rule: Rule) -> float:
    """Return the radius that the upper limit of the top class leaves, with the lower one of the fullest rival."""
    top, draws = interval.top, int(votes.sum())
    first = int(selection.sum())
    chosen, seen = int(selection[top]), fullest_rival(selection, top)
    high = 1.0 - float(sequence_limit(draws - votes[top], votes[top], rule.share, (first - chosen, chosen)))
    if high >= 1.0:
        return float("inf")
    if interval.kind == "one-sided":
        return rule.geometry.radius(high, 1.0 - high)
    rival = fullest_rival(votes, top)
    low = float(sequence_limit(rival, draws - rival, rule.share, (seen, first - seen)))
    return rule.geometry.radius(high, low) if low > 0 else float("inf")
