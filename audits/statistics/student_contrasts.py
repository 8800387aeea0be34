"""Simultaneous contrasts of values by Student's t, each value with its own variance and degrees of freedom.

Where each value rests on few or unequal units, Student's distribution has few degrees of freedom, and a bootstrap of
the largest deviation promises too much. These intervals take the degrees of freedom as they are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 4000
FEWEST_BEYOND = 50
"""Least number of draws beyond a quantile for it to be used; with fewer, Bonferroni's bound is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentContrasts:
    """Contrasts with intervals and p-values that hold jointly; arrays of shape (contrasts,)."""

    value: Floats
    low: Floats
    high: Floats
    p: Floats


def student_contrasts(
    values: Floats, covariance: Floats, freedom: Floats, contrasts: Floats, rng: np.random.Generator, *, level: float
) -> StudentContrasts:
    """Return contrasts with joint intervals and p-values of no difference, by Student's t.

    Contrast c has the variance c'Vc, with Satterthwaite's (1946) degrees of freedom f_c. For the joint error the
    contrasts are drawn `DRAWS` times under no difference: normal with the covariance V, each variance anew from its
    chi-square distribution. Each |t| is put on one scale, z = sqrt(f log(1 + t^2 / f)) (8 f + 1) / (8 f + 3) (Wallace
    1959), and set against the largest z of each draw (single-step minP: Westfall and Young 1993). Never wider than
    Bonferroni's intervals.

    Parameters
    ----------
    values, freedom
        Of each group, shape (groups,).
    covariance
        Of the values, shape (groups, groups).
    contrasts
        Coefficients, shape (contrasts, groups).

    Examples
    --------
    >>> rows = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
    >>> found = student_contrasts(
    ...     np.array([0.3, 0.1, 0.1]), np.eye(3) / 400, np.full(3, 1e6), rows, np.random.default_rng(0), level=0.95
    ... )
    >>> np.round((found.high - found.value) * 20 / 2**0.5, 1).tolist(), bool(found.p[0] < 0.05 < found.p[2])
    ([2.3, 2.3, 2.3], True)
    """
    from scipy.special import stdtr, stdtrit

    count = len(contrasts)
    error = np.sqrt(np.maximum(np.einsum("cg,gh,ch->c", contrasts, covariance, contrasts), 1e-300))
    share = contrasts**2 * np.maximum(np.diag(covariance), 1e-100)
    left = share.sum(1) ** 2 / (share**2 / freedom).sum(1)
    value = contrasts @ values
    alone = 2 * stdtr(left, -np.abs(value) / error)
    quantile, p = stdtrit(left, 1 - (1 - level) / (2 * count)), np.minimum(1.0, alone * count)
    if count > 1:
        largest = _largest(covariance, freedom, contrasts, left, rng)
        p = np.minimum(p, (1 + (largest >= _scale(np.abs(value) / error, left)[:, None]).sum(1)) / (1 + DRAWS))
        if (1 - level) * DRAWS >= FEWEST_BEYOND:
            quantile = np.minimum(quantile, _unscale(float(np.quantile(largest, level)), left))
    return StudentContrasts(value=value, low=value - quantile * error, high=value + quantile * error, p=p)


def _largest(covariance: Floats, freedom: Floats, contrasts: Floats, left: Floats, rng: np.random.Generator) -> Floats:
    """Return the largest z over all contrasts of each draw."""
    groups = len(freedom)
    size, turned = np.linalg.eigh(covariance)
    drawn = rng.standard_normal((DRAWS, groups)) * np.sqrt(np.maximum(size, 0.0)) @ turned.T
    spread = np.sqrt(rng.chisquare(freedom, (DRAWS, groups)) / freedom)
    largest = np.zeros(DRAWS)
    # In slices: all pairs of a hundred groups by thousands of draws would not fit in memory.
    for start in range(0, len(contrasts), 256):
        rows = contrasts[start : start + 256]
        # c'SVSc with S the drawn spreads; without covariances it is a plain sum.
        if np.count_nonzero(covariance) == groups:
            variance = (spread**2 * np.diag(covariance)) @ (rows**2).T
        else:
            half = spread[:, None, :] * rows[None]
            variance = np.einsum("dcg,gh,dch->dc", half, covariance, half, optimize=True)
        t = np.abs(drawn @ rows.T) / np.sqrt(np.maximum(variance, 1e-300))
        np.maximum(largest, _scale(t, left[start : start + 256]).max(1), out=largest)
    return largest


def _scale(t: Floats, freedom: Floats) -> Floats:
    return np.asarray(np.sqrt(freedom * np.log1p(t**2 / freedom)) * (8 * freedom + 1) / (8 * freedom + 3))


def _unscale(z: float, freedom: Floats) -> Floats:
    return np.asarray(np.sqrt(freedom * np.expm1((z * (8 * freedom + 3) / (8 * freedom + 1)) ** 2 / freedom)))
