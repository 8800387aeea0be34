"""Checks of what an output mentions: whether the evidence has each number, name or value too."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from probes.texts.evidence import Grounded
from probes.texts.grounding_words import Span


class SupportCheck(ABC):
    """A check of mentions of one kind."""

    name: str
    kind: str

    @abstractmethod
    def mentions(self, pair: Grounded) -> Iterable[tuple[Span, bool]]:
        """Yield where the output mentions something of this kind, and whether the evidence supports it."""

    def unsupported(self, pair: Grounded) -> tuple[Span, ...]:
        """Return where the mentions stand that the evidence does not support."""
        return tuple(span for span, supported in self.mentions(pair) if not supported)

    def count(self, pairs: Sequence[Grounded]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many mentions each output has, and how many of them are unsupported, shape (pairs,) each."""
        found = [[supported for _, supported in self.mentions(pair)] for pair in pairs]
        mentions = np.array([len(one) for one in found], dtype=np.int64)
        return mentions, mentions - np.array([sum(one) for one in found], dtype=np.int64)

    def score(self, pairs: Sequence[Grounded]) -> dict[str, NDArray[np.float64]]:
        """Return the supported share of mentions, shape (pairs,): 1 without any, NaN without an output or evidence."""
        mentions, unsupported = self.count(pairs)
        blank = np.array([pair.evidence.empty or not pair.output.strip() for pair in pairs], dtype=bool)
        support = np.where(blank, np.nan, 1 - unsupported / np.maximum(mentions, 1))
        return {f"{self.kind}_support": support}
