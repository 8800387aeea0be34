"""Tokenizers: bytes, a tokenizer.json, or byte-level BPE trained on the corpus.

A tokenizer.json is a table of tokens and rules, read by the library that writes it; nothing in it is run. Its limits
of length, its padding and its random merges are switched off, so that the same text always gives the same tokens.
"""

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.hashing import sha256_file, sha256_json
from probes.language_models.tokenizer_files import AGAIN, read_json, tokenizer_content
from probes.models.checkpoints import check_links

Ids = NDArray[np.int32]
MOST_TOKENS = 2**20
SMALLEST, LARGEST = 300, 65_536
"""Sizes between which a vocabulary is trained: all bytes fit into the smaller one."""
_MASKS = ("[MASK]", "<mask>", "<MASK>", "<|mask|>", "[mask]")
_SEPARATORS = ("[SEP]", "</s>", "<|endoftext|>", "<|end_of_text|>", "<sep>", "<eos>", "<|im_end|>")
_THREADS = "TOKENIZERS_PARALLELISM"
# Vowel signs and other marks stay with their letters: pieces without them would keep the words of Hindi and Tamil apart
# from their own endings, and a token of theirs would hold half the bytes.
_PIECES = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokenizer:
    """A tokenizer with the marks of a masked language model.

    Parameters
    ----------
    name, sha256
        Its name, and a hash of everything that ids depend on.
    size
        Ids are 0 to size - 1, the two marks below among them.
    mask, separator
        Ids that hide a token, and that stand after each sentence.
    unknown
        Id of all text that it has no token for; None where there is no such text.
    added
        Which of "mask" and "separator" the file lacks and has behind its vocabulary here.
    before, after
        Ids that its template puts around a text; `encode` does not.
    notes
        Properties of a text that its tokens lose, in words.
    """

    name: str
    sha256: str
    size: int
    mask: int
    separator: int
    unknown: int | None = None
    added: tuple[str, ...] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    _rules: Any = field(default=None, repr=False)

    def encode(self, lines: Sequence[bytes]) -> list[Ids]:
        """Return the ids of each sentence, given in UTF-8, without separators or template and never cut.

        Raises
        ------
        InputError
            Where a sentence is not UTF-8 or spells out the mask, or the tokenizer cannot read it.

        >>> [ids.tolist() for ids in BYTES.encode([b"ab", "é".encode()])]
        [[97, 98], [195, 169]]
        """
        if self._rules is None:
            return [np.frombuffer(line, dtype=np.uint8).astype(np.int32) for line in lines]
        # A text that spells "[SEP]" means these letters. Set here, since a copy sent to a worker forgets it.
        self._rules.encode_special_tokens = True
        texts = [self._decoded(number, line) for number, line in enumerate(lines, start=1)]
        with _refusals(self.name):
            # One by one, which is faster than a batch on one core: a batch would start threads, and a fork loses those.
            found = [np.array(self._rules.encode(text, add_special_tokens=False).ids, np.int32) for text in texts]
        for text, ids in zip(texts, found, strict=True):
            if (ids == self.mask).any():
                raise InputError(
                    f"A sentence holds the very token that hides others: {text[:100]!a}.",
                    where=self.name,
                    hint="Take the sentence out of the corpus.",
                )
        return found

    def unknown_share(self, ids: Sequence[Ids]) -> float:
        """Return the share of unknown tokens; 0 where there are no tokens.

        >>> BYTES.unknown_share(BYTES.encode([b"ab"]))
        0.0
        """
        tokens = sum(map(len, ids))
        if not tokens or self.unknown is None:
            return 0.0
        return sum(int((row == self.unknown).sum()) for row in ids) / tokens

    def _decoded(self, number: int, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            message = f"Sentence {number} is not UTF-8: it holds the byte 0x{line[error.start]:02x}."
            raise InputError(message, where=self.name, hint="Save the corpus as UTF-8.") from None


BYTES = Tokenizer(name="bytes", sha256=sha256_json(["bytes", 257, 256, 10]), size=257, mask=256, separator=10)
"""One token a byte; the mask behind them, and the end of a line as separator."""


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer.json, or that of a folder, which may also say which of its tokens is the mask.

    A mask that it lacks is one more id behind its vocabulary. The separator is its mark of the end of a sentence or
    text, else the token of a newline, else one more id.

    Raises
    ------
    InputError
        Where it is no tokenizer.json, holds no or too large a vocabulary, or leaves out text without saying so.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if path.is_dir():
        check_links(path)
    content = tokenizer_content(file)
    rules = _rules(file)
    with _refusals(str(file)):
        ids = rules.get_vocab()
    size = max(ids.values(), default=-1) + 1
    if not 1 < size <= MOST_TOKENS:
        message = f"It has {size} tokens; 2 to {MOST_TOKENS} can be used."
        raise InputError(message, where=f"{file}, model.vocab", hint=AGAIN)
    _check_whole(content["model"], content, str(file))
    names = _names(file.parent) if path.is_dir() else {}
    mask = _first_id(ids, [names.get("mask_token", ""), *_MASKS])
    ends = [names.get("sep_token", ""), names.get("eos_token", ""), *_SEPARATORS]
    separator = _first_id(ids, [name for name in ends if ids.get(name) != mask])
    unknown = _unknown(content["model"], ids)
    with _refusals(str(file)):
        before, after = _template(rules)
        newline = rules.encode("\n", add_special_tokens=False).ids
        notes = _notes(rules)
    if separator is None and len(newline) == 1 and newline[0] not in (unknown, mask):
        separator = newline[0]
    added = tuple(name for name, found in (("mask", mask), ("separator", separator)) if found is None)
    mask = size if mask is None else mask
    whole = size + len(added)
    separator = whole - 1 if separator is None else separator
    return Tokenizer(
        name=str(path),
        sha256=sha256_json([sha256_file(file), whole, mask, separator]),
        size=whole,
        mask=mask,
        separator=separator,
        unknown=unknown,
        added=added,
        before=before,
        after=after,
        notes=notes,
        _rules=rules,
    )


def train_bpe(texts: Mapping[str, Sequence[bytes]], size: int) -> bytes:
    """Train byte-level BPE on sentences by language, equally many bytes of each; return a tokenizer.json.

    Parameters
    ----------
    texts
        Sentences in UTF-8, best in random order: where a language has more, the first of them count.
    size
        Tokens, 300 to 65,536, among them all bytes, "[MASK]" and "[SEP]"; there are fewer where the texts hold no more
        pieces that repeat.

    Notes
    -----
    Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units" (arXiv 1508.07909), over bytes.
    Tokens cross neither words nor numbers.

    Raises
    ------
    InputError
        Where a language has no text or it is not UTF-8, or the size is out of range.
    """
    if not SMALLEST <= size <= LARGEST:
        hint = f"Give {SMALLEST} to {LARGEST}."
        raise InputError(f"{size} tokens cannot be trained.", where="size of the vocabulary", hint=hint)
    totals = {code: sum(map(len, lines)) for code, lines in texts.items()}
    empty = [code for code in sorted(totals) if not totals[code]]
    if empty or not totals:
        message = f"There is no text of {empty[0]!r}." if empty else "There is no text."
        raise InputError(message, where="texts of the vocabulary", hint="Give sentences of every language.")
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    whole = Tokenizer(models.BPE())
    spelt = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    whole.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(_PIECES), "isolated"), spelt])
    whole.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=["[MASK]", "[SEP]"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    chosen = [text for code in sorted(texts) for text in _share(code, texts[code], min(totals.values()))]
    with _one_thread():
        whole.train_from_iterator(chosen, trainer)
    return str(whole.to_str()).encode()


def _share(code: str, lines: Sequence[bytes], room: int) -> Iterator[str]:
    for line in lines:
        if len(line) <= room:
            room -= len(line)
            try:
                yield line.decode()
            except UnicodeDecodeError:
                message = f"A sentence of {code!r} is not UTF-8: {ascii(line[:60])[2:-1]}."
                raise InputError(message, where="texts of the vocabulary", hint="Save the corpus as UTF-8.") from None


@contextmanager
def _one_thread() -> Iterator[None]:
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """Turn any error of the library into a refusal that names the file of the rules."""
    try:
        yield
    except BaseException as error:
        # A panic of its Rust code is a BaseException, not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise InputError(f"The tokenizer cannot be used: {reason}", where=where, hint=AGAIN) from error


def _rules(file: Path) -> Any:
    from tokenizers import Tokenizer

    with _refusals(str(file)):
        rules = Tokenizer.from_str(file.read_text(encoding="utf-8-sig"))
        rules.no_truncation()
        rules.no_padding()
        if getattr(rules.model, "dropout", None) is not None:
            rules.model.dropout = None
        # Rules that cannot handle unseen letters fail only when they get some.
        rules.encode("a\u00e9 \u0416\u4e2d", add_special_tokens=False)
    return rules


def _check_whole(model: Mapping[str, Any], content: Mapping[str, Any], where: str) -> None:
    """Refuse BPE that skips unknown letters: a loss would be the lower the more text it leaves out."""
    if "merges" not in model or model.get("unk_token") is not None:
        return
    from tokenizers import pre_tokenizers

    spelt = [f"<0x{byte:02X}>" for byte in range(256)]
    steps = json.dumps([content.get("pre_tokenizer"), content.get("normalizer")])
    if not model.get("byte_fallback"):
        spelt = pre_tokenizers.ByteLevel.alphabet() if re.search(r'"type": "ByteLevel"', steps) else [""]
    lacking = sum(name not in model["vocab"] for name in spelt)
    if lacking:
        raise InputError(
            "It leaves out letters that it does not know, without a token that stands for them.",
            where=f"{where}, model.unk_token",
            hint="Use a tokenizer with an unknown token, or one whose vocabulary holds all 256 bytes.",
        )


def _names(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        content = read_json(folder / name) if (folder / name).is_file() else {}
        for key, value in content.items() if isinstance(content, dict) else ():
            # A token with spacing rules of its own is written as an object.
            token = value.get("content") if isinstance(value, dict) else value
            if isinstance(token, str):
                found[key] = token
    return found


def _first_id(ids: Mapping[str, int], names: Sequence[str]) -> int | None:
    return next((ids[name] for name in names if name and name in ids), None)


def _unknown(model: Mapping[str, Any], ids: Mapping[str, int]) -> int | None:
    index, name = model.get("unk_id"), model.get("unk_token")
    return index if type(index) is int else ids.get(name) if isinstance(name, str) else None


def _template(rules: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that stand before and after a text."""
    whole = rules.encode("a")
    marks = list(whole.special_tokens_mask)
    if 0 not in marks:
        return tuple(whole.ids), ()
    return tuple(whole.ids[: marks.index(0)]), tuple(whole.ids[len(marks) - marks[::-1].index(0) :])


def _notes(rules: Any) -> tuple[str, ...]:
    if rules.normalizer is None:
        return ()
    read = unicodedata.normalize("NFC", rules.normalizer.normalize_str("Xé"))
    lost = {"X": "It reads capitals as small letters", "é": "It takes accents off"}
    changes = [change for letter, change in lost.items() if letter not in read]
    return tuple(f"{change}; the loss does not count what it would take to tell them." for change in changes)
