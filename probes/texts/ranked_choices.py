"""Random choice of words by weights that fall with their rank, so that common and rare ones exist."""

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

Choices = tuple[Sequence[str], Sequence[float]]
"""Words, and for each the share of all choices that are of it or of one before it."""


def ranked(words: Sequence[str], fall: float = 1.0) -> Choices:
    """Weight words by rank: r ** -fall for the word of rank r, from 1 on; a fall of 1 is Zipf's law.

    >>> ranked(["the", "owl"])[1] == [1 / 1.5, 1.0]
    True
    """
    weights = [(1 + rank) ** -fall for rank in range(len(words))]
    return words, [weight / sum(weights) for weight in accumulate(weights)]


def choose(choices: Choices, rng: np.random.Generator) -> str:
    """Draw one of the words by its weight."""
    words, shares = choices
    # Rounding can leave the last of the shares just below 1.
    return words[min(bisect(shares, rng.random()), len(words) - 1)]
