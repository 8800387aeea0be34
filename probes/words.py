"""How many words and characters did a transcript get wrong?"""

import unicodedata
from dataclasses import dataclass

from probes.loading.guarded import transformers

NORMALISERS = ("none", "basic", "whisper-english")


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


def normalise(text: str, how: str) -> str:
    """Return the text as it is compared.

    "basic" is lower case with all but letters, digits, apostrophes and spaces dropped; "whisper-english"
    is the English normaliser of the Whisper family, without its table of British spellings.

    Examples
    --------
    >>> normalise("Don't stop - NOW!", "basic")
    "don't stop now"
    """
    if how == "basic":
        plain = unicodedata.normalize("NFC", text.lower()).replace("\u2019", "'")
        return " ".join(
            "".join(letter if _kept(letter) else " " if letter.isspace() else "" for letter in plain).split()
        )
    if how == "whisper-english":
        from importlib import import_module

        transformers()
        module = import_module("transformers.models.whisper.english_normalizer")
        return str(module.EnglishTextNormalizer({})(text))
    return " ".join(text.split())


def _kept(letter: str) -> bool:
    # Marks are vowels in many scripts: without them a Hindi word is another word.
    return letter == "'" or unicodedata.category(letter)[0] in "LMN"


def count_words(reference: str, hypothesis: str) -> EditCounts:
    """Align words, by jiwer; the reference must not be empty.

    Examples
    --------
    >>> count_words("one two three", "one too").errors
    2
    """
    import jiwer

    output = jiwer.process_words(reference, hypothesis)
    return EditCounts(output.hits, output.substitutions, output.deletions, output.insertions)


def count_characters(reference: str, hypothesis: str) -> EditCounts:
    """Align characters, spaces included, by jiwer; the reference must not be empty.

    Examples
    --------
    >>> count_characters("cat", "cart").insertions
    1
    """
    import jiwer

    output = jiwer.process_characters(reference, hypothesis)
    return EditCounts(output.hits, output.substitutions, output.deletions, output.insertions)
