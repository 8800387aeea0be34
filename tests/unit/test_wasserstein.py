"""Do distances agree with other implementations and closed forms, and are the floors those of one law?"""

import numpy as np
import ot
import pytest
from scipy.stats import norm, wasserstein_distance

from probes.conditional.quantisers import nearest, normal_quantiser
from probes.conditional.wasserstein import conditional, of_points, sliced, swapped_floor, wasserstein_1d

GRID = norm.ppf((np.arange(20_000) + 0.5) / 20_000)


def unit(rng: np.random.Generator, r: int, d: int) -> np.ndarray:
    found = rng.normal(size=(r, d))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 7), (6, 4), (3, 11), (1, 5), (50, 49)])
@pytest.mark.parametrize("weighted", [False, True])
def test_distances_on_the_line_are_those_of_pot_and_scipy(order: int, n: int, m: int, weighted: bool) -> None:
    rng = np.random.default_rng(n * m + order)
    # Rounded, so that there are ties within and between the sides.
    a, b = rng.normal(size=(2, 3, n)).round(1), rng.normal(size=(2, 3, m)).round(1)
    weights = rng.random((2, 3, n)) * (rng.random((2, 3, n)) < 0.8) + 1e-9 if weighted else None
    found = wasserstein_1d(a, b, order, weights)
    assert found.shape == (2, 3)
    for place in np.ndindex(2, 3):
        share = np.full(n, 1 / n) if weights is None else weights[place] / weights[place].sum()
        equal = np.full(m, 1 / m)
        metric = "euclidean" if order == 1 else "sqeuclidean"
        plan = ot.emd2_1d(a[place], b[place], share, equal, metric=metric) ** (1 / order)
        pot = ot.wasserstein_1d(a[place], b[place], share, equal, p=order) ** (1 / order)
        assert found[place] == pytest.approx(float(plan), abs=1e-10) == pytest.approx(float(pot), abs=1e-10)
        if order == 1:
            assert found[place] == pytest.approx(wasserstein_distance(a[place], b[place], share), abs=1e-10)


def test_leading_axes_broadcast() -> None:
    rng = np.random.default_rng(0)
    a, b, weights = rng.normal(size=(4, 1, 6)), rng.normal(size=(3, 5)), rng.random((4, 1, 6))
    found = wasserstein_1d(a, b, 2, weights)
    assert found.shape == (4, 3)
    assert found[2, 1] == pytest.approx(float(wasserstein_1d(a[2, 0], b[1], 2, weights[2, 0])), abs=1e-14)


@pytest.mark.parametrize("order", [1, 2])
def test_shifted_normal_laws_lie_their_shift_apart(order: int) -> None:
    assert float(wasserstein_1d(GRID, GRID[::3] + 0.7, order)) == pytest.approx(0.7, abs=2e-3)
    assert float(wasserstein_1d(GRID, GRID + 0.7, order)) == pytest.approx(0.7, abs=1e-12)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_normal_laws_of_two_scales_lie_the_difference_apart(scale: float) -> None:
    assert float(wasserstein_1d(GRID, scale * GRID, 2)) == pytest.approx(abs(scale - 1), abs=1e-3)
    first = abs(scale - 1) * np.sqrt(2 / np.pi)
    assert float(wasserstein_1d(GRID, scale * GRID, 1)) == pytest.approx(first, abs=1e-3)


@pytest.mark.parametrize(
    ("n", "first", "second"), [(50, 0.249, 0.325), (100, 0.177, 0.236), (500, 0.083, 0.114), (2000, 0.041, 0.057)]
)
def test_two_samples_of_one_law_have_the_distance_of_the_prototype(n: int, first: float, second: float) -> None:
    a, b = np.random.default_rng(n).normal(size=(2, 400, n))
    assert wasserstein_1d(a, b).mean() == pytest.approx(first, rel=0.08)
    assert np.sqrt((wasserstein_1d(a, b, 2) ** 2).mean()) == pytest.approx(second, rel=0.08)


