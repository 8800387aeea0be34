"""Are points within balls counted as one pair and one part after another would be?"""

import numpy as np
import pytest

from probes.vectors import part_counts
from probes.vectors.knn import neighbours, points
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


def test_listed_points_are_counted_up_to_the_end_of_a_ball() -> None:
    own = ends(5)
    found, short = listed_counts(own, slice(1, 4)), listed_counts(own, slice(1, 4), np.full(3, 0.05))
    for at, part in enumerate(range(1, 4)):
        inside = (np.arange(6) <= own.ranks[part][:, None]) & (own.weights[part] > 0)[:, None]
        assert (found[:, at] == np.bincount(own.near.index[inside], minlength=30)).all()
        inside &= own.near.squared <= 0.05
        assert (short[:, at] == np.bincount(own.near.index[inside], minlength=30)).all()
