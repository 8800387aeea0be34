"""Cells of tables that are no number where one is asked for: each reader refuses them, with line and column."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from bad_cells import NO_NUMBERS, NOT_FINITE

from audits.certification.logs import read_log
from audits.interference.language_tables import read_downstream, read_similarity
from audits.phoneme_errors.tokens import read_tokens
from probes.core.errors import InputError
from probes.speech.manifests import ColumnMap, read_manifest

INFINITE = tuple(cell for cell in NOT_FINITE if cell and "nan" not in cell.casefold())
"""What is refused where an empty cell, or `nan`, only says that a number is missing."""


@dataclass(frozen=True)
class Reader:
    """How a kind of table is read, a row that it takes, how the next row differs, and what a column refuses."""

    read: Callable[[Path], object]
    row: dict[str, str]
    next: dict[str, str]
    bad: dict[str, tuple[str, ...]]
    spot: str = ", column {}"
    separator: str = ","


def clips(path: Path) -> object:
    columns = ColumnMap(start="from", end="to")
    return read_manifest(path, columns=columns, by=(), values=None, bins={}, needs=frozenset({"path"}))


WHOLE = (*NO_NUMBERS, *NOT_FINITE, "1.5", "1e3")
READERS = {
    "parts of recordings": Reader(
        clips,
        {"path": "a.wav", "from": "1", "to": "2"},
        {"path": "b.wav"},
        {"from": (*NO_NUMBERS, *NOT_FINITE, "-1", "2"), "to": (*NO_NUMBERS, *NOT_FINITE, "-1", "1")},
        spot="",
    ),
    "similarity of pairs": Reader(
        lambda path: read_similarity(path, ["en", "fr"]),
        {"a": "en", "b": "fr", "x": "1"},
        {"a": "fr", "b": "en"},
        {"x": (*NO_NUMBERS, *INFINITE)},
        spot=", {}",
    ),
    "scores of languages": Reader(
        lambda path: read_downstream(path, ["en", "fr"]),
        {"code": "en", "x": "1"},
        {"code": "fr"},
        {"x": (*NO_NUMBERS, *INFINITE)},
        spot=", {}",
    ),
    "phone tokens": Reader(
        lambda path: read_tokens(path, by=()),
        {"phone": "a", "speaker": "s", "x0": "1", "x1": "2"},
        {},
        {"x0": NO_NUMBERS, "x1": NO_NUMBERS},
    ),
    "logs of certification": Reader(
        read_log,
        {"idx": "20", "label": "3", "predict": "3", "radius": "0.3", "correct": "1", "time": "1.0"},
        {"idx": "40"},
        {
            **dict.fromkeys(("idx", "label", "predict", "correct"), WHOLE),
            **dict.fromkeys(("radius", "time"), (*NO_NUMBERS, *NOT_FINITE, "-0.3")),
        },
        separator="\t",
    ),
}
"""Readers of numbers without a declared schema (those are in test_schemas; counts in test_group_counts)."""
CASES = [(name, column, cell) for name, one in READERS.items() for column, cells in one.bad.items() for cell in cells]


@pytest.mark.parametrize(("name", "column", "cell"), CASES)
def test_a_cell_that_is_no_number_is_refused_by_line_and_column(
    tmp_path: Path, name: str, column: str, cell: str
) -> None:
    reader, path = READERS[name], tmp_path / "table.csv"
    other = reader.row | reader.next
    write(path, reader, reader.row, other)
    reader.read(path)
    write(path, reader, reader.row, other | {column: cell})
    with pytest.raises(InputError) as refused:
        reader.read(path)
    assert refused.value.where.startswith(f"{path}:3{reader.spot.format(column)}") and refused.value.hint
    assert not reader.spot or repr(cell) in refused.value.message or not cell


def write(path: Path, reader: Reader, *rows: dict[str, str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(reader.row), delimiter=reader.separator)
        table.writeheader()
        table.writerows(rows)
