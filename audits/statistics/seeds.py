"""Random streams: one seed of the run, one independent stream for each named purpose."""

import hashlib

import numpy as np


def generator(seed: int, *purpose: str) -> np.random.Generator:
    """Return the stream of random numbers of one purpose.

    Streams of different purposes are independent, and a stream does not depend on which others were
    opened before it, so that a resumed run draws what an uninterrupted one would have drawn.

    Examples
    --------
    >>> a = generator(0, "bootstrap", "sid").integers(1000)
    >>> b = generator(0, "bootstrap", "sid").integers(1000)
    >>> bool(a == b)
    True
    """
    # With a separator, so that the purposes ("a", "b") and ("ab",) get different streams.
    digest = hashlib.sha256("\x1f".join(purpose).encode()).digest()
    return np.random.default_rng([seed % 2**63, int.from_bytes(digest[:8], "little")])
