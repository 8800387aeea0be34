"""Is the start of k-means that of scikit-learn?"""

import numpy as np
import pytest
from sklearn.cluster import KMeans

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
