import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from probes.core.errors import InputError
from probes.files.levels import bin_labels, parse_bins
from probes.files.safe_paths import OutsideError
from probes.speech.audio import inspect_clip, load_clip
from probes.speech.manifests import ColumnMap, Manifest, read_manifest

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
real = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is absent; MILES_TEST_DATA names another place"),
]
ALL = frozenset({"path", "text", "speaker"})
HEADER = "path,text,speaker,gender\n"


def read(path: Path, **options: Any) -> Manifest:
    defaults: dict[str, Any] = {"columns": ColumnMap(), "by": (), "values": None, "bins": {}, "needs": ALL}
    return read_manifest(path, **{**defaults, **options})


def write(folder: Path, content: str | bytes, name: str = "m.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refuse(path: Path, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert caught.value.where
    return caught.value


def counts(manifest: Manifest) -> dict[str, int]:
    return {note.id: note.count for note in manifest.notes}


ROWS = [
    {"path": "a.wav", "text": 'say "no", please', "speaker": "s1", "gender": "female"},
    {"path": "b.wav", "text": "yes", "speaker": "s2", "gender": "male"},
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.csv", 'path,text,speaker,gender\na.wav,"say ""no"", please",s1,female\nb.wav,yes,s2,male\n'),
        ("bom.csv", '\ufeffpath,text,speaker,gender\r\na.wav,"say ""no"", please",s1,female\r\nb.wav,yes,s2,male'),
        ("m.tsv", 'path\ttext\tspeaker\tgender\na.wav\tsay "no", please\ts1\tfemale\nb.wav\tyes\ts2\tmale\n'),
        ("m.txt", 'path\ttext\tspeaker\tgender\na.wav\tsay "no", please\ts1\tfemale\nb.wav\tyes\ts2\tmale\n'),
        ("m.jsonl", "\n".join(json.dumps(row) for row in ROWS)),
        ("m.json", json.dumps(ROWS, indent=1)),
        ("lines.json", "\n".join(json.dumps(row) for row in ROWS)),
    ],
)
def test_every_form_gives_the_same_clips(tmp_path: Path, name: str, content: str) -> None:
    manifest = read(write(tmp_path, content, name), by=["gender"])
    clips = manifest.clips
    assert [clip.text for clip in clips] == ['say "no", please', "yes"]
    assert [clip.speaker for clip in clips] == ["s1", "s2"]
    assert [clip.attributes for clip in clips] == [{"gender": "female"}, {"gender": "male"}]
    assert clips[0].path == tmp_path.resolve() / "a.wav"
    assert clips[0].name == "a.wav"
    assert manifest.notes == ()


def test_a_speaker_has_one_spelling(tmp_path: Path) -> None:
    composed, apart = "Zo\u00eb", "Zoe\u0308"
    content = f"path,text,speaker\na.wav,x,{composed}\nb.wav,x, {apart} \n"
    assert [clip.speaker for clip in read(write(tmp_path, content)).clips] == [composed, composed]


def test_quotation_marks_mean_nothing_in_tsv(tmp_path: Path) -> None:
    path = write(tmp_path, 'path\ttext\tspeaker\na.wav\t"open\ts\nb.wav\t"both"\ts\n', "m.tsv")
    assert [clip.text for clip in read(path).clips] == ['"open', '"both"']


def test_line_numbers_count_quoted_line_breaks_and_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path, 'path,text,speaker\n\na.wav,"one\ntwo",s\nb.wav,three,s\n')
    assert [clip.line for clip in read(path).clips] == [3, 5]
    path = write(tmp_path, '\n{"path": "a.wav", "text": "", "speaker": "s"}\n', "m.jsonl")
    assert read(path).clips[0].line == 2


def test_nemo_lines_with_and_without_offset(tmp_path: Path) -> None:
    whole = {"audio_filepath": "/data/a.wav", "text": "x", "duration": 3.5}
    part = {**whole, "offset": 1, "duration": 0.5}
    assert read(write(tmp_path, json.dumps(whole), "m.jsonl"), needs=frozenset({"path"})).clips[0].end is None
    clip = read(write(tmp_path, json.dumps(part), "m.jsonl"), needs=frozenset({"path"})).clips[0]
    assert (clip.start, clip.end, clip.speaker) == (1.0, 1.5, None)
    assert clip.path == Path("/data/a.wav")


