"""Does every recording get the text that was written for it, and no other?"""

import hashlib
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audits.speaker_groups.prediction_matching import match
from audits.speaker_groups.predictions import Prediction, Predictions, read_predictions
from probes.core.errors import InputError
from probes.files.tables import SEMICOLONS

TEXTS = {"clips/a.wav": 'say "no", please', "b.wav": "", "utt.1": "yes"}
NEMO = [
    {"audio_filepath": "clips/a.wav", "duration": 1.5, "text": "reference", "pred_text": 'say "no", please'},
    {"audio_filepath": "b.wav", "duration": 2, "text": "reference", "pred_text": None},
    {"audio_filepath": "utt.1", "duration": 3, "text": "reference", "pred_text": "yes"},
]
TSV = 'path\tprediction\nclips/a.wav\tsay "no", please\nb.wav\t\nutt.1\tyes\n'
CSV = 'id,hyp,text\nclips/a.wav,"say ""no"", please",x\nb.wav,,x\nutt.1,yes,x\n'
KALDI = 'clips/a.wav say "no", please\nb.wav\nutt.1\tyes\n'
TRN = ';; a comment\nsay "no", please (clips/a.wav)\n(b.wav)\nyes (utt.1)\n'
NESTED = {name: {"wer": 0.5, "prediction": text} for name, text in TEXTS.items()}


