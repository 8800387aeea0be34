"""Confidence bounds of the probabilities of the top class and its best rival under noise.

Every bound holds with the whole error probability that it is given, for any number of draws: exact binomial
limits for votes, empirical Bernstein limits for soft outputs. The top class is named by draws that no bound uses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audits.statistics.binomial import lower_limit

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Method = Literal["one-sided", "two-class", "auto"]

Radius = Callable[[float, float], float]


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the exact one-sided upper Clopper-Pearson limit of a proportion, 1 where nothing failed.

    As the lower limit of the failures: where many looks share the error, alpha is tiny, and 1 - alpha loses its digits.

    >>> round(float(clopper_pearson_upper(0, 100, 0.001)), 6), round(1 - 0.001 ** (1 / 100), 6)
    (0.066746, 0.066746)
    """
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return 1.0 - lower_limit(n - k, n, alpha)


def bernstein_shift(variance: ArrayLike, draws: int, alpha: float) -> Floats:
    """Return the one-sided empirical Bernstein margin of a mean of outputs in [0, 1].

    sqrt(2 V ln(2 / alpha) / n) + 7 ln(2 / alpha) / (3 (n - 1)), V the sample variance (Maurer and Pontil 2009,
    theorem 4).
    """
    log = math.log(2.0 / alpha)
    spread: Floats = np.sqrt(2.0 * log / draws * np.asarray(variance, dtype=np.float64))
    return spread + 7.0 * log / (3.0 * (draws - 1))


@dataclass(frozen=True, slots=True)
class Interval:
    """The kind of interval, and how it spends the error probability.

    Parameters
    ----------
    kind
        "one-sided": all of it on the lower limit of the top class; any rival has at most the rest (Cohen et al. 2019).
        "two-class": half of it there, half on the upper limit of the strongest rival.
    top
        The class that a certificate is for.
    """

    kind: Literal["one-sided", "two-class"]
    top: int


Limits = tuple[float, float]
"""What the top class's probability is at least, and any other's at most, both with 1 - alpha at once."""


LowerLimit = Callable[[ArrayLike, ArrayLike, float], Floats]
"""Lower limit of a proportion, of successes, trials and an error probability."""


def vote_limits(votes: Counts, interval: Interval, alpha: float, lower: LowerLimit = lower_limit) -> Limits:
    """Return limits of the class probabilities from votes, shape (classes,), that did not name the top class.

    For two classes the upper limit is that of the fullest count among all rivals, with alpha / 2 for any number of
    them. The rival that is strongest in truth is one fixed class; the fullest count is no smaller than its own, so
    neither is the limit, and its own limit fails with alpha / 2. To take the limit of a rival that was named
    beforehand would not do: another may be the strongest. `lower` must not fall as successes rise.

    Examples
    --------
    >>> low, high = vote_limits(np.array([900, 60, 40]), Interval("two-class", 0), 0.001)
    >>> round(low, 3), round(high, 3)
    (0.865, 0.089)
    """
    draws = int(votes.sum())
    if interval.kind == "one-sided":
        low = float(lower(votes[interval.top], draws, alpha))
        return low, 1.0 - low
    low = float(lower(votes[interval.top], draws, alpha / 2))
    high = 1.0 - float(lower(draws - fullest_rival(votes, interval.top), draws, alpha / 2))
    # All rivals together have at most what the top class leaves: that limit costs no error of its own.
    return low, min(high, 1.0 - low)


def fullest_rival(votes: Counts, top: int) -> int:
    """Return the largest count of a class other than the top one."""
    return int(np.delete(votes, top).max())


def soft_limits(sums: Floats, squares: Floats, draws: int, interval: Interval, alpha: float, step: float) -> Limits:
    """Return limits of mean soft outputs from their sums and sums of squares, shape (classes,).

    `step` is what rounding may have taken off every output; it is given back to the rivals.
    """
    if draws < 2:
        return 0.0, 1.0
    mean = sums / draws
    # The difference of two large sums may fall below zero by rounding.
    variance = np.maximum(squares - draws * mean**2, 0.0) / (draws - 1)
    share = alpha if interval.kind == "one-sided" else alpha / 2
    shift = bernstein_shift(variance, draws, share)
    low = float(np.clip(mean[interval.top] - shift[interval.top], 0.0, 1.0))
    if interval.kind == "one-sided":
        return low, 1.0 - low
    # The highest limit is no lower than that of the rival that is strongest in truth.
    return low, min(float(np.delete(mean + shift, interval.top).max()) + step, 1.0 - low)


def choose_interval(selection: Counts, draws: int, alpha: float, method: Method, radius: Radius) -> Interval:
    """Choose the class and the interval of one image from its selection draws alone.

    Parameters
    ----------
    selection
        Votes of the selection draws, shape (classes,).
    draws
        How many fresh draws the limits will rest on.
    method
        "one-sided" or "two-class"; "auto" takes the one with the larger radius, should the fresh votes come out in the
        shares of the selection draws.
    radius
        Function of (low, high) that gives the radius.
    """
    top = int(selection.argmax())
    if method != "auto":
        return Interval(method, top)
    expected: Counts = np.floor(selection * (draws / selection.sum())).astype(np.int64)
    # What rounding down has lost goes to the top class, so that the limits rest on as many draws as will be made.
    expected[top] += draws - int(expected.sum())
    pair = (Interval("one-sided", top), Interval("two-class", top))
    gains = [radius(*vote_limits(expected, interval, alpha)) for interval in pair]
    return pair[int(gains[1] > gains[0])]
