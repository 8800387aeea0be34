"""Edited words of transcripts against their references: which were written for which."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from probes.speech.compound_words import align_compounds
from probes.speech.word_errors import EditTotals, merged_row, totals_of

Numbers = NDArray[np.int64]
BLOCK = 100_000
"""Edits that are held as Python's objects at once; arrays are ten times as small."""
NOTHING = -1
"""Stands for the word that is not there: what was said of an insertion, what was written of a deletion."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordEdits:
    """The edits of many pairs of texts, one by one.

    Parameters
    ----------
    words
        All words of both sides.
    pair
        The pair of texts of each edit, shape (edits,).
    said, written
        Positions in `words`, or `NOTHING`, shape (edits,).
    """

    words: tuple[str, ...]
    pair: Numbers
    said: Numbers
    written: Numbers


class WordAligner:
    """Aligns the words of pairs of texts, block after block, and keeps which words were written for which.

    Parameters
    ----------
    compounds
        Words that one side joins and the other parts are no error; see `compound_words`.

    Examples
    --------
    >>> aligner = WordAligner()
    >>> aligner.add(["one two three"], ["one too"]).errors.tolist(), aligner.add(["four"], ["four"]).errors.tolist()
    ([2], [0])
    >>> found = aligner.edits()
    >>> [(found.words[said], found.words[written] if written >= 0 else "") for said, written in
    ...  zip(found.said, found.written)]
    [('two', 'too'), ('three', '')]
    """

    def __init__(self, *, compounds: bool = False) -> None:
        self._compounds, self._pairs = compounds, 0
        self._numbers: defaultdict[str, int] = defaultdict(lambda: len(self._numbers))
        self._rows: list[tuple[int, int, int]] = []
        self._blocks: list[Numbers] = []

    def add(self, references: Sequence[str], hypotheses: Sequence[str]) -> EditTotals:
        """Align further pairs and return the counts of their edits, those of `word_errors.count_edits` in words."""
        counts = [
            self._aligned(at, *pair)
            for at, pair in enumerate(zip(references, hypotheses, strict=True), start=self._pairs)
        ]
        self._pairs += len(counts)
        if len(self._rows) >= BLOCK:
            self._pack()
        return totals_of(counts)

    def edits(self) -> WordEdits:
        """Return the edits of all pairs so far, one by one."""
        self._pack()
        table = np.concatenate([np.empty((0, 3), dtype=np.int64), *self._blocks])
        return WordEdits(words=tuple(self._numbers), pair=table[:, 0], said=table[:, 1], written=table[:, 2])

    def _pack(self) -> None:
        self._blocks.append(np.array(self._rows, dtype=np.int64).reshape(-1, 3))
        self._rows = []

    def _aligned(self, at: int, reference: str, hypothesis: str) -> tuple[int, int, int, int]:
        """Return the lengths of both texts, the number of edits, and that of substitutions."""
        words = reference.split()
        if reference == hypothesis:
            return len(words), len(words), 0, 0
        others = hypothesis.split()
        merged = align_compounds(words, others) if self._compounds else None
        if merged and merged.merged:
            self._rows += [
                (at, _number(self._numbers, words, before), _number(self._numbers, others, after))
                for before, after in merged.edits
            ]
            return merged_row(len(words), merged.edits)
        # Words are compared as numbers: exact, where rapidfuzz would compare the hashes of strings.
        numbers = self._numbers
        said, written = [numbers[word] for word in words], [numbers[word] for word in others]
        edits: list[tuple[str, int, int]] = Levenshtein.editops(said, written).as_list()  # type: ignore[assignment]
        replaced = 0
        for kind, before, after in edits:
            if kind == "replace":
                replaced += 1
                self._rows.append((at, said[before], written[after]))
            elif kind == "delete":
                self._rows.append((at, said[before], NOTHING))
            else:
                self._rows.append((at, NOTHING, written[after]))
        return len(said), len(written), len(edits), replaced


def _number(numbers: defaultdict[str, int], words: Sequence[str], at: int) -> int:
    return NOTHING if at == NOTHING else numbers[words[at]]
