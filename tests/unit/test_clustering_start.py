"""Is the start of k-means that of scikit-learn?"""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus

from audits.precision_recall.clustering_start import spread_start

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize(
    ("size", "width", "buckets", "kinds"), [(300, 5, 40, 300), (400, 64, 40, 60), (200, 250, 9, 200)]
)
def test_clusters_are_those_of_the_usual_start(size: int, width: int, buckets: int, kinds: int) -> None:
    rng = np.random.default_rng(size)
    rows = rng.normal(size=(kinds, width))[rng.integers(0, kinds, size)]
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    usual, own = (
        KMeans(buckets, init=init, n_init=1, tol=0.0, random_state=3).fit(rows) for init in ("k-means++", spread_start)
    )
    assert (usual.labels_ == own.labels_).all() and (usual.cluster_centers_ == own.cluster_centers_).all()


def test_of_fewer_points_than_centres_each_is_one_and_the_rest_are_copies() -> None:
    rng = np.random.default_rng(5)
    kinds = rng.normal(size=(25, 40)).astype(np.float32)
    rows = kinds[rng.permutation(np.arange(200) % 25)]
    found = spread_start(rows, 60, np.random.RandomState(1))
    assert len(found) == 60 and (np.unique(found, axis=0) == np.unique(kinds, axis=0)).all()
    # As long as there are others, no point is chosen twice.
    assert len(np.unique(found[:25], axis=0)) == 25


def test_points_of_far_heaps_are_told_apart_as_usually() -> None:
    # Squared lengths of 64, within a heap distances of 1e-5: float32 alone would lose them.
    rng = np.random.default_rng(2)
    rows = (8.0 * rng.choice([-1, 1], (200, 1)) + 1e-3 * rng.normal(size=(200, 6))).astype(np.float32)
    assert (kmeans_plusplus(rows, 30, random_state=4)[0] == spread_start(rows, 30, np.random.RandomState(4))).all()


class AtTheEnd(np.random.RandomState):
    """Draws numbers so near to 1 that rounding has put them above it."""

    def uniform(self, size: int) -> NDArray[np.float64]:  # type: ignore[override]
        return np.full(size, 1 + 1e-6)


def test_a_draw_behind_the_last_point_is_the_last_point() -> None:
    rows = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    assert (spread_start(rows, 2, AtTheEnd(0))[1] == rows[-1]).all()
