"""Wasserstein distances between draws: exact on the line, sliced in more dimensions, each beside that of the same law.

Two samples of one law are some way apart too (A floor). It comes from swapping what is exchangeable under the same law.
"""

import numpy as np

from probes.conditional.laws import Floats


def wasserstein_1d(a: Floats, b: Floats, order: int = 1, weights: Floats | None = None) -> Floats:
    """Return W_p between draws on the line: the root of the mean over levels of |quantile - quantile|^p.

    Parameters
    ----------
    a, b
        Shapes (..., n) and (..., m), with leading axes that broadcast.
    order
        p >= 1.
    weights
        Of `a`, shape (..., n), not negative; they are divided by their sum. Equal without.

    Returns
    -------
    distance
        In units of the draws, shape (...).

    Raises
    ------
    ValueError
        Where a side has no draws, the order is below 1, or weights are negative or all zero.

    Examples
    --------
    >>> float(wasserstein_1d(np.array([0.0, 1.0]), np.array([3.0, 1.0])))
    1.5
    >>> float(wasserstein_1d(np.array([0.0, 4.0]), np.array([0.0]), 2, weights=np.array([3.0, 1.0])))
    2.0
    """
    n, m = a.shape[-1], b.shape[-1]
    if n == 0 or m == 0 or order < 1:
        raise ValueError(f"no distance of order {order} between {n} and {m} draws")
    if weights is None and n == m:
        return _root((np.abs(np.sort(a) - np.sort(b)) ** order).mean(axis=-1), order)
    share = np.full(n, 1 / n) if weights is None else _shares(weights)
    ends = [(*np.broadcast_shapes(a.shape[:-1], b.shape[:-1], share.shape[:-1]), size) for size in (n, m)]
    by_value = np.argsort(np.broadcast_to(a, ends[0]), axis=-1)
    a = np.take_along_axis(np.broadcast_to(a, ends[0]), by_value, axis=-1)
    upto = np.take_along_axis(np.broadcast_to(share, ends[0]), by_value, axis=-1).cumsum(axis=-1)
    upto[..., -1] = 1.0
    b = np.sort(np.broadcast_to(b, ends[1]))
    # All levels at which one of the two quantile functions jumps; before the k-th, as many of a side's draws are used
    # up as it has jumps among those before.
    levels = np.concatenate([upto, np.broadcast_to(np.arange(1, m + 1) / m, ends[1])], axis=-1)
    jumps = np.argsort(levels, axis=-1, kind="stable")
    of_a = jumps < n
    used = of_a.cumsum(axis=-1) - of_a
    widths = np.diff(np.take_along_axis(levels, jumps, axis=-1), axis=-1, prepend=0.0)
    gap = np.take_along_axis(a, np.minimum(used, n - 1), axis=-1)
    gap = gap - np.take_along_axis(b, np.minimum(np.arange(n + m) - used, m - 1), axis=-1)
    return _root((widths * np.abs(gap) ** order).sum(axis=-1), order)


def _root(power: Floats, order: int) -> Floats:
    return np.asarray(power ** (1 / order), dtype=np.float64)


def _shares(weights: Floats) -> Floats:
    """Return weights (..., n) divided by their sum."""
    total = weights.sum(axis=-1, keepdims=True)
    if (weights < 0).any() or not (total > 0).all():
        raise ValueError("weights must not be negative, and not all of them zero")
    return np.asarray(weights / total, dtype=np.float64)


def _projected(draws: Floats, directions: Floats | None) -> Floats:
    """Return draws (..., n, d) along each direction, shape (..., r, n); of d = 1 as they are, with r = 1."""
    if draws.shape[-1] == 1:
        return np.asarray(draws.swapaxes(-1, -2))
    if directions is None:
        raise ValueError(f"draws of {draws.shape[-1]} values need directions")
    return np.asarray(directions @ draws.swapaxes(-1, -2))


def _sliced(a: Floats, b: Floats, order: int, weights: Floats | None = None) -> Floats:
    """Return the root of the mean over directions of W_p^p, shape (...), of projections (..., r, n) and (..., r, m)."""
    return _root((wasserstein_1d(a, b, order, weights) ** order).mean(axis=-1), order)


