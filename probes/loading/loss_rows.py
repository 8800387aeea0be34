"""Which losses does a file hold, row by row, before any is compared?

CSV, TSV and JSON become columns of numbers, block by block. Anything that is no loss is refused with its line.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError
from probes.files.names import suggest
from probes.files.tables import read_table
from probes.files.text import read_text

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Text = str | None
_Value = TypeVar("_Value")
_Model = tuple[tuple[str, ...], str]
"""The languages trained on, and the one that is held out."""
_Record = tuple[int, Sequence[Text]]
"""The line on which a row begins, and its fields."""
MOST_ROWS = 2 * 10**7
_MOST_TEXT, _MOST_JSON = 2**30, 2**27
_LARGEST = 1e12
_BLOCK = 2**12
_NEEDED = ("lang", "with", "loss")
_WEIGHTS = ("weight", "bytes", "masked")
_CODE = re.compile(r"[\w.()@-]{1,60}")
# A data frame writes whole numbers as 3.0 where others of the column are missing.
_SEED = re.compile(r"(-?\d{1,18})(\.0*)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_FEWER = "Give so many rows as CSV, one loss a model instead of one a sentence, or fewer languages."


@dataclass(slots=True)
class LossRows:
    """Columns of the file, one entry a row; `model` and `sentence` are places in the tuples below."""

    lines: Integers
    model: Integers
    seed: Integers
    sentence: Integers
    loss: Floats
    weight: Floats
    models: tuple[_Model, ...]
    sentences: tuple[str, ...]

    @property
    def by_sentence(self) -> bool:
        """Tell whether the file has a column `sentence`, whose ids are never empty."""
        return self.sentences != ("",)


def read_rows(path: Path) -> tuple[LossRows, list[str]]:
    """Return all rows of a file of losses, and notes on columns that are not used.

    Raises
    ------
    InputError
        Where the file cannot be read, lacks a column, is too large, or holds something that is no loss.
    """
    columns, records = _open(path)
    weight, notes = _header(columns, path)
    return _collect(path, columns, records, weight), notes


def _open(path: Path) -> tuple[tuple[str, ...], Iterator[_Record]]:
    """Return the names of the columns in lower case, and the rows as they come."""
    suffix = path.suffix.lower()
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError("This is not an ordinary file.", where=str(path), hint="Name a CSV, TSV or JSON file.")
    size = path.stat().st_size if path.is_file() else 0
    text = read_text(path) if size <= _MOST_TEXT else ""
    json = suffix in (".json", ".jsonl", ".ndjson") or text.lstrip()[:1] in ("{", "[")
    if size > (_MOST_JSON if json else _MOST_TEXT):
        raise InputError(f"The file has {size} bytes.", where=str(path), hint=_FEWER)
    if json:
        table = read_table(path)
        columns: Sequence[Text] = table.columns
        records: Iterator[_Record] = ((row.line, [*map(row.values.get, table.columns)]) for row in table.rows)
    else:
        tabs = suffix in (".tsv", ".tab") or (suffix != ".csv" and "\t" in text.split("\n", 1)[0])
        records = _records(path, text, "\t" if tabs else ",")
        columns = next(records, (1, ()))[1]
    lower = tuple((name or "").strip().casefold() for name in columns)
    twice = next((name for name, times in Counter(lower).items() if times > 1), None)
    if twice is not None:
        said = f"The column {twice!r} stands twice in the header."
        raise InputError(said, where=str(path), hint="Give every column a name of its own.")
    return lower, records


def _records(path: Path, text: str, separator: str) -> Iterator[_Record]:
    """Yield the rows that are not blank, the header first, with the lines on which they begin."""
    # Bare quotation marks are common in TSV files, and no rule of quoting survives them.
    quoting = csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator, quoting=quoting)  # type: ignore[arg-type]
    line, width = 1, 0
    try:
        for record in reader:
            if len(record) > 1 or (record and record[0].strip()):
                width = width or len(record)
                if len(record) != width:
                    said = f"The row has {len(record)} fields, the header {width}."
                    raise InputError(said, where=f"{path}:{line}", hint="Every row needs as many as the header.")
                yield line, record
            line = reader.line_num + 1
    except csv.Error as error:
        hint = "A quotation mark may be open: inside a quoted text it is written twice."
        raise InputError(f"The row cannot be read: {error}.", where=f"{path}:{line}", hint=hint) from None


def _header(columns: Sequence[str], path: Path) -> tuple[str | None, list[str]]:
    """Return the column of the weights, and notes on columns that are not used."""
    for name in _NEEDED:
        if name not in columns:
            hint = "The columns are lang, with (lang itself: monolingual) and loss, in nats per byte (0.693 x bits)."
            said = f"There is no column {name!r}."
            raise InputError(said, where=str(path), hint=f"{hint} {suggest(name, columns)}")
    weights = [name for name in _WEIGHTS if name in columns] if "sentence" in columns else []
    others = [name for name in columns if name not in (*_NEEDED, "seed", "sentence", *weights[:1])]
    notes = [f"Not used: {', '.join(others[:10])}{', ...' if len(others) > 10 else ''}."] if others else []
    return (weights[0] if weights else None), notes


def _collect(path: Path, columns: Sequence[str], records: Iterator[_Record], weight: str | None) -> LossRows:
    collector = _Collector(path, weight)
    while block := list(islice(records, _BLOCK)):
        places, rows = zip(*block, strict=True)
        collector.add(places, dict(zip(columns, zip(*rows, strict=True), strict=True)))
    if not collector.count:
        raise InputError("The file has a header but no rows.", where=str(path), hint="Give a row for each loss.")
    lines, model, seed, sentence, loss, weights = map(np.concatenate, zip(*collector.parts, strict=True))
    sentences = tuple(collector.sentences) or ("",)
    return LossRows(lines, model, seed, sentence, loss, weights, tuple(collector.models), sentences)


class _Collector:
    """What was met so far, block by block; each distinct text of a column is read once."""

    def __init__(self, path: Path, weight: str | None) -> None:
        self.path = path
        self.weight = weight
        self.count = 0
        self.pairs: dict[tuple[Text, Text], int] = {}
        self.models: dict[_Model, int] = {}
        self.seeds: dict[Text, int] = {}
        self.texts: dict[Text, int] = {}
        self.sentences: dict[str, int] = {}
        self.parts: list[tuple[NDArray[Any], ...]] = []

    def add(self, lines: Sequence[int], block: Mapping[str, Sequence[Text]]) -> None:
        """Take in a block of rows."""
        self.count += len(lines)
        if self.count > MOST_ROWS:
            raise InputError(f"There are more than {MOST_ROWS} rows.", where=str(self.path), hint=_FEWER)
        pairs = list(zip(block["lang"], block["with"], strict=True))
        zeros = np.zeros(len(lines), dtype=np.int64)
        seeds, names = block.get("seed"), block.get("sentence")
        model = _coded(pairs, lines, self.pairs, self._model)
        seed = zeros if seeds is None else _coded(seeds, lines, self.seeds, self._seed)
        sentence = zeros if names is None else _coded(names, lines, self.texts, self._sentence)
        losses, weights = block["loss"], np.ones(len(lines))
        if self.weight is not None:
            weights = _floats(block[self.weight], lines, self.path, self.weight)
            # The mean of nothing is NaN in many a table; such a row is left out later.
            losses = [loss if full else "0" for loss, full in zip(losses, weights > 0, strict=True)]
        loss = _floats(losses, lines, self.path, "loss")
        self.parts.append((np.array(lines, dtype=np.int64), model, seed, sentence, loss, weights))

    def _model(self, pair: tuple[Text, Text], line: int) -> int:
        lang, partners = ((text or "").strip() for text in pair)
        parts = [part.strip() for part in partners.split("+")]
        for column, code in (("lang", lang), *(("with", part) for part in parts)):
            if not _CODE.fullmatch(code):
                said = f"{code[:60]!r} is no code of a language."
                hint = "with names the languages trained on beside lang, joined by +; lang itself: monolingual."
                raise InputError(said, where=f"{self.path}:{line}, {column}", hint=hint)
        return self.models.setdefault((tuple(sorted({lang, *parts})), lang), len(self.models))

    def _seed(self, text: Text, line: int) -> int:
        number = _SEED.fullmatch((text or "").strip())
        if number is None:
            said = f"{(text or '')[:60]!r} is no seed."
            raise InputError(said, where=f"{self.path}:{line}, seed", hint="Write a whole number.")
        return int(number[1])

    def _sentence(self, text: Text, line: int) -> int:
        name = (text or "").strip()
        if not name:
            raise InputError("A sentence has no id.", where=f"{self.path}:{line}, sentence", hint="Give each an id.")
        return self.sentences.setdefault(name, len(self.sentences))


def _coded(
    values: Sequence[_Value], lines: Sequence[int], known: dict[_Value, int], read: Callable[[_Value, int], int]
) -> Integers:
    for place, value in enumerate(values):
        if value not in known:
            known[value] = read(value, lines[place])
    return np.fromiter(map(known.__getitem__, values), dtype=np.int64, count=len(values))


def _floats(texts: Sequence[Text], lines: Sequence[int], path: Path, column: str) -> Floats:
    """Return finite numbers that are not negative; the first text that is none is refused."""
    found = np.full(len(texts), np.nan)
    for place, text in enumerate(texts):
        if text is not None and _NUMBER.fullmatch(text.strip()):
            found[place] = float(text)
    wrong = np.flatnonzero(~((found >= 0) & (found <= _LARGEST)))
    if len(wrong):
        said = f"{(texts[wrong[0]] or '')[:60]!r} is no {column}."
        hint = f"Write a number from 0 to {_LARGEST:g}; leave out the rows of a model that has none."
        raise InputError(said, where=f"{path}:{lines[wrong[0]]}, {column}", hint=hint)
    return found