def write(folder: Path, content: str | bytes, name: str = "p.tsv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refuse(folder: Path, content: str | bytes, name: str = "p.tsv") -> InputError:
    with pytest.raises(InputError) as caught:
        read_predictions(write(folder, content, name))
    assert caught.value.where
    return caught.value


def held(*pairs: tuple[str, str], form: str = "table") -> Predictions:
    entries = {name: Prediction(text, line) for line, (name, text) in enumerate(pairs, start=2)}
    return Predictions(path=Path("p.tsv"), sha256="0" * 64, form=form, entries=entries)


def same(*names: str) -> Predictions:
    """Return predictions whose texts are their names in capitals."""
    return held(*((name, name.upper()) for name in names))


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("p.tsv", TSV, "table"),
        ("P.TSV", TSV.replace("path", "Audio_FilePath"), "table"),
        ("p.txt", TSV, "table"),
        ("p", CSV, "table"),
        ("p", CSV.replace("id,hyp,text", '"ID","Hyp",text'), "table"),
        ("p.txt", TSV.replace("\n", "\r\n"), "table"),
        ("p.csv", CSV, "table"),
        ("p.scored", CSV, "table"),
        ("p.csv", CSV.replace("hyp,text", "prediction,transcription"), "table"),
        ("p.csv", CSV.replace("id,hyp,text", "hash_name,transcription,accent"), "table"),
        ("crlf.tsv", "\ufeff" + TSV.replace("\n", "\r\n"), "table"),
        ("p.jsonl", "\n".join(map(json.dumps, NEMO)), "jsonl"),
        ("p.json", "\n\n".join(map(json.dumps, NEMO)) + "\n", "jsonl"),
        ("manifest", "\r\n".join(map(json.dumps, NEMO)), "jsonl"),
        ("p.json", json.dumps(NEMO), "json list"),
        ("p.jsonl", "\ufeff" + json.dumps(NEMO, indent=1), "json list"),
        ("p.json", json.dumps(TEXTS), "json map"),
        ("p.json", json.dumps(TEXTS, indent=2), "json map"),
        ("p.jsonl", json.dumps({**TEXTS, "b.wav": None}), "json map"),
        ("p.txt", json.dumps(NESTED, indent=2), "json map"),
        ("p.json", json.dumps({**NESTED, "utt.1": "yes"}), "json map"),
        ("text", KALDI, "kaldi text"),
        ("p.HYP", KALDI.replace("\n", "\r\n"), "kaldi text"),
        ("p.txt", "\ufeff\n" + KALDI.replace("\n", "\n \n"), "kaldi text"),
        ("p.trn", TRN, "sctk trn"),
        ("crlf.trn", TRN.replace("\n", "\r\n"), "sctk trn"),
    ],
)
def test_every_form_gives_the_same_texts(tmp_path: Path, name: str, content: str, form: str) -> None:
    path = write(tmp_path, content, name)
    found = read_predictions(path)
    assert {name: entry.text for name, entry in found.entries.items()} == TEXTS
    assert found.form == form
    assert found.path == path
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["p.parquet", "p.pq", "p.arrow", "p.feather"])
def test_parquet_and_arrow_give_the_texts_of_the_same_csv_file(tmp_path: Path, name: str) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    columns = {"id": [*TEXTS], "hyp": ['say "no", please', None, "yes"], "text": ["x"] * 3, "wer": [0.5, 1.0, 0.0]}
    path = tmp_path / name
    if path.suffix in (".parquet", ".pq"):
        parquet.write_table(pa.table(columns), path)
    else:
        feather.write_feather(pa.table(columns), str(path))
    found, same = read_predictions(path), read_predictions(write(tmp_path, CSV, "p.csv"))
    assert {key: entry.text for key, entry in found.entries.items()} == TEXTS
    assert [entry.text for entry in found.entries.values()] == [entry.text for entry in same.entries.values()]
    assert (found.form, found.sha256) == ("table", hashlib.sha256(path.read_bytes()).hexdigest())
    assert [entry.line for entry in found.entries.values()] == [1, 2, 3]
    assert found.read_as == (f"Columns of {name} are read as: id: the recording; hyp: the prediction.",)
    parquet.write_table(pa.table({"clip": ["a"], "asr": ["x"]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="No column names the recording") as caught:
        read_predictions(tmp_path / "other.parquet")
    assert "There are: clip, asr." in caught.value.hint


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.tsv", TSV, ("Columns of p.tsv are read as: path: the recording; prediction: the prediction.",)),
        ("p.jsonl", "\n".join(map(json.dumps, NEMO)),
         ("Columns of p.jsonl are read as: audio_filepath: the recording; pred_text: the prediction.",)),
        ("p.json", json.dumps(NEMO),
         ("Columns of p.json are read as: audio_filepath: the recording; pred_text: the prediction.",)),
        ("p.csv", "path;hyp\na;1,5\n",
         ("Columns of p.csv are read as: path: the recording; hyp: the prediction.", SEMICOLONS)),
        ("p.txt", "path;hyp\na;1,5\n",
         ("Columns of p.txt are read as: path: the recording; hyp: the prediction.", SEMICOLONS)),
        ("p.json", json.dumps(TEXTS), ("p.json is read as a JSON map: names and predictions.",)),
        ("p.txt", KALDI, ("p.txt is read as Kaldi's text: a name and its words.",)),
        ("p.trn", TRN, ("p.trn is read as SCTK's trn: the words (name).",)),
    ],
)  # fmt: skip
def test_what_columns_are_read_as_is_said(tmp_path: Path, name: str, content: str, said: tuple[str, ...]) -> None:
    assert read_predictions(write(tmp_path, content, name)).read_as == said


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("p.tsv", TSV, [2, 3, 4]),
        ("text", "a x\rb y\r\r\nc z\n", [1, 2, 4]),
        ("p.csv", 'id,hyp\na,"one\ntwo"\n\nb,x\n', [2, 5]),
        ("p.jsonl", "\n".join(map(json.dumps, NEMO)), [1, 2, 3]),
        ("p.jsonl", "\n\n" + json.dumps(NEMO[0]), [3]),
        ("p.json", json.dumps(NEMO), [1, 2, 3]),
        ("p.json", json.dumps(TEXTS, indent=2), [1, 2, 3]),
        ("text", "\n" + KALDI, [2, 3, 4]),
        ("p.trn", TRN, [2, 3, 4]),
    ],
)
def test_entries_know_their_lines(tmp_path: Path, name: str, content: str, lines: list[int]) -> None:
    assert [entry.line for entry in read_predictions(write(tmp_path, content, name)).entries.values()] == lines


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("path,text,pred_text", "c"),
        ("path,pred_text,text", "b"),
        ("id,path,hypothesis", "c"),
        ("path,id,hypothesis", "c"),
        ("hyp,transcription,audio_id", "a"),
        ("text,accent,utt_id", "a"),
    ],
)
def test_a_prediction_goes_before_what_may_be_a_reference(tmp_path: Path, header: str, text: str) -> None:
    entries = read_predictions(write(tmp_path, f"{header}\na,b,c\n", "p.csv")).entries
    name = {"id,path,hypothesis": "b", "hyp,transcription,audio_id": "c", "text,accent,utt_id": "c"}.get(header, "a")
    assert [(key, entry.text) for key, entry in entries.items()] == [(name, text)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.tsv", "id\thyp\na\tx\nb\ty\na\tx\n"),
        ("p.jsonl", '{"id": "a", "hyp": "x"}\n{"id": "b", "hyp": "y"}\n{"id": " a ", "hyp": "x"}'),
        ("p.json", '{"a": "x", "b": "y", "a": "x"}'),
        ("p.json", '{"a": {"hyp": "x"}, "b": "y", "a": "x"}'),
        ("text", "a x\nb y\na x\n"),
    ],
)
def test_the_same_text_twice_counts_once(tmp_path: Path, name: str, content: str) -> None:
    entries = read_predictions(write(tmp_path, content, name)).entries
    assert {key: entry.text for key, entry in entries.items()} == {"a": "x", "b": "y"}
    assert entries["a"].line < 3


