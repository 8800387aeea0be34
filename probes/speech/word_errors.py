"""Word and character errors of transcripts against their references."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from probes.core.library_imports import transformers
from probes.speech.compound_words import align_compounds, with_compounds
from probes.speech.open_asr import normalise_open_asr

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EditCounts:
    """Edits that turn a reference into a hypothesis; errors = substitutions + deletions + insertions."""

    hits: int
    substitutions: int
    deletions: int
    insertions: int

    @property
    def errors(self) -> int:
        """Return the number of edits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def length(self) -> int:
        """Return the number of units of the reference."""
        return self.hits + self.substitutions + self.deletions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EditTotals:
    """Edits of many pairs of texts; every array has the shape (pairs,)."""

    hits: Counts
    substitutions: Counts
    deletions: Counts
    insertions: Counts

    @property
    def errors(self) -> Counts:
        """Return the number of edits of each pair."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def lengths(self) -> Counts:
        """Return the number of units of each reference."""
        return self.hits + self.substitutions + self.deletions


def normalise(text: str, how: str) -> str:
    """Normalise a text for comparison.

    "basic" is lower case with all but letters, digits, apostrophes and spaces dropped; an apostrophe is one that
    stands between two of them, however it is written, and a mark at the edge of a word is a quotation mark.
    "whisper-english" is the English normaliser of the Whisper family, without its table of British spellings.
    "open-asr" is that of the Open ASR Leaderboard, with its tables; it counts edits with `compounds` too.

    Examples
    --------
    >>> normalise("Don't stop - NOW!", "basic")
    "don't stop now"
    >>> normalise("\u2018Come here,\u2019 said the boys\u2019 father, \u2018it isn\u2019t far.\u2019", "basic")
    "come here said the boys father it isn't far"
    """
    if how == "basic":
        plain = unicodedata.normalize("NFC", text.lower()).translate(_BASIC)
        kept = _AT_AN_EDGE.sub("", plain).replace(_DROPPED, "")
        # A letter and a mark that stood apart may meet where something between them was dropped.
        return " ".join(unicodedata.normalize("NFC", kept).split())
    if how == "whisper-english":
        return _whisper_english()(text)
    if how == "open-asr":
        return normalise_open_asr(text)
    return " ".join(text.split())


def normalise_all(texts: Sequence[str], how: str) -> list[str]:
    """Normalise every text as `normalise` does, each distinct one once.

    Examples
    --------
    >>> normalise_all(["One!", "two", "One!"], "basic")
    ['one', 'two', 'one']
    """
    once = list(dict.fromkeys(texts))
    if how == "basic":
        plain = [text for text in once if text.isascii()]
        # Apart from one another: one letter beyond ASCII makes all that is done with a text ten times as slow.
        others = [text for text in once if not text.isascii()]
        done = {text: after for part in (plain, others) for text, after in zip(part, _basic_lines(part), strict=True)}
    else:
        done = {text: normalise(text, how) for text in once}
    return [done[text] for text in texts]


def _basic_lines(texts: Sequence[str]) -> list[str]:
    """Normalise texts as "basic", all at once, as lines of one text: nothing in it looks beyond the end of a line."""
    if not texts:
        return []
    whole = "\n".join(texts)
    if whole.count("\n") >= len(texts):
        whole = "\n".join([text.replace("\n", " ") for text in texts])
    plain = unicodedata.normalize("NFC", whole.lower()).translate(_LINES)
    kept = _AT_AN_EDGE.sub("", plain).replace(_DROPPED, "")
    lines = unicodedata.normalize("NFC", kept).split("\n")
    return [" ".join(line.split()) if "  " in f" {line} " else line for line in lines]


@cache
def _whisper_english() -> Callable[[str], str]:
    transformers()
    module = import_module("transformers.models.whisper.english_normalizer")
    normaliser: Callable[[str], str] = module.EnglishTextNormalizer({})
    return normaliser


_APOSTROPHES = frozenset("'`\u00b4\u02b9\u02bb\u02bc\u2018\u2019\u201b\u2032\uff07")
"""Straight and curly, accents, primes and modifier letters: keyboards and typesetters put one for the other."""
_DROPPED = "\0"
"""Stands for what is dropped until it is known which apostrophes have a letter on either side."""
_AT_AN_EDGE = re.compile(rf"(?<![^ '{_DROPPED}\n])'|'(?![^ '{_DROPPED}\n])")


class _Basic(dict[int, str]):
    """Cache of each character's normal form: look-ups in Unicode's tables are too slow for every letter."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        # Marks are vowels in many scripts: without them a Hindi word is another word.
        kept = letter if unicodedata.category(letter)[0] in "LMN" else " " if letter.isspace() else _DROPPED
        self[code] = found = "'" if letter in _APOSTROPHES else kept
        return found


