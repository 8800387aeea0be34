"""Log-linear (Poisson) models of error rates with cluster-robust variances: generalised estimating equations.

Errors are counts per reference word, and clips of one speaker are alike. A log-linear model of the rate is fitted
with every word counting alike, so that its ratios are those of pooled rates; all variances come from whole clusters.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FURTHEST = 12.0
"""Log ratio between the ends of a column beyond which its coefficient counts as divergent."""
_DEPENDENT = 1e-9
_BLOCK = 4096
"""Clusters processed at once, each with a matrix of p by p."""
_MOST_HELD = 2**23
"""Numbers of all clusters' parts of the bread up to which they are kept with a fit."""
_ALIKE = 1e-9
"""Share of the model's own variance below which clusters count as equal."""
_STEPS = 100


class NotFitted(ValueError):
    """The model has no usable fit for these clips; the message states the reason.

    Parameters
    ----------
    column
        Which column of the design is at fault, counted from 0; None where it is none in particular.
    """

    def __init__(self, reason: str, *, column: int | None = None) -> None:
        super().__init__(reason)
        self.column = column


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonFit:
    """A fitted log-linear model of error rates, with the contributions of each cluster (speaker).

    Parameters
    ----------
    coefficients
        Log rate ratios, shape (p,).
    covariance
        Bias-reduced covariance over clusters, shape (p, p) (Mancl and DeRouen 2001, equation 7), with `unseen` added.
    unseen
        Roots of the variance along the directions in which the clusters do not differ at all, shape (directions, p):
        there it is the model's, that of Poisson counts. Mostly there are none.
    robust
        Plain sandwich covariance, shape (p, p) (Liang and Zeger 1986).
    influence
        How far each cluster moved the coefficients, shape (clusters, p), rows in the order of the sorted
        cluster numbers; `influence.T @ influence` is `robust`.
    reduced
        The same with each cluster's own fit to itself taken out; `reduced.T @ reduced + unseen.T @ unseen` is
        `covariance`.
    clusters
        How many clusters.
    dispersion
        Pearson's chi-square per degree of freedom, over clips; 1 for Poisson counts.
    expected
        Errors of each clip that the model expects, shape (clips,).
    weighted
        Orthonormal columns of the design times the root of what is expected, shape (clips, p).
    cluster
        Number of the cluster of each clip, counted from 0 in their sorted order, shape (clips,).
    back
        Coefficients of the design from those of the orthonormal columns, shape (p, p).
    held
        Each cluster's part of the bread, shape (clusters, p, p); None where that would be large, and is made anew.
    """

    coefficients: Floats
    covariance: Floats
    unseen: Floats
    robust: Floats
    influence: Floats
    reduced: Floats
    clusters: int
    dispersion: float
    expected: Floats
    weighted: Floats
    cluster: NDArray[np.int64]
    back: Floats
    held: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """What is known of clips of one cluster and one row of the design that were added up to a row each.

    Parameters
    ----------
    clips
        How many they were.
    squares
        The sum of errors^2 / size over the clips of each row, shape (rows,).
    """

    clips: int
    squares: Floats


def fit_poisson_gee(
    errors: Floats, sizes: Floats, design: Floats, clusters: NDArray[np.int64], *, summed: Summed | None = None
) -> PoissonFit:
    """Fit log E(errors) = log(sizes) + design @ coefficients, with variances from whole clusters.

    Generalised estimating equations whose working correlation is that of independent clips (Liang and Zeger 1986):
    with one attribute alone its ratios are those of the pooled rates, also where those who speak much err otherwise.
    An exchangeable correlation would give the clips of a talkative speaker less weight, and so answer another question.

    Parameters
    ----------
    errors, sizes
        Errors and reference words of each clip, shape (clips,); sizes above 0.
    design
        Shape (clips, p), with its own column of ones.
    clusters
        Number of the speaker of each clip, shape (clips,).
    summed
        Where a row stands for several clips: all but the dispersion is the same for their sums.

    Raises
    ------
    NotFitted
        With the reason: too few clusters, a column that depends on others, a level without an error or with
        one cluster only, no spread, no convergence.

    Examples
    --------
    Six speakers of one clip of ten words each; 6 errors in 30 words of the first group, 12 in 30 of the second.

    >>> errors, sizes = np.array([1.0, 2, 3, 2, 4, 6]), np.full(6, 10.0)
    >>> design = np.array([[1.0, 0]] * 3 + [[1.0, 1]] * 3)
    >>> fit = fit_poisson_gee(errors, sizes, design, np.arange(6))
    >>> np.exp(fit.coefficients).round(6).tolist()
    [0.2, 2.0]
    """
    _checked(errors, sizes, design, clusters)
    cluster = np.unique(clusters, return_inverse=True)[1]
    basis, triangle = _basis(errors, design, cluster)
    with np.errstate(all="ignore"):
        found = _solved(errors, sizes, basis)
    # Back from the orthonormal columns, in which every fit is well conditioned, to those of the caller.
    back: Floats = np.linalg.inv(triangle).astype(np.float64)
    coefficients = back @ found
    reach = np.abs(coefficients) * np.ptp(design, axis=0)
    if reach.max() > FURTHEST:
        column = int(reach.argmax())
        reason = f"the rates at the two ends of column {column} differ e^{reach[column]:.0f}-fold: it runs away"
        raise NotFitted(reason, column=column)
    expected = sizes * np.exp(basis @ found)
    residual = (errors - expected) / np.sqrt(expected)
    weighted = basis * np.sqrt(expected)[:, None]
    score = _sums(weighted * residual[:, None], cluster)
    influence = np.linalg.solve(weighted.T @ weighted, score.T).T @ back.T
    held = _held(weighted, cluster, len(score))
    reduced = _reduced(weighted, cluster, score, held) @ back.T
    covariance = reduced.T @ reduced
    unseen = _unseen(covariance, weighted, back)
    if len(unseen):
        covariance = covariance + unseen.T @ unseen
    return PoissonFit(
        coefficients=coefficients,
        covariance=covariance,
        unseen=unseen,
        robust=influence.T @ influence,
        influence=influence,
        reduced=reduced,
        clusters=len(influence),
        dispersion=_squares(errors, sizes, expected, residual, summed)
        / ((summed.clips if summed else errors.size) - design.shape[1]),
        expected=expected,
        weighted=weighted,
        cluster=cluster,
        back=back,
        held=held,
    )


