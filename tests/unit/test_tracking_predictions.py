"""Do answers find their items, and are they right when they say what the target says, and only then?"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from audits.tracking.items import Item
from audits.tracking.predictions import Answer, read_predictions
from audits.tracking.scoring import extract, score
from probes.core.errors import InputError

OPTIONS = ("red ball", "blue ball", "cup")
ITEMS = [
    Item(
        id=f"q{at}", task=task, prompt=f"Question {at}", target=OPTIONS[at % 3], options=OPTIONS,
        labels=("(A)", "(B)", "(C)"), n_ops=1, n_changes=1, depth=1, index=at % 2,
    )
    for at, task in enumerate(("one", "one", "two", "two"))
]  # fmt: skip
BOX = Item(id="b", task="boxes", prompt="", target="the bell and the key", n_ops=1, n_changes=1, depth=1)


def written(folder: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    file = folder / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def found(folder: Path, rows: Sequence[Mapping[str, object]]) -> dict[str, dict[int, str]]:
    read = read_predictions("sys", written(folder, rows), ITEMS)
    return {system: {at: answer.text for at, answer in answers.items()} for system, answers in read.items()}


def test_answers_are_matched_by_name_index_or_order(tmp_path: Path) -> None:
    by_name = [{"id": "q2", "prediction": "x"}, {"id": "q0", "prediction": "y"}]
    assert found(tmp_path, by_name) == {"sys": {2: "x", 0: "y"}}
    by_index = [{"task": "two", "index": 1, "prediction": "x"}, {"task": "one", "index": 1, "prediction": "y"}]
    assert found(tmp_path, by_index) == {"sys": {3: "x", 1: "y"}}
    assert found(tmp_path, [{"prediction": text} for text in "abcd"]) == {"sys": dict(enumerate("abcd"))}


def test_a_column_parts_systems_and_a_canary_is_no_answer(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"canary": "x"}]
    rows += [{"id": "q0", "mode": mode, "prediction": mode} for mode in ("direct", "cot")]
    assert found(tmp_path, rows) == {"sys.direct": {0: "direct"}, "sys.cot": {0: "cot"}}


def test_samples_of_another_harness_are_matched_by_their_document(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"doc_id": 9, "doc": {"input": "Question 1"}, "target": "x", "filtered_resps": ["(B)"], "resps": [["no"]]},
        {"doc_id": 8, "doc": {"input": "Question 0"}, "target": "x", "filtered_resps": ["(C)"], "resps": [["no"]]},
    ]
    assert found(tmp_path, rows) == {"sys": {1: "(B)", 0: "(C)"}}
    chosen: list[dict[str, object]] = [
        {
            "doc_id": 0,
            "doc": {"input": "Question 2"},
            "resps": [[["-3.5", "False"]], [["-1.5", "True"]], [["-2.0", "False"]]],
        }
    ]
    assert read_predictions("sys", written(tmp_path, chosen), ITEMS) == {"sys": {2: Answer(choice=1)}}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "q9", "prediction": "x"}], "No item has id q9"),
        ([{"task": "three", "index": 0, "prediction": "x"}], "No item has task three, index 0"),
        ([{"index": 0, "prediction": "x"}], "No item has index 0"),
        ([{"id": "q0", "prediction": "x"}, {"id": "q0", "prediction": "y"}], "two answers to item 'q0'"),
        ([{"prediction": "x"}] * 5, "5 rows of sys, and 4 items"),
        ([{"prediction": "x"}] * 3, "3 rows of sys, and 4 items"),
        ([{"mode": "a\u202eb", "prediction": "x"}, {"mode": "c", "prediction": "x"}], "no name of a system"),
        ([{"id": "q0", "text": "x"}], "no column `prediction`"),
        ([{"id": "q0", "resps": [[-1.0, True]]}], "1 log-likelihoods, and its item 3 options"),
    ],
)
def test_answers_of_no_item_are_refused(tmp_path: Path, rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_predictions("sys", written(tmp_path, rows), ITEMS)


def test_answers_to_another_task_are_refused_with_all_ways_to_mend_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_predictions("sys", written(tmp_path, [{"task": "other", "index": 0, "prediction": "x"}]), ITEMS)
    # A task has the name of its file, or of its column: items that were renamed since are there all the same.
    assert caught.value.hint == (
        "Give the items of 'other' by --items too, or leave its rows out of this file; where only the name differs, "
        "write that of the items: one, two."
    )


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("red ball", True), ("The red ball.", True), ("(A)", True), ("A", True), ("(A) red ball", True),
        ("RED BALL", True),
        ("blue ball", False), ("(B)", False), ("red", False), ("", False), ("ball", False), ("red ball or cup", False),
        ("First (B).\nThen.\nSo the answer is (A).", True), ("The answer is (A). No: the answer is (B).", False),
        ("(A)\n(B)", False),
        ("**(A)**", True), ("(A).", True), ("**A**", True), ("`A`.", True), ("**(A)** red ball", True),
        ("*red ball*", True), ("A)", True), ("A:", True), ("B)", False),
        ("The answer is **(A)**.", True), ("The answer is **B**", False),
    ],
)  # fmt: skip
def test_an_exact_answer_says_the_target_and_nothing_else(text: str, right: bool) -> None:
    assert score(ITEMS[0], Answer(text), "exact").correct is right
    assert score(ITEMS[0], Answer(text), "choice").correct is right


@pytest.mark.parametrize(
    ("text", "right"), [("It is the red ball!", True), ("red ball or cup", False), ("redball", False)]
)
def test_a_text_may_hold_the_target_and_no_other_option(text: str, right: bool) -> None:
    assert score(ITEMS[0], Answer(text), "contains").correct is right


@pytest.mark.parametrize(
    ("text", "right"), [("key and bell", True), ("The bell, the key", True), ("the bell", False), ("nothing", False)]
)
def test_lists_are_compared_as_sets(text: str, right: bool) -> None:
    assert score(BOX, Answer(text), "exact").correct is right
    empty = Item(id="e", task="boxes", prompt="", target="", n_ops=1, n_changes=1, depth=1)
    assert score(empty, Answer(text), "exact").correct is (text == "nothing")


def test_marks_that_never_close_take_no_time() -> None:
    text = "*a " * 50_000
    assert extract(text) == text.strip()


def test_an_answer_of_several_lines_must_say_that_it_is_one() -> None:
    assert extract("Because.\nSo (B).") == ""
    assert extract("The answer is: (b)") == "(b)"
