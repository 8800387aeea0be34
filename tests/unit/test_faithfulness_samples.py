"""Are rows read as they are meant, in the layouts of published data too, and are wrong ones refused?"""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from audits.faithfulness.samples import EMPTY, NO_CONTEXT, REFUSAL, Sample, Wanted, read_samples
from probes.core.errors import InputError


def lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path: Path, preset: str | None = None, **wanted: Any) -> list[Sample]:
    given: dict[str, Any] = {"columns": {}, "faithful": frozenset(), "by": (), "scores": (), **wanted}
    return read_samples(path, preset, Wanted(**given))[0]


def test_contexts_are_texts_chunks_tables_objects_or_slots(tmp_path: Path) -> None:
    contexts = ["A text.", ["One.", "Two."], [["food", "Thai"]], {"food": "Thai"}, "food[Thai], area[city]"]
    found = read(lines(tmp_path / "rows.jsonl", [{"context": one, "output": "x"} for one in contexts]))
    assert [sample.pair.evidence.chunks for sample in found] == [(), ("One.", "Two."), (), (), ()]
    cells = [sample.pair.evidence.cells for sample in found]
    assert cells[2] == cells[3] == (("food", "Thai"),) and cells[4] == (("food", "Thai"), ("area", "city"))
    assert len({sample.context_id for sample in found[2:4]}) == 1, "equal contexts are one"


def test_outputs_that_say_nothing_are_classes_of_their_own(tmp_path: Path) -> None:
    rows = [("A", " "), ("A", "I don't know."), ("", "Said."), ("A", "Sorry, I cannot say."), ("A", "I know it.")]
    found = read(lines(tmp_path / "rows.jsonl", [{"context": one, "output": said} for one, said in rows]))
    assert [sample.apart for sample in found] == [EMPTY, REFUSAL, NO_CONTEXT, REFUSAL, ""]


@pytest.mark.parametrize(
    ("said", "apart"),
    [
        ("I don\u2019t know.", REFUSAL),
        ("I'm sorry, but I don't know the answer to that.", REFUSAL),
        ("I am unable to answer this from the text.", REFUSAL),
        ("Sorry!", REFUSAL),
        ("N/A", REFUSAL),
        ("I can't believe that Elvis was born in 1935!", ""),
        ("Sorry to hear that, Elvis was born in 1935.", ""),
        ("I don't know why, but some bodybuilders advocated that.", ""),
        ("I could not agree more, Elvis sang rock.", ""),
    ],
)
def test_only_what_states_nothing_is_a_refusal(said: str, apart: str, tmp_path: Path) -> None:
    (found,) = read(lines(tmp_path / "rows.jsonl", [{"context": "A", "output": said}]))
    assert found.apart == apart


def test_labels_and_scores_are_read_and_wrong_ones_refused(tmp_path: Path) -> None:
    rows = [{"context": "A", "output": "x", "label": label, "cost": cost} for label, cost in ((1, 3), ("no", "nan"))]
    first, second = read(lines(tmp_path / "rows.jsonl", rows), scores=("-cost",))
    assert (first.label, second.label) == (True, False)
    assert (first.scores, second.scores) == ({"cost": -3.0}, {})
    named = [{"context": "A", "output": "x", "label": word} for word in ("good", "bad")]
    path = lines(tmp_path / "named.jsonl", named)
    with pytest.raises(InputError, match="'good' is neither 0 nor 1"):
        read(path)
    assert [sample.label for sample in read(path, faithful=frozenset({"good"}))] == [True, False]
    with pytest.raises(InputError, match="is no score"):
        read(lines(tmp_path / "odd.jsonl", [{"context": "A", "output": "x", "cost": "inf"}]), scores=("cost",))


def test_scores_alone_need_no_texts_and_a_dataset_is_always_a_group(tmp_path: Path) -> None:
    rows = [{"id": at, "mine": at, "label": at % 2, "dataset": "ab"[at % 2]} for at in range(4)]
    found = read(lines(tmp_path / "rows.jsonl", rows), scores=("mine",))
    assert [sample.groups for sample in found] == [{"dataset": "a"}, {"dataset": "b"}] * 2
    assert len({sample.context_id for sample in found}) == 4 and not any(sample.apart for sample in found)


def test_a_missing_column_and_an_id_that_comes_twice_are_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [{"knowledge": "A", "output": "x"}])
    with pytest.raises(InputError, match="no column 'context'"):
        read(path)
    assert read(path, columns={"context": "knowledge"})[0].pair.evidence.text == "A"
    with pytest.raises(InputError, match="have the id '1'"):
        read(lines(tmp_path / "twice.jsonl", [{"id": "1", "context": "A", "output": "x"}] * 2))


def test_begin_and_the_cleaned_restaurants(tmp_path: Path) -> None:
    path = tmp_path / "begin.tsv"
    path.write_text(
        "model_name\tknowledge\tmessage\tresponse\tbegin_label\n"
        't5\tA "b.\thi\tB.\tFully attributable\n'
        "t5\tC.\thi\tD.\tGeneric\n"
    )
    assert [(one.system, one.label) for one in read(path, "begin")] == [("t5", True), ("t5", False)]
    path = tmp_path / "e2e.csv"
    with path.open("w", newline="") as file:
        written = csv.writer(file)
        written.writerow(["mr", "ref", "orig_mr"])
        base, more, less = "name[A], food[Thai]", "name[A], food[Thai], area[city]", "name[A]"
        written.writerows([[base, "x", base], [more, "x", base], [less, "x", base]])
    assert [(one.label, one.omits) for one in read(path, "e2e")] == [(True, False), (False, False), (True, True)]


def test_restaurants_without_corrected_slots_have_no_label(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('orig_mr,ref\n"name[A], food[Thai]",A serves Greek food.\n')
    assert [(sample.label, sample.omits) for sample in read(path, "e2e")] == [(None, None)]


def test_contexts_and_judgements_that_lie_beside_a_published_table(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "response.jsonl",
        [
            {"id": "1", "source_id": "7", "model": "m", "labels": [], "response": "It is open."},
            {"id": "2", "source_id": "8", "model": "m", "labels": [{"start": 0, "end": 2}], "response": "No."},
        ],
    )
    with pytest.raises(InputError, match=r"no source_info\.jsonl beside"):
        read(path, "ragtruth")
    sources = [{"source_id": "7", "source_info": "Text.", "task_type": "Summary"}]
    sources += [{"source_id": "8", "source_info": {"name": "A", "hours": {"Monday": "9-5"}}, "task_type": "Data2txt"}]  # type: ignore[dict-item]
    lines(tmp_path / "source_info.jsonl", sources)
    first, second = read(path, "ragtruth")
    assert (first.label, second.label) == (True, False) and first.context_id == "7"
    assert set(second.pair.evidence.cells) == {("name", "A"), ("hours Monday", "9-5")}
    rows = [{"hash": "h", "model_name": name, "article": "A.", "summary": "B.", "reference": "C."} for name in "ab"]
    path = tmp_path / "benchmark_data.json"
    path.write_text(json.dumps(rows))
    marks = [{"hash": "h", "model_name": "a", "Factuality": 1.0}, {"hash": "h", "model_name": "b", "Factuality": 0.5}]
    (tmp_path / "human_annotations.json").write_text(json.dumps(marks))
    assert [(one.system, one.label) for one in read(path, "frank")] == [("a", True), ("b", False)]
    (tmp_path / "human_annotations.json").write_text(json.dumps(marks[:1]))
    with pytest.raises(InputError, match="has no row of hash h, model_name b"):
        read(path, "frank")
