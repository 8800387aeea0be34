"""Indices of inequality between speakers, and the part of each that lies between groups.

Two indices of the inequality of a benefit that every speaker draws from a system, each with an exact split into
inequality between groups and within them, and differential fairness, the largest ratio between two groups of how
often a word goes right, or wrong.

An index is never below zero: speakers with few words fare unequally by chance alone, and so do groups of few
speakers. Under alike groups the part between them is about (G - 1) / (n - 1) of the total for G groups and n
speakers, and a bootstrap sample has that chance inequality twice. A part between groups means something only
against the same part with the group labels shuffled over the speakers.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from audits.statistics.bootstrap import ratio
from audits.statistics.contrasts import simultaneous_contrasts

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An index of inequality and its two parts; arrays of shape (samples,), NaN where nobody has any benefit."""

    total: Floats
    between: Floats
    within: Floats


def generalised_entropy(benefits: Floats, groups: Whole, weights: Floats, *, alpha: float = 2.0) -> Split:
    """Return the generalised entropy index, total = between + within.

    GE(a) = 1 / (n a (a - 1)) sum_i [(b_i / mu)^a - 1], in the limits a = 1 Theil's index and a = 0 the mean log
    deviation (Shorrocks 1980, "The class of additively decomposable inequality measures"). Between groups it is
    that of speakers who all have the mean benefit of their group; within it is sum_g (n_g / n) (mu_g / mu)^a
    GE_g(a). The larger a, the more it looks at differences among those who fare best.

    Parameters
    ----------
    benefits
        Benefit of each speaker, shape (speakers,), at least 0; mostly max(0, 1 - WER).
    groups
        The number of each speaker's group, from 0, shape (speakers,), or (samples, speakers) where each sample has its
        own.
    weights
        How often each speaker counts, shape (samples, speakers): ones for the data, `cluster_weights` for the
        bootstrap.

    Raises
    ------
    ValueError
        For a benefit below 0, alpha below 0, or a benefit of 0 with alpha = 0.

    Examples
    --------
    >>> split = generalised_entropy(np.array([1.0, 3.0, 4.0, 4.0]), np.array([0, 0, 1, 1]), np.ones((1, 4)))
    >>> [round(float(part[0]), 4) for part in (split.total, split.between, split.within)]
    [0.0833, 0.0556, 0.0278]
    """
    _check(benefits, groups, weights)
    if alpha < 0 or (alpha == 0 and np.any(benefits == 0)):
        raise ValueError(f"alpha = {alpha} is not defined for a benefit of 0: take alpha above 0")
    lifted = _moments(benefits, alpha)
    counts, people = _grouped(weights, groups), weights.sum(axis=1)
    mean, means = ratio(weights @ benefits, people), ratio(_grouped(weights, groups, benefits), counts)
    shares, scale = ratio(counts, people[:, None]), ratio(means, mean[:, None])
    total = _entropy(ratio(weights @ lifted, people), mean, alpha)
    own = _entropy(ratio(_grouped(weights, groups, lifted), counts), means, alpha)
    between = _entropy(_sum(shares * _moments(np.nan_to_num(means), alpha)), mean, alpha)
    # A group without speakers in the sample, or without any benefit, has no index and gets no weight.
    return Split(total=total, between=between, within=np.where(mean > 0, _sum(shares * scale**alpha * own), np.nan))


