"""What is left of several p-values once one has looked at all of them?"""

from collections.abc import Sequence
from typing import Literal


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
