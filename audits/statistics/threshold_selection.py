"""Choice of the threshold of a lower bound of epsilon, with the search for a good one paid for.

The best of many thresholds is too good: with true epsilon 0 it proves something in tens of percent of all audits. Here
a threshold is chosen on one half of the points and used on the other (split), or all that are tried share the error
(bonferroni), or it was fixed before.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.statistics.epsilon_bounds import epsilon_of_rates, error_rates, gdp_epsilon, mu_of_rates
from audits.statistics.roc import Bools, Call, Floats, Roc, call, roc

CANDIDATES = 100
"""Thresholds tried: more would cost error, or fit the noise of the half that chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A lower bound of epsilon.

    Parameters
    ----------
    epsilon, ceiling
        What was proved, and what a perfect attack on as many points would have proved.
    call
        The threshold and its counts on the points that the bound rests on.
    tried
        Thresholds that share the error.
    """

    epsilon: float
    ceiling: float
    call: Call
    tried: int


def candidates(curve: Roc, most: int = CANDIDATES) -> NDArray[np.int64]:
    """Return the thresholds of a curve to try: those that call given numbers of points, dense at both ends.

    The numbers depend on how many points there are, not on who is a member.

    >>> candidates(roc(np.arange(6.0), np.arange(6) > 2), 4).tolist()
    [1, 3, 5]
    """
    called = curve.hits + curve.alarms
    points = int(called[-1])
    few = np.unique(np.geomspace(1, max(1.0, points / 2), max(1, most // 2)).round().astype(np.int64))
    ranks = np.unique(np.concatenate((few, points - few)))
    # If ties span the rank, take the stricter threshold.
    indices = np.searchsorted(called, ranks, side="right") - 1
    return np.unique(indices[indices > 0]).astype(np.int64)


def bound(
    scores: Floats,
    member: Bools,
    *,
    delta: float,
    alpha: float,
    selection: str,
    gaussian: bool = False,
    chooses: Bools | None = None,
    threshold: float | None = None,
) -> Bound:
    """Return the lower bound of epsilon with error `alpha`, for points that are independent trials.

    Parameters
    ----------
    gaussian
        Bound mu of a mechanism whose trade-off curve is Gaussian, and turn it into epsilon.
    chooses
        The half of the points, shape (n,), on which `split` chooses.
    threshold
        For `fixed`.

    Raises
    ------
    ValueError
        Where what the selection needs is missing, or one side of the points that prove is empty.
    """
    if selection == "fixed":
        if threshold is None:
            raise ValueError("a fixed threshold has to be given")
        return _at(call(scores, member, threshold), delta, alpha, gaussian, 1)
    if selection == "bonferroni":
        curve = roc(scores, member)
        tried = candidates(curve)
        if not len(tried):
            return _at(call(scores, member, np.inf), delta, alpha, gaussian, 1)
        share = alpha / len(tried)
        best = tried[int(np.argmax(_merit(curve, tried, delta, share, gaussian)))]
        return _at(_called(curve, best), delta, share, gaussian, len(tried))
    if chooses is None:
        raise ValueError("split needs to know which half chooses")
    curve = roc(scores[chooses], member[chooses])
    tried = candidates(curve)
    threshold = np.inf
    if len(tried):
        # Read at the error that all of them share, lest luck at a far threshold win, which the other half then lacks.
        merit = _merit(curve, tried, delta, alpha / len(tried), gaussian)
        threshold = curve.thresholds[tried[_middle(merit)]]
    rest = ~chooses
    return _at(call(scores[rest], member[rest], float(threshold)), delta, alpha, gaussian, 1)


def _merit(curve: Roc, tried: NDArray[np.int64], delta: float, alpha: float, gaussian: bool) -> Floats:
    rates = error_rates(curve.hits[tried], curve.members, curve.alarms[tried], curve.others, alpha)
    return mu_of_rates(*rates) if gaussian else epsilon_of_rates(*rates, delta)


def _middle(merit: Floats) -> int:
    """Return the best index; of several, the middle one: where nothing is proved, an end would prove less."""
    best = np.flatnonzero(merit == merit.max())
    return int(best[len(best) // 2])


def _called(curve: Roc, index: np.int64) -> Call:
    return Call(
        float(curve.thresholds[index]), int(curve.hits[index]), curve.members, int(curve.alarms[index]), curve.others
    )


def _at(found: Call, delta: float, alpha: float, gaussian: bool, tried: int) -> Bound:
    if not found.members or not found.others:
        raise ValueError("a bound needs members and non-members")
    rates = error_rates(found.hits, found.members, found.alarms, found.others, alpha)
    perfect = error_rates(found.members, found.members, 0, found.others, alpha)
    if gaussian:
        value, most = (gdp_epsilon(float(mu_of_rates(*one)), delta) for one in (rates, perfect))
    else:
        value, most = (float(epsilon_of_rates(*one, delta)) for one in (rates, perfect))
    return Bound(epsilon=value, ceiling=most, call=found, tried=tried)
