"""Radii within which no perturbation can change the smoothed prediction.

Each function turns limits of class probabilities into a radius that is proved for them: Gaussian noise against
l2, uniform noise against l1, and for soft outputs of a Lipschitz network the exact l2 radius. A negative radius
means that nothing is proved: abstain.
"""

import math
from dataclasses import dataclass
from typing import Literal

Norm = Literal["l2", "l1"]
DIGITS = 6
_STEEP = 1e5
"""L * sigma from which on the Lipschitz bound adds nothing that float64 could resolve."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """All that decides the radius besides the probabilities.

    Parameters
    ----------
    sigma
        Standard deviation of Gaussian noise (l2), or half the width of uniform noise (l1), in pixel units.
    lipschitz
        l2 Lipschitz constant of each soft output; None for votes.
    """

    norm: Norm
    sigma: float
    lipschitz: float | None = None

    def radius(self, low: float, high: float) -> float:
        """Return the radius within which the top class stays on top, below 0 where none is proved."""
        if self.norm == "l1":
            return uniform_radius(low, high, self.sigma)
        if self.lipschitz is not None:
            return lipschitz_radius(low, high, self.sigma, self.lipschitz)
        return gaussian_radius(low, high, self.sigma)

    def probability(self, radius: float) -> float:
        """Return the least top-class probability that certifies a radius, where rivals share the rest."""
        if self.norm == "l1":
            return min(0.5 + radius / (2 * self.sigma), 1.0)
        if self.lipschitz is not None:
            return ramp_mean(radius, self.sigma, self.lipschitz)
        from scipy.special import ndtr

        return float(ndtr(radius / self.sigma))


def gaussian_radius(low: float, high: float, sigma: float) -> float:
    """Return sigma / 2 (Phi^-1(low) - Phi^-1(high)), l2 (Cohen et al. 2019, theorem 1).

    Examples
    --------
    >>> from scipy.stats import norm
    >>> round(gaussian_radius(norm.cdf(1.0), norm.cdf(-1.0), 0.5), 6)
    0.5
    """
    from scipy.special import ndtri

    if low <= 0.0 or high >= 1.0:
        return -math.inf
    return sigma / 2.0 * float(ndtri(low) - ndtri(high))


def uniform_radius(low: float, high: float, half_width: float) -> float:
    """Return half_width (low - high), l1, for noise uniform on [-half_width, half_width] in every pixel.

    With high = 1 - low this is half_width (2 low - 1) (Yang et al. 2020).

    >>> uniform_radius(0.75, 0.25, 2.0)
    1.0
    """
    return half_width * (low - high)


def ramp_mean(shift: float, sigma: float, lipschitz: float) -> float:
    """Return h(s) = E clip(1/2 + L (s + sigma Z), 0, 1), the smoothed value of the steepest classifier.

    h(s) = L (I(s + 1/2L) - I(s - 1/2L)) with I(u) = u Phi(u / sigma) + sigma phi(u / sigma).
    """
    if shift > 0:
        # The lower half resolves probabilities near zero, which the upper half would round to one.
        return 1.0 - ramp_mean(-shift, sigma, lipschitz)
    half = 0.5 / lipschitz
    return max(lipschitz * (_integral(shift + half, sigma) - _integral(shift - half, sigma)), 0.0)


def _integral(u: float, sigma: float) -> float:
    from scipy.special import ndtr

    z = u / sigma
    return u * float(ndtr(z)) + sigma * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


def lipschitz_radius(low: float, high: float, sigma: float, lipschitz: float) -> float:
    """Return the exact l2 radius for mean soft outputs of a network whose outputs are L-Lipschitz.

    (h^-1(low) - h^-1(high)) / 2, h as in `ramp_mean`: among functions into [0, 1] with slope at most L the clipped
    ramp falls fastest at every level, so h^-1 of the smoothed output changes by at most 1 per unit of distance, and
    the ramp attains it. Tends to Phi^-1 as L grows, and to (p - 1/2) / L as sigma vanishes. Never valid for votes,
    which have no finite L.

    Examples
    --------
    >>> round(lipschitz_radius(0.99, 0.01, 0.25, 1.0), 4), round(gaussian_radius(0.99, 0.01, 0.25), 4)
    (0.8401, 0.5816)
    """
    plain = gaussian_radius(low, high, sigma)
    if low <= 0.0 or high >= 1.0 or lipschitz * sigma > _STEEP:
        return plain
    # A Lipschitz constant only adds to what noise alone proves: what falls below is an error of the root finder.
    return max(0.5 * (ramp_inverse(low, sigma, lipschitz) - ramp_inverse(high, sigma, lipschitz)), plain)


def ramp_inverse(probability: float, sigma: float, lipschitz: float) -> float:
    """Return h^-1(p) up to the error of the root finder, 1e-13: radii are reported to six decimals, rounded down."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    if probability >= 1.0 or probability <= 0.0:
        return math.copysign(math.inf, probability - 0.5)
    if probability > 0.5:
        return -ramp_inverse(1.0 - probability, sigma, lipschitz)
    # h lies between its two limits, a ramp without noise and noise without a ramp, taken together.
    reach = 1.0 + 0.5 / lipschitz - sigma * float(ndtri(probability))
    root: float = brentq(lambda s: ramp_mean(s, sigma, lipschitz) - probability, -reach, reach, xtol=1e-13, rtol=1e-14)
    return root


