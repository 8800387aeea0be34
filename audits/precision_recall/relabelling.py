"""Scores of a candidate if its texts and those of the reference were of one source: labels dealt anew.

For references too small to be set against themselves. If both sides are samples of one source, every way to deal the
labels is as likely as the one that was met: a test by it errs as often as it says, with however few texts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.core.intervals import Interval
from audits.precision_recall.comparing import HALF, principal_axes
from audits.precision_recall.pools import Pool, distinct
from audits.precision_recall.settings import Settings
from audits.precision_recall.sides import ASKED
from audits.statistics import generator, monte_carlo_p
from probes.core.hashing import sha256_json
from probes.vectors import knn
from probes.vectors.support_metrics import Side, balls, evaluate, list_length, prepare_reference

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
KIND, VERSION = "text-relabelled", 1
LEAST, ROOM = 1000, 4
"""Relabellings that are made at least, and how many times what the smallest corrected p-value needs."""
BLOCK = 200
DEALT = "labels dealt anew"


@dataclass(frozen=True, slots=True)
class Relabelled:
    """Scores by metric: of the labels as they are (first), and of labels dealt anew, shape (1 + relabellings,)."""

    size: int
    scores: dict[str, Floats]

    def mean(self, metric: str) -> float:
        """Return the mean score of sets of one source."""
        return float(self.scores[metric][1:].mean())

    def interval(self, metric: str, level: float) -> Interval:
        """Return that mean with the range of scores at this probability."""
        tail, mean = (1 - level) / 2, self.mean(metric)
        low, high = (float(end) for end in np.quantile(self.scores[metric][1:], (tail, 1 - tail)))
        return Interval(value=mean, low=min(low, mean), high=max(high, mean), method=DEALT, n=self.size, unit="texts")

    def p(self, metric: str) -> float:
        """Return the two-sided p-value: twice the smaller of the two tail shares."""
        own, dealt = float(self.scores[metric][0]), self.scores[metric][1:]
        return min(1.0, 2 * min(monte_carlo_p(own, dealt)[0], monte_carlo_p(-own, -dealt)[0]))


def enough(tests: int, level: float) -> int:
    """Return the number of relabellings with which one of many tests can be significant after Holm's correction.

    >>> enough(5, 0.95), enough(50, 0.95)
    (1000, 4000)
    """
    return max(LEAST, round(ROOM * tests / (1 - level)))


def relabel(
    reference: Pool, other: Pool, settings: Settings, count: int, context: Context, advance: Callable[[int], None]
) -> Relabelled | None:
    """Permute the labels of two sets `count` times and score each; None with too few distinct texts for balls."""
    shas = [reference.sha256, other.sha256]
    draws = sha256_json([reference.draws.tolist(), other.draws.tolist()])
    how = [settings.k[0], settings.pca, settings.duplicates, context.device.partition(":")[0], context.seed]
    key = [VERSION, [reference.name, other.name], shas, draws, how, count]

    def compute() -> dict[str, Floats]:
        return {"scores": _scores(reference, other, settings, count, context)}

    scores = context.cache.memo_arrays(KIND, key, compute)["scores"]
    advance(count)
    if not scores.size:
        return None
    return Relabelled(reference.draws.shape[1], dict(zip(ASKED, scores, strict=True)))


def _scores(reference: Pool, other: Pool, settings: Settings, count: int, context: Context) -> Floats:
    """Return the scores, shape (asked, 1 + count), each the mean over draws; None without balls."""
    pooled = _Pooled.of(reference, other, settings, context)
    if pooled is None:
        return np.empty((len(ASKED), 0))
    order = generator(context.seed, "relabelled", other.name)
    dealt = [np.arange(pooled.size), *(order.permutation(pooled.size) for _ in range(count))]
    found = [np.empty((len(ASKED), 0))]
    for start in range(0, len(dealt), BLOCK):
        labels = np.stack(dealt[start : start + BLOCK])
        of_draws = [pooled.evaluated(labels, mine, theirs) for mine, theirs in pooled.draws]
        if any(one is None for one in of_draws):
            return np.empty((len(ASKED), 0))
        found.append(np.mean([one for one in of_draws if one is not None], axis=0))
    return np.concatenate(found, axis=1)


@dataclass(frozen=True, slots=True)
class _Pooled:
    """All texts of both sides in any draw, the reference first, as points; draws are indices of the texts."""

    size: int
    point: Integers
    near: knn.Neighbours
    pairs: knn.Pairs
    k: int
    draws: list[tuple[Integers, Integers]]

    @classmethod
    def of(cls, reference: Pool, other: Pool, settings: Settings, context: Context) -> "_Pooled | None":
        taken = [np.unique(side.draws) for side in (reference, other)]
        rows = np.concatenate(
            [side.vectors[side.point[texts]] for side, texts in zip((reference, other), taken, strict=True)]
        )
        if settings.pca:
            rows = rows @ principal_axes(rows, settings.pca)
        unique, point = (rows, np.arange(len(rows))) if settings.duplicates == "keep" else distinct(rows)
        k = settings.k[0]
        if len(unique) <= 2 * k:
            return None
        ready = knn.points(unique, device=context.device)
        share = min(HALF, reference.draws.shape[1] / len(rows))
        near = knn.neighbours(ready, list_length(k, share, len(unique)))
        # No ball reaches further than its list.
        reach = near.squared[:, -1]
        draws = [
            (np.searchsorted(taken[0], mine), len(taken[0]) + np.searchsorted(taken[1], theirs))
            for mine, theirs in zip(reference.draws, other.draws, strict=True)
        ]
        return cls(len(rows), point, near, knn.pairs(ready, ready, reach, reach), k, draws)

    def evaluated(self, labels: Integers, mine: Integers, theirs: Integers) -> Floats | None:
        """Return the asked scores of one draw under many labellings, shape (asked, labellings)."""
        own, candidate = (
            balls(Side(self.near, self._weights(labels[:, places])), [self.k])[0] for places in (mine, theirs)
        )
        if not (own.drawn.all() and candidate.drawn.all()):
            return None
        values = evaluate(prepare_reference(own), candidate, self.pairs)
        return np.stack([values[metric] for metric in ASKED])

    def _weights(self, texts: Integers) -> NDArray[np.int32]:
        return np.stack([np.bincount(self.point[row], minlength=int(self.point.max()) + 1) for row in texts]).astype(
            np.int32
        )
