"""Privacy auditing with one training run, under the assumption of a Gaussian mechanism (f-DP).

A mechanism is mu-Gaussian private if no test tells two neighbouring data sets better apart than a normal variable of
unit variance from one shifted by mu. Supposing that of the training, right guesses of who was included refute larger
epsilon than they do without (Mahloujifar, Melis and Chaudhuri 2024); they say nothing if it does not hold.
"""

import math
from statistics import NormalDist

from scipy.optimize import brentq

from audits.statistics.epsilon_bounds import gdp_epsilon

_EXACT = 1e-10
_NORMAL = NormalDist()


def one_run_mu(correct: int, guesses: int, canaries: int, *, level: float = 0.95) -> float:
    """Return the largest mu that so many right guesses refute at 1 - level; 0 where they refute none.

    Each canary was included by a fair coin of its own, and the number of guesses was fixed beforehand.

    Raises
    ------
    ValueError
        Unless 0 <= correct <= guesses <= canaries and 0 < level < 1.

    Examples
    --------
    Half of the guesses right says nothing; nine of ten do.

    >>> one_run_mu(50, 100, 1000), round(one_run_mu(90, 100, 1000), 3)
    (0.0, 0.603)
    """
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError(f"{correct} right of {guesses} guesses for {canaries} canaries: each number is in the next")
    if not 0 < level < 1:
        raise ValueError(f"level is between 0 and 1, got {level}")
    if correct == 0 or _excess(0.0, correct, guesses, canaries, 1 - level) < 0:
        return 0.0
    high = 1.0
    while _excess(high, correct, guesses, canaries, 1 - level) >= 0:
        high *= 2
    root = brentq(_excess, 0.0, high, args=(correct, guesses, canaries, 1 - level), xtol=_EXACT)
    # On the refuted side of the root, as a lower bound has to be.
    return float(max(root - _EXACT, 0.0))


def one_run_fdp_epsilon(correct: int, guesses: int, canaries: int, *, delta: float, level: float = 0.95) -> float:
    """Return the epsilon at `delta` of the Gaussian mechanism of `one_run_mu`.

    Raises
    ------
    ValueError
        As `one_run_mu`, and unless 0 < delta < 1.

    Examples
    --------
    >>> one_run_fdp_epsilon(50, 100, 1000, delta=1e-5), round(one_run_fdp_epsilon(90, 100, 1000, delta=1e-5), 3)
    (0.0, 2.456)
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is between 0 and 1, got {delta}")
    return gdp_epsilon(one_run_mu(correct, guesses, canaries, level=level), delta)


def _excess(mu: float, correct: int, guesses: int, canaries: int, tail: float) -> float:
    """Return log((inside + outside) / (guesses / canaries)): at least 0 where mu is refuted.

    Let p_j be the probability of j right guesses. `inside` is the sum of j p_j / m over j > i and `outside` that of
    (guesses - j) p_j / m: the chances that a canary is guessed right, or wrong, while more than i are right. By
    privacy, `outside` is at least Phi(Phi^-1(inside) - mu), which bounds p_i from below as i falls from `correct`,
    where all of the tail may sit, to 0. If the sums then exceed what there is, no such probabilities exist.
    """
    inside, outside = tail * correct / canaries, tail * (guesses - correct) / canaries
    quantile, root = _NORMAL.inv_cdf, math.sqrt(0.5)
    for i in range(correct - 1, -1, -1):
        # Phi(quantile - mu), with the digits that Phi itself loses near 0.
        least = 0.5 * math.erfc((mu - quantile(inside)) * root)
        # From here on nothing rises any more.
        if least <= outside:
            break
        # What `outside` gained is (guesses - i) p_i / m, so that `inside` gains i p_i / m.
        inside += i / (guesses - i) * (least - outside)
        outside = least
        if inside + outside >= 1:
            break
    return math.log((inside + outside) * canaries / guesses)