def published_radius(low: float, high: float, sigma: float, lipschitz: float) -> float:
    """Return the radius that Delattre et al. (2025) publish for the same outputs (their rho = 0).

    Phi^-1(p) / Lip with Lip = L (Phi((s0 + 1/L) / sigma) - Phi(s0 / sigma)) / phi(Phi^-1(p)) and s0 solving
    1 - L int Phi(s / sigma) ds over [s0, s0 + 1/L] = p; half the difference of both classes.

    >>> round(published_radius(0.99, 0.01, 0.25, 1.0), 4)
    0.7137
    """
    return 0.5 * (_published(low, sigma, lipschitz) - _published(high, sigma, lipschitz))


def _published(probability: float, sigma: float, lipschitz: float) -> float:
    from scipy.special import ndtr, ndtri

    if probability in (0.0, 1.0):
        return math.copysign(math.inf, probability - 0.5)
    if probability < 0.5:
        return -_published(1.0 - probability, sigma, lipschitz)
    quantile = float(ndtri(probability))
    if lipschitz * sigma > _STEEP:
        return sigma * quantile
    # s0 + 1/2L is where the ramp of `ramp_mean` stands at the mirrored level.
    start = ramp_inverse(1.0 - probability, sigma, lipschitz) - 0.5 / lipschitz
    rise = lipschitz * float(ndtr((start + 1.0 / lipschitz) / sigma) - ndtr(start / sigma))
    density = math.exp(-0.5 * quantile * quantile) / math.sqrt(2.0 * math.pi)
    return quantile * density / rise if rise > 0 else sigma * quantile


def ceiling(geometry: Geometry, draws: int, alpha: float) -> float:
    """Return the largest radius that n votes can prove, when all agree: sigma Phi^-1(alpha^(1/n)) for Gaussians.

    Examples
    --------
    >>> round(ceiling(Geometry("l2", 1.0), 100_000, 0.001), 4)
    3.8115
    """
    low = alpha ** (1.0 / draws)
    return geometry.radius(low, 1.0 - low)


def least_draws(alpha: float) -> int:
    """Return the fewest agreeing votes that certify anything: alpha^(1/n) >= 1/2.

    >>> least_draws(0.001), least_draws(0.01)
    (10, 7)
    """
    # An alpha that is a power of 1/2 must not cost one more draw by the rounding of two logarithms.
    return math.ceil(math.log(alpha) / math.log(0.5) - 1e-12)


def rounded_down(radius: float, digits: int = DIGITS) -> float:
    """Return a radius rounded down to few decimals: 0.4996 must not pass for 0.5.

    >>> rounded_down(0.49999999), rounded_down(-1.0), rounded_down(0.1)
    (0.499999, 0.0, 0.1)
    """
    if not radius > 0:
        return 0.0
    if math.isinf(radius):
        raise ValueError("a certificate has a finite radius")
    from decimal import ROUND_FLOOR, Decimal

    # In decimals: times 10^6 in binary, 0.1 and its like would be rounded before they are floored.
    return float(Decimal(repr(float(radius))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR))
