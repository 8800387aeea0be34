"""Cluster bootstrap of pooled rates.

The bootstrap here draws whole clusters (speakers, documents), never the items inside them, and does so
for every statistic at once: one matrix of multinomial counts times one matrix of sums per cluster.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.unsignedinteger[Any]]

_AT_ONCE = 2**23
"""Samples times clusters that are held as floats at once."""

STUDENTISED_FROM = 8
"""Clusters from which bootstrap quantiles are used alone: with fewer, some samples have hardly any spread."""


def cluster_weights(clusters: int, repeats: int, rng: np.random.Generator) -> Floats:
    """Draw how often each cluster appears in each bootstrap sample.

    Returns
    -------
    array of shape (repeats, clusters)
        Each row sums to `clusters`.
    """
    # As floats, since NumPy multiplies integer matrices without BLAS.
    return rng.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=repeats).astype(np.float64)


def cluster_counts(clusters: int, repeats: int, rng: np.random.Generator) -> Counts:
    """Draw what `cluster_weights` draws, as whole numbers in an eighth of the memory.

    Examples
    --------
    >>> counts = cluster_counts(3, 2, np.random.default_rng(0))
    >>> counts.dtype, bool((counts == cluster_weights(3, 2, np.random.default_rng(0))).all())
    (dtype('uint8'), True)
    """
    found: Counts = np.empty((repeats, clusters), dtype=np.uint8)
    step = _rows_at_once(clusters)
    for start in range(0, repeats, step):
        size = min(step, repeats - start)
        drawn = rng.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=size)
        if drawn.max(initial=0) > np.iinfo(found.dtype).max:
            found = found.astype(np.uint32)
        found[start : start + size] = drawn
    return found


def blocks_of(counts: Counts | Floats, clusters: NDArray[np.intp] | None = None) -> Iterator[Floats]:
    """Yield bootstrap samples as floats, some at a time, of some of the clusters or of all."""
    step = _rows_at_once(counts.shape[1] if clusters is None else len(clusters))
    for start in range(0, len(counts), step):
        block = counts[start : start + step]
        yield (block if clusters is None else block[:, clusters]).astype(np.float64)


def _rows_at_once(clusters: int) -> int:
    return max(_AT_ONCE // max(clusters, 1), 1)


def resampled_sums(weights: Floats | Counts, sums: Floats) -> Floats:
    """Return the sums of every bootstrap sample, shape (repeats, ...), from the sums of clusters, (clusters, ...)."""
    flat = sums.reshape(sums.shape[0], -1)
    if weights.dtype == np.float64:
        drawn = weights @ flat
    else:
        drawn = np.concatenate([block @ flat for block in blocks_of(weights)])
    return drawn.reshape(weights.shape[0], *sums.shape[1:])


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide element by element, with NaN where a bootstrap sample holds nothing of a group.

    NaN never leaves the statistics: `percentile_interval` takes quantiles over the samples that have one.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.nan)


def mean_and_quantiles(samples: Floats, level: float) -> tuple[float, float, float]:
    """Return the mean of samples and the quantiles around a share `level` of them, widened to the mean.

    >>> mean_and_quantiles(np.arange(101.0), 0.5)
    (50.0, 25.0, 75.0)
    """
    tail = (1 - level) / 2
    low, high = np.quantile(samples, [tail, 1 - tail]).tolist()
    mean = float(samples.mean())
    return mean, min(low, mean), max(high, mean)


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
        # The variance of replicates is (m - 1) / m of that of the statistic.
        error = float(present.std()) * np.sqrt(clusters / (clusters - 1))
        half = float(t.isf(tail, clusters - 1)) * error
        low, high = min(low, float(present.mean()) - half), max(high, float(present.mean()) + half)
    return low, high
