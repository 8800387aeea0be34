"""Fit of the radii of a log to the n and alpha that were named for it.

Votes are whole numbers, so only some radii can be reached: sigma Phi^-1(B(alpha; k, n - k + 1)) for k = 0..n. The
largest needs unanimous votes, which gives away the least alpha that the log can have been made with.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audits.certification.bounds import Floats
from audits.certification.logs import ROUNDINGS, USUAL_ALPHAS, Log, Rounding
from audits.certification.radii import Geometry
from audits.certification.rules import Rule
from audits.statistics.binomial import lower_limit

Outcome = Literal["other settings", "larger alpha", "other alpha", "doubtful", "cannot tell", "fits"]


@dataclass(frozen=True, slots=True)
class Fit:
    """Numbers of radii that one alpha explains, of those that can be tested, by way of rounding."""

    alpha: float
    counts: dict[Rounding, tuple[int, int]]

    @property
    def roundings(self) -> tuple[Rounding, ...]:
        """The ways of rounding that no radius contradicts; empty where no radius can be tested."""
        if not self.testable:
            return ()
        return tuple(way for way, (explained, testable) in self.counts.items() if explained == testable)

    @property
    def testable(self) -> bool:
        """Whether any radius can be tested."""
        return any(testable for _, testable in self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The test of the settings that were named for a log, by its radii.

    Parameters
    ----------
    needed
        Least alpha with which n votes reach the largest radius: as it is printed, and its range by rounding. None
        where no radius is positive.
    fits
        By alpha, ascending; empty where the procedure is another than the one whose radii are known.
    outcome
        What comes of it; the finding says it in words.
    alpha
        Error probability that the certificates may be said to have; None where nothing fits.
    """

    needed: tuple[float, float, float] | None
    fits: dict[float, Fit]
    outcome: Outcome
    alpha: float | None

    def fitting(self, named: float) -> list[Fit]:
        """Return the fits of other alphas than the one that was named."""
        return [fit for alpha, fit in self.fits.items() if fit.roundings and alpha != named]


def read_settings(log: Log, rule: Rule) -> Reading:
    """Test the radii of a log against the sigma, n and alpha that were named."""
    needed = implied_alpha(log, rule)
    if needed is None:
        return Reading(needed=None, fits={}, outcome="cannot tell", alpha=rule.alpha)
    fits = {}
    # Which radii whole votes reach is known for one-sided limits and a fixed number of draws only.
    if rule.method == "one-sided" and rule.mode == "fixed":
        for alpha in sorted({*USUAL_ALPHAS, rule.alpha}):
            fits[alpha] = Fit(alpha, {way: reachable(log, rule, alpha, way) for way in ROUNDINGS})
    outcome = _outcome(needed[1], fits, rule)
    return Reading(needed=needed, fits=fits, outcome=outcome, alpha=_held(outcome, fits, rule))


def _outcome(least: float, fits: dict[float, Fit], rule: Rule) -> Outcome:
    if least > max(rule.alpha, *USUAL_ALPHAS):
        # Nobody certifies with such an alpha: more likely another sigma or n was named than the log has.
        return "other settings"
    if least > rule.alpha:
        return "larger alpha"
    own = fits.get(rule.alpha)
    if own is None or not own.testable:
        return "cannot tell"
    if not own.roundings:
        return "other alpha"
    # Most tools print to the nearest digit: an alpha that fits that print is the likelier one.
    better = "nearest" not in own.roundings and any(
        "nearest" in fit.roundings and fit.counts["nearest"][0] > 0 for fit in fits.values()
    )
    return "doubtful" if better else "fits"


def _held(outcome: Outcome, fits: dict[float, Fit], rule: Rule) -> float | None:
    """Return the error probability that findings may state: where in doubt, the largest that fits."""
    if outcome in ("fits", "cannot tell"):
        return rule.alpha
    if outcome == "other settings":
        return None
    fitting = [alpha for alpha, fit in fits.items() if fit.roundings]
    likely = [alpha for alpha in fitting if "nearest" in fits[alpha].roundings]
    return max(fitting if outcome == "doubtful" else likely or fitting, default=None)


def implied_alpha(log: Log, rule: Rule) -> tuple[float, float, float] | None:
    """Return the least alpha with which n votes reach the log's largest radius, and its range by rounding.

    Unanimous votes reach sigma Phi^-1(alpha^(1/n)), so alpha >= P(r)^n with P(r) = Phi(r / sigma).
    """
    if not log.radii.size:
        return None
    largest = np.array([log.radii.max()])
    ends = largest, log.windows(largest, "nearest")[0], log.windows(largest, "down")[1]
    value, low, high = (_power(rule.geometry, float(end[0]), rule.n) for end in ends)
    return value, low, high


def _power(geometry: Geometry, radius: float, n: int) -> float:
    probability = geometry.probability(max(radius, 0.0))
    return math.exp(n * math.log(probability)) if probability > 0 else 0.0


def reachable(log: Log, rule: Rule, alpha: float, rounding: Rounding) -> tuple[int, int]:
    """Return how many radii whole votes can give under alpha, and how many can be tested.

    It can be told where neighbouring reachable radii lie further apart than the printed digits resolve.
    """
    radii = log.radii
    low, high = log.windows(radii, rounding)
    least = np.array([rule.geometry.probability(max(float(radius), 0.0)) for radius in low])
    votes = _first_votes(least, rule.n, alpha)
    here = _radius(votes, rule, alpha)
    before = _radius(votes - 1, rule, alpha)
    # A window above what unanimous votes reach tells too: no count can lie in it.
    testable = (here - before > high - low) | (votes > rule.n)
    explained = (votes <= rule.n) & (here <= high)
    return int((explained & testable).sum()), int(testable.sum())


def _first_votes(probability: Floats, n: int, alpha: float) -> Floats:
    """Return the fewest votes whose lower limit reaches a probability; n + 1 where none does."""
    low, high = np.zeros_like(probability), np.full_like(probability, n + 1)
    # By halving, for all radii at once: the lower limit rises with the votes.
    for _ in range(math.ceil(math.log2(n + 2)) + 1):
        middle = np.floor((low + high) / 2)
        enough = lower_limit(np.minimum(middle, n), n, alpha) >= probability
        reached = enough & (middle <= n)
        high = np.where(reached, np.minimum(middle, high), high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return high


def _radius(votes: Floats, rule: Rule, alpha: float) -> Floats:
    limits = lower_limit(np.clip(votes, 0, rule.n), rule.n, alpha)
    return np.array([rule.geometry.radius(float(low), 1.0 - float(low)) for low in limits])
