"""Samples of lm-evaluation-harness: genuine ones, and what is left out, told or refused of others."""

import json
from pathlib import Path

import pytest
from eval_logs import LM_EVAL, lm_eval_line, lm_eval_samples

from probes.core.errors import InputError
from probes.eval_logs.lm_eval_logs import is_samples, read_log, results_of, samples_of, task_and_date
from probes.eval_logs.scores import Column, mean

ACC, NORM = Column("", "acc"), Column("", "acc_norm")


def genuine(model: str, task: str) -> Path:
    (path,) = (LM_EVAL / model).glob(f"samples_{task}_*.jsonl")
    return path


def refusal(path: Path, cluster: str = "") -> InputError:
    with pytest.raises(InputError) as caught:
        read_log(path, cluster)
    assert caught.value.where and caught.value.hint
    return caught.value


def test_genuine_samples_give_the_means_of_the_results() -> None:
    path = genuine("new", "tiny_choice")
    results = results_of(path)
    assert results is not None
    found = read_log(path, results=results)
    assert (found.model, found.task, found.columns) == ("new", "tiny_choice", (ACC, NORM))
    assert mean(found.samples, ACC) == results.values["results"]["tiny_choice"]["acc,none"]
    assert found.higher_is_better == {ACC: True, NORM: True} and found.notes == ()
    assert samples_of(results.path) == sorted((LM_EVAL / "new").glob("samples_*"))


def test_settings_hold_what_is_not_the_name_of_the_model(tmp_path: Path) -> None:
    path = lm_eval_samples(tmp_path / "a", [lm_eval_line(1, acc=1.0)])
    config = {"model_args": {"pretrained": "x/y", "dtype": "float16"}, "limit": 9}
    results = {"results": {"sums": {}}, "config": config, "n-shot": {"sums": 5}, "versions": {"sums": 2}}
    path.with_name(f"results_{task_and_date(path)[1]}.json").write_text(json.dumps(results), encoding="utf-8")
    found = read_log(path, results=results_of(path))
    assert found.model == "x/y"
    assert found.settings == {"version": 2, "n-shot": 5, "model arguments": 'dtype="float16"', "limit": 9}


def test_samples_are_known_by_their_names() -> None:
    named = {"samples_a_2026.jsonl": True, "samples_a.json": False, "a.jsonl": False, "results_a.json": False}
    assert {name: is_samples(Path(name)) for name in named} == named


def test_a_document_that_comes_twice_is_two_samples_of_one_cluster() -> None:
    found = read_log(genuine("new", "tiny_choice"))
    assert len({one.key for one in found.samples}) == len(found.samples) == 13
    assert len({one.cluster for one in found.samples}) == 12
    assert len({one.cluster for one in read_log(genuine("new", "tiny_choice"), "family").samples}) == 4


def test_filters_of_one_sample_are_metrics_of_it() -> None:
    found = read_log(genuine("old", "tiny_answer"))
    assert [(one.metric, one.filter) for one in found.columns] == [("exact_match", "first"), ("exact_match", "number")]
    assert len(found.samples) == 13


def test_a_metric_that_is_no_mean_is_left_out_and_told() -> None:
    path = genuine("old", "tiny_loss")
    found = read_log(path, results=results_of(path))
    assert found.columns == (ACC,)
    (note,) = found.notes
    assert note.startswith("perplexity of tiny_loss is left out: the results say 2.681, which is no mean")
    # Without results nobody knows that, nor which direction is better.
    bare = read_log(path)
    assert Column("", "perplexity") in bare.columns and bare.higher_is_better == {ACC: True}


def test_samples_are_matched_by_document_and_not_by_number(tmp_path: Path) -> None:
    first = read_log(lm_eval_samples(tmp_path / "a", [lm_eval_line(3, acc=1.0), lm_eval_line(7, acc=0.0)]))
    moved = [lm_eval_line(0, acc=0.0, doc_hash=f"{7:064x}"), lm_eval_line(1, acc=1.0, doc_hash=f"{3:064x}")]
    second = read_log(lm_eval_samples(tmp_path / "b", moved))
    assert {one.key: one.scores for one in first.samples} == {one.key: one.scores for one in second.samples}
    assert (first.model, second.model) == ("a", "b")


