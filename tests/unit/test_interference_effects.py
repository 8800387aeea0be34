"""Are rank correlations over cells, their intervals and p-values those of their definitions?"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from audits.interference.effects import correlation_interval, p_interval, rank_correlation, without_interval
from audits.statistics.qap import QapTest


def square(seed: int, count: int = 7) -> np.ndarray:
    made = np.random.default_rng(seed).normal(size=(count, count))
    np.fill_diagonal(made, np.nan)
    return made


def test_a_rank_correlation_is_over_the_cells_that_both_have() -> None:
    first, second = square(0), square(1)
    second[2, 3] = first[4, 1] = np.nan
    both = ~np.isnan(first) & ~np.isnan(second)
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first[both], second[both]).statistic)


@pytest.mark.parametrize("second", [np.zeros((4, 4)), np.full((4, 4), np.nan)])
def test_a_constant_has_no_correlation(second: np.ndarray) -> None:
    assert rank_correlation(square(0, 4), second) is None


def test_the_diagonal_plays_no_part() -> None:
    first, second = square(0), square(1)
    before = rank_correlation(first, second)
    np.fill_diagonal(first, 99.0)
    assert rank_correlation(first, second) == before


def test_an_interval_leaves_languages_out_and_narrows_with_a_stronger_relation() -> None:
    widths = []
    for noise in (2.0, 0.1):
        cells = square(0, 12)
        other = cells + noise * square(1, 12)
        value = rank_correlation(cells, other)
        assert value is not None
        made = correlation_interval(cells, other, value, 0.95)
        assert made.low is not None and made.high is not None and -1 <= made.low < made.value < made.high <= 1
        assert made.n == 12 and not without_interval(made, {"attribute": "x"})
        widths.append(made.high - made.low)
    assert widths[1] < widths[0]


@pytest.mark.parametrize("count", [4, 7])
def test_a_perfect_or_small_correlation_has_a_warning_instead_of_an_interval(count: int) -> None:
    cells = square(0, count)
    other = cells if count == 7 else square(1, count)
    value = rank_correlation(cells, other)
    assert value is not None
    made = correlation_interval(cells, other, value, 0.95)
    (warning,) = without_interval(made, {"attribute": "x"})
    assert made.method == "none" and warning.where == {"attribute": "x"}


def test_a_p_value_is_exact_or_has_the_interval_of_its_draws() -> None:
    exact = QapTest(value=0.1, p=1 / 15, arrangements=15, exact=True, smallest_p=1 / 15, cells=30, languages=6)
    made = p_interval(exact, 0.95)
    assert (made.value, made.low, made.method, made.n) == (1 / 15, None, "exact", 15)
    made = p_interval(replace(exact, p=51 / 1001, arrangements=1001, exact=False), 0.95)
    assert made.low is not None and made.high is not None
    # About 50 hits in 1000 draws.
    assert 0.037 < made.low < made.value < made.high < 0.067
