"""Which rows and columns does a file hold? CSV, TSV, JSON lines and JSON lists, read as text.

Nothing is guessed about meaning here: a row is a mapping of strings, with the line on which it begins. A file
that is not what its name says, or whose rows do not fit its header, is refused with the line that shows it.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from probes.errors import InputError
from probes.loading.sniffing import impostor

_JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the line on which it begins, its values by column (None: JSON null), and its file.

    `source` is None where that is the table's own file.
    """

    line: int
    values: Mapping[str, str | None]
    source: Path | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """What a file holds; `sources` are all files that it was made of."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    sources: tuple[Path, ...]


def read_table(path: Path) -> Table:
    """Read a table; its form follows from its suffix, or from its first line where the suffix says nothing.

    Raises
    ------
    InputError
        Where the file cannot be read, is not UTF-8 text, is empty, or a row does not fit.
    """
    text = read_text(path)
    if path.suffix.lower() in _JSON_SUFFIXES or text.lstrip()[:1] in ("{", "["):
        rows = list(_json_rows(path, text))
        columns: tuple[str, ...] = tuple(dict.fromkeys(name for row in rows for name in row.values))
    else:
        columns, rows = _delimited(path, text)
    if not rows:
        raise InputError(
            "The file has a header but no rows." if columns else "The file holds no rows.",
            where=str(path),
            hint="Give a table with a header and rows.",
        )
    return Table(path=path, columns=columns, rows=tuple(rows), sources=(path,))


def read_text(path: Path) -> str:
    """Return a text file, decoded from UTF-8 with or without a byte order mark.

    Raises
    ------
    InputError
        Where it is missing, a folder, unreadable, empty, binary or in another encoding.
    """
    where = str(path)
    try:
        # A pipe or a device is refused unopened: reading it might never end.
        if not (path.is_file() or path.is_dir()) and path.exists():
            raise InputError("This is not an ordinary file.", where=where, hint="Name a file with the text in it.")
        data = path.read_bytes()
    except FileNotFoundError:
        near = nearest_name(path)
        raise InputError(
            "There is no such file.", where=where, hint=f"Did you mean {near}?" if near else "Check the path."
        ) from None
    except IsADirectoryError:
        raise InputError("This is a folder, not a file.", where=where, hint="Name the file in it.") from None
    except (OSError, ValueError) as error:
        # The text of an error of the system ends with the path, which stands in `where`.
        why = getattr(error, "strerror", None) or error
        raise InputError(f"The file cannot be read: {why}.", where=where, hint="Check the path.") from error
    return _decode(data, where)


def nearest_name(path: Path) -> str | None:
    """Return the name beside a missing path that is most like it: the same stem first, then by spelling."""
    try:
        names = sorted(item.name for item in path.parent.iterdir())
    except OSError:
        return None
    same = [name for name in names if name.casefold() == path.name.casefold()]
    same += [name for name in names if Path(name).stem == path.stem]
    # Comparing spellings is slow; among very many names the first letters narrow the choice.
    pool = names if len(names) <= 5000 else [name for name in names if name[:3] == path.name[:3]][:5000]
    found = same or get_close_matches(path.name, pool, n=1)
    return found[0] if found else None


def suggest(name: str, names: Sequence[str]) -> str:
    """Return a hint that lists the names that are there, the nearest one first if there is one.

    >>> suggest("gendre", ["path", "gender"])
    "Did you mean 'gender'? There are: path, gender."
    """
    lower = {item.casefold(): item for item in names}
    close = get_close_matches(name.casefold(), list(lower), n=1)
    shown = ", ".join(names[:40]) + (", ..." if len(names) > 40 else "")
    return (f"Did you mean {lower[close[0]]!r}? " if close else "") + f"There are: {shown or 'none'}."


def _decode(data: bytes, where: str) -> str:
    disguise = impostor(data[:512])
    if disguise:
        raise InputError(f"This is {disguise.what}, not a table.", where=where, hint=disguise.hint)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("The text is in UTF-16.", where=where, hint="Save it as UTF-8.")
    if b"\x00" in data:
        line = data.count(b"\n", 0, data.index(b"\x00")) + 1
        raise InputError(
            "The file holds a NUL byte: it is not text.",
            where=f"{where}:{line}",
            hint="Give a CSV, TSV or JSON file.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"The byte 0x{data[error.start]:02x} is not UTF-8 text.",
            where=f"{where}:{line}",
            hint="Save it as UTF-8.",
        ) from None
    if not text.strip():
        raise InputError("The file is empty.", where=where, hint="Give a table with a header and rows.")
    return text


def _delimited(path: Path, text: str) -> tuple[tuple[str, ...], list[Row]]:
    first = text.split("\n", 1)[0]
    tabs = path.suffix.lower() in (".tsv", ".tab") or (path.suffix.lower() != ".csv" and "\t" in first)
    # The corpora's TSV files hold bare quotation marks, which no rule of quoting survives.
    records = _records(path, text, tabs=tabs)
    header_line, header = next(records)
    columns = tuple(name.strip() or f"column {place}" for place, name in enumerate(header, start=1))
    twice = next((name for name, times in Counter(columns).items() if times > 1), None)
    if twice is not None:
        raise InputError(
            f"The column {twice!r} stands twice in the header.",
            where=f"{path}:{header_line}",
            hint="Give every column a name of its own.",
        )
    rows = []
    for line, record in records:
        if len(record) != len(columns):
            raise InputError(
                f"The row has {len(record)} fields, the header {len(columns)}.",
                where=f"{path}:{line}",
                hint="Every row needs as many fields as the header. "
                + ("A tab separates fields." if tabs else "Put a text that holds a comma between quotation marks."),
            )
        rows.append(Row(line, dict(zip(columns, record, strict=True))))
    return columns, rows


def _records(path: Path, text: str, *, tabs: bool) -> Iterator[tuple[int, list[str]]]:
    stream = io.StringIO(text, newline="")
    reader = csv.reader(
        stream, strict=True, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
    )
    line = 1
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"The row cannot be read: {error}.",
                where=f"{path}:{line}",
                hint="A quotation mark may be open: inside a quoted text it is written twice.",
            ) from None
        if record and (len(record) > 1 or record[0].strip()):
            yield line, record
        line = reader.line_num + 1


def _json_rows(path: Path, text: str) -> Iterator[Row]:
    if text.lstrip()[:1] == "[":
        values = parse_json(text, str(path), once=True)
        if not isinstance(values, list):
            raise InputError(
                "The file is not a list of objects.", where=str(path), hint='Write [{"path": ..., ...}, ...].'
            )
        for place, value in enumerate(values, start=1):
            yield Row(place, _object(value, f"{path}, entry {place}"))
        return
    for line, content in enumerate(text.split("\n"), start=1):
        if content.strip():
            where = f"{path}:{line}"
            yield Row(line, _object(parse_json(content, where, once=True), where))


def parse_json(text: str, where: str, *, once: bool = False) -> object:
    """Return the value of a JSON text; with `once`, no key may stand twice in one object.

    Raises
    ------
    InputError
        Where it is no JSON, or nested or long beyond what can be read.
    """
    try:
        value: object = json.loads(text, object_pairs_hook=_once if once else None)
        if "\\u" in text and not _is_text(value):
            raise InputError("A \\u escape stands for no character of a text.", where=where, hint="Remove it.")
        return value
    except json.JSONDecodeError as error:
        place = f", line {error.lineno}" if error.lineno > 1 else ""
        raise InputError(
            f"This is not JSON: {error.msg} (column {error.colno}{place}).",
            where=where,
            hint="Write one object a line (JSONL), or one list of objects.",
        ) from None
    except (ValueError, RecursionError) as error:
        hint = "Write flat objects, one a line, with every key once."
        raise InputError(f"The JSON cannot be read: {error}.", where=where, hint=hint) from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON whose keys stand once each; of two, nobody could say which one was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise ValueError(f"the key {twice[:60]!r} stands twice in one object")
    return found


def _is_text(value: object) -> bool:
    """Tell whether every string can stand in a file name and be written as UTF-8: no NUL, no lone surrogate."""
    if isinstance(value, dict):
        return all(_is_text(key) and _is_text(item) for key, item in value.items())
    if isinstance(value, list):
        return all(_is_text(item) for item in value)
    return not isinstance(value, str) or ("\0" not in value and value == value.encode("utf-8", "replace").decode())


def _object(value: object, where: str) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise InputError(
            f"The entry is a {type(value).__name__}, not an object.",
            where=where,
            hint='Write {"path": ..., ...}.',
        )
    return {name.strip(): json_text(item) for name, item in value.items()}


def json_text(value: object) -> str | None:
    """Return a JSON value as it would stand in a CSV file.

    >>> json_text(25.0), json_text(True), json_text(None), json_text([1])
    ('25', 'true', None, '[1]')
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
