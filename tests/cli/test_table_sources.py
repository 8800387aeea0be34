"""Do commands take packed tables, data sets in folders and a column a side, and give the numbers of plain files?"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_folders import read

from probes.texts.synthetic_sentences import make_sentences

pytestmark = pytest.mark.usefixtures("no_pages")
Call = Callable[..., Any]
FEW = ("--splits", "10", "--repeats", "2", "--no-curves", "--encoder", "tfidf")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    human, chat = make_sentences(80, seed=1), make_sentences(80, seed=2)
    lines(folder / "human.jsonl", [{"text": text} for text in human])
    lines(folder / "plain.jsonl", [{"text": text} for text in chat])
    with gzip.open(folder / "human.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"summary": text, "text": "other"}) + "\n" for text in human)
    lines(folder / "chat.jsonl", [said(text) for text in chat])
    return folder


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Go."}, {"role": "assistant", "content": text}]}


def test_a_packed_reference_and_chats_give_the_numbers_of_plain_texts(
    texts: Path, tmp_path: Path, call_miles: Call
) -> None:
    plain, other = tmp_path / "plain", tmp_path / "other"
    command = ("precision-recall", "--reference", texts / "human.jsonl", "--candidate", f"c={texts / 'plain.jsonl'}")
    assert call_miles(*command, *FEW, "--out", plain).code == 0
    sides = "reference=summary,c=messages.-1.content"
    command = ("precision-recall", "--reference", texts / "human.jsonl.gz", "--candidate", f"c={texts / 'chat.jsonl'}")
    assert call_miles(*command, "--text-col", sides, *FEW, "--out", other).code == 0
    assert read(other)["estimates"] == read(plain)["estimates"]
    assert [source["items"] for source in read(other)["data"]] == [80, 80]


def test_a_split_of_a_folder_gives_the_numbers_of_plain_texts(texts: Path, tmp_path: Path, call_miles: Call) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [json.loads(line) for line in (texts / "chat.jsonl").read_text().splitlines()]
    (tmp_path / "set" / "data").mkdir(parents=True)
    for name, part in (("train-00000-of-00002", rows[:50]), ("train-00001-of-00002", rows[50:]), ("test", rows[:1])):
        table = pa.table({"messages": [row["messages"] for row in part], "picture": [b"0"] * len(part)})
        parquet.write_table(table, tmp_path / "set" / "data" / f"{name}.parquet")
    plain, other = tmp_path / "plain", tmp_path / "other"
    command = ("precision-recall", "--reference", texts / "human.jsonl", *FEW)
    assert call_miles(*command, "--candidate", f"c={texts / 'plain.jsonl'}", "--out", plain).code == 0
    done = call_miles(
        *command, "--candidate", f"c={tmp_path / 'set'}:train", "--text-col", "c=messages.1.content", "--out", other
    )
    assert done.code == 0, done
    assert read(other)["estimates"] == read(plain)["estimates"]
    refused = call_miles(*command, "--candidate", f"c={tmp_path / 'set'}", "--out", tmp_path / "none")
    assert refused.code == 2 and "several splits: test, train" in " ".join(refused.err.split())
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("c=choices.0.message.content", ("none of the 80 entries", "chat.jsonl:1")),
        ("c=messages", ("is a list, not a text", "messages.-1.content")),
        ("d=messages", ("There is no side 'd'", "reference, prompts, c")),
        ("c=", ("The side 'c' has no column",)),
    ],
)
def test_a_wrong_column_of_a_side_is_refused(
    texts: Path, tmp_path: Path, call_miles: Call, column: str, words: tuple[str, ...]
) -> None:
    command = ("precision-recall", "--reference", texts / "human.jsonl", "--candidate", f"c={texts / 'chat.jsonl'}")
    done = call_miles(*command, "--text-col", column, *FEW, "--out", tmp_path / "none")
    shown = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2 and all(word in shown for word in words), shown
    assert not (tmp_path / "none").exists()


def test_a_path_that_fits_some_entries_says_how_many_and_where(texts: Path, tmp_path: Path, call_miles: Call) -> None:
    rows = [json.loads(line) for line in (texts / "chat.jsonl").read_text().splitlines()]
    rows[4], rows[9] = {"messages": []}, {"messages": [{"role": "assistant", "content": None}]}
    lines(tmp_path / "some.jsonl", rows)
    command = ("precision-recall", "--reference", texts / "human.jsonl", "--candidate", f"c={tmp_path / 'some.jsonl'}")
    done = call_miles(*command, "--text-col", "c=messages.-1.content", *FEW, "--out", tmp_path / "none")
    shown = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2 and "78 of 80 entries" in shown and "some.jsonl:5" in shown, shown


def test_rows_of_outputs_in_gzip_and_in_a_saved_dataset_give_the_same(tmp_path: Path, call_miles: Call) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = [
        {"id": str(number), "context": f"The {word} is at {number}.", "output": f"A {word} at {number + number % 2}."}
        for number, word in enumerate(["cat", "dog", "bus", "pen"] * 10)
    ]
    lines(tmp_path / "rows.jsonl", rows)
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress((tmp_path / "rows.jsonl").read_bytes()))
    saved = tmp_path / "saved"
    saved.mkdir()
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(saved / "data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table)
    (saved / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    (saved / "dataset_info.json").write_text("{}")
    found = []
    for number, path in enumerate((tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.gz", saved)):
        out = tmp_path / f"run{number}"
        done = call_miles("audit-faithfulness", path, "--metrics", "overlap,numbers", "--out", out)
        assert done.code == 0, done
        found.append(read(out)["estimates"])
    assert found[0] == found[1] == found[2]
