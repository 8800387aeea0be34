"""Could the gap have come from who happens to be in which group?

The labels are shuffled over the clusters (speakers), never over the items inside them: items of one
speaker are not exchangeable with those of another.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def permuted_group_sums(
    sums: Floats, labels: NDArray[np.int64], groups: int, repeats: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Yield the sums per group under shuffled labels, in blocks of shape (block, groups, ...).

    Parameters
    ----------
    sums
        Sums per cluster, shape (clusters, ...).
    labels
        Group of each cluster, shape (clusters,), in 0..groups-1.
    """
    flat = sums.reshape(len(sums), -1)
    for start in range(0, repeats, 250):
        block = min(250, repeats - start)
        shuffled = rng.permuted(np.tile(labels, (block, 1)), axis=1)
        totals = np.stack([(shuffled == group).astype(np.float64) @ flat for group in range(groups)], axis=1)
        yield totals.reshape(block, groups, *sums.shape[1:])


def monte_carlo_p(observed: float, permuted: Floats, *, level: float = 0.95) -> tuple[float, float, float]:
    """Return the p-value of a permutation test, (1 + #{T* >= T}) / (1 + R), and its Monte Carlo interval.

    The p-value is valid for any number of permutations R (Phipson and Smyth 2010); the interval is that
    of the exceedance probability itself (Clopper-Pearson).

    Examples
    --------
    >>> p, low, high = monte_carlo_p(2.0, np.array([0.1, 0.2, 2.0, 0.5]))
    >>> p
    0.4
    """
    from audits.statistics.binomial import clopper_pearson

    # Ties that differ only by rounding count as ties.
    exceeding = int(np.sum(permuted >= observed - 1e-12 * max(1.0, abs(observed))))
    low, high = clopper_pearson(exceeding, permuted.size, level=level)
    p = (1 + exceeding) / (1 + permuted.size)
    return p, min(low, p), max(high, p)