def test_parts_of_one_recording_by_named_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "path,text,speaker,from,to\na.wav,x,s,0,1.5\na.wav,y,s,1.5,2\n")
    clips = read(path, columns=ColumnMap(start="from", end="to")).clips
    assert [(clip.start, clip.end) for clip in clips] == [(0.0, 1.5), (1.5, 2.0)]
    assert "listed twice" in refuse(path).message
    assert "needs an end" in refuse(path, columns=ColumnMap(start="from")).message


@pytest.mark.parametrize("names", [("audio", "sentence", "client_id"), ("file_name", "Transcription", "speaker_id")])
def test_usual_column_names_are_found(tmp_path: Path, names: tuple[str, ...]) -> None:
    clip = read(write(tmp_path, ",".join(names) + "\na.wav,x,s\n")).clips[0]
    assert (clip.name, clip.text, clip.speaker) == ("a.wav", "x", "s")


def test_a_named_column_wins_over_usual_ones(tmp_path: Path) -> None:
    path = write(tmp_path, "path,text,sentence,speaker\na.wav,x,y,s\n")
    assert read(path, columns=ColumnMap(text="sentence")).clips[0].text == "y"
    error = refuse(path)
    assert "text, sentence" in error.message
    assert "--text-col" in error.hint


def test_missing_columns_name_those_that_are_there(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + "a.wav,x,s,f\n")
    error = refuse(path, by=["gendre"])
    assert "'gendre'" in error.message and "Did you mean 'gender'?" in error.hint and "--by" in error.where
    assert "--speaker-col" in refuse(path, columns=ColumnMap(speaker="who")).where
    bare = write(tmp_path, "path,reference\na.wav,x\n")
    error = refuse(bare)
    assert "--text-col" in error.hint and "path, reference" in error.hint
    assert read(bare, needs=frozenset({"path"})).clips[0].text is None


def test_without_a_path_column_clips_are_named_by_line(tmp_path: Path) -> None:
    path = write(tmp_path, "text,gender\nx,f\nx,f\n")
    clips = read(path, by=["gender"], needs=frozenset({"text"})).clips
    assert [clip.name for clip in clips] == ["line 2", "line 3"]


@pytest.mark.parametrize(
    ("content", "message", "place"),
    [
        (b"", "empty", ""),
        (b" \n\n", "empty", ""),
        (HEADER.encode(), "no rows", ""),
        (HEADER.encode() + b"a.wav,x,s\n", "3 fields, the header 4", ":2"),
        (HEADER.encode() + b"a.wav,x,s,f\nb.wav,x,y,s,f\n", "5 fields, the header 4", ":3"),
        (HEADER.encode() + b'a.wav,"x,s,f\nb.wav,x,s,f\n', "cannot be read", ":2"),
        (HEADER.encode() + b"a.wav,x\x00y,s,f\n", "NUL", ":2"),
        (HEADER.encode() + b"a.wav,ok,s,f\nb.wav,caf\xe9,s,f\n", "0xe9", ":3"),
        (HEADER.encode("utf-16"), "UTF-16", ""),
        (b"path,text,text,speaker\na,b,c,d\n", "twice", ":1"),
        (HEADER.encode() + b"a.wav,x,s,f\nb.wav,x,s,f\na.wav,y,s,f\n", "before on line 2", ":4"),
        (HEADER.encode() + b"a.wav,x,s,f\n./a.wav,y,s,f\n", "before on line 2", ":3"),
        (b"<!DOCTYPE html><html></html>", "web page", ""),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS", ""),
        (HEADER.encode() + b"a.wav," + b"x" * 200_000 + b",s,f\n", "cannot be read", ":2"),
    ],
)
def test_hostile_tables_are_refused(tmp_path: Path, content: bytes, message: str, place: str) -> None:
    error = refuse(write(tmp_path, content))
    assert message in error.message
    assert place in error.where


@pytest.mark.parametrize(
    "content",
    [
        '{"path": "a.wav"',
        '{"path": "a\\u0000"}',
        '{"path": "\\ud800"}',
        "[1, 2]",
        '{"path": "a.wav"}\n7\n',
        "[" * 100_000,
        "[]",
        '{"path": ' + "9" * 5000 + "}",
    ],
)
def test_hostile_json_is_refused(tmp_path: Path, content: str) -> None:
    refuse(write(tmp_path, content, "m.json"), needs=frozenset({"path"}))


