"""Proper scores of laws against outcomes: least in the mean for the true law (Gneiting & Raftery 2007, JASA 102).

Scores of draws are fair (Ferro 2014, QJRMS 140): unbiased for the score of the law that the draws came from, so that
candidates with different numbers of draws can be compared. The usual forms reward many draws: the CRPS and the energy
score are E|X-X'| / (2 K) too large. All take a block of rows, y (n, d) and draws (n, K, d), and return one number per
row in float64; smaller is better.
"""

import math

import numpy as np

from probes.conditional.laws import Floats, Ints

WIDE = 64
"""From this d on half of the distances between draws are computed and mirrored; below, mirroring costs more."""


def distances(y: Floats, samples: Floats) -> tuple[Floats, Floats]:
    """Return Euclidean distances of draws to the outcome, shape (n, K), and between draws, shape (n, K, K).

    Differences are taken before they are squared, so that nothing cancels where values are large and laws are narrow.

    >>> to_truth, between = distances(np.array([[0.0, 0.0]]), np.array([[[3.0, 4.0], [0.0, 1.0]]]))
    >>> to_truth.tolist(), between[0, 0, 1].round(4).item()
    ([[5.0, 1.0]], 4.2426)
    """
    from scipy.spatial.distance import cdist, pdist, squareform

    y, samples = np.asarray(y, dtype=np.float64), np.asarray(samples, dtype=np.float64)
    n, draws, d = samples.shape
    if d == 1:
        # All rows at once, by the same numbers: the root of a rounded square is the number that was squared.
        values = samples[:, :, 0]
        between = values[:, :, None] - values[:, None]
        return np.abs(values - y), np.abs(between, out=between)
    to_truth, between = np.empty((n, draws)), np.empty((n, draws, draws))
    for row in range(n):
        cdist(y[row : row + 1], samples[row], out=to_truth[row : row + 1])
        if d >= WIDE and draws > 1:
            between[row] = squareform(pdist(samples[row]), checks=False)
        else:
            cdist(samples[row], samples[row], out=between[row])
    return to_truth, between


def fair_energy(to_truth: Floats, between: Floats) -> Floats:
    """Return the fair energy score: mean_k |X_k - y| - sum_kl |X_k - X_l| / (2 K (K - 1)), from `distances`.

    Raises
    ------
    ValueError
        With a single draw, which tells nothing of the spread of its law.

    >>> fair_energy(np.array([[1.0, 2.0]]), np.array([[[0.0, 3.0], [3.0, 0.0]]])).tolist()
    [0.0]
    """
    return np.asarray(to_truth.mean(1) - _mean_between(between) / 2)


def weighted_energy(to_truth: Floats, between: Floats, weights: Floats) -> Floats:
    """Return the energy score of the law that weighted points are: E|X - y| - E|X - X'| / 2; weights (n, m), sum 1.

    >>> weighted_energy(np.array([[1.0, 2.0]]), np.array([[[0.0, 3.0], [3.0, 0.0]]]), np.array([[0.5, 0.5]])).tolist()
    [0.75]
    """
    near = np.einsum("nk,nk->n", weights, to_truth)
    return np.asarray(near - np.einsum("nk,nkl,nl->n", weights, between, weights, optimize=True) / 2)


def self_gap(to_truth: Floats, between: Floats) -> Floats:
    """Return mean_k |X_k - y| - mean_k!=l |X_k - X_l|: 0 in the mean for the true law, above 0 for one too narrow.

    Raises ValueError with a single draw.
    """
    return np.asarray(to_truth.mean(1) - _mean_between(between))


def fair_crps(y: Floats, samples: Floats) -> Floats:
    """Return the fair continuous ranked probability score, the mean over the d values; by sorting.

    Raises ValueError with a single draw.

    >>> fair_crps(np.array([[0.0]]), np.array([[[1.0], [-2.0]]])).tolist()
    [0.0]
    """
    draws = _at_least_two(samples.shape[1])
    away = np.sort(samples - y[:, None], axis=1)
    # sum_k<l (x_l - x_k) of sorted x counts the k-th of them k times from below and K - 1 - k times from above.
    pairs = np.einsum("k,nkd->nd", 2.0 * np.arange(draws) - (draws - 1), away)
    return np.asarray((np.abs(away).mean(1) - pairs / (draws * (draws - 1))).mean(1))


def variogram(y: Floats, samples: Floats, pairs: Ints) -> Floats:
    """Return the fair variogram score of order 1/2 over pairs of coordinates, shape (pairs, 2); their mean.

    (|y_i - y_j|^p - m)^2 - s^2 / K with the mean m and the variance s^2 of |X_i - X_j|^p over draws (Scheuerer & Hamill
    2015, Monthly Weather Review 143; the last term makes it fair). It sees spread and dependence, and is blind to a
    shift of all coordinates alike. Raises ValueError with a single draw or without pairs.
    """
    draws = _at_least_two(samples.shape[1])
    if not len(pairs):
        raise ValueError("the variogram score needs at least one pair of coordinates")
    total = np.zeros(len(y))
    for first, second in pairs:
        steps = np.sqrt(np.abs(samples[:, :, first] - samples[:, :, second]))
        centre = steps.mean(1)
        steps -= centre[:, None]
        noise = np.einsum("nk,nk->n", steps, steps) / (draws * (draws - 1))
        total += (np.sqrt(np.abs(y[:, first] - y[:, second])) - centre) ** 2 - noise
    return total / len(pairs)


