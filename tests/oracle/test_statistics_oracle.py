"""The statistics against implementations that others wrote, and against arithmetic by hand."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audits.statistics import (
    adjust,
    clopper_pearson,
    cluster_weights,
    independent_difference,
    monte_carlo_p,
    paired_difference,
    percentile_interval,
    permuted_group_sums,
    rate_intervals,
    wilson,
)

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
    found = rate_intervals(errors, sizes, cluster_weights(40, 500, rng))
    assert found.value[:3].tolist() == pytest.approx(frame.by_group.tolist())
    assert found.value[3] == pytest.approx(frame.overall)
    assert found.clusters.tolist() == [*np.bincount(group_of), 40]
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    assert found.value[:3].max() - found.value[:3].min() == pytest.approx(frame.difference())


def test_few_speakers_get_students_interval_and_none_gets_none() -> None:
    from scipy.stats import t

    errors = np.array([[1.0, 2, 0], [9, 0, 0], [2, 0, 0], [8, 0, 0]])
    sizes = np.array([[10.0, 9, 9], [10, 0, 9], [10, 0, 9], [10, 0, 9]])
    found = rate_intervals(errors, sizes, cluster_weights(4, 400, np.random.default_rng(0)))
    shares = errors[:, 0] / 10
    half = t.ppf(0.975, 3) * shares.std(ddof=1) / 2
    assert found.method == (
        "Student t over clusters, or Korn-Graubard where wider",
        "none",
        "Clopper-Pearson over clusters",
    )
    assert (found.low[0], found.high[0]) == pytest.approx((max(0.5 - half, 0), 0.5 + half))
    assert np.isnan(found.low[1])
    assert np.isnan(found.high[1])
    # Without one error the speakers, not their clips, are the trials.
    assert (found.low[2], found.high[2]) == pytest.approx(clopper_pearson(0, 4))


def test_one_error_of_one_speaker_leaves_room_above() -> None:
    errors, sizes = np.zeros((6, 1)), np.full((6, 1), 6.0)
    errors[0] = 1
    found = rate_intervals(errors, sizes, cluster_weights(6, 1000, np.random.default_rng(0)))
    # Korn and Graubard: 36 trials count for 36 (t(35) / t(5))^2 = 22.5, of which 0.62 errors.
    assert found.high[0] == pytest.approx(0.206, abs=0.01)
    assert found.low[0] == pytest.approx(0.0, abs=0.01)


def test_speakers_who_err_equally_often_give_no_interval_without_width() -> None:
    errors, sizes = np.full((2, 1), 1.0), np.full((2, 1), 6.0)
    found = rate_intervals(errors, sizes, cluster_weights(2, 1000, np.random.default_rng(0)))
    assert found.low[0] < 1 / 6 < found.high[0]


def test_from_eight_speakers_on_the_interval_follows_the_bootstrap_and_below_it_is_students() -> None:
    from scipy.stats import t

    rng = np.random.default_rng(2)
    for speakers in range(5, 9):
        worst = 0.0
        for _ in range(60):
            errors = rng.binomial(40, rng.beta(2, 6, speakers)).astype(float)[:, None]
            found = rate_intervals(errors, np.full((speakers, 1), 40.0), cluster_weights(speakers, 1000, rng))
            shares = errors[:, 0] / 40
            half = t.ppf(0.975, speakers - 1) * shares.std(ddof=1) / math.sqrt(speakers)
            assert found.method[0].startswith("Student t" if speakers < 8 else "studentised")
            worst = max(worst, (found.high[0] - found.value[0]) / half)
        # Studentised, one in thirty samples of five speakers reached above 10.
        assert worst < 2 if speakers < 8 else worst > 1


def test_rates_of_one_and_more_have_intervals_around_them() -> None:
    rng = np.random.default_rng(6)
    sizes = rng.integers(20, 40, 12).astype(float)[:, None]
    weights = cluster_weights(12, 1000, rng)
    varied = rate_intervals(sizes + rng.integers(1, 9, 12)[:, None], sizes, weights)
    assert varied.method == ("studentised cluster bootstrap",)
    assert 1 < varied.low[0] < varied.value[0] < varied.high[0]
    exact, doubled, half = (rate_intervals(sizes * factor, sizes, weights) for factor in (1.0, 2.0, 0.5))
    assert (exact.low[0], exact.high[0]) == pytest.approx(clopper_pearson(12, 12))
    assert (doubled.low[0], doubled.high[0]) == pytest.approx((2 - (1 - exact.low[0]), 2 + (1 - exact.low[0])))
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


@pytest.mark.parametrize("people", [2, 3, 5, 7])
def test_a_paired_difference_of_few_people_is_covered(people: int) -> None:
    # By the outermost resamples alone, 63, 83, 92 and 94 % were.
    rng, repeats, held = np.random.default_rng(people), 400, 0
    for _ in range(repeats):
        sizes = rng.integers(20, 80, people)
        rates = rng.beta(2, 6, people)
        first, second = (rng.binomial(sizes, rates).astype(float) for _ in range(2))
        found = paired_difference(first, second, sizes.astype(float), rng=rng, repeats=500)
        assert found is not None
        held += found[1] <= 0 <= found[2]
    assert held >= 0.92 * repeats


def test_a_paired_difference_of_one_shift_has_no_width() -> None:
    rng = np.random.default_rng(0)
    errors, sizes = rng.integers(0, 5, 30).astype(float), np.full(30, 10.0)
    found = paired_difference(errors + 1, errors, sizes, rng=rng)
    assert found == pytest.approx((0.1, 0.1, 0.1))
    assert paired_difference(errors[:1], errors[:1], sizes[:1], rng=rng) is None


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
