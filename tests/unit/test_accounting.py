import math

import numpy as np
import pytest
from scipy.integrate import quad

from probes.core.errors import InputError
from probes.generators.accounting import MIN_NOISE, ORDERS, Stage, noise_for, rdp_epsilon, renyi

pytestmark = pytest.mark.numerical


def integral(noise: float, rate: float, order: float) -> float:
    """Return the divergence from its definition, as an integral over z."""

    def integrand(z: float) -> float:
        ratio = math.log(1 - rate + rate * math.exp((2 * z - 1) / (2 * noise**2)))
        return math.exp(order * ratio - z * z / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))

    ends = (-10 * noise, order + 10 * noise)
    found = quad(integrand, *ends, points=(0, 0.5, order), limit=500, epsabs=0, epsrel=1e-13)[0]
    return math.log(found) / (order - 1)


@pytest.mark.parametrize(("noise", "rate"), [(0.5, 0.3), (0.7, 0.01), (1.1, 0.5), (2.292, 0.128), (6.0, 0.9)])
def test_whole_and_fractional_orders_are_the_integral_of_the_definition(noise, rate) -> None:
    found = renyi(noise, rate)
    for place in (0, 4, 9, 14, 35, 79, 85):
        assert found[place] == pytest.approx(integral(noise, rate, ORDERS[place]), rel=1e-8, abs=1e-13)


@pytest.mark.parametrize("noise", [MIN_NOISE, 0.02, 0.3, 1.0, 30.0, 1e200])
@pytest.mark.parametrize("rate", [1e-200, 1e-6, 0.1, 0.999999])
def test_divergences_are_finite_rise_with_the_order_and_stay_below_the_unsampled_ones(noise, rate) -> None:
    found = renyi(noise, rate)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (np.diff(found) >= -1e-11 - 1e-9 * found[1:]).all()
    assert (found <= renyi(noise, 1.0) * (1 + 1e-12) + 1e-11).all()


def test_without_sampling_the_divergence_is_that_of_two_gaussians() -> None:
    np.testing.assert_allclose(renyi(2.0, 1.0), np.array(ORDERS) / 8)


def test_a_small_divergence_keeps_its_digits() -> None:
    # For tiny q: A - 1 = C(a, 2) q^2 (e^(1/s^2) - 1) and nothing else that counts.
    assert renyi(1.0, 1e-9)[ORDERS.index(2.0)] == pytest.approx(1e-18 * math.expm1(1), rel=1e-6)


def test_known_figures() -> None:
    found = rdp_epsilon([Stage(2.292, 0.128, 1500)], 1e-3)
    assert found.epsilon == pytest.approx(9.99, abs=0.005)
    assert found.order == 2.5
    assert not found.notes


def test_stages_add_up_in_any_order() -> None:
    parts = [Stage(1.5, 0.02, 300), Stage(1.2, 0.01, 100), Stage(1.5, 0.02, 200)]
    once = rdp_epsilon([Stage(1.2, 0.01, 100), Stage(1.5, 0.02, 500)], 1e-5)
    assert rdp_epsilon(parts, 1e-5).epsilon == pytest.approx(once.epsilon, rel=1e-12)
    assert rdp_epsilon(parts[:2], 1e-5).epsilon < once.epsilon


@pytest.mark.parametrize(
    ("stage", "delta", "word"), [(Stage(0.01, 0.5, 1), 1e-5, "smallest"), (Stage(100.0, 1e-3, 1), 1e-5, "largest")]
)
def test_an_order_at_the_edge_of_the_grid_is_told(stage, delta, word) -> None:
    assert word in rdp_epsilon([stage], delta).notes[0]


def test_epsilon_is_never_negative() -> None:
    assert rdp_epsilon([Stage(1000.0, 1e-3, 1)], 0.9).epsilon == 0


@pytest.mark.parametrize(("epsilon", "rate", "steps"), [(0.5, 0.01, 1000), (8.0, 0.128, 1500), (50.0, 1.0, 10)])
def test_the_noise_for_a_budget_spends_it_and_no_more(epsilon, rate, steps) -> None:
    noise = noise_for(epsilon, 1e-5, rate, steps)
    assert epsilon * (1 - 1e-6) < rdp_epsilon([Stage(noise, rate, steps)], 1e-5).epsilon <= epsilon


def test_a_budget_below_the_cost_of_the_conversion_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        noise_for(0.01, 1e-5, 0.01, 100)
    assert "0.01" in caught.value.message


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ((0.0, 0.1, 1), "--noise-multiplier"),
        ((-1.0, 0.1, 1), "--noise-multiplier"),
        ((math.nan, 0.1, 1), "--noise-multiplier"),
        ((math.inf, 0.1, 1), "--noise-multiplier"),
        ((1.0, 0.0, 1), "--sample-rate"),
        ((1.0, 1.01, 1), "--sample-rate"),
        ((1.0, math.nan, 1), "--sample-rate"),
        ((1.0, 0.1, 0), "--steps"),
        ((1.0, 0.1, 1.5), "--steps"),
        ((1.0, 0.1, math.nan), "--steps"),
        ((1.0, 0.1, 10**13), "--steps"),
    ],
)
def test_what_is_no_private_training_is_refused(values, where) -> None:
    with pytest.raises(InputError) as caught:
        Stage(*values)
    assert caught.value.where == where
    assert caught.value.hint


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_a_delta_outside_0_and_1_is_refused(delta) -> None:
    for call in (lambda: rdp_epsilon([Stage(1.0, 0.1, 1)], delta), lambda: noise_for(1.0, delta, 0.1, 1)):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.where == "--delta"


def test_no_steps_are_refused() -> None:
    with pytest.raises(InputError):
        rdp_epsilon([], 1e-5)