@pytest.mark.parametrize(
    ("name", "content", "where", "message"),
    [
        ("p.tsv", "id\thyp\na\tx\nb\ty\na\tz\n", "p.tsv:4", "before in line 2"),
        ("p.csv", "id,hyp\na,\nb,y\na,z\n", "p.csv:4", "before in line 2"),
        ("p.jsonl", '{"id": "a", "hyp": "x"}\n{"id": "a", "hyp": "z"}', "p.jsonl:2", "before in line 1"),
        ("p.json", '[{"id": "a", "hyp": "x"}, {"id": "a", "hyp": null}]', "p.json, entry 2", "before in entry 1"),
        ("p.json", '{"a": "x", "b": "y", "a": "z"}', "p.json, key 'a'", "before in entry 1"),
        ("p.json", '{"a": {"hyp": "x"}, "a": {"hyp": "z"}}', "p.json, key 'a'", "before in entry 1"),
        ("text", "a x\nb y\na\n", "text:3", "before in line 1"),
        ("p.trn", "x (a)\nz (a)\n", "p.trn:2", "before in line 1"),
    ],
)
def test_two_texts_for_one_name_are_refused(tmp_path: Path, name: str, content: str, where: str, message: str) -> None:
    error = refuse(tmp_path, content, name)
    assert error.where == f"{tmp_path}/{where}"
    assert "'a' stands twice" in error.message and message in error.message


