"""Correction of p-values for multiple testing: Holm, and Benjamini and Hochberg."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

MaybeEnds = tuple[float, float | None, float | None]
"""A value and the ends of its interval, None if it has none."""


def adjust(p_values: Sequence[float], method: Literal["holm", "bh"]) -> list[float]:
    """Return adjusted p-values, by Holm (family-wise error) or Benjamini-Hochberg (false discovery rate).

    Examples
    --------
    >>> [round(p, 3) for p in adjust([0.01, 0.04, 0.03], "holm")]
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    ranks = np.arange(p.size)
    # statsmodels has both, but collects garbage at every call, which takes half a second once torch is loaded.
    if method == "holm":
        steps = np.maximum.accumulate(p[order] * (p.size - ranks))
    else:
        steps = np.minimum.accumulate((p[order] * p.size / (ranks + 1))[::-1])[::-1]
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(value) for value in adjusted]


def scaled(raw: MaybeEnds, adjusted: float) -> MaybeEnds:
    """Return an adjusted p-value with the Monte Carlo ends of the raw one scaled alike, never above 1.

    Examples
    --------
    >>> scaled((0.01, 0.005, 0.02), 0.03), scaled((0.01, None, None), 0.03)
    ((0.03, 0.015, 0.06), (0.03, None, None))
    """
    value, low, high = raw
    if low is None or high is None:
        return adjusted, None, None
    factor = adjusted / value if value > 0 else 1.0
    return adjusted, min(adjusted, low * factor), max(adjusted, min(high * factor, 1.0))
