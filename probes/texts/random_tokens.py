"""Texts of random tokens of a tokenizer that are read back as the tokens that were drawn."""

import random
from pathlib import Path
from typing import Any

from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.language_models.tokenizer_files import check_rules
from probes.models import hub_models

_TRIES = 200
_LEAST = 256
"""Usable tokens that a tokenizer needs, or else canaries of it are hardly random."""


class RandomTokens:
    """Random texts in the tokens of a folder's tokenizer.

    Tokens are used that are printable, spell no line break and are no special ones.

    Raises
    ------
    InputError
        Where the folder holds no tokenizer, or one of too few such tokens.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokeniser = _load(path)
        special = set(self._tokeniser.all_special_ids)
        ids = [one for one in range(len(self._tokeniser)) if one not in special]
        self._ids = [one for one in ids if _plain(self._text([one]))]
        self.size = len(self._ids)
        if self.size < _LEAST:
            raise InputError(
                f"The tokenizer has {self.size} tokens of printable text; random texts of so few say little.",
                where=f"--tokenizer {path}",
                hint="Leave it out: canaries are then random words.",
            )

    def draw(self, rng: random.Random, length: int) -> str:
        """Return a text of this many tokens, all of which are read back.

        Raises
        ------
        InputError
            Where no such text is found.
        """
        for _ in range(_TRIES):
            text = self._grown(rng, length)
            if text is not None:
                return text
        raise InputError(
            f"No random text of {length} tokens is read back as them.",
            where=f"--tokenizer {self._path}",
            hint="Give a smaller --length, or leave the tokenizer out.",
        )

    def _grown(self, rng: random.Random, length: int) -> str | None:
        """Add token by token what the tokenizer keeps apart; None where it gets stuck."""
        ids: list[int] = []
        while len(ids) < length:
            for _ in range(_TRIES):
                more = [*ids, rng.choice(self._ids)]
                text = self._text(more)
                # No spaces at the ends: texts are read without them.
                whole = text == text.strip() and _plain(text)
                if whole and self._tokeniser(text, add_special_tokens=False).input_ids == more:
                    ids = more
                    break
            else:
                return None
        return self._text(ids)

    def _text(self, ids: list[int]) -> str:
        text: str = self._tokeniser.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text


def _plain(text: str) -> bool:
    return bool(text.strip()) and text.isprintable() and "\ufffd" not in text


def _load(path: Path) -> Any:
    if not path.is_dir() or not any(path.glob("tokenizer*")):
        hint = "Give a folder into which a tokenizer was saved with save_pretrained()."
        raise InputError("The folder has no tokenizer.", where=f"--tokenizer {path}", hint=hint)
    if (path / "tokenizer.json").is_file():
        check_rules(path / "tokenizer.json")
    with hub_models.within_limits("tokenizer", path):
        try:
            return transformers().AutoTokenizer.from_pretrained(path, **hub_models.LOCAL)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"The tokenizer cannot be loaded: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
                where=f"--tokenizer {path}",
                hint="Save it again with save_pretrained().",
            ) from error
