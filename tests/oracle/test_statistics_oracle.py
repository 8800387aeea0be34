"""The statistics against implementations that others wrote, and against arithmetic by hand."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audits.statistics import (
    adjust,
    all_pairs,
    change_of_rate,
    clopper_pearson,
    independent_difference,
    monte_carlo_p,
    percentile_interval,
    permuted_group_sums,
    rate_intervals,
    student,
    student_contrasts,
    variance_or_least,
    wilson,
)
from audits.statistics.clustered_rates import STUDENT_CLUSTERS, between_clusters, spread_of

pytestmark = pytest.mark.numerical

CASES = [(0, 1), (1, 1), (0, 24), (24, 24), (3, 10), (1, 1000), (500, 1000), (999, 1000)]


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(("successes", "trials"), CASES)
def test_binomial_intervals_are_those_of_scipy_and_statsmodels(successes: int, trials: int, level: float) -> None:
    from scipy.stats import binomtest
    from statsmodels.stats.proportion import proportion_confint

    exact = binomtest(successes, trials).proportion_ci(level, method="exact")
    score = binomtest(successes, trials).proportion_ci(level, method="wilson")
    assert clopper_pearson(successes, trials, level=level) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert wilson(successes, trials, level=level) == pytest.approx((score.low, score.high), abs=1e-9)
    beta = proportion_confint(successes, trials, alpha=1 - level, method="beta")
    assert clopper_pearson(successes, trials, level=level) == pytest.approx(beta, abs=1e-9)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 3), (4, 3), (0, 0), (0, -1)])
def test_impossible_counts_are_refused(successes: int, trials: int) -> None:
    for interval in (clopper_pearson, wilson):
        with pytest.raises(ValueError, match="successes"):
            interval(successes, trials)


P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@settings(deadline=None)
@given(p_values=P_VALUES)
def test_adjusted_p_values_are_those_of_other_hands(p_values: list[float]) -> None:
    from scipy.stats import false_discovery_control
    from statsmodels.stats.multitest import multipletests

    # It collects garbage at every call, which would take minutes here.
    with patch("gc.collect"):
        holm = multipletests(p_values, method="holm")[1]
    assert adjust(p_values, "holm") == pytest.approx(holm.tolist(), abs=1e-12)
    assert adjust(p_values, "bh") == pytest.approx(false_discovery_control(p_values).tolist(), abs=1e-12)
    assert adjust([], "holm") == []


def test_pooled_rates_are_those_of_fairlearn() -> None:
    from fairlearn.metrics import MetricFrame
    from sklearn.metrics import zero_one_loss

    rng = np.random.default_rng(3)
    speakers = np.repeat(np.arange(40), rng.integers(1, 12, 40))
    group_of = rng.integers(0, 3, 40)
    wrong = rng.random(len(speakers)) < 0.1 + 0.2 * group_of[speakers]
    frame = MetricFrame(
        metrics=zero_one_loss,
        y_true=np.zeros(len(wrong)),
        y_pred=wrong.astype(float),
        sensitive_features=group_of[speakers],
    )
    errors, sizes = np.zeros((40, 4)), np.zeros((40, 4))
    for speaker, failed in zip(speakers, wrong, strict=True):
        for column in (group_of[speaker], 3):
            errors[speaker, column] += failed
            sizes[speaker, column] += 1
    found = rate_intervals(errors, sizes)
    assert found.value[:3].tolist() == pytest.approx(frame.by_group.tolist())
    assert found.value[3] == pytest.approx(frame.overall)
    assert found.clusters.tolist() == [*np.bincount(group_of), 40]
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    assert found.value[:3].max() - found.value[:3].min() == pytest.approx(frame.difference())


def test_few_speakers_get_students_interval_and_none_gets_none() -> None:
    from scipy.stats import t

    errors = np.array([[2.0, 2, 0], [8, 0, 0], [3, 0, 0], [7, 0, 0]])
    sizes = np.array([[10.0, 9, 9], [10, 0, 9], [10, 0, 9], [10, 0, 9]])
    found = rate_intervals(errors, sizes)
    shares = errors[:, 0] / 10
    # The jackknife divides by (1 - w)^2: a mean of m equal clusters has m / (m - 1) of the usual variance.
    half = t.ppf(0.975, 3) * shares.std(ddof=1) / 2 * math.sqrt(4 / 3)
    assert found.method == (STUDENT_CLUSTERS, "none", "Clopper-Pearson over clusters")
    assert (found.low[0], found.high[0]) == pytest.approx((max(0.5 - half, 0), min(0.5 + half, 1)))
    assert np.isnan(found.low[1])
    assert np.isnan(found.high[1])
    # Without one error the speakers, not their clips, are the trials.
    assert (found.low[2], found.high[2]) == pytest.approx(clopper_pearson(0, 4))


def test_the_variance_is_the_jackknifes_where_sizes_and_rates_go_together() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(20, 40, (12, 1)).astype(float)
    errors = rng.binomial(sizes.astype(int), np.linspace(0.1, 0.6, 12)[:, None]).astype(float)
    left = (errors.sum() - errors[:, 0]) / (sizes.sum() - sizes[:, 0])
    # Each speaker left out in turn, about the rate of all (Efron and Tibshirani 1993, 11.5, without (m - 1) / m).
    jackknife = math.sqrt(((left - errors.sum() / sizes.sum()) ** 2).sum())
    assert spread_of(errors, sizes).error[0] == pytest.approx(jackknife, rel=0.05)


def test_variance_between_clusters_is_that_of_paule_and_mandel() -> None:
    from statsmodels.stats.meta_analysis import combine_effects

    rng = np.random.default_rng(8)
    sizes = rng.integers(10, 400, (15, 1)).astype(float)
    errors = rng.binomial(sizes.astype(int), rng.beta(2, 6, (15, 1))).astype(float)
    rate = errors.sum() / sizes.sum()
    rates = errors / sizes
    known = combine_effects(rates[:, 0], rate * (1 - rate) / sizes[:, 0], method_re="iterated")
    between, scaled = between_clusters(rates, rate * (1 - rate) / sizes, sizes > 0, np.array([15]))
    assert between[0] == pytest.approx(known.tau2, rel=1e-4)
    assert (scaled**2).sum() == pytest.approx(14)


def test_one_error_of_one_speaker_leaves_room_above() -> None:
    errors, sizes = np.zeros((6, 1)), np.full((6, 1), 6.0)
    errors[0] = 1
    found = rate_intervals(errors, sizes)
    assert found.low[0] == 0
    assert 0.2 < found.high[0] < 0.6


def test_speakers_who_err_equally_often_give_no_interval_without_width() -> None:
    found = rate_intervals(np.full((2, 1), 1.0), np.full((2, 1), 6.0))
    assert found.low[0] < 1 / 6 < found.high[0]


@pytest.mark.parametrize("errors", [[1] * 9 + [12], [1] * 7 + [0, 3, 2], [0] * 19 + [1], [0] * 9 + [1], [2] * 10])
def test_no_interval_explodes_or_ends_at_its_rate(errors: list[int]) -> None:
    found = rate_intervals(np.array(errors, dtype=float)[:, None], np.full((len(errors), 1), 20.0))
    assert 0 <= found.low[0] < found.value[0] - 1e-3 < found.value[0] + 1e-3 < found.high[0] < 0.6


def test_rates_of_one_and_more_have_intervals_around_them() -> None:
    rng = np.random.default_rng(6)
    sizes = rng.integers(20, 40, 12).astype(float)[:, None]
    varied = rate_intervals(sizes + rng.integers(1, 9, 12)[:, None], sizes)
    assert varied.method == (STUDENT_CLUSTERS,)
    assert 1 < varied.low[0] < varied.value[0] < varied.high[0]
    exact, doubled, half = (rate_intervals(sizes * factor, sizes) for factor in (1.0, 2.0, 0.5))
    assert (exact.low[0], exact.high[0]) == pytest.approx(clopper_pearson(12, 12))
    assert 1.5 < doubled.low[0] < 1.95 and 2.05 < doubled.high[0] < 2.5
    assert half.low[0] < 0.48 < 0.52 < half.high[0]


def test_the_percentile_interval_of_a_mean_is_students() -> None:
    from scipy.stats import t

    rng = np.random.default_rng(1)
    values = rng.normal(5, 2, 12)
    means = (rng.multinomial(12, np.full(12, 1 / 12), 200_000) @ values) / 12
    found = percentile_interval(means, 12)
    half = t.ppf(0.975, 11) * values.std(ddof=1) / math.sqrt(12)
    assert found is not None
    # Equal for a normal bootstrap distribution; that of twelve values is nearly one.
    assert found[1] - found[0] == pytest.approx(2 * half, rel=0.05)
    assert percentile_interval(means, 1) is None
    assert percentile_interval(np.full(10, np.nan), 5) is None


def test_mover_by_hand() -> None:
    # a = 0.30 (0.20 to 0.45), b = 0.10 (0.05 to 0.20): a - b = 0.20.
    found = independent_difference((0.10, 0.05, 0.20), (0.30, 0.20, 0.45))
    low = 0.20 - math.sqrt((0.30 - 0.20) ** 2 + (0.20 - 0.10) ** 2)
    high = 0.20 + math.sqrt((0.45 - 0.30) ** 2 + (0.10 - 0.05) ** 2)
    assert found == pytest.approx((0.20, low, high))


def test_mover_with_wilson_is_newcombes_interval() -> None:
    from statsmodels.stats.proportion import confint_proportions_2indep

    ours = independent_difference((20 / 80, *wilson(20, 80)), (44 / 90, *wilson(44, 90)))
    low, high = confint_proportions_2indep(44, 90, 20, 80, method="newcomb", compare="diff", correction=False)
    assert ours == pytest.approx((44 / 90 - 20 / 80, low, high), abs=1e-9)


def test_a_paired_change_over_equal_units_is_the_paired_t_test_of_scipy() -> None:
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(0)
    first, second, sizes = rng.integers(0, 9, 30).astype(float), rng.integers(0, 9, 30).astype(float), np.full(30, 10.0)
    value, side = change_of_rate(first - second, sizes)
    spread, freedom = variance_or_least(side)
    low, high, p = student(value, float(np.sqrt(spread)), freedom, 0.95)
    theirs = ttest_rel(first / 10, second / 10)
    ends = theirs.confidence_interval(0.95)
    # Units that moved are fewer by those that did not, which widens ours a little at most.
    assert value == pytest.approx((first - second).mean() / 10)
    assert low <= ends.low + 1e-12 and ends.high - 1e-12 <= high and p >= theirs.pvalue - 1e-12
    assert high - low <= 1.02 * (ends.high - ends.low)


def test_a_paired_change_of_one_shift_has_a_width_all_the_same() -> None:
    value, side = change_of_rate(np.ones(30), np.full(30, 10.0))
    spread, freedom = variance_or_least(side)
    # Half a unit of one more than there are, as an error rate.
    assert (value, freedom) == (pytest.approx(0.1), pytest.approx(29))
    assert spread == pytest.approx(0.5 / 31 * (1 - 0.5 / 31) / 30)


def test_joint_contrasts_lie_between_games_and_howells_and_bonferronis() -> None:
    from scipy.stats import studentized_range, t

    pairs, rng = all_pairs(4, 0, 1)[0], np.random.default_rng(1)
    found = student_contrasts(np.zeros(4), np.eye(4) / 9, np.full(4, 12.0), pairs, rng, level=0.95)
    # Both with the 24 degrees of freedom of a pair; the former takes all pairs to share one variance.
    least, most = studentized_range.ppf(0.95, 4, 24) / 3, t.isf(0.025 / 6, 24) * math.sqrt(2) / 3
    assert least - 0.01 <= found.high[0] <= most


def test_the_permutation_test_is_scipys() -> None:
    from scipy.stats import permutation_test

    rng = np.random.default_rng(5)
    values = rng.normal(size=30)
    values[:12] += 0.6
    labels = np.array([0] * 12 + [1] * 18)
    member = labels[:, None] == np.arange(2)
    sums = np.stack([values, np.ones(30)], axis=1)[:, None] * member[:, :, None]
    shuffled = np.concatenate(list(permuted_group_sums(sums, member, 20_000, rng)))
    means = shuffled[..., 0] / shuffled[..., 1]
    p, low, high = monte_carlo_p(abs(values[:12].mean() - values[12:].mean()), np.abs(means[:, 0] - means[:, 1]))
    theirs = permutation_test(
        (values[:12], values[12:]), lambda a, b, axis: np.abs(a.mean(axis) - b.mean(axis)), vectorized=True,
        n_resamples=20_000, alternative="greater", rng=np.random.default_rng(6),
    )  # fmt: skip
    assert p == pytest.approx(theirs.pvalue, abs=0.012)
    assert low <= p <= high


def test_permuting_keeps_speakers_whole_and_group_sizes_as_they_are() -> None:
    sums = np.arange(24.0).reshape(12, 2)
    labels = np.array([0] * 3 + [1] * 9)
    member = labels[:, None] == np.arange(2)
    grouped = sums[:, None] * member[:, :, None]
    blocks = list(permuted_group_sums(grouped, member, 600, np.random.default_rng(0)))
    assert [len(block) for block in blocks] == [250, 250, 100]
    totals = np.concatenate(blocks)
    assert np.allclose(totals.sum(axis=1), sums.sum(axis=0))
    # Both columns of a speaker go together: three speakers' second column is their first one plus three.
    assert np.allclose(totals[:, 0, 1], totals[:, 0, 0] + 3)


def test_a_speaker_in_several_groups_swaps_only_its_own_parts() -> None:
    # Ten speakers under both conditions, each ten errors worse under the second; differences keep their size.
    base = np.arange(10.0)
    sums = np.stack([base, base + 10], axis=1)[:, :, None]
    totals = np.concatenate(list(permuted_group_sums(sums, np.ones((10, 2), bool), 500, np.random.default_rng(0))))
    assert np.allclose(totals.sum(axis=1), sums.sum())
    difference = totals[:, 1, 0] - totals[:, 0, 0]
    assert set(np.unique(difference).tolist()) <= {float(value) for value in range(-100, 101, 20)}
    assert abs(difference.mean()) < 5


@pytest.mark.parametrize(("observed", "p"), [(2.0, 0.4), (9.0, 0.2), (-9.0, 1.0)])
def test_a_p_value_is_never_nought(observed: float, p: float) -> None:
    assert monte_carlo_p(observed, np.array([0.1, 0.2, 2.0, 0.5]))[0] == pytest.approx(p)
