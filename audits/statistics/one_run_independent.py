"""Privacy auditing with one training run whose canaries do not interfere: the best bounds from counts of right guesses.

Each of m canaries was included or not by a fair coin of its own, and its score depends on its own coin only. Then the
score of each is no more than a garbling of what the least private mechanism shows of one coin (Kairouz, Oh and
Viswanath 2015 for (epsilon, delta); Dong, Roth and Su 2022, theorem 2.10, for a Gaussian mechanism). Whoever sees these
m outcomes and guesses r coins does best with the r surest; the chance of v or more right guesses is worked out here.
It bounds every other guesser, and from r and v alone nothing smaller can, since this one reaches it.

- (epsilon, delta): each coin is revealed with probability delta, and else shown by a randomised response that is right
  with probability q = 1 / (1 + exp(-epsilon)). Of those revealed, a binomial of m and delta, r at most are guessed.
- Gaussian: what is shown of a coin is normal, shifted by mu where it says "in". Its distance T from mu / 2 says how
  sure a guess is, and has one distribution whatever the coin says. Given that the surest of those left out has T = t,
  the r guesses are independent and right with probability Phi(mu / 2 - t) / (Phi(mu / 2 - t) + Phi(-mu / 2 - t)).

This derivation is our own. Xiang and others (2025) bound guesses of one run, too; these are not their formulas. Where
canaries interfere, nothing of this holds unless delta is 0: noise whose size all canaries share is a counterexample.
"""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, expit, log_ndtr

from audits.statistics.binomial import lower_limit
from audits.statistics.epsilon_bounds import gdp_epsilon

Floats = NDArray[np.float64]

EXACT = 1e-9
"""How far below the largest value that is refuted a bound may lie, by the end of a search."""
PADDING = 1e-9
"""By what share each p-value is raised: more than sums and incomplete beta functions lose by rounding."""
CELLS = 128
"""Cells of the distribution of the surest canary left out; each counts as its worst edge."""
FAR = 1e-13
"""Probability outside of the cells on either side, which counts as that many right guesses for sure."""


