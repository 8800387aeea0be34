"""Draws around an image, as many as the rule says: all, until they settle what is asked, or what a pilot asks.

Only sampling happens here; what the counts prove is judged from them alone, so that it can be judged again.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from audits.certification.anytime_stopping import settled
from audits.certification.bounds import (
    Counts,
    Interval,
    Limits,
    choose_interval,
    clopper_pearson_upper,
    fullest_rival,
    soft_limits,
    vote_limits,
)
from audits.certification.confidence_sequences import sequence_limits
from audits.certification.randomised_limits import randomised_lower_limit
from audits.certification.rules import FIRST_LOOK, Rule
from audits.statistics.binomial import lower_limit
from probes.classifiers.smoothing import ONE, ImageCounts, VoteCounts

GRID = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The counts of one image.

    Parameters
    ----------
    clean
        Class without noise.
    selection
        Counts of the draws that choose class and interval; with a pilot, its counts.
    looks
        Cumulative counts of the fresh draws at each look, in order; of a confidence sequence those of the last alone.
    u
        The random number of randomised limits; None where none was drawn.
    """

    index: int
    label: int
    clean: int
    selection: VoteCounts
    looks: tuple[VoteCounts, ...]
    seconds: float
    u: float | None = None

    @property
    def draws(self) -> int:
        """Forward passes under noise."""
        return self.selection.draws + self.looks[-1].draws


def draw(counts: ImageCounts, label: int, rule: Rule, u: float | None = None) -> Drawn:
    """Draw around one image as often as the rule asks, and return the counts; `u` is its random number, if any."""
    clean = counts.clean()
    if rule.mode == "pilot":
        selection = counts.until("pilot", rule.pilot)
        looks = [counts.until("estimation", pilot_draws(selection, rule))]
    else:
        selection = counts.until("selection", rule.n0)
        looks = [counts.until("estimation", rule.looks[0])]
        while len(looks) < len(rule.looks) and not decided(selection, looks, rule, u):
            looks.append(counts.until("estimation", rule.looks[len(looks)]))
    counts.save()
    if rule.mode == "anytime":
        # The last limit holds whenever draws stopped, and needs no other look.
        looks = looks[-1:]
    return Drawn(
        index=counts.index,
        label=label,
        clean=clean,
        selection=selection,
        looks=tuple(looks),
        seconds=counts.seconds,
        u=u,
    )


def interval_of(selection: VoteCounts, rule: Rule) -> Interval:
    """Choose the class and the interval from the selection draws."""
    if not rule.soft:
        return choose_interval(votes_of(selection), rule.n, rule.share, rule.method, rule.geometry.radius)
    sums = np.asarray(selection.sums)
    top = int(sums.argmax())
    if rule.method != "auto":
        return Interval(rule.method, top)
    pair = (Interval("one-sided", top), Interval("two-class", top))
    # As if the fresh draws came out like the selection: same means, same spread, more of them.
    growth = rule.n / selection.draws
    gains = [radius_of(_soft(selection, interval, rule, growth), rule) for interval in pair]
    return pair[int(np.argmax(gains))]


def limits_of(
    tally: VoteCounts, interval: Interval, rule: Rule, *, selection: VoteCounts | None = None, u: float | None = None
) -> Limits:
    """Return the limits of one look; a confidence sequence needs the selection, a randomised limit its number."""
    if rule.soft:
        return _soft(tally, interval, rule, 1.0)
    if rule.mode == "anytime":
        assert selection is not None
        return sequence_limits(votes_of(selection), votes_of(tally), interval, rule.share)
    if rule.randomised:
        assert u is not None
        return vote_limits(votes_of(tally), interval, rule.share, partial(randomised_lower_limit, u=u))
    return vote_limits(votes_of(tally), interval, rule.share)


def _soft(tally: VoteCounts, interval: Interval, rule: Rule, growth: float) -> Limits:
    sums, squares = np.asarray(tally.sums) / ONE, np.asarray(tally.squares) / ONE / ONE
    return soft_limits(sums * growth, squares * growth, round(tally.draws * growth), interval, rule.share, 1.0 / ONE)


