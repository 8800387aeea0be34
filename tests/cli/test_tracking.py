"""Does `miles audit-tracking` refuse what is wrong with one panel, and answer a plan without running anything?"""

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import one_panel

ITEM = {"id": "1", "prompt": "x = 1. What is x?", "target": "1", "depth": 0, "options": ["1", "2"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    rows = [ITEM | {"id": str(at)} for at in range(60)]
    (work / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (work / "again.jsonl").write_bytes((work / "items.jsonl").read_bytes())
    (work / "said.csv").write_text("id,prediction\n" + "".join(f"{at},1\n" for at in range(60)))
    (work / "bare").mkdir()
    (work / "bare" / "config.json").write_text('{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}')
    (work / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    return work


GIVEN = ["--items", "items.jsonl", "--predictions", "ours=said.csv"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "There is nothing to audit"),
        (["--items", "items.jsonl"], "There is nothing to audit"),
        (["--predictions", "ours=said.csv"], "only for --items"),
        (["--items", "items.jsonl", "--predictions", "said.csv"], "is not NAME=FILE"),
        ([*GIVEN, "--predictions", "ours=said.csv"], "is taken"),
        (["--items", "items.jsonl", "--items", "items.jsonl", "--predictions", "a=said.csv"], "Two files of items"),
        ([*GIVEN, "--scoring", "loud"], "is not a choice"),
        ([*GIVEN, "--level-accuracy", "1"], "too large"),
        (["--operator", "--gamma", "1"], "is no discount"),
        (["--operator", "--gamma", "nan"], "is no discount"),
        (["--train", "--layers", "0"], "is no list of different whole numbers from"),
        (["--train", "--n", "1,1"], "is no list of different whole numbers from"),
        (["--train", "--width", "10", "--heads", "3"], "has no 3 equal heads"),
        (["--train", "--properties", "5", "--heads", "5", "--width", "65"], "has no 2 equal heads"),
        (["--items", "items.jsonl", "--items", "again.jsonl", "--predictions", "a=said.csv"], "Two items are named"),
        (["--resolvent"], "only for --train"),
        (["--structure", "--operator"], "only for MODEL"),
        (["--items", "items.jsonl", "again.jsonl", "--predictions", "ours=said.csv"], "--items A --items B"),
        ([*GIVEN, "other=said.csv"], "--predictions A=FILE --predictions B=FILE"),
        (["absent"], "absent"),
        (["bare"], "bare"),
        (["--items", "absent.csv", "--predictions", "ours=said.csv"], "absent.csv"),
    ],
)
def test_what_is_wrong_is_said_in_one_panel_and_nothing_is_written(
    folder: Path, call_miles: Any, words: list[str], said: str
) -> None:
    one_panel(call_miles("audit-tracking", *words, "--out", "run"), said)
    assert not (folder / "run").exists()


def test_files_without_their_flag_are_refused_with_the_flag_to_write(folder: Path, call_miles: Any) -> None:
    outcome = call_miles("audit-tracking", "A.json", "B.json", "--out", "run")
    one_panel(outcome, "belong to no option: 'B.json'", "flag before each file, such as --items FILE")
    assert "fix:" in outcome.err and not (folder / "run").exists()
    numbers = call_miles("audit-tracking", "A.json", "--seed", "1", "2.5", "--out", "run")
    one_panel(numbers, "belong to no option: '2.5'", "by commas", "not: before each file")


def test_a_plan_names_what_would_run_and_runs_nothing(folder: Path, call_miles: Any) -> None:
    words = ["--train", "--layers", "1,2", "--seeds", "2", "--out", "run", "--dry-run"]
    outcome = call_miles("audit-tracking", *words)
    assert outcome.code == 0, outcome.err
    assert "trainings 4" in " ".join(outcome.out.split())
    assert not (folder / "run").exists()


def test_a_gate_on_a_depth_fails_where_it_is_not_followed(folder: Path, call_miles: Any) -> None:
    gate = ["--fail-if", "critical_n[task=items].low < 1"]
    assert call_miles("audit-tracking", *GIVEN, "--out", "run", *gate).code == 1
    report = json.loads((folder / "run" / "report.json").read_text())
    assert [row["value"] for row in report["estimates"] if row["name"] == "critical_n"] == [0.0]
    assert {source["role"] for source in report["data"]} == {"items", "predictions ours"}
