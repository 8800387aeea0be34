"""Reader of files of texts, or of embeddings that were made of texts.

JSON lines and lists, CSV, TSV and plain text are read line by line, also from gzip, Parquet and Arrow files and folders
of data sets by pyarrow; NPZ and NPY files hold embeddings. What is left out is counted, and every text that is used
keeps its line or row number. A path leads to texts inside entries, such as the last message of a chat.
"""

import json
import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.arrow import read_arrow_column
from probes.files.delimited import Delimited
from probes.files.gzips import plain_suffix
from probes.files.json_paths import PathError, kind_of, leads, value_at
from probes.files.json_values import parse_json
from probes.files.names import suggest
from probes.files.opening import read_head
from probes.files.table_sources import TableSource, find_table, sha256_table
from probes.files.tables import MOST_ROWS
from probes.files.text import LONGEST_LINE, numbered_lines, read_text
from probes.texts.text_vectors import open_vectors, texts_beside, vectors_of
from probes.texts.text_words import count_words, first_words

EMPTY = "empty text"
"""Why a text is left out."""
_LONE = re.compile("[\ud800-\udfff]")
_HINT = "Give texts (JSONL, JSON, CSV, TSV, Parquet, Arrow or TXT; .gz too) or embeddings (NPZ or NPY)."


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSet:
    """Texts of one file, or embeddings of texts, or both.

    Parameters
    ----------
    given, skipped
        Number of items in the file, and of those left out, by reason.
    places
        Position of each used item in the file, from 1, shape (items,).
    texts
        Used texts without surrounding whitespace and cut; None where the file holds embeddings alone.
    embeddings
        Shape (items, width); None where the file holds texts alone.
    words
        Words of each used text before it was cut, shape (items,); empty where there are no texts.
    shortened
        Texts that were cut.
    where
        What `places` counts: "line", "entry" (of a JSON list) or "row" (of an array or a table).
    """

    path: Path
    sha256: str
    given: int
    places: NDArray[np.int64]
    texts: tuple[str, ...] | None
    embeddings: NDArray[np.float32] | None
    skipped: Mapping[str, int]
    words: NDArray[np.int64]
    shortened: int
    where: str = "line"

    def __len__(self) -> int:
        return len(self.places)


@dataclass(slots=True)
class _Collector:
    """Items read so far, in plain arrays, since a list of two million numbers is larger than their file."""

    max_words: int | None
    texts: list[str] = field(default_factory=list)
    places: "array[int]" = field(default_factory=lambda: array("q"))
    words: "array[int]" = field(default_factory=lambda: array("q"))
    skipped: Counter[str] = field(default_factory=Counter)
    given: int = 0
    shortened: int = 0

    def add(self, number: int, text: str) -> None:
        self.given += 1
        text = _encodable(text).strip()
        # Zero-width spaces are no text either.
        words = count_words(text)
        if not words:
            self.skipped[EMPTY] += 1
            return
        if self.max_words is not None and words > self.max_words:
            text = first_words(text, self.max_words)
            self.shortened += 1
        self.texts.append(text)
        self.places.append(number)
        self.words.append(words)

    def finish(self, path: Path, where: str, embeddings: NDArray[np.float32] | None = None) -> TextSet:
        if not self.places:
            message = f"There is no text: all {self.given} are empty." if self.given else "The file holds no texts."
            raise InputError(message, where=str(path), hint=_HINT)
        places = np.array(self.places, dtype=np.int64)
        return TextSet(
            path=path,
            sha256=sha256_table(path),
            given=self.given,
            places=places,
            texts=tuple(self.texts) or None,
            embeddings=embeddings if embeddings is None or len(places) == self.given else embeddings[places - 1],
            skipped=dict(self.skipped),
            words=np.array(self.words, dtype=np.int64),
            shortened=self.shortened,
            where=where,
        )


