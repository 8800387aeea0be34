"""Do embeddings that lie together fall into one cluster, and the same ones whenever and wherever they are asked?"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from audits.precision_recall.embedding_clusters import bucket_count, cluster_labels, principal_components


def blobs(
    counts: list[int], *, noise: float, width: int = 24, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return points around directions at right angles, each at a length of its own, and whose they are."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(counts)), counts)
    points = np.eye(len(counts), width)[truth] + noise * rng.normal(size=(len(truth), width))
    return (points * rng.uniform(0.1, 10.0, (len(truth), 1))).astype(np.float32), truth


@pytest.mark.parametrize(
    ("n", "expected"), [(0, 2), (7, 2), (25, 2), (26, 3), (35, 4), (145, 14), (4000, 400), (4004, 400)]
)
def test_buckets_are_a_tenth_rounded_to_even(n: int, expected: int) -> None:
    assert bucket_count(n) == expected


@pytest.mark.parametrize("redo", [1, 3])
@pytest.mark.parametrize("width", [24, 300])
def test_planted_clusters_are_found_whatever_the_length_of_a_vector(redo: int, width: int) -> None:
    p, mine = blobs([30, 10, 0, 20, 15], noise=0.02, width=width)
    q, others = blobs([5, 30, 25, 0, 15], noise=0.02, width=width, seed=1)
    found = np.concatenate(cluster_labels(p, q, buckets=5, seed=3, redo=redo))
    truth = np.concatenate([mine, others])
    assert len(set(zip(found.tolist(), truth.tolist(), strict=True))) == 5
    assert found.dtype == np.int32 and set(found.tolist()) == set(range(5))


def test_every_point_is_in_the_cluster_of_the_nearest_centre() -> None:
    p, _ = blobs([250] * 6, noise=0.5)
    q, _ = blobs([200] * 6, noise=0.5, seed=1)
    labels = np.concatenate(cluster_labels(p, q, buckets=20, seed=0, explained=1.0))
    rows = np.concatenate([p, q]).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    centres = np.stack([rows[labels == bucket].mean(0) for bucket in range(20)])
    distances = ((rows[:, None] - centres) ** 2).sum(-1)
    assert (distances[np.arange(len(rows)), labels] <= distances.min(1) + 1e-6).all()


def test_labels_hang_on_the_seed_and_on_nothing_else() -> None:
    p, _ = blobs([200] * 6, noise=0.5)
    q, _ = blobs([150] * 6, noise=0.5, seed=1)
    first = cluster_labels(p, q, buckets=60, seed=2**40 + 1)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            again = cluster_labels(p.copy(), q.copy(), buckets=60, seed=2**40 + 1)
        assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert not np.array_equal(first[0], cluster_labels(p, q, buckets=60, seed=2)[0])


@pytest.mark.parametrize(("count", "width"), [(90, 24), (40, 300)])
@pytest.mark.parametrize("explained", [0.3, 0.9, 0.999])
def test_rows_are_reduced_to_the_components_of_scikit_learn(count: int, width: int, explained: float) -> None:
    rows = np.random.default_rng(0).normal(size=(count, width)) * np.linspace(3, 0.1, width) + 0.2
    found = principal_components(rows.copy(), explained)
    oracle = PCA().fit(normalize(rows))
    kept = int(np.argmax(np.cumsum(oracle.explained_variance_ratio_) >= explained)) + 1
    assert found.shape == (count, kept)
    assert np.abs(found) == pytest.approx(np.abs(oracle.transform(normalize(rows))[:, :kept]), abs=1e-5)


def test_copies_share_a_cluster_and_rows_of_zeros_stay_one() -> None:
    """Seven different rows for ten clusters: three clusters stay empty, without a warning."""
    p = np.concatenate([np.eye(6, dtype=np.float32)] * 5)
    q = np.zeros((4, 6), dtype=np.float32)
    first, other = cluster_labels(p, q, buckets=10, seed=0)
    assert (first.reshape(5, 6) == first[:6]).all() and len(set(first[:6].tolist())) == 6
    assert len(set(other.tolist())) == 1 and other[0] not in first
    same = cluster_labels(p[:1].repeat(5, 0), p[:1], buckets=2, seed=0)
    assert len({*same[0].tolist(), *same[1].tolist()}) == 1


def test_more_starts_lower_the_sum_of_squares() -> None:
    p, _ = blobs([40] * 6, noise=0.3)
    rows = np.concatenate([p, p]) / np.linalg.norm(np.concatenate([p, p]), axis=1, keepdims=True)
    sums = []
    for redo in (1, 10):
        labels = np.concatenate(cluster_labels(p, p, buckets=24, seed=0, explained=1.0, redo=redo))
        sums.append(sum(rows[labels == bucket].var(0).sum() * (labels == bucket).sum() for bucket in range(24)))
    assert sums[1] < sums[0]


P = np.eye(3, dtype=np.float32)


@pytest.mark.parametrize(
    ("p", "q", "options", "message"),
    [
        (P, P[:, :2], {}, "together"),
        (P[0], P, {}, "together"),
        (P, P[:0], {}, "together"),
        (np.where(P > 0, np.nan, P), P, {}, "finite"),
        (P, np.where(P > 0, np.inf, P), {}, "finite"),
        (P, P, {"buckets": 7}, "clusters"),
        (P, P, {"buckets": 1}, "clusters"),
        (P, P, {"explained": 0.0}, "variance"),
        (P, P, {"explained": 1.1}, "variance"),
    ],
)
def test_nonsense_is_refused(
    p: NDArray[np.float32], q: NDArray[np.float32], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cluster_labels(p, q, **{"buckets": 2, "seed": 0, **options})
