"""Robust score tests of further columns of a fitted model of error rates, without refitting."""

import numpy as np
from numpy.typing import NDArray

from audits.statistics.linearised import Differences

Floats = NDArray[np.float64]
BLOCK = 64


def score_effects(
    errors: Floats, expected: Floats, design: Floats, extra: Floats, clusters: NDArray[np.int64]
) -> Differences:
    """Return the robust score test of each extra column of a log-linear model of errors.

    With residuals e = errors - expected, weights W = diag(expected) and z the extra column less its W-weighted
    projection on the design, the score is sum_s u_s over clusters s, u_s = sum_i z_i e_i, its variance
    m / (m - 1) sum_s u_s^2 (Boos 1992, "On generalized score tests"). `value` is one step towards the excess,
    score / sum_i z_i^2 W_i: for a column of a group, about its errors over those expected, less 1.

    Parameters
    ----------
    errors, expected
        Of every clip, and what the fitted model expects, shape (clips,).
    design, extra
        Columns of the fitted model, (clips, p), and those to test one by one, (clips, k).
    clusters
        Number of each clip's cluster, from 0, shape (clips,).

    Examples
    --------
    >>> errors, clusters = np.array([1.0, 3.0, 3.0, 5.0]), np.arange(4)
    >>> extra = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> found = score_effects(errors, np.full(4, 3.0), np.ones((4, 1)), extra, clusters)
    >>> float(found.value[0])  # 2 more errors in a group of 2 clips, shared with the rest by the common rate
    0.6666666666666666
    """
    weighted = design * expected[:, None]
    normal = weighted.T @ design
    value, error, freedom = (np.full(extra.shape[1], np.nan) for _ in range(3))
    residual = (errors - expected)[:, None]
    count = int(clusters.max(initial=-1)) + 1
    for start in range(0, extra.shape[1], BLOCK):
        part = extra[:, start : start + BLOCK]
        apart = part - design @ np.linalg.lstsq(normal, weighted.T @ part, rcond=None)[0]
        information = (apart**2 * expected[:, None]).sum(0)
        scores = np.zeros((count, part.shape[1]))
        np.add.at(scores, clusters, apart * residual)
        inside = np.zeros((count, part.shape[1]))
        np.add.at(inside, clusters, np.abs(part))
        people = (inside > 0).sum(0)
        there = information > 1e-9 * np.maximum((part**2 * expected[:, None]).sum(0), 1e-300)
        chosen = slice(start, start + part.shape[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            value[chosen] = np.where(there, scores.sum(0) / information, np.nan)
            spread = np.sqrt((scores**2).sum(0) * count / max(count - 1, 1))
            error[chosen] = np.where(there, spread / information, np.nan)
        # The smaller side, speakers with the column or without it, decides how well the variance is known.
        freedom[chosen] = np.maximum(np.minimum(people, count - people) - 1, 1)
    return Differences(value=value, error=error, freedom=freedom)
