"""Privacy accounting of DP-SGD with Poisson batches: epsilon from the noise, and the noise for an epsilon.

Renyi differential privacy of the sampled Gaussian mechanism (Mironov, Talwar and Zhang 2019, arXiv 1908.10530),
added up over the steps and turned into (epsilon, delta) by proposition 12 of Canonne, Kamath and Steinke (2020,
arXiv 2004.00010). It is an upper bound of what training reveals, if batches were Poisson samples indeed.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from probes.core.errors import InputError

Floats = NDArray[np.float64]

ORDERS: tuple[float, ...] = (*(1 + tenth / 10.0 for tenth in range(1, 100)), *map(float, range(12, 64)))
"""Orders tried, those of Opacus."""
MIN_NOISE = 1e-3
MAX_STEPS = 10**12
_REACH = 12.0
"""Standard deviations beyond the outermost peaks that are integrated over: what is left out is below 1e-31."""
_POINTS, _AT_ONCE = 2**16, 2**20
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Stage:
    """Equal training steps: noise in units of the clipping norm, expected share of points in a batch, number of steps.

    Raises
    ------
    InputError
        Where a number cannot be one of training with noise.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        if not MIN_NOISE <= self.noise_multiplier < math.inf:
            message = f"The noise multiplier is {self.noise_multiplier:g}; a budget follows from {MIN_NOISE:g} on."
            raise InputError(message, where="--noise-multiplier", hint="Without noise there is no budget to claim.")
        if not 0 < self.sample_rate <= 1:
            message = f"The sample rate is {self.sample_rate:g}, not above 0 and at most 1."
            raise InputError(
                message, where="--sample-rate", hint="Give the size of a batch divided by that of the data."
            )
        if not 1 <= self.steps <= MAX_STEPS or self.steps != int(self.steps):
            message = f"The number of steps is {self.steps}, not a whole number from 1 to {MAX_STEPS}."
            raise InputError(message, where="--steps", hint="Give the number of steps of the optimiser.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted:
    """An upper bound of epsilon and the order of the Renyi divergence from which it follows."""

    epsilon: float
    order: float
    notes: tuple[str, ...]


def rdp_epsilon(history: Sequence[Stage], delta: float) -> Accounted:
    """Return the epsilon at `delta` that all stages spend together.

    Raises
    ------
    InputError
        Where delta is not between 0 and 1, or there are no stages.

    Examples
    --------
    >>> round(rdp_epsilon([Stage(2.292, 0.128, 1500)], 1e-3).epsilon, 2)
    9.99
    """
    _check_delta(delta)
    if not history:
        raise InputError("There are no steps to account for.", where="--steps", hint="Give the steps of training.")
    together: Counter[tuple[float, float]] = Counter()
    for stage in history:
        together[stage.noise_multiplier, stage.sample_rate] += stage.steps
    spent = sum(steps * renyi(noise, rate) for (noise, rate), steps in together.items())
    orders = np.array(ORDERS)
    # Canonne, Kamath and Steinke: RDP + log(1 - 1/a) - log(delta a) / (a - 1).
    bounds = spent + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    best = int(np.argmin(bounds))
    notes = []
    if best in (0, len(orders) - 1):
        which = "smallest" if best == 0 else "largest"
        notes.append(f"The best order, {orders[best]:g}, is the {which} one tried: epsilon may be loose.")
    return Accounted(epsilon=max(0.0, float(bounds[best])), order=float(orders[best]), notes=tuple(notes))


def noise_for(epsilon: float, delta: float, sample_rate: float, steps: int) -> float:
    """Return the least noise multiplier, to 1e-9 of itself, with which `rdp_epsilon` stays at or below `epsilon`.

    Raises
    ------
    InputError
        Where no noise is enough: the conversion at the orders tried costs something by itself.
    """
    _check_delta(delta)

    def enough(noise: float) -> bool:
        return rdp_epsilon([Stage(noise, sample_rate, steps)], delta).epsilon <= epsilon

    low, high = MIN_NOISE, 1.0
    while not enough(high):
        low, high = high, 2 * high
        if high > 1e9:
            message = f"No noise reaches an epsilon of {epsilon:g} at delta {delta:g} by this accountant."
            raise InputError(message, where="--epsilon", hint="Ask for a larger epsilon.")
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    # The upper end is the one for which the budget was checked to hold.
    return high


def renyi(noise_multiplier: float, sample_rate: float) -> Floats:
    """Return the Renyi divergence of one step at every order of `ORDERS`, shape (orders,).

    With mu0 = N(0, s^2), mu1 = N(1, s^2) and q the sample rate, the divergence of order a is log(A) / (a - 1),
    A = E_mu0[((1 - q) + q mu1/mu0)^a]: a finite sum where a is whole, an integral elsewhere.
    """
    orders = np.array(ORDERS)
    if sample_rate == 1:
        return orders / 2 / noise_multiplier / noise_multiplier
    whole = orders == np.floor(orders)
    logs = np.empty(len(orders))
    logs[whole] = _log_whole(noise_multiplier, sample_rate, orders[whole])
    logs[~whole] = _log_integral(noise_multiplier, sample_rate, orders[~whole])
    # Rounding can make log A slightly negative, which a divergence cannot be.
    divergences: Floats = np.maximum(logs, 0.0) / (orders - 1)
    return divergences


def _log_whole(noise: float, rate: float, orders: Floats) -> Floats:
    """Return log A = log(1 + sum_k C(a, k) q^k (1-q)^(a-k) (e^((k^2-k)/(2 s^2)) - 1)), all of whose terms are >= 0."""
    # The terms of k = 0 and 1 are 0. Gamma functions stand for binomials, which overflow; expm1 keeps small exponents.
    order, k = orders[:, None], np.arange(2.0, orders.max() + 1)
    exponent = (k * k - k) / 2 / noise / noise
    with np.errstate(divide="ignore"):
        weights = gammaln(order + 1) - gammaln(k + 1) - gammaln(np.maximum(order - k, 0) + 1)
        weights += k * math.log(rate) + (order - k) * math.log1p(-rate)
        terms = np.where(k <= order, weights + exponent + np.log(-np.expm1(-exponent)), -np.inf)
    total: Floats = np.logaddexp(0.0, logsumexp(terms, axis=1))
    return total


def _log_integral(noise: float, rate: float, orders: Floats) -> Floats:
    """Return log A by the trapezoidal rule, whose error falls exponentially with the step for such an integrand.

    In u = z/s the integrand has peaks between 0 and a/s and no singularity nearer to the real line than pi s.
    """
    end = orders.max() / noise + 2 * _REACH
    step = max(min(0.5, noise / 2), end / _POINTS)
    u = np.arange(-_REACH, end - _REACH + step, step)
    ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + u / noise - 0.5 / noise / noise)
    parts = np.array_split(orders, math.ceil(len(orders) * len(u) / _AT_ONCE))
    sums: list[Floats] = [logsumexp(part[:, None] * ratio - u * u / 2, axis=1) for part in parts]
    return np.concatenate(sums) + math.log(step / math.sqrt(2 * math.pi))


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        message = f"Delta is {delta:g}, not between 0 and 1."
        raise InputError(message, where="--delta", hint="Take less than 1 / number of points, such as 1e-5.")
