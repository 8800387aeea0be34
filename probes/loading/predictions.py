"""What did a speech recogniser write for each recording?

Files of predictions come in many forms. Where two readings of a file would do, or two texts for a recording,
nothing is chosen in silence: the file is refused with the place that shows it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from probes.errors import InputError
from probes.files.json_values import parse_json
from probes.files.names import suggest
from probes.files.tables import read_table
from probes.files.text import read_text
from probes.loading.hashing import sha256_file

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
# A list of its own, since identifiers hold full stops too: `utt.1` and `utt.2` are two recordings.
_AUDIO = re.compile(r"(?ai)(?<=[^/])\.(wav|mp3|flac|ogg|opus|m4a|sph|webm|aac|wma|aiff|wv|mp4)\Z")
_TRN = re.compile(r"(.*)\(([^()]+)\)\Z")
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was written for a recording ("": nothing), and the line (JSON list, JSON map: the entry), from 1."""

    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """What a file holds: the texts by the name of the recording as it is written there.

    `form` is one of table, jsonl, json list, json map, kaldi text, sctk trn.
    """

    path: Path
    sha256: str
    form: str
    entries: Mapping[str, Prediction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The text of each recording (None: the file has none), and the entries that met no recording.

    `unused` is their number, `examples` are the first few of their names.
    """

    texts: tuple[str | None, ...]
    unused: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    line: int
    where: str
    name: object
    text: object


@dataclass(frozen=True, slots=True)
class _Record:
    line: int
    where: str
    values: Mapping[str, object]


def read_predictions(path: Path) -> Predictions:
    """Read a file of predictions: CSV, TSV, JSON lines (NeMo's too), JSON list, JSON map, Kaldi text or SCTK trn.

    An empty text and JSON's null mean that the recogniser wrote nothing.

    Raises
    ------
    InputError
        Where the file cannot be read, has no such form, lacks a column, holds a value that is no text, or holds
        two texts for one name.
    """
    form, entries = _read(path, read_text(path))
    return Predictions(path=path, sha256=sha256_file(path), form=form, entries=_collect(path, form, entries))


def match(names: Sequence[str], predictions: Predictions) -> Match:
    r"""Find the text of each recording, by its path without the extension of an audio file.

    `\` counts as `/`, and a leading `./` as nothing. A recording that has no text then gets one by the last part
    of its path, where that part is unique among the recordings and among the entries of the file.

    Raises
    ------
    InputError
        Where no recording has a text, or one text would go to two recordings, or two texts to one.

    Examples
    --------
    >>> entries = {"clips/a.mp3": Prediction("one two", 2)}
    >>> match(["a.wav", "b.wav"], Predictions(path=Path("p.tsv"), sha256="", form="table", entries=entries)).texts
    ('one two', None)
    """
    entries = _by_key(predictions)
    keys = [_key(name) for name in names]
    own, theirs = _unique_tails(keys), _unique_tails(entries)
    used = [key if key in entries else theirs.get(_tail(key)) if _tail(key) in own else None for key in keys]
    _check_shared(names, used, predictions)
    met = set(used)
    spare = [name for name in predictions.entries if _key(name) not in met]
    if names and len(spare) == len(predictions.entries):
        raise InputError(
            f"The file has no prediction for any of the {len(names)} recordings: "
            f"it names {_some(spare)}, the recordings are {_some(names)}.",
            where=str(predictions.path),
            hint="The names must be equal but for the audio file's extension, or in the last part of the path.",
        )
    texts = tuple(None if key is None else entries[key] for key in used)
    return Match(texts=texts, unused=len(spare), examples=tuple(spare[:_EXAMPLES]))


def _read(path: Path, text: str) -> tuple[str, Iterable[_Entry]]:
    suffix = path.suffix.lower()
    if suffix == ".trn":
        return "sctk trn", _trn(path, text)
    if suffix in (".json", *_JSON_LINES) or text.lstrip()[:1] in ("{", "["):
        return _json(path, text)
    if suffix in _TABLES or _is_header(text.split("\n", 1)[0]):
        rows = read_table(path).rows
        return "table", _select(path, [_Record(row.line, f"{path}:{row.line}", row.values) for row in rows])
    if suffix in _PLAIN:
        return "kaldi text", _kaldi(path, text)
    raise InputError(
        f"A file that ends in {suffix!r} and has no header is no known form of predictions.",
        where=str(path),
        hint="Give a table (.csv, .tsv), JSON (.json, .jsonl), Kaldi's text (.txt) or SCTK's trn (.trn).",
    )


def _is_header(line: str) -> bool:
    return _names_columns(cell.strip(' \r"') for cell in line.split("\t" if "\t" in line else ","))


def _names_columns(cells: Iterable[str]) -> bool:
    there = {cell.casefold() for cell in cells}
    return not there.isdisjoint(NAME_COLUMNS) and not there.isdisjoint(sum(TEXT_COLUMNS, ()))


def _kaldi(path: Path, text: str) -> Iterator[_Entry]:
    for line, content in _lines(text):
        name, *rest = content.split(maxsplit=1)
        yield _Entry(line, f"{path}:{line}", name, rest[0] if rest else "")


def _trn(path: Path, text: str) -> Iterator[_Entry]:
    for line, content in _lines(text):
        if content.startswith(";;"):
            continue
        where = f"{path}:{line}"
        parts = _TRN.match(content)
        if parts is None:
            raise InputError(
                "The line does not end in a name between brackets.", where=where, hint="Write: the words (name)"
            )
        yield _Entry(line, where, parts[2], parts[1].strip())


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for line, content in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        if content.strip():
            yield line, content.strip()


def _json(path: Path, text: str) -> tuple[str, Iterable[_Entry]]:
    lines = list(_lines(text))
    bare = text.lstrip()[:1] != "["
    if bare and len(lines) > 1 and (path.suffix.lower() in _JSON_LINES or _is_json(lines[0][1])):
        records = []
        for line, content in lines:
            where = f"{path}:{line}"
            records.append(_record(line, where, parse_json(content, where, once=True)))
        return "jsonl", _select(path, records)
    # Keys of a map that stand twice are told apart from those that differ, further down.
    value = parse_json(text, str(path), once=text.lstrip()[:1] == "[")
    if isinstance(value, list):
        items = enumerate(value, start=1)
        return "json list", _select(path, [_record(place, f"{path}, entry {place}", item) for place, item in items])
    record = _record(lines[0][0], f"{path}:{lines[0][0]}", value)
    if _names_columns(record.values):
        return "jsonl", _select(path, [record])
    return "json map", _map(path, text)


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
    for place, (name, value) in enumerate(pairs, start=1):
        where = f"{path}, key {name!r}"
        record = _Record(place, where, dict(value)) if isinstance(value, tuple) else None
        yield _Entry(place, where, name, _field(record, column) if record else value)


def _select(path: Path, records: Sequence[_Record]) -> Iterator[_Entry]:
    if not records:
        return
    columns = list(dict.fromkeys(name for record in records for name in record.values))
    lower = {column.casefold(): column for column in reversed(columns)}
    name = next((lower[usual] for usual in NAME_COLUMNS if usual in lower), None)
    if name is None:
        raise _no_column(path, "names the recording", NAME_COLUMNS, "path", columns)
    text = _text_column(path, columns)
    for record in records:
        yield _Entry(record.line, record.where, _field(record, name), _field(record, text))


def _text_column(path: Path, columns: Sequence[str]) -> str:
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
    raise _no_column(path, "holds the prediction", sum(TEXT_COLUMNS, ()), "prediction", columns)


def _no_column(path: Path, role: str, usual: Sequence[str], example: str, columns: Sequence[str]) -> InputError:
    return InputError(
        f"No column {role} (usual names: {', '.join(usual)}).",
        where=str(path),
        hint=f"Name it {example!r}. {suggest(example, columns)}",
    )


def _field(record: _Record, column: str) -> object:
    if column not in record.values:
        raise InputError(f"The entry has no {column!r}.", where=record.where, hint="Give every entry the same columns.")
    return record.values[column]


def _collect(path: Path, form: str, entries: Iterable[_Entry]) -> dict[str, Prediction]:
    found: dict[str, Prediction] = {}
    for entry in entries:
        name = _text(entry.name, "name of the recording", entry.where).strip()
        if not name:
            raise InputError("The entry names no recording.", where=entry.where, hint="Fill it in, or drop the entry.")
        text = _text("" if entry.text is None else entry.text, "prediction", entry.where)
        before = found.setdefault(name, Prediction(text, entry.line))
        if before.text != text:
            raise InputError(
                f"{name!r} stands twice with different texts: before in {_unit(form)} {before.line}.",
                where=entry.where,
                hint="Keep one of the two.",
            )
    if not found:
        raise InputError("The file holds no predictions.", where=str(path), hint="Give one for each recording.")
    return found


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


def _unit(form: str) -> str:
    return "entry" if form in ("json list", "json map") else "line"


def _key(name: str) -> str:
    path = name.strip().replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return _AUDIO.sub("", path)


def _tail(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _by_key(predictions: Predictions) -> dict[str, str]:
    first: dict[str, str] = {}
    entries = predictions.entries
    for name, prediction in entries.items():
        before = first.setdefault(_key(name), name)
        if entries[before].text != prediction.text:
            unit = _unit(predictions.form)
            raise InputError(
                f"{before!r} ({unit} {entries[before].line}) and {name!r} ({unit} {prediction.line}) are one "
                "recording by their names, but their texts differ.",
                where=str(predictions.path),
                hint="Keep one of the two.",
            )
    return {key: entries[name].text for key, name in first.items()}


def _unique_tails(keys: Iterable[str]) -> dict[str, str]:
    tails = [(_tail(key), key) for key in keys]
    times = Counter(tail for tail, _ in tails)
    return {tail: key for tail, key in tails if times[tail] == 1}


def _check_shared(names: Sequence[str], used: Sequence[str | None], predictions: Predictions) -> None:
    times = Counter(key for key in used if key is not None)
    shared = next((key for key, count in times.items() if count > 1), None)
    if shared is not None:
        owners = [name for name, key in zip(names, used, strict=True) if key == shared]
        raise InputError(
            f"One prediction would go to {len(owners)} recordings: {_some(owners)}.",
            where=f"{predictions.path}, {shared!r}",
            hint="Recordings, and parts of one, need names that differ by more than the audio file's extension.",
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:80]) for name in names[:_EXAMPLES]) + (", ..." if len(names) > _EXAMPLES else "")
