"""Sentences of a language, split into training and held-out, and attributes of languages from a table.

A corpus is a folder with a file `<code>.txt` for each language, one sentence a line, and beside them, if wanted, a
table `langs.csv` of attributes. A file is read once, block by block, so that its size does not matter to memory.

Line k of a file has as its priority the k-th number of 64 bits from the counter-based generator Philox (Salmon et al.
2011), keyed by the seed alone. Sentences are taken from the smallest priority on: first those that are held out, then
those for training. Both are thus uniform samples in random order, and which lines they are depends on nothing but the
seed and the lengths of the lines. Lines of the same number have the same priority in every language, so that parallel
files are split alike.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.decimals import is_number
from probes.files.opening import check_ordinary, read_head
from probes.files.safe_paths import check_link
from probes.files.tables import read_table
from probes.files.text_lines import BLOCK, HINT, LONGEST_LINE, Block, TextLines

Sentence = bytes
"""A sentence in UTF-8, without surrounding white space and the end of its line."""
BLANK = "blank line"
ALSO_HELD = "also held out"
NOT_DRAWN = "beyond the bytes asked for"
"""Why a line is not used: it holds no sentence, or one that is held out already, or the file has more than is asked."""

ATTRIBUTES = "langs.csv"
"""Name of the table of attributes, whose column `code` names the language."""
FEWEST_SENTENCES = 20
LARGEST_TABLE = 2**24
"""Bytes of the largest table of attributes that is read."""

_HELD_SHARE = 5
_NOT_NFC = 0.01
_CODE = re.compile(r"\w[\w.]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LanguageText:
    """Sentences of one language: UTF-8 without surrounding white space, in random order.

    Parameters
    ----------
    sha256
        Of the file as it stands.
    given, bytes, characters
        Lines of the file, its bytes, and its characters without the ends of lines.
    train, held
        Sentences for training and those held out; none of `held` occurs twice, or in `train`.
    skipped
        Lines that are neither, by reason: `given` is the sum of the three.
    notes
        What a reader of the report should know of the file, in sentences.
    """

    code: str
    path: Path
    sha256: str
    given: int
    bytes: int
    characters: int
    train: tuple[Sentence, ...]
    held: tuple[Sentence, ...]
    skipped: Mapping[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attributes:
    """Attributes of languages from a table.

    Parameters
    ----------
    path
        The table; None where there is none.
    columns
        By column, in the order of the table, and by code: the cell as text, without surrounding white space. Empty
        cells are absent.
    missing
        Languages without a row.
    """

    path: Path | None
    columns: Mapping[str, Mapping[str, str]]
    missing: tuple[str, ...]


def check_codes(folder: Path, codes: Sequence[str]) -> tuple[str, ...]:
    """Check that each code of a language names a file of the folder; return the codes in order.

    Raises
    ------
    InputError
        Where the folder is none, a code is malformed or given twice, two differ only by case, or a file is missing.
    """
    seen: dict[str, str] = {}
    for code in codes:
        _path(folder, code)
        other = seen.setdefault(unicodedata.normalize("NFKC", code).casefold(), code)
        if other != code:
            message = f"The codes {other!r} and {code!r} differ only by case or form: on some disks they are one file."
            raise InputError(message, where="--langs", hint="Rename one of the two files.")
    twice = next((code for code, times in Counter(codes).items() if times > 1), None)
    if twice is not None:
        raise InputError(f"The language {twice!r} is given twice.", where="--langs", hint="Name each one once.")
    return tuple(sorted(codes))


def read_language(
    folder: Path,
    code: str,
    *,
    seed: int,
    train_bytes: int,
    held_bytes: int,
    longest: int = LONGEST_LINE,
    block: int = BLOCK,
) -> LanguageText:
    """Read the sentences of one language, those for training and those held out.

    Held out are the distinct sentences of smallest priority, as few as have `held_bytes`, and at most a fifth of the
    sentences of the file. For training follow those of next higher priority, as many as `train_bytes` have room for;
    those equal to one that is held out are left out. Both are sought among the first sentences that have twice the
    bytes asked for and the longest line. A sentence counts with one byte more for the end of its line.

    Parameters
    ----------
    seed
        What the samples depend on.
    train_bytes, held_bytes
        Bytes of sentences for training, at most, and held out, about.
    longest, block
        Bytes of the longest line, and those that are read at a time.

    Raises
    ------
    InputError
        Where the code cannot be a file's name, or the file is missing, no plain UTF-8 text, of fewer than 20 sentences,
        or holds a longer line.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "en.txt").write_text("".join(f"line {k:02}\\n" for k in range(50)))
    ...     found = read_language(Path(folder), "en", seed=0, train_bytes=240, held_bytes=40)
    >>> [len(found.train), len(found.held)], found.skipped
    ([30, 5], {'beyond the bytes asked for': 15})
    """
    if min(train_bytes, held_bytes) < 1:
        raise InputError(
            f"{min(train_bytes, held_bytes)} bytes hold no sentence.",
            where="train_bytes, held_bytes",
            hint="Give as many bytes as 20 sentences have, or more.",
        )
    path = _path(folder, code)
    lines = TextLines(path, longest=longest, block=block)
    # More than is asked for, so that training lines equal to a held-out one can be made up for.
    pool = _Pool(seed, 2 * (train_bytes + held_bytes) + longest)
    for part in lines.blocks():
        pool.add(part)
    sentences = lines.count - pool.blank
    if sentences < FEWEST_SENTENCES:
        count = "only one sentence" if sentences == 1 else f"{sentences or 'no'} sentences"
        message = f"The file has {count} in {lines.count} line{'s' * (lines.count != 1)}."
        raise lines.refusal(message, f"Write one sentence a line, {FEWEST_SENTENCES} or more.")
    held, train, also = _split(pool.ordered(), train_bytes, held_bytes, sentences // _HELD_SHARE)
    if not train:
        message = f"The first sentence drawn for training is longer than {train_bytes} bytes."
        if also:
            message = f"No sentence is left for training: {also} are equal to one of the {len(held)} held out."
        raise InputError(message, where=str(path), hint="Give more different sentences, or more bytes.")
    unused = sentences - len(train) - len(held) - also
    skipped = {BLANK: pool.blank, ALSO_HELD: also, NOT_DRAWN: unused}
    return LanguageText(
        code=code,
        path=path,
        sha256=lines.digest.hexdigest(),
        given=lines.count,
        bytes=lines.size,
        characters=lines.characters,
        train=train,
        held=held,
        skipped={reason: count for reason, count in skipped.items() if count},
        notes=(*lines.notes(), *_spelling(held + train)),
    )


def shared_content(texts: Sequence[LanguageText]) -> tuple[tuple[str, ...], ...]:
    """Return groups of languages with identical files, each as its codes in order."""
    by_hash: dict[str, list[str]] = {}
    for text in texts:
        by_hash.setdefault(text.sha256, []).append(text.code)
    return tuple(tuple(sorted(codes)) for codes in by_hash.values() if len(codes) > 1)


def shared_sentences(texts: Sequence[LanguageText]) -> dict[tuple[str, str], int]:
    """Count the held-out sentences of a target among the training sentences of a source, by (target, source).

    Only pairs that share one are listed. Such a sentence is no longer unseen where the two are trained on together.
    """
    trained = {text.code: frozenset(text.train) for text in texts}
    counts = {
        (target.code, source): len(sentences.intersection(target.held))
        for target in texts
        for source, sentences in trained.items()
    }
    return {pair: count for pair, count in counts.items() if count}


def read_attributes(folder: Path, codes: Sequence[str]) -> Attributes:
    """Read the attributes of languages from `langs.csv` of a folder; none where there is no such table.

    Raises
    ------
    InputError
        Where the table cannot be read, lacks the column `code`, or gives a code or a column twice.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "langs.csv").write_text("code,script,family\\nen,Latn,\\nar,Arab,Semitic\\n")
    ...     found = read_attributes(Path(folder), ["en", "xx"])
    >>> found.columns, found.missing
    ({'script': {'en': 'Latn'}, 'family': {}}, ('xx',))
    """
    path = folder / ATTRIBUTES
    if not path.exists() and not path.is_symlink():
        return Attributes(path=None, columns={}, missing=tuple(codes))
    check_ordinary(path, hint=f"Name a table {ATTRIBUTES}, or remove it.")
    if path.stat().st_size > LARGEST_TABLE:
        message = f"The table is larger than {LARGEST_TABLE:,} bytes."
        raise InputError(message, where=str(path), hint="Give one short row for each language.")
    check_link(path, folder)
    table = read_table(path)
    if "code" not in table.columns:
        raise InputError("There is no column 'code'.", where=str(path), hint=table.suggest("code"))
    table.check_flat()
    cells = {name: [(row.values.get(name) or "").strip() for row in table.rows] for name in table.columns}
    table = table.with_points([name for name, texts in cells.items() if all(is_number(text or "0") for text in texts)])
    rows: dict[str, Mapping[str, str | None]] = {}
    lines: dict[str, int] = {}
    for row in table.rows:
        code = (row.values.get("code") or "").strip()
        if not code or code in rows:
            message = (
                f"The language {code!r} has a row already, on line {lines[code]}." if code else "The code is empty."
            )
            raise InputError(message, where=f"{path}:{row.line}", hint="Give each language one row.")
        rows[code], lines[code] = row.values, row.line
    columns = {
        name: {code: cell for code in codes if code in rows and (cell := (rows[code].get(name) or "").strip())}
        for name in table.columns
        if name != "code"
    }
    return Attributes(path=path, columns=columns, missing=tuple(code for code in codes if code not in rows))


def _path(folder: Path, code: str) -> Path:
    if not _CODE.fullmatch(code):
        hint = "A code has letters, digits, '_' and '.'; ',', '+' and '-' join codes. Rename zh-TW.txt to zh_TW.txt."
        raise InputError(f"{code!r} cannot be the code of a language.", where="--langs", hint=hint)
    try:
        message = "" if folder.is_dir() else "This is no folder." if folder.exists() else "There is no such folder."
    except OSError as error:
        message = f"The folder cannot be read: {error}."
    if message:
        raise InputError(message, where=str(folder), hint="Name the folder that holds the files <code>.txt.")
    path = folder / f"{code}.txt"
    packed = folder / f"{code}.txt.gz"
    if packed.exists():
        if path.exists():
            hint = "Keep one of the two."
            raise InputError(f"There are {path.name} and {packed.name}.", where=str(folder), hint=hint)
        path = packed
    check_link(path, folder)
    read_head(path, wanted="text", hint=HINT)
    return path


class _Pool:
    """The sentences of smallest priority so far, `size` bytes of them or a little more."""

    def __init__(self, seed: int, size: int) -> None:
        # Hashed, so that neighbouring seeds, and other uses of the same one, have nothing in common.
        key = hashlib.blake2b(f"sentences {seed}".encode(), digest_size=16).digest()
        self._source = np.random.Philox(key=np.frombuffer(key, "<u8"))
        self._size, self._held = size, 0
        self._limit = np.uint64(2**64 - 1)
        self._priorities: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._sentences: list[bytes] = []
        self.blank = 0

    def add(self, block: Block) -> None:
        # A number for blank lines too, so that lines of one number agree between parallel files.
        priorities = self._source.random_raw(len(block.starts))
        wanted = priorities <= self._limit
        blank = block.blank()
        wanted[blank] = False
        self.blank += len(blank)
        found = [text.encode() for text in block.texts(np.flatnonzero(wanted))]
        self._sentences += found
        self._priorities = np.append(self._priorities, priorities[wanted])
        self._held += sum(map(len, found)) + len(found)
        # Not after every block: sorting once in so many bytes keeps the work in proportion to the file.
        if self._held > 2 * self._size:
            self.ordered()

    def ordered(self) -> list[bytes]:
        """Drop sentences that are not needed and return the rest in order of priority."""
        order = np.argsort(self._priorities, kind="stable")
        sizes = np.cumsum([len(self._sentences[index]) + 1 for index in order.tolist()])
        order = order[: np.searchsorted(sizes, self._size) + 1]
        if len(order) < len(sizes):
            # Lines of higher priority numbers than this one can no longer be chosen.
            self._limit = self._priorities[order[-1]]
        self._held = int(sizes[len(order) - 1])
        self._sentences = [self._sentences[index] for index in order.tolist()]
        self._priorities = self._priorities[order]
        return self._sentences


def _split(
    sentences: Sequence[bytes], train_bytes: int, held_bytes: int, most: int
) -> tuple[tuple[bytes, ...], tuple[bytes, ...], int]:
    """Split sentences into held-out and training ones, and count those left out as equal to one held out."""
    held: dict[bytes, None] = {}
    train: list[bytes] = []
    spent = also = 0
    rest = iter(sentences)
    while len(held) < most and spent < held_bytes and (sentence := next(rest, None)) is not None:
        also += sentence in held
        spent += (len(sentence) + 1) * (sentence not in held)
        held[sentence] = None
    spent = 0
    for sentence in rest:
        if sentence in held:
            also += 1
            continue
        spent += len(sentence) + 1
        if spent > train_bytes:
            break
        train.append(sentence)
    return tuple(held), tuple(train), also


def _spelling(sentences: Sequence[bytes]) -> Iterator[str]:
    loose = sum(not unicodedata.is_normalized("NFC", sentence.decode()) for sentence in sentences)
    if loose > _NOT_NFC * len(sentences):
        yield f"{loose} of {len(sentences)} sampled sentences are not in Unicode's composed form (NFC)."
