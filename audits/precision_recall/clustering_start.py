"""The start of k-means: greedy k-means++, with the centres that scikit-learn chooses, in less time.

Distances count in float64, rounded to float32. Most of them are too large to matter: a product in float32, whose
rounding error is bounded, tells which, and only the others are computed in float64. Where there are fewer different
points than centres, rounding decides in scikit-learn which copies the rest are, and it may be others here.
"""

import numpy as np
from numpy.typing import NDArray

from probes.vectors.thin_products import ThinProducts

Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]
_PIECE = 2**10
"""Points whose exact distances to a centre are computed at a time: some MiB."""


def spread_start(points: Vectors, count: int, random_state: np.random.RandomState) -> Vectors:
    """Choose centres that lie apart, by greedy k-means++ (Arthur and Vassilvitskii 2007).

    A further centre is drawn 2 + log(count) times, each point with a probability that grows as its squared distance to
    the nearest centre so far. The draw counts that leaves the least sum of these distances.

    Parameters
    ----------
    points
        Shape (points, width).
    count
        Centres.
    random_state
        What is drawn from.

    Returns
    -------
    shape (centres, width)

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [9.0], [9.1]], np.float32)
    >>> sorted(float(row.round()) for row in spread_start(rows, 2, np.random.RandomState(0))[:, 0])
    [0.0, 9.0]
    """
    size, draws = len(points), 2 + int(np.log(count))
    distances = _Distances(points)
    each = np.ones(size, dtype=np.float32)
    chosen = [int(random_state.choice(size, p=each / each.sum()))]
    nearest = distances.shortened(chosen, np.full(size, np.inf, dtype=np.float32))[0]
    total = nearest @ each
    for _ in range(1, count):
        values = random_state.uniform(size=draws) * total
        drawn = np.minimum(np.searchsorted(np.cumsum(nearest), values), size - 1)
        shorter = distances.shortened(drawn, nearest)
        sums = (shorter @ each[:, None])[:, 0]
        best = int(sums.argmin())
        nearest, total = shorter[best], sums[best]
        chosen.append(int(drawn[best]))
    return points[chosen]


class _Distances:
    """Squared distances of points to some of them."""

    def __init__(self, points: Vectors) -> None:
        self._points = points
        self._wide = points.astype(np.float64)
        self._squares: Floats = np.einsum("ij,ij->i", self._wide, self._wide)
        self._products = ThinProducts(points)

    def shortened(self, centres: NDArray[np.intp] | list[int], nearest: Vectors) -> Vectors:
        """Return the distances to the nearest centre so far or a new one, for each new one, shape (centres, points)."""
        lows = self._products.distances(centres)
        found = np.repeat(nearest[None], len(centres), axis=0)
        for row, centre in enumerate(centres):
            near = np.flatnonzero(lows[row] < nearest)
            for start in range(0, len(near), _PIECE):
                at = near[start : start + _PIECE]
                products = np.einsum("ij,j->i", self._wide[at], self._wide[centre])
                exact = -2 * products + self._squares[centre] + self._squares[at]
                single = np.maximum(exact.astype(np.float32), np.float32(0))
                found[row, at] = np.minimum(nearest[at], single)
        return found
