"""Are the nearest neighbours and the near pairs those of all distances in double precision, whatever the points?"""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from probes.core.errors import IncompleteError, InputError
from probes.vectors import knn, numpy_blocks, torch_blocks
from probes.vectors.distance_blocks import blocks_of

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]


def normal(count: int, width: int, *, seed: int = 0, offset: float = 0.0, scale: float = 1.0) -> Floats:
    return offset + scale * np.random.default_rng(seed).normal(size=(count, width))


def lattice(count: int, *, seed: int) -> Floats:
    """Return distinct points of a lattice, where nearly every distance is met many times."""
    cells = np.stack(np.meshgrid(*[np.arange(4.0)] * 4), -1).reshape(-1, 4)
    return np.random.default_rng(seed).permutation(cells)[:count]


def sparse_rows(count: int, *, seed: int) -> Floats:
    """Return rows of unit length with a few words each: most are at right angles to most others."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((count, 200))
    for row in rows:
        row[rng.choice(200, 4, replace=False)] = rng.random(4) + 0.1
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def nearly_equal(count: int, *, seed: int) -> Floats:
    """Return points that differ in the ninth digit, which float32 does not hold."""
    return 1.0 + 1e-9 * np.random.default_rng(seed).normal(size=(count, 6)).cumsum(0)


def heaps(count: int, *, seed: int) -> Floats:
    """Return points of two heaps a unit apart, within which rounding cannot tell any distance from none."""
    rng = np.random.default_rng(seed)
    return np.arange(count)[:, None] % 2 + 1e-6 * rng.normal(size=(count, 3))


def singles(rows: Floats) -> NDArray[np.float32]:
    return rows.astype(np.float32)


CASES: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
    "line": (normal(70, 1), normal(50, 1, seed=1)),
    "one block": (singles(normal(9, 3)), singles(normal(8, 3, seed=1))),
    "many blocks": (singles(normal(100, 5)), singles(normal(83, 5, seed=1))),
    "wide": (singles(normal(40, 900)), singles(normal(45, 900, seed=1))),
    "far from the origin": (singles(normal(90, 6, offset=1e4)), singles(normal(60, 6, seed=1, offset=1e4))),
    "large": (normal(60, 4, scale=1e6), normal(40, 4, seed=1, scale=1e6)),
    "small": (normal(60, 4, scale=1e-6), normal(40, 4, seed=1, scale=1e-6)),
    "other spread": (normal(60, 4), normal(60, 4, seed=1, scale=0.01)),
    "constant coordinates": (
        np.pad(normal(60, 2), ((0, 0), (1, 3)), constant_values=7.3),
        np.pad(normal(50, 2, seed=1), ((0, 0), (1, 3)), constant_values=7.3),
    ),
    "copies": (np.repeat(normal(20, 3), 4, axis=0), np.concatenate([normal(20, 3), normal(30, 3, seed=1)])),
    "all the same": (np.full((40, 3), 0.5), np.full((30, 3), 0.5)),
    "lattice": (lattice(120, seed=0), lattice(90, seed=1)),
    "right angles": (singles(sparse_rows(120, seed=0)), singles(sparse_rows(90, seed=1))),
    "ninth digit": (nearly_equal(60, seed=0), nearly_equal(50, seed=1)),
    "two heaps": (heaps(60, seed=0), heaps(50, seed=1)),
}
ROUNDED = 2.0**-24
BLOCKS = {"as shipped": knn.BLOCK, "rows below columns": (7, 16), "columns below rows": (16, 5)}


in_any_blocks = pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)


def everyone(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    return cdist(x.astype(np.float64), y.astype(np.float64), "sqeuclidean")


def others(x: NDArray[Any]) -> Floats:
    squared = everyone(x, x)
    np.fill_diagonal(squared, np.inf)
    return squared


@pytest.fixture(autouse=True, params=[torch_blocks, numpy_blocks], ids=["torch", "numpy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute blocks by torch, and by numpy as where torch is not installed."""
    monkeypatch.setattr(knn, "_backend", lambda: request.param)


def bounded(x: knn.Points, y: knn.Points) -> Floats:
    found = knn._backend().bounds(x, y, slice(0, len(x)), slice(0, len(y)))
    return np.asarray(found, dtype=np.float64)


def same(found: Floats, expected: Floats) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