def sliced(a: Floats, b: Floats, directions: Floats | None = None, order: int = 1) -> float:
    """Return the sliced distance: the root of the mean over directions of W_p^p (Bonneel et al. 2015); W_p of d = 1.

    It is never above W_p: two laws that lie |s| apart without other difference have |s| / sqrt(d) at p = 2.

    Parameters
    ----------
    a, b
        Shapes (n, d) and (m, d).
    directions
        Of length 1, shape (r, d); not used where d = 1.

    Raises
    ------
    ValueError
        Where there are no directions and d > 1, or `wasserstein_1d` cannot be had.

    Examples
    --------
    >>> sliced(np.array([[0.0, 0.0]]), np.array([[3.0, 1.0]]), np.eye(2))
    2.0
    """
    return float(_sliced(_projected(a, directions), _projected(b, directions), order))


def swapped_floor(
    a: Floats, b: Floats, directions: Floats | None, order: int, repeats: int, rng: np.random.Generator
) -> Floats:
    """Return sliced distances of two samples of one law at this size: rows of a and b are swapped at random.

    Row i of both has the same input. Where the laws given it are equal, swapping them leaves the joint law as it is, so
    that the distance between a and b is as likely to have any rank among these as any other.

    Parameters
    ----------
    a, b
        Shape (n, d) each.
    directions
        As in `sliced`.

    Returns
    -------
    distances
        Shape (repeats,).

    Raises
    ------
    ValueError
        Where a and b have no rows, or are not of one shape; and where `sliced` does.
    """
    n = len(a)
    if a.shape != b.shape or n == 0 or order < 1:
        raise ValueError(f"no rows can be swapped between shapes {a.shape} and {b.shape} at order {order}")
    both = _projected(np.concatenate([a, b]), directions)
    # Sorted once: what is left of the order after a swap is that of each side.
    rank = np.argsort(both, axis=-1)
    both, shape, distances = np.take_along_axis(both, rank, axis=-1), (len(both), n), np.empty(repeats)
    for repeat in range(repeats):
        swap = rng.random(n) < 0.5
        first = np.concatenate([~swap, swap])[rank]
        gap = both[first].reshape(shape) - both[~first].reshape(shape)
        distances[repeat] = (np.abs(gap) ** order).mean() ** (1 / order)
    return distances


def conditional(
    samples: Floats, oracle: Floats, order: int, directions: Floats | None, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return each row's sliced distance between a candidate's draws and those of the truth, and its floor.

    The first min(K, K') of both are taken. The floor is the distance after all draws of the row were dealt anew at
    random: that of two samples of one law where the candidate's is the true one, else of two samples of the mixture.

    Parameters
    ----------
    samples, oracle
        Shapes (n, K, d) and (n, K', d). Memory is some times n min(K, K') max(d, r) numbers, for r directions.
    directions
        As in `sliced`.

    Returns
    -------
    value, floor
        In units of the draws, shape (n,) each.

    Raises
    ------
    ValueError
        As `sliced`.
    """
    count = min(samples.shape[1], oracle.shape[1])
    both = _projected(np.concatenate([samples[:, :count], oracle[:, :count]], axis=1), directions)
    value = _sliced(both[..., :count], both[..., count:], order)
    dealt = np.argsort(rng.random((len(both), 1, 2 * count)), axis=-1)
    both = np.take_along_axis(both, dealt, axis=-1)
    return value, _sliced(both[..., :count], both[..., count:], order)


def of_points(points: Floats, weights: Floats, oracle: Floats, directions: Floats | None = None) -> Floats:
    """Return W_2 between weighted points and draws of the truth, row by row.

    Exact where d = 1. In more dimensions the plan of transport would have to be found for each row, which is dear: then
    it is the sliced distance, which is not above W_2 and is not the square root of the distortion.

    Parameters
    ----------
    points, weights, oracle
        Shapes (n, m, d), (n, m) and (n, K', d).
    directions
        As in `sliced`.

    Returns
    -------
    distance
        In units of the draws, shape (n,).

    Raises
    ------
    ValueError
        As `wasserstein_1d` and `sliced`.

    Examples
    --------
    >>> draws = np.array([[[-2.0], [-2.0], [-2.0], [2.0]]])
    >>> of_points(np.array([[[-2.0], [2.0]]]), np.array([[0.5, 0.5]]), draws).tolist()  # a quarter goes from 2 to -2
    [2.0]
    """
    return _sliced(_projected(points, directions), _projected(oracle, directions), 2, weights[:, None])
