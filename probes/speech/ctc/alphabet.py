"""The alphabet of a CTC probe: from text to symbol numbers and back."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

BLANK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alphabet:
    """The symbols of a CTC probe in order; number 0 is blank, so symbol i has number i + 1."""

    symbols: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Alphabet":
        """Return the alphabet of all letters that occur in the texts."""
        return cls(symbols=tuple(sorted({letter for text in texts for letter in text})))

    def __len__(self) -> int:
        """Return the number of symbols, the blank included."""
        return len(self.symbols) + 1

    def encode(self, text: str) -> Tensor:
        """Return the symbol numbers of a text, shape (letters,)."""
        table = {symbol: index + 1 for index, symbol in enumerate(self.symbols)}
        return torch.tensor([table[letter] for letter in text], dtype=torch.long)

    def decode(self, path: Tensor) -> str:
        """Return the text of a path of best symbols: repeats joined, blanks dropped, spaces tidied.

        Examples
        --------
        >>> Alphabet(symbols=("a", "b")).decode(torch.tensor([0, 1, 1, 0, 1, 2]))
        'aab'
        """
        joined = torch.unique_consecutive(path).tolist()
        return " ".join("".join(self.symbols[index - 1] for index in joined if index != BLANK).split())
