"""`miles compare --from`: logs of other harnesses compared as runs of miles are, and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eval_logs import INSPECT, LM_EVAL, inspect_json, lm_eval_line, lm_eval_samples, sample
from refusals import everything, one_panel

Call = Callable[..., Any]


def compared(call_miles: Call, *words: object) -> dict[str, Any]:
    told = call_miles("compare", *words, "--json")
    assert told.code == 0, told.err
    found: dict[str, Any] = json.loads(told.out)
    return found


def test_two_logs_of_inspect_are_paired_by_sample(call_miles: Call) -> None:
    found = compared(call_miles, "--from", "inspect", INSPECT / "old.eval", INSPECT / "new.eval")
    (run,) = found["runs"]
    assert (found["audit"], found["before"], run["after"]) == ("inspect", "mockllm/old", "mockllm/new")
    assert run["records"] == {"both": 16, "before": 0, "after": 0} and run["differing"]["model"]
    row = next(one for one in run["changes"] if one["where"].get("scorer") == "match")
    assert row["where"] == {"metric": "accuracy", "scorer": "match", "task": "sums"}
    assert (row["before"], row["after"], row["paired"]) == (0.875, 0.4375, {"matched": 16, "of": 16})
    assert row["worse"] and row["low"] < row["change"] < row["high"] < 0
    digits = next(one for one in run["changes"] if one["where"]["metric"] == "digits")
    # A score beyond 1 may be anything: no direction is guessed.
    assert digits["name"] == "value" and not digits["worse"]


def test_the_terminal_shows_scores_as_main_estimates_and_a_regression_ends_with_1(call_miles: Call) -> None:
    told = call_miles(
        "compare", "--from", "inspect", INSPECT / "old.json", INSPECT / "new.eval", "--fail-on-regression"
    )
    assert told.code == 1
    for said in (
        "mockllm/new against mockllm/old: 2 of 3 estimates changed",
        "mean score (sums)",
        "accuracy, match",
        "↓ worse",
    ):
        assert said in told.out, told.out
    fine = call_miles(
        "compare", "--from", "inspect", INSPECT / "new.eval", INSPECT / "old.eval", "--fail-on-regression"
    )
    assert fine.code == 0


def test_three_logs_make_a_matrix_a_page_and_files(call_miles: Call, tmp_path: Path) -> None:
    logs = [INSPECT / f"{name}.eval" for name in ("old", "clustered", "failed")]
    told = call_miles(
        "compare", "--from", "inspect", *logs, "--out", tmp_path / "made", "--html", tmp_path / "page.html"
    )
    assert told.code == 0, told.err
    words = " ".join(told.out.split())
    for said in (
        # The field of one log's standard errors counts in all.
        "mockllm/old: 16 samples of sums are in 9 clusters by family.",
        "the log of sums has the status error: 4 of 16 answers are missing.",
        "p-values are corrected by Holm over 6 tests",
    ):
        assert said in words, told.out
    assert sorted(one.name for one in (tmp_path / "made").iterdir()) == [
        "comparison.html",
        "comparison.json",
        "comparison.md",
    ]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "mean score" in page and "mockllm/old" in page and "<svg" in page


def test_a_folder_with_logs_of_several_models_is_a_run_for_each(call_miles: Call, tmp_path: Path) -> None:
    for name in ("old", "new", "doubles"):
        shutil.copy(INSPECT / f"{name}.eval", tmp_path)
    (tmp_path / "eval-set.json").write_text("{}", encoding="utf-8")
    found = compared(call_miles, "--from", "inspect", tmp_path)
    (run,) = found["runs"]
    assert {found["before"], run["after"]} == {"mockllm/old", "mockllm/new"}
    alone = run["alone"]["before"] + run["alone"]["after"]
    assert [one["where"]["task"] for one in alone] == ["doubles"]
    assert any("eval-set.json is no log, and left out." in note for note in run["notes"])


def test_of_two_logs_of_a_task_the_one_that_ended_well_counts(call_miles: Call, tmp_path: Path) -> None:
    for name in ("new", "failed"):
        (tmp_path / "a").mkdir(exist_ok=True)
        shutil.copy(INSPECT / f"{name}.eval", tmp_path / "a")
    found = compared(call_miles, "--from", "inspect", INSPECT / "old.eval", tmp_path / "a")
    assert any("failed.eval is left out: it did not come to its end." in one for one in found["runs"][0]["notes"])
    shutil.copy(INSPECT / "clustered.eval", tmp_path / "a")
    told = call_miles("compare", "--from", "inspect", INSPECT / "old.eval", tmp_path / "a")
    one_panel(told, "mockllm/new took sums more than once", "file by file")


def test_logs_of_lm_eval_are_compared_by_folder_by_results_and_by_file(call_miles: Call) -> None:
    whole = compared(call_miles, "--from", "lm-eval", LM_EVAL / "old", LM_EVAL / "new")
    (run,) = whole["runs"]
    assert run["records"] == {"both": 13, "before": 0, "after": 0} and len(run["changes"]) == 5
    row = next(one for one in run["changes"] if one["where"] == {"task": "tiny_choice", "metric": "acc"})
    assert row["worse"] and row["before"] == 1.0
    assert any("perplexity of tiny_loss is left out" in note for note in run["notes"])
    assert compared(call_miles, "--from", "lm-eval", LM_EVAL)["matrix"]["runs"] == ["new", "old"]
    results = [next((LM_EVAL / name).glob("results_*")) for name in ("old", "new")]
    again = compared(call_miles, "--from", "lm-eval", *results)
    assert again["runs"][0]["changes"] == run["changes"]
    files = [next((LM_EVAL / name).glob("samples_tiny_choice_*")) for name in ("old", "new")]
    assert len(compared(call_miles, "--from", "lm-eval", *files)["runs"][0]["changes"]) == 2
    by_family = compared(call_miles, "--from", "lm-eval", *files, "--cluster", "family")["runs"][0]
    assert any("13 samples of tiny_choice are in 4 clusters by family." in note for note in by_family["notes"])


def test_a_metric_that_is_better_the_lower_gets_worse_upwards(call_miles: Call, tmp_path: Path) -> None:
    folders = []
    for name, shift in (("a", 0.0), ("b", 1.0)):
        lines = [lm_eval_line(at, loss=at % 7 + shift + at % 3 / 10 * shift) for at in range(40)]
        path = lm_eval_samples(tmp_path / name, lines)
        results = {"results": {"sums": {}}, "higher_is_better": {"sums": {"loss": False}}}
        path.with_name("results_2026-11-28T00-00-00.000001.json").write_text(json.dumps(results), encoding="utf-8")
        folders.append(tmp_path / name)
    (row,) = compared(call_miles, "--from", "lm-eval", *folders)["runs"][0]["changes"]
    assert row["name"] == "loss" and row["worse"] and row["change"] > 1
    told = call_miles("compare", "--from", "lm-eval", *folders, "--only", "loss[metric=loss]", "--fail-on-regression")
    assert told.code == 1


def test_samples_that_ask_something_else_are_not_paired(call_miles: Call, tmp_path: Path) -> None:
    for name, asked in (("a", "What"), ("b", "How")):
        samples = [sample(at, "CI"[at % 2 if name == "a" else at % 3 == 0], input=f"{asked} {at}?") for at in range(30)]
        (tmp_path / f"{name}.json").write_text(json.dumps(inspect_json(samples, f"m/{name}")), encoding="utf-8")
    (run,) = compared(call_miles, "--from", "inspect", tmp_path / "a.json", tmp_path / "b.json")["runs"]
    assert run["records"] is None and "No change is paired: no record stands in both runs." in run["notes"][0]
    assert run["changes"][0]["paired"] is None and run["changes"][0]["low"] is not None


def test_a_renamed_scorer_is_matched(call_miles: Call, tmp_path: Path) -> None:
    for name in "ab":
        samples = [sample(at, "CI"[(at * (2 if name == "a" else 3)) % 5 == 0]) for at in range(30)]
        if name == "b":
            samples = [{**one, "scores": {"exact": one["scores"]["match"]}} for one in samples]
        log = inspect_json(samples, f"m/{name}")
        log["eval"]["scorers"][0]["name"] = "match" if name == "a" else "exact"
        (tmp_path / f"{name}.json").write_text(json.dumps(log), encoding="utf-8")
    logs = tmp_path / "a.json", tmp_path / "b.json"
    (row,) = compared(call_miles, "--from", "inspect", *logs, "--match", "match=exact")["runs"][0]["changes"]
    assert row["paired"] == {"matched": 30, "of": 30}


def test_two_tasks_on_the_same_documents_are_matched_and_paired(call_miles: Call, tmp_path: Path) -> None:
    for task, every in (("plain", 3), ("steps", 2)):
        lm_eval_samples(tmp_path / task, [lm_eval_line(at, acc=float(at % every > 0)) for at in range(60)], task)
    found = compared(call_miles, "--from", "lm-eval", tmp_path / "plain", tmp_path / "steps", "--match", "plain=steps")
    (row,) = found["runs"][0]["changes"]
    assert row["paired"] == {"matched": 60, "of": 60}
    assert (row["before"], row["after"]) == (pytest.approx(2 / 3), 0.5)


def test_a_sample_of_two_tasks_counts_in_both(call_miles: Call, tmp_path: Path) -> None:
    for model, every in (("a", 3), ("b", 2)):
        for task, more in (("one", 0), ("two", 1)):
            lines = [lm_eval_line(at, acc=float((at + more) % (every + more) > 0)) for at in range(60 - 20 * more)]
            lm_eval_samples(tmp_path / model, lines, task)
    (run,) = compared(call_miles, "--from", "lm-eval", tmp_path / "a", tmp_path / "b")["runs"]
    assert run["records"] == {"both": 60, "before": 0, "after": 0}
    assert {row["where"]["task"]: row["paired"]["of"] for row in run["changes"]} == {"one": 60, "two": 40}


def test_a_run_of_too_many_metrics_and_samples_is_refused(call_miles: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from audits.report.comparison import log_records

    monkeypatch.setattr(log_records, "MOST_CELLS", 16)
    told = call_miles("compare", "--from", "inspect", INSPECT / "old.eval", INSPECT / "new.eval")
    one_panel(told, "3 metrics of 16 samples are more than 16 cells", "Compare fewer tasks at a time")


REFUSED: dict[str, tuple[list[object], tuple[str, ...]]] = {
    "one log": (
        ["--from", "inspect", INSPECT / "old.eval"],
        ("One run cannot be compared", "logs of at least two models"),
    ),
    "another harness": (["--from", "other", "a", "b"], ("Invalid value for '--from'", "inspect", "lm-eval")),
    "no log": (["--from", "inspect", "a.eval", "b.eval"], ("There is no such file", "a.eval")),
    "an empty folder": (["--from", "inspect", ".", "."], ("There is no log of inspect_ai in this folder",)),
    "logs without the option": ([INSPECT / "old.eval", INSPECT / "new.eval"], ("Add --from inspect",)),
    "folders of logs without the option": ([LM_EVAL / "old", LM_EVAL / "new"], ("Add --from lm-eval",)),
    "no samples": (["--from", "lm-eval", ".", "."], ("no samples_TASK_DATE.jsonl", "--log_samples")),
    "of the other harness": (
        ["--from", "lm-eval", INSPECT / "old.json", INSPECT / "new.eval"],
        ("This is not JSON", "--log_samples"),
    ),
    "a field that is not there": (
        ["--from", "inspect", INSPECT / "old.eval", INSPECT / "new.eval", "--cluster", "nothing"],
        ("no text or number 'nothing' in its metadata", "family"),
    ),
    "clusters of runs": (["a", "b", "--cluster", "family"], ("--cluster is for logs of other harnesses",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_logs_are_refused_in_one_panel(name: str, call_miles: Call, tmp_path: Path) -> None:
    words, says = REFUSED[name]
    told = call_miles("compare", *words, "--out", tmp_path / "made", cwd=tmp_path)
    one_panel(told, *says)
    assert everything(tmp_path) == []
