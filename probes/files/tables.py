"""Which rows and columns does a file hold? CSV, TSV, JSON lines and JSON lists, read as text.

Nothing is guessed about meaning here: a row is a mapping of strings, with the line on which it begins. A file
that is not what its name says, or whose rows do not fit its header, is refused with the line that shows it.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from probes.errors import InputError
from probes.files.arrow import is_arrow, read_arrow
from probes.files.json_values import json_text, parse_json
from probes.files.text import read_text

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
    if is_arrow(path):
        return _arrow_table(path)
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


def _arrow_table(path: Path) -> Table:
    columns, values = read_arrow(path)
    rows = tuple(Row(line, dict(zip(columns, row, strict=True))) for line, row in enumerate(values, start=1))
    if not rows:
        raise InputError("The table has columns but no rows.", where=str(path), hint="Give a table with rows.")
    return Table(path=path, columns=columns, rows=rows, sources=(path,))


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


def _object(value: object, where: str) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise InputError(
            f"The entry is a {type(value).__name__}, not an object.",
            where=where,
            hint='Write {"path": ..., ...}.',
        )
    return {name.strip(): json_text(item) for name, item in value.items()}
