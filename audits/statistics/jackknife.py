"""Delete-one jackknife: weights with one unit left out, and the interval of a statistic."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST = 1000
"""Most units that are left out one by one; more are left out in blocks."""


def left_out(units: int) -> Floats:
    """Return the weights of the units with one after another left out, shape (times, units).

    Of more than a thousand units a thousand blocks are left out, of units far apart in their order.

    Examples
    --------
    >>> left_out(3).tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    times = min(units, MOST)
    weights = np.ones((times, units))
    weights[np.arange(units) % times, np.arange(units)] = 0.0
    return weights


def jackknife_interval(value: float, left: Floats, *, level: float) -> tuple[float, float] | None:
    """Return Student's interval of a positive statistic on the scale of its logarithm.

    The variance is (J - 1) / J sum_j (l_j - mean l)^2 for the logarithms l_j of the J values with one unit or block
    left out (Efron and Tibshirani 1993, equation 11.5). Degrees of freedom are J - 1, or 2 J / (k - 1) where the l_j
    have a kurtosis k that leaves fewer, and three at least.

    Parameters
    ----------
    left
        The statistic with each unit left out, shape (J,), made by the weights of `left_out`.

    Returns
    -------
    tuple or None
        None where the statistic, or one of `left`, is not above 0, or where nothing moves it.

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> low, high = jackknife_interval(3.0, left_out(5) @ values / 4, level=0.95)
    >>> f"{low:.2f} to {high:.2f}"
    '1.55 to 5.81'
    """
    from scipy.stats import t

    count = len(left)
    if value <= 0 or count < 2 or not np.all(np.isfinite(left) & (left > 0)):
        return None
    apart = np.log(left) - np.log(left).mean()
    squares = float((apart**2).sum())
    # Rounding alone moves a statistic that no unit moves.
    if squares <= 1e-18:
        return None
    kurtosis = count * float((apart**4).sum()) / squares**2
    heavy = 2 * count / (kurtosis - 1) if kurtosis > 1 else np.inf
    freedom = max(1.0, min(count - 1.0, max(heavy, 3.0)))
    half = float(t.isf((1 - level) / 2, freedom)) * float(np.sqrt((count - 1) / count * squares))
    reach = float(np.exp(min(half, 700.0)))
    return value / reach, value * reach
