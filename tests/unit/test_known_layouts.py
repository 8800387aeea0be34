import os
from pathlib import Path
from typing import Any

import pytest

from probes.core.errors import InputError
from probes.speech.corpora import PRESETS
from probes.speech.known_layouts import COLUMNS, FOLDERS, advice_on_folder, advice_on_table, with_advice
from probes.speech.manifests import ColumnMap, Manifest, read_manifest

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
COMMON_VOICE = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\tlocale\tsegment\n"
LINE = "{}\t{}.mp3\tSome words.\t2\t0\t{}\tfemale\ten\t\n"


def read(path: Path, *by: str, **options: Any) -> Manifest:
    return read_manifest(
        path, **{"columns": ColumnMap(), "by": by, "values": None, "bins": {}, "needs": frozenset({"path"}), **options}
    )


def test_every_advice_names_a_preset() -> None:
    assert {preset for preset, *_ in (*COLUMNS, *FOLDERS)} <= set(PRESETS)


def test_common_voice_is_recognised_by_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "test.tsv"
    file.write_text(COMMON_VOICE + LINE.format("c1", "a", "twenties") + LINE.format("c2", "b", ""))
    manifest = read(file, "age")
    assert manifest.advice.startswith("This looks like Common Voice: --preset common-voice")
    assert manifest.preview()[-1] == manifest.advice
    for asked in ({"by": ["nothing"]}, {"columns": ColumnMap(path="none")}):
        with pytest.raises(InputError) as caught:
            read(file, **asked)
        assert "There is no column" in caught.value.message
        assert caught.value.hint.startswith("There are: ") or "Did you mean" in caught.value.hint
        assert caught.value.hint.endswith(manifest.advice)
    file.write_text("client_id\tpath\tsentence\nc1\ta.mp3\twords\n")
    assert read(file).advice == ""


@pytest.mark.parametrize(
    ("preset", "names"),
    [
        ("kaldi", ["wav.scp", "utt2spk"]),
        ("speechocean", ["train/wav.scp", "test/wav.scp"]),
        ("audiomnist", ["data/audioMNIST_meta.txt"]),
        ("fsdd", ["recordings/0_jackson_0.wav"]),
        ("common-voice", ["validated.tsv", "clips/a.mp3"]),
        ("coraal", ["ATL_metadata_2018.txt"]),
        ("sonos", ["metadata/test_metadata.json", "audios/test/a.wav"]),
        ("librispeech", ["SPEAKERS.TXT"]),
        ("librispeech", ["1089/134686/1089-134686.trans.txt"]),
        ("timit", ["TRAIN/DR1/FCJF0/SA1.TXT"]),
        ("artie", ["artie-bias-corpus.tsv"]),
    ],
)
def test_folders_are_recognised(tmp_path: Path, preset: str, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert caught.value.message == "This is a folder, not a file."
    assert f": --preset {preset} reads it" in caught.value.hint


def test_other_folders_and_tables_are_not(tmp_path: Path) -> None:
    (tmp_path / "clips.csv").touch()
    assert advice_on_folder(tmp_path) == "" == advice_on_table(tmp_path / "clips.csv", ["path", "speaker", "text"])
    with pytest.raises(InputError, match="folder") as caught:
        read(tmp_path)
    assert caught.value.hint == "Name the file in it."


def test_an_advice_stands_once() -> None:
    with pytest.raises(InputError) as caught, with_advice("So."), with_advice("So."), with_advice(""):
        raise InputError("Bad.", hint="Mend.")
    assert caught.value.hint == "Mend. So."


def test_a_table_with_semicolons_is_said_to_be_one(tmp_path: Path) -> None:
    file = tmp_path / "clips.csv"
    file.write_text("path;rate\na.wav;1,5\nb.wav;2,5\n")
    (note,) = read(file).notes
    assert (note.id, note.count) == ("manifest.dialect", 2)
    assert note.message == "Fields are separated by semicolons; numbers may have decimal commas."


def test_what_columns_were_read_as(tmp_path: Path) -> None:
    file = tmp_path / "clips.csv"
    file.write_text(
        "audio_filepath,offset,duration,text,speaker,age,gender,rate\n"
        "a.wav,0,1,words,s1,7,f,16\nb.wav,0,1,words,s2,8,NA,16\nc.wav,0,1,words,s2,31,m,16\n"
    )
    manifest = read(file, "age", "gender", bins={"age": (0.0, 30.0)})
    assert manifest.preview() == (
        "Columns are read as: audio_filepath: the recording; text: the transcript; speaker: the speaker, 2 of them; "
        "offset: the start in seconds; duration: the length in seconds; age: a number in bins, 2 levels; "
        "gender: 2 levels.",
    )
    assert "gender" not in manifest.preview(without=["gender"])[0]


def test_a_folder_that_goes_away_meanwhile_has_no_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Path, pattern: str) -> object:
        raise FileNotFoundError(2, "No such file or directory", str(self / "20734"))

    monkeypatch.setattr(Path, "glob", gone)
    assert advice_on_folder(tmp_path) == ""
