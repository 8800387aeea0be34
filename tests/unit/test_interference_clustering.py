"""The order of languages in a matrix: those that get on stand together, and nothing else moves them."""

import numpy as np
import pytest

from audits.interference.clustering import leaf_order


def blocks(sizes, rng, noise=0.02) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix whose blocks help each other inside and hurt each other across, and the block of each place."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    matrix = np.where(group[:, None] == group[None, :], -0.1, 0.2) + noise * rng.normal(size=(len(group),) * 2)
    return matrix, group


@pytest.mark.parametrize("sizes", [(2, 2), (3, 4, 2), (10, 1, 5, 7), (20, 21, 21, 21)])
def test_blocks_stand_together_wherever_they_were(sizes) -> None:
    rng = np.random.default_rng(0)
    matrix, group = blocks(sizes, rng)
    places = rng.permutation(len(group))
    order = leaf_order(matrix[np.ix_(places, places)])
    assert sorted(order) == list(range(len(group)))
    met = group[places][order]
    assert np.count_nonzero(np.diff(met)) == len(sizes) - 1


NOTHING = [np.zeros((0, 0)), np.zeros((1, 1)), [[0, 0.2], [0.1, 0]], np.full((4, 4), np.nan)]


@pytest.mark.parametrize("matrix", [*NOTHING, np.where(np.eye(3) > 0, 1.0, np.nan)])
def test_with_nothing_to_go_by_the_order_stays(matrix) -> None:
    matrix = np.asarray(matrix, dtype=np.float64)
    assert leaf_order(matrix) == list(range(len(matrix)))


def test_missing_cells_and_the_diagonal_do_not_decide() -> None:
    matrix, group = blocks((4, 5), np.random.default_rng(1))
    matrix[0, 1] = matrix[1, 0] = matrix[2, 6] = np.nan
    order = leaf_order(matrix)
    assert np.count_nonzero(np.diff(group[order])) == 1
    other = matrix.copy()
    np.fill_diagonal(other, np.nan)
    assert leaf_order(other) == order
    np.fill_diagonal(other, 99.0)
    assert leaf_order(other) == order


def test_the_matrix_is_left_alone_and_the_direction_is_fixed() -> None:
    matrix, _ = blocks((3, 3, 3), np.random.default_rng(2))
    kept = matrix.copy()
    order = leaf_order(matrix)
    assert np.array_equal(matrix, kept)
    assert order[0] < order[-1]
    assert leaf_order(matrix.T) == order


@pytest.mark.parametrize("seed", range(6))
def test_languages_on_a_line_stand_in_its_order(seed) -> None:
    places = np.random.default_rng(seed).permutation(9)
    order = leaf_order(np.abs(places[:, None] - places[None, :]) ** 0.5)
    assert set(np.diff(places[order])) in ({1}, {-1}) and order[0] < order[-1]


def test_of_an_order_and_its_reverse_the_same_one_is_taken() -> None:
    for seed in range(30):
        order = leaf_order(np.random.default_rng(seed).random((7, 7)))
        assert order[0] < order[-1] and sorted(order) == list(range(7))