def atkinson(benefits: Floats, groups: Whole, weights: Floats, *, epsilon: float = 0.5) -> Split:
    """Return Atkinson's index, 1 - total = (1 - between) (1 - within).

    A = 1 - ede / mu with the equally distributed equivalent ede = (mean b^(1 - e))^(1 / (1 - e)), for e = 1 the
    geometric mean: the benefit that, given to all alike, would be worth as much (Atkinson 1970). Between groups it
    is the index of the groups' equivalents; within it is 1 - sum_g n_g ede_g / (n mu), the share of all benefit
    that could be given up for equality inside the groups (Blackorby, Donaldson and Auersperg 1981). From e = 1 on
    one speaker without benefit makes it 1.

    Parameters
    ----------
    benefits, groups, weights
        As in `generalised_entropy`.
    epsilon
        Aversion to inequality, above 0: the larger, the more it looks at those who fare worst.

    Raises
    ------
    ValueError
        For a benefit below 0, or epsilon not above 0.

    Examples
    --------
    >>> split = atkinson(np.array([1.0, 9.0, 4.0, 4.0]), np.array([0, 0, 1, 1]), np.ones((1, 4)))
    >>> [round(float(part[0]), 4) for part in (split.total, split.between, split.within)]
    [0.1111, 0.0, 0.1111]
    """
    _check(benefits, groups, weights)
    if not epsilon > 0:
        raise ValueError(f"epsilon = {epsilon} is no aversion to inequality: take one above 0")
    lifted, none = _lift(benefits, epsilon), (benefits == 0).astype(np.float64)
    counts, people = _grouped(weights, groups), weights.sum(axis=1)
    mean = ratio(weights @ benefits, people)
    whole = _equivalent(weights @ lifted, people, weights @ none, epsilon)
    lifted_sums, without = _grouped(weights, groups, lifted), _grouped(weights, groups, none)
    own = _equivalent(lifted_sums, counts, without, epsilon)
    kept = ratio((counts * own).sum(axis=1), people)
    idle = (counts * (own == 0)).sum(axis=1)
    among = _equivalent((counts * _lift(own, epsilon)).sum(axis=1), people, idle, epsilon)
    # Where every group's equivalent is 0 they are all alike.
    between = np.where(mean > 0, 1 - np.nan_to_num(ratio(among, kept), nan=1.0), np.nan)
    return Split(total=_index(whole, mean), between=np.maximum(between, 0.0), within=_index(kept, mean))