def test_what_has_no_distance_is_refused() -> None:
    one = np.zeros(2)
    for a, b, order in ((np.zeros(0), one, 1), (one, np.zeros(0), 1), (one, one, 0)):
        with pytest.raises(ValueError, match="no distance of order"):
            wasserstein_1d(a, b, order)
    for weights in (np.zeros(2), np.array([2.0, -1.0])):
        with pytest.raises(ValueError, match="weights must not be negative"):
            wasserstein_1d(one, one, 1, weights)
    with pytest.raises(ValueError, match="need directions"):
        sliced(np.zeros((3, 2)), np.zeros((3, 2)))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("sizes", [(40, 40), (40, 25)])
def test_sliced_distances_are_those_of_pot(order: int, sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    a, b, directions = rng.normal(size=(sizes[0], 5)), rng.normal(size=(sizes[1], 5)) + 0.3, unit(rng, 16, 5)
    pot = ot.sliced_wasserstein_distance(a, b, projections=directions.T, p=order)
    assert sliced(a, b, directions, order) == pytest.approx(float(pot), abs=1e-10)


def test_one_dimension_is_not_sliced() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 30, 1))
    assert sliced(a, b, np.full((4, 1), 0.1), 2) == float(wasserstein_1d(a[:, 0], b[:, 0], 2)) == sliced(a, b, order=2)


def test_a_shift_is_seen_as_its_length_by_the_root_of_the_dimension() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(20, 8))
    assert sliced(a, a + 3.0, unit(rng, 4000, 8), 2) == pytest.approx(3.0, rel=0.03)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("d", [1, 3])
def test_swapped_rows_have_the_distance_of_what_was_swapped(order: int, d: int) -> None:
    rng = np.random.default_rng(0)
    a, b, directions = rng.normal(size=(30, d)), rng.normal(size=(30, d)) + 1, unit(rng, 6, d)
    b[0] = a[1]
    found = swapped_floor(a, b, directions, order, 20, np.random.default_rng(5))
    same = np.random.default_rng(5)
    for value in found:
        swap = (same.random(30) < 0.5)[:, None]
        expected = sliced(np.where(swap, b, a), np.where(swap, a, b), directions, order)
        assert value == pytest.approx(expected, abs=1e-12)


def test_the_floor_is_exceeded_as_often_as_chance_has_it() -> None:
    rng = np.random.default_rng(0)
    ranks = []
    for _ in range(300):
        # Rows differ much from one another: only what is the same within a row is swapped.
        a, b = rng.normal(size=(25, 1)) * 5 + rng.normal(size=(2, 25, 1))
        ranks.append((swapped_floor(a, b, None, 1, 19, rng) < sliced(a, b)).sum())
    assert np.mean(np.array(ranks) == 19) == pytest.approx(0.05, abs=0.04)
    assert np.mean(ranks) == pytest.approx(9.5, abs=1.2)


def test_a_shift_lies_above_the_floor() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200, 3))
    directions = unit(rng, 8, 3)
    assert sliced(a, b + 1, directions, 2) > 2 * swapped_floor(a, b + 1, directions, 2, 50, rng).max()


def test_rows_that_do_not_belong_together_cannot_be_swapped() -> None:
    for a, b, order in (
        (np.zeros((3, 1)), np.zeros((4, 1)), 1),
        (np.zeros((0, 1)),) * 2 + (1,),
        (np.zeros((3, 1)),) * 2 + (0,),
    ):
        with pytest.raises(ValueError, match="no rows can be swapped"):
            swapped_floor(a, b, None, order, 1, np.random.default_rng(0))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("d", [1, 4])
def test_conditional_distances_are_those_of_the_first_draws_of_each_row(order: int, d: int) -> None:
    rng = np.random.default_rng(0)
    samples, oracle, directions = rng.normal(size=(9, 20, d)), rng.normal(size=(9, 30, d)), unit(rng, 7, d)
    value, floor = conditional(samples, oracle, order, directions, rng)
    expected = [sliced(samples[row], oracle[row, :20], directions, order) for row in range(9)]
    assert value == pytest.approx(expected, abs=1e-12)
    assert conditional(oracle, samples, order, directions, rng)[0] == pytest.approx(expected, abs=1e-12)
    assert floor.shape == (9,) and (floor > 0).all()


