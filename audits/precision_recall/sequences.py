"""Repetition of word sequences in a set of texts: Self-BLEU and distinct-n of a draw and of its halves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audits.precision_recall.ngram_diversity import distinct, ngram_table, self_bleu
from audits.precision_recall.pools import Pool
from audits.statistics import generator
from audits.statistics.halves import Halved, halved

ORDERS = 4
SPLITS = 20
"""Splits for which word sequences are counted again: each takes about as long as the whole."""
HYPOTHESES = 0.2
"""Share of the texts whose Self-BLEU is taken."""
LEAST_HYPOTHESES = 100


@dataclass(frozen=True, slots=True)
class Sequences:
    """Word sequences of the first draw; both scores depend on the number of texts.

    Parameters
    ----------
    size
        Texts of the draw.
    distinct
        By n, the share of sequences that are different, and how many there are; where each half has some.
    """

    size: int
    self_bleu: Halved
    distinct: Mapping[int, tuple[Halved, int]]


def count_sequences(texts: Sequence[str], pool: Pool, seed: int) -> Sequences:
    """Count the word sequences of a set."""
    chosen = pool.draws[0]
    table = ngram_table([texts[text] for text in chosen], orders=ORDERS)
    first = pool.halves[:SPLITS, chosen]
    present = np.ones((1 + 2 * len(first), len(chosen)), dtype=bool)
    present[1::2], present[2::2] = first, ~first
    shares = distinct(table, present)
    totals, fewest = table.totals.sum(0), (present @ table.totals).min(0)
    different = {
        order: (halved(shares[:, order - 1, None]), int(totals[order - 1]))
        for order in range(1, ORDERS + 1)
        if fewest[order - 1]
    }
    size = len(chosen)
    count = min(size, max(LEAST_HYPOTHESES, round(HYPOTHESES * size)))
    hypotheses = np.sort(generator(seed, "self-bleu", pool.name).permutation(size)[:count])
    return Sequences(size, halved(self_bleu(table, present, hypotheses)[:, None]), different)
