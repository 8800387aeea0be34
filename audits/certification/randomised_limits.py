"""Limits of a probability that spend their error to the last digit: a random number breaks the ties of counts.

Counts are whole numbers, so an exact limit errs with less than alpha for most probabilities. A uniform number, drawn
without a look at the counts, makes up the difference (Stevens 1950).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_HALVINGS = 60


def randomised_lower_limit(successes: ArrayLike, trials: ArrayLike, alpha: float, u: ArrayLike) -> Floats:
    """Return the randomised lower limit of a proportion, element by element, `u` uniform on (0, 1].

    The p with P(X > k | p) + u P(X = k | p) = alpha (Stevens 1950). With u = 1 it is the limit of Clopper and Pearson
    for k, and it comes near that for k + 1 as u falls. If the true proportion is below 2^(-1/n), the limit lies above
    it with probability alpha exactly; if it is larger, never. Where all n succeeded, u is taken as 2 alpha at least:
    the limit would else be 1 now and then, and the radius endless.

    Examples
    --------
    >>> from audits.statistics.binomial import lower_limit
    >>> found = randomised_lower_limit(90, 100, 0.001, [1.0, 0.5, 1e-9])
    >>> found.round(4).tolist(), lower_limit([90, 91], 100, 0.001).round(4).tolist()
    ([0.7753, 0.7805, 0.7885], [0.7753, 0.7885])
    >>> round(float(randomised_lower_limit(100, 100, 0.001, 0.5)), 6), round(0.002 ** (1 / 100), 6)
    (0.939746, 0.939746)
    """
    from scipy.special import betainc

    k, n, share = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in (successes, trials, u)))
    share = np.where(k >= n, np.maximum(share, 2 * alpha), share)
    # Both functions are defined only inside; at the ends the sums have one term.
    above, reached = np.minimum(k + 1, n), np.maximum(k, 1.0)
    low, high = np.zeros(k.shape), np.ones(k.shape)
    for _ in range(_HALVINGS):
        p = (low + high) / 2
        more = np.where(k >= n, 0.0, betainc(above, np.maximum(n - k, 1.0), p))
        whole = np.where(k <= 0, 1.0, betainc(reached, n - reached + 1, p))
        below = (1 - share) * more + share * whole <= alpha
        low, high = np.where(below, p, low), np.where(below, high, p)
    return low


def uniform_of(seed: int, index: int) -> float:
    """Return the number that breaks the ties of one image, uniform on (0, 1]: of the seed and the image alone.

    >>> uniform_of(0, 3) == uniform_of(0, 3), uniform_of(0, 3) == uniform_of(0, 4)
    (True, False)
    """
    from audits.statistics import generator

    return 1.0 - float(generator(seed, "certify", "randomised limit", str(index)).random())