def _squares(errors: Floats, sizes: Floats, expected: Floats, residual: Floats, summed: Summed | None) -> float:
    """Return Pearson's chi-square over clips: the sum of (errors - expected)^2 / expected."""
    if summed is None:
        return float(residual @ residual)
    return float(summed.squares @ (sizes / expected) - 2 * errors.sum() + expected.sum())


def without_each(fit: PoissonFit, contrasts: Floats) -> tuple[Floats, Floats]:
    """Return, under the model, the variance of each cluster's move of contrasts, and the part that clusters share.

    With bread B = sum_s B_s and x_s = (B - B_s)^-1 c, cluster s moves the contrast c by g_s = x_s' t_s, t_s its score.
    Where the model's variance holds, cov(g_s, g_r) = [s = r] x_s' B_s x_s - h_s' h_r with h_s = B^(-1/2) B_s x_s.

    Parameters
    ----------
    contrasts
        Shape (q, p).

    Returns
    -------
    The own parts x_s' B_s x_s, shape (clusters, q, q), and h, shape (clusters, q, p).
    """
    bread = fit.weighted.T @ fit.weighted
    aims = contrasts @ fit.back
    root = np.linalg.inv(np.linalg.cholesky(bread))
    own = np.empty((fit.clusters, len(aims), len(aims)))
    shared = np.empty((fit.clusters, *aims.shape))
    for part, held in _by_block(fit.weighted, fit.cluster, fit.clusters, fit.held):
        alone = np.linalg.solve(bread - held, aims.T[None]).transpose(0, 2, 1)
        # B_s x_s = B x_s - c.
        inside = alone @ bread - aims
        own[part] = alone @ inside.transpose(0, 2, 1)
        shared[part] = inside @ root.T
    return own, shared


def _checked(errors: Floats, sizes: Floats, design: Floats, clusters: NDArray[np.int64]) -> None:
    clips = errors.size
    if any(array.shape != (clips,) for array in (errors, sizes, clusters)) or design.shape[:-1] != (clips,):
        raise ValueError(f"{clips} errors, but sizes, design and clusters of other lengths")
    if not (np.isfinite(errors).all() and np.isfinite(sizes).all() and np.isfinite(design).all()):
        raise ValueError("errors, sizes and design must be finite")
    if (errors < 0).any() or (sizes <= 0).any():
        raise ValueError("errors below 0, or clips without reference words")


