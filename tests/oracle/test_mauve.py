"""Are MAUVE and the frontier integral those of the mauve package, from its histograms and from the same embeddings?"""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from audits.precision_recall.divergence_curves import frontier_integral, mauve
from audits.precision_recall.embedding_clusters import bucket_count, cluster_labels


def package(p: NDArray[np.float32], q: NDArray[np.float32], **options: Any) -> Any:
    """Return what the package answers; its import writes warnings of its own, and its k-means to the terminal."""
    module = pytest.importorskip("mauve")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return module.compute_mauve(p_features=p, q_features=q, kmeans_num_redo=1, kmeans_max_iter=100, **options)


def embeddings(count: int, *, modes: int, shift: float, seed: int) -> NDArray[np.float32]:
    """Return noisy points around the first of forty fixed directions, moved along one more."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(40, 16))
    points = centres[rng.integers(0, modes, count)] + 0.6 * rng.normal(size=(count, 16))
    points[:, 0] += shift
    return points.astype(np.float32)


CASES = {
    "same source": embeddings(600, modes=40, shift=0.0, seed=1),
    "fewer modes": embeddings(600, modes=15, shift=0.0, seed=2),
    "shifted": embeddings(500, modes=40, shift=1.5, seed=3),
    "disjoint": embeddings(600, modes=3, shift=60.0, seed=4),
}
REFERENCE = embeddings(600, modes=40, shift=0.0, seed=0)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("scaling", "points"), [(5, 25), (1, 40)])
def test_the_same_histograms_have_the_same_values(name: str, scaling: int, points: int) -> None:
    oracle = package(
        REFERENCE,
        CASES[name],
        mauve_scaling_factor=scaling,
        divergence_curve_discretization_size=points,
        num_buckets=50,
    )
    p, q = oracle.p_hist, oracle.q_hist
    assert float(mauve(p, q, scaling=scaling, points=points)) == pytest.approx(oracle.mauve, abs=1e-12)
    assert float(frontier_integral(p, q)) == pytest.approx(oracle.frontier_integral, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_same_embeddings_have_values_within_what_seeds_change(name: str) -> None:
    p, q = REFERENCE, CASES[name]
    buckets = bucket_count(min(len(p), len(q)))
    theirs, ours = [], []
    for seed in range(8):
        oracle = package(p, q, seed=seed)
        assert oracle.num_buckets == buckets
        theirs.append((oracle.mauve, oracle.frontier_integral))
        labels = cluster_labels(p, q, buckets=buckets, seed=seed)
        counts = [np.bincount(side, minlength=buckets) for side in labels]
        ours.append((float(mauve(*counts)), float(frontier_integral(*counts))))
    spread = np.std(theirs, axis=0, ddof=1) + np.std(ours, axis=0, ddof=1)
    assert (np.abs(np.mean(theirs, axis=0) - np.mean(ours, axis=0)) <= 2 * spread + 1e-9).all()
