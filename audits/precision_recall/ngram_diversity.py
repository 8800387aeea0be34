"""Distinct n-grams and Self-BLEU: how much the texts of a collection repeat each other, for many subsets at once.

The texts are read once into a table of counts; each subset is then measured in one pass over that table.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probes.texts.text_words import words_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

EPSILON = 0.1
"""Matches that stand in for none: the first smoothing of Chen and Cherry 2014, with NLTK's value."""


@dataclass(frozen=True, slots=True, eq=False)
class NgramCounts:
    """Counts of each n-gram of one order in each document, (entries,) each: one for each pair that occurs.

    Sorted by n-gram, and for each n-gram from its largest count on, so that what the other documents hold at most is
    the first entry of an n-gram, or the second for the document of the first.
    """

    document: Ints
    ngram: Ints
    count: Ints

    def of(self, present: Mask) -> "NgramCounts":
        """Return the entries of the documents of a subset, shape (documents,), in the same order."""
        kept = present[self.document]
        return NgramCounts(self.document[kept], self.ngram[kept], self.count[kept])

    def first(self) -> Mask:
        """Return which entry is the first of its n-gram, shape (entries,)."""
        found: Mask = np.diff(self.ngram, prepend=-1) != 0
        return found


@dataclass(frozen=True, slots=True, eq=False)
class NgramTable:
    """N-gram counts of documents.

    Parameters
    ----------
    lengths
        Words of each document, shape (documents,).
    orders
        Counts of the 1-grams, the 2-grams and so on.
    """

    lengths: Ints
    orders: tuple[NgramCounts, ...]

    @property
    def totals(self) -> Ints:
        """Return the number of n-grams in each document by order, shape (documents, orders); 0 in a short one."""
        found: Ints = np.maximum(self.lengths[:, None] - np.arange(len(self.orders)), 0)
        return found


def split_words(text: str) -> list[str]:
    """Return the words of a text: lower case, cut at white space, each punctuation mark and symbol a word of its own.

    Apostrophes belong to the word they touch. Letters of a script written without spaces are words of their own.

    Examples
    --------
    >>> split_words("Don't stop - NOW!"), split_words("我用Python，好")
    (["don't", 'stop', '-', 'now', '!'], ['我', '用', 'python', '，', '好'])
    """
    plain = unicodedata.normalize("NFC", text.lower()).replace("\u2019", "'")
    return words_of(plain.translate(_SPACED))


