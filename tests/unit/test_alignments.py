import csv
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.core.errors import InputError
from probes.core.hashing import sha256_folder
from probes.speech.alignments import AlignedClip, Alignments, read_alignments
from probes.speech.manifests import Clip
from probes.speech.phone_names import phone_names
from probes.speech.phones import PhoneInterval

ROWS = "start,end,phone\n0,0.1,sil\n0.1,0.25,DH\n0.25,0.4,AH0\n"
TWICE, SHARED = "Several alignments may belong to this clip: ", "The alignment x.csv may belong to several clips: "
SPOKEN = [("DH", 0.1, 0.25), ("AH", 0.25, 0.4)]


def clip(name: str, start: float | None = None, end: float | None = None, **extras: str) -> Clip:
    path = Path("/corpus") / name
    return Clip(path=path, name=name, line=2, source=Path("m.csv"), start=start, end=end, extras=extras)


def put(path: Path, content: str = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def grid(*tiers: tuple[str, Sequence[tuple[float, float, str]]]) -> str:
    lines = ['"ooTextFile"', '"TextGrid"', "0", "9", "<exists>", str(len(tiers))]
    for name, intervals in tiers:
        lines += ['"IntervalTier"', f'"{name}"', "0", "9", str(len(intervals))]
        lines += [f'{start} {end} "{text}"' for start, end, text in intervals]
    return "\n".join(lines)


def read(path: Path, *clips: Clip, seconds: float = 9.0, rate: int = 16_000, **options: Any) -> Alignments:
    return read_alignments(path, clips, rates=[rate] * len(clips), seconds=[seconds] * len(clips), **options)


def refuse(path: Path, *clips: Clip, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(path, *clips, **options)
    assert caught.value.where
    return caught.value


def phones(found: AlignedClip | None) -> list[tuple[str, float, float]]:
    assert found is not None
    return [(one.phone, one.start, one.end) for one in found.phones]


def notes(found: Alignments) -> dict[str, int]:
    return {note.id.removeprefix("alignments."): note.count for note in found.notes}


# Forms


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.TextGrid", grid(("word", [(0, 1, "a")]), ("phones", [(0, 0.1, ""), (0.1, 0.25, "DH"), (0.25, 0.4, "AH")]))),
        ("x.TEXTGRID", grid(("MAU", [(0, 0.1, "<p:>"), (0.1, 0.25, " DH "), (0.25, 0.4, "AH2")]))),
        ("x.ctm", "x 1 0 0.1 SIL\nx 1 0.1 0.15 DH_B\nx 1 0.25 0.15 AH0_E 0.9\n"),
        ("other.ctm", "x 1 0 0.1 SIL\ny 1 0 1 B\nx 1 0.1 0.15 DH\nx 1 0.25 0.15 AH\n"),
        ("x.phn", "0 1600 h#\n1600 4000 DH\n4000 6400 AH\n"), ("x.PHN", "0 1600 pau\n1600 4000 DH\n4000 6400 AH\n"),
        ("x.csv", ROWS), ("x.tsv", ROWS.replace(",", "\t")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("itself", [False, True], ids=["folder", "file"])
def test_every_form_gives_the_same_phones(tmp_path: Path, name: str, content: str, itself: bool) -> None:
    path = put(tmp_path / name, content)
    found = read(path if itself else tmp_path, clip("s/x.wav"))
    assert phones(found.clips[0]) == SPOKEN
    assert found.clips[0] is not None and (found.clips[0].pauses, found.clips[0].file) == (1, path)
    assert (found.files, found.sha256) == ((path,), sha256_folder([path]))


@pytest.mark.parametrize("column", ["path", "utterance", "clip", "file", "File_Name"])
def test_one_table_for_all_clips(tmp_path: Path, column: str) -> None:
    rows = "s/x.wav,0.1,0.25,DH\ns/y.wav,0,1,B\ns/x.wav,0.25,0.4,AH\ns/z.wav,0,1,B\n"
    path = put(tmp_path / "all.csv", f"{column},start,end,phone\n{rows}")
    found = read(path, clip("s/x.wav"), clip("s/w.wav"), clip("s/y.wav"))
    assert phones(found.clips[0]) == SPOKEN
    assert found.clips[1] is None
    assert phones(found.clips[2]) == [("B", 0.0, 1.0)]
    assert notes(found) == {"unmatched": 1, "without": 1}
    assert [note.message for note in found.notes] == [
        "1 alignments belong to no clip (s/z.wav of all.csv).", "1 clips have no alignment (s/w.wav).",
    ]  # fmt: skip


def test_a_table_of_many_clips_in_a_folder_is_not_taken_for_one(tmp_path: Path) -> None:
    put(tmp_path / "x.csv", "path,start,end,phone\nx.wav,0,1,a\ny.wav,0,1,a\n")
    error = refuse(tmp_path, clip("x.wav"))
    assert error.message == "The table holds 2 clips (x.wav, y.wav, ...), and is called like one."


def test_other_tables_of_the_folder_are_not_opened(tmp_path: Path) -> None:
    put(tmp_path / "x.csv")
    (tmp_path / "metadata.csv").write_bytes(b"\xff\x00\xfe")
    assert notes(read(tmp_path, clip("x.wav"))) == {"unmatched": 1, "stress": 1}


# Names


@pytest.mark.parametrize(
    ("files", "names", "owners"),
    [
        (["s/x.csv"], ["s/x.wav"], ["s/x.csv"]),
        (["s/x.csv"], ["./s//x.wav"], ["s/x.csv"]),
        (["s/x.csv"], ["/data/s/x.flac"], ["s/x.csv"]),
        (["SA1.csv"], ["SA1.WAV.wav"], ["SA1.csv"]),
        (["x.wav.csv"], ["x.wav"], ["x.wav.csv"]),
        (["a.b.csv"], ["a.b.wav"], ["a.b.csv"]),
        (["x.csv"], ["../deep/s/x.wav"], ["x.csv"]),
        (["s/x.csv", "t/x.csv"], ["s/x.wav", "t/x.wav"], ["s/x.csv", "t/x.csv"]),
        (["s/x.csv", "t/x.csv"], ["/data/s/x.wav", "/data/t/x.wav"], ["s/x.csv", "t/x.csv"]),
        (["all/s/x.csv", "all/t/x.csv"], ["s/x.wav", "t/x.wav"], ["all/s/x.csv", "all/t/x.csv"]),
        (["s/x.csv"], ["s/x.wav", "t/x.wav"], ["s/x.csv", None]),
        (["s/x.csv", "t/x.csv"], ["s/x.wav", "u/x.wav"], ["s/x.csv", "t/x.csv"]),
        (["s/x.csv"], ["data/s/x.wav", "u/x.wav"], ["s/x.csv", None]),
        (["x.csv"], ["x.wav", "y.wav"], ["x.csv", None]),
    ],
)
def test_alignments_find_their_clips(
    tmp_path: Path, files: list[str], names: list[str], owners: list[str | None]
) -> None:
    for file in files:
        put(tmp_path / file)
    found = read(tmp_path, *map(clip, names))
    assert [one and one.file.relative_to(tmp_path).as_posix() for one in found.clips] == owners


@pytest.mark.parametrize(
    ("files", "names", "message", "where"),
    [
        (["s/x.csv", "t/x.csv"], ["u/x.wav"], TWICE + "s/x.csv, t/x.csv.", "m.csv:2"),
        (["s/x.csv", "t/x.csv"], ["x.wav"], TWICE + "s/x.csv, t/x.csv.", "m.csv:2"),
        (["x.csv", "x.phn"], ["x.wav"], TWICE + "x.csv, x.phn.", "m.csv:2 (x.wav)"),
        (["x.csv", "x.phn"], ["s/x.wav"], TWICE + "x.csv, x.phn.", "m.csv:2"),
        (["x.csv"], ["s/x.wav", "t/x.wav"], SHARED + "s/x.wav, t/x.wav.", "x.csv"),
        (["x.csv"], ["x.wav", "x.flac"], SHARED + "x.wav, x.flac.", "x.csv"),
    ],
)  # fmt: skip
def test_names_that_fit_twice(tmp_path: Path, files: list[str], names: list[str], message: str, where: str) -> None:
    for file in files:
        put(tmp_path / file)
    error = refuse(tmp_path, *map(clip, names))
    assert error.message == message
    assert where in error.where
    assert error.hint


def test_an_utterance_in_two_files(tmp_path: Path) -> None:
    for name in ("ali.1.ctm", "ali.2.ctm"):
        put(tmp_path / name, "x 1 0 1 a\ny 1 0 1 a\n")
    error = refuse(tmp_path, clip("x.wav"))
    assert error.message == TWICE + "x of ali.1.ctm, x of ali.2.ctm."


def test_a_ctm_of_one_utterance_belongs_to_the_clip_that_it_is_called_like(tmp_path: Path) -> None:
    put(tmp_path / "s" / "x.ctm", "some-id 1 0 1 a\n")
    put(tmp_path / "s" / "job.ctm", "y 1 0 1 b\n")
    found = read(tmp_path, clip("x.wav"), clip("y.wav"))
    assert [phones(one)[0][0] for one in found.clips] == ["a", "b"]


def test_names_that_never_agree_are_shown(tmp_path: Path) -> None:
    put(tmp_path / "s" / "one.csv")
    error = refuse(tmp_path, clip("a/x.wav"))
    assert error.message == "No clip has an alignment here: no names agree."
    assert error.hint == "A clip is called 'a/x.wav', an alignment 's/one.csv'."
    assert error.where == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("", "The folder holds no alignment.", "Names of alignments end in .textgrid, .ctm, .phn, .csv, .tsv."),
        ("aligned.cvs", "There is no such file or folder.", "Did you mean aligned.txt?"),
        ("aligned.txt", "The suffix '.txt' is that of no alignment.", ".textgrid"),
    ],
)
def test_a_path_without_alignments(tmp_path: Path, name: str, message: str, hint: str) -> None:
    put(tmp_path / "aligned.txt")
    error = refuse(tmp_path / name, clip("x.wav"))
    assert (error.message, error.where) == (message, str(tmp_path / name))
    assert hint in error.hint


def test_links_out_of_the_folder_are_told(tmp_path: Path) -> None:
    put(tmp_path / "in" / "x.csv")
    put(tmp_path / "out" / "y.csv")
    (tmp_path / "in" / "y.csv").symlink_to(tmp_path / "out" / "y.csv")
    found = read(tmp_path / "in", clip("x.wav"), clip("y.wav"))
    assert found.clips[1] is None
    assert notes(found) == {"unread": 1, "without": 1, "stress": 1}


# Times


@pytest.mark.parametrize(
    ("rows", "place", "message"),
    [
        ("0,1,a\n2,1,b\n", 3, "The interval from 2 s to 1 s ends before it starts."),
        ("-0.1,1,a\n", 2, "The interval from -0.1 s to 1 s has a time that is negative or no number."),
        ("0,nan,a\n", 2, "The interval from 0 s to nan s has a time that is negative or no number."),
        ("0,1e999,a\n", 2, "The interval from 0 s to inf s has a time that is negative or no number."),
        ("nan,nan,\n", 2, "The interval from nan s to nan s has a time that is negative or no number."),
        ("0,1,a\n0.99,2,b\n", 3, "The interval from 0.99 s to 2 s overlaps the one that ends at 1 s."),
        ("0,1,a\n0.99,2,sil\n", 3, "The interval from 0.99 s to 2 s overlaps the one that ends at 1 s."),
        ("1,2,a\n0,1,b\n", 3, "The interval from 0 s to 1 s stands after one that starts at 1 s."),
        ("0,2,a\n0,2,b\n", 3, "The interval from 0 s to 2 s overlaps the one that ends at 2 s."),
        ("0,9.06,a\n", 2, "The interval from 0 s to 9.06 s ends after the recording, which has 9 s."),
        (f"0,1,{'ab ' * 21}\n", 2, f"The label {('ab ' * 21)[:60]!r}... is too long for a phone."),
    ],
)
@pytest.mark.parametrize("itself", [False, True], ids=["folder", "file"])
def test_times_that_cannot_be(tmp_path: Path, rows: str, place: int, message: str, itself: bool) -> None:
    path = put(tmp_path / "x.csv", f"start,end,phone\n{rows}")
    error = refuse(path if itself else tmp_path, clip("x.wav"))
    assert (error.message, error.where) == (message, f"{path}:{place}")
    assert error.hint


@pytest.mark.parametrize("rows", ["0,1.001,a\n1,2,b\n", "0,9.05,a\n", "0,1,a\n5,6,b\n", "0,8,a\n8,9.04,sil\n"])
def test_times_that_are_near_enough(tmp_path: Path, rows: str) -> None:
    put(tmp_path / "x.csv", f"start,end,phone\n{rows}")
    first = rows.split(",")
    assert phones(read(tmp_path, clip("x.wav")).clips[0])[0][1:] == (float(first[0]), float(first[1]))


def test_intervals_of_no_length_are_counted(tmp_path: Path) -> None:
    put(tmp_path / "x.csv", "start,end,phone\n0,0,sil\n0,1,a\n1,1,b\n1,2,c\n2,2,\n")
    found = read(tmp_path, clip("x.wav"))
    assert phones(found.clips[0]) == [("a", 0.0, 1.0), ("c", 1.0, 2.0)]
    assert found.clips[0] is not None and found.clips[0].pauses == 0
    assert [note.message for note in found.notes] == ["3 intervals of no length were dropped (sil, b, empty)."]


def test_each_recording_has_its_own_rate_and_length(tmp_path: Path) -> None:
    put(tmp_path / "x.phn", "0 8000 a\n")
    put(tmp_path / "y.phn", "0 8000 a\n")
    clips = [clip("x.wav"), clip("y.wav")]
    found = read_alignments(tmp_path, clips, rates=[8000, 16_000], seconds=[1.0, 0.5])
    assert [phones(one)[0][2] for one in found.clips] == [1.0, 0.5]
    with pytest.raises(InputError, match=r"which has 0\.9 s"):
        read_alignments(tmp_path, clips, rates=[8000, 16_000], seconds=[0.9, 0.5])


@given(st.lists(st.floats(0, 1e5), min_size=2, max_size=8, unique=True))
@settings(max_examples=40, deadline=None)
def test_what_is_written_reads_back_exactly(times: list[float]) -> None:
    ends = sorted(times)
    given_phones = [
        PhoneInterval(phone, start, end)
        for phone, start, end in zip(['t"', "a,b", "ɔ̃", "=&", "R", "AH", "q"], ends, ends[1:], strict=False)
    ]
    with TemporaryDirectory() as folder:
        with (Path(folder) / "x.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(("start", "end", "phone"))
            table.writerows((repr(one.start), repr(one.end), one.phone) for one in given_phones)
        (found,) = read(Path(folder), clip("x.wav"), seconds=1e6).clips
    assert found == AlignedClip(phones=tuple(given_phones), pauses=0, file=Path(folder) / "x.csv")


# Parts of recordings


PARTS = "start,end,phone\n0,0.3,sil\n0.3,0.7,A\n0.7,1.1,B\n1.1,1.3,C\n1.3,1.6,D\n1.6,2,sil\n"


def test_parts_count_from_their_start(tmp_path: Path) -> None:
    put(tmp_path / "x.csv", PARTS)
    parts = [clip("x.wav", 0.3, 1.1), clip("x.wav", 1.0, 1.7), clip("x.wav"), clip("x.wav", 1.2, 1.25)]
    found = read(tmp_path, *parts, seconds=2.0)
    assert [phones(one) for one in found.clips] == [
        [("A", 0.0, 0.4), ("B", 0.4, 0.8)], [("C", 0.1, 0.3), ("D", 0.3, 0.6)],
        [("A", 0.3, 0.7), ("B", 0.7, 1.1), ("C", 1.1, 1.3), ("D", 1.3, 1.6)], [],
    ]  # fmt: skip
    assert [one and one.pauses for one in found.clips] == [0, 0, 2, 0]
    cut = next(note for note in found.notes if note.id == "alignments.cut")
    assert (cut.count, "(B, C)" in cut.message) == (2, True)


def test_an_alignment_of_an_utterance_counts_from_the_part(tmp_path: Path) -> None:
    path = put(tmp_path / "all.ctm", "rec-1 1 0.1 0.2 A\nrec-2 1 0 0.5 B\n")
    parts = [clip("rec.wav", 5.0, 6.0, utterance="rec-1"), clip("rec.wav", 6.0, 7.0, utterance="rec-2")]
    found = read(path, *parts)
    assert [phones(one) for one in found.clips] == [[("A", 0.1, 0.3)], [("B", 0.0, 0.5)]]
    put(path, "rec-1 1 0.1 0.2 A\nrec-2 1 0 1.06 B\n")
    assert refuse(path, *parts).message.endswith("ends after the recording, which has 1 s.")


def test_an_alignment_of_the_recording_counts_from_its_start_though_parts_have_names(tmp_path: Path) -> None:
    put(tmp_path / "rec.csv", "start,end,phone\n5.5,5.75,A\n")
    for utterance in ("rec-1", "rec"):
        found = read(tmp_path, clip("rec.wav", 5.0, 6.0, utterance=utterance))
        assert phones(found.clips[0]) == [("A", 0.5, 0.75)]


# Speakers


def test_the_tiers_of_several_speakers_are_merged(tmp_path: Path) -> None:
    ann = [(0, 1, "a"), (1, 3, ""), (3, 4, "b")]
    bo = [(0, 1, ""), (1, 2, "c"), (2, 4, "sil")]
    put(tmp_path / "x.TextGrid", grid(("Ann - words", [(0, 4, "w")]), ("Ann - phones", ann), ("Bo - phones", bo)))
    found = read(tmp_path, clip("x.wav"))
    assert phones(found.clips[0]) == [("a", 0.0, 1.0), ("c", 1.0, 2.0), ("b", 3.0, 4.0)]
    assert found.clips[0] is not None and found.clips[0].pauses == 3
    assert notes(found) == {"merged": 1}
    assert phones(read(tmp_path, clip("x.wav"), tier="Bo - phones").clips[0]) == [("c", 1.0, 2.0)]


def test_speakers_who_speak_at_once_are_refused(tmp_path: Path) -> None:
    tiers = ("Ann - phones", [(0, 1, "a")]), ("Bo - phones", [(0.5, 2, "c")])
    path = put(tmp_path / "x.TextGrid", grid(*tiers))
    error = refuse(tmp_path, clip("x.wav"))
    assert error.message == "The interval from 0.5 s to 2 s overlaps the one that ends at 1 s."
    assert error.hint == "Two speakers speak at once: choose one of them with --tier."
    assert error.where == f"{path}:18"


# Labels


def test_what_became_of_labels_is_counted(tmp_path: Path) -> None:
    put(tmp_path / "x.ctm", "x 1 0 1 AH0_B\nx 1 1 1 AH1_I\nx 1 2 1 DX\nx 1 3 1 17_S\nx 1 4 1 SIL\nx 1 5 1 q_E\n")
    phone_map = put(tmp_path / "map" / "phones.txt", "from,to\nDX,T\nq,\nZZ,S\n")
    found = read(tmp_path / "x.ctm", clip("x.wav"), phone_map=phone_map)
    assert [one[0] for one in phones(found.clips[0])] == ["AH", "AH", "T", "17"]
    assert found.clips[0] is not None and found.clips[0].pauses == 2
    assert notes(found) == {"positions": 4, "stress": 2, "mapped": 2, "map-unused": 1, "numbers": 1}
    kept = read(tmp_path / "x.ctm", clip("x.wav"), phone_map=phone_map, keep_stress=True)
    assert [one[0] for one in phones(kept.clips[0])] == ["AH0", "AH1", "T", "17"]
    assert "stress" not in notes(kept)


def test_a_note_shows_only_what_it_counts(tmp_path: Path) -> None:
    found = read(put(tmp_path / "x.ctm", "x 1 0 1 b\nx 1 1 1 a_I\nx 1 2 1 a_I\n"), clip("x.wav"))
    assert [note.message for note in found.notes] == [
        "2 labels lost the mark of Kaldi for the position in a word (a_I)."
    ]


@pytest.mark.parametrize(
    ("content", "message", "place"),
    [
        ("from,too\na,b\n", "The phone map has no column 'to'.", ""),
        ("from,to\na,b\na,c\n", "The phone 'a' becomes both 'b' and 'c'.", ":3"),
        ("from,to\n", "The file has a header but no rows.", ""),
    ],
)
def test_a_map_that_cannot_be_read(tmp_path: Path, content: str, message: str, place: str) -> None:
    path = put(tmp_path / "map.csv", content)
    with pytest.raises(InputError) as caught:
        phone_names(path)
    assert (caught.value.message, caught.value.where) == (message, f"{path}{place}")


def test_a_clip_of_pauses_only_has_no_phones(tmp_path: Path) -> None:
    put(tmp_path / "x.csv", "start,end,phone\n0,1,sil\n1,2,\n")
    (found,) = read(tmp_path, clip("x.wav")).clips
    assert found is not None and (found.phones, found.pauses) == ((), 2)


# Files


def test_the_hash_is_that_of_the_files_that_were_used(tmp_path: Path) -> None:
    for name in ("x", "y", "unused"):
        put(tmp_path / f"{name}.csv")
    found = read(tmp_path, clip("y.wav"), clip("x.wav"))
    assert found.files == (tmp_path / "x.csv", tmp_path / "y.csv")
    assert found.sha256 == sha256_folder(found.files)
    put(tmp_path / "unused.csv", "changed")
    assert read(tmp_path, clip("y.wav"), clip("x.wav")).sha256 == found.sha256
    put(tmp_path / "x.csv", ROWS.replace("DH", "D"))
    assert read(tmp_path, clip("y.wav"), clip("x.wav")).sha256 != found.sha256


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "x.csv")

    def closed(_: Path) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "iterdir", closed)
    error = refuse(tmp_path, clip("x.wav"))
    assert (error.message, error.where) == ("The folder cannot be read: Permission denied.", str(tmp_path))