def radius_of(limits: Limits, rule: Rule) -> float:
    """Return the radius that limits prove; below 0 where they prove none."""
    return rule.geometry.radius(*limits)


def votes_of(tally: VoteCounts) -> Counts:
    """Return the votes as an array."""
    array: Counts = np.asarray(tally.votes)
    return array


def decided(selection: VoteCounts, looks: list[VoteCounts], rule: Rule, u: float | None = None) -> bool:
    """Tell whether each requested radius is proved, or so unlikely to be that more draws would be wasted.

    To stop without a proof is always sound. It happens where even the upper limit of the top class's probability,
    with the lower limit of its strongest rival, would not reach the radius.
    """
    interval = interval_of(selection, rule)
    if rule.mode == "anytime":
        return settled(votes_of(selection), votes_of(looks[-1]), interval, rule)
    reached = max(radius_of(limits_of(tally, interval, rule, u=u), rule) for tally in looks)
    open_radii = [radius for radius in rule.radii if radius > reached]
    if not open_radii:
        return True
    # Radii ascend: if the least open one is out of reach, so are all others.
    return _hoped(looks[-1], interval, rule) < open_radii[0]


def _hoped(tally: VoteCounts, interval: Interval, rule: Rule) -> float:
    if rule.soft:
        low, _ = limits_of(tally, interval, rule)
        mean = float(tally.sums[interval.top]) / ONE / tally.draws
        # The shift is the same on both sides of a mean; the limits hold the lower one.
        high = min(2 * mean - low, 1.0)
        return rule.geometry.radius(high, 1.0 - high) if high < 1 else np.inf
    votes = votes_of(tally)
    high = float(clopper_pearson_upper(votes[interval.top], tally.draws, rule.share))
    if high >= 1.0:
        return np.inf
    if interval.kind == "one-sided":
        return rule.geometry.radius(high, 1.0 - high)
    rival = fullest_rival(votes, interval.top)
    low = float(lower_limit(rival, tally.draws, rule.share))
    return rule.geometry.radius(high, low) if low > 0 else np.inf


def pilot_draws(pilot: VoteCounts, rule: Rule) -> int:
    """Return the fewest draws expected to lose at most the target share of the radius at n.

    The share is one of the radius, or of sigma / 2 where the radius is smaller.

    The pilot's shares stand in for the probabilities; the draws it asks for are fresh, and their limits spend all
    of alpha, so a bad choice costs radius and never soundness.
    """
    # Each draw adds less than the one before: steps by a factor take few sizes to find the bend.
    sizes = np.unique(np.geomspace(min(FIRST_LOOK, rule.n), rule.n, GRID).round().astype(np.int64))
    interval = interval_of(pilot, rule)
    radii = np.array([_expected(pilot, interval, int(size), rule) for size in sizes])
    if radii[-1] <= 0:
        # Expected to abstain even with all draws.
        return int(sizes[0])
    # Tiny radii would take most draws to keep a share that nobody sees.
    lost = rule.target_loss * max(radii[-1], rule.geometry.sigma / 2)
    enough = radii >= radii[-1] - lost
    return int(sizes[int(enough.argmax())])


def _expected(pilot: VoteCounts, interval: Interval, size: int, rule: Rule) -> float:
    if rule.soft:
        return radius_of(_soft(pilot, interval, rule, size / pilot.draws), rule)
    votes = votes_of(pilot)
    # A quarter of a vote is taken from a unanimous top: a pilot of m cannot tell 1 from 1 - 1/m.
    top = min(float(votes[interval.top]), pilot.draws - 0.25) / pilot.draws
    share = rule.share if interval.kind == "one-sided" else rule.share / 2
    low = float(lower_limit(top * size, size, share))
    if interval.kind == "one-sided":
        return rule.geometry.radius(low, 1.0 - low)
    rival = fullest_rival(votes, interval.top) / pilot.draws
    high = min(float(clopper_pearson_upper(rival * size, size, share)), 1.0 - low)
    return rule.geometry.radius(low, high)
