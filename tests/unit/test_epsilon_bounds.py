"""Are bounds of epsilon what their definitions say, and Gaussian curves accurate far out?"""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom, norm

from audits.statistics.binomial import upper_limit
from audits.statistics.epsilon_bounds import (
    MOST_EPSILON,
    ceiling,
    epsilon_of_rates,
    error_rates,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    most_hits,
    mu_of_rates,
)

pytestmark = pytest.mark.numerical

GAUSSIAN = [(0.25, 0.926), (0.5, 1.993), (1.0, 4.377), (2.0, 9.997), (3.0, 16.676)]
"""mu, and epsilon at delta = 1e-5."""


@pytest.mark.parametrize("trials", [1, 2, 24, 500, 100_000])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.0125, 1e-6])
def test_an_upper_rate_is_the_one_at_which_so_few_errors_are_just_that_rare(trials: int, alpha: float) -> None:
    errors = np.unique(np.array([0, 1, 2, trials // 10, trials // 2, trials - 1]).clip(0, trials - 1))
    found = upper_limit(errors, trials, alpha)
    np.testing.assert_allclose(binom.cdf(errors, trials, found), alpha, rtol=1e-6)
    np.testing.assert_allclose(found, beta.ppf(1 - alpha, errors + 1, trials - errors), rtol=1e-9)
    assert np.all(np.diff(found) > 0)
    assert found[0] == pytest.approx(1 - alpha ** (1 / trials))


def test_upper_rates_of_nothing_but_errors_and_of_nothing_at_all_are_one() -> None:
    assert upper_limit([5, 0, 4], [5, 0, 5], 0.05)[:2].tolist() == [1.0, 1.0]
    assert upper_limit(np.zeros((2, 3)), np.full((2, 3), 7), 0.05).shape == (2, 3)


def test_error_rates_share_the_error() -> None:
    fpr, fnr = error_rates(80, 100, 7, 50, 0.05)
    assert (fpr, fnr) == pytest.approx((beta.ppf(0.975, 8, 43), beta.ppf(0.975, 21, 80)))


@pytest.mark.parametrize(
    ("fpr", "fnr", "delta", "epsilon"),
    [
        (0.1, 0.1, 0.0, math.log(9)),
        (0.01, 0.5, 0.0, math.log(50)),  # from (1 - FNR) / FPR
        (0.5, 0.01, 0.0, math.log(50)),  # from (1 - FPR) / FNR
        (0.1, 0.2, 0.3, math.log(5)),
        (0.2, 0.1, 0.3, math.log(5)),
        (0.5, 0.5, 0.0, 0.0),
        (0.9, 0.9, 0.0, 0.0),  # worse than chance proves nothing this way round
        (1.0, 1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 0.0),
        (0.0, 1.0, 1e-5, 0.0),
        (1e-9, 0.9999, 1e-3, 0.0),  # fewer hits than delta
        (0.9999, 1e-9, 1e-3, 0.0),
        (0.1, 0.1, 0.95, 0.0),  # delta alone allows it
        (0.0, 0.5, 0.0, math.inf),
        (0.5, 0.0, 0.0, math.inf),
    ],
)
def test_epsilon_of_rates_by_hand(fpr: float, fnr: float, delta: float, epsilon: float) -> None:
    assert float(epsilon_of_rates(fpr, fnr, delta)) == pytest.approx(epsilon)


def test_epsilon_of_rates_is_the_least_under_which_both_are_possible() -> None:
    rng = np.random.default_rng(0)
    fpr, fnr = rng.uniform(size=(2, 2000))
    for delta in (0.0, 1e-5, 0.2):
        found = epsilon_of_rates(fpr, fnr, delta)
        assert np.isfinite(found).all()

        def allowed(epsilon: np.ndarray, delta: float = delta) -> np.ndarray:
            grown = np.exp(epsilon)
            return (1 - fnr <= grown * fpr + delta + 1e-12) & (1 - fpr <= grown * fnr + delta + 1e-12)

        assert allowed(found).all()
        proved = found > 1e-6
        assert proved.sum() > 500
        assert not allowed(found - 1e-6)[proved].any()


def test_mu_of_rates_is_that_of_the_normal_curve_through_them() -> None:
    for mu in (0.1, 1.0, 4.0):
        for border in (-2.0, 0.3, 2.5):
            found = mu_of_rates(norm.sf(border), norm.cdf(border - mu))
            assert float(found) == pytest.approx(mu, abs=1e-9)
    # Not better than chance, never called, and always called.
    assert mu_of_rates([0.6, 0.0, 1.0, 1.0], [0.5, 1.0, 0.0, 1.0]).tolist() == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("points", "most"), [(100, 3.28), (500, 4.91), (1000, 5.60), (10_000, 7.905)])
def test_what_a_perfect_attack_would_prove(points: int, most: float) -> None:
    found = ceiling(points, points, delta=1e-5, alpha=0.05)
    assert found == pytest.approx(most, abs=0.006)
    limit = 1 - 0.025 ** (1 / points)
    assert found == pytest.approx(math.log((1 - limit - 1e-5) / limit), abs=1e-9)


def test_a_ceiling_is_above_all_that_counts_can_prove_and_grows() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        m, n = rng.integers(1, 400, size=2)
        hits, alarms = rng.integers(0, m + 1), rng.integers(0, n + 1)
        proved = float(epsilon_of_rates(*error_rates(hits, m, alarms, n, 0.05), 1e-5))
        most = ceiling(int(m), int(n), delta=1e-5, alpha=0.05)
        assert proved <= most <= ceiling(int(m) + 1, int(n) + 1, delta=1e-5, alpha=0.05)
        assert most <= ceiling(int(m), int(n), delta=0.0, alpha=0.05)


@pytest.mark.parametrize(("mu", "epsilon"), GAUSSIAN)
def test_the_epsilon_of_a_gaussian_mechanism(mu: float, epsilon: float) -> None:
    assert gdp_epsilon(mu, 1e-5) == pytest.approx(epsilon, abs=0.002)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 3.0, 12.0, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01, 0.3])