def test_missing_file_folder_and_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, HEADER, "manifest.csv")
    assert "manifest.csv" in refuse(tmp_path / "manifset.csv").hint
    assert "folder" in refuse(tmp_path).message

    def deny(self: Path, mode: str = "r") -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    assert "Permission denied" in refuse(tmp_path / "manifest.csv").message


def test_paths_stay_below_their_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside / "sub", outside):
        folder.mkdir(parents=True)
    (outside / "x.wav").touch()
    (inside / "link.wav").symlink_to(outside / "x.wav")
    (inside / "away").symlink_to(outside)
    (inside / "near.wav").symlink_to(inside / "sub" / "y.wav")

    def listing(name: str, **options: Any) -> Path:
        return read(write(inside, f"path,text,speaker\n{name},x,s\n"), **options).clips[0].path

    assert listing("sub/../a.wav") == inside.resolve() / "a.wav"
    assert listing("near.wav") == inside.resolve() / "sub" / "y.wav"
    assert listing(str(outside / "x.wav")) == outside.resolve() / "x.wav"
    assert listing("x.wav", audio_root=outside) == outside.resolve() / "x.wav"
    for name in ("../out/x.wav", "link.wav", "away/x.wav", "sub/../../out/x.wav", ".."):
        (clip,) = read(write(inside, f"path,text,speaker\n{name},x,s\n")).clips
        for opened in (inspect_clip, load_clip):
            with pytest.raises(OutsideError, match="leads out of its folder") as found:
                opened(clip)
            assert found.value.where.endswith(":2")
    assert "--audio-root" in refuse(inside / "m.csv", audio_root=tmp_path / "nowhere").where
    for opened in (inspect_clip, load_clip):
        with pytest.raises(InputError, match="names no recording") as caught:
            opened(read(write(inside, "path,text,speaker\n,x,s\n,y,t\n")).clips[1])
        assert caught.value.where.endswith(":3")
    # What is no file is refused where it would be opened, together with other bad clips.
    for name, said in [(name, "a folder, not a recording") for name in (".", "./", "sub/..")] + [
        ("https://example.org/x.wav", "an address, not a file")
    ]:
        (clip,) = read(write(inside, f"path,text,speaker\n{name},x,s\n")).clips
        for opened in (inspect_clip, load_clip):
            with pytest.raises(InputError) as caught:
                opened(clip)
            assert caught.value.message == f"{name!r} is {said}."
            assert caught.value.where.endswith(f":2 ({name})") and caught.value.hint


UNKNOWN = ["", " ", "NA", "n/a", "None", "NaN", "null", "Prefer not to say", "UNKNOWN"]


def test_unknown_values_form_a_level_of_their_own_and_are_counted(tmp_path: Path) -> None:
    lines = "".join(f"{place}.wav,x,s,{value}\n" for place, value in enumerate([*UNKNOWN, "female"]))
    manifest = read(write(tmp_path, HEADER + lines), by=["gender"])
    assert [clip.attributes["gender"] for clip in manifest.clips] == ["unknown"] * len(UNKNOWN) + ["female"]
    assert counts(manifest) == {"manifest.unknown": len(UNKNOWN)}
    assert "gender" in manifest.notes[0].message


def test_unknown_speakers_are_none_and_text_is_left_alone(tmp_path: Path) -> None:
    manifest = read(write(tmp_path, HEADER + "a.wav,none,NA,f\nb.wav,null,s,f\n"))
    assert [clip.speaker for clip in manifest.clips] == [None, "s"]
    assert [clip.text for clip in manifest.clips] == ["none", "null"]
    assert counts(manifest) == {"manifest.no-speaker": 1}
    assert "No row names its speaker" in refuse(write(tmp_path, HEADER + "a.wav,x,,f\n")).message


def test_values_are_trimmed_and_spelt_in_one_way(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + "a.wav,x,s, cafe\u0301  au lait\nb.wav,x,s,caf\u00e9 au lait \n")
    assert {clip.attributes["gender"] for clip in read(path, by=["gender"]).clips} == {"caf\u00e9 au lait"}