class _Spaced(dict[int, str]):
    """A cache of the replacement of each character: Unicode's tables are too slow to ask for every letter."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        kind = unicodedata.category(letter)
        # Marks are vowels in many scripts, and invisible joiners part of some spellings: neither ends a word.
        if letter == "'" or kind[0] in "LMN" or kind == "Cf":
            found = letter
        else:
            found = f" {letter} " if kind[0] in "PS" else " "
        self[code] = found
        return found


_SPACED = _Spaced()


def ngram_table(texts: Sequence[str], *, orders: int = 4) -> NgramTable:
    """Return the counts of all n-grams of 1 to `orders` words, cut as `split_words` does.

    Examples
    --------
    >>> table = ngram_table(["a b a", "b"], orders=2)
    >>> table.lengths.tolist(), [part.count.tolist() for part in table.orders]
    ([3, 1], [[2, 1, 1], [1, 1]])
    """
    if orders < 1:
        raise ValueError(f"n-grams of up to {orders} words: at least 1 is needed")
    vocabulary: dict[str, int] = {}
    numbers, lengths = [], []
    for text in texts:
        words = split_words(text)
        numbers.extend([vocabulary.setdefault(word, len(vocabulary)) for word in words])
        lengths.append(len(words))
    sizes = np.array(lengths, dtype=np.int64)
    return NgramTable(sizes, _count_orders(np.array(numbers, dtype=np.int64), sizes, len(vocabulary), orders))


def _count_orders(words: Ints, lengths: Ints, known: int, orders: int) -> tuple[NgramCounts, ...]:
    document = np.repeat(np.arange(len(lengths)), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))
    ngram, start = words, np.arange(len(words))
    counted = []
    for order in range(1, orders + 1):
        if order > 1:
            # An n-gram is the one a word shorter and its last word; those that reach over an end are dropped.
            fits = left[start] >= order
            start = start[fits]
            # Numbered anew at every order, so that the product stays far below 2^63.
            ngram = np.unique(ngram[fits] * known + words[start + order - 1], return_inverse=True)[1]
        counted.append(_counted(document[start], ngram))
    return tuple(counted)


def _counted(document: Ints, ngram: Ints) -> NgramCounts:
    documents = int(document.max(initial=-1)) + 1
    pairs, count = np.unique(ngram * documents + document, return_counts=True)
    ngram, document = np.divmod(pairs, max(documents, 1))
    order = np.lexsort((-count, ngram))
    return NgramCounts(document[order], ngram[order], count[order])


def distinct(table: NgramTable, present: Mask) -> Floats:
    """Return distinct-n: different n-grams over all n-grams in the documents of each subset (Li et al. 2016).

    Parameters
    ----------
    present
        Which documents are in each subset, shape (subsets, documents).

    Returns
    -------
    NDArray
        Shape (subsets, orders). Where a subset has no n-gram of an order, `present @ table.totals` is 0 and so is
        the value here, which then says nothing.

    Raises
    ------
    ValueError
        Where `present` is not over the documents of the table.

    Examples
    --------
    >>> distinct(ngram_table(["a b a", "a b"], orders=2), np.array([[True, True], [False, True]])).tolist()
    [[0.4, 0.6666666666666666], [1.0, 1.0]]
    """
    _check(table, present)
    found = [[int(part.of(subset).first().sum()) for part in table.orders] for subset in present]
    values: Floats = np.reshape(found, (len(present), len(table.orders))) / np.maximum(present @ table.totals, 1)
    return values


def self_bleu(table: NgramTable, present: Mask, hypotheses: Ints) -> Floats:
    """Return Self-BLEU: mean BLEU of documents against all others of their subset (Zhu et al. 2018).

    BLEU is that of one sentence with many references (Papineni et al. 2002): the geometric mean over the table's
    orders of the shares of n-grams that another document holds too, times exp(1 - r / length) where the document is
    shorter than r, the closest length of another, the shorter of two as close. No match counts as `EPSILON` matches,
    and an order for which the document is too short as one n-gram without match. A document without any word in
    common with another has 0.

    Parameters
    ----------
    present
        Which documents are in each subset, shape (subsets, documents).
    hypotheses
        Numbers of the documents to be scored, shape (hypotheses,); in each subset those that it holds are.

    Returns
    -------
    NDArray
        Shape (subsets,).

    Raises
    ------
    ValueError
        Where a subset holds fewer than two documents or no hypothesis, or numbers and documents do not match.

    Examples
    --------
    >>> table = ngram_table(["one two three four", "one two three four five", "six"])
    >>> self_bleu(table, np.array([[True, True, False]]), np.array([0])).round(4).tolist()
    [0.7788]
    """
    _check(table, present)
    if hypotheses.size and not 0 <= hypotheses.min() <= hypotheses.max() < len(table.lengths):
        raise ValueError(f"hypotheses of numbers outside 0 to {len(table.lengths) - 1}")
    if (present.sum(1) < 2).any() or not present[:, hypotheses].any(1).all():
        raise ValueError("a subset of fewer than two documents, or without a hypothesis")
    return np.array([_bleu(table, subset)[hypotheses[subset[hypotheses]]].mean() for subset in present])


def _bleu(table: NgramTable, subset: Mask) -> Floats:
    """Return the BLEU of every document against the others of the subset, shape (documents,)."""
    matches = np.stack([_matches(part.of(subset), len(subset)) for part in table.orders], axis=1)
    shares = np.where(matches > 0, matches, EPSILON) / np.maximum(table.totals, 1)
    nearest = _nearest(table.lengths, subset)
    penalty = np.exp(np.minimum(1 - nearest / np.maximum(table.lengths, 1), 0.0))
    scores: Floats = np.where(matches[:, 0] > 0, penalty * np.exp(np.log(shares).mean(1)), 0.0)
    return scores


def _matches(part: NgramCounts, documents: int) -> Floats:
    """Return how many n-grams of each document occur in another one, clipped to their count there."""
    first = part.first()
    # Another document holds at least as many, but for the document that holds most: there, the next one's count.
    following = np.append(part.count[1:], 0) * ~np.append(first[1:], True)
    clipped = np.where(first, following, part.count)
    return np.asarray(np.bincount(part.document, weights=clipped, minlength=documents), dtype=np.float64)


def _nearest(lengths: Ints, subset: Mask) -> Ints:
    """Return the closest length of another document of the subset, shape (documents,); in a tie, the shorter."""
    known, counts = np.unique(lengths[subset], return_counts=True)
    # Further than any length from any: where one side has no other length, the other side wins.
    far = 2 * int(known[-1]) + 1
    shorter, longer = np.append(-far, known[:-1]), np.append(known[1:], far)
    other = np.where(known - shorter <= longer - known, shorter, longer)
    nearest = np.where(counts > 1, known, other)
    # Documents outside the subset get the length of any, as nothing is asked of them.
    found: Ints = nearest[np.minimum(np.searchsorted(known, lengths), len(known) - 1)]
    return found


def _check(table: NgramTable, present: Mask) -> None:
    if present.ndim != 2 or present.shape[1] != len(table.lengths):
        raise ValueError(f"subsets of shape {present.shape} for {len(table.lengths)} documents")