def coordinate_pairs(d: int, most: int, rng: np.random.Generator) -> Ints:
    """Return all pairs i < j of d coordinates, or `most` of them drawn without repeats, shape (pairs, 2).

    >>> coordinate_pairs(3, 10, np.random.default_rng(0)).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    count = d * (d - 1) // 2
    chosen = np.arange(count) if count <= most else np.sort(rng.choice(count, size=most, replace=False))
    starts = np.cumsum(np.r_[0, np.arange(d - 1, 0, -1)])
    first = np.searchsorted(starts, chosen, side="right") - 1
    return np.stack((first, chosen - starts[first] + first + 1), axis=1)


def normal_crps(y: Floats, mean: Floats, std: Floats) -> Floats:
    """Return the CRPS of normal laws, the mean over the d values; |y - mean| where std is 0.

    Gneiting, Raftery, Westveld & Goldman (2005), Monthly Weather Review 133, equation 5. Raises ValueError where a
    standard deviation is negative.

    >>> normal_crps(np.array([[0.0, 3.0]]), np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])).round(4).tolist()
    [1.1168]
    """
    from scipy.special import erf

    if (std < 0).any():
        raise ValueError("a standard deviation is negative")
    error = y - mean
    with np.errstate(over="ignore"):
        scaled = np.divide(error, std, out=np.copysign(np.inf, error), where=std > 0)
        density = np.exp(-scaled * scaled / 2) / math.sqrt(2 * math.pi)
    found = error * erf(scaled / math.sqrt(2)) + std * (2 * density - 1 / math.sqrt(math.pi))
    return np.asarray(found.mean(1))


def normal_log(y: Floats, mean: Floats, std: Floats) -> Floats:
    """Return -log of the normal density, summed over the d values (independent given x).

    Raises ValueError where a standard deviation is not above 0.

    >>> normal_log(np.array([[1.0]]), np.array([[1.0]]), np.array([[1.0]])).round(4).tolist()
    [0.9189]
    """
    if not (std > 0).all():
        raise ValueError("the log score needs standard deviations above 0")
    return np.asarray((((y - mean) / std) ** 2 / 2 + np.log(std) + math.log(2 * math.pi) / 2).sum(1))


def pinball(y: Floats, quantiles: Floats, levels: Floats) -> Floats:
    """Return the mean over levels of (1{y < q} - level) (q - y); quantiles (n, q), levels (q,), y of d = 1.

    Twice this nears the CRPS where levels are many and evenly spaced. Raises ValueError where d is not 1.

    >>> pinball(np.array([[1.0]]), np.array([[0.0, 2.0]]), np.array([0.1, 0.9])).round(4).tolist()
    [0.1]
    """
    above = quantiles - _single(y)[:, None]
    return np.asarray((((above > 0) - levels) * above).mean(1))


def interval_score(y: Floats, lower: Floats, upper: Floats, level: float) -> Floats:
    """Return width + 2 / (1 - level) times how far y of d = 1 lies outside; Gneiting & Raftery, equation 43.

    Raises ValueError where d is not 1, level is not between 0 and 1, or an interval ends before it begins.

    >>> interval_score(np.array([[1.0], [3.0]]), np.zeros(2), np.full(2, 2.0), 0.5).tolist()
    [2.0, 6.0]
    """
    if not 0 < level < 1 or (upper < lower).any():
        raise ValueError("a level between 0 and 1, and intervals with lower <= upper")
    value = _single(y)
    outside = np.maximum(lower - value, 0) + np.maximum(value - upper, 0)
    return np.asarray(upper - lower + 2 / (1 - level) * outside)


def spread_and_error(y: Floats, samples: Floats) -> tuple[Floats, Floats]:
    """Return the variance of draws, fair and times (K + 1) / K, and the squared error of their mean; sums over d.

    The two are equal in the mean for the true law (Fortin et al. 2014, Journal of Hydrometeorology 15). Raises
    ValueError with a single draw.

    >>> [one.tolist() for one in spread_and_error(np.array([[3.0]]), np.array([[[0.0], [2.0]]]))]
    [[3.0], [4.0]]
    """
    draws = _at_least_two(samples.shape[1])
    centre = samples.mean(1)
    away = samples - centre[:, None]
    spread = np.einsum("nkd,nkd->n", away, away) * (draws + 1) / (draws * (draws - 1))
    return spread, np.asarray(((y - centre) ** 2).sum(1))


def _mean_between(between: Floats) -> Floats:
    draws = _at_least_two(between.shape[1])
    return np.asarray(between.sum((1, 2)) / (draws * (draws - 1)))


def _at_least_two(draws: int) -> int:
    if draws < 2:
        raise ValueError("a score of draws needs at least two of them per row")
    return draws


def _single(y: Floats) -> Floats:
    if y.ndim == 2 and y.shape[1] != 1:
        raise ValueError(f"a score of one value, but y has d = {y.shape[1]}")
    return y.reshape(-1)
