"""Moments of phone tokens by speaker and phone (centroids, scatter, distances), read as a stream.

Nothing here grows with the number of tokens: a layer is read in chunks, and what is kept are its mean and spread,
and one centroid for each speaker and phone, a block of phones at a time.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Chunks = Callable[[], Iterable[NDArray[np.float32]]]
"""Opens the stream of one layer's vectors again: arrays of shape (at most so many tokens, width), in token order."""

BLOCK_BYTES = 2**28
"""Memory for the centroids of one block of phones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """Mean and standard deviation of every dimension of a layer over n tokens, shape (width,)."""

    mean: Floats
    scale: Floats
    n: int

    def apply(self, vectors: NDArray[np.float32]) -> Floats:
        """Return vectors centred and scaled; a dimension without variance becomes 0."""
        return (vectors - self.mean) / self.scale


def standardisation(chunks: Chunks) -> Standard:
    """Return the mean and the standard deviation (by n) of every dimension from one reading of a layer.

    Chunks are merged by their means and sums of squares around these (Chan, Golub and LeVeque 1983, equation 1.5b),
    which large means do not harm as they harm sums of raw squares. A dimension whose spread is no more than the
    rounding of float32 has a scale of infinity.

    Examples
    --------
    >>> parts = [np.array([[1.0], [3.0]], np.float32), np.array([[5.0]], np.float32)]
    >>> found = standardisation(lambda: parts)
    >>> found.mean.tolist(), found.scale.round(3).tolist(), found.n
    ([3.0], [1.633], 3)
    """
    n, mean, squares = 0, np.zeros(1), np.zeros(1)
    for part in chunks():
        if not len(part):
            continue
        values = part.astype(np.float64)
        centre = values.mean(0)
        spread = ((values - centre) ** 2).sum(0)
        total = n + len(values)
        squares = squares + spread + (centre - mean) ** 2 * (n * len(values) / total)
        mean = mean + (centre - mean) * (len(values) / total)
        n = total
    scale = np.sqrt(squares / max(n, 1))
    flat = scale <= 1e-6 * np.maximum(np.abs(mean), 1e-30)
    return Standard(mean=mean, scale=np.where(flat, np.inf, scale), n=n)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhoneMoments:
    """Moments of one phone's tokens, speaker by speaker.

    Parameters
    ----------
    counts
        Tokens of each speaker, shape (speakers,).
    means
        Their centroid, shape (speakers, width); 0 where there are none.
    scatter
        Sum of their squared distances to it, shape (speakers,).
    """

    phone: int
    counts: Ints
    means: Floats
    scatter: Floats


def phone_moments(
    chunks: Chunks,
    standard: Standard,
    speakers: Ints,
    phones: Ints,
    wanted: Ints,
    *,
    cosine: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[PhoneMoments]:
    """Yield the moments of every wanted phone of a layer, read once for each block that fits in memory.

    Parameters
    ----------
    speakers, phones
        Numbers of each token's speaker and phone, shape (tokens,); tokens of other phones are passed over.
    wanted
        Numbers of the phones.
    cosine
        Scale every vector to length 1 first, so that half a squared distance is 1 less the cosine.
    """
    people = int(speakers.max(initial=-1)) + 1
    width = len(standard.mean)
    size = max(1, block_bytes // (8 * max(people * width, 1)))
    for start in range(0, len(wanted), size):
        block = wanted[start : start + size]
        row_of = np.full(int(phones.max(initial=0)) + 1, -1)
        row_of[block] = np.arange(len(block))
        # Phones that take no part have the number -1, which would index the last.
        row = np.where(phones >= 0, row_of[phones], -1)
        cells = np.where(row >= 0, row * people + speakers, -1)
        counts = np.bincount(cells[cells >= 0], minlength=len(block) * people)
        sums = torch.zeros((len(block) * people, width), dtype=torch.float64)
        squares = np.zeros(len(block) * people)
        read = 0
        for part in chunks():
            here = cells[read : read + len(part)]
            read += len(part)
            inside = here >= 0
            if not inside.any():
                continue
            values = standard.apply(part[inside])
            if cosine:
                values = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
            sums.index_add_(0, torch.from_numpy(here[inside]), torch.from_numpy(values))
            squares += np.bincount(here[inside], weights=(values**2).sum(1), minlength=len(squares))
        means = (sums / torch.from_numpy(np.maximum(counts, 1))[:, None]).numpy()
        scatter = np.maximum(squares - counts * (means**2).sum(1), 0.0)
        # A single token has none; what the difference leaves there is rounding.
        scatter[counts < 2] = 0.0
        for at, phone in enumerate(block.tolist()):
            rows = slice(at * people, (at + 1) * people)
            yield PhoneMoments(phone=phone, counts=counts[rows], means=means[rows], scatter=scatter[rows])
