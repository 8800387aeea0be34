"""The least gap of two pooled rates that intervals over speakers show, before the groups are compared.

What a speaker's errors vary by is taken from all speakers together, whichever group they are of (a blinded estimate:
Friede and Kieser 2006, "Sample size recalculation in internal pilot study designs: a review"), or assumed. The size of
each speaker is known. From both follow the standard errors that the groups' rates have, and those that the intervals
of `clustered_rates` and `group_gaps` take them to have.
"""

import math
from dataclasses import dataclass

import numpy as np

from audits.core.detectable import POWER
from audits.statistics.clustered_rates import Floats, Spread, between_clusters, freedom_of
from audits.statistics.group_gaps import GroupSpread
from audits.statistics.power import shift_shown
from audits.statistics.seeds import generator

LEAST_RATE = 1e-4
"""Rate below which no speaker is taken to err, so that a world without an error has a spread."""
LEAST_WITHIN = 0.05
"""Least share of a coin's variance that a trial is taken to have, however alike the speakers seen are."""
DRAWS, MOST_DRAWN = 200, 2000
"""Draws of speakers that tell degrees of freedom, and the speakers from which on the kurtosis does."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Law:
    """What the errors of a speaker are taken to be, alike in every group.

    Parameters
    ----------
    rate
        Of all speakers; a group that errs more has a higher one.
    between
        Variance of the speakers' own rates.
    within
        Variance of a trial over that of a coin of the speaker's rate, r (1 - r).
    distances
        Of the speakers' rates from the mean, standardised; None where they are taken as normal.
    open
        Whether a rate can exceed 1.
    """

    rate: float
    between: float
    within: float = 1.0
    distances: Floats | None = None
    open: bool = False

    @property
    def kurtosis(self) -> float:
        """Kurtosis of the speakers' rates; 3 where they are normal."""
        if self.distances is None or not self.distances.any():
            return 3.0
        return float(np.mean(self.distances**4) / np.mean(self.distances**2) ** 2)

    def freedom(self, speakers: float) -> float:
        """Return the degrees of freedom that an interval over so many speakers takes its standard error to have."""
        count = max(round(speakers), 2)
        if self.distances is None or count > MOST_DRAWN:
            return count - 1.0 if self.distances is None else max(min(count - 1, 2 * count / (self.kurtosis - 1)), 1.0)
        drawn = generator(0, "degrees of freedom", str(count)).integers(len(self.distances), size=(count, DRAWS))
        return float(freedom_of(self.distances[drawn], np.full(DRAWS, count)).mean())

    def variance(self, rate: float, sizes: Floats) -> Floats:
        """Return the variance of the observed rate of speakers of so many trials in a group with this rate."""
        held = min(max(rate, LEAST_RATE), 1.0 if self.open else 1.0 - LEAST_RATE)
        trial = held if self.open else held * (1.0 - held)
        return self.between + self.within * trial / sizes


