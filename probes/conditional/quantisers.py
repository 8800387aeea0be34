"""m points in the place of a law: the best there are, the nearest of them, and references for what a candidate reaches.

The distortion D_m = E min_j |Y - f_j|^2 of m points is smallest at an optimal quantiser (Graf and Luschgy, Foundations
of Quantization for Probability Distributions, 2000), where it is W_2^2 between the law and the points with the masses
of their cells as weights. Points fitted to the draws on which they are measured reach too little, on others too much.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from probes.conditional.laws import Bools, Floats, Ints

ENOUGH = 30
"""Rows or draws for each point that a reference needs: with fewer, those of fit and held-out rows lie far apart."""
RESTARTS = 8
STEPS = 100
_MOST = 2**20
_CUTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiser:
    """An optimal quantiser of a law on the line.

    Parameters
    ----------
    points
        Ascending, shape (m,).
    weights
        Masses of their cells, shape (m,).
    distortion
        Mean squared distance to the nearest point, in squared units of the law.
    """

    points: Floats
    weights: Floats
    distortion: float


class Reference(NamedTuple):
    """Squared distances of rows to the nearest of their group's points.

    Parameters
    ----------
    fit
        With points that were fitted to these rows too: too low in mean, shape (n,).
    held_out
        With points that were fitted to other folds: too high in mean, shape (n,).
    known
        Rows that have a reference, shape (n,); both values of the others are 0.
    """

    fit: Floats
    held_out: Floats
    known: Bools


@lru_cache(maxsize=64)
def normal_quantiser(m: int) -> Quantiser:
    """Return the optimal quantiser of m points for N(0, 1).

    Newton's method from the quantiles of N(0, 3), whose density is that of many optimal points. There is one stationary
    quantiser alone, for the normal density is log-concave (Kieffer, IEEE Trans. Inf. Theory 29, 1983).

    Raises
    ------
    ValueError
        Where m is not from 1 to 1,000.

    Examples
    --------
    >>> two = normal_quantiser(2)
    >>> round(float(two.points[1]), 4), round(two.distortion, 6)
    (0.7979, 0.36338)
    """
    from scipy.special import ndtr, ndtri

    if not 1 <= m <= 1000:
        raise ValueError(f"{m} points: 1 to 1,000 can be had")
    points = np.sqrt(3.0) * ndtri(np.arange(1, m + 1) / (m + 1))
    for _ in range(50):
        edges = (points[1:] + points[:-1]) / 2
        density = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
        weights = np.diff(ndtr(edges), prepend=0.0, append=1.0)
        # Half the gradient of the distortion, which is zero where each point is the mean of its cell.
        slope = points * weights + np.diff(density, prepend=0.0, append=0.0)
        shared = density * np.diff(points) / 4
        curvature = np.diag(weights) - np.diag(shared, 1) - np.diag(shared, -1)
        curvature[np.diag_indices(m)] -= np.append(shared, 0.0) + np.append(0.0, shared)
        step = np.linalg.solve(curvature, slope)
        points = points - step
        points = (points - points[::-1]) / 2
        if np.abs(step).max() < 1e-14:
            break
    weights = (weights + weights[::-1]) / 2
    points.setflags(write=False)
    weights.setflags(write=False)
    return Quantiser(points=points, weights=weights, distortion=float(1 - weights @ points**2))


def nearest(y: Floats, points: Floats) -> tuple[Ints, Floats]:
    """Return the nearest of its row's points for each outcome, the first of equally near ones, and how far it is.

    Parameters
    ----------
    y
        Shape (n, d), or (n, K, d) with K outcomes in each row.
    points
        Shape (n, m, d).

    Returns
    -------
    cell, squared
        Index of the point, and squared Euclidean distance to it; shape (n,), or (n, K).

    Examples
    --------
    >>> cell, squared = nearest(np.array([[2.0, 0.0]]), np.array([[[0.0, 0.0], [2.0, 3.0], [2.0, 1.0]]]))
    >>> int(cell[0]), float(squared[0])
    (2, 1.0)
    """
    between = (slice(None),) + (None,) * (y.ndim - 2)
    cell, squared = np.zeros(y.shape[:-1], dtype=np.int64), np.full(y.shape[:-1], np.inf)
    for j in range(points.shape[1]):
        gap = y - points[:, j][between]
        here = np.einsum("...d,...d->...", gap, gap)
        cell[here < squared] = j
        np.minimum(squared, here, out=squared)
    return cell, squared


def fitted_points(draws: Floats, m: int, rng: np.random.Generator, restarts: int = RESTARTS) -> tuple[Floats, Floats]:
    """Return m points for each row that were fitted to its draws by Lloyd's method, and the shares of their cells.

    On the line they are the best there are, or nearly of more than 256 draws. Else it starts at draws far from one
    another (k-means++, Arthur and Vassilvitskii 2007), some times over, and the best fit is taken. A row with fewer
    distinct draws than m has points of weight 0.

    Parameters
    ----------
    draws
        Shape (n, K, d).

    Returns
    -------
    points, weights
        Shapes (n, m, d) and (n, m).

    Raises
    ------
    ValueError
        Where K < m, or m < 1.

    Examples
    --------
    >>> points, weights = fitted_points(np.array([[[0.0], [1.0], [8.0]]]), 2, np.random.default_rng(0))
    >>> points[0, :, 0].tolist(), weights[0].round(3).tolist()
    ([0.5, 8.0], [0.667, 0.333])
    """
    n, count, d = draws.shape
    if not 1 <= m <= count:
        raise ValueError(f"{m} points cannot be fitted to {count} draws")
    starts = 1 if d == 1 or m == 1 else restarts
    points, weights = np.empty((n, m, d)), np.empty((n, m))
    block = max(1, _MOST // (count * max(d + m, _CUTS if d == 1 else 0) * starts))
    for rows in (slice(first, first + block) for first in range(0, n, block)):
        # About its mean, as the distances of the fit are differences of squares.
        mean = draws[rows].mean(axis=1, keepdims=True)
        best, weights[rows] = _best_of_starts(draws[rows] - mean, m, rng, starts)
        points[rows] = best + mean
    return points, weights


def _best_of_starts(draws: Floats, m: int, rng: np.random.Generator, starts: int) -> tuple[Floats, Floats]:
    """Return points (n, m, d) and weights (n, m) of the start that ends with the smallest distortion of each row."""
    copies = np.repeat(draws, starts, axis=0)
    points = _on_line(copies, m) if draws.shape[2] == 1 else _spread_out(copies, m, rng)
    _lloyd(copies, points)
    cell, squared = nearest(copies, points)
    best = np.arange(len(draws)) * starts + squared.mean(axis=1).reshape(-1, starts).argmin(axis=1)
    return points[best], (cell[best][..., None] == np.arange(m)).mean(axis=1)


def _on_line(draws: Floats, m: int) -> Floats:
    """Return the means of the best division of each row's draws on the line into m runs, shape (n, m, 1).

    By dynamic programming (Wang and Song, R Journal 3, 2011), with cuts at each draw, or at some of many.
    """
    x, count = np.sort(draws[..., 0], axis=1), draws.shape[1]
    cuts = np.linspace(0, count, min(count, max(_CUTS, 2 * m)) + 1).round().astype(np.int64)
    sums, squares = (np.pad(terms.cumsum(axis=1), ((0, 0), (1, 0)))[:, cuts] for terms in (x, x**2))
    held = cuts[:, None] - cuts
    cost = squares[:, :, None] - squares[:, None] - (sums[:, :, None] - sums[:, None]) ** 2 / np.maximum(held, 1)
    cost[:, held <= 0] = np.inf
    least, begins = cost[:, :, 0], []
    for _ in range(m - 1):
        # Of runs that end at a cut, by where the last of them begins.
        ending = least[:, None] + cost
        begins.append(ending.argmin(axis=2))
        least = np.take_along_axis(ending, begins[-1][..., None], axis=2)[..., 0]
    every, means = np.arange(len(x)), np.empty((len(x), m, 1))
    end = np.full(len(x), len(cuts) - 1)
    for j in range(m - 1, -1, -1):
        begin = begins[j - 1][every, end] if j else np.zeros_like(end)
        means[:, j, 0] = (sums[every, end] - sums[every, begin]) / (cuts[end] - cuts[begin])
        end = begin
    return means


def _spread_out(draws: Floats, m: int, rng: np.random.Generator) -> Floats:
    """Return m draws of each row, each taken with odds as the squared distance to those before, shape (n, m, d)."""
    n, count, _ = draws.shape
    every = np.arange(n)
    taken = [draws[every, rng.integers(count, size=n)]]
    closest = np.full((n, count), np.inf)
    while len(taken) < m:
        gap = draws - taken[-1][:, None]
        np.minimum(closest, np.einsum("nkd,nkd->nk", gap, gap), out=closest)
        heap = closest.cumsum(axis=1)
        picked = (heap <= rng.random((n, 1)) * heap[:, -1:]).sum(axis=1)
        taken.append(draws[every, np.minimum(picked, count - 1)])
    return np.stack(taken, axis=1)


def _lloyd(draws: Floats, points: Floats) -> None:
    """Move the points to the means of their cells until no draw changes its cell, row by row, in place."""
    active, last = np.arange(len(draws)), np.full(draws.shape[:2], -1)
    x = draws
    for _ in range(STEPS):
        p = points[active]
        score = (p**2).sum(axis=2)[:, None] - x @ (2 * p).transpose(0, 2, 1)
        cell = score.argmin(axis=2)
        moved = (cell != last).any(axis=1)
        if not moved.any():
            return
        active, x, last, p, score = active[moved], x[moved], cell[moved], p[moved], score[moved]
        members = (last[:, None] == np.arange(p.shape[1])[:, None]).astype(np.float64)
        held = members.sum(axis=2)
        points[active] = members @ x / np.maximum(held, 1)[..., None]
        row, empty = np.nonzero(held == 0)
        if len(row):
            # It goes to the draw that is farthest from its own point.
            farthest = (score[row].min(axis=2) + (x[row] ** 2).sum(axis=2)).argmax(axis=1)
            points[active[row], empty] = x[row, farthest]


def oracle_reference(oracle: Floats, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the distortion of points fitted to one half of each row's draws of the truth: on that half, on the other.

    Both are means over the two ways to take the halves; the optimum of the row's law lies between them in mean. The
    callers see to it that there are `ENOUGH` draws for each point.

    Parameters
    ----------
    oracle
        Shape (n, K', d).

    Returns
    -------
    fit, held_out
        Shape (n,) each.

    Raises
    ------
    ValueError
        Where K' < 2 m.
    """
    halves = np.array_split(oracle[:, rng.permutation(oracle.shape[1])], 2, axis=1)
    fit, held_out = np.zeros(len(oracle)), np.zeros(len(oracle))
    for own, other in (halves, halves[::-1]):
        points, _ = fitted_points(own, m, rng, RESTARTS // 2)
        fit += nearest(own, points)[1].mean(axis=1) / 2
        held_out += nearest(other, points)[1].mean(axis=1) / 2
    return fit, held_out


def group_reference(
    y: Floats, groups: Ints, m: int, folds: int, rng: np.random.Generator, clusters: Ints | None = None
) -> Reference:
    """Return what m points reach that are the same for all rows of a group.

    A group of fewer than `ENOUGH` m rows has no reference; nor has one of fewer than two clusters, or with fewer than m
    rows outside a fold.

    Parameters
    ----------
    y
        Shape (n, d).
    groups
        Number of each row's group, shape (n,).
    clusters
        Rows of one number stay in one fold, shape (n,); every row by itself without.

    Raises
    ------
    ValueError
        Where there are fewer than two folds, or m < 1.
    """
    if folds < 2 or m < 1:
        raise ValueError(f"{folds} folds and {m} points: at least 2 and 1 are needed")
    found = Reference(np.zeros(len(y)), np.zeros(len(y)), np.zeros(len(y), dtype=bool))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        fold = _folds(rows if clusters is None else clusters[rows], folds, rng)
        if len(rows) < max(ENOUGH * m, m + np.bincount(fold).max()):
            continue
        found.known[rows] = True
        found.fit[rows] = _distances(y[rows], y[rows], m, rng)
        for out in (fold == number for number in np.unique(fold)):
            found.held_out[rows[out]] = _distances(y[rows[~out]], y[rows[out]], m, rng)
    return found


def _folds(clusters: Ints, folds: int, rng: np.random.Generator) -> Ints:
    """Return the fold of each row, where clusters are dealt at random, shape (n,)."""
    distinct, number = np.unique(clusters, return_inverse=True)
    return np.asarray((rng.permutation(len(distinct)) % folds)[number.reshape(-1)], dtype=np.int64)


def _distances(fitted: Floats, y: Floats, m: int, rng: np.random.Generator) -> Floats:
    """Return squared distances of y (n, d) to the nearest of m points that k-means finds in other rows, shape (n,)."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if y.shape[1] == 1:
        points = fitted_points(fitted[None], m, rng)[0][0]
    else:
        means = KMeans(m, n_init=4, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            # Of rows with fewer distinct values than m: then the points are these values, as they should be.
            warnings.simplefilter("ignore", ConvergenceWarning)
            points = np.asarray(means.fit(fitted).cluster_centers_, dtype=np.float64)
    return nearest(y, np.broadcast_to(points, (len(y), *points.shape)))[1]
