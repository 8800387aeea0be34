"""Gaps between the adjusted rates of an attribute's levels, as differences of rates rather than ratios."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.statistics.poisson_gee import Floats, PoissonFit
from audits.statistics.poisson_tests import Ends, contrast_of, freedom_by_design

_FARTHEST = 50.0
"""Log ratio beyond which an end is the highest possible rate anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedRates:
    """The adjusted rates of some levels, shape (levels,), and contrasts of the model's coefficients.

    Parameters
    ----------
    logs
        Contrasts that are the log ratio of each level to that of reference, shape (levels, p).
    moves
        Contrasts by which the log rate of each level changes, to first order, shape (levels, p).
    """

    value: Floats
    logs: Floats
    moves: Floats


def adjusted_rates(fit: PoissonFit, logs: Floats, sizes: Floats, levels: NDArray[np.int64]) -> AdjustedRates:
    """Return rates that have the adjusted ratios and, over all words, add up to the observed errors.

    With ratios exp(b_l) and words N_l of each level, r_l = exp(b_l) sum_i m_i / sum_k exp(b_k) N_k over the errors m_i
    that the model expects: as many as there were (indirect standardisation). With nothing else in the model these are
    the pooled rates. Both sums change with the coefficients, which `moves` takes along (the delta method).

    Parameters
    ----------
    logs
        Contrasts that are the log ratio of each level to that of reference, shape (levels, p).
    sizes, levels
        Reference words of each clip, and the place of its level, -1 of those in none that is compared; (clips,).
    """
    inside = levels >= 0
    words = np.bincount(levels[inside], sizes[inside], minlength=len(logs))
    ratios = np.exp(logs @ fit.coefficients)
    errors = float(fit.expected[inside].sum())
    value = ratios * errors / float(ratios @ words)
    gradient = np.linalg.solve(fit.back.T, fit.weighted[inside].T @ np.sqrt(fit.expected[inside]))
    moves = logs + gradient / errors - (value * words / errors) @ logs
    return AdjustedRates(value=value, logs=logs, moves=moves)


def adjusted_gap(
    fit: PoissonFit, rates: AdjustedRates, pair: tuple[int, int], *, level: float, top: float
) -> tuple[Ends, Ends]:
    """Return the log ratio and the difference of two adjusted rates, valid whichever pair was picked.

    The log ratio is Student's, with the degrees of freedom of its own two levels (Games and Howell 1976). The
    difference puts the ends l, u of both rates together (Zou 2007, equation 5), c the correlation of their errors:
    low = a - b - sqrt((a - l_a)^2 + (u_b - b)^2 - 2 c (a - l_a) (u_b - b)), and high likewise. The ends of a rate r are
    max(0, r - r t s) and r exp(t s), s the standard error of its logarithm: rates are skewed to the right.

    Parameters
    ----------
    pair
        Places of the two levels.
    top
        Highest rate that there can be: 1, or that of the cluster with the highest.

    Returns
    -------
    Value, low and high of the log ratio, and of the difference.
    """
    from scipy.stats import t

    tail = joint_tail(len(rates.value), level)
    one, other = pair
    log_ratio, spread, known = contrast_of(fit, rates.logs[one] - rates.logs[other])
    half = spread * float(t.isf(tail, known))
    moves = rates.moves[list(pair)]
    covariance = moves @ fit.covariance @ moves.T
    errors = np.sqrt(np.diagonal(covariance))
    # The skew is in the ends already, so that the design alone says how well each error is known.
    counted = [max(1.0, freedom_by_design(fit, row[None])) for row in moves]
    reach = [min(float(error * t.isf(tail, own)), _FARTHEST) for error, own in zip(errors, counted, strict=True)]
    shared = max(-1.0, min(1.0, float(covariance[0, 1] / (errors[0] * errors[1]))))
    values = [float(rates.value[row]) for row in pair]
    down = [value * min(1.0, out) for value, out in zip(values, reach, strict=True)]
    up = [
        max(min(value * float(np.exp(out)), top) - value, value * out if value >= top else 0.0)
        for value, out in zip(values, reach, strict=True)
    ]
    gap = values[0] - values[1]
    return (log_ratio, log_ratio - half, log_ratio + half), (
        gap,
        gap - _added(down[0], up[1], shared),
        gap + _added(up[0], down[1], shared),
    )


def _added(one: float, other: float, correlation: float) -> float:
    return float(np.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0)))


def joint_tail(groups: int, level: float) -> float:
    """Return the tail probability of each pair's interval for which all pairs hold jointly.

    The normal tail at which the studentised range of so many groups stands (Tukey).

    Examples
    --------
    >>> [round(joint_tail(groups, 0.95), 4) for groups in (2, 3, 10)]
    [0.025, 0.0095, 0.0008]
    """
    from scipy.stats import norm, studentized_range

    if groups == 2:
        return (1.0 - level) / 2
    reach = float(studentized_range.isf(1.0 - level, groups, np.inf)) / np.sqrt(2.0)
    # For tails below the accuracy of the integral, Bonferroni's is as good.
    bound = (1.0 - level) / (groups * (groups - 1))
    found = float(norm.sf(reach))
    return min(max(found, bound), (1.0 - level) / 2) if np.isfinite(found) else bound
