"""Columns of cells in little memory: what goes in comes out, and a row of a large table takes few bytes."""

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from probes.core.errors import InputError
from probes.files import cells as module
from probes.files.cells import BLOCK, Cell, Cells, Coded
from probes.files.table_rows import Row, Rows
from probes.files.tables import read_table

MOST_BYTES = 220
"""Bytes that a row may take: 130 of text, 4 for each of 6 cells, 8 for its line, and the tables of distinct texts."""
MANY = 20_000

COLUMNS: dict[str, Sequence[Cell]] = {
    "few": ["a", "b", "", None] * 5000,
    "many": [f"text {number}" for number in range(MANY)],
    "beyond ASCII": [f"é{number}ß" if number % 3 else str(number) for number in range(MANY)],
    "nulls": [None if number % 7 == 0 else f"{number}" for number in range(MANY)],
    "half of a pair": ["\ud800" + str(number) for number in range(MANY)],
    "none": [],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_cells_come_out_as_they_went_in(name: str) -> None:
    given = COLUMNS[name]
    cells = Cells(given)
    assert len(cells) == len(given) and list(cells) == list(given) and cells == given
    for at in (0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5, -1):
        if given:
            assert cells[at] == given[at]
    assert cells[5:9] == given[5:9]
    levels, codes = cells.coded()
    assert [levels[code] for code in codes.tolist()] == list(given)
    assert levels == list(dict.fromkeys(given))


def test_cells_that_are_added_in_blocks_of_any_size_are_the_same() -> None:
    given = COLUMNS["nulls"]
    cells, at = Cells(), 0
    for size in (1, 5000, 0, 4095, 4097, 6807):
        cells.add(given[at : at + size])
        at += size
    assert at == MANY and cells == given


def test_a_place_that_is_not_there_is_an_error() -> None:
    with pytest.raises(IndexError):
        Cells(["a"])[1]
    with pytest.raises(IndexError):
        Cells(["a"])[-2]


@pytest.mark.parametrize("name", ["few", "many", "nulls"])
def test_cells_at_places_are_taken(name: str) -> None:
    given = COLUMNS[name]
    places = np.random.default_rng(0).integers(-1, MANY, 3 * BLOCK)
    assert Cells(given).take(places) == [None if at < 0 else given[at] for at in places.tolist()]


def test_a_column_of_many_levels_is_packed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KNOWN", 100)
    given = [str(number % 150) for number in range(2 * BLOCK)]
    assert Cells(given) == given


def test_levels_are_counted_and_found() -> None:
    column = Coded.of(["f", "m", None, "f"])
    assert column.count("f") == 2 and column.count("x") == 0
    assert column.is_("m").tolist() == [False, True, False, False]
    assert column.take(np.array([1, 2])).present() == {"m", None}


def test_rows_of_objects_keep_what_they_lack() -> None:
    objects = [Row(1, {"a": "1"}), Row(2, {"b": "2", "a": None}), Row(4, {"c": "3"})]
    rows = Rows()
    for row in objects:
        rows.add_rows([row])
    assert list(rows) == objects == [rows[at] for at in range(3)] and rows[-1] == objects[-1]
    assert rows[1:] == tuple(objects[1:]) and list(rows.columns) == ["a", "b", "c"]


TABLES = {
    "m.csv": 'path,text\na.wav,"one\ntwo"\n\nb.wav,three\n',
    "m.jsonl": '{"path": "a.wav", "n": 1}\n{"text": null, "path": "b.wav"}\n',
    "m.json": json.dumps([{"path": "a.wav"}, {"text": "b"}]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_lean_table_has_the_rows_of_any_other(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(TABLES[name], encoding="utf-8")
    plain, lean = read_table(path), read_table(path, lean=True)
    assert list(lean.rows) == list(plain.rows) and lean.columns == plain.columns


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl"])
def test_a_lean_table_that_is_too_large_is_refused_at_the_same_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    line = "{},b\n" if name == "m.csv" else '{{"path": "{}"}}\n'
    path.write_text("path,text\n" * (name == "m.csv") + "".join(line.format(at) for at in range(50)))
    refused = []
    for lean in (False, True):
        with pytest.raises(InputError) as caught:
            read_table(path, most_rows=20, lean=lean)
        refused.append((caught.value.message, caught.value.where))
    assert refused[0] == refused[1]


def test_a_row_of_a_large_table_takes_few_bytes(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    with path.open("w") as file:
        file.write("path,text,speaker,gender,accent,age\n")
        for at in range(MANY):
            said = " ".join(f"word{at * 7 + place}" for place in range(10))
            file.write(f"clips/common_voice_{at:08d}.mp3,{said},speaker{at % 400:04d},{'fm'[at % 2]},us,{at % 60}\n")
    tracemalloc.start()
    try:
        table = read_table(path, lean=True)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table.rows) == MANY
    assert held / MANY < MOST_BYTES
