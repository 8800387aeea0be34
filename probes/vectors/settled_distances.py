"""Squared distances of near pairs that stand where the exact ones do among lists of neighbours and limits.

Who lies within which ball depends on the rank of a distance alone. The bounds of a distance in float32 settle it for
most pairs, and only the others are computed in float64.
"""

import numpy as np
from numpy.typing import NDArray

from probes.vectors.knn import Integers, Points, exact, rounding
from probes.vectors.part_counts import places

Floats = NDArray[np.float64]


class Settled:
    """Distances of near pairs, computed in float64 where their bounds leave open where they stand.

    Parameters
    ----------
    x, y
        The points of both sides.
    lists_x, lists_y
        Squared distances in ascending order, among which those to a point are looked up, shapes (points, length).
    limits
        Squared distances that those of all pairs are compared with, in any order.
    """

    def __init__(self, x: Points, y: Points, lists_x: Floats, lists_y: Floats, limits: Floats) -> None:
        self._x, self._y = x, y
        self._widths = _slack(x), _slack(y)
        # What ends a list is beyond every distance, and settles nothing.
        self._lists = tuple(np.pad(one, ((0, 0), (0, 1)), constant_values=np.inf) for one in (lists_x, lists_y))
        self._limits = np.append(np.sort(limits, axis=None), np.inf)

    def __call__(self, x: Integers, y: Integers, lows: NDArray[np.float32]) -> Floats:
        """Return the distances of pairs, of which lower bounds are given, shape (pairs,)."""
        found = np.maximum(lows.astype(np.float64), 0.0)
        highs = found + (self._widths[0][x] + self._widths[1][y])
        # In doubt where the exact distance may be on the other side of what comes next.
        doubtful = self._limits[np.searchsorted(self._limits, found, side="right")] <= highs
        for lists, rows in zip(self._lists, (x, y), strict=True):
            doubtful |= lists[rows, places(lists, rows, found)] <= highs
        at = np.flatnonzero(doubtful)
        found[at] = exact(self._x, self._y, x[at], y[at])
        return found


def _slack(points: Points) -> Floats:
    """Return by how much each point may lift squared distances above their lower bounds, shape (points,)."""
    floors = np.asarray(points.floors.cpu() if hasattr(points.floors, "cpu") else points.floors, dtype=np.float64)
    share = rounding(points.given.shape[1])
    # Twice the error: the bound lies below by it, and so may the number that was rounded.
    return 2 * share / (1 - share) * floors
