"""The decimal mark that a user names, `--decimal`: in every kind of table of numbers, and contradicted by its cells."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.interference.loss_rows import read_rows
from audits.membership.membership_scores import ScoreSet, read_scores
from audits.phoneme_errors.tokens import read_tokens
from probes.core.errors import InputError
from probes.files.decimals import mark_hint
from probes.files.tables import read_table
from probes.speech.manifests import ColumnMap, Manifest, read_manifest


def write(folder: Path, rows: list[list[str]], name: str = "t.csv", separator: str = ",") -> Path:
    """Write a table; a cell that holds the separator stands between quotation marks."""
    lines = [separator.join(f'"{cell}"' if separator in cell else cell for cell in row) for row in rows]
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


FORMS = [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t")]


def scores(path: Path, decimal: str | None) -> ScoreSet:
    found = read_scores(path, higher_is="member", target=None, decimal=decimal)
    assert isinstance(found, ScoreSet)
    return found


def manifest(path: Path, decimal: str | None) -> Manifest:
    return read_manifest(
        path,
        columns=ColumnMap(start="from", end="to"),
        by=("age",),
        values=None,
        bins={"age": (0, 1, 2)},
        needs=frozenset(),
        decimal=decimal,
    )


@pytest.mark.parametrize(("name", "separator"), FORMS)
def test_scores_have_the_named_mark(tmp_path: Path, name: str, separator: str) -> None:
    # Three digits behind every comma: without the mark they may be thousands.
    cells = [("1.234", "1"), ("2.500", "0"), ("3", "1"), ("-1.125", "0")]
    plain = scores(write(tmp_path, [["score", "member"], *map(list, cells)], "plain.csv"), None)
    path = write(
        tmp_path, [["score", "member"], *([one.replace(".", ","), two] for one, two in cells)], name, separator
    )
    found = scores(path, ",")
    assert np.array_equal(found.scores["score"], plain.scores["score"])
    assert any("umbers have decimal commas" in note for note in found.notes)
    with pytest.raises(InputError, match=r"may be|is not a number"):
        scores(path, None)
    points = write(tmp_path, [["score", "member"], *map(list, cells)], name, separator)
    assert np.array_equal(scores(points, ".").scores["score"], plain.scores["score"])


@pytest.mark.parametrize(("name", "separator"), FORMS)
@pytest.mark.parametrize(("decimal", "wrong", "right"), [(",", "1.5", "1,5"), (".", "1,5", "1.5")])
def test_a_cell_that_contradicts_the_mark_is_refused_with_line_and_column(
    tmp_path: Path, name: str, separator: str, decimal: str, wrong: str, right: str
) -> None:
    words = {".": "point", ",": "comma"}
    other = "," if decimal == "." else "."
    said = f"{wrong!r} has a {words[other]}, and --decimal says that numbers have a decimal {words[decimal]}."
    rows = [["score", "member"], [right, "1"], [right, "0"], [wrong, "1"]]
    for read in (scores, lambda path, mark: read_table(path, mark).with_points(["score"])):
        with pytest.raises(InputError) as caught:
            read(write(tmp_path, rows, name, separator), decimal)
        assert caught.value.message == said and caught.value.where == f"{tmp_path / name}:4, score"


@pytest.mark.parametrize(("name", "separator"), FORMS)
def test_manifests_have_the_named_mark(tmp_path: Path, name: str, separator: str) -> None:
    head = ["path", "from", "to", "age"]
    rows = [["a.wav", "0.250", "1.500", "1.500"], ["b.wav", "1.125", "2.750", "0.125"]]
    plain = manifest(write(tmp_path, [head, *rows]), None)
    commas = [[row[0], *(cell.replace(".", ",") for cell in row[1:])] for row in rows]
    path = write(tmp_path, [head, *commas], name, separator)
    found = manifest(path, ",")
    assert [(clip.start, clip.end, clip.attributes) for clip in found.clips] == [
        (clip.start, clip.end, clip.attributes) for clip in plain.clips
    ]
    assert any("umbers have decimal commas" in text for text in found.form)
    with pytest.raises(InputError, match="--decimal says") as caught:
        manifest(path, ".")
    assert caught.value.where == f"{path}:2, from"


@pytest.mark.parametrize(("name", "separator"), FORMS)
def test_tokens_have_the_named_mark(tmp_path: Path, name: str, separator: str) -> None:
    head, labels = ["phone", "speaker", "x0", "x1"], [["a", "s"], ["b", "s"], ["a", "t"]]
    numbers = [["1.250", "2.000"], ["3", "NA"], ["1.125", "4.500"]]
    plain = read_tokens(write(tmp_path, [head, *map(list.__add__, labels, numbers)]), by=())
    commas = [[cell.replace(".", ",") for cell in row] for row in numbers]
    path = write(tmp_path, [head, *map(list.__add__, labels, commas)], name, separator)
    found = read_tokens(path, by=(), decimal=",")
    assert next(found.vectors.chunks(0, 9)).tobytes() == next(plain.vectors.chunks(0, 9)).tobytes()
    commas[2][1] = "4.5"
    with pytest.raises(InputError, match=r"'4\.5' has a point, and --decimal says") as caught:
        read_tokens(write(tmp_path, [head, *map(list.__add__, labels, commas)], name, separator), by=(), decimal=",")
    assert caught.value.where == f"{path}:4, x1"


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_lone_point_is_a_decimal_point_and_lone_commas_of_thousands_are_unclear(
    tmp_path: Path, separator: str
) -> None:
    points = write(tmp_path, [["v", "g"], ["1.000", "a"], ["2.000", "b"]], separator=separator)
    assert [float(str(row.values["v"])) for row in read_table(points).with_points(["v"]).rows] == [1, 2]
    with pytest.raises(InputError, match="has a point, and --decimal says"):
        read_table(points, ",").with_points(["v"])
    if separator == ";":
        commas = write(tmp_path, [["v", "g"], ["1,000", "a"], ["2,000", "b"]], separator=separator)
        with pytest.raises(InputError, match="may be 1000 or 1"):
            read_table(commas).with_points(["v"])


def test_words_are_left_alone_and_a_named_point_needs_no_commas(tmp_path: Path) -> None:
    path = write(tmp_path, [["text", "age"], ["1.5 km", "2,5"], ["1,5", "3"]], separator=";")
    table = read_table(path, ",").with_points(["age"])
    assert [dict(row.values) for row in table.rows] == [
        {"text": "1.5 km", "age": "2.5"}, {"text": "1,5", "age": "3"}
    ]  # fmt: skip
    assert read_table(path, ".").notes == ("Fields are separated by semicolons; numbers have decimal points.",)


def test_a_file_whose_numbers_have_types_has_no_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"score": 1.5, "member": 1}) + "\n" + json.dumps({"score": 0.5, "member": 0}) + "\n")
    np.savez(tmp_path / "t.npz", scores=np.ones(2), member=np.array([True, False]))
    for read in (scores, read_table):
        with pytest.raises(InputError, match="neither CSV nor TSV") as caught:
            read(path, ",")
        assert caught.value.where == f"{path}, --decimal"
        read(path, ".")
    for file in (tmp_path / "t.npz", tmp_path):
        with pytest.raises(InputError, match="neither CSV nor TSV"):
            scores(file, ",")
    with pytest.raises(InputError, match="neither CSV nor TSV"):
        read_tokens(tmp_path / "t.npz", by=(), decimal=",")


ALONE = "separate thousands: write all numbers of the column without such marks"


@pytest.mark.parametrize(
    ("text", "comma", "named", "said"),
    [
        ("2,31", False, None, "Its comma may be the decimal mark: write 2.31, or say --decimal , if"),
        ("1,234", False, None, "It may be 1234 or 1.234: write the one that is meant, or say --decimal , if"),
        ("1.234.567", False, None, f"Its points {ALONE}, this one as 1234567."),
        ("-1,234,567", False, None, f"Its commas {ALONE}, this one as -1234567."),
        ("1.234,5", False, None, f"Its points {ALONE}, this one as 1234.5."),
        ("1,234.5", False, None, f"Its commas {ALONE}, this one as 1234.5."),
        # Between semicolons either mark may be the decimal one.
        ("1.234,5", True, None, f"Its points {ALONE}."),
        ("1,234.5", True, None, f"Its commas {ALONE}."),
        ("1,234.5", True, ",", f"Its commas {ALONE}, this one as 1234,5."),
        ("1.234.567", True, None, f"Its points {ALONE}, this one as 1234567."),
        ("2" * 60 + ",5", False, None, ""),
        ("2,31", True, None, ""),
        ("2,31", False, ".", "Its comma may be the decimal mark: write 2.31."),
        ("1.234", False, None, ""),
        ("0.125.000", False, None, ""),
        ("1.2.3", False, None, ""),
        ("a,b", False, None, ""),
    ],
)
def test_hints_say_how_a_number_is_written(text: str, comma: bool, named: str | None, said: str) -> None:
    found = mark_hint(f" {text} ", comma, named, option=True)
    assert found.startswith(said) and bool(found) == bool(said)
    assert ("--decimal" in found) == ("--decimal" in said)


@pytest.mark.parametrize("cell", ["2,31", "1,234"])
def test_a_refusal_names_the_option_where_the_command_has_it(tmp_path: Path, cell: str) -> None:
    def hint(read: Any, rows: list[list[str]]) -> str:
        with pytest.raises(InputError, match=r"is not a number|not both seconds|is no loss") as caught:
            read(write(tmp_path, rows, "t.tsv", "\t"))
        return caught.value.hint

    named = "say --decimal ,"
    assert named in hint(lambda path: scores(path, None), [["score", "member"], [cell, "1"], ["1", "0"]])
    head = ["path", "from", "to", "age"]
    assert named in hint(lambda path: manifest(path, None), [head, ["a.wav", "0.5", cell, "1"]])
    tokens = [["phone", "speaker", "x0"], ["a", "s", "1"], ["b", "s", cell]]
    assert named in hint(lambda path: read_tokens(path, by=()), tokens)
    # Losses have no such option.
    said = hint(read_rows, [["lang", "with", "loss"], ["en", "en", cell]])
    assert "write" in said and "--decimal" not in said


def test_what_has_types_is_not_told_of_the_option(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"score": "2,31", "member": 1}) + "\n")
    with pytest.raises(InputError, match="is not a number") as caught:
        scores(path, None)
    assert caught.value.hint == "Its comma may be the decimal mark: write 2.31."
