"""Is the flow through random ground the one that the equation asks for, and each sample its own?"""

import numpy as np
import pytest
from scipy import sparse

from probes.core.errors import InputError
from probes.operators.darcy import HIGH, LOW, MODES, darcy_samples, random_field, solve, stiffness

pytestmark = pytest.mark.numerical


def ground(size: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((size, size)) < 0.5, LOW, HIGH)


@pytest.mark.parametrize("c", [1.0, LOW, HIGH])
def test_even_ground_gives_the_known_pressure(c: float) -> None:
    # On the unit square with a = 1: 0.07367 in the middle and 0.03514 on average, from the double sine series.
    u = solve(np.full((121, 121), c))
    assert u.max() == u[60, 60] == pytest.approx(0.07367 / c, rel=2e-4)
    assert u.sum() / 120**2 == pytest.approx(0.03514 / c, rel=5e-4)


def test_even_ground_converges_at_second_order() -> None:
    errors = [abs(solve(np.ones((size, size))).max() - 0.0736713) for size in (11, 21, 41)]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05) and errors[1] / errors[2] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("size", [3, 4, 5, 9])
def test_what_flows_out_of_every_node_is_what_comes_in(size: int) -> None:
    a, h = ground(size), 1 / (size - 1)
    u = solve(a)
    for i in range(1, size - 1):
        for j in range(1, size - 1):
            out = sum(
                (a[i, j] + a[k, m]) / 2 * (u[i, j] - u[k, m]) / h
                for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1))
            )
            assert out == pytest.approx(h, rel=1e-9)
    edge = np.ones((size, size), dtype=bool)
    edge[1:-1, 1:-1] = False
    assert not u[edge].any() and (u[~edge] > 0).all()


def test_the_matrix_is_symmetric_and_positive_definite() -> None:
    matrix = stiffness(ground(12))
    assert sparse.issparse(matrix) and matrix.shape == (100, 100)
    dense = matrix.toarray()
    assert np.array_equal(dense, dense.T)
    assert np.linalg.eigvalsh(dense).min() > LOW * np.pi**2


def test_turning_the_ground_turns_the_pressure() -> None:
    a = ground(17)
    u = solve(a)
    for turned in (np.transpose, np.flipud, np.fliplr):
        np.testing.assert_allclose(solve(turned(a)), turned(u), rtol=1e-10)


def test_a_sample_depends_on_its_number_and_seed_alone() -> None:
    few, many, other = darcy_samples(2, 21, 5), darcy_samples(4, 21, 5), darcy_samples(2, 21, 6)
    for a, b in zip(few, many, strict=True):
        assert np.array_equal(a, b[:2]) and not np.array_equal(b[0], b[1])
    assert not np.array_equal(few[0], other[0])


def test_pressures_are_those_of_the_two_permeabilities() -> None:
    high, pressure = darcy_samples(3, 21, 0)
    assert high.dtype == np.bool_ and pressure.dtype == np.float32 and high.shape == pressure.shape == (3, 21, 21)
    for where, u in zip(high, pressure, strict=True):
        np.testing.assert_array_equal(u, solve(np.where(where, 12.0, 3.0)).astype(np.float32))


def test_a_finer_grid_shows_the_same_ground() -> None:
    coarse, u = darcy_samples(6, 31, 3)
    fine, v = darcy_samples(6, 61, 3)
    assert np.array_equal(coarse, fine[:, ::2, ::2])
    # The pressures differ by what the coarser grid cannot resolve, a few per cent.
    change = np.linalg.norm((u - v[:, ::2, ::2]).reshape(6, -1), axis=1) / np.linalg.norm(u.reshape(6, -1), axis=1)
    assert change.min() > 0 and change.max() < 0.15


def test_the_field_has_the_spectrum_that_it_is_drawn_from() -> None:
    # At the first corner of the square every cosine is 1 (times root 2 an axis): the variance is the sum of them.
    k = np.arange(MODES)
    weights = np.where(k > 0, 2, 1)
    variance = 9 / (np.pi**2 * (k[:, None] ** 2 + k**2) + 9) ** 2 * np.outer(weights, weights)
    variance[0, 0] = 0
    draws = np.array([random_field(9, 1, number) for number in range(400)])
    assert draws[:, 0, 0].var() == pytest.approx(variance.sum(), rel=0.25)
    # Between two corners along an edge odd cosines change sign.
    signed = variance * np.where(k % 2, -1, 1)
    assert np.mean(draws[:, 0, 0] * draws[:, 0, -1]) == pytest.approx(signed.sum(), abs=0.25 * variance.sum())


def test_samples_look_like_the_published_ones() -> None:
    # Published for 241 nodes: 0.494 of the ground is high, and the pressure is 0.0057 on average.
    high, pressure = darcy_samples(100, 61, 0)
    assert high.mean() == pytest.approx(0.494, abs=0.03)
    # Nodes on the edge weigh more on a coarse grid; the integral does not see them.
    assert pressure.sum() / 100 / 60**2 == pytest.approx(0.0057, abs=3e-4)


@pytest.mark.parametrize(
    "shape, value", [((2, 2), 1.0), ((3, 4), 1.0), ((9,), 1.0), ((5, 5), 0.0), ((5, 5), -1.0), ((5, 5), np.nan)]
)
def test_ground_that_cannot_be_solved_is_refused(shape: tuple[int, ...], value: float) -> None:
    with pytest.raises(InputError, match="permeability"):
        solve(np.full(shape, value))


@pytest.mark.parametrize("count, size", [(-1, 9), (1, 2)])
def test_samples_that_cannot_be_are_refused(count: int, size: int) -> None:
    with pytest.raises(InputError, match=f"{count} samples on {size} x {size}"):
        darcy_samples(count, size, 0)


def test_no_samples_are_an_empty_answer() -> None:
    high, pressure = darcy_samples(0, 9, 0)
    assert high.shape == pressure.shape == (0, 9, 9)
