"""Files are planted, and named as Windows names them: each must be found, and none outside its folder."""

import json
import ntpath
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from audits.membership import Options as Membership
from audits.membership.releases import releases_of
from audits.speaker_groups.prediction_matching import match
from audits.speaker_groups.predictions import read_predictions
from probes.classifiers.images import load_images
from probes.core.errors import InputError
from probes.files.foreign_paths import with_slashes
from probes.files.safe_paths import OutsideError, RootedPaths
from probes.speech.alignments import read_alignments
from probes.speech.audio import inspect_clip
from probes.speech.corpora import read_corpus
from probes.speech.manifests import Clip, ColumnMap, read_manifest

SAME = (r"clips\000.wav", r".\clips\000.wav", r"clips\sub/..\000.wav", r"clips/sub\..\000.wav", r".\.\clips/000.wav")
ESCAPES = (r"..\x.wav", r"clips\..\..\x.wav", r"clips/..\../x.wav", r"..\..\x.wav", r".\..\x.wav", r"clips\..\..")
DRIVES = (r"C:\data\clips\000.wav", r"c:/data/clips/000.wav", r"D:clips\000.wav", r"\data\clips\000.wav")
ADDRESSES = (r"\\server\share\000.wav", r"\\?\C:\data\000.wav", r"\\.\pipe\x", r"\\server/share/000.wav")
HEADER = "path,text,speaker\n"
NEEDS = frozenset({"path", "text", "speaker"})


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a folder with clips/000.wav and clips/sub, below a folder with x.wav."""
    folder = tmp_path / "corpus"
    (folder / "clips" / "sub").mkdir(parents=True)
    for place in (folder / "clips" / "000.wav", tmp_path / "x.wav"):
        soundfile.write(place, np.zeros(1600), 16000)
    return folder


def clips(folder: Path, *names: str, suffix: str = ".csv") -> tuple[Clip, ...]:
    rows = [{"path": name, "text": "x", "speaker": "s"} for name in names]
    content = (
        HEADER + "".join(f'"{name}",x,s\n' for name in names)
        if suffix == ".csv"
        else "".join(json.dumps(row) + "\n" for row in rows)
    )
    path = folder / f"m{suffix}"
    path.write_text(content, encoding="utf-8")
    return read_manifest(path, columns=ColumnMap(), by=(), values=None, bins={}, needs=NEEDS).clips


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("name", SAME)
def test_a_recording_is_found(name: str, suffix: str, corpus: Path) -> None:
    (clip,) = clips(corpus, name, suffix=suffix)
    assert (clip.name, clip.path) == (name, corpus.resolve() / "clips" / "000.wav")
    assert inspect_clip(clip).seconds == 0.1


@pytest.mark.parametrize("name", ESCAPES)
def test_no_path_leads_out(name: str, corpus: Path) -> None:
    (clip,) = clips(corpus, name)
    with pytest.raises(OutsideError, match="leads out of its folder"):
        inspect_clip(clip)


@pytest.mark.parametrize("name", DRIVES)
def test_a_drive_is_none_of_this_system(name: str, corpus: Path) -> None:
    (clip,) = clips(corpus, name)
    with pytest.raises(InputError, match="no such file") as caught:
        inspect_clip(clip)
    drive = name[1] == ":" and name[2] in "\\/"
    assert ("--audio-root" if drive else "write it in the place of each \\") in caught.value.hint


@pytest.mark.parametrize("name", ADDRESSES)
def test_other_machines_are_not_asked(name: str, corpus: Path) -> None:
    """Windows would sign in at the server that a stranger's manifest names."""
    (clip,) = clips(corpus, name)
    with pytest.raises(InputError, match="is an address, not a file"):
        inspect_clip(clip)


def test_a_recording_may_be_called_so_here(corpus: Path) -> None:
    """A backslash is a letter of a name on this system: what has the very name goes first, and stays inside."""
    for name in (r"clips\000.wav", r"..\x.wav"):
        soundfile.write(corpus / name, np.zeros(3200), 16000)
        (clip,) = clips(corpus, name)
        assert clip.path == corpus.resolve() / name and inspect_clip(clip).seconds == 0.2


def test_two_spellings_are_one_recording(corpus: Path) -> None:
    with pytest.raises(InputError, match="listed twice"):
        clips(corpus, "clips/000.wav", r"clips\000.wav")


def test_links_are_seen_through(corpus: Path) -> None:
    (corpus / "away").symlink_to(corpus.parent)
    with pytest.raises(OutsideError):
        RootedPaths(corpus).resolve(r"away\x.wav", "m.csv:2")


PARTS = st.lists(st.sampled_from(["a", "b.wav", "..", ".", "c d"]), min_size=1, max_size=5)