@pytest.mark.parametrize(
    ("name", "content", "where", "message", "hint"),
    [
        ("p.tsv", "clip\tprediction\na\tx\n", "p.tsv", "No column names the recording", "There are: clip, prediction"),
        ("p.tsv", "path\tsentence\na\tx\n", "p.tsv", "No column holds the prediction", "There are: path, sentence"),
        ("p.csv", "path,predicton\na,x\n", "p.csv", "No column holds the prediction", "Did you mean 'predicton'?"),
        ("p.csv", "path,hyp,prediction\na,x,y\n", "p.csv", "Several columns", "Keep one"),
        ("p.csv", "path,text,transcription\na,x,y\n", "p.csv", "text, transcription", "rename"),
        ("p.csv", "path,hyp\n,x\n", "p.csv:2", "names no recording", "Fill it in"),
        ("p.tsv", "path\thyp\na\n", "p.tsv:2", "has 1 fields", "as many fields"),
        ("p.tsv", "path\thyp\n", "p.tsv", "header but no rows", ""),
        ("p.json", "[]", "p.json", "no predictions", ""),
        ("p.json", "{}", "p.json", "no predictions", ""),
        ("p.trn", ";; nothing\n", "p.trn", "no predictions", ""),
        ("p.json", "", "p.json", "empty", ""),
        ("text", " \r\n\t", "text", "empty", ""),
        ("p.jsonl", '{"id": "a", "hyp": "x"}\n{"id": "b"}', "p.jsonl:2", "no 'hyp'", "same columns"),
        ("p.jsonl", '{"id": "a", "hyp": "x"}\n{"hyp": "x"}', "p.jsonl:2", "no 'id'", "same columns"),
        ("p.jsonl", '{"id": "a", "hyp": 3}', "p.jsonl:1", "prediction is 3, not a text", "quotes"),
        ("p.jsonl", '{"id": "a", "hyp": ["x"]}', "p.jsonl:1", "prediction is a list", "quotes"),
        ("p.jsonl", '{"id": 7, "hyp": "x"}', "p.jsonl:1", "recording is 7", "quotes"),
        ("p.jsonl", '{"id": null, "hyp": "x"}', "p.jsonl:1", "recording is null", "quotes"),
        ("p.jsonl", '{"audio": {"path": "a"}, "hyp": "x"}', "p.jsonl:1", "recording is an object", "quotes"),
        ("p.json", '{"a": "x", "b": 0.5}', "p.json, key 'b'", "prediction is 0.5", "quotes"),
        ("p.json", '{"a": "x", "b": [1]}', "p.json, key 'b'", "prediction is a list", "quotes"),
        ("p.json", '{"a": "x", "b": NaN}', "p.json, key 'b'", "prediction is NaN", "quotes"),
        ("p.json", '{"a": {"hyp": true}}', "p.json, key 'a'", "prediction is true", "quotes"),
        ("p.json", '{"a": {"hyp": "x"}, "b": {}}', "p.json, key 'b'", "no 'hyp'", ""),
        ("p.json", '{"a": {"words": "x"}}', "p.json", "No column holds the prediction", "There are: words"),
        ("p.json", '{"": "x"}', "p.json, key ''", "names no recording", "Fill it in"),
        ("p.json", '["x"]', "p.json, entry 1", "a text, not an object", "Write {"),
        ("p.json", '"x"', "p.json:1", "a text, not an object", "Write {"),
        ("p.jsonl", '{"id": "a", "hyp": "x"}\n[1]', "p.jsonl:2", "a list, not an object", "Write {"),
        ("p.jsonl", '{"id": "a"\n{"id": "a", "hyp": "x"}', "p.jsonl:1", "not JSON", ""),
        ("p.jsonl", '{"id": "a", "hyp": "x"}\n{"id": ', "p.jsonl:2", "not JSON", ""),
        ("p.json", '{\n"a": "x",\n"b"', "p.json", "line 3", ""),
        ("p.trn", "x (a)\nno name\n", "p.trn:2", "name between brackets", "(name)"),
        ("p.csv", "clip;asr\na;x\n", "p.csv", "No column names the recording", "There are: clip, asr."),
        ("p.scored", "clip,asr\na,x\n", "p.scored", "has no header", "its columns would be: clip, asr."),
        ("p.stm", "a 1 speaker 0.0 1.0 words\n", "p.stm", "ends in '.stm'", ".trn"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, name: str, content: str, where: str, message: str, hint: str
) -> None:
    error = refuse(tmp_path, content, name)
    assert error.where == f"{tmp_path}/{where}"
    assert message in error.message
    assert hint in error.hint


HOSTILE = {
    "nul in a table": ("p.tsv", b"path\tprediction\na\tx\x00y\n"),
    "nul in a text": ("text", b"a x\x00y\n"),
    "nul escaped": ("p.json", b'{"a": "\\u0000"}'),
    "surrogate in a text": ("p.json", b'{"a": "\\ud800"}'),
    "surrogate in a key": ("p.json", b'{"\\ud800": "x", "a": "x"}'),
    "surrogate in a line": ("p.jsonl", b'{"id": "\\udfff", "hyp": "x"}\n{"id": "a", "hyp": "x"}'),
    "surrogate in bytes": ("p.tsv", b"path\tprediction\na\t\xed\xa0\x80\n"),
    "utf-16": ("p.tsv", TSV.encode("utf-16")),
    "latin-1": ("text", b"a caf\xe9\n"),
    "deep value": ("p.json", b'{"a": ' + b"[" * 100_000),
    "deep list": ("p.json", b"[" * 100_000),
    "deep line": ("p.jsonl", b'{"id": ' * 100_000 + b"\n{}"),
    "long number": ("p.json", b'{"a": 1' + b"0" * 5000 + b"}"),
    "web page": ("p.tsv", b"<!DOCTYPE html><html>not found</html>"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, case: str) -> None:
    name, content = HOSTILE[case]
    assert refuse(tmp_path, content, name).message


def test_nesting_at_the_limit_is_read_or_refused(tmp_path: Path) -> None:
    for depth in range(1, sys.getrecursionlimit() + 50, 7):
        deep = '{"x": ' * depth + "1" + "}" * depth
        path = write(tmp_path, '{"a": {"hyp": "x", "more": ' + deep + "}}", "p.json")
        try:
            assert read_predictions(path).entries["a"].text == "x"
        except InputError as error:
            assert "cannot be read" in error.message and depth > 100
            return
    raise AssertionError("no depth was refused")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("text", "a ", "\n"),
        ("p.trn", "", " (a)\n"),
        ("p.json", '{"a": "', '"}'),
        ("p.jsonl", '{"id":"a","hyp":"', '"}'),
    ],
)
def test_a_very_long_line_is_read(tmp_path: Path, name: str, before: str, after: str) -> None:
    words = " ".join(["word"] * 400_000)
    assert read_predictions(write(tmp_path, before + words + after, name)).entries["a"].text == words


def test_a_line_with_a_tab_is_a_header_only_where_it_names_both_columns(tmp_path: Path) -> None:
    for first in ("u1\ttext", "path\twords", "u1 hyp,id"):
        found = read_predictions(write(tmp_path, f"{first}\nu2\tb", "text"))
        assert found.form == "kaldi text" and len(found.entries) == 2


def test_separators_of_lines_within_a_text_stay(tmp_path: Path) -> None:
    text = "one\u2028two\x85three"
    for name, content in (("text", f"a {text}\n"), ("p.tsv", f"id\thyp\na\t{text}\n"), ("p.trn", f"{text} (a)")):
        assert read_predictions(write(tmp_path, content, name)).entries["a"].text == text


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.tsv", tmp_path):
        with pytest.raises(InputError):
            read_predictions(path)


@pytest.mark.parametrize(
    ("names", "entries", "texts"),
    [
        (["a.wav"], ["a.wav"], ["A.WAV"]),
        (["a.mp3"], ["a.wav"], ["A.WAV"]),
        (["a.FLAC"], ["a"], ["A"]),
        (["a"], ["a.Opus"], ["A.OPUS"]),
        (["./x/a.wav"], ["x\\a.wav"], ["X\\A.WAV"]),
        ([".\\.\\x/a.wav", "y/a"], ["x/a", "./y/a"], ["X/A", "./Y/A"]),
        (["utt.1", "utt.2"], ["utt.2", "utt.1"], ["UTT.1", "UTT.2"]),
        (["utt.1.wav", "utt.2.wav"], ["utt.1"], ["UTT.1", None]),
        (["a.wav", "b"], ["a.wav.wav", "b"], [None, "B"]),
        (["a.Wav", "A.wav"], ["A", "a"], ["A", "A"]),
        (["a.wav", "b.wav"], ["b.wav"], [None, "B.WAV"]),
        (["a.ſph", "b"], ["a", "b"], [None, "B"]),
        (["d/.wav", "b"], ["d/", "b"], [None, "B"]),
        (["clips/a.wav", "clips/b.wav"], ["/data/b.mp3", "a"], ["A", "/DATA/B.MP3"]),
        (["a.wav", "b.wav"], ["x/a", "y\\b"], ["X/A", "Y\\B"]),
        # The last part is not unique: among the recordings, among the entries, or beside an entry met in full.
        (["x/a", "y/a", "b"], ["a", "b"], [None, None, "B"]),
        (["a", "b"], ["x/a", "y/a", "b"], [None, "B"]),
        (["x/a", "z/a"], ["x/a", "y/a"], ["X/A", None]),
        (["x/a", "z/a"], ["x/a"], ["X/A", None]),
    ],
)
def test_matching(names: list[str], entries: list[str], texts: list[str | None]) -> None:
    assert list(match(names, same(*entries))[0]) == texts


def test_a_wrong_extension_is_part_of_the_name() -> None:
    for name in ("a.txt", "a.1", "a.wave", "a-wav"):
        with pytest.raises(InputError, match="no prediction for any"):
            match([name], same("a.wav"))


def test_unused_entries_are_counted_and_shown_in_the_order_of_the_file() -> None:
    found = match(["x/c.wav"], same("e", "d.wav", "c", "b", "a"))
    assert found == (("C",), ["e", "d.wav", "b", "a"])
    assert match(["c"], same("c.mp3")) == (("C.MP3",), [])
    both = held(("c.wav", "x"), ("c.mp3", "x"), ("d", "y"))
    for name in ("c", "x/c"):
        assert match([name], both) == (("x",), ["d"])
    assert match(["d"], both) == (("y",), ["c.wav", "c.mp3"])


def test_an_empty_prediction_is_not_a_missing_one() -> None:
    assert match(["a", "b", "c"], held(("a", ""), ("c", "x")))[0] == ("", None, "x")


def test_no_match_at_all_shows_names_of_both_sides() -> None:
    with pytest.raises(InputError) as caught:
        match(["a.wav", "b.wav", "c.wav", "d.wav"], held(("x", ""), ("y" * 500, "")))
    assert "any of the 4 recordings" in caught.value.message
    assert "'a.wav', 'b.wav', 'c.wav', ..." in caught.value.message
    assert f"it names 'x', '{'y' * 80}'," in caught.value.message
    assert caught.value.where == "p.tsv" and "extension" in caught.value.hint


@pytest.mark.parametrize(("form", "unit"), [("table", "line"), ("json map", "entry"), ("json list", "entry")])
def test_two_texts_for_one_recording_are_refused(form: str, unit: str) -> None:
    with pytest.raises(InputError) as caught:
        match(["b"], held(("a.wav", "x"), ("b", "y"), (".\\a.mp3", "z"), form=form))
    assert f"'a.wav' ({unit} 2)" in caught.value.message
    assert f"({unit} 4) are one recording" in caught.value.message


@pytest.mark.parametrize("names", [["a.wav", "b", "a.wav"], ["a.wav", "a.mp3"], ["x/a", "./x/a"]])
def test_one_text_for_two_recordings_is_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match="would go to 2 recordings"):
        match(names, same("a.flac", "x/a.flac", "b"))
    assert match([*names, "c"], same("c"))[0][-1] == "C"


