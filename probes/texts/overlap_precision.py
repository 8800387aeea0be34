"""Overlap precision: which share of an output's words, word pairs or word order its evidence holds.

With c_G(g) how often output G has the n-gram g, and c_E(g) how often evidence E has it:

    unigram, bigram    sum_g min(c_G(g), c_E(g)) / sum_g c_G(g)     (the precision of ROUGE-1 and ROUGE-2)
    LCS                longest common subsequence of words / words  (the precision of ROUGE-L)
    idf                sum_g c_G(g) idf(g) [g in E] / sum_g c_G(g) idf(g),  idf(g) = ln((1 + N) / (1 + N(g))) + 1

N different contexts of the run, N(g) of them with the word g. All four see words and no meaning.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from probes.texts.evidence import Evidence, Grounded
from probes.texts.grounding_words import Span, split_words

METRICS = ("unigram_precision", "bigram_precision", "lcs_precision", "idf_precision")


@dataclass(frozen=True, slots=True)
class OverlapPrecision:
    """The four precisions, with the number of different contexts of a run, and how many of them hold a word."""

    contexts: int
    holding: Mapping[str, int]
    name = "overlap"

    @classmethod
    def fit(cls, evidences: Sequence[Evidence]) -> "OverlapPrecision":
        """Count in how many different contexts each word stands."""
        texts = {evidence.text for evidence in evidences}
        return cls(len(texts), Counter(word for text in texts for word in {*split_words(text).forms}))

    def score(self, pairs: Sequence[Grounded]) -> dict[str, NDArray[np.float64]]:
        """Return the precisions of outputs in their evidence, (pairs,) each; NaN without words, or pairs of them."""
        found = np.array([self._of_one(pair) for pair in pairs], dtype=np.float64).reshape(-1, len(METRICS))
        return dict(zip(METRICS, found.T, strict=True))

    def unsupported(self, pair: Grounded) -> tuple[Span, ...]:
        """Return where the words of the output stand that its evidence does not have.

        >>> OverlapPrecision(1, {}).unsupported(Grounded(Evidence("a cheap pub"), "A cheap bar"))
        ((8, 11),)
        """
        output, known = split_words(pair.output), {*split_words(pair.evidence.text).forms}
        return tuple(span for word, span in zip(*output, strict=True) if word not in known)

    def _of_one(self, pair: Grounded) -> tuple[float, ...]:
        output, evidence = split_words(pair.output).forms, split_words(pair.evidence.text).forms
        if not output or not evidence:
            return (math.nan,) * len(METRICS)
        known = {*evidence}
        weights = [math.log((1 + self.contexts) / (1 + self.holding.get(word, 0))) + 1 for word in output]
        return (
            clipped_share(Counter(output), Counter(evidence)),
            clipped_share(Counter(pairwise(output)), Counter(pairwise(evidence))),
            LCSseq.similarity(output, evidence) / len(output),
            sum(weight for word, weight in zip(output, weights, strict=True) if word in known) / sum(weights),
        )


def clipped_share(counts: Counter[object], among: Counter[object]) -> float:
    """Return which share of the things counted are among others, each at most as often as there.

    >>> clipped_share(Counter("aab"), Counter("abc"))
    0.6666666666666666
    """
    return (counts & among).total() / counts.total() if counts else math.nan
