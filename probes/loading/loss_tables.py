"""Which losses of which models were measured elsewhere, and which of them can be compared?

A row is the loss of one language, `lang`, in nats per byte of its held-out text, under a model trained on `lang` and
on what `with` names: the language itself (nothing else), another language, or several joined by `+`. With a column
`sentence` a row is one held-out sentence. Rows of no use are counted under their reason; contradictions are refused.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError
from probes.loading.hashing import sha256_file
from probes.loading.tables import read_table, read_text, suggest

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Text = str | None
_Value = TypeVar("_Value")
_Model = tuple[tuple[str, ...], str]
"""The languages trained on, and the one that is held out."""
_Record = tuple[int, Sequence[Text]]
"""The line on which a row begins, and its fields."""

NOT_ASKED = "language not asked for"
NO_WEIGHT = "sentence of weight 0"
NO_MONOLINGUAL = "no monolingual loss of the language"
OTHER_SEED = "no monolingual loss of the language from the same seed"
NOT_SHARED = "sentence not measured under every model of its language"
UNIFORM = math.log(256)
"""Nats per byte of a model that knows nothing: 5.545."""
MOST_ROWS = 2 * 10**7
_MOST_TEXT, _MOST_JSON = 2**30, 2**27
_LARGEST = 1e12
_BLOCK = 2**12
_NEEDED = ("lang", "with", "loss")
_WEIGHTS = ("weight", "bytes", "masked")
_CODE = re.compile(r"[\w.()@-]{1,60}")
_SEED = re.compile(r"(-?\d{1,18})(\.0*)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_FEWER = "Give so many rows as CSV, one loss a model instead of one a sentence, or fewer languages."


class CellKey(NamedTuple):
    """Which loss: the languages trained on, sorted; the seed of the training; the language that is held out."""

    languages: tuple[str, ...]
    seed: int
    lang: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossCell:
    """Loss of one language under one model.

    Parameters
    ----------
    nats
        Nats per byte of each held-out sentence, or of all held-out text at once; (units,).
    weights
        What a unit counts, its bytes where they are known; (units,).
    """

    nats: Floats
    weights: Floats

    @property
    def loss(self) -> float:
        """Nats per byte of the held-out text."""
        return float(np.average(self.nats, weights=self.weights))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossTable:
    """The losses of a file that can be compared.

    Parameters
    ----------
    given
        Rows in the file; those not here were `skipped`, by reason.
    languages
        Codes of all languages that were trained on, sorted.
    rows
        Losses by the languages trained on, seed and held-out language. Every one under several languages has a
        monolingual one of the same seed. All of one held-out language are over the same sentences, in one order.
    sentences
        Ids of these sentences by language; None where the file gives one loss a model.
    """

    path: Path
    sha256: str
    given: int
    languages: tuple[str, ...]
    rows: Mapping[CellKey, LossCell]
    sentences: Mapping[str, tuple[str, ...]] | None
    skipped: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Rows:
    """Columns of the file, one entry a row; `model` and `sentence` are places in the tuples below."""

    lines: Integers
    model: Integers
    seed: Integers
    sentence: Integers
    loss: Floats
    weight: Floats
    models: tuple[_Model, ...]
    sentences: tuple[str, ...]


_Cells = dict[CellKey, Integers]
"""Rows of each loss, as places in the columns, in the order of their sentences."""


def read_losses(path: Path, *, codes: Sequence[str] | None = None) -> LossTable:
    """Read a file of losses: CSV, TSV, JSON lines or a JSON list.

    Where the models of a language were measured on different sentences, those that all have are taken: a job that
    was cut short leaves such files, and a difference over the same sentences is right however few they are.

    Parameters
    ----------
    codes
        Languages to take; None: all of the file.

    Raises
    ------
    InputError
        Where the file cannot be read, lacks a column, holds something that is no loss, gives one loss twice, or
        leaves nothing to be compared.
    """
    columns, records = _open(path)
    weight, notes = _header(columns, path)
    rows = _collect(path, columns, records, weight)
    places, skipped = _usable(rows, codes, path)
    cells = _cells(rows, places)
    lost = {code for key in cells for code in key.languages} | {*(codes or ())}
    _drop_unpaired(cells, skipped)
    if not any(len(key.languages) > 1 for key in cells):
        reasons = "".join(f"; {reason}: {count}" for reason, count in skipped.items() if count)
        said = f"None of the {len(rows.lines)} rows is a loss under several languages that can be compared{reasons}."
        hint = "Give a language's monolingual loss (with = lang) and one with another language, from the same seed."
        raise InputError(said, where=str(path), hint=hint)
    shared = _shared(rows, cells, path)
    skipped[NOT_SHARED] = sum(map(len, cells.values())) - sum(map(len, shared.values()))
    names = {key.lang: tuple(map(rows.sentences.__getitem__, rows.sentence[own])) for key, own in shared.items()}
    found = {key: LossCell(nats=rows.loss[own], weights=rows.weight[own]) for key, own in sorted(shared.items())}
    languages = {code for key in found for code in key.languages}
    notes += [f"No loss with {', '.join(sorted(lost - languages))} can be compared."] if lost - languages else []
    return LossTable(
        path=path,
        sha256=sha256_file(path),
        given=len(rows.lines),
        languages=tuple(sorted(languages)),
        rows=found,
        sentences=names if "sentence" in columns else None,
        skipped={reason: count for reason, count in skipped.items() if count},
        notes=(*notes, *_doubts(found)),
    )


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


def _collect(path: Path, columns: Sequence[str], records: Iterator[_Record], weight: str | None) -> _Rows:
    collector = _Collector(path, weight)
    while block := list(islice(records, _BLOCK)):
        places, rows = zip(*block, strict=True)
        collector.add(places, dict(zip(columns, zip(*rows, strict=True), strict=True)))
    if not collector.count:
        raise InputError("The file has a header but no rows.", where=str(path), hint="Give a row for each loss.")
    lines, model, seed, sentence, loss, weights = map(np.concatenate, zip(*collector.parts, strict=True))
    sentences = tuple(collector.sentences) or ("",)
    return _Rows(lines, model, seed, sentence, loss, weights, tuple(collector.models), sentences)


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


def _usable(rows: _Rows, codes: Sequence[str] | None, path: Path) -> tuple[Integers, dict[str, int]]:
    """Return the rows that are used, sorted by model, seed and sentence, and how many are not."""
    there = sorted({code for languages, _ in rows.models for code in languages})
    missing = [code for code in codes or () if code not in there]
    if missing:
        raise InputError(f"The file has no loss of {missing[0]!r}.", where=str(path), hint=suggest(missing[0], there))
    asked = [codes is None or {*languages} <= {*codes} for languages, _ in rows.models]
    wanted, full = np.array(asked)[rows.model], rows.weight > 0
    places = np.flatnonzero(wanted & full)
    # Equal rows keep the order of the file.
    places = places[np.lexsort((rows.sentence[places], rows.seed[places], rows.model[places]))]
    columns = (rows.model, rows.seed, rows.sentence)
    same = np.logical_and.reduce([column[places][1:] == column[places][:-1] for column in columns])
    if same.any():
        again = places[1:][same].min()
        first = next(int(place) for place in places if all(column[place] == column[again] for column in columns))
        said = f"The loss of {_where(rows, int(again))} stands in line {rows.lines[first]} already."
        raise InputError(said, where=f"{path}:{rows.lines[again]}", hint="Give every loss once, or a column seed.")
    return places, {NOT_ASKED: int((~wanted).sum()), NO_WEIGHT: int((wanted & ~full).sum())}


def _where(rows: _Rows, place: int) -> str:
    languages, lang = rows.models[rows.model[place]]
    name = rows.sentences[rows.sentence[place]]
    return f"{lang} under {'+'.join(languages)}, seed {rows.seed[place]}" + (f", sentence {name!r}" if name else "")


def _cells(rows: _Rows, places: Integers) -> _Cells:
    model, seed = rows.model[places], rows.seed[places]
    ends = np.flatnonzero((model[1:] != model[:-1]) | (seed[1:] != seed[:-1])) + 1
    found: _Cells = {}
    for group in np.split(places, ends) if len(places) else ():
        languages, lang = rows.models[rows.model[group[0]]]
        found[CellKey(languages, int(rows.seed[group[0]]), lang)] = group
    return found


def _drop_unpaired(cells: _Cells, skipped: dict[str, int]) -> None:
    """Remove and count the losses with which there is no monolingual one of the same seed."""
    measured = {key.lang for key in cells if len(key.languages) == 1}
    for key in [key for key in cells if key._replace(languages=(key.lang,)) not in cells]:
        reason = OTHER_SEED if key.lang in measured else NO_MONOLINGUAL
        skipped[reason] = skipped.get(reason, 0) + len(cells.pop(key))


def _shared(rows: _Rows, cells: _Cells, path: Path) -> _Cells:
    """Return the rows of the sentences that all models of a language have, after a look at their weights."""
    found: _Cells = {}
    for lang in dict.fromkeys(key.lang for key in cells):
        keys = [key for key in cells if key.lang == lang]
        common = reduce(np.intersect1d, (rows.sentence[cells[key]] for key in keys))
        if not len(common):
            said = f"The models of {lang!r} were not measured on one sentence in common."
            hint = "Measure all models of a language on the same held-out sentences, by the same ids."
            raise InputError(said, where=f"{path}, sentence", hint=hint)
        for key in keys:
            found[key] = cells[key][np.isin(rows.sentence[cells[key]], common)]
    for key, own in found.items():
        alone = found[key._replace(languages=(key.lang,))]
        differ = np.flatnonzero(~np.isclose(rows.weight[own], rows.weight[alone], rtol=1e-9, atol=0.0))
        if len(differ):
            mine, other = int(own[differ[0]]), int(alone[differ[0]])
            said = f"{_where(rows, mine)} has the weight {rows.weight[mine]:g}, alone {rows.weight[other]:g}"
            hint = "A sentence counts alike under all models of a seed: write its bytes."
            raise InputError(f"{said} (line {rows.lines[other]}).", where=f"{path}:{rows.lines[mine]}", hint=hint)
    return found


def _doubts(cells: Mapping[CellKey, LossCell]) -> list[str]:
    losses = [cell.loss for cell in cells.values()]
    high = sum(loss > UNIFORM for loss in losses)
    said = f"{high} of {len(losses)} losses are above {UNIFORM:.2f} nats per byte, the largest is {max(losses):.4g}: "
    said += "a model that knows nothing has no more. They may be in bits, or of tokens instead of bytes."
    return [said] if high else []
