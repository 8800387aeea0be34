"""Are variances drawn together by as much as they are alike?"""

import math

import numpy as np
import pytest
from scipy.special import polygamma

from audits.statistics.moderated import inverse_trigamma, squeeze

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("y", [1e-5, 0.01, 0.5, 1.0, 3.0, 250.0, 1e6, 1e9])
def test_the_inverse_of_trigamma(y: float) -> None:
    assert inverse_trigamma(float(polygamma(1, y))) == pytest.approx(y, rel=1e-6)


@pytest.mark.parametrize(("d0", "df"), [(4.0, 2), (10.0, 4), (6.0, 1)])
def test_the_prior_that_variances_were_drawn_from_is_found(d0: float, df: int) -> None:
    rng, m = np.random.default_rng(3), 100_000
    true = 2.5 * d0 / rng.chisquare(d0, m)
    found = squeeze(true * rng.chisquare(df, m) / df, df)
    assert found.prior_df == pytest.approx(d0, rel=0.2)
    assert found.prior_variance == pytest.approx(2.5, rel=0.05)


def test_a_moderated_t_has_the_degrees_of_freedom_it_says() -> None:
    from scipy.stats import t

    rng, m, d0, df = np.random.default_rng(5), 40_000, 4.0, 2
    true = d0 / rng.chisquare(d0, m)
    found = squeeze(true * rng.chisquare(df, m) / df, df)
    values = rng.standard_normal(m) * np.sqrt(true)
    p = 2 * t.sf(np.abs(values) / np.sqrt(found.variances), found.freedom)
    for level in (0.01, 0.05, 0.5):
        assert abs((p < level).mean() - level) < 4 * math.sqrt(level * (1 - level) / m) + 0.002


def test_the_formula_by_hand() -> None:
    given = np.array([0.1, 1.0, 40.0, 3.0, 0.02])
    found = squeeze(given, 3)
    assert 0 < found.prior_df < math.inf
    expected = (found.prior_df * found.prior_variance + 3 * given) / (found.prior_df + 3)
    np.testing.assert_allclose(found.variances, expected)
    np.testing.assert_allclose(found.freedom, min(found.prior_df + 3, 15))


def test_equal_ones_are_one_and_have_their_sum_of_degrees_of_freedom_at_most() -> None:
    found = squeeze(np.full(6, 2.0), 2)
    assert found.prior_df == math.inf
    assert found.variances.tolist() == [2.0] * 6 and found.freedom.tolist() == [12.0] * 6
    assert squeeze(np.full(6, 2.0), 2, most=5.0).freedom.tolist() == [5.0] * 6
    # None has fewer than its own.
    assert squeeze(np.full(6, 2.0), 2, most=0.5).freedom.tolist() == [2.0] * 6


def test_caution_takes_them_for_less_alike() -> None:
    given = np.random.default_rng(0).chisquare(2, 30)
    weak, strong = squeeze(given, 2, caution=2.0), squeeze(given, 2)
    assert weak.prior_df < strong.prior_df and weak.prior_variance == strong.prior_variance
    assert (weak.variances.max() > strong.variances.max()) and weak.freedom.max() < strong.freedom.max()


@pytest.mark.parametrize("given", [[], [3.0], [1.0, 9.0], [0.0, 0.0, 0.0, 0.0]])
def test_few_or_only_zeros_are_left_alone(given: list[float]) -> None:
    found = squeeze(np.array(given), 2)
    assert found.variances.tolist() == given and found.prior_df == 0 and (found.freedom == 2).all()


def test_a_zero_is_lifted_and_nothing_is_infinite() -> None:
    found = squeeze(np.array([0.0, 1.0, 2.0, 1.5, 0.8, 1.2]), 2)
    assert found.variances[0] > 0 and np.isfinite(found.variances).all() and np.isfinite(found.freedom).all()


def test_each_may_have_its_own_degrees_of_freedom() -> None:
    found = squeeze(np.array([1.0, 4.0, 0.3, 2.0]), np.array([1.0, 4.0, 4.0, 2.0]))
    assert found.freedom[0] <= found.freedom[1]
    rng, df = np.random.default_rng(8), np.repeat([1.0, 2.0, 4.0], 30_000)
    true = 3 * 5.0 / rng.chisquare(5.0, len(df))
    found = squeeze(true * rng.chisquare(df) / df, df)
    assert found.prior_df == pytest.approx(5, rel=0.25) and found.prior_variance == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize(("given", "df"), [([-1.0, 1, 1], 2), ([math.nan, 1, 1], 2), ([1.0, 1, 1], 0)])
def test_what_is_no_variance_is_refused(given: list[float], df: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        squeeze(np.array(given), df)
