"""Scores of histograms over clusters of two sets: MAUVE, and the whole curve of precision against recall."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.precision_recall.divergence_curves import frontier_integral, mauve, prd_curve, prd_scores, prd_slopes
from audits.precision_recall.embedding_clusters import bucket_count, cluster_labels
from audits.precision_recall.pools import Pool
from audits.statistics import generator
from audits.statistics.halves import Halved, halved
from probes.core.hashing import sha256_json

Floats = NDArray[np.float64]
MOST_TEXTS = 5000
"""Texts of a side that are clustered in one draw: the number for which MAUVE was published."""
SLOPES = 9
CURVES = ("mauve", "frontier_integral", "prd_precision", "prd_recall")
KIND, VERSION = "text-clusters", 1


@dataclass(frozen=True, slots=True)
class Clustered:
    """The scores of a candidate from the clusters of each draw.

    Parameters
    ----------
    size
        Texts of a side.
    same_texts
        Whether all draws hold the same texts, so that only the clusterings differ.
    scores
        By name, shape (1 + 2 splits, draws).
    alpha
        Of the curve, shape (1 + 2 splits, draws, slopes); recall is alpha over the slope.
    """

    name: str
    size: int
    same_texts: bool
    scores: Mapping[str, Floats]
    slopes: Floats
    alpha: Floats

    def score(self, metric: str) -> Halved:
        """Return a score of these clusters."""
        parts = self.scores[metric]
        value = halved(parts)
        if not self.same_texts or parts.shape[1] < 2:
            return value
        # All clusterings are of the same texts: what differs is the start of k-means.
        return Halved(value.value, value.gaps, float(parts[0].var(ddof=1)) / parts.shape[1])


def cluster(reference: Pool, other: Pool, repeats: int, context: Context) -> Clustered:
    """Cluster every draw of both sets jointly and compare the histograms of the draw and of its halves."""
    size = min(MOST_TEXTS, reference.draws.shape[1])
    draws = len(reference.draws)
    slopes = prd_slopes(SLOPES)
    columns: list[dict[str, Floats]] = []
    alphas: list[Floats] = []
    # Also where all draws hold the same texts: k-means starts elsewhere, and its luck is to be averaged out.
    for repeat in range(max(repeats, draws)):
        draw = repeat % draws
        texts = reference.draws[draw][:size], other.draws[draw][:size]
        labels = _labels((reference, other), texts, repeat, context)
        buckets = bucket_count(size)
        p, q = (
            _counts(found, side.halves[:, chosen], buckets)
            for found, side, chosen in zip(labels, (reference, other), texts, strict=True)
        )
        precision, recall = prd_scores(p, q)
        integral = frontier_integral(p, q)
        columns.append(
            {"mauve": mauve(p, q), "frontier_integral": integral, "prd_precision": precision, "prd_recall": recall}
        )
        alphas.append(prd_curve(p, q, slopes)[0])
    scores = {name: np.stack([column[name] for column in columns], axis=1) for name in columns[0]}
    return Clustered(other.name, size, draws == 1, scores, slopes, np.stack(alphas, axis=1))


def _labels(
    pools: tuple[Pool, Pool], texts: tuple[NDArray[np.int64], NDArray[np.int64]], repeat: int, context: Context
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    names = [side.name for side in pools]
    seed = int(generator(context.seed, "clusters", *names, str(repeat)).integers(2**31))
    key = [VERSION, [side.sha256 for side in pools], sha256_json([part.tolist() for part in texts]), seed]

    def compute() -> dict[str, NDArray[np.int32]]:
        # With their copies: the histograms count texts, not points.
        p, q = (side.vectors[side.point[part]] for side, part in zip(pools, texts, strict=True))
        labels = cluster_labels(p, q, buckets=bucket_count(len(texts[0])), seed=seed)
        return {"p": labels[0], "q": labels[1]}

    entry = context.cache.memo_arrays(KIND, key, compute)
    return entry["p"], entry["q"]


def _counts(labels: NDArray[np.int32], halves: NDArray[np.bool_], buckets: int) -> Floats:
    """Return the counts of the clusters in the whole and in both halves of every split, (1 + 2 splits, buckets)."""
    whole = np.bincount(labels, minlength=buckets)
    first = np.stack([np.bincount(labels[inside], minlength=buckets) for inside in halves])
    parts = np.empty((1 + 2 * len(first), buckets))
    # Halves are counted in the clusters of the whole: clusters of their own would be of other sizes.
    parts[0], parts[1::2], parts[2::2] = whole, first, whole - first
    return parts
