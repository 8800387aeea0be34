"""Minimum detectable effects against the power of the same tests by statsmodels, and against draws."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower
from statsmodels.stats.proportion import power_proportions_2indep

from audits.statistics import clopper_pearson
from audits.statistics.power import (
    area_above,
    area_error,
    mean,
    mean_difference,
    rate_above,
    rate_difference,
    rate_reaching,
    shift_shown,
    units_needed,
)


@pytest.mark.parametrize(("one", "two", "level"), [(64, 64, 0.95), (12, 240, 0.95), (5, 9, 0.99), (40, 50, 0.9)])
def test_a_difference_of_means_has_the_power_of_the_t_test(one: int, two: int, level: float) -> None:
    effect = mean_difference(2.0, (one, two), level)
    assert effect is not None
    error = 2.0 * math.sqrt(1 / one + 1 / two)
    welch = (1 / one + 1 / two) ** 2 / (1 / one**2 / (one - 1) + 1 / two**2 / (two - 1))
    assert stats.nct.sf(stats.t.isf((1 - level) / 2, welch), welch, effect / error) == pytest.approx(0.8)
    if one == two:
        power = TTestIndPower().power(effect / 2.0, one, 1 - level, ratio=1.0)
        assert power == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize(("units", "level"), [(34, 0.95), (6, 0.95), (200, 0.999)])
def test_a_mean_has_the_power_of_the_t_test(units: int, level: float) -> None:
    effect = mean(0.5, units, level)
    assert effect is not None
    assert TTestPower().power(effect / 0.5, units, 1 - level) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("level", [0.999999, 1 - 1e-12, math.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("units", [2, 3, 40])
def test_the_highest_levels_of_few_units_have_a_size_and_no_warning(units: int, level: float) -> None:
    sizes = [mean(1.0, units, level), mean_difference(1.0, (units, units + 1), level)]
    for size in sizes:
        assert size is not None and math.isfinite(size)


def test_a_level_that_rounds_to_one_shows_nothing() -> None:
    assert mean(1.0, 5, 1.0) is None and mean_difference(1.0, (5, 5), 1.0) is None
    assert area_above(0.8, (50, 50), 1.0) is None


@pytest.mark.parametrize(("rate", "units"), [(0.5, (385, 385)), (0.9, (200, 200))])
def test_a_difference_of_rates_has_the_power_of_two_proportions(rate: float, units: tuple[int, int]) -> None:
    effect = rate_difference(rate, units, 0.95, below=rate > 0.5)
    assert effect is not None
    other = rate - effect if rate > 0.5 else rate + effect
    found = power_proportions_2indep(other - rate, rate, units[1], ratio=units[0] / units[1], return_results=False)
    # statsmodels takes the error under no difference for the test, this one that of the interval.
    assert found == pytest.approx(0.8, abs=0.04)


def test_a_difference_of_rates_of_unequal_groups_is_shown_by_plain_intervals() -> None:
    effect = rate_difference(0.3, (120, 600), 0.95)
    assert effect is not None
    rng = np.random.default_rng(0)
    one, two = rng.binomial(120, 0.3, 4000) / 120, rng.binomial(600, 0.3 + effect, 4000) / 600
    error = np.sqrt(one * (1 - one) / 120 + two * (1 - two) / 600)
    assert ((two - one) / error > 1.96).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("fixed", "units", "level"), [(0.25, 64, 0.99), (0.5, 20, 0.95), (0.02, 300, 0.95)])
def test_a_rate_above_a_fixed_one_is_shown_by_its_exact_interval(fixed: float, units: int, level: float) -> None:
    rate = rate_above(fixed, units, level)
    assert rate is not None
    counts = np.arange(units + 1)
    shows = [clopper_pearson(int(count), units, level=level)[0] > fixed for count in counts]
    assert stats.binom.pmf(counts, units, rate)[shows].sum() == pytest.approx(0.8)


def test_a_rate_that_reaches_a_count_has_that_chance() -> None:
    assert stats.binom.sf(14, 20, rate_reaching(15, 20)) == pytest.approx(0.8)
    assert rate_reaching(0, 20) == 0.0


def test_an_area_has_the_error_of_draws() -> None:
    rng, shift = np.random.default_rng(0), math.sqrt(2) * stats.norm.ppf(0.8)
    scores = rng.normal(size=(2000, 30)) + shift, rng.normal(size=(2000, 50))
    areas = (scores[0][:, :, None] > scores[1][:, None, :]).mean(axis=(1, 2))
    assert area_error(0.8, (30, 50)) == pytest.approx(areas.std(), rel=0.05)


def test_more_units_show_smaller_effects() -> None:
    found = [area_above(0.8, (count, count), 0.95) for count in (30, 100, 1000, 100_000)]
    known = [one for one in found if one is not None]
    assert len(known) == 4 and known == sorted(known, reverse=True) and known[-1] == pytest.approx(0.803, abs=1e-3)


def test_too_few_units_show_nothing() -> None:
    assert mean(1.0, 1, 0.95) is None
    assert mean_difference(1.0, (1, 50), 0.95) is None
    assert rate_above(0.5, 4, 0.95) is None
    assert area_above(0.8, (1, 50), 0.95) is None and area_above(0.8, (6, 6), 0.95) is None
    assert rate_difference(0.95, (10, 10), 0.95) is None


def test_without_spread_every_effect_is_shown() -> None:
    assert mean(0.0, 5, 0.95) == 0.0


def test_units_for_an_effect_are_the_least_that_show_it() -> None:
    def least(count: int) -> float | None:
        return mean_difference(1.0, (count, 20 * count), 0.95)

    units = units_needed(least, 0.3)
    assert units is not None
    there, before = least(units), least(units - 1)
    assert there is not None and before is not None and there <= 0.3 < before
    assert units_needed(least, 1e-9, most=1000) is None


def test_a_shift_of_many_degrees_of_freedom_is_that_of_the_normal() -> None:
    assert shift_shown(2.0, 1e5) == pytest.approx(shift_shown(2.0, math.inf), abs=1e-4)
