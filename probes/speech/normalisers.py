"""Normalisers of texts that are compared: one of a name, or the rules of a user."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from probes.core.errors import InputError
from probes.files.cells import BLOCK, Cells
from probes.files.names import suggest
from probes.speech.text_rules import Rules, read_rules
from probes.speech.word_errors import normalise_all

NORMALISERS = ("none", "basic", "whisper-english", "open-asr")
MOST_KEPT = 2**15
"""Texts that are kept with what became of them."""


@dataclass(frozen=True, slots=True)
class Normaliser:
    """A way to normalise texts; rules are applied first, and what they leave is normalised as `how` says.

    What was normalised lately is kept, so that a text that stands often is normalised once.
    """

    how: str
    rules: Rules | None = None
    _done: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def compounds(self) -> bool:
        """Whether words that one side joins and the other parts are no error."""
        return self.how == "open-asr"

    def all(self, texts: Sequence[str]) -> list[str]:
        """Return the normalised texts.

        >>> Normaliser("basic").all(["One!", "two"])
        ['one', 'two']
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._done]
        ruled = self.rules.apply(new) if self.rules else new
        self._done.update(zip(new, normalise_all(ruled, self.how), strict=True))
        found = [self._done[text] for text in texts]
        if len(self._done) > MOST_KEPT:
            self._done.clear()
        return found

    def column(self, texts: Iterable[str | None]) -> Cells:
        """Return the normalised texts of a column, which are held in little memory; None counts as an empty text.

        >>> list(Normaliser("basic").column(["One!", None]))
        ['one', '']
        """
        source, found = iter(texts), Cells()
        while block := [text or "" for text in islice(source, BLOCK)]:
            found.add(self.all(block))
        return found

    def one(self, text: str) -> str:
        """Return a normalised text; many at once are quicker."""
        return self.all([text])[0]


def read_normaliser(name: str) -> Normaliser:
    """Return the normaliser of a name, or of a file of rules, after which the text is compared as by `basic`.

    Raises
    ------
    InputError
        Where there is neither such a name nor such a file, or the file holds no rules.
    """
    if name in NORMALISERS:
        return Normaliser(name)
    path = Path(name)
    if not path.exists() and not path.suffix:
        raise InputError(
            f"There is no normaliser {name!r}, and no file of that name.",
            where="--normalise",
            hint=f"{suggest(name, NORMALISERS)} Or give a file of rules, with the columns pattern, replacement.",
        )
    return Normaliser("basic", read_rules(path))
