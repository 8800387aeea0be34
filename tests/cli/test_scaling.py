"""Does `miles audit-scaling` refuse what is wrong with one panel, and count on a plan without writing anything?"""

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import one_panel
from tiny_folders import tiny

MODULE = """
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.table = nn.Embedding(512, width)

    def forward(self, x):
        return x + self.table(torch.arange(x.shape[1]))


class Reading(nn.Module):
    def forward(self, x):
        print("said by the module")
        return x * (x.sum().item() > 0)


def positions(batch, n, width, device):
    return Positions(width)


def reading(batch, n, width, device):
    return Reading()


def moved(batch, n, width, device):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU()).to(device).to(torch.float32)


def failing(batch, n, width, device):
    raise RuntimeError("not today")


def nothing(batch, n, width, device):
    return 3
"""
CODE = "--allow-code"


def cells(rows: list[str]) -> str:
    return "\n".join(["target,n,round,seconds,bytes", *rows]) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "mine_of_scaling.py").write_text(MODULE)
    rows = [f"a,{n},{turn},{1e-4 * n},{n}" for n in (64, 128, 256, 512, 1024, 2048) for turn in range(5)]
    for name, more in (
        ("good", []),
        ("negative", ["a,4096,0,-1,1"]),
        ("twice", ["a,64,0,1,1"]),
        ("empty", ["b,64,0,,"]),
    ):
        (work / f"{name}.csv").write_text(cells([*rows, *more]))
    (work / "none.csv").write_text(cells(["a,64,0,,", "a,128,0,,"]))
    (work / "zero.csv").write_text(cells(["a,0,0,1,1"]))
    tiny(work / "gpt", "GPT2")
    return work


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "There is nothing to audit"),
        (["atention"], "attention"),
        (["sdpa", "sdpa"], "Two targets are named sdpa"),
        (["sdpa", "--lengths", "64"], "There is 1 length"),
        (["sdpa", "--lengths", "512:64"], "is no range"),
        (["sdpa", "--lengths", "64,x"], "is no length"),
        (["sdpa", "--claim", "operations=fast"], "fast"),
        (["sdpa", "--claim", "speed=n"], "speed"),
        (["sdpa", "--claim", "pom: operations=n"], "is no target"),
        (["sdpa", "--claim", "operations=n", "--claim", "operations=n^2"], "claimed twice"),
        (["blockwise", "--mode", "decode", "--lengths", "64:256"], "blockwise"),
        (["sdpa", "--from-csv", "good.csv"], "exclude each other"),
        (["sdpa", "--submodule", "x"], "No target has submodules"),
        (["mine_of_scaling:positions"], "has no name"),
        (["a=mine_of_scaling:positions"], "Add --allow-code"),
        (["a=mine_of_scaling:absent", CODE], "absent"),
        (["a=mine_of_scaling:failing", CODE], "not today"),
        (["a=mine_of_scaling:nothing", CODE], "a"),
        (["a=mine_of_scaling:positions", CODE, "--lengths", "512:4096", "--rounds", "0"], "512"),
        (["absent/folder"], "absent/folder"),
        (["--from-csv", "negative.csv"], "negative.csv:32"),
        (["--from-csv", "twice.csv"], "stand twice"),
        (["--from-csv", "none.csv"], "No cell"),
        (["--from-csv", "zero.csv"], "is no length"),
        (["--from-csv", "good.csv", "--rounds", "3"], "exclude each other"),
    ],
)
def test_what_is_wrong_is_said_in_one_panel_and_nothing_is_written(
    folder: Path, call_miles: Any, words: list[str], said: str
) -> None:
    one_panel(call_miles("audit-scaling", *words, "--out", "run"), said)
    assert not (folder / "run").exists()


def test_a_plan_counts_and_writes_nothing(folder: Path, call_miles: Any) -> None:
    outcome = call_miles("audit-scaling", "sdpa", "--lengths", "64:256", "--out", "run", "--dry-run")
    assert outcome.code == 0, outcome.err
    assert "exponent 2.00 at 1,073,741,824 (counted)" in " ".join(outcome.out.split())
    assert not (folder / "run").exists()


