"""Does `miles audit-faithfulness` refuse what is wrong with one panel, and stay whole where little can be said?"""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from refusals import one_panel

from audits.core.records import Report
from audits.report.report_file import read_report

DISHES = ("Italian", "French", "Thai", "Greek")


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    """Return restaurants, each in a context of its own, and what is said of them."""
    return [
        {
            "id": at,
            "context": f"name[Place {'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[at % 26]}{at}], food[{DISHES[at % 4]}]",
            "output": f"Place {'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[at % 26]}{at} serves {DISHES[at % 4]} food.",
            **{name: value(at) if callable(value) else value for name, value in more.items()},
        }
        for at in range(count)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    write("rows.jsonl", rows(30))
    write("labels.jsonl", rows(30, label="fine"))
    write("scores.jsonl", rows(30, label=1, mine=2, idf_precision=3))
    write("empty.jsonl", rows(3, output=" "))
    write("bare.jsonl", [{"id": 1}])
    (work / "template.txt").write_text("{output} after {context}")
    return work


def write(name: str, what: Sequence[Mapping[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in what))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent.jsonl"], "absent.jsonl"),
        (["bare.jsonl"], "no column 'context'"),
        (["empty.jsonl"], "3: empty output"),
        (["labels.jsonl"], "--faithful LABEL"),
        (["rows.jsonl", "--scores", "mine"], "no column 'mine'"),
        (["scores.jsonl", "--scores", "mine,-mine"], "named twice"),
        (["scores.jsonl", "--scores", "label"], "is the name of a metric of this audit"),
        (["scores.jsonl", "--scores", "-idf_precision"], "is the name of a metric of this audit"),
        (["rows.jsonl", "--by", "domain"], "no column 'domain'"),
        (["rows.jsonl", "--column", "text=output"], "is not FIELD=COLUMN"),
        (["rows.jsonl", "--metrics", "cxmi"], "cxmi needs --model"),
        (["rows.jsonl", "--metrics", "nli"], "nli needs --nli"),
        (["rows.jsonl", "--metrics", "parent"], "parent needs tables, and references"),
        (["rows.jsonl", "--metrics", "charm"], "is not a choice"),
        (["rows.jsonl", "--rates", "0"], "is no share"),
        (["rows.jsonl", "--noisy", "0,1"], "only for --model"),
        (["rows.jsonl", "--model", "absent"], "absent"),
        (["rows.jsonl", "--nli", "."], "."),
        (["rows.jsonl", "--preset", "begin"], "no column"),
    ],
)
def test_what_is_wrong_is_said_in_one_panel_and_nothing_is_written(
    folder: Path, call_miles: Any, words: list[str], said: str
) -> None:
    one_panel(call_miles("audit-faithfulness", *words, "--out", "run"), said)
    assert not (folder / "run").exists()


def run(call_miles: Any, what: Sequence[Mapping[str, Any]], *words: str) -> Report:
    write("given.jsonl", what)
    outcome = call_miles("audit-faithfulness", "given.jsonl", "--out", "run", "--force", "--plant", "60", *words)
    assert outcome.code == 0, outcome.err
    return read_report(Path("run"))


def warned(report: Report) -> set[str]:
    return {warning.id for warning in report.warnings}


def test_empty_outputs_refusals_and_empty_contexts_are_counted_and_not_scored(folder: Path, call_miles: Any) -> None:
    said = {0: "", 1: "I don't know."}
    what = rows(30)
    for at, text in said.items():
        what[at]["output"] = text
    what[2]["context"] = ""
    report = run(call_miles, what)
    assert report.coverage.used == 27 and len(report.coverage.skipped) == 3 and "class-apart" in warned(report)


def test_one_class_of_labels_equal_scores_and_one_row_say_what_is_missing(folder: Path, call_miles: Any) -> None:
    alike = run(call_miles, rows(30, label=1))
    assert "one-label" in warned(alike) and not [row for row in alike.estimates if row.name == "human_auc"]
    equal = run(call_miles, rows(30, label=lambda at: at % 2, mine=3), "--scores", "mine", "--metrics", "numbers")
    judged = [row for row in equal.estimates if row.name == "human_auc"]
    assert "equal-scores" in warned(equal) and not [row for row in judged if row.where["metric"] == "mine"]
    single = run(call_miles, rows(1))
    assert "few-outputs" in warned(single) and not [row for row in single.estimates if row.name == "detection_auc"]


