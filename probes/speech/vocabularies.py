"""The vocabulary of a checkpoint's own CTC head: what each of its symbols stands for.

Read before anything runs, from vocab.json and tokenizer_config.json as wav2vec2 tokenizers write them. Where they do
not say it plainly, the answer is the reason why the head cannot be used.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from probes.core.errors import InputError
from probes.files.json_values import LARGEST_SETTING, parse_json
from probes.files.text import read_text
from probes.models.checkpoints import ModelFolder

_SPECIAL = re.compile(r"<[^<>]+>|\[[^\[\]]+\]")
"""Symbols that are no text, such as <pad>, <s>, [UNK]."""
_HINT = "Save the tokenizer's files again; without vocab.json the head is not used."


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Symbols of a CTC head by number; `blank` is the number of CTC's blank.

    A symbol may have several characters, as phones have; the delimiter of words is a space.
    """

    symbols: Mapping[int, str]
    blank: int

    @property
    def numbers(self) -> Mapping[str, int]:
        """Number of each symbol; the smallest where several numbers have the same symbol.

        >>> Vocabulary(symbols={1: "aɪ", 2: " ", 3: "tʃ"}, blank=0).numbers["tʃ"]
        3
        """
        return {self.symbols[number]: number for number in sorted(self.symbols, reverse=True)}

    def decode(self, path: Sequence[int]) -> str:
        """Return the text of a path without repeats.

        >>> Vocabulary(symbols={1: "a", 2: " ", 3: "b"}, blank=0).decode([1, 0, 1, 2, 3])
        'aa b'
        """
        return "".join(self.symbols.get(number, "") for number in path if number != self.blank)


def read_vocabulary(folder: ModelFolder) -> Vocabulary | str:
    """Read the symbols of the checkpoint's own CTC head; or return why it cannot be used, empty where it has none.

    Raises
    ------
    InputError
        Where vocab.json or tokenizer_config.json cannot be read.
    """
    if not any(str(name).endswith("ForCTC") for name in folder.config.get("architectures") or ()):
        return ""
    path = folder.path / "vocab.json"
    if not path.is_file():
        return "the checkpoint has no vocab.json"
    numbers = _json(path)
    if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
        return "vocab.json is no table of symbols and their numbers (one for each of several languages, perhaps)"
    settings = _settings(folder.path / "tokenizer_config.json")
    blank = _blank(numbers, settings, folder.config.get("pad_token_id"))
    delimiter = _token(settings, "word_delimiter_token", "|")
    special = {_token(settings, name, "") for name in ("bos_token", "eos_token", "unk_token", "pad_token")}
    symbols = {
        number: " " if symbol == delimiter else symbol
        for symbol, number in numbers.items()
        if number != blank and symbol not in special and not _SPECIAL.fullmatch(symbol)
    }
    return Vocabulary(symbols=symbols, blank=blank) if symbols else "vocab.json holds no symbol of a text"


def _json(path: Path) -> object:
    try:
        return parse_json(read_text(path), str(path), largest=LARGEST_SETTING)
    except InputError as error:
        raise InputError(error.message, where=error.where, hint=_HINT) from None


def _settings(path: Path) -> Mapping[str, object]:
    found = _json(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _token(settings: Mapping[str, object], name: str, usual: str) -> str:
    value = settings.get(name)
    # A token with spacing rules of its own is written as an object.
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) and content else usual


def _blank(numbers: Mapping[str, int], settings: Mapping[str, object], configured: object) -> int:
    """Return the number of the blank: wav2vec2 tokenizers and models use that of padding."""
    named = _token(settings, "pad_token", "")
    if named in numbers:
        return numbers[named]
    if type(configured) is int:
        return configured
    return next((numbers[usual] for usual in ("<pad>", "[PAD]", "<blank>", "[blank]") if usual in numbers), 0)
