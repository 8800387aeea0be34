import csv
import dataclasses
import json
import math
import os
import threading
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from audits.core.records import Answer, Report, Verdict
from audits.report import report_file
from audits.report.comparison.tables import read_table
from audits.report.records_file import write_records
from audits.report.report_file import (
    dumps,
    fingerprint,
    fingerprint_of,
    read_report,
    schema,
    write_bytes,
    write_report,
    write_text,
)
from audits.report.spreadsheet_cells import bare
from probes.core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
LATER = {
    "measures",
    "headline",
    "how_sure",
    "answer",
    "verdicts",
    "groups",
    "next_step",
    "registration",
    "registered",
    "begun",
}


def test_the_schema_is_one_and_in_order() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert json.loads((ROOT / "docs" / "report.schema.json").read_bytes()) == schema()
    assert json.loads((files("audits") / "report.schema.json").read_bytes()) == schema()


def test_every_object_of_the_schema_is_closed() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "properties" in node:
                assert node.get("additionalProperties") is False, node["properties"].keys()
                # Reports of versions before 0.2 lack these, and can be read.
                assert set(node["required"]) == set(node["properties"]) - LATER
            for part in node.values():
                walk(part)
        elif isinstance(node, list):
            for part in node:
                walk(part)

    walk(schema())


def test_a_report_survives_the_disk(sample_report: Report, tmp_path: Path) -> None:
    path = write_report(sample_report, tmp_path)
    assert path == tmp_path / "report.json"
    assert read_report(tmp_path).to_json() == sample_report.to_json()
    assert read_report(path) == read_report(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["report.json"]
    first = path.read_bytes()
    write_report(read_report(path), tmp_path)
    assert path.read_bytes() == first


def test_verdicts_survive_the_disk_and_are_of_estimates_that_are_there(sample_report: Report, tmp_path: Path) -> None:
    last = len(sample_report.estimates) - 1
    answer = Answer(title="So.", verdicts=(Verdict(row=last, shown=False, words="not after correction"),))
    report = dataclasses.replace(sample_report, answer=answer)
    written = write_report(report, tmp_path)
    assert read_report(tmp_path).answer == answer
    data = json.loads(written.read_text(encoding="utf-8"))
    data["answer"]["verdicts"][0]["row"] = last + 1
    written.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError, match="points to an estimate that is not there"):
        read_report(tmp_path)
    # Reports of earlier versions have none.
    del data["answer"]["verdicts"]
    written.write_text(json.dumps(data), encoding="utf-8")
    assert read_report(tmp_path).answer == Answer(title="So.")