def test_lines_of_early_versions_have_neither_list_of_metrics_nor_hash(tmp_path: Path) -> None:
    lines = [lm_eval_line(at, acc=1.0, f1=[0, 1]) for at in range(2)]
    early = [{key: value for key, value in one.items() if key not in ("metrics", "doc_hash")} for one in lines]
    found = read_log(lm_eval_samples(tmp_path / "a", early))
    assert found.columns == (ACC,) and len({one.key for one in found.samples}) == 2
    assert found.notes == ("samples of sums without a single number as f1, which is left out: 2.",)


def test_samples_that_the_results_count_and_the_file_lacks_are_told(tmp_path: Path) -> None:
    path = lm_eval_samples(tmp_path / "a", [lm_eval_line(at, acc=1.0) for at in range(3)])
    results = {"results": {"sums": {"acc,none": 1.0}}, "n-samples": {"sums": {"original": 9, "effective": 5}}}
    path.with_name(f"results_{task_and_date(path)[1]}.json").write_text(json.dumps(results), encoding="utf-8")
    assert read_log(path, results=results_of(path)).notes == ("2 of 5 samples of sums are missing.",)


@pytest.mark.parametrize(
    ("theirs", "note"),
    [
        # The two that are missing may both be wrong, or both be right.
        (0.4, ""),
        (0.8, ""),
        (0.39, "acc of sums is left out: the results say 0.39, which is no mean over its samples (0.6667)."),
        (0.81, "acc of sums is left out: the results say 0.81, which is no mean over its samples (0.6667)."),
    ],
)
def test_a_mean_of_more_samples_than_the_file_has_is_no_other_number(tmp_path: Path, theirs: float, note: str) -> None:
    lines = [lm_eval_line(at, acc=score, words=9 * score) for at, score in enumerate((1.0, 1.0, 0.0))]
    path = lm_eval_samples(tmp_path / "a", lines)
    results = {
        "results": {"sums": {"acc,none": theirs, "words,none": 4.0}}, "n-samples": {"sums": {"effective": 5}}
    }  # fmt: skip
    path.with_name(f"results_{task_and_date(path)[1]}.json").write_text(json.dumps(results), encoding="utf-8")
    found = read_log(path, results=results_of(path))
    unknown = "words of sums is left out: the results say 4, and whether that is a mean cannot be told (6)."
    # Counted are the samples of the file, not those that have a metric left.
    assert found.notes == ("2 of 5 samples of sums are missing.", *filter(None, (note, unknown)))
    assert found.columns == (() if note else (ACC,))


def test_what_are_no_samples_is_refused(tmp_path: Path) -> None:
    path = lm_eval_samples(tmp_path / "a", [lm_eval_line(1, acc=1.0), lm_eval_line(1, acc=0.0)])
    assert "document 1 stands twice" in refusal(path).message and refusal(path).where == f"{path}:2"
    path = lm_eval_samples(tmp_path / "a", [{"id": 1}])
    assert "no whole number `doc_id`" in refusal(path).message
    path = lm_eval_samples(tmp_path / "a", [lm_eval_line(1, acc="high")])
    assert "no scored sample" in refusal(path).message
    other = [lm_eval_line(1, acc=1.0), lm_eval_line(1, acc=1.0, filter="x", doc_hash="b")]
    assert "another one than above" in refusal(lm_eval_samples(tmp_path / "a", other)).message
    path = lm_eval_samples(tmp_path / "a", [lm_eval_line(1, acc=1.0)])
    assert "no text or number 'nothing'" in refusal(path, "nothing").message


def test_a_task_of_more_metrics_than_are_compared_is_refused(tmp_path: Path) -> None:
    lines = [lm_eval_line(place, **{f"m{place}_{at}": 1.0 for at in range(60)}) for place in range(10)]
    path = lm_eval_samples(tmp_path / "a", lines)
    assert "more than 500 metrics" in refusal(path).message and refusal(path).where == f"{path}:9"
    # Those without a number are told one by one.
    lines = [lm_eval_line(place, **{f"m{place}_{at}": None for at in range(60)}) for place in range(10)]
    assert "more than 500 metrics" in refusal(lm_eval_samples(tmp_path / "b", lines)).message
