"""Are optimal quantisers those of the tables, and do fitted points and references lie on the right side of them?"""

from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.cluster import KMeans

from probes.conditional import quantisers
from probes.conditional.quantisers import (
    ENOUGH,
    fitted_points,
    group_reference,
    nearest,
    normal_quantiser,
    oracle_reference,
)

DISTORTIONS = {
    1: 1.0, 2: 0.363380, 3: 0.190174, 4: 0.117482, 5: 0.079941, 6: 0.057978, 8: 0.034548, 10: 0.022937, 16: 0.009501,
    20: 0.006208, 32: 0.002505,
}  # fmt: skip


@pytest.mark.parametrize(("m", "expected"), DISTORTIONS.items())
def test_distortions_of_the_normal_law_are_those_of_the_table(m: int, expected: float) -> None:
    assert round(normal_quantiser(m).distortion, 6) == expected


def test_points_and_weights_of_the_normal_law_are_those_of_the_table() -> None:
    assert normal_quantiser(2).distortion == pytest.approx(1 - 2 / np.pi, abs=1e-14)
    assert normal_quantiser(3).points.round(4).tolist() == [-1.224, 0, 1.224]
    assert normal_quantiser(3).weights.round(4).tolist() == [0.2703, 0.4595, 0.2703]
    assert normal_quantiser(4).points[2:].round(4).tolist() == [0.4528, 1.5104]
    assert normal_quantiser(4).weights[2:].round(4).tolist() == [0.3369, 0.1631]
    assert normal_quantiser(5).points[2:].round(4).tolist() == [0, 0.7646, 1.7241]
    assert normal_quantiser(5).weights[2:].round(4).tolist() == [0.2977, 0.2444, 0.1067]


@pytest.mark.parametrize("m", [1, 2, 7, 64, 129, 300])
def test_every_point_is_the_mean_of_its_cell(m: int) -> None:
    found = normal_quantiser(m)
    edges = np.concatenate([[-np.inf], (found.points[1:] + found.points[:-1]) / 2, [np.inf]])
    assert found.weights == pytest.approx(np.diff(norm.cdf(edges)), abs=1e-13)
    assert found.points * found.weights == pytest.approx(-np.diff(norm.pdf(edges)), abs=1e-13)
    assert found.weights.sum() == pytest.approx(1, abs=1e-13)


def test_the_distortion_falls_at_zadors_rate() -> None:
    scaled = [m**2 * normal_quantiser(m).distortion for m in (1, 2, 5, 10, 32, 100, 300)]
    limit = np.pi * np.sqrt(3) / 2
    assert (np.diff(scaled) > 0).all() and scaled[-1] < limit
    assert scaled[-1] == pytest.approx(limit, rel=0.0075)


def test_quantisers_are_kept_and_cannot_be_changed() -> None:
    assert normal_quantiser(4) is normal_quantiser(4)
    with pytest.raises(ValueError, match="read-only"):
        normal_quantiser(4).points[0] = 0


@pytest.mark.parametrize("m", [0, 1001])
def test_there_is_no_quantiser_of_such_a_number(m: int) -> None:
    with pytest.raises(ValueError, match="1 to 1,000"):
        normal_quantiser(m)


@pytest.mark.parametrize("m", range(1, 11))
def test_normal_draws_have_the_distortion_of_the_quantiser(m: int) -> None:
    y = np.random.default_rng(m).normal(size=(1, 50_000, 1))
    squared = nearest(y, normal_quantiser(m).points[None, :, None])[1]
    error = squared.std() / np.sqrt(squared.size)
    assert squared.mean() == pytest.approx(normal_quantiser(m).distortion, abs=4 * error)


def test_the_nearest_point_is_that_of_all_distances() -> None:
    rng = np.random.default_rng(0)
    y, points = rng.normal(size=(6, 9, 3)), rng.normal(size=(6, 4, 3))
    cell, squared = nearest(y, points)
    whole = np.stack([cdist(y[row], points[row], "sqeuclidean") for row in range(6)])
    assert (cell == whole.argmin(axis=2)).all() and squared == pytest.approx(whole.min(axis=2), abs=1e-14)
    assert (nearest(y[:, 2], points)[0] == cell[:, 2]).all()
    assert nearest(y[:, 2], points)[1] == pytest.approx(squared[:, 2], abs=1e-14)


