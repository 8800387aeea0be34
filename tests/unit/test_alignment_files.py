import os
from pathlib import Path

import pytest

from probes.core.errors import InputError
from probes.speech.alignment_files import find_files, read_ctm, read_intervals, read_phn, read_tables
from probes.speech.textgrids import Mark, Tier


def write(folder: Path, content: str | bytes, name: str = "x.TextGrid") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_file_of_timit_counts_samples(tmp_path: Path) -> None:
    path = write(tmp_path, "0 3050 h#\n3050 4559 sh\r\n\n4559 5723 ix\n", "SA1.PHN")
    (found,) = read_intervals(path, None, 16_000)
    assert found.marks == [
        Mark("h#", 0.0, 3050 / 16_000, 1), Mark("sh", 3050 / 16_000, 4559 / 16_000, 2),
        Mark("ix", 4559 / 16_000, 5723 / 16_000, 4),
    ]  # fmt: skip
    assert read_phn(path, None, 8000)[0].marks[0].end == 3050 / 8000


def test_lines_may_end_as_on_an_old_mac(tmp_path: Path) -> None:
    path = write(tmp_path, "0 1 a\r1 2 b\r", "x.phn")
    assert [mark.line for mark in read_phn(path, None, 1)[0].marks] == [1, 2]


@pytest.mark.parametrize("line", ["0 0.5 a", "-1 5 a", "0 5", "0 5 a b", "0 1e3 a", f"0 {'9' * 16} a", "0 ٣ a"])
def test_a_line_that_is_not_of_timit(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, f"0 3050 h#\n{line}\n", "x.phn")
    with pytest.raises(InputError, match="cannot be read") as caught:
        read_phn(path, None, 16_000)
    assert caught.value.where == f"{path}:2"
    assert "samples" in caught.value.hint


def test_a_ctm_has_many_utterances(tmp_path: Path) -> None:
    path = write(tmp_path, ";; made by\nu1 1 0.1 0.2 AH_B\nu2 A 0 1 sil 0.98\nu1 1 0.3 0.05 T_E NA lex NA\n", "all.ctm")
    assert read_ctm(path, None) == {
        "u1": [Tier("", [Mark("AH_B", 0.1, 0.3, 2), Mark("T_E", 0.3, 0.35, 4)])],
        "u2": [Tier("", [Mark("sil", 0.0, 1.0, 3)])],
    }


@pytest.mark.parametrize(
    ("lines", "place", "message"),
    [
        ("u 1 0 1 a\nu 1 1 b\n", ":2", "The line 'u 1 1 b' cannot be read."),
        ("u 1 0 a 1\n", ":1", "The line 'u 1 0 a 1' cannot be read."),
        ("u\n", ":1", "The line 'u' cannot be read."),
        ("u 1 0 1 a NA lex NA more\n", ":1", "cannot be read"),
        ("u 1 0 1 a\n\nu 2 0 1 b\n", ":3", "'u' has the channels '1' and '2'."),
        (";; nothing\n", "", "The file holds no intervals."),
    ],
)
def test_a_line_that_is_not_of_a_ctm(tmp_path: Path, lines: str, place: str, message: str) -> None:
    path = write(tmp_path, lines, "x.ctm")
    with pytest.raises(InputError) as caught:
        read_ctm(path, None)
    assert message in caught.value.message
    assert caught.value.where == f"{path}{place}"
    assert caught.value.hint


# Tables


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "start,end,phone\n0.1,0.25,DH\n"), ("x.csv", "Begin,End,Label\r\n 0.1,0.25 ,DH\r\n"),
        ("x.tsv", "xmin\txmax\ttext\n0.1\t0.25\tDH\n"), ("x.csv", "text,phone,tmin,tmax\nthe,DH,0.1,0.25\n"),
        ("x.csv", "phone,label,start,end,begin\nDH,x,0.1,0.25,7\n"),
        ("x.csv", "Begin,End,Label,Type,Speaker\n0,0.5,the,words,a\n0.1,0.25,DH,phones,a\n"),
        ("x.tsv", "tmin\ttier\ttext\ttmax\n0\tword\tthe\t0.5\n0.1\tMAU\tDH\t0.25\n"),
        ("x.csv", "start,end,phone,type\n0.1,0.25,DH,consonant\n"),
    ],
)  # fmt: skip
def test_tables_under_the_usual_names(tmp_path: Path, name: str, content: str) -> None:
    (found,) = read_intervals(write(tmp_path, content, name), None, 1)
    assert [mark[:3] for mark in found.marks] == [("DH", 0.1, 0.25)]


