"""Is what no accountant goes below a lower bound indeed, and a near one?"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from audits.membership.privacy_loss import CELLS, least_epsilon
from audits.statistics.epsilon_bounds import gdp_epsilon
from probes.core.errors import InputError
from probes.generators.accounting import Stage, rdp_epsilon

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (1.0, 10), (3.0, 400), (0.5, 4)])
def test_without_sampling_it_is_the_epsilon_of_a_gaussian(noise: float, steps: int) -> None:
    truth = gdp_epsilon(math.sqrt(steps) / noise, 1e-5)
    found = least_epsilon([Stage(noise, 1.0, steps)], 1e-5)
    # Rounding down costs each step up to a cell.
    assert truth - 0.1 < found <= truth


@pytest.mark.parametrize(("noise", "rate"), [(0.5, 0.3), (1.0, 0.1), (2.0, 0.9)])
def test_one_step_is_the_integral_of_the_definition(noise: float, rate: float) -> None:
    def spent(epsilon: float) -> float:
        def over(z: float) -> float:
            plain = norm.pdf(z, 0, noise)
            return max(0.0, (1 - rate) * plain + rate * norm.pdf(z, 1, noise) - math.exp(epsilon) * plain)

        return float(quad(over, -10 * noise, 1 + 12 * noise, limit=500, points=(0, 1))[0])

    truth = brentq(lambda epsilon: spent(epsilon) - 1e-3, 0, 50)
    assert truth - 1e-3 < least_epsilon([Stage(noise, rate, 1)], 1e-3) < truth + 1e-6


@settings(max_examples=15, deadline=None)
@given(st.floats(0.4, 20), st.floats(1e-4, 1), st.integers(1, 20_000), st.sampled_from((1e-9, 1e-5, 0.1)))
def test_it_is_below_what_is_accounted(noise: float, rate: float, steps: int, delta: float) -> None:
    stages = [Stage(noise, rate, steps)]
    assert 0 <= least_epsilon(stages, delta) <= rdp_epsilon(stages, delta).epsilon


def test_stages_add_up_in_any_order_and_more_steps_spend_more() -> None:
    parts = [Stage(1.5, 0.02, 300), Stage(1.2, 0.01, 100), Stage(1.5, 0.02, 200)]
    once = least_epsilon([Stage(1.2, 0.01, 100), Stage(1.5, 0.02, 500)], 1e-5)
    assert least_epsilon(parts, 1e-5) == pytest.approx(once, abs=1e-5)
    assert least_epsilon(parts[:2], 1e-5) < once


def test_of_more_steps_than_the_grid_holds_nothing_is_shown() -> None:
    assert least_epsilon([Stage(1.0, 0.01, CELLS)], 1e-5) == 0
    assert np.isfinite(least_epsilon([Stage(1e-3, 0.5, 10)], 1e-5))


def test_without_delta_there_is_nothing_to_ask() -> None:
    with pytest.raises(InputError):
        least_epsilon([Stage(1.0, 0.01, 10)], 0.0)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [(1, 1e-5, 300_000, 1e-11), (4, 1e-4, 400_000, 1e-11), (1, 1e-6, 500_000, 1e-11), (1, 1e-4, 50_000, 1e-12)],
)
def test_rounding_of_transforms_is_never_taken_for_privacy_loss(
    noise: float, rate: float, steps: int, delta: float
) -> None:
    """Of so small a delta and so many steps the rounding alone made up to seven times what was accounted."""
    assert least_epsilon([Stage(noise, rate, steps)], delta) <= rdp_epsilon([Stage(noise, rate, steps)], delta).epsilon
