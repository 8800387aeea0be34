"""Pools of texts as vectors, with their copies, random draws, and the halves of these."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.statistics import generator
from audits.statistics.halves import half_splits
from probes.texts.text_words import join_words, tokens_of

Integers = NDArray[np.int64]
HASHED = 2**26
"""Bytes of vectors from which their hashes are compared to tell copies."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One set of texts.

    Parameters
    ----------
    vectors
        Distinct vectors, shape (points, width).
    point
        Which vector each text has, shape (texts,).
    kinds
        Which texts are copies of each other, by number, shape (texts,): `point`, unless copies were kept apart.
    halves
        Which texts are in the first half of each split, shape (splits, texts).
    draws
        Texts of each draw, shape (draws, size).
    sha256
        Of the vectors of all texts, in order.
    """

    name: str
    vectors: NDArray[np.float32]
    point: Integers
    kinds: Integers
    halves: NDArray[np.bool_]
    draws: Integers
    sha256: str

    def __len__(self) -> int:
        return len(self.point)

    def taken(self, draw: int) -> tuple[Integers, Integers, NDArray[np.unsignedinteger[Any]]]:
        """Return the vectors and counts of a draw.

        Returns
        -------
        its points; the place among them of each of its texts; and how many texts each point stands for in the whole
        draw and in the halves of every split, shape (1 + 2 splits, points), in as few bytes as hold them
        """
        texts = self.draws[draw]
        points, inverse = np.unique(self.point[texts], return_inverse=True)
        first = self.halves[:, texts]
        whole = np.bincount(inverse, minlength=len(points))
        weights = np.zeros((1 + 2 * len(first), len(points)), dtype=np.min_scalar_type(int(whole.max())))
        weights[0] = whole
        for split, inside in enumerate(first):
            weights[1 + 2 * split] = np.bincount(inverse[inside], minlength=len(points))
            # The second half is what the first leaves: no text is in both.
            weights[2 + 2 * split] = weights[0] - weights[1 + 2 * split]
        return points, inverse, weights


def distinct(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], Integers]:
    """Return the distinct rows, in order of first occurrence, and which of them each row is."""
    # -0.0 and 0.0 are the same number of different bytes.
    rows = np.ascontiguousarray(vectors + 0.0)
    # Row by row as bytes: `np.unique` along an axis sorts by columns, which takes far longer.
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    if keys.nbytes > HASHED:
        # Sorting takes two further copies of the keys.
        keys = digests(rows)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(vectors):
        return vectors, np.arange(len(vectors))
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return vectors[first[order]], rank[inverse]


def digests(rows: NDArray[np.float32]) -> NDArray[np.void]:
    """Return a hash of the bytes of each row, 16 bytes that no two different rows are known to share.

    >>> one, two, three = digests(np.array([[1, 2], [1, 3], [1, 2]], np.float32))
    >>> bool(one == three), bool(one == two)
    (True, False)
    """
    found = b"".join(hashlib.blake2b(row.data, digest_size=16).digest() for row in np.ascontiguousarray(rows))
    return np.frombuffer(found, dtype="V16")


def pool(
    name: str, vectors: NDArray[np.float32], size: int, *, repeats: int, splits: int, keep: bool, seed: int
) -> Pool:
    """Return the pool of one set, whose draws do not depend on what else is compared.

    Parameters
    ----------
    keep
        Whether copies stay apart, as points of their own.
    """
    unique, kinds = distinct(vectors)
    unique, point = (vectors, np.arange(len(vectors))) if keep else (unique, kinds)
    digest = hashlib.sha256(np.ascontiguousarray(vectors).data).hexdigest()
    order = generator(seed, "draws", name)
    draws = np.stack([order.permutation(len(vectors))[:size] for _ in range(repeats)])
    halves = half_splits(len(vectors), splits, generator(seed, "halves", name))
    return Pool(name, unique, point, kinds, halves, draws, digest)


def set_against_itself(reference: Pool, size: int, *, name: str, seed: int) -> tuple[Pool, Pool]:
    """Return two pools of a reference, whose draws of `size` texts have no text in common."""
    order = generator(seed, "draws", name)
    both = np.stack([order.permutation(len(reference))[: 2 * size] for _ in range(len(reference.draws))])
    sides = [
        replace(reference, name=label, draws=both[:, part])
        for label, part in ((reference.name, slice(0, size)), (name, slice(size, 2 * size)))
    ]
    return sides[0], sides[1]


def shuffled_words(texts: Sequence[str], seed: int) -> list[str]:
    """Shuffle the words of all texts among them; every text keeps its number of words and its spaces.

    >>> sorted(" ".join(shuffled_words(["a b", "c"], 0)).split())
    ['a', 'b', 'c']
    >>> [len(text) for text in shuffled_words(["我用 寫", "好"], 0)]
    [4, 1]
    """
    tokens = [tokens_of(text) for text in texts]
    flat = np.array([word for one in tokens for words in one for word in words], dtype=object)
    dealt = iter(flat[generator(seed, "floor").permutation(len(flat))].tolist())
    return [" ".join(join_words([next(dealt) for _ in words]) for words in one) for one in tokens]
