"""Divergence curves of two histograms, which tell missing mass from excess mass: MAUVE, PRD, frontier integral.

One histogram is of the reference p, one of the generated q, over the same buckets. Every measure takes many pairs at
once: counts of shape (..., buckets), such as those of the same clusters under many resamples.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

Counts = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]
Floats = NDArray[np.float64]

EDGE = 1e-6
"""Least weight of either histogram in a mixture on MAUVE's curve."""


def mauve(p_counts: Counts, q_counts: Counts, *, scaling: float = 5.0, points: int = 25) -> Floats:
    """Return MAUVE, the area under the divergence curve: 1 where the histograms are the same.

    With the mixtures r = w p + (1 - w) q the curve runs through x(w) = exp(-c KL(q | r)), y(w) = exp(-c KL(p | r)),
    and from (1, 0) to (0, 1) at its ends (Pillutla et al. 2021). Its area is that below straight
    lines between points; without any bucket in common it is not 0 but near c B(c + 1, c), 0.004 at c = 5.

    Parameters
    ----------
    p_counts, q_counts
        Shape (..., buckets); a bucket that both leave empty changes nothing.
    scaling
        c, above 0: the larger, the lower the score.
    points
        Number of mixtures, evenly spaced in w from `EDGE` to 1 - `EDGE`.

    Returns
    -------
    NDArray
        Shape (...).

    Raises
    ------
    ValueError
        Where a histogram is empty or holds a negative count, or the numbers of buckets differ.

    Examples
    --------
    >>> mauve(np.array([[2, 2], [4, 0]]), np.array([[1, 1], [0, 4]])).round(3).tolist()
    [1.0, 0.004]
    """
    if scaling <= 0 or points < 2:
        raise ValueError(f"a scaling of {scaling} and {points} points: above 0 and at least 2 are needed")
    p, q = _shares(p_counts, q_counts)
    x, y = np.zeros((2, points + 2, *p.shape[:-1]))
    x[0], y[-1] = 1.0, 1.0
    # At 0 or 1 itself, a bucket that one side leaves empty would make a divergence infinite.
    for index, weight in enumerate(np.linspace(EDGE, 1 - EDGE, points), start=1):
        mixture = weight * p + (1 - weight) * q
        x[index] = np.exp(-scaling * rel_entr(q, mixture).sum(-1))
        y[index] = np.exp(-scaling * rel_entr(p, mixture).sum(-1))
    # x falls and y rises along the curve, so that no sorting is needed, and ties cannot be put in a wrong order.
    area = -0.5 * (np.diff(x, axis=0) * (y[1:] + y[:-1])).sum(0)
    return np.asarray(np.minimum(area, 1.0))


def frontier_integral(p_counts: Counts, q_counts: Counts) -> Floats:
    """Return the frontier integral: 0 for equal histograms, 1 for histograms without a common bucket.

    2 * integral over w of w KL(p | r) + (1 - w) KL(q | r), r = w p + (1 - w) q, is the sum over buckets of
    (p + q) / 2 - p q log(p / q) / (p - q) (Liu et al. 2021).

    Parameters
    ----------
    p_counts, q_counts
        Shape (..., buckets).

    Returns
    -------
    NDArray
        Shape (...).

    Raises
    ------
    ValueError
        As in `mauve`.

    Examples
    --------
    >>> frontier_integral(np.array([[2, 2], [4, 0]]), np.array([[1, 1], [0, 4]])).tolist()
    [0.0, 1.0]
    """
    p, q = _shares(p_counts, q_counts)
    low, gap = np.minimum(p, q), np.abs(p - q)
    apart = (low > 0) & (gap > 0)
    # log(p / q) of nearly equal shares would lose its digits; log1p of their relative gap does not.
    ratio = np.divide(gap, low, out=np.zeros_like(gap), where=apart)
    slope = np.divide(np.log1p(ratio), gap, out=np.zeros_like(gap), where=apart)
    terms = np.where(apart | (low == 0), 0.5 * (p + q) - p * q * slope, 0.0)
    return np.asarray(np.clip(terms, 0.0, None).sum(-1).clip(max=1.0))


def prd_slopes(points: int) -> Floats:
    """Return the tangents of evenly spaced angles strictly inside (0, pi / 2), shape (points,), ascending.

    Examples
    --------
    >>> prd_slopes(3).round(3).tolist()
    [0.414, 1.0, 2.414]
    """
    if points < 1:
        raise ValueError(f"{points} slopes: at least 1 is needed")
    slopes: Floats = np.tan(np.arange(1, points + 1) * (np.pi / 2 / (points + 1)))
    return slopes


