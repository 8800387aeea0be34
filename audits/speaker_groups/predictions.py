"""Read what a speech recogniser wrote for each recording.

Files of predictions come in many forms. Where two readings of a file would do, or two texts for a recording,
nothing is chosen in silence: the file is refused with the place that shows it.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from probes.core.errors import InputError
from probes.files.cells import BLOCK, Cells
from probes.files.delimited import Delimited
from probes.files.gzips import plain_suffix
from probes.files.json_values import parse_json
from probes.files.names import suggest_column
from probes.files.table_rows import Rows, cells_of
from probes.files.table_sources import find_table, sha256_table
from probes.files.tables import is_json, read_table, wrapped
from probes.files.text import numbered_lines, read_text

NAME_COLUMNS = (
    *("path", "audio_filepath", "audio_path", "file_name", "filename", "file", "audio", "wav", "hash_name"),
    *("audio_id", "utterance_id", "utt_id", "utterance", "utt", "id", "name"),
)
"""Usual names of the column of the recording, the first one there is taken: paths say more than identifiers."""

TEXT_COLUMNS = (
    ("prediction", "predictions", "pred_text", "predicted_text", "pred", "hypothesis", "hyp"),
    ("transcription", "transcript", "text"),
)
"""Usual names of the column of the text; the second ones, which may be references, only where no first one is."""

_TABLES = (".csv", ".tsv", ".tab")
_JSON_LINES = (".jsonl", ".ndjson")
_PLAIN = ("", ".txt", ".text", ".hyp")
_TRN = re.compile(r"(.*)\(([^()]+)\)\Z")


@dataclass(frozen=True, slots=True)
class Prediction:
    """The text written for a recording ("": nothing), and its line or JSON entry, from 1."""

    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """The content of a file of predictions: texts by the name of the recording as written there.

    `form` is one of table, jsonl, json list, json map, kaldi text, sctk trn; `read_as` says in sentences what the
    columns were read as, and how the table was read where that is unusual.
    """

    path: Path
    sha256: str
    form: str
    entries: Mapping[str, Prediction]
    read_as: tuple[str, ...] = ()


class Entries(Mapping[str, Prediction]):
    """The entries of a large file, held as columns; `names` are distinct."""

    def __init__(self, names: Cells, texts: Cells, lines: Sequence[int]) -> None:
        self.names, self.texts, self.lines = names, texts, lines

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {str(name): at for at, name in enumerate(self.names)}

    def __getitem__(self, name: str) -> Prediction:
        at = self._index[name]
        return Prediction(str(self.texts[at]), self.lines[at])

    def __iter__(self) -> Iterator[str]:
        return map(str, self.names)

    def __len__(self) -> int:
        return len(self.names)


def as_entries(found: Mapping[str, Prediction]) -> Entries:
    """Return entries as columns."""
    if isinstance(found, Entries):
        return found
    texts = Cells(entry.text for entry in found.values())
    return Entries(Cells(found), texts, [entry.line for entry in found.values()])


class _Entry(NamedTuple):
    line: int
    name: object
    text: object


@dataclass(frozen=True, slots=True)
class _Found:
    """The entries of a file, and where a message about one of them points to."""

    entries: Iterable[_Entry]
    where: Callable[[_Entry], str]


@dataclass(frozen=True, slots=True)
class _Record:
    line: int
    where: str
    values: Mapping[str, object]


def read_predictions(path: Path) -> Predictions:
    """Read a file of predictions: a table (CSV, TSV, Parquet, Arrow), JSON lines (NeMo's too), a JSON list or map,
    Kaldi text or SCTK trn.

    An empty text and JSON's null mean that the recogniser wrote nothing.

    Raises
    ------
    InputError
        Where the file cannot be read, has no such form, lacks a column, holds a value that is no text, or holds
        two texts for one name.
    """
    form, found, read_as = _read(path)
    entries = _collect(path, form, found)
    return Predictions(path=path, sha256=sha256_table(path), form=form, entries=entries, read_as=read_as)


def _read(path: Path) -> tuple[str, _Found, tuple[str, ...]]:
    """Return the format of a file, its entries, and how its columns were read."""
    source = find_table(path)
    suffix = plain_suffix(source.files[0])
    if source.is_arrow:
        return _table(path)
    named, path = path, source.file
    if suffix == ".trn":
        return "sctk trn", _by_line(path, _trn(path)), (f"{path.name} is read as SCTK's trn: the words (name).",)
    if is_json(path):
        return _json(path)
    if suffix in _TABLES or _names_columns(_header(path)):
        return _table(named)
    if suffix in _PLAIN:
        return "kaldi text", _kaldi(path), (f"{path.name} is read as Kaldi's text: a name and its words.",)
    header = _header(path)
    raise InputError(
        f"A file that ends in {suffix!r} and has no header is no known form of predictions.",
        where=str(path),
        hint="Give a table (.csv, .tsv, .parquet), JSON (.json, .jsonl), Kaldi's text (.txt) or SCTK's trn (.trn)."
        + f" As a table its columns would be: {', '.join(header)[:200]}." * (len(header) > 1),
    )


def _table(path: Path) -> tuple[str, _Found, tuple[str, ...]]:
    table = read_table(path, lean=True)
    name, text = _columns(path, table.columns, table.separator)
    # No column is lacking in a row of a table that is not JSON.
    lines = table.rows.lines if isinstance(table.rows, Rows) else [row.line for row in table.rows]
    entries = map(_Entry, lines, cells_of(table.rows, name), cells_of(table.rows, text))
    return "table", _by_line(path, entries), (_columns_words(path, name, text), *table.notes)


def _by_line(path: Path, entries: Iterable[_Entry]) -> _Found:
    return _Found(entries, lambda entry: f"{path}:{entry.line}")


def _header(path: Path) -> list[str]:
    """Return the names of the columns if the file is a table."""
    try:
        return [name.strip() for name in Delimited(path).header]
    except InputError:
        # No table: whoever reads it as text says what is wrong with that.
        return []


def _names_columns(cells: Iterable[str]) -> bool:
    there = {cell.casefold() for cell in cells}
    return not there.isdisjoint(NAME_COLUMNS) and not there.isdisjoint(sum(TEXT_COLUMNS, ()))


def _kaldi(path: Path) -> _Found:
    pairs = ((line, content.split(maxsplit=1)) for line, content in _lines(path))
    return _by_line(path, (_Entry(line, name, rest[0] if rest else "") for line, (name, *rest) in pairs))


def _trn(path: Path) -> Iterator[_Entry]:
    for line, content in _lines(path):
        if content.startswith(";;"):
            continue
        where = f"{path}:{line}"
        parts = _TRN.match(content)
        if parts is None:
            raise InputError(
                "The line does not end in a name between brackets.", where=where, hint="Write: the words (name)"
            )
        yield _Entry(line, parts[2], parts[1].strip())


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank; CR alone ends a line too.

    Raises
    ------
    InputError
        Where there is none, or the file is no text.
    """
    number, empty = 0, True
    for _, text in numbered_lines(path):
        for line in text.split("\r"):
            number += 1
            if line.strip():
                empty = False
                yield number, line.strip()
    if empty:
        raise InputError("The file is empty.", where=str(path), hint="Give one prediction for each recording.")


def _json(path: Path) -> tuple[str, _Found, tuple[str, ...]]:
    lines = list(islice(_lines(path), 2))
    listed = lines[0][1][:1] == "["
    if not listed and len(lines) > 1 and (plain_suffix(path) in _JSON_LINES or _is_json(lines[0][1])):
        # Read twice: which column holds what, all keys together decide, and the objects of a large file are not held.
        return "jsonl", *_selected(path, lambda: _json_records(path))
    text = read_text(path)
    # Repeated keys of a map are distinguished from differing ones further down.
    value = parse_json(text, str(path), once=listed)
    if isinstance(value, list):
        items = enumerate(value, start=1)
        records = [_record(number, f"{path}, entry {number}", item) for number, item in items]
        return "json list", *_selected(path, lambda: records, listed=True)
    record = _record(lines[0][0], f"{path}:{lines[0][0]}", value)
    if _names_columns(record.values):
        return "jsonl", *_selected(path, lambda: [record])
    if key := next((key for key, item in record.values.items() if _is_rows(item)), None):
        raise wrapped(path, key)
    found = _Found(_map(path, text), lambda entry: f"{path}, key {entry.name!r}")
    return "json map", found, (f"{path.name} is read as a JSON map: names and predictions.",)


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and _names_columns(value[0])


def _is_json(line: str) -> bool:
    try:
        parse_json(line, "")
    except InputError:
        return False
    return True


def _record(line: int, where: str, value: object) -> _Record:
    if not isinstance(value, dict):
        raise InputError(
            f"The entry is {_kind(value)}, not an object.", where=where, hint='Write {"path": ..., "prediction": ...}.'
        )
    return _Record(line, where, value)


def _map(path: Path, text: str) -> Iterator[_Entry]:
    # Objects as pairs: a dict would keep one of two texts of the same name, and tell nobody.
    pairs = json.loads(text, object_pairs_hook=tuple)
    inner = dict.fromkeys(key for _, value in pairs if isinstance(value, tuple) for key, _ in value)
    column = _text_column(path, list(inner)) if any(isinstance(value, tuple) for _, value in pairs) else ""
    for number, (name, value) in enumerate(pairs, start=1):
        where = f"{path}, key {name!r}"
        record = _Record(number, where, dict(value)) if isinstance(value, tuple) else None
        yield _Entry(number, name, _field(record, column) if record else value)


def _json_records(path: Path) -> Iterator[_Record]:
    for line, content in _lines(path):
        where = f"{path}:{line}"
        yield _record(line, where, parse_json(content, where, once=True))


def _selected(
    path: Path, records: Callable[[], Iterable[_Record]], *, listed: bool = False
) -> tuple[_Found, tuple[str, ...]]:
    """Return the entries of JSON objects, whose columns are the union of their keys."""
    count, keys = 0, dict[str, None]()
    for record in records():
        count += 1
        keys |= dict.fromkeys(record.values)
    if not count:
        return _by_line(path, ()), ()
    name, text = _columns(path, tuple(keys))
    entries = (_Entry(record.line, _field(record, name), _field(record, text)) for record in records())
    found = _Found(entries, lambda entry: f"{path}, entry {entry.line}") if listed else _by_line(path, entries)
    return found, (_columns_words(path, name, text),)


def _columns(path: Path, columns: Sequence[str], separator: str = "") -> tuple[str, str]:
    """Return the columns of the name and of the text."""
    lower = {column.casefold(): column for column in reversed(columns)}
    name = next((lower[usual] for usual in NAME_COLUMNS if usual in lower), None)
    if name is None:
        raise _no_column(path, "names the recording", NAME_COLUMNS, "path", columns, separator)
    return name, _text_column(path, columns, separator)


def _columns_words(path: Path, name: str, text: str) -> str:
    return f"Columns of {path.name} are read as: {name}: the recording; {text}: the prediction."


def _text_column(path: Path, columns: Sequence[str], separator: str = "") -> str:
    for usual in TEXT_COLUMNS:
        there = [column for column in columns if column.casefold() in usual]
        if len(there) > 1:
            raise InputError(
                f"Several columns may hold the prediction: {', '.join(there)}.",
                where=str(path),
                hint="Keep one of them, or rename the others.",
            )
        if there:
            return there[0]
    raise _no_column(path, "holds the prediction", sum(TEXT_COLUMNS, ()), "prediction", columns, separator)


def _no_column(
    path: Path, role: str, usual: Sequence[str], example: str, columns: Sequence[str], separator: str
) -> InputError:
    return InputError(
        f"No column {role} (usual names: {', '.join(usual)}).",
        where=str(path),
        hint=f"Name it {example!r}. {suggest_column(example, columns, separator)}",
    )


def _field(record: _Record, column: str) -> object:
    if column not in record.values:
        raise InputError(f"The entry has no {column!r}.", where=record.where, hint="Give every entry the same columns.")
    return record.values[column]


def _collect(path: Path, form: str, found: _Found) -> Entries:
    entries = Entries(Cells(), Cells(), lines := array("q"))
    index: dict[str, int] = {}
    source = iter(found.entries)
    while block := list(islice(source, BLOCK)):
        names, texts = [], []
        for entry in block:
            name, text = _checked(entry, found)
            at = index.setdefault(name, len(index))
            if at == len(lines):
                names.append(name)
                texts.append(text)
                lines.append(entry.line)
                continue
            # What came before stands in this block or in those that are packed.
            before = texts[at - len(entries)] if at >= len(entries) else entries.texts[at]
            if before != text:
                raise InputError(
                    f"{name!r} stands twice with different texts: before in {unit_of(form)} {lines[at]}.",
                    where=found.where(entry),
                    hint="Keep one of the two.",
                )
        entries.names.add(names)
        entries.texts.add(texts)
    if not index:
        raise InputError("The file holds no predictions.", where=str(path), hint="Give one for each recording.")
    return entries


def _checked(entry: _Entry, found: _Found) -> tuple[str, str]:
    """Return name and text of an entry."""
    if not isinstance(entry.name, str):
        _text(entry.name, "name of the recording", found.where(entry))
    name = str(entry.name).strip()
    if not name:
        raise InputError(
            "The entry names no recording.", where=found.where(entry), hint="Fill it in, or drop the entry."
        )
    text = "" if entry.text is None else entry.text
    return name, text if isinstance(text, str) else _text(text, "prediction", found.where(entry))


def _text(value: object, role: str, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"The {role} is {_kind(value)}, not a text.", where=where, hint="Write it between quotes.")
    return value


def _kind(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return "a text"
    return json.dumps(value)[:40]


def unit_of(form: str) -> str:
    """Return the unit of position in a file of some format: line or entry."""
    return "entry" if form in ("json list", "json map") else "line"