def test_no_recordings_take_no_text() -> None:
    assert match([], same("a")) == ((), ["a"])


PARTS = st.text(alphabet="ab.", min_size=1, max_size=3).filter(lambda part: set(part) != {"."})
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


@given(st.lists(PATHS, min_size=1, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_moving_all_files_or_changing_the_order_changes_no_text(names: list[str], chance) -> None:
    texts = {name: f"text of {name}" for name in names}
    shuffled = chance.sample(names, k=len(names))
    found, unused = match(names, held(*((name + ".wav", texts[name]) for name in shuffled)))
    assert list(found) == list(texts.values()) and unused == []
    moved = held(*((f"/data/{name}.MP3", texts[name]) for name in shuffled))
    tails = [name.rsplit("/", 1)[-1] for name in names]
    expected = [texts[name] if tails.count(tail) == 1 else None for name, tail in zip(names, tails, strict=True)]
    if any(expected):
        assert list(match(names, moved)[0]) == expected
    else:
        with pytest.raises(InputError):
            match(names, moved)


@pytest.mark.parametrize("beside", ["", '"version": 1, '])
def test_predictions_below_a_key_are_named_with_it(tmp_path: Path, beside: str) -> None:
    error = refuse(tmp_path, f'{{{beside}"data": [{{"path": "a.wav", "prediction": "so"}}]}}', "p.json")
    assert "the rows are a list below its key 'data'" in error.message and "Save that list alone" in error.hint


@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_one_prediction_may_have_times_of_words(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"path": "a.wav", "prediction": "so", "words": [{"path": "a", "text": "so", "start": 0}]}')
    assert read_predictions(path).entries["a.wav"].text == "so"
    segments = refuse(tmp_path, '{"text": "so", "segments": [{"start": 0, "text": "so"}]}', name)
    assert "Save that list alone" not in segments.hint
