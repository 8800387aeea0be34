"""Lower bounds of epsilon and mu from error rates of an attack, and the largest bound that an audit can reach.

A mechanism that is (epsilon, delta) differentially private bounds what any attack can reach: 1 - FNR <= e^epsilon FPR +
delta and 1 - FPR <= e^epsilon FNR + delta (Kairouz, Oh and Viswanath 2015). Read the other way round, rates that were
reached are a lower bound of epsilon. Rates are replaced by their upper confidence limits first.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audits.statistics.binomial import upper_limit

Floats = NDArray[np.float64]

MOST_EPSILON = 1e4
"""Largest value that a search returns."""
LEAST_MU = 1e-6


def epsilon_of_rates(fpr: ArrayLike, fnr: ArrayLike, delta: float) -> Floats:
    """Return the smallest epsilon that allows both error rates.

    >>> round(float(epsilon_of_rates(0.1, 0.1, 0.0)), 4) == round(float(np.log(9)), 4)
    True
    """
    fpr, fnr = np.asarray(fpr, dtype=np.float64), np.asarray(fnr, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(1 - fnr - delta, 0)) - np.log(fpr)
        other = np.log(np.maximum(1 - fpr - delta, 0)) - np.log(fnr)
    # NaN (from two logarithms of 0) is a condition that says nothing; fmax takes the other one.
    return np.asarray(np.maximum(0.0, np.fmax(one, other)))


def mu_of_rates(fpr: ArrayLike, fnr: ArrayLike) -> Floats:
    """Return the smallest mu of a Gaussian mechanism that allows both error rates.

    mu = Phi^-1(1 - FPR) - Phi^-1(FNR) (Dong, Roth and Su 2022; as a bound: Nasr et al. 2023).
    """
    from scipy.special import ndtri

    fpr, fnr = np.asarray(fpr, dtype=np.float64), np.asarray(fnr, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        found = ndtri(1 - fpr) - ndtri(fnr)
    # A test that never calls anybody gives inf - inf, and proves nothing.
    return np.asarray(np.maximum(0.0, np.nan_to_num(found, nan=0.0)))


def error_rates(hits: ArrayLike, members: ArrayLike, alarms: ArrayLike, others: ArrayLike, alpha: float) -> tuple[
    Floats, Floats
]:  # fmt: skip
    """Return upper limits of FPR and FNR that hold together with error `alpha`, half of it each."""
    misses = np.asarray(members) - np.asarray(hits)
    return upper_limit(alarms, others, alpha / 2), upper_limit(misses, members, alpha / 2)


def ceiling(members: int, others: int, *, delta: float, alpha: float) -> float:
    """Return the epsilon that a perfect attack on as many points would prove: the most that an audit can prove.

    >>> [round(ceiling(n, n, delta=1e-5, alpha=0.05), 2) for n in (100, 500, 1000, 10_000)]
    [3.28, 4.91, 5.6, 7.9]
    """
    return float(epsilon_of_rates(*error_rates(members, members, 0, others, alpha), delta))


def gdp_delta(epsilon: ArrayLike, mu: float) -> Floats:
    """Return delta(epsilon) = Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2), a Gaussian curve."""
    from scipy.special import log_ndtr

    epsilon = np.asarray(epsilon, dtype=np.float64)
    # In logarithms, since e^epsilon overflows from 710 on.
    first, second = log_ndtr(-epsilon / mu + mu / 2), epsilon + log_ndtr(-epsilon / mu - mu / 2)
    # exp(a) - exp(b) = exp(a) (1 - exp(b - a)); b exceeds a by rounding only.
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(0.0, second - first)))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of a mu-Gaussian mechanism at `delta`.

    >>> [round(gdp_epsilon(mu, 1e-5), 3) for mu in (0.25, 0.5, 1.0, 2.0, 3.0)]
    [0.926, 1.993, 4.377, 9.997, 16.675]
    """
    from scipy.optimize import brentq

    if mu <= 0 or float(gdp_delta(0.0, mu)) <= delta:
        return 0.0
    if float(gdp_delta(MOST_EPSILON, mu)) >= delta:
        return MOST_EPSILON
    return float(brentq(lambda epsilon: float(gdp_delta(epsilon, mu)) - delta, 0.0, MOST_EPSILON, xtol=1e-10))


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the mu whose Gaussian mechanism has this epsilon at `delta`; 0 where it is below `LEAST_MU`.

    Raises
    ------
    ValueError
        Unless delta > 0.

    >>> round(gdp_mu(4.377, 1e-5), 3)
    1.0
    """
    from scipy.optimize import brentq

    if not delta > 0:
        raise ValueError("with delta 0 no Gaussian mechanism has a finite epsilon")
    if float(gdp_delta(epsilon, LEAST_MU)) >= delta:
        return 0.0
    # Delta rises with mu, and is above 1 / 2 where mu^2 / 2 exceeds epsilon.
    most = 1 + 2 * float(np.sqrt(2 * epsilon + 1)) + 20
    return float(brentq(lambda mu: float(gdp_delta(epsilon, mu)) - delta, LEAST_MU, most, xtol=1e-12))


def most_hits(fpr: ArrayLike, epsilon: float, delta: float) -> Floats:
    """Return the largest TPR that (epsilon, delta) differential privacy allows at each FPR.

    >>> most_hits([0.0, 0.5, 1.0], float(np.log(3)), 0.0).round(4).tolist()
    [0.0, 0.8333, 1.0]
    """
    fpr = np.asarray(fpr, dtype=np.float64)
    with np.errstate(over="ignore"):
        # Capped, since inf * 0 is NaN.
        low = np.exp(min(epsilon, 700.0)) * fpr + delta
        high = 1 - np.exp(-epsilon) * (1 - delta - fpr)
    return np.asarray(np.clip(np.minimum(low, high), 0.0, 1.0))
