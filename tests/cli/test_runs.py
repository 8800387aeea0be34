"""`miles runs`: the table, its filters, the page and JSON."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audits.core.records import Report
from audits.report.report_file import write_report

Call = Callable[..., Any]


@pytest.fixture
def runs(sample_report: Report, tmp_path: Path) -> Path:
    for name, changes in {
        "one": {}, "two": {"created": "2026-03-01T00:00:00Z", "gates": sample_report.gates[1:]},
        "three": {"created": "2026-04-01T00:00:00Z", "gates": (), "audit": "certify"},
    }.items():  # fmt: skip
        (tmp_path / "runs" / name).mkdir(parents=True)
        write_report(replace(sample_report, **changes), tmp_path / "runs" / name)
    return tmp_path / "runs"


def listed(outcome: Any) -> list[str]:
    return [run["folder"] for run in json.loads(outcome.out)["runs"]]


def test_the_newest_run_is_first_with_its_answer_and_gates(runs: Path, call_miles: Call) -> None:
    done = call_miles("runs", runs)
    words = " ".join(done.out.split())
    assert done.code == 0 and done.err == ""
    places = [
        words.index(part) for part in ("2026-04-01 ▲", "no gates · three", "1 passed · two", "1 of 2 failed · one")
    ]
    assert places == sorted(places) and words.endswith("3 runs below " + str(runs) + ", 1 with a failed gate.")


@pytest.mark.parametrize(
    ("words", "folders"),
    [
        ((), ["three", "two", "one"]), (("--audit", "certify"), ["three"]), (("--failed",), ["one"]),
        (("--since", "2026-03-01"), ["three", "two"]), (("--contains", "TWO"), ["two"]), (("--contains", "zz"), []),
    ],
)  # fmt: skip
def test_runs_are_chosen(runs: Path, call_miles: Call, words: tuple[str, ...], folders: list[str]) -> None:
    assert listed(call_miles("runs", runs, "--json", *words)) == folders


def test_a_page_is_written_and_what_cannot_be_read_is_told(runs: Path, call_miles: Call, tmp_path: Path) -> None:
    (runs / "broken").mkdir()
    (runs / "broken" / "report.json").write_text("{", encoding="utf-8")
    done = call_miles("runs", runs, "--html", tmp_path / "index.html")
    assert done.code == 0 and "Not read: broken (JSONDecodeError" in done.err
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<tr data-audit=") == 3 and "broken: JSONDecodeError" in page


def test_a_folder_that_is_not_there_is_refused(call_miles: Call, tmp_path: Path) -> None:
    done = call_miles("runs", tmp_path / "none")
    assert done.code == 2 and "There is no such folder." in done.err


def test_a_day_that_is_none_is_refused(runs: Path, call_miles: Call) -> None:
    done = call_miles("runs", runs, "--since", "yesterday")
    assert done.code == 2 and "'yesterday' is no day." in done.err and "2026-11-25" in done.err
    assert listed(call_miles("runs", runs, "--since", "20260401", "--json")) == ["three"]


def test_an_empty_folder_has_no_runs(call_miles: Call, tmp_path: Path) -> None:
    done = call_miles("runs", tmp_path, "--html", tmp_path / "index.html")
    assert done.code == 0 and done.out.startswith("0 runs below") and "0 runs" in (tmp_path / "index.html").read_text()


def test_no_text_of_a_report_steers_the_terminal(sample_report: Report, call_miles: Call, tmp_path: Path) -> None:
    nasty = "\x1b]0;pwned\x07[red]\x9b31m\u202e\n3 runs below"
    (tmp_path / "runs" / "evil\x1b[2J").mkdir(parents=True)
    report = replace(sample_report, created=f"[b]{nasty}", audit=nasty).to_json()
    report["answer"] = {"title": nasty, "numbers": [], "may": [], "may_not": []}
    (tmp_path / "runs" / "evil\x1b[2J" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    (tmp_path / "runs" / "bad\x1b[2J").mkdir()
    (tmp_path / "runs" / "bad\x1b[2J" / "report.json").write_text("\x1b", encoding="utf-8")
    done = call_miles("runs", tmp_path / "runs")
    assert done.code == 0 and "[red]" in done.out and "[b]" in done.out
    assert all(letter.isprintable() or letter == "\n" for letter in done.out + done.err), done.out
    assert not any(line.startswith("3 runs below") for line in done.out.splitlines())
