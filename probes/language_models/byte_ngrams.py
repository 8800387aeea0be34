"""Baselines made of token counts, and the overlap of corpora in byte n-grams.

A masked language model that does not beat the frequencies of single tokens has not learnt from context, and what it
loses or gains says nothing of languages. The second baseline knows the token on the left as well.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LONGEST = 7
"""Longest n-gram of bytes: one more would not fit in an integer of 64 bits with a sign."""
PIECE = 2**22


class Baselines(NamedTuple):
    """Losses in nats of a unigram and a bigram model, shape (masked,), in the order of `held[masked]`."""

    unigram: Floats
    bigram: Floats


def baseline_losses(
    train: ArrayLike, held: ArrayLike, masked: ArrayLike, vocabulary: int, *, piece: int = PIECE
) -> Baselines:
    """Compute the losses of masked tokens under smoothed unigram and bigram frequencies.

    Both are smoothed after Witten and Bell (1991): what has been seen gives way to what is less specific as often as
    it showed something new. With c counts in N training tokens, D of V ids seen, and D(u) different followers of u,

        p(v) = (c(v) + D / V) / (N + D)        p(v | u) = (c(u, v) + D(u) p(v)) / (c(u) + D(u)),

    the first being additive smoothing, by one for each id where all are seen. A token whose left neighbour is masked
    as well, begins the window or was never followed by anything has the loss of p(v): the masked text
    tells no more.

    Parameters
    ----------
    train
        Ids, shape (windows, length) or (length,); neighbours are counted within windows.
    held
        Ids, shape (windows, length).
    masked
        Which tokens are hidden, boolean, shape (windows, length) or (draws, windows, length).
    vocabulary
        Number of ids, V.
    piece
        Training tokens whose pairs are counted at a time.

    Raises
    ------
    ValueError
        Where there is no training token, an id is not in 0 to V - 1, or shapes do not match.

    Examples
    --------
    >>> train, held = [[0, 1, 0, 1, 1]], [[0, 1, 1]]
    >>> found = baseline_losses(train, held, np.array([[False, True, False]]), 2)
    >>> np.exp(-found.unigram).round(6).tolist(), np.exp(-found.bigram).round(6).tolist()
    ([0.571429], [0.857143])
    """
    known, text, hidden = np.atleast_2d(np.asarray(train)), np.asarray(held), np.asarray(masked)
    if hidden.dtype != bool or hidden.shape[-2:] != text.shape or text.ndim != 2:
        raise ValueError(f"masked of shape {hidden.shape} and {hidden.dtype} for ids of shape {text.shape}")
    for ids in (known, text):
        if ids.size and not 0 <= ids.min() <= ids.max() < vocabulary:
            raise ValueError(f"ids from {ids.min()} to {ids.max()} in a vocabulary of {vocabulary}")
    if not known.size:
        raise ValueError("no training token")
    single = np.bincount(known.ravel(), minlength=vocabulary)
    seen = np.count_nonzero(single)
    unigram = (single + seen / vocabulary) / (known.size + seen)
    tokens = np.broadcast_to(text, hidden.shape)[hidden].astype(np.int64)
    base = unigram[tokens]
    # A hidden left neighbour gets the id `vocabulary`, which has no followers in training.
    left = np.full(hidden.shape, vocabulary, dtype=np.int64)
    left[..., 1:] = np.where(hidden[..., :-1], vocabulary, text[:, :-1])
    pairs = _pairs(known, vocabulary, piece)
    return Baselines(-np.log(base), -np.log(_given_left(pairs, left[hidden], tokens, base, vocabulary)))


def _given_left(found: tuple[Ints, Ints], left: Ints, tokens: Ints, base: Floats, vocabulary: int) -> Floats:
    pairs, counts = found
    follows = pairs // vocabulary
    total = np.bincount(follows, weights=counts, minlength=vocabulary + 1)[left]
    different = np.bincount(follows, minlength=vocabulary + 1)[left]
    wanted = left * vocabulary + tokens
    index = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    together = np.where(pairs[index] == wanted, counts[index], 0) if len(pairs) else np.zeros(len(wanted))
    given: Floats = (together + different * base) / np.maximum(total + different, 1)
    return np.where(total > 0, given, base)


def _pairs(train: NDArray[np.integer], vocabulary: int, piece: int) -> tuple[Ints, Ints]:
    """Count the pairs of neighbours; return them, as first * vocabulary + second in order, and their counts."""
    pairs, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    # Piece by piece: sorted at once, the pairs of a large text would take several times its memory.
    rows = max(1, piece // max(1, train.shape[1]))
    for start in range(0, len(train), rows):
        part = train[start : start + rows].astype(np.int64)
        found, times = np.unique(part[:, :-1] * vocabulary + part[:, 1:], return_counts=True)
        pairs, inverse = np.unique(np.append(pairs, found), return_inverse=True)
        counts = np.bincount(inverse, weights=np.append(counts, times), minlength=len(pairs)).astype(np.int64)
    return pairs, counts


def overlap_matrix(corpora: Sequence[Sequence[bytes]], n: int = 3) -> Floats:
    """Return the share of n-grams of bytes that every two corpora have in common, 0 to 1, shape (corpora, corpora).

    It is the sum over n-grams of the smaller of the two relative frequencies: 1 less the distance of total variation.
    N-grams are counted within sentences. A corpus without any sentence of n bytes has nothing in common with any,
    itself included: 0.

    Raises
    ------
    ValueError
        Where n is not in 1 to 7.

    Examples
    --------
    >>> overlap_matrix([[b"abab"], [b"ab", b"bc"], [b"a"]], n=2).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if not 1 <= n <= LONGEST:
        raise ValueError(f"n-grams of {n} bytes: 1 to {LONGEST} are possible")
    profiles = [_profile(sentences, n) for sentences in corpora]
    found = np.zeros((len(corpora), len(corpora)))
    for row, (grams, shares) in enumerate(profiles):
        for column, (others, other_shares) in enumerate(profiles[:row]):
            _, here, there = np.intersect1d(grams, others, assume_unique=True, return_indices=True)
            found[row, column] = found[column, row] = np.minimum(shares[here], other_shares[there]).sum()
        found[row, row] = float(len(grams) > 0)
    return np.minimum(found, 1.0)


def _profile(sentences: Sequence[bytes], n: int) -> tuple[Ints, Floats]:
    """Return the n-grams of a corpus as numbers in order, and their relative frequencies."""
    joined = np.frombuffer(b"".join(sentences), np.uint8)
    count = max(0, len(joined) - n + 1)
    grams = np.zeros(count, dtype=np.int64)
    for offset in range(n):
        grams = (grams << 8) | joined[offset : offset + count]
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    left = np.repeat(np.cumsum(lengths), lengths)[:count] - np.arange(count)
    found, counts = np.unique(grams[left >= n], return_counts=True)
    return found, counts / max(1, counts.sum())
