"""Clusters of the embeddings of two sets of texts: the shared histograms of MAUVE and of the PRD curve."""

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from audits.precision_recall.clustering_start import spread_start

Labels = NDArray[np.int32]
Vectors = NDArray[np.float32]


def bucket_count(n: int) -> int:
    """Return the usual number of clusters for n texts a side: a tenth, rounded, at least 2.

    Examples
    --------
    >>> bucket_count(4000), bucket_count(7)
    (400, 2)
    """
    return max(2, round(n / 10))


def cluster_labels(
    p: Vectors, q: Vectors, *, buckets: int, seed: int, explained: float = 0.9, redo: int = 1, iterations: int = 100
) -> tuple[Labels, Labels]:
    """Return the cluster of every embedding, from one k-means over both sets (Pillutla et al. 2021).

    Rows are brought to length 1, those of zeros left, and reduced to the first principal components of both sets
    together. K-means is Lloyd's from a greedy k-means++ start (Arthur and Vassilvitskii 2007), until no label changes.

    Parameters
    ----------
    p, q
        Shapes (texts, width), finite; the numbers of texts may differ.
    buckets
        Number of clusters, at most as many as rows. Where fewer rows differ, some clusters stay empty.
    seed
        Of the start. The same seed gives the same labels: all runs on one thread, whatever the caller's number.
    explained
        Share of the variance that the kept components reach.
    redo
        Starts, of which that with the lowest sum of squares is kept.
    iterations
        At most so many a start.

    Returns
    -------
    tuple
        Labels from 0 to buckets - 1 of p and of q, shape (texts,) each.

    Raises
    ------
    ValueError
        Where shapes do not match, a number is not finite, or a setting is outside its range.

    Examples
    --------
    >>> p, q = np.array([[1.0, 0.0], [5.0, 0.1]], np.float32), np.array([[0.0, 2.0], [0.1, 1.0]], np.float32)
    >>> first, other = cluster_labels(p, q, buckets=2, seed=0)
    >>> bool(first[0] == first[1] != other[0] == other[1])
    True
    """
    _check(p, q, buckets, explained)
    sequence = np.random.SeedSequence(seed)
    state = int(sequence.generate_state(1)[0])
    # Two threads add up in another order than one, which can tip a point between two clusters.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Of fewer distinct points than clusters scikit-learn warns; here these are copies of texts, and expected.
        warnings.simplefilter("ignore", ConvergenceWarning)
        points = principal_components(np.concatenate([p, q]).astype(np.float64), explained)
        # Elkan's variant gives the same labels in the same time. A start from random rows is faster, but with many
        # copies among the texts its sum of squares is 5 % larger.
        model = KMeans(
            buckets, init=spread_start, n_init=redo, max_iter=iterations, tol=0.0, random_state=state, copy_x=False
        )
        labels: Labels = model.fit(points).labels_.astype(np.int32)
    return labels[: len(p)], labels[len(p) :]


def principal_components(rows: NDArray[np.float64], explained: float) -> Vectors:
    """Return unit rows in their first principal components, shape (rows, components)."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    rows -= rows.mean(0)
    # Of the two matrices of inner products with the same spectrum, the smaller.
    wide = rows.shape[1] > len(rows)
    values, vectors = eigh(rows @ rows.T if wide else rows.T @ rows)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    sums = np.cumsum(values)
    kept = int(np.searchsorted(sums, explained * sums[-1])) + 1
    scores = vectors[:, :kept] * np.sqrt(values[:kept]) if wide else rows @ vectors[:, :kept]
    return np.ascontiguousarray(scores, dtype=np.float32)


def _check(p: Vectors, q: Vectors, buckets: int, explained: float) -> None:
    if p.ndim != 2 or q.ndim != 2 or p.shape[1] != q.shape[1] or not p.size or not q.size:
        raise ValueError(f"embeddings of shapes {p.shape} and {q.shape} cannot be clustered together")
    if not (np.isfinite(p).all() and np.isfinite(q).all()):
        raise ValueError("an embedding holds a value that is not a finite number")
    if not 2 <= buckets <= len(p) + len(q):
        raise ValueError(f"{buckets} clusters of {len(p) + len(q)} embeddings: at least 2, and at most one each")
    if not 0 < explained <= 1:
        raise ValueError(f"a share {explained} of the variance: above 0 and at most 1 is needed")