def one_run_independent_p(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return the most that so many right guesses can be probable under (epsilon, delta), without interference.

    With D ~ Binomial(m, delta) it is E[P(Binomial(r - D, q) >= v - D)], where D counts up to r; delta is not added up
    over canaries.

    Raises
    ------
    ValueError
        Unless 0 <= correct <= guesses <= canaries, epsilon >= 0 and 0 <= delta <= 1.

    Examples
    --------
    Two right guesses of two: each of the two coins is revealed with probability 0.1, and else guessed with 1 / 2.

    >>> round(one_run_independent_p(2, 2, 2, 0.0, 0.1), 6) == round((0.1 + 0.9 / 2) ** 2, 6)
    True
    """
    _check(correct, guesses, canaries)
    if not epsilon >= 0:
        raise ValueError(f"epsilon is 0 or more, got {epsilon}")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is a probability, got {delta}")
    if correct == 0:
        return 1.0
    first, last = _window(canaries, delta, correct)
    revealed = np.arange(first, last + 1)
    beyond = _upper(np.arange(first, last + 2), canaries, delta)
    # Fewer revealed than the first of the window make no more right guesses than that many.
    beyond[0] = 1.0
    tails = _upper(correct - revealed, guesses - revealed, float(expit(epsilon)))
    return _padded(float((beyond[:-1] - beyond[1:]) @ tails + beyond[-1]))


def one_run_independent_epsilon(
    correct: int, guesses: int, canaries: int, *, delta: float, level: float = 0.95
) -> float:
    """Return the largest epsilon that so many right guesses refute at 1 - level, without interference; 0 for none.

    Raises
    ------
    ValueError
        As `one_run_independent_p`, and unless 0 < level < 1.

    Examples
    --------
    Without delta it is the bound that holds with interference, too.

    >>> q = 0.05 ** (1 / 10)
    >>> round(one_run_independent_epsilon(10, 10, 1000, delta=0.0), 6) == round(float(np.log(q / (1 - q))), 6)
    True
    """
    _check(correct, guesses, canaries)
    tail = _tail(level)
    # With delta nothing more is refuted than without, where q is a quantile.
    q = max(float(lower_limit(correct, guesses, tail)), 0.5)
    most = math.log(q) - math.log1p(-q)
    return _refuted(lambda epsilon: one_run_independent_p(correct, guesses, canaries, epsilon, delta), most, tail)


def one_run_independent_gdp_p(correct: int, guesses: int, canaries: int, mu: float) -> float:
    """Return the most that so many right guesses can be probable with a mu-Gaussian mechanism, without interference.

    The chance of one canary to be surer than t is u(t) = Phi(mu / 2 - t) + Phi(-mu / 2 - t), and of the r + 1 surest
    the last has u ~ Beta(r + 1, m - r). The mean over it is a sum over cells, each with the most that holds in it.

    Raises
    ------
    ValueError
        Unless 0 <= correct <= guesses <= canaries and mu >= 0.

    Examples
    --------
    Where every canary is guessed, each guess is right with probability Phi(mu / 2).

    >>> right = NormalDist().cdf(1.0)
    >>> round(one_run_independent_gdp_p(2, 2, 2, 2.0), 6) == round(right**2, 6)
    True
    """
    _check(correct, guesses, canaries)
    if not mu >= 0:
        raise ValueError(f"mu is 0 or more, got {mu}")
    if correct == 0:
        return 1.0
    if guesses == canaries or mu == 0:
        return _padded(float(_upper(correct, guesses, NormalDist().cdf(mu / 2))))
    shape = guesses + 1.0, float(canaries - guesses)
    ends = [_surer(float(betaincinv(*shape, chance)), mu) for chance in (1 - FAR, FAR)]
    edges = np.linspace(ends[0], ends[1], CELLS + 1)
    right, wrong = log_ndtr(mu / 2 - edges), log_ndtr(-mu / 2 - edges)
    below = betainc(*shape, np.minimum(np.exp(right) + np.exp(wrong), 1.0))
    # The higher t, the surer is every guess: each cell counts as its upper edge, what is below as the first.
    weights = np.concatenate([[1 - below[0]], below[:-1] - below[1:]])
    tails = _upper(np.full(CELLS + 1, correct), guesses, expit(right - wrong))
    return _padded(float(np.maximum(weights, 0.0) @ tails + below[-1]))


def one_run_independent_mu(correct: int, guesses: int, canaries: int, *, level: float = 0.95) -> float:
    """Return the largest mu that so many right guesses refute at 1 - level, without interference; 0 for none.

    Raises
    ------
    ValueError
        Unless 0 <= correct <= guesses <= canaries and 0 < level < 1.

    Examples
    --------
    Where all are guessed, Phi(mu / 2) is a lower limit of the share that is right.

    >>> share = float(lower_limit(90, 100, 0.05))
    >>> round(one_run_independent_mu(90, 100, 100), 6) == round(2 * NormalDist().inv_cdf(share), 6)
    True
    """
    _check(correct, guesses, canaries)
    tail, most = _tail(level), 1.0

    def p(mu: float) -> float:
        return one_run_independent_gdp_p(correct, guesses, canaries, mu)

    while p(most) < tail:
        most *= 2
    return _refuted(p, most, tail)


def one_run_independent_gdp_epsilon(
    correct: int, guesses: int, canaries: int, *, delta: float, level: float = 0.95
) -> float:
    """Return the epsilon at `delta` of the Gaussian mechanism of `one_run_independent_mu`.

    Raises
    ------
    ValueError
        As `one_run_independent_mu`, and unless 0 < delta < 1.

    Examples
    --------
    >>> one_run_independent_gdp_epsilon(50, 100, 1000, delta=1e-5)
    0.0
    >>> mu = one_run_independent_mu(90, 100, 1000)
    >>> abs(one_run_independent_gdp_epsilon(90, 100, 1000, delta=1e-5) - gdp_epsilon(mu, 1e-5)) < 1e-8
    True
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is between 0 and 1, got {delta}")
    # The root is known to less than EXACT, and may be on either side.
    return max(gdp_epsilon(one_run_independent_mu(correct, guesses, canaries, level=level), delta) - EXACT, 0.0)


def _window(canaries: int, delta: float, correct: int) -> tuple[int, int]:
    """Return the first and last number of revealed coins that are told apart; at most `correct` - 1."""
    mean = canaries * delta
    # Bernstein's inequality: what lies beyond has a probability below exp(-40).
    reach = 9 * math.sqrt(mean * (1 - delta)) + 30
    last = min(math.ceil(mean + reach), correct - 1)
    return min(max(math.floor(mean - reach), 0), last), last


def _surer(chance: float, mu: float) -> float:
    """Return the t with u(t) = chance, by halving; u falls with t."""
    low, high, root = 0.0, mu / 2 + 40, math.sqrt(0.5)
    for _ in range(60):
        middle = (low + high) / 2
        u = 0.5 * (math.erfc((middle - mu / 2) * root) + math.erfc((middle + mu / 2) * root))
        low, high = (middle, high) if u > chance else (low, middle)
    return low


def _upper(least: NDArray[np.int64] | int, trials: NDArray[np.int64] | int, q: Floats | float) -> Floats:
    """Return P[Binomial(trials, q) >= least], accurate also in the far tail."""
    shape = np.maximum(least, 1)
    return np.where(np.asarray(least) > 0, betainc(shape, trials - shape + 1.0, q), 1.0)


def _padded(p: float) -> float:
    return min(p * (1 + PADDING), 1.0)


def _refuted(p: Callable[[float], float], most: float, tail: float) -> float:
    """Return a value with p < tail that is within `EXACT` of the largest, for p that rises; 0 where there is none.

    `most` has p >= tail but for rounding.
    """
    if most <= 0 or p(0.0) >= tail:
        return 0.0
    if p(most) < tail:
        return most
    root = brentq(lambda value: math.log(max(p(value), 1e-300) / tail), 0.0, most, xtol=EXACT / 4)
    step = EXACT / 2
    # The root may lie on either side: what is returned was tried.
    while root > 0 and p(max(root, 0.0)) >= tail:
        root, step = root - step, 2 * step
    return float(max(root, 0.0))


def _check(correct: int, guesses: int, canaries: int) -> None:
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError(f"{correct} right of {guesses} guesses for {canaries} canaries: each number is in the next")


def _tail(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level is between 0 and 1, got {level}")
    return 1 - level
