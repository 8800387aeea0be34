"""Are points within balls counted as one pair and one part after another would be?"""

import numpy as np
import pytest

from probes.vectors import part_counts
from probes.vectors.knn import Neighbours, neighbours, points
from probes.vectors.part_counts import Ends, closer, gathered, listed_counts, places

pytestmark = pytest.mark.numerical


def ends(seed: int, size: int = 30, parts: int = 5, length: int = 6) -> Ends:
    """Return balls that end anywhere in lists of real neighbours."""
    rng = np.random.default_rng(seed)
    near = neighbours(points(rng.normal(size=(size, 2))), length)
    return Ends(near, rng.integers(0, length + 1, (parts, size)), rng.integers(0, 2, (parts, size)))


def test_a_place_is_that_of_a_sorted_search() -> None:
    rng = np.random.default_rng(0)
    lists = np.sort(rng.integers(0, 9, (7, 11)), axis=1).astype(float)
    rows, squared = rng.integers(0, 7, 500), rng.integers(-1, 10, 500).astype(float)
    found = places(lists, rows, squared)
    assert found.tolist() == [
        np.searchsorted(lists[row], gap, side="right") for row, gap in zip(rows, squared, strict=True)
    ]


@pytest.mark.parametrize("many", [12, 700])
def test_sums_are_those_of_single_pairs(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several chunks, rows that are cut, and, of many others, sums that no byte holds.
    monkeypatch.setattr(part_counts, "GATHERED", 900)
    own, rng = ends(3, size=300), np.random.default_rng(4)
    both = np.argwhere(rng.random((300, many)) < 0.9)
    x, y = rng.permutation(both).T.astype(np.int32)
    squared = rng.exponential(0.1, len(x))
    place = places(own.near.squared, x, squared)
    limits = np.array([0.02, 0.05, 0.06, 0.055, 0.05])
    there = rng.integers(0, 2, (many, 5)).astype(np.uint8)
    sums, short, full = np.zeros((many, 5), int), np.zeros((many, 5), int), np.zeros((300, 5), int)
    for rows in gathered(x, place, own.near.squared.shape[1], many):
        inside, whom = rows.inside(own, slice(0, 5)), y[rows.pairs]
        sums += rows.sums(inside, whom, many)
        short += closer(rows, inside, whom, many, squared[rows.pairs], limits)
        full[rows.points] += rows.filled(inside, whom, there, 4)
    for part in range(5):
        held = (own.weights[part, x] > 0) & (place <= own.ranks[part, x])
        assert (sums[:, part] == np.bincount(y[held], minlength=many)).all()
        assert (short[:, part] == np.bincount(y[held & (squared < limits[part])], minlength=many)).all()
        held &= there[y, part] > 0
        assert (full[:, part] == np.minimum(np.bincount(x[held], minlength=300), 4)).all()


@pytest.mark.parametrize(
    "limits", [[0.09, 0.04, 0.04, 0.07], [0.02, 0.04, 0.07, 0.05], [0.05], [0.0, 0.07, 0.07, 0.07]]
)
def test_what_is_just_as_far_as_a_limit_is_not_closer(limits: list[float]) -> None:
    # All squared distances lie on a grid on which the limits lie, too: the least, the largest and that of the first.
    own, rng = ends(6, size=60, parts=len(limits)), np.random.default_rng(7)
    x, y = np.divmod(np.arange(60 * 25), 25)
    squared = rng.integers(0, 12, len(x)) / 100
    place = places(own.near.squared, x, squared)
    short = np.zeros((25, len(limits)), int)
    for rows in gathered(x, place, own.near.squared.shape[1], 25):
        inside, whom = rows.inside(own, slice(0, len(limits))), y[rows.pairs]
        short += closer(rows, inside, whom, 25, squared[rows.pairs], np.array(limits))
    for part, limit in enumerate(limits):
        held = (own.weights[part, x] > 0) & (place <= own.ranks[part, x]) & (squared < limit)
        assert (short[:, part] == np.bincount(y[held], minlength=25)).all()


def endless(size: int) -> Ends:
    """Return balls without an end, with a list of one neighbour each."""
    near = Neighbours(np.ones((size, 1)), np.zeros((size, 1), dtype=np.int32))
    return Ends(near, np.ones((1, size), dtype=np.uint8), np.ones((1, size), dtype=np.uint8))


@pytest.mark.parametrize("centres", [255, 256, 2**16])
def test_a_point_in_very_many_balls_is_counted_in_a_type_that_holds_it(centres: int) -> None:
    own, others = endless(centres), 2 * centres
    x, y = np.arange(centres), np.zeros(centres, dtype=np.int32)
    (rows,) = gathered(x, np.zeros(centres, dtype=np.intp), 1, others)
    inside = rows.inside(own, slice(0, 1))
    sums = rows.sums(inside, y[rows.pairs], others)
    assert sums[0, 0] == centres and not sums[1:].any()
    near = closer(rows, inside, y[rows.pairs], others, np.full(centres, 0.5), np.array([1.0]))
    assert near[0, 0] == centres and inside.dtype.itemsize == {255: 1, 256: 2, 2**16: 4}[centres]


@pytest.mark.parametrize("held", [255, 256, 512])
def test_a_ball_that_holds_very_many_at_one_place_is_full(held: int) -> None:
    own, x = endless(1), np.zeros(held, dtype=np.int32)
    (rows,) = gathered(x, np.zeros(held, dtype=np.intp), 1, held)
    there = np.ones((held, 1), dtype=np.uint8)
    for most in (3, 300):
        found = rows.filled(rows.inside(own, slice(0, 1)), rows.pairs.astype(np.int32), there, most)
        assert found.tolist() == [[min(held, most)]]


def test_a_ball_reaches_as_far_as_its_widest_part_and_without_an_end_everywhere() -> None:
    near = Neighbours(np.array([[1.0, 4.0], [2.0, 3.0], [5.0, 6.0]]), np.zeros((3, 2), dtype=np.int32))
    # The second part of the first point is not there; the second point has no end; the third is in no part.
    ranks, weights = np.array([[0, 0, 1], [1, 2, 1]]), np.array([[1, 1, 0], [0, 3, 0]])
    assert Ends(near, ranks, weights).reach().tolist() == [1.0, np.inf, -1.0]


def test_listed_points_are_counted_up_to_the_end_of_a_ball() -> None:
    own = ends(5)
    found, short = listed_counts(own, slice(1, 4)), listed_counts(own, slice(1, 4), np.full(3, 0.05))
    for at, part in enumerate(range(1, 4)):
        inside = (np.arange(6) <= own.ranks[part][:, None]) & (own.weights[part] > 0)[:, None]
        assert (found[:, at] == np.bincount(own.near.index[inside], minlength=30)).all()
        inside &= own.near.squared <= 0.05
        assert (short[:, at] == np.bincount(own.near.index[inside], minlength=30)).all()
