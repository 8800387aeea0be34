"""Tables by declared columns, in every form of file."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bad_cells import bad_cells

from audits.interference import loss_rows
from audits.membership import score_tables
from audits.scaling import growth_tables
from probes.core.errors import InputError
from probes.files import schemas
from probes.files.schemas import Column, OneOf, Schema, SchemaReader

SCHEMA = Schema(
    columns=(
        Column(name="id", required=True),
        Column(name="loss", kind="number", family=True, least=0, most=10, refusal="is no loss"),
        Column(name="score", kind="number", aliases=("points",), missing=True),
        Column(name="seed", kind="whole", refusal="is no seed"),
        Column(name="in", kind="flag", refusal="is neither"),
        Column(name="out", kind="flag"),
    ),
    one_of=(OneOf("what is measured", ("loss", "score"), several=True), OneOf("sides", ("in", "out"))),
    most_rows=5,
    hint="Name the columns.",
)
ROWS = [["a", "1.5", "", "3.0", "true"], ["b", "2", "-inf", "-4", "0"]]
NAMES = ["ID", "Loss_x", "points", "seed", "in"]


def write(folder: Path, name: str, rows: list[list[str]], names: list[str] = NAMES) -> Path:
    path = folder / name
    separator = {".csv": ",", ".tsv": "\t", ".txt": ";"}.get(path.suffix)
    if separator:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=separator).writerows([names, *rows])
        return path
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    path.write_text(json.dumps(objects) if path.suffix == ".json" else "\n".join(map(json.dumps, objects)))
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt", "t.json", "t.jsonl"])
def test_every_form_gives_the_same_columns(tmp_path: Path, name: str) -> None:
    reader = SchemaReader(write(tmp_path, name, ROWS), SCHEMA)
    assert {there: column.name for there, column in reader.columns.items()} == {
        "id": "id", "loss_x": "loss", "points": "score", "seed": "seed", "in": "in"
    }  # fmt: skip
    (block,) = reader.blocks()
    assert block.texts("id") == ["a", "b"] and block.numbers("loss_x").tolist() == [1.5, 2]
    np.testing.assert_array_equal(block.numbers("points"), [np.nan, -np.inf])
    assert block.wholes("seed").tolist() == [3, -4] and block.flags("in").tolist() == [True, False]
    assert [*block.lines] == ([1, 2] if "json" in name else [2, 3])
    assert reader.form.startswith({"csv": "CSV", "tsv": "TSV", "txt": "CSV"}.get(name[2:], "JSON"))


def test_decimal_commas_need_semicolons(tmp_path: Path) -> None:
    (block,) = SchemaReader(write(tmp_path, "t.txt", [["a", "1,5", "2,25", "3", "1"]]), SCHEMA).blocks()
    assert (block.numbers("loss_x")[0], block.numbers("points")[0]) == (1.5, 2.25)
    with pytest.raises(InputError, match="'2,x' is not a number"):
        wrong = [["a", "1,5", "2,x", "3", "1"]]
        [block.numbers("points") for block in SchemaReader(write(tmp_path, "t.txt", wrong), SCHEMA).blocks()]
    (block,) = SchemaReader(write(tmp_path, "t.tsv", [["a", "1,5", "", "3", "1"]]), SCHEMA).blocks()
    with pytest.raises(InputError, match="'1,5' is no loss"):
        block.numbers("loss_x")


@pytest.mark.parametrize(
    ("cells", "said", "line"),
    [
        (["1.5", "1,234"], "'1,234' has a decimal comma, and other numbers of loss_x have a point.", 3),
        (["0,5", "3", "1.234"], "'1.234' has a decimal point, and other numbers of loss_x have a comma.", 4),
        (["2", "1,234", "2,345"], "'1,234' of loss_x may be 1234 or 1.234: every comma in this column has three", 3),
    ],
)
@pytest.mark.parametrize("apart", [0, 10_000])
def test_semicolons_do_not_make_a_thousand_one(
    tmp_path: Path, cells: list[str], said: str, line: int, apart: int
) -> None:
    rows = [["a", cell, "", "3", "1"] for cell in (cells[0], *["4"] * apart, *cells[1:])]
    schema = replace(SCHEMA, most_rows=20_000)
    with pytest.raises(InputError) as refused:
        for block in SchemaReader(write(tmp_path, "t.txt", rows), schema).blocks():
            block.numbers("loss_x")
    assert refused.value.message.startswith(said) and refused.value.hint
    assert refused.value.where == f"{tmp_path / 't.txt'}:{line + apart}, loss_x"


def test_one_comma_that_is_decimal_tells_how_a_column_is_written(tmp_path: Path) -> None:
    rows = [["a", cell, "", "3", "1"] for cell in ("1,234", "2", "2,5")]
    (block,) = SchemaReader(write(tmp_path, "t.txt", rows), SCHEMA).blocks()
    assert block.numbers("loss_x").tolist() == [1.234, 2, 2.5]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("column", "cell"),
    [
        pytest.param(column, cell, id=f"{column.name}-{cell}")
        for column in SCHEMA.columns[:-1]
        for cell in bad_cells(column)
    ],
)
def test_a_cell_of_another_type_is_named(tmp_path: Path, form: str, column: Column, cell: str) -> None:
    at = SCHEMA.columns.index(column)
    good = ["a", "1", "1", "3", "1"]
    path = write(tmp_path, f"t.{form}", [good, [*good[:at], cell, *good[at + 1 :]]])
    (block,) = SchemaReader(path, SCHEMA).blocks()
    name = NAMES[at].casefold()
    with pytest.raises(InputError) as refused:
        {"number": block.numbers, "whole": block.wholes, "flag": block.flags}[column.kind](name)
    assert refused.value.message == f"{cell!r} {column.refusal}." and refused.value.hint
    assert refused.value.where == f"{path}:{3 if form == 'csv' else 2}, {name}"


DECLARED = {
    "losses": (
        loss_rows.SCHEMA,
        {"lang": "text", "with": "text", "loss": "0 to 1e+12", "seed": "whole", "sentence": "text",
         "weight": "0 to 1e+12", "bytes": "0 to 1e+12", "masked": "0 to 1e+12"},
    ),
    "growth": (
        growth_tables.SCHEMA,
        {"target": "text", "n": "whole", "round": "whole",
         **dict.fromkeys(("seconds", "bytes", "state_bytes", "operations"), "number or missing")},
    ),
    "scores": (
        score_tables.SCHEMA,
        {"score": "number or missing", "loss": "number or missing", "member": "flag", "memberships": "flag",
         "included": "flag", "id": "text", "group": "text", "include_prob": "number or missing"},
    ),
}  # fmt: skip
"""Every schema of the house, and what each of its columns takes; the cells that a kind refuses are in bad_cells."""


@pytest.mark.parametrize("name", DECLARED)
def test_columns_are_declared_of_their_kind(name: str) -> None:
    schema, kinds = DECLARED[name]
    assert {column.name: kind_of(column) for column in schema.columns} == kinds


def kind_of(column: Column) -> str:
    if column.kind != "number":
        return column.kind
    return "number or missing" if column.missing else f"{column.least:g} to {column.most:g}"


def test_no_schema_is_left_out() -> None:
    root = Path(schemas.__file__).parents[2]
    holding = {
        path.stem
        for floor in ("audits", "probes", "miles_cli")
        for path in (root / floor).rglob("*.py")
        if re.search(r"^SCHEMA = Schema\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert holding == {"growth_tables", "loss_rows", "score_tables"} and len(DECLARED) == len(holding)


@pytest.mark.parametrize("cell", ["NaN", "Infinity", "1e999", "true", "null", "[1]", '"x"', "{}"])
def test_json_has_no_better_numbers(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"id": "a", "loss": 1, "in": 1}}\n{{"id": "b", "loss": {cell}, "in": 1}}')
    with pytest.raises(InputError) as refused:
        [block.numbers("loss") for block in SchemaReader(path, SCHEMA).blocks()]
    assert refused.value.where == f"{path}:2, loss" and refused.value.hint


def test_what_is_not_asked_for_is_not_read(tmp_path: Path) -> None:
    (block,) = SchemaReader(write(tmp_path, "t.csv", [["a", "x", "1", "3", "1"], *ROWS[1:]]), SCHEMA).blocks()
    assert block.numbers("loss_x", only=np.array([False, True])).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["name", "loss", "in"], "There is no column 'id'."),
        (["id", "weight", "in"], "Columns of what is measured: none; of sides: in."),
        (["id", "loss", "side"], "Columns of what is measured: loss; of sides: none."),
        (["id", "loss", "in", "OUT"], "Columns of what is measured: loss; of sides: in, out."),
        (["id", "loss", "Loss", "in"], "The column 'loss' stands twice in the header."),
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path: Path, names: list[str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        SchemaReader(write(tmp_path, "t.csv", [["1"] * len(names)], names), SCHEMA)
    assert refused.value.message == said and refused.value.where.endswith("t.csv:1") and refused.value.hint


def test_there_is_a_row_and_not_too_many(tmp_path: Path) -> None:
    for count, said in ((0, "no rows"), (6, "more than 5 rows")):
        with pytest.raises(InputError, match=said):
            [*SchemaReader(write(tmp_path, "t.csv", ROWS[:1] * count), SCHEMA).blocks()]
    assert sum(map(len, SchemaReader(write(tmp_path, "t.csv", ROWS[:1] * 5), SCHEMA).blocks())) == 5
    reader = SchemaReader(write(tmp_path, "t.csv", [[*row, "x"] for row in ROWS], [*NAMES, "Note"]), SCHEMA)
    assert {*reader.names} - {*reader.columns} == {"note"} and sum(map(len, reader.blocks())) == 2
