"""Limits of a probability that hold at all numbers of draws at once, so that drawing may stop whenever it pays.

A bet against the claim that the probability is at most p multiplies its stake at each draw by q / p or by
(1 - q) / (1 - p); stakes are spread over all q above p by a beta distribution. Where the claim is true the capital
never grows on average, so it ever reaches 1 / alpha with probability alpha at most (Ville 1939). The limit is the
largest p that lost.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audits.certification.bounds import Counts, Floats, Interval, Limits, fullest_rival

PRIOR = 0.5
"""What is added to the counts that shape the bet (Krichevsky and Trofimov 1981): no outcome is held for impossible."""
ODDS, STEP = 40.0, 1e-9
"""Log odds beyond which a limit is 0 or cannot rise, and to within which it is found: far below the last digit
of a radius, and rounded down."""
_MOST = 100


@dataclass(frozen=True, slots=True)
class Bet:
    """A bet that a probability exceeds some p, its stakes spread over all q above p by Beta(a, b).

    Parameters
    ----------
    successes, failures
        Of the draws that were bet on.
    a, b
        Of the beta distribution: earlier successes and failures, each and a half.
    """

    successes: Floats
    failures: Floats
    a: Floats
    b: Floats

    def of(self, index: NDArray[np.int64]) -> "Bet":
        """Return the bets at some places."""
        return Bet(self.successes[index], self.failures[index], self.a[index], self.b[index])

    def log_capital(self, odds: Floats) -> tuple[Floats, Floats]:
        """Return the logarithm of the capital, started with 1, and its slope, at log odds of p.

        log B(a + S, b + F) (1 - I_p(a + S, b + F)) / (B(a, b) (1 - I_p(a, b))) - S log p - F log(1 - p): the integral
        of (q / p)^S ((1 - q) / (1 - p))^F over the stakes.

        Examples
        --------
        After one success, Beta(1/2, 1/2) above p = 1/2 has the mean 1/2 + 1/pi, and the capital is that over p:

        >>> one = Bet(np.array(1.0), np.array(0.0), np.array(0.5), np.array(0.5))
        >>> round(float(np.exp(one.log_capital(np.array(0.0))[0])), 6), round(1 + 2 / np.pi, 6)
        (1.63662, 1.63662)
        """
        from scipy.special import betaincc, betaln, expit, log_expit

        s, f, a, b = self.successes, self.failures, self.a, self.b
        p, log_p, log_rest = expit(odds), log_expit(odds), log_expit(-odds)
        whole = betaln(a, b)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            staked, left = betaincc(a, b, p), betaincc(a + s, b + f, p)
            capital = betaln(a + s, b + f) - whole + np.log(left) - np.log(staked) - s * log_p - f * log_rest
            lost = np.exp(a * log_p + b * log_rest - whole) / staked * -np.expm1(-capital)
            slope = (s + f) * p - s + lost
        # Where no stake lies above p that float64 could tell from none, there is no bet and nothing is won.
        real = (staked > 0) & (left > 0) & np.isfinite(capital)
        return np.where(real, capital, -np.inf), slope


def sequence_limit(
    successes: ArrayLike, failures: ArrayLike, alpha: float, before: tuple[ArrayLike, ArrayLike] = (1, 0)
) -> Floats:
    """Return the lower limit of a probability after so many successes and failures, element by element.

    The limits after 1, 2, 3, ... draws are all below the probability, with 1 - alpha at least, if `before` counts draws
    that are none of these (Ville 1939; Howard and others 2021). 0 where nothing is proved.

    Parameters
    ----------
    before
        Successes and failures of earlier draws, which shape the bet. They decide how soon the limit rises, not whether
        it holds. After a success the hazard rate of the beta distribution rises throughout; then the capital falls as p
        rises wherever it exceeds 1, so that every p below the limit lost.

    Examples
    --------
    >>> limits = sequence_limit([0, 90, 900, 9000], [0, 10, 100, 1000], 0.001)
    >>> limits.round(3).tolist()
    [0.0, 0.736, 0.854, 0.886]
    >>> round(float(sequence_limit(100, 0, 0.001, before=(100, 0))), 3), round(0.001 ** (1 / 100), 3)
    (0.93, 0.933)
    """
    from scipy.special import expit

    arrays = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in (successes, failures, *before)))
    s, f, a, b = (array.ravel() for array in arrays)
    bet = Bet(s, f, a + PRIOR, b + PRIOR)
    # At the share of successes no q is likelier: the capital is 1 at the most.
    high = np.where(f > 0, np.log(np.maximum(s, 1e-300)) - np.log(np.maximum(f, 1e-300)), ODDS)
    low = _last_won(bet, -np.log(alpha), np.minimum(high, ODDS))
    return np.where((s > 0) & (low > -ODDS), expit(low), 0.0).reshape(arrays[0].shape)


def _last_won(bet: Bet, goal: float, high: Floats) -> Floats:
    """Return the largest log odds at which the capital reaches the goal, to within a `STEP` and never beyond.

    Newton's steps from the left, where the logarithm of the capital is nearly convex; halvings where one goes too far.
    """
    low, high = np.full(high.shape, -ODDS), high.copy()
    capital, slope = bet.log_capital(low)
    halve, live = capital < goal, np.arange(len(low))
    for _ in range(_MOST):
        left, right = low[live], high[live]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = (goal - capital[live]) / slope[live]
        ahead = left + np.where(np.isfinite(step) & (step > 0), step, 0.0)
        tried = np.where(halve[live] | (ahead >= right) | (ahead <= left), (left + right) / 2, ahead)
        far = (right - left >= STEP) & ((step >= STEP) | halve[live])
        live, tried = live[far], tried[far]
        if not len(live):
            break
        there, steepness = bet.of(live).log_capital(tried)
        won = there >= goal
        halve[live] = ~won
        low[live[won]], capital[live[won]], slope[live[won]] = tried[won], there[won], steepness[won]
        high[live[~won]] = tried[~won]
    return low


def sequence_limits(selection: Counts, votes: Counts | Floats, interval: Interval, alpha: float) -> Limits:
    """Return limits of the class probabilities, of votes and of the draws that chose, shape (classes,), at any time.

    As `bounds.vote_limits`: with two classes half of alpha each, and the rival is the one with the most votes. All
    rivals are bet on alike, by the most votes that one of them had in the selection, so that more votes give a higher
    limit.

    >>> votes = np.array([900, 60, 40])
    >>> low, high = sequence_limits(np.array([88, 7, 5]), votes, Interval("two-class", 0), 0.001)
    >>> round(low, 3), round(high, 3)
    (0.856, 0.096)
    """
    top, draws = interval.top, float(votes.sum())
    chosen, first = int(selection[top]), int(selection.sum())
    share = alpha if interval.kind == "one-sided" else alpha / 2
    low = float(sequence_limit(votes[top], draws - votes[top], share, (chosen, first - chosen)))
    if interval.kind == "one-sided":
        return low, 1.0 - low
    rival, seen = float(np.delete(votes, top).max()), fullest_rival(selection, top)
    high = 1.0 - float(sequence_limit(draws - rival, rival, share, (first - seen, seen)))
    return low, min(high, 1.0 - low)
