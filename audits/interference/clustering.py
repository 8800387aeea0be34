"""Order of languages in a matrix that puts those side by side that hurt each other least."""

import numpy as np
from numpy.typing import NDArray

FEWEST = 3
"""Languages below which there is nothing to order."""


def leaf_order(matrix: NDArray[np.float64]) -> list[int]:
    """Return the indices of the languages in the order of an average-linkage clustering.

    Two languages are as far apart as they hurt each other on average over both directions. Of the orders that the
    tree allows, the one with the least distance between neighbours is taken (Bar-Joseph et al. 2001), in the
    direction in which the first index is lower than the last.

    Parameters
    ----------
    matrix
        Cells (target, source), shape (languages, languages); NaN where there is none. A pair without any cell counts
        as the mean of the others; the diagonal is not read.

    Examples
    --------
    Languages 0 and 2 help each other; languages 1 and 2 hurt each other less than 0 and 1 do.

    >>> leaf_order(np.array([[0.0, 0.4, -0.1], [0.4, 0.0, 0.2], [-0.1, 0.2, 0.0]]))
    [0, 2, 1]
    """
    count = len(matrix)
    both = np.stack([matrix, matrix.T])
    known = np.isfinite(both)
    found = known.sum(axis=0)
    np.fill_diagonal(found, 0)
    if count < FEWEST or not found.any():
        return list(range(count))
    mutual = np.where(known, both, 0.0).sum(axis=0) / np.maximum(found, 1)
    far = np.where(found > 0, mutual, mutual[found > 0].mean())
    # Languages that help each other are at negative distances, which a linkage does not take.
    far -= far[~np.eye(count, dtype=bool)].min()
    return _leaves(far)


def _leaves(far: NDArray[np.float64]) -> list[int]:
    from scipy.cluster.hierarchy import leaves_list, linkage

    order = [
        int(index)
        for index in leaves_list(linkage(far[np.triu_indices(len(far), 1)], "average", optimal_ordering=True))
    ]
    return order if order[0] < order[-1] else order[::-1]
