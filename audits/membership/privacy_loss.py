"""The epsilon below which no accountant of clipped, noisy gradients can go, however tight it is.

The privacy loss of one step, between a training with a point whose clipped gradient is always of full length and one
without it, is put on a grid, every loss rounded down, and added up over the steps by Fourier transforms. What these
two trainings differ by is a lower bound of what training reveals: rounding down, and whatever falls off the upper end
of the grid, make it smaller (after Koskela, Jälkö and Honkela 2020, arXiv 1906.03049).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from probes.generators.accounting import Stage, rdp_epsilon

Floats = NDArray[np.float64]

CELLS = 2**20
_MOST_NOISE = 1e100
"""Beyond it the square is no number, and nothing is left to be found."""
_ABOVE, _BELOW = 3.0, 25.0
"""How far the grid reaches above the upper bound, and below the logarithm of delta."""
_TRANSFORM = np.finfo(np.float64).eps * math.log2(CELLS) * math.sqrt(CELLS)
"""What Fourier transforms in 64 bits may add to delta for every step: it is taken off.

A transform of n values errs by eps log2(n) of their Euclidean norm, a power of it by so many times that, and a sum over
n cells sees at most sqrt(n) times the norm of their errors.
"""


def least_epsilon(history: Sequence[Stage], delta: float) -> float:
    """Return an epsilon that training of these stages exceeds at `delta`, whatever the accountant.

    It is 0 where the steps are so many, the noise so large, or delta so small, that nothing is left of it on the grid
    or beside rounding.

    Raises
    ------
    InputError
        Where delta is not between 0 and 1, or there are no stages.

    Examples
    --------
    Between this and the upper bound lies what accountants of privacy loss distributions tell, 8.99 here.

    >>> stages = [Stage(2.292, 0.128, 1500)]
    >>> round(least_epsilon(stages, 1e-3), 2), round(rdp_epsilon(stages, 1e-3).epsilon, 2)
    (8.95, 9.99)
    """
    above = rdp_epsilon(history, delta).epsilon + _ABOVE
    below = _BELOW - math.log(delta)
    steps = sum(stage.steps for stage in history)
    if steps >= CELLS // 2 or any(stage.noise_multiplier > _MOST_NOISE for stage in history):
        return 0.0
    # Rounded down, each step loses up to a cell: the grid has room for them all below.
    cell = (above + below) / (CELLS - steps)
    losses: Floats = (np.arange(CELLS, dtype=np.float64) - math.ceil(below / cell) - steps) * cell
    sums = np.ones(CELLS // 2 + 1, dtype=np.complex128)
    start = int(np.argmin(np.abs(losses)))
    for stage in history:
        # The loss of 0 comes first, as a transform takes it.
        sums *= np.fft.rfft(np.roll(_step(stage, losses), -start)) ** stage.steps
    # Noise below zero stays: without it that above zero would add up.
    together: Floats = np.roll(np.fft.irfft(sums, CELLS), start)
    return _solved(losses, together, delta, steps * _TRANSFORM)


def _step(stage: Stage, losses: Floats) -> Floats:
    """Return the distribution of the privacy loss of one step, rounded down to the grid.

    The loss log((1 - q) + q e^((2z - 1) / (2 s^2))) rises with z, which is from N(0, s^2), or with probability q from
    N(1, s^2).
    """
    noise, rate = stage.noise_multiplier, stage.sample_rate
    least = math.log1p(-rate) if rate < 1 else -math.inf
    z = np.full(len(losses), -np.inf)
    reachable = losses > least
    inner = losses[reachable] + np.log1p(-(1 - rate) * np.exp(-losses[reachable])) if rate < 1 else losses[reachable]
    z[reachable] = noise * noise * (inner - math.log(rate)) + 0.5
    reached = (1 - rate) * ndtr(-z / noise) + rate * ndtr((1 - z) / noise)
    # A loss below the grid, which is next to impossible, counts as its lowest cell, and one above as its highest.
    reached[0] = 1.0
    return np.asarray(reached - np.append(reached[1:], 0.0))


def _solved(losses: Floats, chances: Floats, delta: float, noise: float) -> float:
    """Return the largest epsilon at which E[max(0, 1 - e^(epsilon - loss))] is above delta by more than the noise."""
    positive = losses > 0
    losses, chances = losses[positive], chances[positive]
    # What falls off the lower end, in a step or in all, comes in again at the upper one: less than e^-25 of delta each.
    goal = delta * (1 + 1e-5) + noise

    def shown(epsilon: float) -> bool:
        over = losses > epsilon
        return float(np.dot(chances[over], -np.expm1(epsilon - losses[over]))) > goal

    low, high = 0.0, float(losses[-1])
    if not shown(low):
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if shown(middle) else (low, middle)
    return low