@in_any_blocks
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [1, 4])
def test_neighbours_are_the_nearest_of_all(name: str, count: int, block: tuple[int, int]) -> None:
    x = CASES[name][0]
    found, truth = knn.neighbours(knn.points(x), count, block=block), others(x)
    assert found.squared.shape == found.index.shape == (len(x), count)
    same(found.squared, np.sort(truth, axis=1)[:, :count])
    # Who they are may be told apart in ties no better than by their distance.
    same(np.take_along_axis(truth, found.index.astype(np.int64), 1), found.squared)
    assert all(len(set(row)) == count for row in found.index.tolist())


@in_any_blocks
def test_all_others_are_listed_where_as_many_are_asked_for(block: tuple[int, int]) -> None:
    x = normal(30, 3)
    found = knn.neighbours(knn.points(x), 29, block=block)
    same(found.squared, np.sort(others(x), axis=1)[:, :29])
    assert {tuple(sorted({row, *near})) for row, near in enumerate(found.index.tolist())} == {tuple(range(30))}


def within(found: knn.Pairs, reach_x: Floats, reach_y: Floats) -> set[tuple[int, int]]:
    near = found.squared <= np.maximum(reach_x[found.x], reach_y[found.y])
    return set(zip(found.x[near].tolist(), found.y[near].tolist(), strict=True))


@in_any_blocks
@pytest.mark.parametrize("name", CASES)
def test_pairs_within_either_reach_are_those_of_all(name: str, block: tuple[int, int]) -> None:
    x, y = CASES[name]
    truth = everyone(x, y)
    reach_x, reach_y = (np.sort(others(side), axis=1)[:, 2] for side in (x, y))
    one, two = (knn.points(side, x.mean(0)) for side in (x, y))
    # Pairs that lie exactly at a reach are within it.
    reach_x[::3] = knn.exact(one, two, np.arange(len(x)), np.zeros(len(x), dtype=int))[::3]
    reach_y[::5] = knn.exact(one, two, np.ones(len(y), dtype=int), np.arange(len(y)))[::5]
    every = knn.exact(one, two, *(at.ravel() for at in np.indices(truth.shape))).reshape(truth.shape)
    same(every, truth)
    found = knn.pairs(one, two, reach_x, reach_y, block=block)
    near = every <= np.maximum(reach_x[:, None], reach_y[None, :])
    assert within(found, reach_x, reach_y) == set(zip(*(at.tolist() for at in near.nonzero()), strict=True))
    assert len(set(zip(found.x.tolist(), found.y.tolist(), strict=True))) == len(found.x)


@pytest.mark.parametrize("name", CASES)
def test_distances_of_pairs_are_not_rounded_to_float32(name: str) -> None:
    x, y = CASES[name]
    one, two = (knn.points(side, x.mean(0)) for side in (x, y))
    found = knn.pairs(one, two, np.full(len(x), np.inf), np.zeros(len(y)))
    assert len(found.x) == len(x) * len(y)
    same(found.squared, everyone(x, y)[found.x, found.y])


@in_any_blocks
@pytest.mark.parametrize("name", CASES)
def test_the_nearest_of_every_point_is_nearest_to_within_rounding(name: str, block: tuple[int, int]) -> None:
    x, y = CASES[name]
    one, two = (knn.points(side, x.mean(0)) for side in (x, y))
    found = knn.pairs(one, two, np.zeros(len(x)), np.zeros(len(y)), block=block)
    truth = everyone(x, y)
    same(found.to_y, truth[np.arange(len(x)), found.nearest_y])
    same(found.to_x, truth[found.nearest_x, np.arange(len(y))])
    # Whoever is taken for nearest has a lower bound that is no higher than that of the nearest.
    room = truth - bounded(one, two) + ROUNDED * truth.max()
    assert (found.to_y <= truth.min(1) + room[np.arange(len(x)), found.nearest_y]).all()
    assert (found.to_x <= truth.min(0) + room[found.nearest_x, np.arange(len(y))]).all()
    if name in ("line", "many blocks", "wide", "large"):
        same(found.to_y, truth.min(1))
        same(found.to_x, truth.min(0))


@pytest.mark.parametrize("name", CASES)
def test_rounding_stays_within_its_bound(name: str) -> None:
    x, y = CASES[name]
    one, two = (knn.points(side, x.mean(0)) for side in (x, y))
    bound, truth = bounded(one, two), everyone(x, y)
    assert (bound <= truth).all()
    # And hardly below them: by what each point bears of its own length, on either side of the truth.
    share = ROUNDED * (2 * x.shape[1] + 40)
    lengths = [((side - x.mean(0)) ** 2).sum(1) for side in (x, y)]
    assert (truth - bound <= 2 * share * (lengths[0][:, None] + lengths[1][None, :])).all()


