"""Are minimum detectable effects of exact and rank tests what counting all cases gives?"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import betabinom, binom, kstwo

from audits.statistics import clopper_pearson
from audits.statistics.power_exact import (
    area_above_half,
    both_needed,
    grown,
    paired_rates,
    rank_deviation,
    rates_apart,
    shortfall,
)


def test_two_rates_are_apart_as_often_as_all_pairs_of_counts_say() -> None:
    units, level, middle = (9, 14), 0.9, 0.4
    step = rates_apart(middle, units, level)
    assert step is not None
    rates = (middle - step / 2, middle + step / 2)
    chance = sum(
        binom.pmf(one, units[0], rates[0]) * binom.pmf(other, units[1], rates[1])
        for one, other in product(range(units[0] + 1), range(units[1] + 1))
        if clopper_pearson(one, units[0], level=level)[1] < clopper_pearson(other, units[1], level=level)[0]
    )
    assert chance == pytest.approx(0.8, abs=1e-3)


def test_rates_near_an_end_are_apart_sooner_than_in_the_middle() -> None:
    near, middle = rates_apart(0.05, (200, 200), 0.95), rates_apart(0.5, (200, 200), 0.95)
    assert near is not None and middle is not None and near < middle
    # Counts beyond which the normal law stands for them join on.
    counted, normal = rates_apart(0.5, (4_000, 4_000), 0.95), rates_apart(0.5, (4_001, 4_001), 0.95)
    assert counted == pytest.approx(normal, rel=0.015)


def test_too_few_units_show_nothing() -> None:
    assert rates_apart(0.5, (2, 2), 0.95) is None
    assert area_above_half((2, 2), 0.95) is None
    assert paired_rates(100, 0.0, 0.95) is None and paired_rates(100, 0.05, 0.95) is None
    # Three rows can have a coverage of nought and still be three of ten.
    assert shortfall(0.5, 3, 0.95) is None
    assert rank_deviation(5, 0.999) is None


def test_a_perfect_split_of_few_units_is_an_area_that_is_shown() -> None:
    found = area_above_half((8, 8), 0.95)
    assert found is not None and 0.85 < found < 0.95


def test_a_shortfall_is_where_the_exact_test_rejects_in_four_of_five() -> None:
    size = shortfall(0.9, 50, 0.95)
    assert size is not None
    rejected = [k for k in range(51) if 2 * binom.cdf(k, 50, 0.9) <= 0.05]
    assert binom.cdf(max(rejected), 50, 0.9 - size) == pytest.approx(0.8)
    # Of a band that was calibrated on 49 rows: of 50 (1 - c) rows beyond its ends, and 50 c within.
    set_on = shortfall(0.9, 50, 0.95, calibration=49)
    assert set_on is not None
    rejected = [k for k in range(45) if 2 * betabinom.cdf(k, 50, 45, 5) <= 0.05]
    kept = 50 * (0.9 - set_on)
    assert betabinom.cdf(max(rejected), 50, kept, 50 - kept) == pytest.approx(0.8)
    # Of a threshold that was itself set on few rows more is needed, and of one on very many hardly any more.
    few, many = shortfall(0.9, 50, 0.95, calibration=50), shortfall(0.9, 50, 0.95, calibration=10**6)
    assert few is not None and many is not None and few > 1.15 * size and many == pytest.approx(size, rel=0.02)


def test_a_deviation_of_ranks_lies_beyond_the_critical_one_and_by_less_than_chance_moves_the_middle() -> None:
    for units, level in ((50, 0.95), (400, 0.99), (2000, 0.9995)):
        size, critical = rank_deviation(units, level), float(kstwo.isf(1 - level, units))
        assert size is not None and critical < size < critical + 0.8416 * 0.5 / np.sqrt(units)


def test_both_sides_grow_alike_until_the_effect_is_shown() -> None:
    def size(units: tuple[int, int]) -> float | None:
        return area_above_half(units, 0.95)

    needed = both_needed(size, (20, 60), 0.6)
    assert needed is not None and needed[1] == 3 * needed[0] and grown((20, 60), needed[0]) == needed
    enough, less = size(needed), size(grown(needed, needed[0] - 1))
    assert enough is not None and less is not None and enough <= 0.6 < less
    assert both_needed(lambda units: None, (20, 60), 0.6) is None