def test_signs_of_the_group_syntax_are_replaced_or_refused(tmp_path: Path) -> None:
    manifest = read(write(tmp_path, HEADER + "a.wav,x,s,R&B=x\nb.wav,x,s,f\n"), by=["gender"])
    assert manifest.clips[0].attributes["gender"] == "R+B:x"
    assert counts(manifest) == {"manifest.replaced": 1}
    error = refuse(write(tmp_path, HEADER + "a.wav,x,s,a&b\nb.wav,x,s,a+b\n"), by=["gender"])
    assert "one level" in error.message and error.where.endswith(":3")
    assert "group's name" in refuse(write(tmp_path, "path,text,speaker,a&b\na,x,s,y\n"), by=["a&b"]).message


def test_spellings_that_differ_in_case_are_reported_and_kept(tmp_path: Path) -> None:
    manifest = read(write(tmp_path, HEADER + "a.wav,x,s,German\nb.wav,x,s,german\n"), by=["gender"])
    assert {clip.attributes["gender"] for clip in manifest.clips} == {"German", "german"}
    assert counts(manifest) == {"manifest.case": 2}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.csv", "column,from,to\ngender,m,male\ngender,f,female\ngender,x,NA\ngender,w,female\n"),
        ("v.toml", '[gender]\nm = "male"\nf = "female"\nx = "NA"\nw = "female"\n'),
    ],
)
def test_value_map_renames_and_is_counted(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path, HEADER + "a.wav,x,s,m\nb.wav,x,s,f\nc.wav,x,s,x\nd.wav,x,s,other\n")
    manifest = read(path, by=["gender"], values=write(tmp_path, content, name))
    assert [clip.attributes["gender"] for clip in manifest.clips] == ["male", "female", "unknown", "other"]
    assert counts(manifest) == {"manifest.mapped": 3, "manifest.unknown": 1, "manifest.map-unused": 1}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.csv", "column,from,to\ngendre,m,male\n", "'gendre'"),
        ("v.csv", "column,from\ngender,m\n", "'to'"),
        ("v.csv", "column,from,to\ngender,m,male\ngender,m,female\n", "both"),
        ("v.toml", "[gender\n", "not TOML"),
        ("v.toml", 'gender = "male"\n', "not a table"),
        ("v.toml", "[gender]\nm = 1\n", "not a table"),
    ],
)
def test_bad_value_maps_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = write(tmp_path, HEADER + "a.wav,x,s,m\n")
    assert message in refuse(path, by=["gender"], values=write(tmp_path, content, name)).message


def ages(folder: Path, values: Sequence[str]) -> Path:
    lines = "".join(f"{place}.wav,x,s,{value}\n" for place, value in enumerate(values))
    return write(folder, "path,text,speaker,age\n" + lines)


EDGES: Mapping[str, Sequence[float]] = {"age": (0, 13, 18, 30, 50)}


def test_ages_are_put_into_bins_and_the_number_is_kept(tmp_path: Path) -> None:
    path = ages(tmp_path, ["0", "12", "12.9", "13", "17", "18", "49", "50", "99", "twenties", "-1", "NA", "1_0"])
    manifest = read(path, by=["age"], bins=EDGES)
    levels = [clip.attributes["age"] for clip in manifest.clips]
    young = ["0-<13"] * 3 + ["13-<18"] * 2 + ["18-<30", "30-<50", "50+", "50+"]
    assert levels == [*young, "unknown", "unknown", "unknown", "unknown"]
    assert manifest.clips[1].extras["age"] == "12"
    assert counts(manifest) == {
        "manifest.binned": 9,
        "manifest.not-numeric": 2,
        "manifest.outside": 1,
        "manifest.unknown": 1,
    }


def test_a_bin_is_named_by_its_last_whole_number_only_where_all_numbers_are_whole(tmp_path: Path) -> None:
    def levels(*values: str) -> list[str]:
        manifest = read(ages(tmp_path, values), by=["age"], bins={"age": (0, 2, 5)})
        assert any(", ".join(sorted({*bins, "5+"})) in note.message for note in manifest.notes)
        return [clip.attributes["age"] for clip in manifest.clips]

    bins = ["0-1", "2-4"]
    assert levels("0", "1.0", "4", "7") == ["0-1", "0-1", "2-4", "5+"]
    # What is in no bin has no say.
    assert levels("1", "-0.5", "1.5 years") == ["0-1", "unknown", "unknown"]
    bins = ["0-<2", "2-<5"]
    assert levels("0", "1.9", "4", "7") == ["0-<2", "0-<2", "2-<5", "5+"]
    assert levels("1", "7.5") == ["0-<2", "5+"]


