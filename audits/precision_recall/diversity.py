"""Estimates of one set by itself: copies, lengths, repeated word sequences, hubs."""

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.records import Coordinate
from audits.precision_recall.counts import Counts, Texts
from audits.precision_recall.intervals import UNIT, add
from audits.precision_recall.pools import digests
from audits.precision_recall.sides import FLOOR, REFERENCE
from audits.statistics import mean_interval, wilson
from audits.statistics.halves import Halved, halved
from audits.statistics.order_statistics import enclosing

JACKKNIFE = "delete-one jackknife, Wilson"
REPEATED = 0.02
"""Share of copies in the reference that is warned of."""
QUANTILES = (("p5", 0.05), ("median", 0.5), ("p95", 0.95))


def describe(draft: Draft, counts: Counts) -> None:
    """Add the estimates of each set but the floor by itself, the reference first."""
    for one in counts.sets.values():
        if one.name == FLOOR:
            continue
        _add_duplicates(draft, one)
        if one.name != REFERENCE:
            _add_copied(draft, one, counts.sets[REFERENCE])
        if len(one.words):
            _add_lengths(draft, one)
        if one.sequences is not None:
            for n, (value, count) in one.sequences.distinct.items():
                where: dict[str, Coordinate] = {"candidate": one.name, "n": n}
                add(draft, "distinct", value, count, where, share=True, unit="word sequences")
            add(draft, "self_bleu", one.sequences.self_bleu, one.sequences.size, {"candidate": one.name}, share=True)
        if one.name in counts.main:
            compared = counts.main[one.name]
            for k, (rows, _) in compared.hubs.items():
                add(draft, "hubness", halved(rows), compared.size, {"candidate": one.name, "k": k})


def _add_duplicates(draft: Draft, one: Texts) -> None:
    """Add the share of texts of a draw that repeat an earlier one.

    Whether two texts are the same is a matter of pairs, of which a half of the texts has a quarter: the error is that
    of the delete-one jackknife, s (1 - s) / (n - 1) for a share s of texts without a copy (Efron and Stein 1981).
    """
    pool, size = one.pool, one.pool.draws.shape[1]
    counts = [np.unique(pool.kinds[texts], return_counts=True)[1] for texts in pool.draws]
    value = 1 - float(np.mean([len(of_kind) for of_kind in counts])) / size
    single = float(np.mean([np.count_nonzero(of_kind == 1) for of_kind in counts])) / size
    error = np.sqrt(single * (1 - single) / max(size - 1, 1))
    # As if from halves, whose gaps are twice the error, so that its interval is made like all others.
    halves = Halved(value, np.full(size, 2 * error))
    add(draft, "duplicates", halves, size, {"candidate": one.name}, share=True, method=JACKKNIFE)
    if one.name == REFERENCE and value > REPEATED:
        text = (
            f"In a draw {value:.1%} of the reference texts are copies of others. Both sides of the ceiling have them: "
            "where they are an accident of the file rather than of how people write, take them out, or it is too high."
        )
        draft.warn("reference-repeats", text)


def _add_copied(draft: Draft, one: Texts, reference: Texts) -> None:
    """Add the share of a candidate's texts that stand word for word in the reference."""
    if one.texts and reference.texts:
        known = frozenset(reference.texts)
        found = sum(text in known for text in one.texts)
    else:
        mine, theirs = (digests(side.pool.vectors) for side in (one, reference))
        found = int(np.isin(mine, theirs)[one.pool.point].sum())
    # Not from halves: half of the reference holds half of the originals, and the share would be another.
    share = share_interval(found, len(one.pool), draft.level)
    draft.add("copied", share, candidate=one.name)


def _add_lengths(draft: Draft, one: Texts) -> None:
    """Add mean and quantiles of the words of a text, and the share of texts that were cut."""
    words, n = np.sort(one.words).astype(np.float64), len(one.words)
    # Texts that are all as long say nothing of how long others would be.
    method, (low, high) = mean_interval(words, level=draft.level, positive=True) or ("none", (None, None))
    mean = Interval(value=float(words.mean()), low=low, high=high, method=method, n=n, unit=UNIT)
    draft.add("length", mean, candidate=one.name, statistic="mean")
    for name, share in QUANTILES:
        draft.add("length", quantile_interval(words, share, draft.level), candidate=one.name, statistic=name)
    draft.add("shortened", share_interval(one.shortened, n, draft.level), candidate=one.name)


def share_interval(count: int, n: int, level: float) -> Interval:
    """Return a share of the texts with Wilson's interval."""
    low, high = wilson(count, n, level=level)
    return Interval(value=count / n, low=low, high=high, method="Wilson", n=n, unit=UNIT)


def quantile_interval(words: NDArray[np.float64], share: float, level: float) -> Interval:
    """Return a quantile of sorted lengths with its interval; without one where all are equal, or too few for it."""
    n = len(words)
    value, ends = float(words[min(n - 1, int(share * n))]), enclosing(n, share, level)
    if ends is None or not words[0] < words[-1]:
        return Interval(value=value, method="none", n=n, unit=UNIT)
    low, high = (float(words[end]) for end in ends)
    return Interval(value=value, low=low, high=high, method="order statistics", n=n, unit=UNIT)
