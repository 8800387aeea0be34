"""Is the start of k-means that of scikit-learn, with torch and without it?"""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from audits.precision_recall.clustering_start import spread_start
from probes.vectors import thin_products

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("torch", [True, False])
@pytest.mark.parametrize(
    ("size", "width", "buckets", "kinds"), [(300, 5, 40, 300), (400, 64, 40, 60), (200, 250, 9, 200)]
)
def test_clusters_are_those_of_the_usual_start(
    size: int, width: int, buckets: int, kinds: int, torch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch:
        monkeypatch.setattr(thin_products, "is_installed", lambda name: False)
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