def test_values_of_the_true_law_have_the_mean_of_their_floor() -> None:
    rng = np.random.default_rng(0)
    place = 50 * rng.normal(size=(2000, 1, 1))
    value, floor = conditional(
        place + rng.normal(size=(2000, 50, 1)), place + rng.normal(size=(2000, 80, 1)), 1, None, rng
    )
    assert value.mean() == pytest.approx(0.249, abs=0.006) and floor.mean() == pytest.approx(value.mean(), abs=0.008)
    value, floor = conditional(rng.normal(size=(2000, 50, 1)) + 1, rng.normal(size=(2000, 50, 1)), 1, None, rng)
    assert value.mean() == pytest.approx(1.0, abs=0.02) and floor.mean() < 0.3


def test_whole_draws_are_dealt_anew_in_each_row() -> None:
    samples, oracle = np.tile([[0.0, 0], [1, 10]], (3000, 1, 1)), np.tile([[2.0, 20], [3, 30]], (3000, 1, 1))
    floor = conditional(samples, oracle, 2, np.eye(2), np.random.default_rng(0))[1] / np.sqrt(50.5)
    # Two of 0, 1, 2 and 3 against the others: 0 and 1 or 2 and 3 together lie two apart, all else one.
    assert np.unique(floor.round(9)).tolist() == [1, 2]
    assert (floor > 1.5).mean() == pytest.approx(1 / 3, abs=0.035)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_points_with_the_masses_of_their_cells_lie_the_root_of_the_distortion_apart(m: int) -> None:
    rng = np.random.default_rng(m)
    points, oracle = rng.normal(size=(6, m, 1)), rng.normal(size=(6, 40, 1))
    cell, squared = nearest(oracle, points)
    masses = (cell[..., None] == np.arange(m)).mean(axis=1)
    assert of_points(points, masses, oracle) ** 2 == pytest.approx(squared.mean(axis=1), abs=1e-12)
    if m > 1:
        others = masses + 0.2 * rng.random((6, m))
        assert (of_points(points, others, oracle) ** 2 > squared.mean(axis=1) + 1e-6).all()


@pytest.mark.parametrize(("m", "equal"), [(3, 0.206771), (5, 0.103045), (10, 0.040954), (20, 0.016694)])
def test_equal_weights_cost_what_the_table_says(m: int, equal: float) -> None:
    best, law = normal_quantiser(m), GRID[None, :, None]
    assert float(of_points(best.points[None, :, None], best.weights[None], law)[0]) ** 2 == pytest.approx(
        best.distortion, abs=2e-4
    )
    means = (
        GRID.reshape(m, -1).mean(axis=1) if 20_000 % m == 0 else m * -np.diff(norm.pdf(norm.ppf(np.arange(m + 1) / m)))
    )
    found = of_points(means[None, :, None], np.ones((1, m)), law)
    assert float(found[0]) ** 2 == pytest.approx(equal, abs=2e-4)


def test_points_in_more_dimensions_are_sliced() -> None:
    rng = np.random.default_rng(0)
    points, weights, oracle, directions = (
        rng.normal(size=(4, 3, 2)),
        rng.random((4, 3)),
        rng.normal(size=(4, 9, 2)),
        unit(rng, 5, 2),
    )
    found = of_points(points, weights, oracle, directions)
    for row in range(4):
        share = weights[row] / weights[row].sum()
        pot = ot.sliced_wasserstein_distance(points[row], oracle[row], share, projections=directions.T, p=2)
        assert found[row] == pytest.approx(float(pot), abs=1e-10)
        whole = ot.emd2(share, np.full(9, 1 / 9), ot.dist(points[row], oracle[row]))
        assert found[row] < np.sqrt(whole)
    with pytest.raises(ValueError, match="need directions"):
        of_points(points, weights, oracle)