def test_keys_are_sorted_and_the_text_is_readable(sample_report: Report) -> None:
    text = dumps(dataclasses.replace(sample_report, title="Größe"))
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    assert "Größe" in text


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_no_number_that_is_none_is_written(sample_report: Report, tmp_path: Path, number: float) -> None:
    for spoilt in (
        dataclasses.replace(sample_report, settings={"share": number}),
        dataclasses.replace(
            sample_report, figures=(dataclasses.replace(sample_report.figures[0], spec={"a": number}),)
        ),
    ):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_report(spoilt, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_breaks_the_schema_is_not_written(sample_report: Report, tmp_path: Path) -> None:
    with pytest.raises(jsonschema.ValidationError):
        write_report(dataclasses.replace(sample_report, created="yesterday"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_no_number_that_is_none_is_read(sample_report: Report, tmp_path: Path, text: str) -> None:
    spoilt = dataclasses.replace(sample_report, settings={"share": 12345.5})
    (tmp_path / "report.json").write_text(dumps(spoilt).replace("12345.5", text), encoding="utf-8")
    with pytest.raises(InputError, match="number"):
        read_report(tmp_path)


def hostile(data: dict[str, Any], *path: Any, value: Any) -> bytes:
    node: Any = data
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return json.dumps(data).encode()


PLACES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "schema": (("schema",), "miles.report/2"),
    "finding": (("findings", 0, "evidence"), [0, 99999]),
    "negative": (("findings", 0, "evidence"), [-1]),
    "fraction": (("findings", 0, "evidence"), [0.5]),
    "gate": (("gates", 0, "rows"), [99999]),
    "gate outcome": (("gates", 0, "outcome"), "maybe"),
    "figure": (("figures", 0, "file"), "../escape"),
    "figure slash": (("figures", 0, "file"), "/etc/passwd"),
    "figure empty": (("figures", 0, "file"), ""),
    "huge": (("estimates", 0, "value"), 10**400),
    "truth": (("estimates", 0, "value"), True),
    "value of text": (("estimates", 0, "value"), "0.1"),
    "infinite": (("estimates", 0, "high"), math.inf),
    "ends reversed": (("estimates", 0, "low"), 9.0),
    "no lower end": (("estimates", 0, "low"), None),
    "no estimates": (("estimates",), None),
    "text": (("estimates", 0, "n"), "12"),
    "where": (("estimates", 0, "where"), {"by": ["a"]}),
    "hash": (("subject", "sha256"), "0"),
    "extra": (("subject", "code"), "import os"),
    "severity": (("findings", 0, "severity"), "deadly"),
    "coverage": (("coverage", "given"), 0),
    "command": (("provenance", "command"), "miles"),
    "half a character": (("title",), "\ud800"),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_no_run_wrote_is_refused_with_its_place(sample_report: Report, tmp_path: Path, name: str) -> None:
    path, value = PLACES[name]
    (tmp_path / "report.json").write_bytes(hostile(sample_report.to_json(), *path, value=value))
    with pytest.raises(InputError) as error:
        read_report(tmp_path)
    assert str(tmp_path / "report.json") in error.value.where
    assert error.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"path,text\n", b"", b"{", b"null", b"[]", b"3", b"\xff\xfe", b"[" * 200_000, b"\x00", b"report\0",
        b'{"schema": ' + b"9" * 6000 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(InputError) as error:
        read_report(tmp_path)
    assert "run folder" in error.value.hint


def test_a_missing_report_says_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished report") as error:
        read_report(tmp_path)
    assert "Give a run folder" in error.value.hint
    (tmp_path / "state").mkdir()
    with pytest.raises(InputError) as error:
        read_report(tmp_path)
    assert "resumes" in error.value.hint


def test_a_file_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.md"
    target.write_text("old", encoding="utf-8")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_file.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_text(target, "new")
    assert target.read_text(encoding="utf-8") == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["report.md"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    target = tmp_path / "data"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    write_bytes(target, contents[0])
    stop = threading.Event()

    def keep_writing() -> None:
        for turn in range(1000):
            if stop.is_set():
                return
            write_bytes(target, contents[turn % 2])

    writer = threading.Thread(target=keep_writing)
    writer.start()
    seen = {target.read_bytes() for _ in range(100)}
    stop.set()
    writer.join()
    assert seen <= set(contents)
    assert os.stat(target).st_mode & 0o777 == 0o644  # noqa: PTH116


def test_records_are_a_table_that_csv_reads_back(tmp_path: Path) -> None:
    rows = [{"path": 'a "b", c', "text": "zwei\nZeilen", "n": 3}, {"path": "ü", "text": "", "n": ""}]
    write_records(rows, tmp_path)
    with (tmp_path / "records.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [{key: str(value) for key, value in row.items()} for row in rows]
    with pytest.raises(ValueError, match="extra"):
        write_records([{"a": 1}, {"a": 1, "extra": 2}], tmp_path)
    assert write_records([], tmp_path).read_bytes() == b""


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("-- said he", "'-- said he"),
        ("@SUM(A1)", "'@SUM(A1)"), ("\t=1", "'\t'=1"), ("\r=1", "'\n'=1"), ("a\rb", "a\nb"),
        ("-1.5", "-1.5"), ("+2e3", "+2e3"), (-1.5, "-1.5"), (0, "0"), ("", ""), ("a=b", "a=b"), ("'tis", "'tis"),
        ("＝1+1", "'＝1+1"), ("＋1+1", "'＋1+1"), ("－1+1", "'－1+1"), ("＠SUM(A1)", "'＠SUM(A1)"), ("－１", "'－１"),
        ("a;=1+1", "a;'=1+1"), ("a;-1.5;+2", "a;-1.5;+2"), ("a; =1", "a; =1"), ("a\n=1+1", "a\n'=1+1"),
        (";;＝1;@A", ";;'＝1;'@A"), ("a\t-x", "a\t'-x"), ("=a;=b", "'=a;'=b"), ("a,=1+1", "a,=1+1"),
    ],
)  # fmt: skip
def test_no_cell_of_the_records_is_a_formula(cell: Any, written: str, tmp_path: Path) -> None:
    write_records([{"n": 1, "text": cell}], tmp_path)
    with (tmp_path / "records.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [{"n": "1", "text": written}]
    if isinstance(cell, str):
        assert bare(written) == cell.replace("\r", "\n")


@pytest.mark.parametrize(
    ("name", "written"),
    [("=1+1", "'=1+1"), ("@SUM(A1)", "'@SUM(A1)"), ("a;＝1", "a;'＝1"), ("a\rb", "a\nb"), ("-1", "-1"), ("age", "age")],
)
def test_no_name_of_a_column_is_a_formula(name: str, written: str, tmp_path: Path) -> None:
    write_records([{"n": 1, name: "x"}], tmp_path)
    with (tmp_path / "records.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [{"n": "1", written: "x"}]
    # Who reads the records again finds the column by its own name.
    table = read_table(tmp_path)
    assert not isinstance(table, str)
    assert list(table.text) == ["n", name.replace("\r", "\n")]


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o022])
def test_the_umask_says_who_may_read_what_is_written(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_records([{"speaker": "s1"}], tmp_path)
        write_bytes(tmp_path / "figure.png", b"1")
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o666 & ~mask}


def test_a_fingerprint_follows_what_decides_the_report_and_not_the_gates(sample_report: Report) -> None:
    same = dataclasses.replace(sample_report, settings={**sample_report.settings, "fail_if": ["gap > 1"]}, gates=())
    assert fingerprint_of(same) == fingerprint_of(sample_report)
    other = dataclasses.replace(sample_report, settings={**sample_report.settings, "seed": 1})
    assert fingerprint_of(other) != fingerprint_of(sample_report)
    plain = sample_report.to_json()
    arguments = ["audit-fairness", plain["settings"], plain["data"], plain["subject"]["sha256"], "0.1.0"]
    assert fingerprint(*arguments) == fingerprint_of(sample_report)
    for place, change in ((0, "other"), (2, []), (3, "00"), (4, "0.2.0")):
        assert fingerprint(*[*arguments[:place], change, *arguments[place + 1 :]]) != fingerprint_of(sample_report)


def test_a_neutral_value_beyond_any_float_is_refused(sample_report: Report, tmp_path: Path) -> None:
    data = sample_report.to_json()
    data["measures"]["gap"]["neutral"] = 10**400
    (tmp_path / "report.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        read_report(tmp_path)
