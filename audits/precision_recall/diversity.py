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
    kinds = kinds_of(pool)
    for draw, texts in enumerate(pool.draws):
        first = pool.halves[:, texts]
        masks = np.ones((len(parts), size), dtype=bool)
        masks[1::2], masks[2::2] = first, ~first
        for part, inside in enumerate(masks):
            parts[part, draw] = 1 - len(np.unique(kinds[texts[inside]])) / max(int(inside.sum()), 1)
    at = At("duplicates", one.name)
    found.values[at] = halved(parts)
    found.places[at] = add(draft, "duplicates", found.values[at], size, {"candidate": one.name}, context, share=True)


def kinds_of(pool: Pool) -> NDArray[np.int64]:
    """Return which texts are the same, as numbers, whether copies were kept apart or not."""
    if len(pool.vectors) < len(pool.point):
        return pool.point
    _, kinds = np.unique(pool.vectors, axis=0, return_inverse=True)
    return np.asarray(kinds.ravel(), dtype=np.int64)


def _add_lengths(draft: Draft, one: Texts, context: Context) -> None:
    from scipy.stats import t

    words = one.words.astype(np.float64)
    half = float(t.isf((1 - context.level) / 2, max(len(words) - 1, 1)) * words.std(ddof=1) / np.sqrt(len(words)))
    where: dict[str, Coordinate] = {"candidate": one.name}
    draft.add(
        Estimate(
            name="length",
            value=float(words.mean()),
            low=float(words.mean()) - half,
            high=float(words.mean()) + half,
            level=context.level,
            method="Student's t",
            n=len(words),
            unit=UNIT,
            where=where,
        )
    )
    low, high = wilson(one.shortened, len(words), level=context.level)
    draft.add(
        Estimate(
            name="shortened",
            value=one.shortened / len(words),
            low=low,
            high=high,
            level=context.level,
            method="Wilson",
            n=len(words),
            unit=UNIT,
            where=where,
        )
    )


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