def test_how_far_points_lie_from_the_origin_costs_no_digits() -> None:
    near, far = normal(50, 4), normal(50, 4, offset=1e4)
    here, there = np.asarray(knn.points(near).floors), np.asarray(knn.points(far).floors)
    np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-5)
    given = np.asarray(knn.points(far, np.full(4, 1e4)).floors)
    np.testing.assert_allclose(given, (near**2).sum(1), rtol=1e-3)


def test_an_outlier_makes_no_other_pair_doubtful() -> None:
    x = normal(200, 4)
    far = np.concatenate([x, np.full((1, 4), 1e6)])
    reach = np.sort(others(x), axis=1)[:, 4]
    one, two = knn.points(x, np.zeros(4)), knn.points(far, np.zeros(4))
    found = knn.pairs(one, two, reach, np.append(reach, 0.0))
    # Itself, its five nearest, and whose nearest it is: as many as there were without the outlier.
    assert len(found.x) == len(knn.pairs(one, one, reach, reach).x) < 200 * 12
    found = knn.neighbours(two, 5)
    same(found.squared[:-1], np.sort(others(far), axis=1)[:-1, :5])
    # Lists are mended row by row, each against all: none but the outlier's own may have to be.
    assert found.recomputed <= 1


@pytest.mark.parametrize(("rows", "columns"), [(10, 40), (10, 10), (40, 10), (100, 100)])
def test_every_distance_within_a_sample_is_computed_once(rows: int, columns: int) -> None:
    half, full = np.zeros((100, 100), dtype=int), np.zeros((100, 100), dtype=int)
    for seen in (half, full):
        for down, across in blocks_of(100, 100, (rows, columns), symmetric=seen is half):
            assert down.stop - down.start <= rows and across.stop - across.start <= columns
            seen[down, across] += 1
    upper = np.triu_indices(100, 1)
    assert (half[upper] == 1).all() and half.max() == 1
    # Below the diagonal there is only what shares a strip of rows with it.
    assert np.tril(half, -1).sum() <= 100 * rows / 2
    assert (full == 1).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e17, 1e20, 1e38, 1e200])
def test_points_whose_squares_float32_does_not_hold_are_refused(scale: float) -> None:
    with pytest.raises(InputError, match="float32 does not hold their squares"):
        knn.points(normal(60, 4, scale=scale))


def test_copies_whose_mean_is_rounded_are_no_short_vectors() -> None:
    x = np.full((40, 3), 0.1)
    assert (knn.neighbours(knn.points(x), 3).squared == 0).all()


@pytest.mark.parametrize("scale", [1e-13, 1e14])
def test_points_whose_squares_float32_just_holds_are_compared(scale: float) -> None:
    x = normal(60, 4, scale=scale)
    same(knn.neighbours(knn.points(x), 3).squared, np.sort(others(x), axis=1)[:, :3])


def test_too_many_pairs_end_the_work() -> None:
    x = knn.points(normal(40, 2))
    assert len(knn.pairs(x, x, np.full(40, 1e9), np.zeros(40), most=1600).x) == 1600
    with pytest.raises(IncompleteError, match="1,599 pairs"):
        knn.pairs(x, x, np.full(40, 1e9), np.zeros(40), most=1599)


def test_a_device_without_memory_is_told() -> None:
    x = knn.points(normal(10, 2))

    class Full:
        def __getitem__(self, rows: slice) -> torch.Tensor:
            raise torch.OutOfMemoryError

    full = knn.Points(x.given, Full(), x.floors)
    with pytest.raises(IncompleteError, match="ran out of memory"):
        torch_blocks.bounds(full, x, slice(0, 10), slice(0, 10))


@pytest.mark.parametrize("count", [-1, 0, 10, 11])
def test_a_number_of_neighbours_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} neighbours of each of 10 points"):
        knn.neighbours(knn.points(normal(10, 2)), count)


def test_what_is_given_is_left_as_it_was() -> None:
    x = singles(normal(50, 3))
    before = x.copy()
    found = knn.points(x)
    knn.neighbours(found, 3)
    knn.pairs(found, found, np.ones(50), np.ones(50))
    assert (x == before).all()


