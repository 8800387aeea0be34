"""How far would a pooled rate move with other speakers?

The bootstrap here draws whole clusters (speakers, documents), never the items inside them, and does so
for every statistic at once: one matrix of multinomial counts times one matrix of sums per cluster.
"""

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
    to Student's (Hesterberg 2015, "What teachers should know about the bootstrap", section 5.3).

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
    low, high = np.quantile(present, [widened, 1.0 - widened])
    return float(low), float(high)


STUDENTISED_MEAN = "studentised bootstrap"
STUDENT_MEAN = "Student t"
STUDENTISED_FROM = 8
"""Clusters from which bootstrap quantiles are used: of fewer, some samples have next to no spread of their own."""


def mean_interval(values: Floats, weights: Floats, *, level: float = 0.95) -> tuple[str, tuple[float, float]] | None:
    """Return the method and the ends of the interval of a mean of n independent numbers.

    The studentised bootstrap, which follows a skew that the percentile interval and
    Student's do not; under eight numbers, or where they are all alike, Student's.

    Parameters
    ----------
    values
        Shape (n,).
    weights
        From `cluster_weights`, shape (repeats, n).

    Returns
    -------
    tuple or None
        None with fewer than two numbers.

    Examples
    --------
    >>> values = np.repeat([1.0, 3.0], 20)
    >>> method, (low, high) = mean_interval(values, cluster_weights(40, 2000, np.random.default_rng(0)))
    >>> method, f"{low:.1f} to {high:.1f}"
    ('studentised bootstrap', '1.7 to 2.3')
    """
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return None
    value = float(values.mean())
    error = float(values.std(ddof=1)) / np.sqrt(n)
    tail = (1.0 - level) / 2
    if n >= STUDENTISED_FROM:
        shifts = weights @ (values - value) / n
        spread = np.sqrt(np.maximum(weights @ (values - value) ** 2 / n - shifts**2, 0.0) / (n - 1))
        # A sample that drew equal numbers alone has no spread to divide by.
        usable = spread > 1e-12 * error
    if n < STUDENTISED_FROM or 2 * usable.sum() < len(weights):
        half = error * float(t.isf(tail, n - 1))
        return STUDENT_MEAN, (value - half, value + half)
    low, high = np.quantile(shifts[usable] / spread[usable], [tail, 1.0 - tail])
    # The upper quantile makes the lower end: deviations of the samples mirror that of the value.
    return STUDENTISED_MEAN, (min(float(value - high * error), value), max(float(value - low * error), value))
