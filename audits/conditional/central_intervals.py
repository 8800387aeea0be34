"""Central intervals: of draws by their ranks, of quantiles by their levels; and how many ranks lie outside."""

import numpy as np

from probes.conditional.laws import Floats

NEAR_LEVEL = 0.03
"""How far the level that draws reach may be from the level that is asked for."""


def ranks_outside(draws: int, level: float, d: int) -> int | None:
    """Return how many ranks lie outside of the interval of a level; None where so few draws do not reach it.

    One column has a central interval, with as many ranks below as above: (K + 1 - 2 r) / (K + 1) of true outcomes lie
    inside. More columns have a ball about the mean of the draws: r / (K + 1) lie inside, and K + 1 - r ranks outside.

    >>> ranks_outside(19, 0.9, 1), ranks_outside(19, 0.9, 2), ranks_outside(19, 0.99, 1)
    (1, 2, None)
    """
    sides = 2 if d == 1 else 1
    outside = max(1, round((draws + 1) * (1 - level) / sides))
    held = 1 - sides * outside / (draws + 1)
    return outside if held > 0 and abs(held - level) <= NEAR_LEVEL else None


def width_of(samples: Floats, outside: int) -> Floats:
    """Return the width of the interval, or the diameter of the ball, with so many ranks outside; shape (n,)."""
    draws, d = samples.shape[1:]
    if d == 1:
        ordered = np.sort(samples[:, :, 0], axis=1)
        return np.asarray(ordered[:, draws - outside] - ordered[:, outside - 1])
    away = np.linalg.norm(samples - samples.mean(1, keepdims=True), axis=2)
    return np.asarray(2 * np.sort(away, axis=1)[:, draws - outside])


def central_pair(levels: Floats, level: float) -> tuple[int, int] | None:
    """Return the places of the quantiles between which a share `level` lies, or None.

    >>> central_pair(np.array([0.05, 0.5, 0.95]), 0.9), central_pair(np.array([0.05, 0.5, 0.95]), 0.8)
    ((0, 2), None)
    """
    found = [int(np.abs(levels - end).argmin()) for end in ((1 - level) / 2, (1 + level) / 2)]
    near = np.abs(levels[found] - [(1 - level) / 2, (1 + level) / 2]) < 1e-6
    return (found[0], found[1]) if near.all() else None


def quantiles_of(samples: Floats, levels: Floats) -> Floats:
    """Return quantiles of draws of one column, shape (n, levels)."""
    return np.asarray(np.quantile(samples[:, :, 0], levels, axis=1).T)


def central_of(samples: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of the central interval of draws of one column."""
    low, high = np.quantile(samples[:, :, 0], [(1 - level) / 2, (1 + level) / 2], axis=1)
    return low, high
