"""Privacy auditing with one training run: lower bounds of epsilon from right guesses of who was included.

Each of m canaries was included or not by a fair coin of its own. Whoever sees the model guesses for some of them and
abstains for the rest; an (epsilon, delta)-private training makes many right guesses improbable (Steinke, Nasr and
Jagielski 2023, theorem 5.2). All of it rests on the coins: a fixed half of the points is no such draw.
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, expit

from audits.statistics.binomial import lower_limit

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WIDTH = 1e-9
"""Bisection of epsilon ends at this width, and what is returned is the lower end, which is refuted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """Guesses on canaries: how many of the highest and lowest scores were guessed in and out, and how many rightly.

    Parameters
    ----------
    high, low
        Guesses "in" and "out" that were asked for, k+ and k-.
    correct
        Of these, the right ones; a canary that was abstained from because of ties is none of them.
    """

    high: int
    low: int
    correct: int

    @property
    def guesses(self) -> int:
        """Return k+ + k-."""
        return self.high + self.low


def one_run_p(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return an upper bound of the probability of so many right guesses under (epsilon, delta)-privacy.

    With f(v) = P[Binomial(guesses, 1 / (1 + exp(-epsilon))) >= v] it is f(v) + 2 m delta max_i (f(v - i) - f(v)) / i
    over 1 <= i <= v, and at most 1 (theorem 5.2). (f(v - i) - f(v)) / i is the mean of the i probabilities below v,
    which rises and then falls with i, so that the best i is found by halving, without a list of them.

    Raises
    ------
    ValueError
        Unless 0 <= correct <= guesses <= canaries, epsilon >= 0 and 0 <= delta <= 1.

    Examples
    --------
    Two right guesses out of two, with delta 0, are as probable as two heads.

    >>> round(one_run_p(2, 2, 10, 0.0, 0.0), 6), round(one_run_p(90, 100, 1000, 1.0, 1e-5), 8)
    (0.25, 0.00084129)
    """
    _check(correct, guesses, canaries, delta)
    if not epsilon >= 0:
        raise ValueError(f"epsilon is 0 or more, got {epsilon}")
    return float(_p(np.array([correct]), np.array([guesses]), canaries, epsilon, delta)[0])


def one_run_epsilon(correct: int, guesses: int, canaries: int, *, delta: float, level: float = 0.95) -> float:
    """Return the largest epsilon that so many right guesses refute at 1 - level; 0 where they refute none.

    It is a lower confidence bound if the number of guesses was fixed before anyone looked at who is included.

    Raises
    ------
    ValueError
        Unless 0 <= correct <= guesses <= canaries, 0 <= delta <= 1 and 0.5 <= level < 1.

    Examples
    --------
    Without delta, ten right guesses of ten refute every q = 1 / (1 + exp(-epsilon)) with q^10 < 0.05.

    >>> q = 0.05 ** (1 / 10)
    >>> round(one_run_epsilon(10, 10, 1000, delta=0.0), 6) == round(float(np.log(q / (1 - q))), 6)
    True
    """
    _check(correct, guesses, canaries, delta)
    return _greatest(np.array([correct]), np.array([guesses]), canaries, delta, _tail(level))[0]


def count_guesses(
    scores: ArrayLike, included: ArrayLike, high: int, low: int, *, order: ArrayLike | None = None
) -> Guesses:
    """Guess "in" for the `high` highest scores and "out" for the `low` lowest, and count the right guesses.

    Where equal scores lie across a border, all of them are abstained from. Rows of a file are often sorted by who is
    included, so that to go by their order would count knowledge that no score has. The abstentions can only lower the
    count, and the bound holds for at most as many guesses as were asked for.

    Parameters
    ----------
    scores
        The higher the likelier included, shape (m,).
    included
        What the coins said, shape (m,).
    order
        Rank of each canary among those of equal score, shape (m,), drawn at random without regard to `included`: with
        it nobody is abstained from for a tie.

    Raises
    ------
    ValueError
        Where scores are not finite, shapes differ, or more guesses are asked for than there are canaries.

    Examples
    --------
    >>> count_guesses([0.9, 0.8, 0.2, 0.1], [1, 0, 1, 0], 2, 1)
    Guesses(high=2, low=1, correct=2)
    >>> count_guesses([0.5, 0.5, 0.5, 0.1], [1, 1, 0, 0], 2, 1)
    Guesses(high=2, low=1, correct=1)
    """
    right = _right(scores, included, np.array([[low, high]]), order)
    return Guesses(high=high, low=low, correct=int(right[0]))


def published_grid(canaries: int) -> Integers:
    """Return the pairs (k-, k+) that Privacy Meter tries, shape (pairs, 2), in its order.

    With a step of floor(sqrt(m)), "in" begins at each multiple of it below m, and "out" ends at each multiple below
    that.

    >>> published_grid(9).tolist()
    [[0, 6], [0, 3], [3, 3]]
    """
    step = isqrt(canaries)
    starts = np.arange(0, canaries, max(step, 1))
    begin, end = np.tril_indices(len(starts), -1)
    return np.stack([starts[end], canaries - starts[begin]], axis=1).astype(np.int64)


def one_run_search(
    scores: ArrayLike,
    included: ArrayLike,
    grid: Integers,
    *,
    delta: float,
    level: float = 0.95,
    order: ArrayLike | None = None,
) -> tuple[float, Guesses]:
    """Return the largest epsilon over a grid of guesses, and the guesses behind it.

    It is no confidence bound: the best of many pairs was chosen after the fact, and exceeds the truth far more often
    than 1 - level. Choose the pair on one half of the canaries and bound epsilon with the other, or divide 1 - level
    by the number of pairs.

    Parameters
    ----------
    scores, included, order
        As `count_guesses` takes them.
    grid
        Pairs (k-, k+), shape (pairs, 2), such as `published_grid` gives.

    Raises
    ------
    ValueError
        As `count_guesses` and `one_run_epsilon`, and where the grid is empty.
    """
    pairs = np.asarray(grid, dtype=np.int64)
    if not pairs.size:
        raise ValueError("no pair of numbers of guesses to choose from")
    right = _right(scores, included, pairs, order)
    canaries = int(np.size(scores))
    _check(0, 0, canaries, delta)
    epsilon, index = _greatest(right, pairs.sum(1), canaries, delta, _tail(level))
    return epsilon, Guesses(high=int(pairs[index, 1]), low=int(pairs[index, 0]), correct=int(right[index]))


def _right(scores: ArrayLike, included: ArrayLike, pairs: Integers, order: ArrayLike | None) -> Integers:
    """Count the right guesses of each pair (k-, k+) with one sort of the scores."""
    values, member = np.asarray(scores, dtype=np.float64), np.asarray(included, dtype=bool)
    if values.ndim != 1 or member.shape != values.shape or not np.isfinite(values).all():
        raise ValueError(f"finite scores and who is included, one each: got shapes {values.shape} and {member.shape}")
    if pairs.min() < 0 or pairs.sum(1).max() > len(values):
        raise ValueError(f"more guesses than the {len(values)} canaries, or fewer than none")
    ties = np.zeros(len(values)) if order is None else np.asarray(order)
    ranking = np.lexsort((ties, values))
    member, values, ties = member[ranking], values[ranking], ties[ranking]
    apart = (np.diff(values) != 0) | (np.diff(ties) != 0)
    edges = np.concatenate([[0], np.flatnonzero(apart) + 1, [len(values)]])
    before = np.concatenate([[0], np.cumsum(member)])
    # Borders within a group of ties retreat to where the group begins or ends.
    low = edges[np.searchsorted(edges, pairs[:, 0], side="right") - 1]
    begin = edges[np.searchsorted(edges, len(values) - pairs[:, 1])]
    return np.asarray(low - before[low] + before[-1] - before[begin])


def _greatest(correct: Integers, guesses: Integers, canaries: int, delta: float, tail: float) -> tuple[float, int]:
    """Return the largest epsilon that any of several counts refutes, and the index of that count.

    Whatever is refuted with delta is refuted without, where epsilon is a quantile: this orders the counts, and once
    an epsilon is reached drops those that cannot reach it. One bisection serves all that are left.
    """
    ceilings = _without_delta(correct, guesses, tail)
    order = np.argsort(-ceilings, kind="stable")
    best, index = max(0.0, float(ceilings[order[0]])), int(order[0])
    if delta == 0 or best == 0:
        return best, index
    best, start, size = 0.0, 0, 1
    while start < len(order) and ceilings[order[start]] > best:
        some = order[start : start + size]
        found = _bisected(correct[some], guesses[some], canaries, delta, tail, ceilings[some], best)
        if found is not None:
            best, index = found[0], int(some[found[1]])
        # The highest ceilings mostly settle it at once; growing blocks keep the bisections few where they do not.
        start, size = start + size, 8 * size
    return best, index


def _bisected(
    correct: Integers, guesses: Integers, canaries: int, delta: float, tail: float, ceilings: Floats, low: float
) -> tuple[float, int] | None:
    """Return the largest epsilon that a count refutes, with its index; None where none refutes `low`."""
    left, high = np.arange(len(correct)), float(ceilings.max())

    def refuting(epsilon: float) -> Integers:
        able = left[ceilings[left] > epsilon]
        return able[_p(correct[able], guesses[able], canaries, epsilon, delta, tail) < tail]

    left = refuting(low)
    if not len(left):
        return None
    while high - low > WIDTH:
        middle = (low + high) / 2
        there = refuting(middle)
        if len(there):
            left, low = there, middle
        else:
            high = middle
    return low, int(left[0])


def _p(correct: Integers, guesses: Integers, canaries: int, epsilon: float, delta: float, stop: float = 1.0) -> Floats:
    """Return the p-values of several counts at one epsilon; those of at least `stop` need not be exact."""
    q, weight = float(expit(epsilon)), 2.0 * canaries * delta
    tails = _upper(correct, guesses, q)
    values = tails.copy()
    left = np.flatnonzero((correct > 0) & (tails < stop) & (weight > 0))
    low, high = np.ones(len(left), dtype=np.int64), correct[left].astype(np.int64)
    while len(left):
        v, r, b = correct[left], guesses[left], tails[left]
        middle = (low + high) // 2
        beyond = np.minimum(middle + 1, v)
        here, there = (_upper(v - middle, r, q) - b) / middle, (_upper(v - beyond, r, q) - b) / beyond
        # Any i gives a lower bound of the maximum: one that reaches `stop` is enough.
        values[left] = np.maximum(values[left], b + weight * np.maximum(here, there))
        rising = there >= here
        low, high = np.where(rising, beyond, low), np.where(rising, high, middle)
        on = (low < high) & (values[left] < stop)
        left, low, high = left[on], low[on], high[on]
    return np.minimum(values, 1.0)


def _upper(least: Integers, trials: Integers, q: float) -> Floats:
    """Return P[Binomial(trials, q) >= least], accurate also in the far tail."""
    shape = np.maximum(least, 1)
    # As an incomplete beta function: 1 less the lower tail would have no digits left far out.
    return np.where(least > 0, betainc(shape, trials - shape + 1.0, q), 1.0)


def _without_delta(correct: Integers, guesses: Integers, tail: float) -> Floats:
    """Return the epsilon with P[Binomial(guesses, q) >= correct] = tail, or 0: q is a lower limit."""
    # Below a half epsilon would be negative: nothing is refuted.
    q = np.maximum(lower_limit(correct, guesses, tail), 0.5)
    return np.asarray(np.log(q) - np.log1p(-q))


def _check(correct: int, guesses: int, canaries: int, delta: float) -> None:
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError(f"{correct} right of {guesses} guesses for {canaries} canaries: each number is in the next")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is a probability, got {delta}")


def _tail(level: float) -> float:
    # Up to a half the p-value rises with epsilon; above, the part with delta may fall.
    if not 0.5 <= level < 1:
        raise ValueError(f"level is from 0.5 up to below 1, got {level}")
    return 1 - level