def test_mu_and_epsilon_lead_back_to_each_other(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    if epsilon == 0:
        assert float(gdp_delta(0.0, mu)) <= delta
        return
    assert float(gdp_delta(epsilon, mu)) == pytest.approx(delta, rel=1e-6)
    assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=1e-7)


def of_the_loss(epsilon: float, mu: float) -> float:
    """Return delta as the mean of max(0, 1 - exp(epsilon - loss)) over a loss that is normal with variance mu^2."""
    middle = mu**2 / 2
    start = max(epsilon, middle - 12 * mu)
    value, _ = quad(
        lambda loss: -math.expm1(epsilon - loss) * norm.pdf(loss, middle, mu), start, start + 14 * mu, limit=500
    )
    return float(value)


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.0, 1.0), (1.0, 1.0), (4.377, 1.0), (10.0, 2.0), (700.0, 40.0), (800.0, 40.0), (1000.0, 40.0)]
)
def test_delta_is_the_mean_over_the_privacy_loss_far_out_too(epsilon: float, mu: float) -> None:
    assert float(gdp_delta(epsilon, mu)) == pytest.approx(of_the_loss(epsilon, mu), rel=1e-6)


def test_delta_falls_with_epsilon_and_rises_with_mu_without_overflow() -> None:
    for mu in (0.01, 1.0, 40.0, 200.0):
        found = gdp_delta(np.concatenate((np.linspace(0, 50, 101), np.geomspace(50, 1e4, 100))), mu)
        assert np.isfinite(found).all()
        assert ((found >= 0) & (found <= 1)).all()
        assert (np.diff(found) <= 0).all()
    rising = [float(gdp_delta(3.0, mu)) for mu in np.geomspace(0.01, 100, 50)]
    assert rising == sorted(rising)
    # At epsilon 0 it is the largest advantage.
    assert float(gdp_delta(0.0, 1.5)) == pytest.approx(2 * norm.cdf(0.75) - 1)


def test_epsilon_of_too_small_and_too_large_a_mu() -> None:
    assert gdp_epsilon(0.0, 1e-5) == 0.0
    assert gdp_epsilon(1e-6, 1e-5) == 0.0
    assert gdp_epsilon(1e3, 1e-5) == MOST_EPSILON
    assert gdp_epsilon(100.0, 1e-5) == pytest.approx(100**2 / 2 + 100 * norm.isf(1e-5), rel=0.01)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 8.0, 16.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_the_most_hits_are_the_last_that_are_allowed(epsilon: float, delta: float) -> None:
    fpr = np.concatenate(([1e-9, 1e-4], np.linspace(0.001, 0.999, 300)))
    most = most_hits(fpr, epsilon, delta)
    assert ((most >= 0) & (most <= 1)).all()
    assert (np.diff(most) >= 0).all()
    assert (epsilon_of_rates(fpr, 1 - most, delta) <= epsilon + 1e-4).all()
    below = most < 1 - 1e-6
    assert epsilon > 9 or below.any()
    assert (epsilon_of_rates(fpr, 1 - most - 1e-7, delta) > epsilon)[below].all()


def test_the_most_hits_by_hand_and_for_a_huge_epsilon() -> None:
    third = math.log(3)
    # e^epsilon FPR + delta below FPR = 1 / 4, and 1 - e^-epsilon (1 - delta - FPR) above it.
    assert most_hits([0.0, 0.1, 0.25, 0.7, 1.0], third, 0.0).tolist() == pytest.approx([0, 0.3, 0.75, 0.9, 1])
    assert most_hits([0.0, 0.1, 0.95], third, 0.1).tolist() == pytest.approx([0.1, 0.4, 1])
    assert most_hits([0.0, 1e-3, 1.0], 1e4, 1e-5).tolist() == [1e-5, 1.0, 1.0]
    # Without epsilon and delta, nobody is better than chance.
    assert most_hits([0.0, 0.3, 1.0], 0.0, 0.0).tolist() == pytest.approx([0, 0.3, 1])