_BASIC, _LINES = _Basic(), _Basic({ord("\n"): "\n"})


def count_words(reference: str, hypothesis: str, *, compounds: bool = False) -> EditCounts:
    """Count word edits with jiwer; the reference must not be empty.

    Examples
    --------
    >>> count_words("one two three", "one too").errors
    2
    """
    import jiwer

    if compounds:
        return _only(count_edits([reference], [hypothesis], "word", compounds=True))
    output = jiwer.process_words(reference, hypothesis)
    return EditCounts(output.hits, output.substitutions, output.deletions, output.insertions)


def count_characters(reference: str, hypothesis: str, *, compounds: bool = False) -> EditCounts:
    """Count character edits, spaces included, with jiwer; the reference must not be empty.

    Examples
    --------
    >>> count_characters("cat", "cart").insertions
    1
    """
    import jiwer

    if compounds:
        return _only(count_edits([reference], [hypothesis], "character", compounds=True))
    output = jiwer.process_characters(reference, hypothesis)
    return EditCounts(output.hits, output.substitutions, output.deletions, output.insertions)


def _only(totals: EditTotals) -> EditCounts:
    return EditCounts(
        *(int(part[0]) for part in (totals.hits, totals.substitutions, totals.deletions, totals.insertions))
    )


def count_edits(
    references: Sequence[str],
    hypotheses: Sequence[str],
    unit: Literal["word", "character"],
    *,
    compounds: bool = False,
) -> EditTotals:
    """Count edits of many pairs of normalised texts, as jiwer does; with an empty reference all units are insertions.

    Parameters
    ----------
    unit
        "character" counts the spaces between words too.
    compounds
        Words that one side joins and the other parts are no error; see `compound_words`.

    Examples
    --------
    >>> totals = count_edits(["one two three", ""], ["one too", "uh huh"], "word")
    >>> totals.errors.tolist(), totals.insertions.tolist(), totals.lengths.tolist()
    ([2, 2], [0, 2], [3, 0])
    >>> count_edits(["an ice cream"], ["an icecream"], "word", compounds=True).errors.tolist()
    [0]
    """
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))

    def units(text: str) -> str | list[int]:
        # Words are compared as numbers: exact, where rapidfuzz would compare the hashes of strings.
        return [numbers[word] for word in text.split()] if unit == "word" else text.strip()

    def row(one: str, two: str) -> tuple[int, int, int, int]:
        if compounds and one != two:
            said, written = one.split(), two.split()
            aligned = align_compounds(said, written)
            if aligned.merged and unit == "word":
                return merged_row(len(said), aligned.edits)
            two = with_compounds(said, written, aligned.merged)
        return _alignment(units(one), units(two))

    return totals_of([row(one, two) for one, two in zip(references, hypotheses, strict=True)])


def totals_of(rows: Sequence[tuple[int, int, int, int]]) -> EditTotals:
    """Return the edits of pairs from the lengths of both texts, the number of edits, and that of substitutions."""
    before, after, edits, replaced = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    # Insertions and deletions are what is not replaced; their difference is that of the lengths.
    insertions = (edits - replaced + after - before) // 2
    deletions = edits - replaced - insertions
    return EditTotals(
        hits=before - replaced - deletions, substitutions=replaced, deletions=deletions, insertions=insertions
    )


def joined_totals(parts: Sequence[EditTotals]) -> EditTotals:
    """Return the edits of several blocks of pairs as those of one."""
    names = ("hits", "substitutions", "deletions", "insertions")
    none = np.zeros(0, dtype=np.int64)
    return EditTotals(**{name: np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in names})


def _alignment(reference: str | list[int], hypothesis: str | list[int]) -> tuple[int, int, int, int]:
    if reference == hypothesis:
        return len(reference), len(reference), 0, 0
    edits = Levenshtein.editops(reference, hypothesis).as_list()
    return len(reference), len(hypothesis), len(edits), sum([kind == "replace" for kind, _, _ in edits])


def merged_row(length: int, edits: Sequence[tuple[int, int]]) -> tuple[int, int, int, int]:
    """Return what `_alignment` does, of a hypothesis whose compounds are written as in the reference."""
    inserted, deleted = sum(said < 0 for said, _ in edits), sum(written < 0 for _, written in edits)
    return length, length + inserted - deleted, len(edits), len(edits) - inserted - deleted
