"""Checks of a tokenizer.json before the library that reads it gets its rules.

The file may be hostile: how far its rules can grow a text is bounded here, since the library cannot be stopped.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.contained import ContainedError, LimitError, Limits, call
from probes.core.errors import InputError
from probes.files.opening import advise
from probes.files.text import read_text

LARGEST_FILE = 2**26
"""Bytes of a tokenizer.json at most; that of a vocabulary of 256,000 tokens has 34 million."""
_MEMORY, _SECONDS = 2**30, 10
MOST_LISTS = 2**22
"""Lists and objects of a tokenizer.json at most: each takes some twenty times the bytes that it is written with."""
_LONGEST_MAP = 2**20
_MOST_GROWTH = 10_000
AGAIN = "Fetch tokenizer.json again, or save the tokenizer again with save_pretrained()."


def tokenizer_content(file: Path) -> Mapping[str, Any]:
    """Read and check a tokenizer.json: a model with a vocabulary, and rules that hardly lengthen a text.

    Raises
    ------
    InputError
        Where the file is none, is too large, or its rules could fill the memory.
    """
    if file.name == "tokenizer.json" and file.parent.is_dir() and not file.exists():
        near = sorted(one.name for pattern in ("vocab*", "*.model", "merges.txt") for one in file.parent.glob(pattern))
        held = f"; it has {', '.join(near[:5])}, which other libraries read" if near else ""
        raise InputError(
            f"The folder has no tokenizer.json{held}.",
            where=str(file.parent),
            hint="Load it with AutoTokenizer of transformers and save it again: save_pretrained() writes the file.",
        )
    content = read_json(file)
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        message = "The file is JSON, but no tokenizer: it has no model with a vocabulary."
        raise InputError(message, where=str(file), hint="Give a tokenizer.json as the library tokenizers writes it.")
    _check_growth(content.get("normalizer"), str(file))
    _try(file)
    return content


def check_rules(file: Path) -> None:
    """Refuse a tokenizer.json whose rules could fill the memory; other faults are left to its reader."""
    content = read_json(file)
    if isinstance(content, dict):
        _check_growth(content.get("normalizer"), str(file))
        _try(file)


def _try(file: Path) -> None:
    """Refuse rules that the library cannot read within limits; other errors are left to the reader."""
    limits = Limits(memory=_MEMORY + 64 * file.stat().st_size, seconds=_SECONDS + file.stat().st_size // 2**21)
    try:
        call(load_rules, str(file), reads=[file], limits=limits, loads=["tokenizers"])
    except LimitError as error:
        raise InputError(f"The tokenizer cannot be used: {error.text}.", where=str(file), hint=AGAIN) from None
    except ContainedError:
        pass


def load_rules(file: str) -> None:
    """Read rules and apply them to a few letters (run in a contained child)."""
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_str(Path(file).read_text(encoding="utf-8-sig")).encode("a\u00e9 \u0416\u4e2d")
    except MemoryError:
        raise
    except BaseException as error:
        # A panic of its Rust code is a BaseException, not an Exception.
        raise RuntimeError(type(error).__name__) from None


def read_json(file: Path) -> object:
    """Read a JSON file of a tokenizer, within limits of its size and its number of lists."""
    if file.exists() and not file.is_dir() and (not file.is_file() or file.stat().st_size > LARGEST_FILE):
        message = f"It has more than {LARGEST_FILE} bytes." if file.is_file() else "This is not an ordinary file."
        raise InputError(message, where=str(file), hint="Give a tokenizer.json as the library tokenizers writes it.")
    try:
        text = read_text(file)
    except InputError as error:
        if file.is_file():
            advise(error, file, AGAIN)
        raise
    try:
        if text.count("[") > MOST_LISTS or text.count("{") > MOST_LISTS:
            raise ValueError("too many lists")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"This is no JSON that can be read: {error}.", where=str(file), hint=AGAIN) from None


def _check_growth(rule: object, where: str) -> None:
    """Refuse rules that could turn a sentence into gigabytes: each may replace the output of the one before."""
    stack, growth = [rule], 1.0
    while stack:
        found = stack.pop()
        if isinstance(found, list):
            stack += found
        elif isinstance(found, dict):
            stack += [part for part in found.values() if isinstance(part, dict | list)]
            written, ahead = (len(str(found.get(key, ""))) for key in ("content", "prepend"))
            # What may match between letters leaves them where they are: one letter written there doubles a text.
            between = isinstance(pattern := found.get("pattern"), dict) and not pattern.get("String")
            charsmap = str(found.get("precompiled_charsmap", ""))
            growth *= max(written + between, 1) * max(ahead, 1) * _longest(charsmap[:_LONGEST_MAP])
            if growth > _MOST_GROWTH or len(charsmap) > _LONGEST_MAP:
                message = "Its rules put so much in the place of a letter that a text could fill the memory."
                raise InputError(message, where=f"{where}, normalizer", hint="Use a tokenizer that you trust.")


def _longest(charsmap: str) -> int:
    """Return the length in bytes of the longest replacement in a SentencePiece map; 1 at least."""
    try:
        data = base64.b64decode(charsmap)
    except ValueError:
        # The library reports the error.
        return 1
    # The format: the size of a table of offsets, the table, and then the texts, each ended by NUL.
    return max(1, *map(len, data[4 + int.from_bytes(data[:4], "little") // 4 * 4 :].split(b"\0")))