def prd_curve(p_counts: Counts, q_counts: Counts, lambdas: Floats) -> tuple[Floats, Floats]:
    """Return the PRD curve: precision and recall of q against p for every trade-off lambda.

    Precision alpha = sum min(lambda p, q) and recall beta = sum min(p, q / lambda) = alpha / lambda (Sajjadi et al.
    2018). Each lambda is an f-divergence of its own between p and q, and every f-divergence is a
    mixture of these (Verine et al. 2023); at lambda = 1 both are 1 less the total variation.

    Parameters
    ----------
    p_counts, q_counts
        Of the reference and of the generated, shape (..., buckets).
    lambdas
        Above 0 and finite, shape (lambdas,).

    Returns
    -------
    tuple
        Precision and recall, shape (..., lambdas) each.

    Raises
    ------
    ValueError
        As in `mauve`, and where a lambda is not above 0 and finite.

    Examples
    --------
    >>> precision, recall = prd_curve(np.array([2, 2, 0]), np.array([0, 2, 2]), np.array([0.5, 1.0, 2.0]))
    >>> precision.tolist(), recall.tolist()
    ([0.25, 0.5, 0.5], [0.5, 0.5, 0.25])
    """
    if not (np.isfinite(lambdas) & (lambdas > 0)).all():
        raise ValueError("a lambda that is not above 0 and finite")
    p, q = _shares(p_counts, q_counts)
    rows = zip(p.reshape(-1, p.shape[-1]), q.reshape(-1, q.shape[-1]), strict=True)
    precision = np.array([_precision(one, other, lambdas) for one, other in rows])
    precision = precision.reshape(*p.shape[:-1], len(lambdas))
    return np.minimum(precision, 1.0), np.minimum(precision / lambdas, 1.0)


def prd_scores(p_counts: Counts, q_counts: Counts, *, beta: float = 8.0, slopes: int = 999) -> tuple[Floats, Floats]:
    """Return precision and recall as one number each: the largest F_(1/beta) and F_beta on the curve.

    F_b = (1 + b^2) precision recall / (b^2 precision + recall), over `slopes` lambdas of `prd_slopes` (Sajjadi et al.
    2018).

    Parameters
    ----------
    p_counts, q_counts
        Of the reference and of the generated, shape (..., buckets).
    beta
        How many times as much recall weighs as precision in the recall score, and the other way round; above 0.

    Returns
    -------
    tuple
        Precision and recall, shape (...) each; both are 0 without a bucket in common.

    Raises
    ------
    ValueError
        As in `mauve`, and where beta is not above 0.

    Examples
    --------
    >>> precision, recall = prd_scores(np.array([2, 2]), np.array([0, 4]))
    >>> float(precision.round(3)), float(recall.round(3))
    (0.985, 0.504)
    """
    if beta <= 0:
        raise ValueError(f"a beta of {beta}: above 0 is needed")
    alpha, other = prd_curve(p_counts, q_counts, prd_slopes(slopes))
    return _best_f(alpha, other, 1 / beta), _best_f(alpha, other, beta)


def _best_f(precision: Floats, recall: Floats, beta: float) -> Floats:
    below = beta**2 * precision + recall
    products = (1 + beta**2) * precision * recall
    best: Floats = np.divide(products, below, out=np.zeros_like(below), where=below > 0).max(-1)
    return best


def _precision(p: Floats, q: Floats, lambdas: Floats) -> Floats:
    """Return sum min(lambda p, q): q in the buckets where q / p is below lambda, lambda p in the others."""
    ratios = np.divide(q, p, out=np.full_like(q, np.inf), where=p > 0)
    order = np.argsort(ratios)
    cut = np.searchsorted(ratios[order], lambdas)
    # Summed from either end, so that no difference of sums leaves a rest where the true value is 0.
    below = np.concatenate([[0.0], np.cumsum(q[order])])
    above = np.concatenate([np.cumsum(p[order][::-1])[::-1], [0.0]])
    found: Floats = below[cut] + lambdas * above[cut]
    return found


def _shares(p_counts: Counts, q_counts: Counts) -> tuple[Floats, Floats]:
    if p_counts.shape[-1:] != q_counts.shape[-1:] or not p_counts.ndim:
        raise ValueError(f"histograms of shapes {p_counts.shape} and {q_counts.shape} have other buckets")
    for counts in (p_counts, q_counts):
        totals = counts.sum(-1)
        if not ((counts >= 0).all() and (totals > 0).all() and np.isfinite(totals).all()):
            raise ValueError("a histogram is empty or holds counts that are negative or no numbers")
    p, q = np.broadcast_arrays(*(counts / counts.sum(-1, keepdims=True) for counts in (p_counts, q_counts)))
    return p, q
