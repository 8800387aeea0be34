"""How probable are the top class and its best rival under noise, at least and at most?

Every bound holds with the whole error probability that it is given, for any number of draws: exact binomial
limits for votes, empirical Bernstein limits for soft outputs. Which classes are pooled is decided on draws that
no bound then uses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Method = Literal["one-sided", "two-class", "auto"]

Radius = Callable[[float, float], float]

METHODS: tuple[Method, ...] = ("one-sided", "two-class", "auto")
HALVINGS = 8


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the exact one-sided lower limit of a proportion, 0 where nothing succeeded.

    L = B(alpha; k, n - k + 1), so that P(X >= k | L) = alpha: a true proportion below L would show k or more
    with a probability of at most alpha (Clopper and Pearson 1934; Cohen et al. 2019, LOWERCONFBOUND).

    Examples
    --------
    >>> float(clopper_pearson_lower(0, 10, 0.001))
    0.0
    >>> round(float(clopper_pearson_lower(100, 100, 0.001)), 6), round(0.001 ** (1 / 100), 6)
    (0.933254, 0.933254)
    """
    from scipy.special import betaincinv

    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    inside = np.maximum(k, 1.0)
    return np.where(k > 0, betaincinv(inside, n - inside + 1, alpha), 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the exact one-sided upper limit of a proportion, 1 where nothing failed.

    >>> round(float(clopper_pearson_upper(0, 100, 0.001)), 6), round(1 - 0.001 ** (1 / 100), 6)
    (0.066746, 0.066746)
    """
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return 1.0 - clopper_pearson_lower(n - k, n, alpha)


def bernstein_shift(variance: ArrayLike, draws: int, alpha: float) -> Floats:
    """Return how far a mean of outputs in [0, 1] may lie from its expectation, on one side.

    sqrt(2 V ln(2 / alpha) / n) + 7 ln(2 / alpha) / (3 (n - 1)), V the sample variance (Maurer and Pontil 2009,
    theorem 4).
    """
    log = math.log(2.0 / alpha)
    spread: Floats = np.sqrt(2.0 * log / draws * np.asarray(variance, dtype=np.float64))
    return spread + 7.0 * log / (3.0 * (draws - 1))


@dataclass(frozen=True, slots=True)
class Interval:
    """How the error probability is spent: on the top class alone, or shared by buckets of classes.

    Parameters
    ----------
    kind
        "one-sided", or "two-class" with the way its buckets were made: "bonferroni" or "partition".
    buckets
        Classes counted together; the first holds the top class alone.
    """

    kind: Literal["one-sided", "bonferroni", "partition"]
    buckets: tuple[tuple[int, ...], ...]

    @property
    def top(self) -> int:
        """The class that a certificate is for."""
        return self.buckets[0][0]


def one_sided(top: int) -> Interval:
    """Return the interval of Cohen et al.: a lower limit of the top class; any rival has at most the rest."""
    return Interval("one-sided", ((top,),))


def bonferroni(top: int, classes: int) -> Interval:
    """Return simultaneous limits of all classes, alpha / K each."""
    return Interval("bonferroni", ((top,), *((rival,) for rival in range(classes) if rival != top)))


def partition(selection: Counts) -> Interval:
    """Pool rare classes, so that fewer limits share alpha (Delattre et al. 2025, class partitioning).

    By the counts of the selection draws: the top class, then its rivals one by one, until those that are left
    weigh together no more than the strongest rival; they become one bucket.

    Examples
    --------
    >>> partition(np.array([3, 80, 12, 5])).buckets
    ((1,), (2,), (3, 0))
    """
    order = [int(place) for place in np.argsort(-selection, kind="stable")]
    top, second, rest = order[0], order[1], order[2:]
    single = [second]
    while rest and sum(int(selection[place]) for place in rest) > selection[second]:
        single.append(rest.pop(0))
    buckets = [(top,), *((place,) for place in single)]
    return Interval("partition", (*buckets, tuple(rest)) if rest else tuple(buckets))


@dataclass(frozen=True, slots=True)
class Limits:
    """The top class's probability is at least `low`, any other's at most `high`, both with 1 - alpha at once."""

    low: float
    high: float


def vote_limits(votes: Counts, interval: Interval, alpha: float) -> Limits:
    """Return limits of the class probabilities from votes, shape (classes,), that did not choose the interval."""
    draws = int(votes.sum())
    share = alpha if interval.kind == "one-sided" else alpha / len(interval.buckets)
    low = float(clopper_pearson_lower(votes[interval.top], draws, share))
    if interval.kind == "one-sided":
        return Limits(low, 1.0 - low)
    # The limit rises with the count, so the fullest bucket has the highest.
    fullest = max(int(votes[list(bucket)].sum()) for bucket in interval.buckets[1:])
    return Limits(low, min(float(clopper_pearson_upper(fullest, draws, share)), 1.0 - low))


def soft_limits(sums: Floats, squares: Floats, draws: int, interval: Interval, alpha: float, step: float) -> Limits:
    """Return limits of mean soft outputs from their sums and sums of squares, shape (classes,).

    `step` is what rounding may have taken off every output; it is given back to the rivals.
    """
    if draws < 2:
        return Limits(0.0, 1.0)
    mean = sums / draws
    variance = np.maximum(squares - draws * mean**2, 0.0) / (draws - 1)
    share = alpha if interval.kind == "one-sided" else alpha / len(interval.buckets)
    shift = bernstein_shift(variance, draws, share)
    low = float(np.clip(mean[interval.top] - shift[interval.top], 0.0, 1.0))
    if interval.kind == "one-sided":
        return Limits(low, 1.0 - low)
    rivals = [bucket[0] for bucket in interval.buckets[1:]]
    return Limits(low, min(float((mean[rivals] + shift[rivals]).max()) + step, 1.0 - low))


def choose_interval(selection: Counts, draws: int, alpha: float, method: Method, radius: Radius) -> Interval:
    """Choose the interval of one image from its selection draws alone.

    Rare classes look rarer than they are to whoever pools them by their counts. So the selection draws are halved at
    random, several times: one half makes the buckets, the other says what they weigh, and the interval with the
    largest radius on average is taken, made anew from all selection draws.

    Parameters
    ----------
    selection
        Votes of the selection draws, shape (classes,).
    draws
        How many fresh draws the limits will rest on.
    method
        "one-sided" and "two-class" limit the choice; "auto" leaves it free.
    radius
        Function of (low, high) that gives the radius.
    """
    made = {
        "one-sided": (_one_sided,),
        "two-class": (_bonferroni, partition),
        "auto": (_one_sided, _bonferroni, partition),
    }
    makers = made[method]
    total = int(selection.sum())
    if len(makers) == 1 or total < 2:
        return makers[0](selection)
    # A fixed stream: the choice is a function of the selection draws and of nothing else.
    stream = np.random.default_rng(0)
    halves = stream.multivariate_hypergeometric(selection, total // 2, size=HALVINGS)
    gains = np.zeros(len(makers))
    for half in halves:
        expected = _scaled(selection - half, draws)
        for place, make in enumerate(makers):
            limits = vote_limits(expected, make(half), alpha)
            gains[place] += max(radius(limits.low, limits.high), 0.0)
    return makers[int(gains.argmax())](selection)


def _one_sided(selection: Counts) -> Interval:
    return one_sided(int(selection.argmax()))


def _bonferroni(selection: Counts) -> Interval:
    return bonferroni(int(selection.argmax()), selection.size)


def _scaled(votes: Counts, draws: int) -> Counts:
    scaled: Counts = np.floor(votes * (draws / votes.sum())).astype(np.int64)
    scaled[int(votes.argmax())] += draws - int(scaled.sum())
    return scaled
