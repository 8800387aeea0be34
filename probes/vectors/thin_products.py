"""Lower bounds of the squared distances of many points to a few of them, again and again."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ROUNDING = 2.0**-24


class ThinProducts:
    """Products of many points with a few, in float32 on the CPU.

    Parameters
    ----------
    points
        Shape (points, width).
    """

    def __init__(self, points: NDArray[np.float32]) -> None:
        self._points = points
        # A coordinate a row: the few then multiply long rows, and what follows runs along them too.
        self._across = np.ascontiguousarray(points.T)
        squares = np.einsum("ij,ij->i", points, points)
        # As in `knn.points`: each point bears its own part of the rounding error.
        self._floors = squares * np.float32(1 - _ROUNDING * (2 * points.shape[1] + 40))

    def distances(self, few: Sequence[int] | NDArray[np.intp]) -> NDArray[np.float32]:
        """Return lower bounds of the squared distances of some of the points to all, tight, shape (few, points).

        >>> bound = ThinProducts(np.array([[3.0, 0.0], [0.0, 4.0]], np.float32)).distances([0])
        >>> bool((bound <= [[0, 25]]).all()), bound.round(2).tolist()
        (True, [[-0.0, 25.0]])
        """
        # Twice a number is exact.
        found: NDArray[np.float32] = (-2 * self._points[few]) @ self._across
        found += self._floors
        found += self._floors[few][:, None]
        return found
