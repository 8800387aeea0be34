"""What is left of several p-values once one has looked at all of them?"""

from collections.abc import Sequence
from typing import Literal

MaybeEnds = tuple[float, float | None, float | None]
"""A value with the ends of its interval, None where it has none."""


def adjust(p_values: Sequence[float], method: Literal["holm", "bh"]) -> list[float]:
    """Return adjusted p-values, by Holm (family-wise error) or Benjamini-Hochberg (false discovery rate).

    Examples
    --------
    >>> [round(p, 3) for p in adjust([0.01, 0.04, 0.03], "holm")]
    [0.03, 0.06, 0.06]
    """
    from statsmodels.stats.multitest import multipletests

    if not p_values:
        return []
    adjusted = multipletests(list(p_values), method={"holm": "holm", "bh": "fdr_bh"}[method])[1]
    return [float(p) for p in adjusted]


def scaled(raw: MaybeEnds, adjusted: float) -> MaybeEnds:
    """Return an adjusted p-value with the ends of the raw one, moved by as much and never above 1.

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
