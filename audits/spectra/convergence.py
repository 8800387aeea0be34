"""Fits of how the mismatch grows with the resolution: a law of first order, and the order that fits best."""

from collections.abc import Sequence

import numpy as np

from audits.spectra.counts import Floats

ORDERS = np.arange(0.1, 4.001, 0.01)
"""Orders of convergence that are tried, before the best is found between its neighbours."""


def law(steps: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Fit mismatch = c (1/s - 1/S) and return c and R^2; the grid of training, where both are zero, counts too.

    Parameters
    ----------
    steps
        1/s - 1/S of every finer grid, shape (grids,).
    means
        Mismatch, shape (..., grids).

    Examples
    --------
    >>> c, r2 = law(np.array([0.1, 0.2]), np.array([0.3, 0.6]))
    >>> round(float(c), 6), round(float(r2), 6)
    (3.0, 1.0)
    """
    slope = (means * steps).sum(-1) / (steps**2).sum()
    left = ((means - slope[..., None] * steps) ** 2).sum(-1)
    count = means.shape[-1] + 1
    spread = (means**2).sum(-1) - means.sum(-1) ** 2 / count
    with np.errstate(invalid="ignore", divide="ignore"):
        return slope, np.asarray(1 - left / spread)


def order(coarse: int, finer: Sequence[int], means: Floats) -> Floats:
    """Return the order p within `ORDERS` for which c (s^-p - S^-p) fits the mismatch best, shape (...).

    Parameters
    ----------
    means
        Mismatch at every finer grid, shape (..., grids), two grids at least.

    Examples
    --------
    >>> finer = np.array([60, 120, 240])
    >>> round(float(order(30, finer.tolist(), 1 / 30**1.234 - 1.0 / finer**1.234)), 4)
    1.234
    """
    sizes = np.asarray(finer, dtype=float)
    shapes = coarse ** -ORDERS[:, None] - sizes ** -ORDERS[:, None]
    # Of unit length, so that what fits best does not depend on how steep a shape is.
    shapes /= np.linalg.norm(shapes, axis=1, keepdims=True)
    # The direction nearest to the mismatch leaves the least.
    near = means @ shapes.T
    best = np.argmax(near, axis=-1)
    # Between its neighbours by the parabola through the three: the digits shown are finer than the steps tried.
    inner = np.clip(best, 1, len(ORDERS) - 2)
    before, here, after = (np.take_along_axis(near, (inner + step)[..., None], -1)[..., 0] for step in (-1, 0, 1))
    bend = before - 2 * here + after
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.where((best == inner) & (bend < 0), (before - after) / (2 * bend), 0.0)
    return np.asarray(ORDERS[best] + np.clip(shift, -0.5, 0.5) * (ORDERS[1] - ORDERS[0]))