def read_texts(
    path: Path, *, column: str = "text", max_words: int | None = None, taken: Sequence[Path] = ()
) -> TextSet:
    """Read the texts or embeddings of a file, whose form follows from its suffix.

    Parameters
    ----------
    path
        A file, a folder or an address, as `probes.files.table_sources` has them.
    column
        Key or column of the texts in JSON, CSV, TSV, Parquet and Arrow files, or a path into entries of JSON, Parquet
        and Arrow (`probes.files.json_paths`); several with commas between them: the first that the file has.
    max_words
        Words, as `probes.texts.text_words` counts them, after which a text is cut; one that stands beside its embedding
        stays whole, as it was embedded.
    taken
        Files that a misspelt path cannot mean, since they are given for something else.

    Raises
    ------
    InputError
        Where the file cannot be read, does not hold what its suffix says, or holds no text.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.jsonl")
    ...     _ = path.write_text('{"text": " so  it goes "}\\n{"text": ""}\\n{"text": "on"}\\n')
    ...     found = read_texts(path, max_words=2)
    >>> found.texts, found.places.tolist(), found.words.tolist(), found.shortened, found.skipped
    (('so  it', 'on'), [1, 3], [3, 1], 1, {'empty text': 1})
    """
    if max_words is not None and max_words < 1:
        raise InputError(f"{max_words} words leave nothing of a text.", where="max_words", hint="Give 1 or more.")
    source = find_table(path)
    if source.is_arrow:
        _add_arrow(source, column, found := _Collector(max_words))
        return found.finish(path, "row")
    # A file that is empty or no file is refused whatever it should hold.
    read_head(file := source.file, wanted="text", hint=_HINT, taken=taken)
    if file.suffix.lower() in (".npz", ".npy"):
        return _from_arrays(file)
    found, where, suffix = _Collector(max_words), "line", plain_suffix(file)
    if suffix in (".json", ".jsonl", ".ndjson"):
        where = _add_json(file, column, found)
    elif suffix in (".csv", ".tsv", ".tab"):
        _add_table(file, column, found)
    else:
        for line, text in numbered_lines(file, hint=_HINT):
            found.add(line, text)
    return found.finish(path, where)