def test_decimal_commas_are_put_into_bins_where_they_can_be_nothing_else(tmp_path: Path) -> None:
    path = ages(tmp_path, ['"12,9"', '"13,0"', "18", "twenties", "NA"])
    manifest = read(path, by=["age"], bins=EDGES)
    assert [clip.attributes["age"] for clip in manifest.clips] == [
        "0-<13", "13-<18", "18-<30", "unknown", "unknown"
    ]  # fmt: skip
    assert counts(manifest) == {
        "manifest.binned": 3,
        "manifest.decimal-comma": 2,
        "manifest.not-numeric": 1,
        "manifest.unknown": 1,
    }
    mixed = read(ages(tmp_path, ['"12,9"', "13.5"]), by=["age"], bins=EDGES)
    assert [clip.attributes["age"] for clip in mixed.clips] == ["unknown", "13-<18"]
    assert "may be 1234 or 1.234" in refuse(ages(tmp_path, ['"1,234"', "20"]), by=["age"], bins=EDGES).message


def test_bins_are_refused_where_they_make_no_sense(tmp_path: Path) -> None:
    assert "No value" in refuse(ages(tmp_path, ["teens", "twenties"]), by=["age"], bins=EDGES).message
    path = ages(tmp_path, ["3"])
    assert "not audited" in refuse(path, bins=EDGES).message
    assert "do not rise" in refuse(path, by=["age"], bins={"age": (0, 5, 5)}).message
    assert "finite" in refuse(path, by=["age"], bins={"age": (0, float("inf"))}).message
    for text in ("age", "age=", "=1", "age=a,b", "age=1,,2"):
        with pytest.raises(InputError):
            parse_bins([text])
    assert parse_bins(["age = 0, 2.5", "x=-1"]) == {"age": (0.0, 2.5), "x": (-1.0,)}
    assert bin_labels((0, 1, 3)) == ("0", "1-2", "3+")


def test_other_columns_are_kept_as_written(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"path": "a", "n": 2.0, "b": True, "none": None, "d": {"k": [1]}}), "m.jsonl")
    assert read(path, needs=frozenset({"path"})).clips[0].extras == {"n": "2", "b": "true", "d": '{"k": [1]}'}


@pytest.mark.parametrize("cell", [["so", "then"], {"word": "so"}])
@pytest.mark.parametrize("column", ["path", "text", "speaker", "gender"])
def test_a_list_is_no_text_and_no_group(tmp_path: Path, column: str, cell: object) -> None:
    lines = [json.dumps(row) for row in (ROWS[0], {**ROWS[1], column: cell})]
    error = refuse(write(tmp_path, "\n".join(lines), "m.jsonl"), by=("gender",))
    assert f"The column {column!r} holds a list or an object" in error.message
    assert error.where.endswith("m.jsonl:2") and "joined by spaces" in error.hint
    listed = refuse(write(tmp_path, f"[{','.join(lines)}]", "m.json"), by=("gender",))
    assert listed.message == error.message and listed.where.endswith("m.json, entry 2")


def test_lists_may_stand_in_columns_that_are_not_used(tmp_path: Path) -> None:
    lines = [json.dumps({**row, "words": ["so"]}) for row in ROWS]
    manifest = read(write(tmp_path, "\n".join(lines), "m.jsonl"), by=("gender",))
    assert len(manifest.clips) == 2
    with pytest.raises(InputError, match="The column 'words' holds a list"):
        manifest.check_flat("words")


