"""Which law of growth describes numbers best: Akaike weights with a floor on the relative error."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from audits.scaling.growth_claims import Law
from audits.scaling.rounds import median_errors, medians

Floats = NDArray[np.float64]

FLOOR = 0.02
"""Relative error that no law is asked to be better than: caches and alignments are in none of them."""
FAR = 256.0
"""Of counts, only sizes of the last factor in n as large as this are looked at."""
LAWS = (
    *(Law(Fraction(0)), Law(Fraction(0), 1), Law(Fraction(1)), Law(Fraction(1), 1)),
    *(Law(Fraction(4, 3)), Law(Fraction(3, 2)), Law(Fraction(2)), Law(Fraction(3))),
)


def law_weights(n: ArrayLike, values: Floats) -> dict[Law, float]:
    """Return the Akaike weight of each law, each with a constant beside it; they sum to 1. Empty of too few sizes.

    AICc of Gaussian relative errors of known size: the floor, and of seconds the error of a median over rounds too.

    Parameters
    ----------
    n
        Sizes, rising.
    values
        Seconds of shape (rounds, sizes), NaN where a cell is missing; or counts of shape (sizes,).
    """
    sizes = np.asarray(n, np.float64)
    if values.ndim == 1:
        kept = (values > 0) & (sizes * FAR >= sizes[-1] * (1 - 1e-9))
        middle, spread = values, np.zeros(values.shape)
    else:
        kept = np.isfinite(values).any(axis=0)
        middle, spread = medians(values), median_errors(values)
    if kept.sum() > 1 and np.ptp(middle[kept]) == 0:
        # Every law fits with a factor of 0.
        return {law: float(law == LAWS[0]) for law in LAWS}
    middle, errors = middle[kept], np.sqrt(spread[kept] ** 2 + FLOOR**2)
    if middle.size < 4:
        return {}
    scores = np.array([_score(sizes[kept], middle, errors, law) for law in LAWS])
    weights = np.exp((scores.min() - scores) / 2)
    return dict(zip(LAWS, (weights / weights.sum()).tolist(), strict=True))


def _score(sizes: Floats, middle: Floats, errors: Floats, law: Law) -> float:
    columns = [np.ones(sizes.size)] if law == LAWS[0] else [np.ones(sizes.size), law.values(sizes)]
    design = np.stack(columns, axis=1) / (middle * errors)[:, None]
    scale = np.linalg.norm(design, axis=0)
    _, rest = nnls(design / scale, 1 / errors)
    free, count = len(columns), sizes.size
    return float(rest**2 + 2 * free + 2 * free * (free + 1) / (count - free - 1))
