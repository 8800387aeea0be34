"""Which words were written for which: the edited words of transcripts against their references."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from probes.speech.compound_words import align_compounds

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


def word_edits(references: Sequence[str], hypotheses: Sequence[str], *, compounds: bool = False) -> WordEdits:
    """Return the edits that `word_errors.count_edits` counts in words, from the same alignment.

    Examples
    --------
    >>> found = word_edits(["one two three", "four"], ["one too", "four"])
    >>> [(found.words[said], found.words[written] if written >= 0 else "") for said, written in
    ...  zip(found.said, found.written)]
    [('two', 'too'), ('three', '')]
    """
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
    rows: list[tuple[int, int, int]] = []
    blocks: list[Numbers] = []
    for at, (reference, hypothesis) in enumerate(zip(references, hypotheses, strict=True)):
        if reference == hypothesis:
            continue
        merged = align_compounds(reference.split(), hypothesis.split()) if compounds else None
        if merged and merged.merged:
            sides = reference.split(), hypothesis.split()
            rows += [
                (at, _number(numbers, sides[0], before), _number(numbers, sides[1], after))
                for before, after in merged.edits
            ]
            continue
        # Words are compared as numbers: exact, where rapidfuzz would compare the hashes of strings.
        said, written = ([numbers[word] for word in text.split()] for text in (reference, hypothesis))
        for edit in Levenshtein.editops(said, written):
            before = NOTHING if edit.tag == "insert" else said[edit.src_pos]
            rows.append((at, before, NOTHING if edit.tag == "delete" else written[edit.dest_pos]))
        if len(rows) >= BLOCK:
            blocks.append(np.array(rows, dtype=np.int64))
            rows = []
    table = np.concatenate([*blocks, np.array(rows, dtype=np.int64).reshape(-1, 3)])
    return WordEdits(words=tuple(numbers), pair=table[:, 0], said=table[:, 1], written=table[:, 2])


def _number(numbers: defaultdict[str, int], words: Sequence[str], place: int) -> int:
    return NOTHING if place == NOTHING else numbers[words[place]]
