"""How far would a pooled rate move with other speakers?

The bootstrap here draws whole clusters (speakers, documents), never the items inside them, and does so
for every statistic at once: one matrix of multinomial counts times one matrix of sums per cluster.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def cluster_weights(clusters: int, repeats: int, rng: np.random.Generator) -> Floats:
    """Draw how often each cluster appears in each bootstrap sample.

    Returns
    -------
    array of shape (repeats, clusters)
        Each row sums to `clusters`.
    """
    # As floats: products of whole numbers do not go through BLAS.
    return rng.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=repeats).astype(np.float64)


def resampled_sums(weights: Floats, sums: Floats) -> Floats:
    """Return the sums of every bootstrap sample, shape (repeats, ...), from those per cluster, (clusters, ...)."""
    flat = weights @ sums.reshape(sums.shape[0], -1)
    return flat.reshape(weights.shape[0], *sums.shape[1:])


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide, leaving NaN where a bootstrap sample holds nothing of a group.

    NaN never leaves the statistics: `percentile_interval` takes quantiles over the samples that have one.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.nan)


def percentile_interval(replicates: Floats, clusters: int, *, level: float = 0.95) -> tuple[float, float] | None:
    """Return the expanded percentile interval of a bootstrapped statistic.

    The plain percentile interval is too short with few clusters. The tail probability is widened from
    a/2 to Phi(sqrt(m / (m - 1)) * t(a/2; m - 1)), m clusters, which makes the interval of a mean equal
    to Student's (Hesterberg 2015, "What teachers should know about the bootstrap", section 5.3). Of fewer than eight
    clusters even the outermost samples lie too near: there it reaches as far as Student's, with the standard error of
    the replicates, where that is farther.

    Parameters
    ----------
    replicates
        Shape (repeats,); NaN where the sample had no such group.
    clusters
        How many clusters the statistic rests on, m.

    Returns
    -------
    tuple or None
        None with fewer than two clusters, or where the statistic exists in less than half of the samples.
    """
    from scipy.stats import norm, t

    present = replicates[np.isfinite(replicates)]
    if clusters < 2 or present.size * 2 < replicates.size:
        return None
    tail = (1.0 - level) / 2
    widened = float(norm.cdf(np.sqrt(clusters / (clusters - 1)) * t.ppf(tail, clusters - 1)))
    low, high = (float(end) for end in np.quantile(present, [widened, 1.0 - widened]))
    if clusters < STUDENTISED_FROM:
        # Replicates vary by (m - 1) / m of what the statistic does.
        error = float(present.std()) * np.sqrt(clusters / (clusters - 1))
        half = float(t.isf(tail, clusters - 1)) * error
        low, high = min(low, float(present.mean()) - half), max(high, float(present.mean()) + half)
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class RateIntervals:
    """Pooled rates with their intervals, arrays of shape (rates,); NaN ends mean that there is none."""

    value: Floats
    low: Floats
    high: Floats
    clusters: NDArray[np.int64]
    method: tuple[str, ...]


STUDENTISED = "studentised cluster bootstrap"
STUDENT_T = "Student t over clusters"
EXACT_CLUSTERS = "Clopper-Pearson over clusters"
NO_INTERVAL = "none"
FEW = 10
"""Clusters with an error, or with a success, under which an interval is widened."""
STUDENTISED_FROM = 8
"""Clusters from which bootstrap quantiles are used: of fewer, some samples have next to no spread of their own."""


def rate_intervals(
    errors: Floats, sizes: Floats, weights: Floats, *, level: float = 0.95, extra: Floats | float = 0.0
) -> RateIntervals:
    """Return pooled rates sum(e) / sum(n) with intervals from whole clusters.

    With r the rate and s its linearised cluster standard error, s^2 = m / (m - 1) sum_i (e_i - r n_i)^2
    / (sum_i n_i)^2 over m clusters, the interval is r - s q(1 - a/2) to r - s q(a/2), q the quantiles of
    (r* - r) / s* over the bootstrap samples (Davison and Hinkley 1997, section 5.2). It follows the skew
    of rare errors, where the percentile interval covers far too seldom. Under eight clusters it is
    Student's instead. Where fewer than ten clusters show an error (or a success), or all clusters have
    the same rate, it is widened to the Korn-Graubard interval. Where no trial went wrong, or every one
    once, it is the exact one with the clusters as trials.

    Parameters
    ----------
    errors, sizes
        Errors and trials of each cluster, shape (clusters, rates); a cluster without trials is not in
        the group. Errors may exceed trials (insertions).
    weights
        From `cluster_weights`, shape (repeats, clusters).
    extra
        Variance of each rate that clusters do not show, shape (rates,), such as that of a random split shared by all
        of them: it is added to s^2.

    Examples
    --------
    >>> sizes = np.full((30, 1), 10.0)
    >>> errors = np.repeat([[2.0], [4.0]], 15, axis=0)
    >>> weights = cluster_weights(30, 2000, np.random.default_rng(0))
    >>> rates = rate_intervals(errors, sizes, weights)
    >>> float(rates.value[0]), round(float(rates.low[0]), 2), round(float(rates.high[0]), 2)
    (0.3, 0.26, 0.34)
    """
    clusters = (sizes > 0).sum(axis=0)
    total, trials = errors.sum(axis=0), sizes.sum(axis=0)
    value = ratio(total, trials)
    spread = np.maximum(((errors - value * sizes) ** 2).sum(axis=0), 0.0)
    error = ratio(np.sqrt(spread * clusters / np.maximum(clusters - 1, 1)), trials)
    error = np.sqrt(error**2 + extra)
    tails = _studentised_quantiles(errors, sizes, weights, value, level)
    low, high, method = np.full(value.size, np.nan), np.full(value.size, np.nan), []
    alike = spread <= 1e-12 * np.maximum(total, 1.0)
    for index in range(value.size):
        column, trial = errors[:, index], sizes[:, index]
        # Clusters that show an error, or that show a success: of few, resampling cannot know how others would err.
        rare = int(min((column > 0).sum(), (column < trial).sum()))
        group = _Group(value[index], error[index], int(clusters[index]), trials[index], rare, bool(alike[index]))
        name, ends = _interval(group, tails[:, index], level)
        method.append(name)
        low[index], high[index] = ends
    return RateIntervals(value=value, low=low, high=high, clusters=clusters, method=tuple(method))


class _Group(NamedTuple):
    """One rate, its standard error, and what it rests on; `alike` where every cluster has the same rate."""

    value: float
    error: float
    clusters: int
    trials: float
    rare: int
    alike: bool


def _interval(group: _Group, tails: Floats, level: float) -> tuple[str, tuple[float, float]]:
    from scipy.stats import t

    value, error, clusters = group.value, group.error, group.clusters
    if clusters < 2:
        return NO_INTERVAL, (np.nan, np.nan)
    if group.alike and (value == 0 or value >= 1):
        return EXACT_CLUSTERS, _all_alike(value, clusters, level)
    if clusters < STUDENTISED_FROM or not np.isfinite(tails).all():
        half = error * float(t.ppf((1.0 + level) / 2, clusters - 1))
        method, low, high = STUDENT_T, value - half, value + half
    else:
        # The upper quantile makes the lower end: deviations of the samples mirror that of the value.
        method, low, high = STUDENTISED, value - tails[1] * error, value - tails[0] * error
    if (group.rare < FEW or group.alike) and value < 1:
        wider = _korn_graubard(value, error, clusters, group.trials, level)
        method, low, high = f"{method}, or Korn-Graubard where wider", min(low, wider[0]), max(high, wider[1])
    return method, (max(min(low, value), 0.0), max(high, value))


def _all_alike(value: float, clusters: int, level: float) -> tuple[float, float]:
    """Return the exact interval where no trial went wrong, or each as often as any other, once or more."""
    from audits.statistics.binomial import clopper_pearson

    low, high = clopper_pearson(0 if value == 0 else clusters, clusters, level=level)
    # Above 1 errors are insertions too, which have no upper end: as far up as down.
    return (low, high) if value <= 1 else (value - (high - low), value + (high - low))


def _korn_graubard(value: float, error: float, clusters: int, trials: float, level: float) -> tuple[float, float]:
    """Return the exact interval for as many independent trials as carry the same information.

    n* = n / deff (t(n - 1) / t(m - 1))^2 with deff = s^2 n / (r (1 - r)), never below 1 (Korn and
    Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts").
    """
    from scipy.stats import beta, t

    tail = (1.0 - level) / 2
    effect = max(error**2 * trials / (value * (1 - value)), 1.0)
    shrink = float(t.isf(tail, max(trials - 1, 1)) / t.isf(tail, clusters - 1)) ** 2
    effective = min(trials / effect * shrink, trials)
    hits = value * effective
    low, high = beta.ppf(tail, hits, effective - hits + 1), beta.isf(tail, hits + 1, effective - hits)
    return float(low), float(high)


def _studentised_quantiles(errors: Floats, sizes: Floats, weights: Floats, value: Floats, level: float) -> Floats:
    tail = (1.0 - level) / 2
    quantiles = np.full((2, value.size), np.nan)
    # Column by column in blocks: five sums per rate and sample, a few dozen MB at the most.
    for start in range(0, value.size, 64):
        e, n, r = errors[:, start : start + 64], sizes[:, start : start + 64], value[start : start + 64]
        total, trials = weights @ e, weights @ n
        rate = ratio(total, trials)
        # Sum of (e - rate n)^2, multiplied out: no array of samples by clusters by rates is needed.
        squares = weights @ e**2 - 2 * rate * (weights @ (e * n)) + rate**2 * (weights @ n**2)
        clusters = np.maximum((n > 0).sum(axis=0), 2)
        spread = ratio(np.sqrt(np.maximum(squares, 0.0) * clusters / (clusters - 1)), trials)
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = np.where(spread > 1e-12, (rate - r) / spread, np.nan)
        for column in range(deviation.shape[1]):
            present = deviation[np.isfinite(deviation[:, column]), column]
            # With fewer, the quantiles would be those of whichever samples happen to have a spread.
            if present.size * 2 >= len(weights):
                quantiles[:, start + column] = np.quantile(present, [tail, 1.0 - tail])
    return quantiles
