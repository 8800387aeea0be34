"""Are the scores proper, fair and exact? Normal truth, where all means are known (spec A4), and scoringrules."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import scoringrules
from scipy.stats import norm

from probes.conditional.scores import (
    coordinate_pairs,
    distances,
    fair_crps,
    fair_energy,
    interval_score,
    normal_crps,
    normal_log,
    pinball,
    self_gap,
    spread_and_error,
    variogram,
    weighted_energy,
)

Floats = np.ndarray
Score = Callable[[float, float], Floats]
"""Scores of rows, of the family at a scale and a shift; the truth is (1, 0)."""
ROWS = 20_000
FAMILY = [
    (scale, shift) for scale in (0.6, 0.8, 1.0, 1.25, 1.7) for shift in (-0.4, 0.0, 0.4) if (scale, shift) != (1, 0)
]
ALL_PAIRS = coordinate_pairs(3, 10, np.random.default_rng(0))
HUGE = 1e9


def block(rows: int, draws: int, d: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Return outcomes and draws of one law with correlated coordinates."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 1 + draws, d)) + rng.normal(size=(1, 1, d)) / 2
    values[..., 1:] += 0.8 * values[..., :1]
    return values[:, 0], values[:, 1:]


def crps(scale: float, shift: float) -> Floats:
    y, draws = block(ROWS, 5, 1)
    centre = y.mean()
    return fair_crps(y, centre + scale * (draws - centre) + shift)


def energy(scale: float, shift: float) -> Floats:
    y, draws = block(ROWS // 2, 5, 3)
    centre = y.mean(0)
    return fair_energy(*distances(y, centre + scale * (draws - centre) + shift))


def dependence(scale: float, shift: float) -> Floats:
    y, draws = block(ROWS, 10, 3)
    centre = y.mean(0)
    return variogram(y, centre + scale * (draws - centre) + shift, ALL_PAIRS)


def normal(score: Callable[[Floats, Floats, Floats], Floats], scale: float, shift: float) -> Floats:
    y = np.random.default_rng(1).normal(size=(ROWS, 2))
    return score(y, np.full_like(y, shift), np.full_like(y, scale))


def quantile(scale: float, shift: float) -> Floats:
    levels = np.array([0.05, 0.25, 0.5, 0.9])
    y = np.random.default_rng(2).normal(size=(ROWS, 1))
    return pinball(y, np.tile(shift + scale * norm.ppf(levels), (ROWS, 1)), levels)


def interval(scale: float, shift: float) -> Floats:
    y = np.random.default_rng(3).normal(size=(ROWS, 1))
    half = scale * norm.ppf(0.9)
    return interval_score(y, np.full(ROWS, shift - half), np.full(ROWS, shift + half), 0.8)


def points(scale: float, shift: float) -> Floats:
    at, weights = np.array([[-1.0, 0.0], [0.5, 1.0], [2.0, 0.5]]), np.array([0.5, 0.2, 0.3])
    y = at[np.random.default_rng(4).choice(3, size=ROWS, p=weights)]
    moved = np.tile(0.25 + scale * (at - 0.25) + shift, (ROWS, 1, 1))
    return weighted_energy(*distances(y, moved), np.tile(weights, (ROWS, 1)))


def z(change: Floats) -> float:
    return float(change.mean() / (change.std(ddof=1) / math.sqrt(len(change))))


@pytest.mark.parametrize(
    "score",
    [crps, energy, partial(normal, normal_crps), partial(normal, normal_log), quantile, interval, points],
    ids=["crps", "energy", "normal_crps", "normal_log", "quantile", "interval", "points"],
)
def test_a_proper_score_is_least_for_the_truth(score: Score) -> None:
    truth = score(1.0, 0.0)
    assert min(z(score(*other) - truth) for other in FAMILY) > 3


def test_the_variogram_sees_scale_and_is_blind_to_a_common_shift() -> None:
    truth = dependence(1.0, 0.0)
    assert min(z(dependence(scale, 0.0) - truth) for scale in (0.6, 0.8, 1.25, 1.7)) > 3
    np.testing.assert_allclose(dependence(1.0, 0.4), truth, rtol=0, atol=1e-7)
    y, draws = block(ROWS, 10, 2)
    pairs = coordinate_pairs(2, 1, np.random.default_rng(0))
    alone = np.stack((draws[..., 0], np.roll(draws[..., 1], 1, axis=1)), axis=2)
    assert z(variogram(y, alone, pairs) - variogram(y, draws, pairs)) > 6


def test_best_of_n_is_not_proper_and_this_test_sees_it() -> None:
    rng = np.random.default_rng(5)
    y, draws = rng.normal(size=ROWS), rng.normal(size=(ROWS, 10))
    scales = np.arange(0.8, 2.0, 0.05)
    best = [float((np.abs(y[:, None] - scale * draws).min(1) ** 2).mean()) for scale in scales]
    assert scales[int(np.argmin(best))] == pytest.approx(1.35, abs=0.101)
    assert best[0] > 1.5 * min(best)


def test_fair_scores_do_not_depend_on_the_number_of_draws_and_the_usual_crps_does() -> None:
    rng = np.random.default_rng(6)
    y = rng.normal(size=(ROWS, 1))
    for draws in (2, 5, 100):
        samples = rng.normal(size=(ROWS if draws < 100 else 5_000, draws, 1))
        truth = y[: len(samples)]
        found = fair_crps(truth, samples)
        assert abs(found.mean() - 0.564190) < 3.5 * found.std() / math.sqrt(len(found))
        to_truth = np.abs(samples[:, :, 0] - truth)
        usual = to_truth.mean(1) - np.abs(samples - samples[:, None, :, 0]).mean((1, 2)) / 2
        between = 2 * (to_truth.mean(1) - found)
        np.testing.assert_allclose(usual - found, between / (2 * draws), rtol=0, atol=1e-12)
        assert between.mean() == pytest.approx(2 / math.sqrt(math.pi), rel=0.02)
    means = [float(variogram(*block(ROWS, draws, 3, 7), ALL_PAIRS).mean()) for draws in (2, 20)]
    assert means[0] == pytest.approx(means[1], rel=0.03)


@pytest.mark.parametrize(
    ("mean", "std", "expected"),
    [(0, 1, 0.564190), (0, 0.5, 0.609967), (0, 2, 0.655745), (0.5, 1, 0.633988), (1, 1, 0.835093)],
)
def test_crps_of_a_normal_law_has_its_known_mean(mean: float, std: float, expected: float) -> None:
    y = norm.ppf((np.arange(ROWS) + 0.5) / ROWS)[:, None]
    found = normal_crps(y, np.full_like(y, mean), np.full_like(y, std))
    assert found.mean() == pytest.approx(expected, abs=2e-5)
    rng = np.random.default_rng(8)
    drawn = fair_crps(y, mean + std * rng.normal(size=(ROWS, 10, 1)))
    assert abs(z(drawn - found)) < 3.5


def test_crps_of_points_has_its_known_mean_and_is_not_least_for_the_points_of_least_distortion() -> None:
    y = norm.ppf((np.arange(ROWS) + 0.5) / ROWS)[:, None]
    laws = [(norm.ppf((np.arange(n) + 0.5) / n), np.full(n, 1 / n)) for n in (1, 2, 3, 5, 10)]
    laws.append((np.array([-1.2240, 0, 1.2240]), np.array([0.2703, 0.4595, 0.2703]) / 1.0001))
    for (at, weights), expected in zip(laws, (0.7979, 0.6356, 0.5991, 0.5781, 0.5681, 0.6031), strict=True):
        shape = (ROWS, len(at))
        found = weighted_energy(
            *distances(y, np.broadcast_to(at[:, None], (*shape, 1))), np.broadcast_to(weights, shape)
        )
        assert found.mean() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("scale", "expected"), [(0.5, 0.3279), (0.8, 0.1191), (1, 0), (1.25, -0.1332), (2, -0.4726)])
def test_the_self_gap_tells_too_narrow_from_too_wide(scale: float, expected: float) -> None:
    rng = np.random.default_rng(9)
    found = self_gap(*distances(rng.normal(size=(ROWS, 1)), scale * rng.normal(size=(ROWS, 10, 1))))
    assert abs(z(found - expected)) < 3.5
    assert found.std() < 2


def test_spread_and_error_are_equal_for_the_truth_whatever_the_number_of_draws() -> None:
    for draws in (2, 10):
        spread, error = spread_and_error(*block(ROWS, draws, 3, draws))
        assert abs(z(spread - error)) < 3.5
        assert spread.mean() == pytest.approx((3 + 2 * 0.64) * (draws + 1) / draws, rel=0.05)
    y, samples = block(200, 7, 3)
    spread, error = spread_and_error(y, samples)
    np.testing.assert_allclose(spread, samples.var(1, ddof=1).sum(1) * 8 / 7)
    np.testing.assert_allclose(error, ((y - samples.mean(1)) ** 2).sum(1))


@pytest.mark.parametrize(("rows", "draws", "d"), [(50, 2, 1), (50, 20, 1), (30, 7, 5), (3, 12, 300)])
def test_draws_are_scored_as_by_scoringrules(rows: int, draws: int, d: int) -> None:
    y, samples = block(rows, draws, d)
    to_truth, between = distances(y, samples)
    close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    close(fair_energy(to_truth, between), scoringrules.es_ensemble(y, samples, estimator="fair"))
    close(fair_crps(y, samples), scoringrules.crps_ensemble(y, samples, m_axis=1, estimator="fair").mean(1))
    weights = np.random.default_rng(0).dirichlet(np.ones(draws), size=rows)
    close(weighted_energy(to_truth, between, weights), scoringrules.es_ensemble(y, samples, ens_w=weights * draws))
    if 1 < d < 100:
        pairs = coordinate_pairs(d, d * d, np.random.default_rng(0))
        close(variogram(y, samples, pairs) * len(pairs) * 2, scoringrules.vs_ensemble(y, samples, estimator="fair"))


def test_other_laws_are_scored_as_by_scoringrules() -> None:
    rng = np.random.default_rng(10)
    y, mean, std = rng.normal(size=(40, 3)), rng.normal(size=(40, 3)), rng.gamma(2, size=(40, 3))
    close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    close(normal_crps(y, mean, std), scoringrules.crps_normal(y, mean, std).mean(1))
    close(normal_log(y, mean, std), scoringrules.logs_normal(y, mean, std).sum(1))
    levels, one = np.array([0.1, 0.5, 0.9]), y[:, :1]
    quantiles = np.sort(mean, axis=1)
    close(pinball(one, quantiles, levels), scoringrules.quantile_score(one, quantiles, levels).mean(1))
    expected = scoringrules.interval_score(y[:, 0], quantiles[:, 0], quantiles[:, 2], 0.2)
    close(interval_score(one, quantiles[:, 0], quantiles[:, 2], 0.8), expected)


def test_large_values_cancel_nothing() -> None:
    y, samples = block(20, 6, 2)
    y, samples = np.round(y * 64) / 64, np.round(samples * 64) / 64
    near, far = distances(y, samples), distances(y + HUGE, samples + HUGE)
    for here, there in zip(near, far, strict=True):
        np.testing.assert_array_equal(here, there)
    np.testing.assert_allclose(fair_crps(y + HUGE, samples + HUGE), fair_crps(y, samples), rtol=0, atol=1e-14)
    pairs = coordinate_pairs(2, 1, np.random.default_rng(0))
    np.testing.assert_array_equal(variogram(y + HUGE, samples + HUGE, pairs), variogram(y, samples, pairs))


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1.0, HUGE, 1e100])
def test_distances_of_single_numbers_are_to_the_bit_those_beside_a_constant(scale: float) -> None:
    y, samples = (scale * each for each in block(300, 7, 1))
    for one, other in zip(
        distances(y, samples),
        distances(np.pad(y, ((0, 0), (0, 1))), np.pad(samples, ((0, 0), (0, 0), (0, 1)))),
        strict=True,
    ):
        assert one.shape == other.shape and (one == other).all()


def test_distances_are_symmetric_for_many_coordinates_too() -> None:
    for d in (1, 63, 64, 200):
        y, samples = block(4, 5, d)
        to_truth, between = distances(y, samples)
        np.testing.assert_allclose(to_truth, np.linalg.norm(samples - y[:, None], axis=2))
        np.testing.assert_allclose(between, np.linalg.norm(samples[:, :, None] - samples[:, None], axis=3))
    assert distances(*block(4, 1, 100))[1].tolist() == [[[0.0]]] * 4


def test_pairs_are_all_or_drawn_without_repeats() -> None:
    rng = np.random.default_rng(11)
    for d in (1, 2, 5, 9):
        expected = np.transpose(np.triu_indices(d, 1)).tolist()
        assert coordinate_pairs(d, 36, rng).tolist() == expected
    some = coordinate_pairs(3_072, 500, rng)
    assert len(np.unique(some, axis=0)) == 500
    assert (some[:, 0] < some[:, 1]).all() and some.min() >= 0 and some.max() < 3_072
    assert some.mean(0) == pytest.approx([1_024, 2_048], rel=0.1)


def test_a_normal_law_without_spread_has_a_crps_and_no_log_score() -> None:
    y, zero = np.array([[2.0, -1.0], [0.0, 5.0]]), np.zeros((2, 2))
    assert normal_crps(y, zero, zero).tolist() == [1.5, 2.5]
    tiny = np.full((2, 2), 5e-324)
    np.testing.assert_allclose(normal_crps(y, zero, tiny), [1.5, 2.5])
    with pytest.raises(ValueError, match="above 0"):
        normal_log(y, zero, zero)
    with pytest.raises(ValueError, match="negative"):
        normal_crps(y, zero, zero - 1)


def test_what_has_no_score_is_refused() -> None:
    y, samples = block(4, 1, 2)
    both = distances(y, samples)
    pairs = coordinate_pairs(2, 1, np.random.default_rng(0))
    calls: list[Callable[[], object]] = [
        lambda: fair_energy(*both),
        lambda: self_gap(*both),
        lambda: fair_crps(y, samples),
        lambda: variogram(y, samples, pairs),
        lambda: spread_and_error(y, samples),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="at least two"):
            call()
    with pytest.raises(ValueError, match="one pair"):
        variogram(*block(4, 3, 2), pairs[:0])
    with pytest.raises(ValueError, match="d = 2"):
        pinball(y, y, np.array([0.1, 0.9]))
    with pytest.raises(ValueError, match="d = 2"):
        interval_score(y, y[:, 0], y[:, 0], 0.5)
    for lower, level in ((1.0, 0.5), (0.0, 1.0)):
        with pytest.raises(ValueError, match="level between"):
            interval_score(y[:, :1], np.full(4, lower), np.full(4, 0.5), level)