@given(
    PARTS, st.lists(st.sampled_from("\\/"), min_size=5, max_size=5), st.sampled_from(["", ".\\", "C:\\", "\\", "D:"])
)
def test_a_name_means_what_windows_takes_it_for(parts: list[str], marks: list[str], root: str) -> None:
    name = root + "".join(part + mark for part, mark in zip(parts, marks, strict=False)).rstrip("\\/")
    meant = PureWindowsPath(name)
    if meant.drive or meant.root:
        assert with_slashes(name) == name
    else:
        assert ntpath.normpath(name).replace("\\", "/") == str(ntpath.normpath(with_slashes(name))).replace("\\", "/")
        assert "\\" not in with_slashes(name)
        assert tuple(part for part in with_slashes(name).split("/") if part != ".") == meant.parts


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.jsonl", json.dumps({"audio_filepath": r"D:\eval\clips\000.wav", "pred_text": "yes"})),
        ("p.csv", "path,prediction\n.\\clips\\000.wav,yes\n"),
        ("p.txt", "clips\\000.wav yes\n"),
        ("p.json", json.dumps({r"clips\000": "yes"})),
        ("p.trn", "yes (clips\\000)\n"),
    ],
)
@pytest.mark.parametrize("recording", ["clips/000.wav", r"clips\000.wav", r"E:\other\000.wav"])
def test_predictions_find_their_recording(name: str, content: str, recording: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert match([recording], read_predictions(tmp_path / name)) == (("yes",), [])


@pytest.mark.parametrize("name", [*SAME, DRIVES[0]])
def test_alignments_find_their_recording(name: str, tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    for stem in ("000", "001"):
        (tmp_path / "clips" / f"{stem}.csv").write_text("start,end,phone\n0.1,0.25,DH\n", encoding="utf-8")
    clip = Clip(path=tmp_path / "000.wav", name=name, line=2, source=Path("m.csv"))
    (found,) = read_alignments(tmp_path, [clip], rates=[16000], seconds=[9.0]).clips
    assert found is not None and [one.phone for one in found.phones] == ["DH"]


def test_a_table_of_alignments_names_recordings_of_windows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("path,start,end,phone\nclips\\000.wav,0.1,0.25,DH\n", encoding="utf-8")
    clip = Clip(path=tmp_path / "000.wav", name="clips/000.wav", line=2, source=Path("m.csv"))
    (found,) = read_alignments(tmp_path / "a.csv", [clip], rates=[16000], seconds=[9.0]).clips
    assert found is not None and [one.phone for one in found.phones] == ["DH"]


def test_a_kaldi_folder_names_recordings_of_windows(corpus: Path) -> None:
    for name, content in (("wav.scp", "u1 clips\\000.wav\n"), ("text", "u1 HELLO\n"), ("utt2spk", "u1 s1\n")):
        folder = corpus / "data" / "train"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    (clip,) = read_corpus("kaldi", folder, by=(), values=None, bins={}, audio_root=None, needs=NEEDS).clips
    assert clip.path == corpus.resolve() / "clips" / "000.wav"


def _pictures(folder: Path, *names: str) -> Path:
    for name in ("a.png", "b.png"):
        (folder / "train").mkdir(exist_ok=True)
        Image.new("L", (5, 4)).save(folder / "train" / name)
    rows = "".join(f"{name},{number}\n" for number, name in enumerate(names))
    (folder / "metadata.csv").write_text(f"file_name,label\n{rows}", encoding="utf-8")
    return folder


def test_images_are_found_by_their_table(tmp_path: Path) -> None:
    found = load_images(_pictures(tmp_path, r"train\a.png", r".\train\b.png"), class_names=("x", "y"))
    assert found.names == ("train/a.png", "train/b.png")
    (tmp_path / "of.csv").write_text("file_name,kind\ntrain\\b.png,new\ntrain\\a.png,old\n", encoding="utf-8")
    found = load_images(tmp_path, class_names=("x", "y"), by=("kind",), attributes=tmp_path / "of.csv")
    assert found.attributes == {"kind": ("old", "new")}


@pytest.mark.parametrize("name", [r"..\x.png", r"train\..\..\x.png", r"C:\x.png", r"\x.png", r"\\server\share\x.png"])
def test_images_outside_are_refused(name: str, tmp_path: Path) -> None:
    Image.new("L", (5, 4)).save(tmp_path / "x.png")
    (tmp_path / "in").mkdir()
    with pytest.raises(InputError):
        load_images(_pictures(tmp_path / "in", r"train\a.png", name), class_names=("x", "y"))


def _suite(folder: Path, name: str) -> Any:
    path = folder / "suite.toml"
    path.write_text(f"[[model]]\nsamples = '{name}'\nname = 'one'\n", encoding="utf-8")
    return releases_of(Membership(suite=path), (2,))


def test_a_suite_names_files_of_windows(tmp_path: Path) -> None:
    (tmp_path / "in" / "runs").mkdir(parents=True)
    for place in (tmp_path / "in" / "runs" / "s.npy", tmp_path / "s.npy"):
        np.save(place, np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32))
    assert _suite(tmp_path / "in", r"runs\s.npy")
    with pytest.raises(InputError, match="leads out"):
        _suite(tmp_path / "in", r"runs\..\..\s.npy")
