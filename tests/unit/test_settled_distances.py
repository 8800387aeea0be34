"""Do settled distances stand where the exact ones do, and are few of them computed exactly?"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from probes.vectors import knn, settled_distances
from probes.vectors.settled_distances import Settled

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]


def normal(count: int, seed: int) -> Floats:
    # Far from the origin in single coordinates: the bounds of some points are far wider than those of others.
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 24)) * np.where(rng.random(count) < 0.1, 30.0, 1.0)[:, None]


def whole(count: int, seed: int) -> Floats:
    # Very many equal distances, at which the bounds alone settle nothing.
    return np.random.default_rng(seed).integers(0, 3, (count, 7)).astype(float)


@pytest.mark.parametrize("without_torch", [False, True])
@pytest.mark.parametrize("made", [normal, whole])
def test_settled_distances_stand_where_exact_ones_do(
    made: Callable[[int, int], Floats], without_torch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without_torch:
        monkeypatch.setattr(knn, "is_installed", lambda name: False)
        knn._backend.cache_clear()
    try:
        x, y = made(300, 0), made(200, 1)
        one, two = knn.points(x), knn.points(y, x.mean(0))
        # Distances between both sides stand in the lists, where a pair that is as far may fall either way.
        across = cdist(x, y, "sqeuclidean")
        lists = np.sort(across[:, :20], axis=1), np.sort(across.T[:, :20], axis=1)
        limits = across[0, :5]
        found: list[tuple[NDArray[np.int32], NDArray[np.int32], Floats]] = []
        settled = Settled(one, two, *lists, limits)
        take = knn.Portions(one, two, lambda *pairs: found.append(pairs), most=10**6, distances=settled)
        knn.near_pairs(one, two, np.full(300, np.inf), np.full(200, np.inf), take)
        at_x, at_y, squared = (np.concatenate([part[side] for part in found]) for side in range(3))
        assert len(at_x) == across.size
        exact = knn.exact(one, two, at_x, at_y)
        for cuts in (lists[0][at_x], lists[1][at_y], np.broadcast_to(limits, (len(at_x), 5))):
            assert ((cuts <= squared[:, None]) == (cuts <= exact[:, None])).all()
    finally:
        knn._backend.cache_clear()


def test_few_distances_are_computed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(x: knn.Points, y: knn.Points, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> Floats:
        asked.append(len(rows))
        return knn.exact(x, y, rows, columns)

    monkeypatch.setattr(settled_distances, "exact", counted)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(400, 16)), rng.normal(size=(400, 16))
    one, two = knn.points(x), knn.points(y, x.mean(0))
    lists = [knn.neighbours(points, 30).squared for points in (one, two)]
    take = knn.Portions(one, two, lambda *pairs: None, most=10**6, distances=Settled(one, two, *lists, lists[0][:5, 5]))
    knn.near_pairs(one, two, np.full(400, np.inf), np.full(400, np.inf), take)
    assert 0 < sum(asked) < 160_000 / 100
