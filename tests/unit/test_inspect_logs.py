"""Logs of inspect_ai: genuine ones in both forms, and what is counted, told or refused of others."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from eval_logs import ACCURACY, INSPECT, inspect_eval, inspect_json, sample

from audits.report.comparison.comparing import compare
from audits.report.comparison.log_files import read_logs
from probes.core.errors import InputError
from probes.eval_logs import inspect_logs, zip_parts
from probes.eval_logs.inspect_logs import read_if_log, read_log, value_of
from probes.eval_logs.scores import Column, TaskLog, mean

DIGITS, FIRST = Column("parts", "digits"), Column("parts", "first")


def written(tmp_path: Path, log: dict[str, Any], name: str = "a.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(log), encoding="utf-8")
    return path


def read(tmp_path: Path, log: dict[str, Any], cluster: str = "") -> TaskLog:
    return read_log(written(tmp_path, log), cluster)


def refusal(path: Path, cluster: str = "") -> InputError:
    with pytest.raises(InputError) as caught:
        read_log(path, cluster)
    assert caught.value.where and caught.value.hint
    return caught.value


def test_both_forms_of_a_genuine_log_hold_the_same_samples() -> None:
    packed, plain = read_log(INSPECT / "old.eval"), read_log(INSPECT / "old.json")
    assert packed.samples == plain.samples and len(packed.samples) == 16
    assert (packed.model, packed.task, packed.harness) == ("mockllm/old", "sums", ("inspect_ai", "0.3.285"))
    assert packed.columns == (ACCURACY, DIGITS, FIRST) and packed.complete and packed.notes == ()
    assert packed.settings["epochs"] == 2


def test_epochs_of_a_genuine_log_are_averaged_as_the_file_says() -> None:
    raw = json.loads((INSPECT / "old.json").read_text(encoding="utf-8"))
    values: dict[str, list[float]] = {}
    for one in raw["samples"]:
        values.setdefault(one["id"], []).append({"C": 1.0, "I": 0.0}[one["scores"]["match"]["value"]])
    assert {len(found) for found in values.values()} == {2}
    assert [one.scores[ACCURACY] for one in read_log(INSPECT / "old.json").samples] == [
        sum(found) / 2 for found in values.values()
    ]


def test_the_field_of_clustered_standard_errors_is_known_and_another_can_be_named(tmp_path: Path) -> None:
    found = read_log(INSPECT / "clustered.eval")
    assert found.clusters == "family" and len({one.cluster for one in found.samples}) == 9
    assert read_log(INSPECT / "old.eval").clusters == ""
    assert read_log(INSPECT / "old.eval", "family").samples == read_log(INSPECT / "old.json", "family").samples
    assert "no text or number 'nothing'" in refusal(INSPECT / "old.eval", "nothing").message
    assert "family" in str(refusal(INSPECT / "old.eval", "nothing").hint)


def test_a_log_that_ended_in_an_error_tells_what_is_missing() -> None:
    found = read_log(INSPECT / "failed.eval")
    assert not found.complete and len(found.samples) == 12
    assert found.notes == (
        "the log of sums has the status error: 4 of 16 answers are missing.",
        "answers to sums that ended in an error: 2.",
    )


@pytest.mark.parametrize(
    ("value", "score"),
    [("C", 1), ("I", 0), ("P", 0.5), ("N", 0), ("yes", 1), ("FALSE", 0), ("0.25", 0.25), (True, 1), (3, 3),
     (-0.5, -0.5), ("c", None), ("good", None), ("nan", None), ("1e999", None), ([1], None),
     (10**40, 1e40), (1e200, None)],
)  # fmt: skip
def test_values_count_as_inspect_counts_them(value: object, score: float | None) -> None:
    assert inspect_logs.value_of(value) == score


def test_what_has_no_number_is_counted_and_what_is_not_scored_is_not(tmp_path: Path) -> None:
    samples = [sample(1, "C"), sample(2, "good"), sample(3, float("nan")), sample(4, None), sample(5, "I", error="no")]
    found = read(tmp_path, inspect_json(samples))
    assert [one.scores for one in found.samples] == [{ACCURACY: 1.0}]
    assert found.notes == (
        "4 of 5 answers are missing in the log of sums.",
        "answers to sums that ended in an error: 1.",
        "answers to sums with a score of match that is no number, which is left out: 1.",
        "answers to sums without a score: 3.",
    )


def test_what_one_of_two_scorers_did_not_score_is_counted(tmp_path: Path) -> None:
    samples = [sample(1, "C"), sample(2, "I"), sample(3, float("nan"))]
    for one in samples:
        one["scores"]["other"] = {"value": 0.5}
    assert read(tmp_path, inspect_json(samples)).notes == ("answers to sums without a score of match: 1.",)


def test_epochs_that_lack_a_score_do_not_count_in_the_mean(tmp_path: Path) -> None:
    samples = [sample(1, "C"), sample(1, "I", 2), sample(1, "C", 3), sample(2, "P"), sample(2, None, 2)]
    found = read(tmp_path, inspect_json(samples))
    assert [one.scores[ACCURACY] for one in found.samples] == [pytest.approx(2 / 3), 0.5]


def test_a_number_of_the_log_that_is_another_mean_is_told(tmp_path: Path) -> None:
    log = inspect_json([sample(1, "C"), sample(1, "I", 2)])
    metrics = {"accuracy": {"name": "accuracy", "value": 1.0}}
    log["results"] = {"scores": [{"name": "match", "scorer": "match", "reducer": "max", "metrics": metrics}]}
    (note,) = read(tmp_path, log).notes
    assert note.startswith("the log of sums says accuracy 1 of match (reduced by max); ") and note.endswith("is 0.5.")
    log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 0.5
    assert read(tmp_path, log).notes == ()


def test_a_sample_is_known_by_its_id_and_what_was_asked(tmp_path: Path) -> None:
    def key(name: object, asked: object) -> str:
        return read(tmp_path, inspect_json([sample(name, "C", input=asked)])).samples[0].key

    said = [{"role": "user", "content": "Up?", "id": "x"}]
    assert key(1, "Up?") == key(1, "Up?") and len({key(1, "Up?"), key("1", "Up?"), key(1, "Down?")}) == 3
    # Messages have names that differ from run to run, and summaries hold the beginning of long texts.
    assert key(1, said) == key(1, [{**said[0], "id": "y"}]) != key(1, "Up?")
    assert key(1, "a" * 9000) == key(1, "a" * 5120 + "...\n(content truncated)")
    image = [{"role": "user", "content": [{"type": "image", "image": "x.png"}, {"type": "text", "text": "Up?"}]}]
    thin = [{"role": "user", "content": [{"type": "text", "text": "(Image)"}, {"type": "text", "text": "Up?"}]}]
    assert key(1, image) == key(1, thin)


def test_a_run_that_was_killed_or_is_of_an_early_version_is_read_from_what_there_is(tmp_path: Path) -> None:
    log = inspect_json([sample(1, "C"), sample(2, "I")])
    killed = read_log(inspect_eval(tmp_path / "a.eval", log, header="_journal/start.json"))
    assert not killed.complete and killed.notes == ("the log of sums has the status started.",)
    early = read_log(inspect_eval(tmp_path / "b.eval", log, summaries=False))
    assert early.complete and early.samples == killed.samples


def test_other_json_in_a_folder_is_no_log(tmp_path: Path) -> None:
    assert read_if_log(written(tmp_path, {"logs": []})) is None
    assert read_if_log(INSPECT / "old.json") == read_log(INSPECT / "old.json")


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    assert "no object `eval`" in refusal(written(tmp_path, {"results": {}})).message
    assert "no scored sample (status success)" in refusal(written(tmp_path, inspect_json([]))).message
    twice = inspect_json([sample(1, "C"), sample(1, "I")])
    assert "1 stands twice in epoch 1" in refusal(written(tmp_path, twice)).message
    other = inspect_json([sample(1, "C"), sample(1, "I", 2, input="Down?")])
    assert "asks something else" in refusal(written(tmp_path, other)).message
    assert "is no name of a model" in refusal(written(tmp_path, inspect_json([sample(1, "C")], model="a\nb"))).message
    place = tmp_path / "a.eval"
    with zipfile.ZipFile(place, "w") as file:
        file.writestr("other.json", "{}")
    assert "the zip has no header.json" in refusal(place).message
    place.write_bytes((INSPECT / "old.eval").read_bytes()[:-40])
    assert "cut off" in refusal(place).message


def test_a_packed_log_may_not_unpack_to_more_than_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_logs, "LARGEST", 2**14)
    log = inspect_json([sample(1, "C", metadata={"pad": " " * 2**15})])
    assert "unpack to more than 16,384 bytes" in refusal(inspect_eval(tmp_path / "a.eval", log)).message
    # All entries together, and Zstandard too.
    two = inspect_json([sample(at, "C", metadata={"pad": " " * 9000}) for at in range(2)])
    assert (
        "unpack to more than 16,384 bytes" in refusal(inspect_eval(tmp_path / "c.eval", two, summaries=False)).message
    )
    data = bytearray((INSPECT / "old.eval").read_bytes())
    monkeypatch.setattr(inspect_logs, "LARGEST", 4000)
    (tmp_path / "b.eval").write_bytes(data)
    assert "unpack to more than 4,000 bytes" in refusal(tmp_path / "b.eval").message


def test_an_entry_that_holds_more_than_its_size_says_is_refused(tmp_path: Path) -> None:
    data = (INSPECT / "old.eval").read_bytes()
    at = data.rindex(b"summaries.json") - 46 + 24
    (tmp_path / "a.eval").write_bytes(data[:at] + (100).to_bytes(4, "little") + data[at + 4 :])
    assert "damaged" in refusal(tmp_path / "a.eval").message


def test_a_damaged_zstandard_entry_is_refused(tmp_path: Path) -> None:
    data = bytearray((INSPECT / "old.eval").read_bytes())
    at = data.index(b"summaries.json") + 40
    data[at : at + 8] = bytes(8)
    (tmp_path / "a.eval").write_bytes(data)
    assert "damaged" in refusal(tmp_path / "a.eval").message


def test_without_pyarrow_the_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from probes.eval_logs import zip_parts

    monkeypatch.setattr(zip_parts, "find_spec", lambda _: None)
    assert "miles-audit[tables]" in str(refusal(INSPECT / "old.eval").hint)


def test_the_means_are_those_of_the_log() -> None:
    for name in ("old.eval", "new.eval", "doubles.eval"):
        # A log whose means are others would say so.
        assert read_log(INSPECT / name).notes == ()
    assert mean(read_log(INSPECT / "old.eval").samples, DIGITS) == 1.84375


def test_a_log_of_nothing_but_lists_is_refused_before_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_parts, "MOST_VALUES", 100)
    log = {**inspect_json([sample("1", "C")]), "samples": [[]] * 100}
    assert "more than 100 objects and lists" in refusal(written(tmp_path, log)).message
    packed = {**inspect_json([sample("1", "C", note=[[]] * 100)])}
    assert "more than 100 objects and lists" in refusal(inspect_eval(tmp_path / "a.eval", packed)).message


def test_scores_of_any_size_that_is_taken_are_compared(tmp_path: Path) -> None:
    folders = []
    for model, place in (("m/a", 0), ("m/b", 3)):
        samples = [sample(str(at), 10.0**70 if at % 5 == place else 1.0) for at in range(30)]
        folders.append(tmp_path / model[-1])
        folders[-1].mkdir()
        (folders[-1] / "log.json").write_text(json.dumps(inspect_json(samples, model=model)))
    before, after = read_logs("inspect", folders)
    assert len(compare(before, after).rows) == 1
    assert value_of(10.0**71) is None