Outcome = Literal["right", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentialFairness:
    """The largest log ratio between two groups of the share of words with one outcome.

    `groups` are the group in which `outcome` is the most likely and the one in which it is the least likely.
    """

    value: float
    low: float
    high: float
    outcome: Outcome
    groups: tuple[int, int]


def differential_fairness(
    right: Floats,
    wrong: Floats,
    drawn_right: Floats,
    drawn_wrong: Floats,
    clusters: Whole,
    *,
    smooth: float = 0.5,
    level: float = 0.95,
) -> DifferentialFairness:
    """Return epsilon = max |ln(p_y|g / p_y|h)| over pairs of groups g, h and outcomes y, a word right or wrong.

    p_y|g = (N_yg + a) / (N_g + 2 a) with a = `smooth` (Foulds, Islam, Keya and Pan 2020, "An intersectional
    definition of fairness", equations 2 and 6). The interval is that of the chosen pair and outcome and holds
    whichever were chosen (`simultaneous_contrasts` over all pairs and both outcomes); its low end is never below 0.
    In a group without a word right, or wrong, resampling sees no variance: there it is at least that of half a
    speaker among one more than there are.

    Parameters
    ----------
    right, wrong
        Words transcribed right, and words substituted or deleted, of each group, shape (groups,).
    drawn_right, drawn_wrong
        The same in every bootstrap sample, shape (samples, groups).
    clusters
        Speakers of each group, shape (groups,), at least 2.

    Raises
    ------
    ValueError
        With fewer than two groups, a group of fewer than two speakers or without a word, or, unsmoothed, a count
        of 0.

    Examples
    --------
    >>> right, wrong = np.array([80.0, 90.0]), np.array([20.0, 10.0])
    >>> drawn = right + [[0], [1]], wrong - [[0], [1]]
    >>> found = differential_fairness(right, wrong, *drawn, np.array([9, 9]))
    >>> found.outcome, found.groups, round(found.value, 3), round(float(np.log(20.5 / 10.5)), 3)
    ('wrong', (0, 1), 0.669, 0.669)
    """
    count = len(right)
    if count < 2 or clusters.min() < 2 or (right + wrong).min() <= 0:
        raise ValueError("differential fairness needs two groups or more, each of two speakers or more with words")
    points = _log_shares(right[None], wrong[None], smooth)[0]
    drawn = _log_shares(drawn_right, drawn_wrong, smooth)
    pairs = np.array([np.eye(count)[g] - np.eye(count)[h] for g, h in combinations(range(count), 2)])
    # Points list all groups for right, then all for wrong; no contrast crosses the two.
    contrasts = np.kron(np.eye(2), pairs)
    # Orient every contrast so that its value is positive.
    contrasts *= np.where(contrasts @ points < 0, -1.0, 1.0)[:, None]
    floor = _unseen_variance(right, wrong, points, clusters)
    found = simultaneous_contrasts(points, drawn, contrasts, np.tile(clusters, 2), level=level, floor=floor)
    largest = int(np.argmax(found.value))
    value, low, high = found.at(largest)
    ends = int(np.argmax(contrasts[largest])), int(np.argmin(contrasts[largest]))
    return DifferentialFairness(
        value=value,
        low=max(low, 0.0),
        high=high,
        outcome="right" if ends[0] < count else "wrong",
        groups=(ends[0] % count, ends[1] % count),
    )


def _log_shares(right: Floats, wrong: Floats, smooth: float) -> Floats:
    words = right + wrong
    if not smooth > 0 and np.any((words > 0) & (np.minimum(right, wrong) <= 0)):
        raise ValueError("a group has no word right, or none wrong: without smoothing there is no ratio")
    counts = np.concatenate([right, wrong], axis=1)
    trials = np.tile(words, 2)
    shares = ratio(counts + smooth, np.where(trials > 0, trials + 2 * smooth, 0.0))
    return np.asarray(np.log(shares), dtype=np.float64)


def _unseen_variance(right: Floats, wrong: Floats, points: Floats, clusters: Whole) -> Floats:
    certain = np.tile((right == 0) | (wrong == 0), 2)
    share, people = np.tile(0.5 / (clusters + 1.0), 2), np.tile(clusters, 2)
    # Delta method: the variance of log p is that of p over p^2.
    return np.where(certain, share * (1 - share) / people / np.maximum(np.exp(points), share) ** 2, 0.0)


def _check(benefits: Floats, groups: Whole, weights: Floats) -> None:
    if not np.all(np.isfinite(benefits)) or benefits.min(initial=0.0) < 0:
        raise ValueError("benefits have to be numbers of at least 0")
    fits = groups.shape in (benefits.shape, weights.shape) and benefits.shape == weights.shape[1:]
    if not fits or groups.min(initial=0) < 0:
        raise ValueError(f"{benefits.shape} benefits, {groups.shape} groups and {weights.shape} weights do not fit")


def _grouped(weights: Floats, groups: Whole, values: Floats | None = None) -> Floats:
    """Return the sum of values over the members of each group, or their number, shape (samples, groups)."""
    count = int(groups.max()) + 1
    if groups.ndim == 1:
        member = np.eye(count)[groups]
        return weights @ (member if values is None else member * values[:, None])
    cells = groups + count * np.arange(len(groups))[:, None]
    each = weights if values is None else weights * values
    sums = np.bincount(cells.ravel(), each.ravel(), len(groups) * count).reshape(len(groups), count)
    return np.asarray(sums, dtype=np.float64)


def _sum(terms: Floats) -> Floats:
    return np.asarray(np.nansum(terms, axis=1), dtype=np.float64)


def _moments(benefits: Floats, alpha: float) -> Floats:
    """Return the terms that the index averages: b^a, b log b for a = 1, or log b for a = 0, with 0 log 0 = 0."""
    if alpha not in (0.0, 1.0):
        return np.asarray(benefits**alpha, dtype=np.float64)
    logs = np.log(np.where(benefits > 0, benefits, 1.0))
    return np.asarray(logs if alpha == 0 else benefits * logs, dtype=np.float64)


def _entropy(moment: Floats, mean: Floats, alpha: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        if alpha == 0:
            index = np.log(mean) - moment
        elif alpha == 1:
            index = moment / mean - np.log(mean)
        else:
            index = (moment / mean**alpha - 1) / (alpha * (alpha - 1))
    # Rounding may take the index of equal benefits below 0.
    return np.where(mean > 0, np.maximum(index, 0.0), np.nan)


def _lift(benefits: Floats, epsilon: float) -> Floats:
    # Zeros are handled separately from epsilon = 1 on, where this would be infinite.
    safe = np.where(benefits > 0, benefits, 1.0)
    return np.where(benefits > 0, np.log(safe) if epsilon == 1 else safe ** (1 - epsilon), 0.0)


def _equivalent(sums: Floats, people: Floats, none: Floats, epsilon: float) -> Floats:
    mean = sums / np.where(people > 0, people, 1.0)
    with np.errstate(divide="ignore"):
        value = np.exp(mean) if epsilon == 1 else mean ** (1 / (1 - epsilon))
    return np.where((people > 0) & ((epsilon < 1) | (none == 0)), value, 0.0)


def _index(equivalent: Floats, mean: Floats) -> Floats:
    return np.asarray(np.maximum(1 - ratio(equivalent, mean), 0.0), dtype=np.float64)