def test_scores_alone_judge_metrics_and_systems_without_texts(folder: Path, call_miles: Any) -> None:
    what = [
        {"context_id": at, "system": system, "label": int((at * 7 + place) % 3 > 0), "dataset": "ab"[at % 2]}
        for at in range(80)
        for place, system in enumerate(("one", "two"))
    ]
    for row in what:
        row["good"] = row["label"] + (row["context_id"] % 5) / 4
        row["cost"] = -row["good"]
    report = run(call_miles, what, "--scores", "good,-cost")
    values = {
        row.where["metric"]: row.value
        for row in report.estimates
        if row.name == "human_auc" and row.where["scope"] == "within_system"
    }
    assert values["good"] == values["cost"] > 0.7
    assert "pooled-datasets" in warned(report)
    assert {row.where["group"] for row in report.estimates if row.name == "metric"} >= {"all", "dataset=a", "dataset=b"}
    assert not [row for row in report.estimates if row.name == "detection_auc"]


def test_runs_are_the_units_where_there_are_several_of_each_system(folder: Path, call_miles: Any) -> None:
    what = [
        {
            "context_id": at,
            "system": system,
            "run": run,
            "good": (at * (3 + place) % 5) / 4 + place * 0.1 + (run * 3 % 5) / 50,
        }
        for at in range(20)
        for run in range(5)
        for place, system in enumerate(("one", "two"))
    ]
    several = run(call_miles, what, "--scores", "good")
    (row,) = [row for row in several.estimates if row.name == "difference" and row.where["group"] == "all"]
    assert (row.n, row.unit) == (5, "runs") and "one-training-run" not in warned(several)
    single = run(call_miles, [row for row in what if row["run"] == 0], "--scores", "good")
    assert "one-training-run" in warned(single)


def test_a_plan_names_what_would_run_and_runs_nothing(folder: Path, call_miles: Any) -> None:
    outcome = call_miles("audit-faithfulness", "rows.jsonl", "--out", "run", "--dry-run")
    assert outcome.code == 0, outcome.err
    assert "30 in 30 contexts" in outcome.out and not (folder / "run").exists()


def planned(call_miles: Any, what: Sequence[Mapping[str, Any]], *words: str) -> str:
    write("given.jsonl", what)
    outcome = call_miles("audit-faithfulness", "given.jsonl", "--out", "run", "--dry-run", *words)
    assert outcome.code == 0, outcome.err
    return " ".join(outcome.out.split())


def test_a_plan_counts_the_texts_that_errors_are_planted_in(folder: Path, call_miles: Any) -> None:
    said = "at most {} changed texts: 5 kinds x 4 rates of each of {}".format
    # Two systems share each context and its reference.
    twice = [{**row, "id": f"{row['id']} {system}", "system": system} for row in rows(30) for system in "ab"]
    labelled = [{**row, "label": int(at < 20)} for at, row in enumerate(rows(36))]
    referred = [{**row, "reference": row["output"]} for row in twice]
    assert said(600, "30 outputs, taken to be faithful") in planned(call_miles, rows(30))
    assert said(400, "20 outputs, taken to be faithful") in planned(call_miles, rows(30), "--plant", "20")
    assert said(400, "20 outputs labelled faithful") in planned(call_miles, labelled)
    assert said(600, "30 references") in planned(call_miles, referred)
    assert "each of the 30 texts as it is, and with the context of another one" in planned(call_miles, rows(30))
    one = planned(call_miles, rows(30), "--corrupt", "drop", "--rates", "1")
    assert "at most 30 changed texts: 1 kind x 1 rate of each of 30 outputs, taken to be faithful" in one


def test_a_plan_of_scores_alone_plants_nothing(folder: Path, call_miles: Any) -> None:
    what = [{"context_id": at, "label": at % 2, "mine": at} for at in range(30)]
    assert "planted" not in planned(call_miles, what, "--scores", "mine")


def test_a_gate_on_unsupported_numbers_fails_where_there_are_some(folder: Path, call_miles: Any) -> None:
    what = rows(40, output=lambda at: f"Place {at} serves {at % 7} dishes.")
    write("given.jsonl", what)
    gate = ["--fail-if", "unsupported_rate[kind=number].low > 0.2"]
    assert call_miles("audit-faithfulness", "given.jsonl", "--out", "run", *gate).code == 1


def test_sentences_can_be_the_units(folder: Path, call_miles: Any) -> None:
    what = rows(30)
    for row in what:
        row["output"] += " It is open."
    report = run(call_miles, what, "--unit", "sentence")
    assert report.coverage.used == 60
    with (folder / "run" / "records.csv").open() as file:
        first = next(csv.DictReader(file))
    assert first["id"] == "0.1" and first["unsupported_words"] and "unsupported_numbers" in first


@pytest.mark.parametrize(
    ("words", "left"),
    [("--rates 0.1 0.2", "0.2"), ("--dry-run true", "true"), (f"--seed 1 {'2' * 500} last", "2" * 50)],
)
def test_words_too_many_that_are_no_files_are_joined_by_commas(words: str, left: str, call_miles: Any) -> None:
    outcome = call_miles("audit-faithfulness", "outputs.jsonl", "--out", "run", *words.split())
    one_panel(outcome, f"belong to no option: '{left}", "by commas")
    assert "before each file" not in outcome.err and ("…" in outcome.err) == ("last" in words)