def _basis(errors: Floats, design: Floats, cluster: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the QR factors of the design, or raise `NotFitted` with the reason."""
    needed, present = design.shape[1] + 2, int(cluster.max(initial=-1)) + 1
    if present < needed:
        raise NotFitted(f"{present} clusters for {design.shape[1]} columns, at least {needed} are needed")
    if not errors.any():
        raise NotFitted("no errors at all")
    if (column := _first_dependent(design)) is not None:
        raise NotFitted(f"column {column} of the design depends on those before it", column=column)
    # Poisson coefficients are finite if the clips with errors tell the columns apart: a level without errors
    # is a column of zeros there, and one whose reference has none adds up to the columns before it.
    if (column := _first_dependent(design[errors > 0])) is not None:
        reason = f"a level of column {column}, or the one it is compared with, has no errors: no finite ratio"
        raise NotFitted(reason, column=column)
    scale = np.sqrt((design**2).mean(axis=0))
    basis, triangle = np.linalg.qr(design / scale)
    _refuse_sole_cluster(basis, triangle / np.abs(triangle).max(), cluster)
    root = np.sqrt(len(design))
    return basis * root, triangle * scale / root


def _first_dependent(design: Floats) -> int | None:
    length = np.sqrt((design**2).sum(axis=0))
    diagonal = np.abs(np.diagonal(np.linalg.qr(design / np.where(length > 0, length, 1.0), mode="r")))
    # With fewer clips than columns the first column too many depends on the others, whatever is in it.
    small = np.append(np.flatnonzero(diagonal < _DEPENDENT), diagonal.size)
    return int(small[0]) if small[0] < design.shape[1] else None


def _refuse_sole_cluster(basis: Floats, triangle: Floats, cluster: NDArray[np.int64]) -> None:
    """Refuse a coefficient that a single cluster decides: between clusters it has no variance to estimate."""
    leverage = np.bincount(cluster, (basis**2).sum(axis=1))
    # The leverages add up to p, so that only a few clusters can hold a whole direction.
    for sole in np.flatnonzero(leverage > 1 - _DEPENDENT):
        values, directions = np.linalg.svd(basis[cluster == sole], full_matrices=False)[1:]
        if values[0] > 1 - _DEPENDENT:
            column = int(np.abs(np.linalg.solve(triangle, directions[0])).argmax())
            raise NotFitted(f"one cluster alone decides the coefficient of column {column}", column=column)


def _solved(errors: Floats, sizes: Floats, basis: Floats) -> Floats:
    """Return the coefficients by Newton's method with step halving; the likelihood is concave."""
    offset = np.log(sizes)
    # The columns need not hold that of ones by itself: the nearest to the rate of all.
    found: Floats = np.linalg.lstsq(basis, np.full(len(basis), np.log(errors.sum()) - np.log(sizes.sum())), rcond=None)[
        0
    ]

    def height(at: Floats) -> float:
        line = basis @ at
        return float(errors @ line - np.exp(np.minimum(offset + line, 700.0)).sum())

    best = height(found)
    for _ in range(_STEPS):
        expected = np.exp(np.minimum(offset + basis @ found, 700.0))
        gradient = basis.T @ (errors - expected)
        try:
            step = np.linalg.solve((basis * expected[:, None]).T @ basis, gradient)
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(step).all():
            break
        gain = float(gradient @ step)
        if gain <= 1e-18 * max(errors.sum(), 1.0):
            # The last Newton step is taken in full: close to the maximum it only refines.
            return found + step
        size = 1.0
        while (reached := height(found + size * step)) < best - 1e-9 * abs(best) and size > 1e-9:
            size /= 2
        found, best = found + size * step, max(reached, best)
    raise NotFitted("the fit did not converge: no finite estimates")


def _unseen(covariance: Floats, weighted: Floats, back: Floats) -> Floats:
    """Return square roots of the model's variance in directions where the clusters show none, shape (directions, p).

    As where all speakers of a level have the very same rate: they say nothing of its spread. The directions are those
    of the covariance over the model's own, the inverse of its bread.
    """
    root = back @ np.linalg.inv(np.linalg.cholesky(weighted.T @ weighted)).T
    half = np.linalg.inv(root)
    values, directions = np.linalg.eigh(half @ covariance @ half.T)
    found: Floats = (root @ directions[:, values <= _ALIKE]).T
    return found


def _held(weighted: Floats, cluster: NDArray[np.int64], clusters: int) -> Floats | None:
    """Return each cluster's part of the bread where all of them together take little memory."""
    if clusters * weighted.shape[1] ** 2 > _MOST_HELD:
        return None
    return _products(weighted, cluster, clusters)


def _reduced(weighted: Floats, cluster: NDArray[np.int64], score: Floats, kept: Floats | None) -> Floats:
    """Return the score of each cluster over B - B_s, B_s its part of the bread B = sum_s B_s.

    That is Mancl and DeRouen's (I - H_s)^-1 (y - mu) without matrices as large as a cluster has clips.
    """
    bread = weighted.T @ weighted
    found = np.empty_like(score)
    for part, held in _by_block(weighted, cluster, len(score), kept):
        found[part] = np.linalg.solve(bread - held, score[part, :, None])[:, :, 0]
    return found


def _by_block(
    weighted: Floats, cluster: NDArray[np.int64], clusters: int, kept: Floats | None
) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of clusters with their parts of the bread, shape (clusters of the block, p, p)."""
    for start in range(0, clusters, _BLOCK):
        part = slice(start, min(start + _BLOCK, clusters))
        if kept is not None:
            yield part, kept[part]
            continue
        inside = (cluster >= start) & (cluster < part.stop)
        yield part, _products(weighted[inside], cluster[inside] - start, part.stop - start)


def _products(values: Floats, cluster: NDArray[np.int64], clusters: int) -> Floats:
    """Return the sums over each cluster of the products of all pairs of columns, shape (clusters, p, p)."""
    columns = values.shape[1]
    found = np.empty((clusters, columns, columns))
    for one in range(columns):
        for other in range(one, columns):
            products = np.bincount(cluster, values[:, one] * values[:, other], minlength=clusters)
            found[:, one, other] = found[:, other, one] = products
    return found


def _sums(values: Floats, cluster: NDArray[np.int64]) -> Floats:
    summed: Floats = np.stack([np.bincount(cluster, column) for column in values.T], axis=1)
    return summed
