"""What do the texts of a set show by themselves: copies, lengths, repeated word sequences, hubs?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.precision_recall.comparing import Comparison
from audits.precision_recall.estimating import UNIT, At, Found, add
from audits.precision_recall.pools import Pool
from audits.records import Coordinate, Estimate
from audits.statistics import generator, wilson
from audits.statistics.halves import Halved, halved
from probes.ngram_diversity import distinct, ngram_table, self_bleu

ORDERS = 4
SPLITS = 20
"""Splits for which word sequences are counted again: each takes about as long as the whole."""
HYPOTHESES = 0.2
"""Share of the texts whose Self-BLEU is taken."""
LEAST_HYPOTHESES = 100
QUANTILES = (("p5", 0.05), ("median", 0.5), ("p95", 0.95))


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A set as it is described: its name, pool, texts (None: embeddings only), words of each and how many were cut."""

    name: str
    pool: Pool
    texts: tuple[str, ...] | None
    words: NDArray[np.int64]
    shortened: int


def describe(
    draft: Draft, found: Found, sets: Mapping[str, Texts], compared: Mapping[str, Comparison], context: Context
) -> None:
    """Add what each set shows by itself, the reference first."""
    for one in sets.values():
        _add_duplicates(draft, found, one, context)
        if len(one.words):
            _add_lengths(draft, one, context)
        if one.texts is not None:
            _add_sequences(draft, found, one, context)
        if one.name in compared:
            for k, (rows, _) in compared[one.name].hubs.items():
                where: dict[str, Coordinate] = {"candidate": one.name, "k": k}
                add(draft, "hubness", halved(rows), compared[one.name].size, where, context)


def _add_duplicates(draft: Draft, found: Found, one: Texts, context: Context) -> None:
    """Add the share of texts of a draw that repeat an earlier one."""
    pool, size = one.pool, one.pool.draws.shape[1]
    parts = np.empty((1 + 2 * len(pool.halves), len(pool.draws)))
    for draw, texts in enumerate(pool.draws):
        first = pool.halves[:, texts]
        masks = np.ones((len(parts), size), dtype=bool)
        masks[1::2], masks[2::2] = first, ~first
        for part, inside in enumerate(masks):
            parts[part, draw] = 1 - len(np.unique(pool.kinds[texts[inside]])) / max(int(inside.sum()), 1)
    at = At("duplicates", one.name)
    found.values[at] = halved(parts)
    found.places[at] = add(draft, "duplicates", found.values[at], size, {"candidate": one.name}, context, share=True)


def _add_lengths(draft: Draft, one: Texts, context: Context) -> None:
    """Add mean and quantiles of the words of a text, and the share of texts that were cut."""
    from scipy.stats import t

    words, n = np.sort(one.words).astype(np.float64), len(one.words)
    mean, tail = float(words.mean()), (1 - context.level) / 2
    half = float(t.isf(tail, max(n - 1, 1)) * words.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    rows = [("length", mean, mean - half, mean + half, "Student's t", {"statistic": "mean"})]
    for name, share in QUANTILES:
        low, high = quantile_ends(n, share, context.level)
        value = float(words[min(n - 1, int(share * n))])
        rows.append(("length", value, float(words[low]), float(words[high]), "order statistics", {"statistic": name}))
    ends = wilson(one.shortened, n, level=context.level)
    rows.append(("shortened", one.shortened / n, *ends, "Wilson", {}))
    for name, value, low_end, high_end, method, where in rows:
        draft.add(
            Estimate(
                name=name,
                value=value,
                low=low_end,
                high=high_end,
                level=context.level,
                method=method,
                n=n,
                unit=UNIT,
                where={"candidate": one.name, **where},
            )
        )


def quantile_ends(n: int, share: float, level: float) -> tuple[int, int]:
    """Return the places of the order statistics that hold a quantile with at least this confidence, counted from 0.

    The number of values below the quantile is binomial, whatever their distribution.

    >>> quantile_ends(100, 0.5, 0.95)
    (39, 60)
    """
    from scipy.stats import binom

    tail = (1 - level) / 2
    low, high = int(binom.ppf(tail, n, share)) - 1, int(binom.ppf(1 - tail, n, share))
    return max(0, low), min(n - 1, high)


def _add_sequences(draft: Draft, found: Found, one: Texts, context: Context) -> None:
    """Add Self-BLEU and distinct-n of the first draw; both fall and rise with the number of texts."""
    assert one.texts is not None
    chosen = one.pool.draws[0]
    table = ngram_table([one.texts[text] for text in chosen], orders=ORDERS)
    first = one.pool.halves[:SPLITS, chosen]
    present = np.ones((1 + 2 * len(first), len(chosen)), dtype=bool)
    present[1::2], present[2::2] = first, ~first
    where: dict[str, Coordinate] = {"candidate": one.name}
    size = len(chosen)
    shares = distinct(table, present)
    known = (present @ table.totals).min(0)
    for order in range(1, ORDERS + 1):
        if known[order - 1]:
            add(draft, "distinct", _of(shares[:, order - 1]), size, {**where, "n": order}, context, share=True)
    count = min(size, max(LEAST_HYPOTHESES, round(HYPOTHESES * size)))
    hypotheses = np.sort(generator(context.seed, "self-bleu", one.name).permutation(size)[:count])
    at = At("self_bleu", one.name)
    found.values[at] = _of(self_bleu(table, present, hypotheses))
    found.places[at] = add(draft, "self_bleu", found.values[at], size, where, context, share=True)


def _of(parts: NDArray[np.float64]) -> Halved:
    return halved(parts[:, None])