def test_of_equally_near_points_the_first_is_taken() -> None:
    cell, squared = nearest(np.zeros((1, 1)), np.array([[[2.0], [-1.0], [1.0], [-1.0]]]))
    assert (int(cell[0]), float(squared[0])) == (1, 1.0)


@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_points_on_the_line_are_the_best_of_all_divisions(m: int) -> None:
    draws = np.random.default_rng(m).normal(size=(20, 8, 1)) ** 3
    points, weights = fitted_points(draws, m, np.random.default_rng(0))
    found = nearest(draws, points)[1].mean(axis=1)
    for row, fit in zip(draws[..., 0], found, strict=True):
        divisions = [np.split(np.sort(row), cut) for cut in combinations(range(1, 8), m - 1)]
        assert fit == pytest.approx(
            min(sum(part.var() * len(part) for part in one) / 8 for one in divisions), abs=1e-12
        )
    assert (np.diff(points[..., 0], axis=1) > 0).all() and weights.sum(axis=1) == pytest.approx(np.ones(20))


def test_points_of_many_draws_on_the_line_are_nearly_the_optimum() -> None:
    draws = norm.ppf((np.arange(5000) + 0.5) / 5000)[None, ::-1, None]
    points, weights = fitted_points(draws, 5, np.random.default_rng(0))
    assert points[0, :, 0] == pytest.approx(normal_quantiser(5).points, abs=0.01)
    assert weights[0] == pytest.approx(normal_quantiser(5).weights, abs=0.003)


@pytest.mark.parametrize("m", [2, 5, 10])
def test_points_in_more_dimensions_fit_as_well_as_those_of_another_k_means(m: int) -> None:
    draws = np.random.default_rng(m).normal(size=(20, 50, 6)) + 1e6
    points, weights = fitted_points(draws, m, np.random.default_rng(0))
    cell, squared = nearest(draws, points)
    other = [KMeans(m, n_init=4, random_state=0).fit(row - 1e6).inertia_ / 50 for row in draws]
    assert squared.mean() < 1.005 * np.mean(other)
    member = cell[..., None] == np.arange(m)
    assert weights == pytest.approx(member.mean(axis=1))
    means = np.einsum("nkm,nkd->nmd", member, draws) / member.sum(axis=1)[..., None]
    assert points == pytest.approx(means, abs=1e-8)


def test_separate_clumps_are_all_found_in_every_row() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0], [9, 0], [0, 9], [9, 9]])
    draws = centres[np.tile([0, 0, 0, 1, 1, 2, 2, 3], 4)] + 0.1 * rng.normal(size=(100, 32, 2))
    points, weights = fitted_points(draws, 4, rng)
    assert nearest(np.broadcast_to(centres, (100, 4, 2)), points)[1].max() < 0.1
    assert np.sort(weights, axis=1) == pytest.approx(np.tile([0.125, 0.25, 0.25, 0.375], (100, 1)))


def test_rows_do_not_depend_on_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0).normal(size=(7, 30, 1))
    whole = fitted_points(draws, 3, np.random.default_rng(0))
    monkeypatch.setattr(quantisers, "_MOST", 1)
    parts = fitted_points(draws, 3, np.random.default_rng(0))
    assert (whole[0] == parts[0]).all() and (whole[1] == parts[1]).all()


def test_a_point_without_draws_moves_to_the_farthest_draw() -> None:
    draws = np.array([[[0.0, 0], [0, 1], [9, 0], [9, 1], [0, 30]]])
    points = np.array([[[0.0, 0], [9, 0], [500, 500]]])
    quantisers._lloyd(draws, points)
    assert points[0].tolist() == [[0, 0.5], [9, 0.5], [0, 30]]


@pytest.mark.parametrize("d", [1, 3])
def test_equal_draws_have_one_point_of_weight_one(d: int) -> None:
    points, weights = fitted_points(np.full((2, 6, d), 5.0), 3, np.random.default_rng(0))
    assert (points == 5).all() and weights.max(axis=1).tolist() == [1, 1] and np.isfinite(weights).all()


