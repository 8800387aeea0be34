"""TF-IDF vectors of texts from words, word pairs and letter sequences, hashed and projected at random.

The weak stand-in for a language model: it sees spelling and vocabulary, no meaning. n-grams are hashed and their
weights are projected at random, so a word that the reference lacks counts as much as any rare one. A vocabulary or
axes fitted to the reference would show the reference better than any other text, and so make it look different.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import HashingVectorizer

from probes.texts.text_words import words_of

WIDTH = 512
RARE = 2
_BUCKETS = 2**18
_ENTRIES = 8
"""Coordinates that each n-gram is spread over; more change little and cost more."""
_STEP = 1000


class _Plain(dict[int, str]):
    """Lazy table for `str.translate` that turns all but letters, marks, numbers and underscores into spaces."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        # Marks belong to their letter, and joiners decide how Indic and Persian words are written.
        kept = unicodedata.category(letter)[0] in "LMN" or letter in "_\u200c\u200d"
        self[code] = letter if kept else " "
        return self[code]


_PLAIN = _Plain()


class TfIdf:
    """TF-IDF encoder: vectors of length 1 from weighted n-grams; a blank text gives zeros.

    Parameters
    ----------
    reference
        The texts that say how rare an n-gram is: weight ln((1 + texts) / (1 + texts with it)) + 1, where fewer than
        `RARE` texts count as that many. Or else what a text of the reference alone holds would weigh less than what no
        text of it holds, and the reference would be nearer to itself than to any other text of its kind.
    """

    width = WIDTH

    def __init__(self, reference: Sequence[str]) -> None:
        self._parts = [_Part(reference, "char_wb", (2, 4), seed=0), _Part(reference, "word", (1, 2), seed=1)]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text, shape (n, 512), independent of the other texts of the call.

        >>> vectors = TfIdf(["a red house", "a blue house"]).encode(["red house", "house red", "10 %"])
        >>> bool(vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2])
        True
        """
        if not texts:
            return np.zeros((0, WIDTH), dtype=np.float32)
        return _scaled(np.asarray(sum(part.project(texts) for part in self._parts), dtype=np.float32))


class _Part:
    """One kind of n-gram: its counter, its inverse document frequencies, and its random projection."""

    def __init__(self, reference: Sequence[str], analyzer: str, sizes: tuple[int, int], *, seed: int) -> None:
        self._counter = HashingVectorizer(
            analyzer=analyzer,
            ngram_range=sizes,
            tokenizer=_words if analyzer == "word" else None,
            token_pattern=None,
            n_features=_BUCKETS,
            # The projection has signs of its own, and the logarithm taken of counts needs them positive.
            alternate_sign=False,
            norm=None,
            dtype=np.float32,
        )
        held = np.zeros(_BUCKETS)
        for start in range(0, len(reference), _STEP):
            held += np.bincount(self._counter.transform(reference[start : start + _STEP]).indices, minlength=_BUCKETS)
        self._rarity = (np.log((1 + len(reference)) / (1 + np.maximum(held, RARE))) + 1).astype(np.float32)
        self._projection = _projection(seed)

    def project(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = self._counter.transform(texts)
        counts.data = (1 + np.log(counts.data)) * self._rarity[counts.indices]
        rows = np.repeat(np.arange(len(texts)), np.diff(counts.indptr))
        lengths = np.sqrt(np.bincount(rows, weights=counts.data.astype(np.float64) ** 2, minlength=len(texts)))
        counts.data = (counts.data / lengths[rows]).astype(np.float32)
        dense: NDArray[np.float32] = (counts @ self._projection).toarray()
        return dense


def _words(text: str) -> list[str]:
    """Return the words of a text without punctuation; one letter or digit is a word too.

    >>> _words("a red-brown house"), _words("我用Python，好"), _words("हिन्दी ที่")
    (['a', 'red', 'brown', 'house'], ['我', '用', 'Python', '好'], ['हिन्दी', 'ที่'])
    """
    return words_of(text.translate(_PLAIN))


def _projection(seed: int) -> csr_matrix:
    generator = np.random.default_rng(seed)
    columns = generator.integers(0, WIDTH, size=_BUCKETS * _ENTRIES)
    signs = generator.choice(np.array([-1, 1], dtype=np.float32), size=_BUCKETS * _ENTRIES)
    starts = np.arange(0, _BUCKETS * _ENTRIES + 1, _ENTRIES)
    return csr_matrix((signs / np.float32(np.sqrt(_ENTRIES)), columns, starts), shape=(_BUCKETS, WIDTH))


def _scaled(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