def law_of(errors: Floats, sizes: Floats) -> Law:
    """Return the law of speakers from all of them together, without regard to their groups.

    A gap between groups is part of the spread then: the law errs to the side of too much.

    Parameters
    ----------
    errors, sizes
        Errors and trials of each speaker, shape (speakers,); who has no trial is left out.

    Examples
    --------
    >>> law = law_of(np.repeat([10.0, 30.0], 20), np.full(40, 100.0))
    >>> round(law.rate, 3), round(law.between, 4), round(law.kurtosis, 2)
    (0.2, 0.0087, 1.0)
    """
    inside = sizes > 0
    errors, sizes = errors[inside], sizes[inside]
    rates, count = errors / sizes, len(sizes)
    total, half = float(sizes.sum()), 0.5
    # Of no error seen, or nothing else, half a one is taken to be there.
    rate = max(float(errors.sum()), half) / total
    above = bool((rates > 1).any())
    varied = above or half <= errors.sum() <= total - half
    rate = rate if above else min(rate, 1.0 - min(half / total, 0.5))
    trial = rate if above else max(rate * (1.0 - rate), LEAST_RATE)
    between, scaled = between_clusters(
        rates[:, None], (trial / sizes)[:, None], np.ones((count, 1), dtype=bool), np.array([count])
    )
    square = float((scaled**2).sum())
    # Where all trials end alike they are no less spread than coins: there is just nothing to learn it from.
    within = min(square / max(count - 1, 1), 1.0) if between[0] == 0 and varied else 1.0
    return Law(
        rate=rate, between=float(between[0]), within=max(within, LEAST_WITHIN), distances=scaled[:, 0], open=above
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a group's rate varies by, what its interval will take it to vary by, and how many speakers and trials."""

    true: float
    seen: float
    clusters: float
    trials: float


def expected(law: Law, sizes: Floats, rate: float, factor: float = 1.0) -> Expected:
    """Return the standard errors that a group's pooled rate will have, if it is of `factor` times as many speakers.

    Parameters
    ----------
    sizes
        Trials of each speaker of the group, shape (speakers,).

    Examples
    --------
    >>> found = expected(Law(rate=0.2, between=0.01), np.full(26, 1e9), 0.2)
    >>> round(found.true, 4), round(found.seen, 4)
    (0.0196, 0.02)
    """
    share = sizes / sizes.sum() / factor
    variance = law.variance(rate, sizes)
    true = factor * float((share**2 * variance).sum())
    left = np.maximum(1.0 - share, 1e-9)
    # The jackknife's, whose moves are w (r_i - r) / (1 - w), with r the rate of all.
    moves = share**2 / left**2 * np.maximum(variance * (1 - 2 * share) + true, 0.0)
    count = len(sizes) * factor
    seen = true + _larger(factor * float(moves.sum()) - true, true * _apart(share, law.kurtosis, factor))
    trials = float(sizes.sum()) * factor
    return Expected(true=true**0.5, seen=seen**0.5, clusters=count, trials=trials)


def _apart(share: Floats, kurtosis: float, factor: float) -> float:
    """Return the standard deviation of the jackknife's variance about that of random rates, over the variance.

    Both estimate the same; that of random rates learns from all speakers alike, the jackknife's most from the large
    ones. Of an efficient estimate and another the difference varies by the difference of their variances (Hausman
    1978, "Specification tests in econometrics").
    """
    squares, fourth = float((share**2).sum()), float((share**4).sum())
    uneven = fourth / squares**2 - 1 / len(share)
    return math.sqrt(max((kurtosis - 1) * uneven / factor, 0.0))


def _larger(mean: float, spread: float) -> float:
    """Return the mean of the positive part of a normal variable: by how much the larger of two exceeds the other."""
    from scipy.stats import norm

    if spread == 0:
        return max(mean, 0.0)
    return float(spread * norm.pdf(mean / spread) + mean * norm.cdf(mean / spread))


def least_gap(
    law: Law,
    one: Floats,
    other: Floats,
    tail: float,
    *,
    least: float = 0.0,
    factor: float = 1.0,
    power: float = POWER,
) -> float | None:
    """Return the least gap of two groups that the interval of `group_gaps` shows; None where there is none.

    Parameters
    ----------
    one, other
        Trials of each speaker of the group that errs more, and of the one that errs as all do.
    tail
        Tail probability of each end of the interval, as of `families.tail_of`.
    least
        Standard errors that a gap must be large, whatever the interval says, such as a quantile of shuffled labels.
    factor
        How many times as many speakers both groups have, of the same sizes.

    Examples
    --------
    Two groups of 64 of whom much is heard: Cohen's half a standard deviation, and a little for the jackknife.

    >>> law, sizes = Law(rate=0.3, between=0.01), np.full(64, 1e6)
    >>> round(least_gap(law, sizes, sizes, 0.025) / 0.1, 2)
    0.51
    """
    if min(len(one), len(other)) * factor < 2:
        return None
    from scipy import optimize

    # Where most trials are errors there is more room below.
    below = law.rate > 0.5 and not law.open
    room = law.rate if below else 1.0 if law.open else 1.0 - law.rate
    freedom = (law.freedom(len(one) * factor), law.freedom(len(other) * factor))

    def over(gap: float) -> float:
        low = law.rate - gap if below else law.rate
        both = (expected(law, one, low + gap, factor), expected(law, other, low, factor))
        return gap - _shown_from(law, both, freedom, (low + gap, low), tail, least, power)

    if over(room) < 0:
        return None
    return float(optimize.brentq(over, 1e-9, room, xtol=1e-6))


def _shown_from(
    law: Law,
    both: tuple[Expected, Expected],
    freedom: tuple[float, float],
    rates: tuple[float, float],
    tail: float,
    least: float,
    power: float,
) -> float:
    """Return the gap from which on one is shown, were the standard errors those of these rates."""
    certain = np.array([_alike(rate, each.trials, power, law.open) for rate, each in zip(rates, both, strict=True)])
    value = np.array(rates)
    true, seen = (np.array([getattr(each, name) for each in both]) for name in ("true", "seen"))
    true, seen = np.where(certain, 0.0, true), np.where(certain, 0.0, seen)
    spread = Spread(
        value=np.where(certain, np.rint(value), value),
        error=seen,
        freedom=np.array(freedom),
        clusters=np.array([round(each.clusters) for each in both]),
        trials=np.array([each.trials for each in both]),
        top=np.full(2, 2.0 if law.open else 1.0),
    )
    shown, low, _ = GroupSpread(rates=spread, correlation=np.eye(2), certain=certain).apart(0, 1, tail)
    error = math.hypot(*true.tolist())
    if error == 0:
        return shown - low
    degrees = max(float((seen**2).sum() ** 2 / (seen**4 / np.array(freedom)).sum()), 1.0)
    # The interval reaches shown - low, which varies as a standard error of so many degrees of freedom does.
    return error * shift_shown(max((shown - low) / error, least), degrees, power)


def _alike(rate: float, trials: float, power: float, above: bool) -> bool:
    """Tell whether all trials of a group end alike too often for an effect to be shown with `power` else.

    Such a group shows no variance, and its interval is the exact one with its speakers as trials, which is wide.
    """
    often = [rate] if above else [rate, 1.0 - rate]
    return any(one < 0.5 and trials * math.log1p(-max(one, 0.0)) > math.log(1.0 - power) for one in often)