def test_a_table_of_many_clips(tmp_path: Path) -> None:
    path = write(tmp_path, "path,start,end,phone\na.wav,0,1,x\nb.wav,0,1,y\na.wav,1,2,\n", "all.csv")
    found = read_tables(path, None)
    assert found == {
        "a.wav": [Tier("", [Mark("x", 0.0, 1.0, 2), Mark("", 1.0, 2.0, 4)])],
        "b.wav": [Tier("", [Mark("y", 0.0, 1.0, 3)])],
    }
    with pytest.raises(InputError, match="The table holds 2 clips"):
        read_intervals(path, None, 1)


@pytest.mark.parametrize(
    ("content", "place", "message", "hint"),
    [
        ("start,phone\n0,a\n", "", "There is no column for the end (usual names: end, xmax, tmax, end_time).", "There"),
        ("start,end,label,phoneme\n0,1,a,a\n", "", "Several columns may hold the phone: label, phoneme.", "'phone'"),
        ("path,file,start,end,phone\na,a,0,1,x\n", "", "Several columns may name the clip: path, file.", "Keep one"),
        ("start,end,phone\n0,1,a\n0;5,1,b\n", ":3", "start '0;5' and end '1' are not both seconds.", "0.25"),
        ("start,end,phone\n,1,a\n", ":2", "start '' and end '1' are not both seconds.", "0.25"),
        ("clip,start,end,phone\nu,0,1,a\n ,0,1,b\n", ":3", "The row names no clip.", "Fill in 'clip'."),
        ("start,end,phone\n", "", "a header but no rows", ""), ("start,end,phone\n0,1\n", ":2", "has 2 fields", ""),
        ("start,end,label,tier\n0,1,a,words\n0,1,b,tones\n", "", "No tier is called", "words, tones"),
        ("path,start,end,label,tier\nu,0,1,a,x\nu,0,1,b,y\n", ", u", "No tier is called like one of phones.", "x, y"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read(tmp_path: Path, content: str, place: str, message: str, hint: str) -> None:
    path = write(tmp_path, content, "x.csv")
    with pytest.raises(InputError) as caught:
        read_tables(path, None)
    assert message in caught.value.message
    assert caught.value.where == f"{path}{place}"
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("name", "content"), [("x.csv", "start,end,phone\n0,1,a\n"), ("x.ctm", "u 1 0 1 a\n"), ("x.phn", "0 1 a\n")]
)
def test_a_tier_that_was_asked_for_is_not_passed_over(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path, content, name)
    with pytest.raises(InputError, match="has no tiers, and the tier 'words' was asked for"):
        _ = read_ctm(path, "words") if name == "x.ctm" else read_intervals(path, "words", 1)


# Folders


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "a", root / ".hidden", outside):
        folder.mkdir(parents=True)
        write(folder, "x")
    (root / "a" / "inside.csv").symlink_to("x.TextGrid")
    (root / "a" / "loop").symlink_to(root)
    (root / "self.ctm").symlink_to("self.ctm")
    (root / "out.TextGrid").symlink_to(outside / "x.TextGrid")
    (root / "folder").symlink_to(outside)
    (root / "gone.ctm").symlink_to(outside / "gone.ctm")
    (root / "notes.txt").symlink_to(outside / "x.TextGrid")
    (root / "._y.TextGrid").write_text("of a Mac")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff.csv")).write_text("x")
    files, unread = find_files(root)
    assert [file.relative_to(root).as_posix() for file in files] == ["a/inside.csv", "a/x.TextGrid"]
    assert sorted(unread) == ["?.csv", "folder", "gone.ctm", "out.TextGrid"]


def test_very_deep_folders_are_no_recursion(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(300):
        deep = deep / "a"
    deep.mkdir(parents=True)
    write(deep, "x")
    assert find_files(tmp_path) == ([deep / "x.TextGrid"], [])


def test_seconds_between_semicolons_may_have_decimal_commas(tmp_path: Path) -> None:
    found = read_tables(write(tmp_path, "start;end;phone\n0;0,5;1,2\n0,5;1;7\n", "x.csv"), None)
    assert [(mark.start, mark.end, mark.label) for mark in found[""][0].marks] == [(0, 0.5, "1,2"), (0.5, 1, "7")]
    with pytest.raises(InputError, match=r"'1\.25' has a decimal point, and other numbers of end have a comma"):
        read_tables(write(tmp_path, "start;end;phone\n0;0,5;a\n0,5;1.25;b\n", "x.csv"), None)