@pytest.mark.parametrize("m", [0, 6])
def test_more_points_than_draws_cannot_be_fitted(m: int) -> None:
    with pytest.raises(ValueError, match=f"{m} points cannot be fitted to 5 draws"):
        fitted_points(np.zeros((1, 5, 1)), m, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("m", "size", "low", "high"), [(5, 50, 0.70, 1.24), (5, 100, 0.81, 1.12), (10, 100, 0.62, 1.29)]
)
def test_fit_and_held_out_distortions_have_the_ratios_of_the_prototype(
    m: int, size: int, low: float, high: float
) -> None:
    rng = np.random.default_rng(1)
    fit, held_out = oracle_reference(rng.normal(size=(400, 2 * size, 1)), m, rng)
    optimum = normal_quantiser(m).distortion
    assert fit.mean() / optimum == pytest.approx(low, abs=0.04)
    assert held_out.mean() / optimum == pytest.approx(high, abs=0.08)


@pytest.mark.parametrize("m", range(1, 11))
def test_the_optimum_lies_between_fit_and_held_out(m: int) -> None:
    rng = np.random.default_rng(m)
    fit, held_out = oracle_reference(rng.normal(size=(60, 2 * ENOUGH * m, 1)), m, rng)
    optimum = normal_quantiser(m).distortion
    assert fit.mean() < optimum < held_out.mean()
    assert held_out.mean() / fit.mean() < 1.5


def test_an_oracle_of_few_draws_cannot_be_halved() -> None:
    with pytest.raises(ValueError, match="3 points cannot be fitted to 2 draws"):
        oracle_reference(np.zeros((1, 5, 1)), 3, np.random.default_rng(0))


@pytest.mark.parametrize("d", [1, 2])
def test_points_of_a_group_bracket_its_optimum(d: int) -> None:
    rng = np.random.default_rng(3)
    groups = rng.integers(3, size=3000)
    y = rng.normal(size=(3000, d)) * np.array([1.0, 0.0])[:d] * (1 + groups[:, None])
    found = group_reference(y, groups, 4, 5, rng)
    assert found.known.all()
    for group in range(3):
        optimum = normal_quantiser(4).distortion * (1 + group) ** 2
        here = groups == group
        assert found.fit[here].mean() < found.held_out[here].mean()
        assert found.fit[here].mean() == pytest.approx(optimum, rel=0.1)
        assert found.held_out[here].mean() == pytest.approx(optimum, rel=0.15)


def test_small_groups_have_no_reference() -> None:
    groups = np.repeat([7, 3], [2 * ENOUGH, 2 * ENOUGH - 1])
    y = np.random.default_rng(0).normal(size=(len(groups), 2))
    found = group_reference(y, groups, 2, 5, np.random.default_rng(0))
    assert (found.known == (groups == 7)).all()
    assert not found.fit[~found.known].any() and not found.held_out[~found.known].any()
    assert (found.held_out[found.known] > 0).all()


def test_rows_of_one_cluster_are_left_out_together() -> None:
    values = np.random.default_rng(0).normal(size=12)
    clusters = np.repeat(np.arange(12), 5)
    # With as many folds as clusters, one point is the mean of all others.
    found = group_reference(values[clusters, None], np.zeros(60, int), 1, 12, np.random.default_rng(0), clusters)
    assert found.fit == pytest.approx((values - values.mean())[clusters] ** 2)
    assert found.held_out == pytest.approx(((values - values.mean()) * 12 / 11)[clusters] ** 2)


@pytest.mark.parametrize("sizes", [[90], [88, 2]])
def test_without_other_clusters_there_is_no_reference(sizes: list[int]) -> None:
    y = np.random.default_rng(0).normal(size=(90, 2))
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    found = group_reference(y, np.zeros(90, int), 3, 5, np.random.default_rng(0), clusters)
    assert not found.known.any()


@pytest.mark.parametrize("d", [1, 2])
def test_outcomes_of_few_values_are_met_exactly(d: int) -> None:
    y = np.tile([[0.0, 0.0], [1.0, 2.0]], (100, 1))[:, :d]
    found = group_reference(y, np.zeros(200, int), 3, 2, np.random.default_rng(0))
    assert found.known.all() and found.held_out == pytest.approx(np.zeros(200), abs=1e-20)


@pytest.mark.parametrize(("m", "folds"), [(0, 5), (2, 1)])
def test_points_and_folds_are_needed(m: int, folds: int) -> None:
    with pytest.raises(ValueError, match="at least 2 and 1 are needed"):
        group_reference(np.zeros((9, 1)), np.zeros(9, int), m, folds, np.random.default_rng(0))