def test_a_module_may_be_moved_by_its_factory(folder: Path, call_miles: Any) -> None:
    words = ["a=mine_of_scaling:moved", CODE, "--lengths", "64:128", "--rounds", "0", "--out", "run"]
    assert call_miles("audit-scaling", *words).code == 0
    rows = [row for row in report_of(folder)["estimates"] if row["name"] == "operations"]
    # A product of n by 64 with 64 by 64.
    assert {row["where"]["n"]: row["value"] for row in rows}[128] == 2 * 128 * 64 * 64


def report_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run" / "report.json").read_text())
    return found


def test_lengths_beyond_a_table_of_positions_are_left_out_with_the_reason(folder: Path, call_miles: Any) -> None:
    words = ["a=mine_of_scaling:positions", CODE, "--lengths", "64:2048", "--rounds", "0", "--out", "run"]
    assert call_miles("audit-scaling", *words).code == 0
    report = report_of(folder)
    assert report["coverage"]["used"] == 4 and [one["count"] for one in report["coverage"]["skipped"]] == [2]
    assert max(row["where"].get("n", 0) for row in report["estimates"]) == 512
    assert {one["id"] for one in report["warnings"]} == {"skipped"}


def test_a_module_that_reads_values_is_counted_on_real_tensors(folder: Path, call_miles: Any) -> None:
    words = ["a=mine_of_scaling:reading", CODE, "--lengths", "64:1024", "--rounds", "0", "--out", "run", "--json"]
    outcome = call_miles("audit-scaling", *words)
    assert outcome.code == 0 and json.loads(outcome.out)
    assert [one["id"] for one in report_of(folder)["warnings"]] == ["real-tensors"]


def test_counts_are_byte_equal_and_a_gate_holds_the_excess(folder: Path, call_miles: Any) -> None:
    gate = [
        "--fail-if",
        "excess_exponent[target=pom,quantity=operations].low > 0.15",
        "--fail-if",
        "excess_exponent[target=sdpa].low > 0.15",
    ]
    words = ["sdpa", "pom", "--lengths", "64:1024", "--claim", "operations=n", "--rounds", "0", *gate]
    words += ["--count-to", "0"]
    assert call_miles("audit-scaling", *words, "--out", "run").code == 1
    assert call_miles("audit-scaling", *words, "--out", "again").code == 1
    first, second = (json.loads((folder / name / "report.json").read_text()) for name in ("run", "again"))
    assert [one["outcome"] for one in first["gates"]] == ["pass", "fail"]
    for key in ("estimates", "findings", "warnings", "coverage"):
        assert first[key] == second[key]
    assert (folder / "run" / "records.csv").read_bytes() == (folder / "again" / "records.csv").read_bytes()


def test_records_give_the_same_estimates_of_time(folder: Path, call_miles: Any) -> None:
    words = ["sdpa", "linear-attention", "--lengths", "64,128,256,512", "--rounds", "3", "--budget-seconds", "5"]
    words += ["--count-to", "0"]
    assert call_miles("audit-scaling", *words, "--out", "run").code == 0
    assert call_miles("audit-scaling", "--from-csv", "run/records.csv", "--out", "again").code == 0
    first, second = (json.loads((folder / name / "report.json").read_text()) for name in ("run", "again"))
    names = ("seconds", "exponent", "local_exponent", "crossover", "ratio_at", "overhead")

    def timed(report: dict[str, Any]) -> list[Any]:
        rows = [row for row in report["estimates"] if row["name"] in names]
        return sorted(
            (json.dumps(row, sort_keys=True) for row in rows if row["where"].get("quantity", "time") == "time"),
        )

    assert timed(first) == timed(second) != []


def test_a_folder_is_counted_up_to_its_positions(folder: Path, call_miles: Any) -> None:
    words = ["gpt", "--lengths", "8:256", "--mode", "decode", "--rounds", "0", "--out", "run"]
    assert call_miles("audit-scaling", *words, "--claim", "state=n").code == 0
    state = [row for row in report_of(folder)["estimates"] if row["name"] == "state_bytes"]
    # Two layers of keys and values, two heads of four numbers; 64 positions, of which the next token takes one.
    assert {row["where"]["n"]: row["value"] for row in state} == {n: 2 * 2 * 8 * 4 * n for n in (8, 16, 32)}