def test_hash_is_that_of_the_file(tmp_path: Path) -> None:
    import hashlib

    path = write(tmp_path, HEADER + "a.wav,x,s,f\n")
    assert read(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_work_grows_with_the_length_of_the_file_and_not_faster(tmp_path: Path) -> None:
    def lines_run(rows: int) -> int:
        lines = "".join(f"audio/{place % 97}/{place}.wav,x,s{place % 50},v{place % 7}\n" for place in range(rows))
        path = write(tmp_path, HEADER + lines)
        counted = 0

        def count(frame: Any, event: str, argument: Any) -> Any:
            nonlocal counted
            counted += event == "line"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            clips = read(path, by=["gender"]).clips
        finally:
            sys.settrace(before)
        assert len(clips) == rows
        return counted

    lines_run(100)
    assert lines_run(4_000) < 4.5 * lines_run(1_000)


def mark_real(function: Any) -> Any:
    for mark in real:
        function = mark(function)
    return function


@mark_real
def test_real_manifests_match_their_descriptions() -> None:
    speech = read(DATA / "nonnative_english" / "manifest.csv", by=["gender", "age"], bins={"age": (0, 13, 18)})
    assert len(speech.clips) == 636
    speakers = {(clip.speaker, clip.attributes["gender"], clip.attributes["age"]) for clip in speech.clips}
    assert len(speakers) == 106
    cells = [(gender, age) for _, gender, age in speakers]
    expected = {("female", "0-12"): 24, ("male", "0-12"): 24, ("female", "18+"): 24, ("male", "18+"): 24}
    assert {cell: cells.count(cell) for cell in set(cells)} == expected | {("female", "13-17"): 6, ("male", "13-17"): 4}
    assert sum(float(clip.extras["duration"]) for clip in speech.clips) / 60 == pytest.approx(36.8, abs=0.05)
    digits = read(DATA / "spoken_digits" / "manifest.csv", by=["accent", "age"])
    assert len(digits.clips) == 720
    assert len({clip.speaker for clip in digits.clips}) == 6
    assert counts(digits) == {"manifest.unknown": 720}


def test_in_a_file_with_semicolons_numbers_have_decimal_commas_and_words_stay(tmp_path: Path) -> None:
    header = "audio_filepath;text;speaker;offset;duration;rate\n"
    path = write(tmp_path, header + "a.wav;5,5;1,2;0;1,5;0,5\na.wav;6;7;1,5;2,25;2\n")
    manifest = read(path, by=["rate"], bins={"rate": (0, 1)})
    assert [(clip.text, clip.speaker) for clip in manifest.clips] == [("5,5", "1,2"), ("6", "7")]
    assert [(clip.start, clip.end) for clip in manifest.clips] == [(0, 1.5), (1.5, 3.75)]
    assert [clip.attributes["rate"] for clip in manifest.clips] == ["0-<1", "1+"]
    assert counts(manifest)["manifest.dialect"] == 2 and counts(manifest)["manifest.decimal-comma"] == 1
    for cells, said in ((("1,5", "2.25"), "'2.25' has a decimal point"), (("1,500", "2,250"), "three digits")):
        first, second = cells
        path = write(tmp_path, header + f"a.wav;x;1;0;{first};1\nb.wav;x;1;0;{second};2\n")
        assert said in refuse(path).message


def test_a_binned_column_between_semicolons_has_points_or_commas(tmp_path: Path) -> None:
    path = write(tmp_path, "path;text;speaker;rate\na.wav;x;1;1.5\nb.wav;x;1;1,234\nc.wav;x;1;9\n")
    error = refuse(path, by=["rate"], bins={"rate": (0, 2)})
    assert "'1,234' has a decimal comma, and other numbers of rate have a point." in error.message
    assert error.where == f"{path}:3, rate"
    mapped = write(tmp_path, "column;from;to\nrate;1,234;1.234\n", "map.csv")
    manifest = read(path, by=["rate"], bins={"rate": (0, 2)}, values=mapped)
    assert [clip.attributes["rate"] for clip in manifest.clips] == ["0-<2", "0-<2", "2+"]
    assert [clip.attributes["rate"] for clip in read(path, by=["rate"]).clips] == ["1.5", "1,234", "9"]


def test_a_manifest_with_bars_between_its_fields_is_named_as_such(tmp_path: Path) -> None:
    error = refuse(write(tmp_path, "path|text|speaker\na.wav|so|1\n"))
    assert "no column for the path" in error.message and "let the first line be sep=|" in error.hint
    read(write(tmp_path, "sep=|\npath|text|speaker\na.wav|so|1\n"))
