"""What do the texts of a set show by themselves: copies, lengths, repeated word sequences, hubs?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.precision_recall.comparing import Comparison
from audits.precision_recall.estimating import UNIT, At, Found, add
from audits.precision_recall.inputs import REFERENCE
from audits.precision_recall.pools import Pool
from audits.records import Coordinate, Estimate
from audits.statistics import generator, mean_interval, wilson
from audits.statistics.halves import Halved, halved
from probes.ngram_diversity import distinct, ngram_table, self_bleu

ORDERS = 4
SPLITS = 20
"""Splits for which word sequences are counted again: each takes about as long as the whole."""
HYPOTHESES = 0.2
"""Share of the texts whose Self-BLEU is taken."""
LEAST_HYPOTHESES = 100
JACKKNIFE = "delete-one jackknife, Wilson"
REPEATED = 0.02
"""Share of copies in the reference that is warned of."""
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
        if one.name != REFERENCE:
            _add_copied(draft, found, one, sets[REFERENCE], context)
        if len(one.words):
            _add_lengths(draft, one, context)
        if one.texts is not None:
            _add_sequences(draft, found, one, context)
        if one.name in compared:
            for k, (rows, _) in compared[one.name].hubs.items():
                where: dict[str, Coordinate] = {"candidate": one.name, "k": k}
                add(draft, "hubness", halved(rows), compared[one.name].size, where, context)


def _add_duplicates(draft: Draft, found: Found, one: Texts, context: Context) -> None:
    """Add the share of texts of a draw that repeat an earlier one.

    Whether two texts are the same is a matter of pairs, of which a half of the texts has a quarter: the error is that
    of the delete-one jackknife, s (1 - s) / (n - 1) for a share s of texts without a copy (Efron and Stein 1981).
    """
    pool, size = one.pool, one.pool.draws.shape[1]
    counts = [np.unique(pool.kinds[texts], return_counts=True)[1] for texts in pool.draws]
    value = 1 - float(np.mean([len(of_kind) for of_kind in counts])) / size
    single = float(np.mean([np.count_nonzero(of_kind == 1) for of_kind in counts])) / size
    error = np.sqrt(single * (1 - single) / max(size - 1, 1))
    at = At("duplicates", one.name)
    # As if from halves, whose gaps are twice the error, so that its interval is made like all others.
    found.values[at] = Halved(value, np.full(size, 2 * error))
    where: dict[str, Coordinate] = {"candidate": one.name}
    found.places[at] = add(draft, "duplicates", found.values[at], size, where, context, share=True, method=JACKKNIFE)
    if one.name == REFERENCE and value > REPEATED:
        text = (
            f"In a draw {value:.1%} of the reference texts are copies of others. Both sides of the ceiling have them: "
            "where they are an accident of the file rather than of how people write, take them out, or it is too high."
        )
        draft.warn("reference-repeats", text)


def _add_copied(draft: Draft, found: Found, one: Texts, reference: Texts, context: Context) -> None:
    """Add the share of a candidate's texts that stand word for word in the reference."""
    sides = [one.texts or [row.tobytes() for row in one.pool.vectors[one.pool.point]] for one in (one, reference)]
    known, n = frozenset(sides[1]), len(sides[0])
    count = sum(text in known for text in sides[0])
    # Not from halves: half of the reference holds half of the originals, and the share would be another.
    low, high = wilson(count, n, level=context.level)
    found.places[At("copied", one.name)] = draft.add(
        Estimate(
            name="copied",
            value=count / n,
            low=low,
            high=high,
            level=context.level,
            method="Wilson",
            n=n,
            unit=UNIT,
            where={"candidate": one.name},
        )
    )


def _add_lengths(draft: Draft, one: Texts, context: Context) -> None:
    """Add mean and quantiles of the words of a text, and the share of texts that were cut."""
    words, n = np.sort(one.words).astype(np.float64), len(one.words)
    # Texts that are all as long say nothing of how long others would be.
    method, mean = mean_interval(words, level=context.level, positive=True) or ("none", (None, None))
    rows: list[tuple[str, float, float | None, float | None, str, dict[str, Coordinate]]] = [
        ("length", float(words.mean()), *mean, method, {"statistic": "mean"})
    ]
    for name, share in QUANTILES:
        low, high = quantile_ends(n, share, context.level)
        value = float(words[min(n - 1, int(share * n))])
        ends = (float(words[low]), float(words[high])) if words[0] < words[-1] else (None, None)
        how = "none" if ends[0] is None else "order statistics"
        rows.append(("length", value, *ends, how, {"statistic": name}))
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
    totals, known = table.totals.sum(0), (present @ table.totals).min(0)
    for order in range(1, ORDERS + 1):
        if known[order - 1]:
            value, count, place = _of(shares[:, order - 1]), int(totals[order - 1]), {**where, "n": order}
            add(draft, "distinct", value, count, place, context, share=True, unit="word sequences")
    count = min(size, max(LEAST_HYPOTHESES, round(HYPOTHESES * size)))
    hypotheses = np.sort(generator(context.seed, "self-bleu", one.name).permutation(size)[:count])
    at = At("self_bleu", one.name)
    found.values[at] = _of(self_bleu(table, present, hypotheses))
    found.places[at] = add(draft, "self_bleu", found.values[at], size, where, context, share=True)


def _of(parts: NDArray[np.float64]) -> Halved:
    return halved(parts[:, None])
