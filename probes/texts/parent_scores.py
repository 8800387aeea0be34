"""PARENT: n-grams of an output in its reference or its table (precision), and what of both it says (recall).

Dhingra and others, "Handling Divergent Reference Texts when Evaluating Table-to-Text Generation", ACL 2019, with the
word-overlap model of entailment, w(g) = share of the n-gram's words that the table has. For n = 1 to 4, with output G,
reference R, and c for counts in them:

    E_p(n) = sum_g [c(g) + (c_G(g) - c(g)) w(g)] / sum_g c_G(g)          c(g) = min(c_G(g), c_R(g))
    E_r(n) = sum_g c(g) w(g) / sum_g c_R(g) w(g)
    precision = geometric mean of E_p(n)
    recall = (geometric mean of E_r(n))^(1 - lambda) * (mean over cells of LCS(cell, G) / words of the cell)^lambda

lambda = 1 - the same mean for the reference: where the reference says all of the table, it alone is recalled. The two
are never joined: recall is coverage and no grounding. A word of an attribute's name counts as the table's.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from probes.texts.evidence import Grounded
from probes.texts.grounding_words import split_words

METRICS = ("parent_precision", "parent_recall")
_ORDER = 4
_LEAST = 1e-5
"""What stands for a share of 0, whose logarithm there is not."""


class Parent:
    """Precision and recall of PARENT; they need a table and a reference."""

    name = "parent"

    def score(self, pairs: Sequence[Grounded]) -> dict[str, NDArray[np.float64]]:
        """Return both for outputs, shape (pairs,) each; NaN where there is no cell, no reference or no output."""
        found = np.array([_of_one(pair) for pair in pairs], dtype=np.float64).reshape(-1, len(METRICS))
        return dict(zip(METRICS, found.T, strict=True))


def _of_one(pair: Grounded) -> tuple[float, float]:
    output, reference = split_words(pair.output).forms, split_words(pair.reference or "").forms
    cells = [words for _, value in pair.evidence.cells if (words := split_words(value).forms)]
    if not (output and reference and cells):
        return math.nan, math.nan
    held = {*split_words(pair.evidence.text).forms}

    def entailed(gram: tuple[str, ...]) -> float:
        return sum(word in held for word in gram) / len(gram)

    precisions, recalls = [], []
    for length in range(1, _ORDER + 1):
        said, meant = _grams(output, length), _grams(reference, length)
        shared = said & meant
        precisions.append(_ratio(shared.total() + _weigh(said - shared, entailed), said.total()))
        recalls.append(_ratio(_weigh(shared, entailed), _weigh(meant, entailed)))
    of_table = 1 - _covered(cells, reference)
    recall = _geometric_mean(recalls) ** (1 - of_table) * max(_covered(cells, output), _LEAST) ** of_table
    return _geometric_mean(precisions), recall


def _grams(words: tuple[str, ...], length: int) -> Counter[tuple[str, ...]]:
    return Counter(words[at : at + length] for at in range(len(words) - length + 1))


def _weigh(counts: Counter[tuple[str, ...]], weight: Callable[[tuple[str, ...]], float]) -> float:
    return sum(count * weight(gram) for gram, count in counts.items())


def _covered(cells: Sequence[tuple[str, ...]], text: tuple[str, ...]) -> float:
    return sum(LCSseq.similarity(cell, text) / len(cell) for cell in cells) / len(cells)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _geometric_mean(shares: Iterable[float]) -> float:
    """Return the geometric mean of those of the shares that there are: short texts have no long n-grams."""
    there = [max(share, _LEAST) for share in shares if not math.isnan(share)]
    return math.exp(sum(map(math.log, there)) / len(there)) if there else _LEAST