def _encodable(text: str) -> str:
    """Replace lone surrogates, which have no UTF-8 form."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)


def _add_json(path: Path, column: str, found: _Collector) -> str:
    """Add the texts of JSON lines or of a JSON list; return what their positions count, "line" or "entry"."""
    added = _Entries(path, column, found)
    for line, content in numbered_lines(path, hint=_HINT):
        if not content.strip():
            continue
        if not added.count and content.lstrip().startswith("["):
            break
        added.add(line, parse_json(content, where := f"{path}:{line}", once=True, lone=True), where)
    else:
        added.finish()
        return "line"
    # The first line with content opens a list.
    entries = parse_json(read_text(path, hint=_HINT), str(path), once=True, lone=True)
    assert isinstance(entries, list)
    for number, entry in enumerate(entries, start=1):
        added.add(number, entry, f"{path}, entry {number}")
    added.finish()
    return "entry"


class _Entries:
    """Entries of JSON, from which texts are taken by a key or a path; where a path fits only some, all are counted."""

    def __init__(self, path: Path, column: str, found: _Collector) -> None:
        self._path, self._column, self._found = path, column, found
        self.count = self._lost = 0
        self._first: InputError | None = None

    def add(self, number: int, entry: object, where: str) -> None:
        if not self.count:
            # The first entry decides: texts of two keys are of two kinds.
            self._column = _first_there(self._column, entry)
        self.count += 1
        try:
            text = _text_of(entry, self._column, where)
        except InputError as error:
            if not isinstance(entry, dict) or not _is_path(self._column, entry):
                raise
            self._lost, self._first = self._lost + 1, self._first or error
        else:
            if self._first is None:
                self._found.add(number, text)

    def finish(self) -> None:
        """Refuse a path that leads to a text in no entry, or only in some, at the first where it does not."""
        if self._first is None:
            return
        error = self._first
        if self._lost == self.count:
            share = f"It leads to a text in none of the {self.count:,} entries."
        else:
            share = f"It leads to a text in {self.count - self._lost:,} of {self.count:,} entries."
            error.hint = f"Leave the others out, write an empty text there, or name another path. {error.hint}"
        raise InputError(f"{error.message} {share}", where=error.where, hint=error.hint)


def _is_path(column: str, entry: Mapping[str, object]) -> bool:
    return "." in column and column not in entry


def _first_there(column: str, names: object) -> str:
    """Return the column, or of several with commas between them the first that is there; all of them if none is.

    `names` are those of columns, or the first entry of a JSON file, into which a path may lead.
    """
    if not isinstance(names, dict | list | tuple) or column in names:
        return column
    several = [name.strip() for name in column.split(",")]
    there = (name for name in several if name in names or (isinstance(names, dict) and leads(names, name)))
    return next(there, several[0] if len(several) == 1 else column)


def _text_of(entry: object, column: str, where: str) -> str:
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, dict):
        message = f"The entry is {kind_of(entry)}, neither an object nor a text."
        raise InputError(message, where=where, hint=f"Write {{{json.dumps(column)}: ...}}.")
    if _is_path(column, entry):
        try:
            text = value_at(entry, column)
        except PathError as error:
            message = f"The path {column!r} leads nowhere: {error}."
            hint = f"{_suggest(column, tuple(entry))} {_such_as(entry)}".strip()
            raise InputError(message, where=where, hint=hint) from None
    elif column not in entry:
        raise InputError(f"The entry has no key {column!r}.", where=where, hint=_suggest(column, tuple(entry)))
    else:
        text = entry[column]
    if not isinstance(text, str):
        hint = 'Write a text; an empty one ("") is left out and counted.'
        if isinstance(text, list | dict):
            hint = f"Name what is in it: {column}.{_deeper(text)}."
        message = f"The value of {column!r} is {kind_of(text)}, not a text."
        raise InputError(message, where=where, hint=hint)
    return text


def _such_as(entry: object) -> str:
    path = _deeper(entry)
    return f"Such as {path}." if leads(entry, path) and isinstance(value_at(entry, path), str) else ""


def _deeper(value: object) -> str:
    """Return a path to a text inside a value that is not deep, for a hint.

    >>> _deeper([{"role": "user", "content": "a"}]), _deeper({"b": "c"})
    ('-1.content', 'b')
    """
    steps: list[str] = []
    while isinstance(value, list | dict) and value and len(steps) < 6:
        if isinstance(value, list):
            step, value = "-1", value[-1]
        else:
            texts = [key for key, item in value.items() if isinstance(item, str)]
            usual = [key for key in ("content", "text") if key in value]
            step = (usual or texts or list(value))[0]
            value = value[step]
        steps.append(_encodable(step[:60]))
    return ".".join(steps) or "0"


def _suggest(column: str, names: Sequence[str]) -> str:
    # Names come from an untrusted file: any number, length and characters.
    return suggest(column, [_encodable(name[:60]) for name in names[:1000]])


def _add_table(path: Path, column: str, found: _Collector) -> None:
    # A text may be as long as its line; a row of one empty text, "", is an empty text.
    table = Delimited(path, keep_empty=True, longest=LONGEST_LINE)
    columns = [name.strip() for name in table.header]
    index = _column_index(column, columns, f"{path}:{table.header_line}")
    for line, row in table.rows():
        found.add(line, row[index])


def _add_arrow(source: TableSource, column: str, found: _Collector) -> None:
    """Add the texts of one column; another that holds lists, bytes or recordings is not read."""
    path = source.path
    several = list(dict.fromkeys((column, *map(str.strip, column.split(",")))))
    name, is_path, texts = read_arrow_column(path, source.files, several, most_rows=MOST_ROWS)
    added = _Entries(path, name, found)
    for number, text in enumerate(texts, start=1):
        where = f"{path}, row {number}"
        if text and len(text) > LONGEST_LINE:
            # As of a line: counting its words takes many times its size.
            message = f"The text has {len(text):,} letters; at most {LONGEST_LINE:,} are read."
            raise InputError(message, where=where, hint="Split it, or leave it out.")
        if is_path:
            added.add(number, {name.partition(".")[0]: parse_json(text or "null", where, lone=True)}, where)
        else:
            found.add(number, text or "")
    added.finish()


def _column_index(column: str, columns: Sequence[str], where: str) -> int:
    column = _first_there(column, columns)
    if columns.count(column) > 1:
        hint = "Give every column a name of its own."
        raise InputError(f"The column {column!r} stands twice in the header.", where=where, hint=hint)
    if column not in columns:
        raise InputError(f"There is no column {column!r}.", where=where, hint=_suggest(column, columns))
    return columns.index(column)


def _from_arrays(path: Path) -> TextSet:
    archive, name, stored = open_vectors(path)
    count, found = stored.shape[0], _Collector(None)
    texts = texts_beside(archive, name, count)
    if texts is None:
        found.given, found.places = count, array("q", range(1, count + 1))
    else:
        for row, text in enumerate(texts, start=1):
            found.add(row, text)
    return found.finish(path, "row", vectors_of(stored, f"{path}, {name}"))