def test_steps_are_announced() -> None:
    from contextlib import contextmanager

    told: list[tuple[str, int, int]] = []

    class Listener:
        @contextmanager
        def phase(self, name: str, total: int, unit: str) -> Any:
            steps: list[int] = []
            yield steps.append
            told.append((name, total, sum(steps)))

    x = knn.points(normal(45, 2))
    knn.neighbours(x, 2, progress=Listener(), label="own", block=(10, 20))
    knn.pairs(x, x, np.ones(45), np.ones(45), progress=Listener(), label="both", block=(10, 20))
    assert [name for name, _, _ in told] == ["own", "both"]
    assert all(total == done > 1 for _, total, done in told)
    tables = [len([*blocks_of(45, 45, (10, 20), symmetric=symmetric)]) for symmetric in (True, False)]
    assert [total for _, total, _ in told] == tables


@in_any_blocks
@pytest.mark.parametrize("name", CASES)
def test_shares_of_the_rows_have_the_neighbours_and_pairs_of_all(name: str, block: tuple[int, int]) -> None:
    x, y = CASES[name]
    one, two = (knn.points(side, x.mean(0)) for side in (x, y))
    whole = knn.neighbours(one, 4, block=block)
    reach_x, reach_y = (np.sort(others(side), axis=1)[:, 2] for side in (x, y))
    all_pairs = knn.pairs(one, two, reach_x, reach_y, block=block)
    # Of those that rounding does not tell apart, any may be called the nearest.
    close = 1e-6 * everyone(x, y).max()
    found: set[tuple[int, int]] = set()
    nearest = np.full(len(y), np.inf)
    for start in range(0, len(x), 23):
        rows = slice(start, min(start + 23, len(x)))
        part = knn.neighbours(one, 4, rows=rows, block=block)
        same(part.squared, whole.squared[rows])
        same(everyone(x[rows], x)[np.arange(len(part.index))[:, None], part.index], part.squared)
        assert not (part.index == np.arange(len(x))[rows, None]).any()

        def take(at_x: Any, at_y: Any, squared: Floats) -> None:
            same(squared, everyone(x, y)[at_x, at_y])
            found.update(zip(at_x.tolist(), at_y.tolist(), strict=True))

        who = knn.near_pairs(
            one, two, reach_x, reach_y, knn.Portions(one, two, take, most=10_000, portion=9), rows=rows, block=block
        )
        np.testing.assert_allclose(who.to_y, all_pairs.to_y[rows], rtol=1e-12, atol=close)
        nearest = np.minimum(nearest, who.to_x)
    assert found == set(zip(all_pairs.x.tolist(), all_pairs.y.tolist(), strict=True))
    np.testing.assert_allclose(nearest, all_pairs.to_x, rtol=1e-12, atol=close)


@pytest.mark.parametrize("block", [knn.BLOCK, (7, 13), (64, 8)])
def test_which_of_equals_is_a_neighbour_depends_on_no_block(block: tuple[int, int]) -> None:
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    grid = np.random.default_rng(0).permutation(grid)
    own = knn.points(grid)
    found = knn.neighbours(own, 40, block=block)
    gaps = cdist(grid, grid, "sqeuclidean")
    np.fill_diagonal(gaps, np.inf)
    assert (found.squared == np.sort(gaps, axis=1)[:, :40]).all()
    numbers = np.arange(len(grid))
    order = np.lexsort((knn._deal(numbers[:, None], np.broadcast_to(numbers, gaps.shape)), gaps), axis=1)
    # Ties that end beyond the list are cut as they came: all of the nearest 20 are well within it.
    assert (found.index[:, :20] == order[:, :20]).all()
    strips = [knn.neighbours(own, 40, block=block, rows=slice(at, at + 54)).index for at in range(0, 216, 54)]
    assert (np.concatenate(strips)[:, :20] == order[:, :20]).all()


def test_the_first_of_equals_are_no_hubs() -> None:
    """By their index the first points would be among the nearest of everyone who is as near to others."""
    rows, columns = np.arange(2000)[:, None], np.arange(20)[None]
    first = np.bincount(knn._deal(rows, np.broadcast_to(columns, (2000, 20))).argmin(1), minlength=20)
    # Each is the first of 20 in 100 of 2,000 rows; five standard deviations are 49.
    assert np.abs(first - 100).max() < 49
