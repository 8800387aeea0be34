"""Noise of points: the same for every model that scores a point, whatever points are beside it.

Scores of one point under many models can be compared only where chance is the same in all of them. The noise of a
point therefore depends on a seed, the point's index and the number of the draw, and on nothing else.
"""

import hashlib
import math

import numpy as np
from numpy.typing import NDArray


def point_noise(
    seed: int, indices: NDArray[np.int64], draws: int, shape: tuple[int, ...], *, stream: str = "draws"
) -> NDArray[np.float32]:
    """Return standard Gaussian noise of points, float32 (points, draws, *shape).

    Draw k of a point is the same however many draws are made. Each point has 2^192 words of the counter-based
    generator Philox (Salmon et al. 2011) to itself, so that no two points share any.

    Parameters
    ----------
    indices
        The numbers that the points are known by, from 0 on.
    stream
        Streams of different names are independent.

    >>> few, many = (point_noise(7, np.array([3]), draws, (2,)) for draws in (1, 5))
    >>> bool((few[:, 0] == many[:, 0]).all())
    True
    """
    key = np.frombuffer(hashlib.blake2b(f"{stream} {seed}".encode(), digest_size=16).digest(), "<u8")
    values = np.empty((len(indices), draws * math.prod(shape)), dtype=np.float32)
    for row, index in zip(values, indices.tolist(), strict=True):
        # The index is the highest of four words, so that counting up in the lower three never reaches the next point's.
        own = np.random.Philox(key=key, counter=np.array([0, 0, 0, index], dtype=np.uint64))
        generator = np.random.Generator(own)
        generator.standard_normal(dtype=np.float32, out=row)
    return values.reshape(len(indices), draws, *shape)
