import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from probes.core.errors import InputError
from probes.speech import corpora
from probes.speech.audio import inspect_clip
from probes.speech.corpora import PRESETS, read_corpus
from probes.speech.corpora.coraal import clean_content
from probes.speech.manifests import Clip, Manifest

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
ALL = frozenset({"path", "text", "speaker"})


def read(preset: str, path: Path, *by: str, **options: Any) -> Manifest:
    defaults: dict[str, Any] = {"audio_root": None, "values": None, "bins": {}, "needs": ALL}
    return read_corpus(preset, path, by=by, **{**defaults, **options})


def refuse(preset: str, path: Path, *by: str, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(preset, path, *by, **options)
    assert caught.value.where
    return caught.value


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def sound(path: Path, rate: int = 16_000, seconds: float = 0.1, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(round(rate * seconds)), rate, **options)
    return path


def notes(manifest: Manifest) -> dict[str, int]:
    return {note.id: note.count for note in manifest.notes}


def only(manifest: Manifest) -> Clip:
    (clip,) = manifest.clips
    return clip


def test_every_preset_has_a_line_and_refuses_what_is_not_there(tmp_path: Path) -> None:
    assert len(PRESETS) == 12
    for name, preset in PRESETS.items():
        assert preset.summary and "\n" not in preset.summary
        refuse(name, tmp_path / "nowhere")
        refuse(name, tmp_path)
    assert "'timit'" in refuse("timmit", tmp_path).hint
    assert "--audio-root" in refuse("timit", tmp_path, audio_root=tmp_path / "nowhere").where


COMMON_VOICE = "client_id\tpath\tsentence_id\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\n"


def test_common_voice(tmp_path: Path) -> None:
    lines = [
        'c1\ta.mp3\t1\t"Quoted, she said\t2\t0\tfourties\tmale_masculine\tEngland English, a bit posh\ten\n',
        "c1\tb.mp3\t2\tPlain.\t2\t0\ttwenties\tdo_not_wish_to_say\t\ten\n",
        "c2\tc.mp3\t3\tPlain.\t2\t0\t\tfemale\t\ten\n",
    ]
    file = write(tmp_path / "en" / "test.tsv", COMMON_VOICE + "".join(lines))
    (tmp_path / "en" / "clips").mkdir()
    for asked in ("accent", "accents"):
        manifest = read("common-voice", file, "age", "gender", asked)
        first, second, _ = manifest.clips
        assert first.path == tmp_path.resolve() / "en" / "clips" / "a.mp3"
        assert first.text == '"Quoted, she said'
        assert first.attributes == {"age": "forties", "gender": "male", asked: "England English, a bit posh"}
        assert second.attributes["gender"] == "unknown"
    assert [note.count for note in manifest.notes if note.id == "corpus.spelling"] == [1, 1]
    assert notes(manifest)["corpus.client-id"] == 2
    write(tmp_path / "en" / "dev.tsv", COMMON_VOICE)
    assert "dev.tsv, test.tsv" in refuse("common-voice", tmp_path / "en").hint
    assert "'client_id'" in refuse("common-voice", write(tmp_path / "x.tsv", "path\tsentence\na\tb\n")).message


def test_older_common_voice_has_accent(tmp_path: Path) -> None:
    header = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccent\n"
    file = write(tmp_path / "t.tsv", header + "c\ta.mp3\tx\t2\t0\tteens\tother\tus\n")
    assert only(read("common-voice", file, "accents")).attributes == {"accents": "us"}


def test_artie(tmp_path: Path) -> None:
    header = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccent\n"
    write(tmp_path / "artie-bias-corpus.tsv", header + "c\ta.mp3\tx\t2\t0\tNA\tfemale\tNA\n")
    clip = only(read("artie", tmp_path, "age", "gender", "accent"))
    assert clip.attributes == {"age": "unknown", "gender": "female", "accent": "unknown"}


def test_fair_speech_has_no_speakers_and_says_so(tmp_path: Path) -> None:
    header = "hash_name\ttranscription\tage\tgender\tfirst_language\tsocioeconomic_bkgd\tethnicity\n"
    one = "18 - 22\tfemale\tEnglish\tLow\tBlack or African American\n"
    other = "31 - 45\tmale\tSpanish\tAffluent\tHispanic, Latino, or Spanish\n"
    lines = f"aa\thello\t{one}bb\tcall\t{one}cc\tcall\t{other}"
    file = write(tmp_path / "metadata.tsv", header + lines)
    manifest = read("fair-speech", file, "ethnicity", "age")
    first, second, third = manifest.clips
    assert first.speaker == second.speaker != third.speaker
    assert first.path == tmp_path.resolve() / "aa.wav"
    assert first.attributes == {"ethnicity": "Black or African American", "age": "18 - 22"}
    assert notes(manifest) == {"corpus.no-speakers": 2}
    assert "stand for them" in manifest.notes[0].message


def test_sonos(tmp_path: Path) -> None:
    speaker = {
        "age": "66",
        "age_group": "55-100",
        "dialectal_region": "USA Mid-Atlantic",
        "ethnicity": None,
        "gender": "male",
        "user_group": "6",
        "user_id": "28081",
    }
    entry = {
        "audioLengthMs": 4130,
        "content": {"domain": "Music", "subdomain": "TransportControl"},
        "speaker": speaker,
        "transcript": {"text": "Volume off", "normalized_text": "volume off", "label": {"intent": "Mute"}},
    }
    file = write(tmp_path / "metadata" / "test_metadata.json", json.dumps({"audio_x": entry}))
    clip = only(read("sonos", tmp_path, "ethnicity", "dialectal_region"))
    assert clip.path == tmp_path.resolve() / "audios" / "test" / "audio_x.wav"
    assert (clip.text, clip.speaker) == ("Volume off", "28081")
    assert clip.attributes == {"ethnicity": "unknown", "dialectal_region": "USA Mid-Atlantic"}
    assert clip.extras["audioLengthMs"] == "4130"
    (tmp_path / "flat").mkdir()
    assert only(read("sonos", file, audio_root=tmp_path / "flat")).path.name == "audio_x.wav"
    write(file, json.dumps({"audio_x": {"speaker": {}}}))
    assert "audio_x" in refuse("sonos", file).where


def test_edacc(tmp_path: Path) -> None:
    header = "speaker,text,accent,raw_accent,gender,l1,audio\n"
    write(tmp_path / "test.csv", header + "EDACC-C06-A,HELLO,Scottish English,Scottish,male,English,audio/1.wav\n")
    clip = only(read("edacc", tmp_path, "accent", "l1"))
    assert clip.path == tmp_path.resolve() / "audio" / "1.wav"
    assert clip.attributes == {"accent": "Scottish English", "l1": "English"}
    assert "no such file" in refuse("edacc", tmp_path / "test.parquet").message


METADATA = "CORAAL.Spkr\tCORAAL.File\tPrimary.Spkr\tGender\tAge\tAge.Group\tCORAAL.SEC.Group\n"


def test_coraal(tmp_path: Path) -> None:
    name = "DCB_se1_ag1_f_01_1"
    write(
        tmp_path / "DCB" / "DCB_metadata_2018.10.06.txt",
        METADATA
        + f"DCB_se1_ag1_f_01\t{name}\tyes\tFemale\t19\t-19\t1\nDCB_se1_ag1_f_02\tgone\tyes\tFemale\t20\t1\t1\n",
    )
    lines = [
        "1\tDCB_int_01\t0.00\tHow are you?\t1.0",
        '2\tDCB_se1_ag1_f_01\t1.25\t[I] said "fine" <laugh> (pause 0.2)\t2.5',
        "3\tDCB_se1_ag1_f_01\t2.5\t(pause 1.31)\t3.8",
        "4\tDCB_se1_ag1_f_01\t3.8\tMy name /RD-NAME-2/.\t5.0",
    ]
    transcript = write(tmp_path / "DCB" / f"{name}.txt", "Line\tSpkr\tStTime\tContent\tEnTime\n" + "\n".join(lines))
    sound(tmp_path / "DCB" / "audio" / f"{name}.wav", seconds=5)
    manifest = read("coraal", tmp_path, "Gender", "age", bins={"age": (0, 20, 30)})
    clip = only(manifest)
    assert (clip.start, clip.end, clip.text) == (1.25, 2.5, 'I said "fine"')
    assert clip.speaker == "DCB_se1_ag1_f_01"
    assert clip.attributes == {"Gender": "Female", "age": "0-19"}
    assert (clip.source, clip.line) == (transcript, 3)
    assert inspect_clip(clip).seconds == 1.25
    left = sorted(note.message for note in manifest.notes if note.id == "corpus.skipped")
    assert [message.split()[:3] for message in left] == [
        ["1", "files", "of"],
        ["1", "lines", "of"],
        ["1", "lines", "with"],
        ["1", "lines", "without"],
    ]
    assert clean_content("/unintelligible/ yes") is None
    assert clean_content("<cough> --") == ""


def test_librispeech(tmp_path: Path) -> None:
    root = tmp_path / "LibriSpeech"
    people = "; comment\n;ID |SEX| SUBSET |MINUTES| NAME\n61 | M | test-clean | 8.08 | Paul-Gabriel | Wiener\n"
    write(root / "SPEAKERS.TXT", people + "121  | F | test-clean | 8.13 | Nikolle Doolin\n")
    folder = root / "test-clean" / "61" / "70968"
    write(folder / "61-70968.trans.txt", "61-70968-0000 HE BEGAN\n61-70968-0001 GIVE ME\n")
    for place in (root, root / "test-clean"):
        manifest = read("librispeech", place, "gender", "subset")
        first, second = manifest.clips
        assert first.path == folder.resolve() / "61-70968-0000.flac"
        assert first.attributes == {"gender": "male", "subset": "test-clean"}
        assert (second.text, second.speaker, second.line) == ("GIVE ME", "61", 2)
    write(folder / "62-1.trans.txt", "62-1-0000 WHO\n")
    assert refuse("librispeech", root).where.endswith("62-1.trans.txt:1")
    write(root / "SPEAKERS.TXT", "61 | M\n")
    assert refuse("librispeech", root).where.endswith(":1")


@pytest.mark.parametrize("lower", [False, True])
def test_timit(tmp_path: Path, lower: bool) -> None:
    info = [
        ";ID Sex DR Use RecDate BirthDate Ht Race Edu Comments",
        "CJF0 F 1 TRN 03/03/86 03/04/60 5'4\" WHT BS",
        "DAC1 M 1 TST 03/03/86 ??/??/?? 6'0\" ??? HS",
    ]
    names = ["TRAIN/DR1/FCJF0/SA1.TXT", "TEST/DR1/MDAC1/SX10.TXT"]
    for name in names:
        write(tmp_path / (name.lower() if lower else name), "0 46797 She had your dark suit.\n")
    name = "train/dr1/fcjf0/sa1.wav" if lower else "TRAIN/DR1/FCJF0/SA1.WAV"
    sound(tmp_path / name, format="NIST")
    write(tmp_path / "DOC" / "SPKRINFO.TXT", "\n".join(info))
    write(tmp_path / "DOC" / "PROMPTS.TXT", "not a transcript")
    clips = {clip.speaker: clip for clip in read("timit", tmp_path, "gender", "dialect", "race", "age").clips}
    assert clips["FCJF0"].attributes == {"gender": "female", "dialect": "DR1", "race": "WHT", "age": "25"}
    assert clips["FCJF0"].text == "She had your dark suit."
    assert clips["FCJF0"].extras["sentence_type"] == "dialect"
    assert inspect_clip(clips["FCJF0"]).format.startswith("NIST")
    assert clips["MDAC1"].attributes == {"gender": "male", "dialect": "DR1", "race": "unknown", "age": "unknown"}
    assert clips["MDAC1"].extras["split"] == "test"


def test_timit_refuses_what_is_no_transcript(tmp_path: Path) -> None:
    write(tmp_path / "TRAIN" / "DR1" / "FCJF0" / "SA1.TXT", "She had")
    assert refuse("timit", tmp_path).where.endswith("SA1.TXT:1")


def kaldi(folder: Path, scp: str) -> Path:
    write(folder / "wav.scp", scp)
    write(folder / "text", "u1 HELLO THERE\nu2\n")
    write(folder / "utt2spk", "u1 s1\nu2 s2\n")
    write(folder / "spk2gender", "s1 f\ns2 m\n")
    write(folder / "spk2age", "s1 9\ns2 30\n")
    write(folder / "spk2utt", "s1 u1\ns2 u2\n")
    write(folder / "utt2lang", "u1 en\n")
    return folder


def test_kaldi(tmp_path: Path) -> None:
    sound(tmp_path / "wav" / "a b.wav")
    folder = kaldi(tmp_path / "data" / "train", "u1 wav/a b.wav\nu2 /abs/c.wav\n")
    first, second = read("kaldi", folder, "gender", "age", "lang").clips
    assert first.path == tmp_path.resolve() / "wav" / "a b.wav"
    assert first.attributes == {"gender": "female", "age": "9", "lang": "en"}
    assert (first.text, first.speaker) == ("HELLO THERE", "s1")
    assert second.attributes == {"gender": "male", "age": "30", "lang": "unknown"}
    assert second.text == ""


def test_kaldi_segments(tmp_path: Path) -> None:
    folder = kaldi(tmp_path, "rec1 long.wav\n")
    write(folder / "segments", "u1 rec1 0.5 1.25\nu2 rec1 1.25 2\n")
    clips = read("kaldi", folder, "gender").clips
    assert [(clip.name, clip.start, clip.end) for clip in clips] == [("long.wav", 0.5, 1.25), ("long.wav", 1.25, 2.0)]
    write(folder / "segments", "u1 rec9 0.5 1.25\n")
    assert refuse("kaldi", folder).where.endswith("segments:1")


@pytest.mark.parametrize("entry", ["sph2pipe -f wav a.sph |", "| cat a.wav", "feats.ark:123"])
def test_kaldi_commands_and_archives_are_refused(tmp_path: Path, entry: str) -> None:
    error = refuse("kaldi", kaldi(tmp_path, f"u1 a.wav\nu2 {entry}\n"))
    assert error.where.endswith("wav.scp:2")


def test_kaldi_escapes_and_repeated_keys_are_refused(tmp_path: Path) -> None:
    (clip,) = read("kaldi", kaldi(tmp_path / "d", "u1 ../../../../etc/passwd\n")).clips
    with pytest.raises(InputError, match="out of its folder"):
        inspect_clip(clip)
    assert "stands twice" in refuse("kaldi", kaldi(tmp_path / "d", "u1 a.wav\nu1 b.wav\n")).message
    assert "no value" in refuse("kaldi", kaldi(tmp_path / "d", "u1\n")).message


def test_speechocean(tmp_path: Path) -> None:
    for split, utterance in (("train", "000010011"), ("test", "000030012")):
        folder = kaldi(tmp_path / split, f"u1\tWAVE/SPEAKER0001/{utterance}.WAV\n")
        write(folder / "text", "u1\tWE CALL IT BEAR\n")
    manifest = read("speechocean", tmp_path, "gender", "age", "split", bins={"age": (0, 13)})
    train, test = manifest.clips
    assert train.path == tmp_path.resolve() / "WAVE" / "SPEAKER0001" / "000010011.WAV"
    assert train.attributes == {"gender": "female", "age": "0-12", "split": "train"}
    assert test.attributes["split"] == "test"
    assert only(read("speechocean", tmp_path / "test")).path == test.path


def test_audiomnist_metadata_are_mended_and_counted(tmp_path: Path) -> None:
    def person(accent: str, age: object) -> dict[str, object]:
        return {"accent": accent, "age": age, "gender": "male", "native speaker": "no", "origin": "Europe, Germany"}

    meta = {"01": person("german", 30), "02": person("german", "25"), "28": person("German", "1234")}
    write(tmp_path / "data" / "audioMNIST_meta.txt", json.dumps(meta))
    for speaker in meta:
        sound(tmp_path / "data" / speaker / f"7_{speaker}_0.wav", rate=48_000)
    sound(tmp_path / "data" / "01" / "noise.wav")
    manifest = read("audiomnist", tmp_path, "accent", "age", "native", bins={"age": (0, 30)})
    assert [clip.attributes["accent"] for clip in manifest.clips] == ["german"] * 3
    assert [clip.attributes["age"] for clip in manifest.clips] == ["30+", "0-29", "unknown"]
    assert manifest.clips[0].attributes["native"] == "no"
    assert {clip.text for clip in manifest.clips} == {"seven"}
    found = notes(manifest)
    assert (found["corpus.absurd-age"], found["corpus.spelling"], found["corpus.skipped"]) == (1, 1, 1)
    assert inspect_clip(manifest.clips[0]).rate == 48_000


FSDD = """metadata = {
    'george': {'gender': 'male', 'accent': 'GRC/Greek', 'language': 'english'},
    'jackson': {'gender': 'male', 'accent': 'USA/neutral', 'language': 'english'},
}
"""


def test_fsdd(tmp_path: Path) -> None:
    write(tmp_path / "metadata.py", FSDD)
    for name in ("3_george_4.wav", "3_george_5.wav", "0_jackson_0.wav"):
        sound(tmp_path / "recordings" / name, rate=8_000)
    clips = {clip.name: clip for clip in read("fsdd", tmp_path, "accent", "split").clips}
    assert clips["3_george_4.wav"].attributes == {"accent": "GRC/Greek", "split": "test"}
    assert clips["3_george_5.wav"].attributes["split"] == "train"
    assert clips["0_jackson_0.wav"].text == "zero"
    assert clips["0_jackson_0.wav"].speaker == "jackson"


@pytest.mark.parametrize(
    "code",
    [
        "import pathlib; pathlib.Path('ran').touch()\n",
        "metadata = {'a': __import__('pathlib').Path('ran').touch()}\n",
        "metadata = {'a': 1}\n",
        "metadata = {\n",
        "metadata = {'a': " + "(" * 2000 + "\n",
        "metadata = {'a': {" + "'b': {" * 2000 + "}" * 2002 + "\n",
    ],
)
def test_fsdd_metadata_are_never_run(tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "metadata.py", code)
    sound(tmp_path / "recordings" / "3_george_4.wav")
    assert "metadata.py" in refuse("fsdd", tmp_path).where
    assert not (tmp_path / "ran").exists()


@pytest.mark.real
@pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is absent; MILES_TEST_DATA names another place")
def test_real_artie_corpus() -> None:
    path = DATA / "asr_predictions" / "artie-bias-corpus.tsv"
    manifest = read("artie", path, "age", "gender", "accent")
    assert len(manifest.clips) == 1712
    assert len({clip.speaker for clip in manifest.clips}) == 969
    genders = [clip.attributes["gender"] for clip in manifest.clips]
    assert (genders.count("male"), genders.count("female")) == (1431, 257)
    accents = {clip.attributes["accent"] for clip in manifest.clips}
    assert len(accents - {"unknown"}) == 17
    assert "forties" in {clip.attributes["age"] for clip in manifest.clips}


SECRET = "vm\n"
"""What a file outside a corpus holds, such as /etc/hostname; no message may quote it."""
AUDIOMNIST = '{"01": {"gender": "male"}}'
CORAAL_PEOPLE = "CORAAL.Spkr\tCORAAL.File\na\tf\n"
CORAAL_LINES = "Line\tSpkr\tStTime\tContent\tEnTime\n1\ta\t0\twords\t1\n"
FAIR = "hash_name\ttranscription\tage\tgender\tfirst_language\tsocioeconomic_bkgd\tethnicity\nh\tt\t1\t2\t3\t4\t5\n"
LINKED = {
    "artie": ({"artie-bias-corpus.tsv": COMMON_VOICE}, "artie-bias-corpus.tsv"),
    "audiomnist": ({"data/audioMNIST_meta.txt": AUDIOMNIST, "data/01/0_01_0.wav": ""}, "data/audioMNIST_meta.txt"),
    "audiomnist data": ({"data/audioMNIST_meta.txt": AUDIOMNIST, "data/01/0_01_0.wav": ""}, "data"),
    "common-voice": ({"test.tsv": COMMON_VOICE}, "test.tsv"),
    "common-voice clips": ({"test.tsv": COMMON_VOICE + "c\ta.mp3\t1\tx\t2\t0\t\t\t\ten\n", "clips/a.mp3": ""}, "clips"),
    "coraal": ({"A_metadata_1.txt": CORAAL_PEOPLE, "f.txt": CORAAL_LINES}, "A_metadata_1.txt"),
    "coraal transcript": ({"A_metadata_1.txt": CORAAL_PEOPLE, "f.txt": CORAAL_LINES}, "f.txt"),
    "edacc": ({"test.csv": "speaker,text,audio\ns,t,a.wav\n"}, "test.csv"),
    "fair-speech": ({"test.tsv": FAIR}, "test.tsv"),
    "fair-speech audio": ({"test.tsv": FAIR, "audio/h.wav": ""}, "audio"),
    "fsdd": ({"metadata.py": "x = {'a': {'gender': 'male'}}", "recordings/0_a_0.wav": ""}, "metadata.py"),
    "fsdd recordings": ({"recordings/0_a_0.wav": ""}, "recordings"),
    "kaldi": ({"wav.scp": "u1 a.wav\n", "utt2spk": "u1 s\n"}, "utt2spk"),
    "kaldi scp": ({"wav.scp": "u1 a.wav\n"}, "wav.scp"),
    "kaldi attribute": ({"wav.scp": "u1 a.wav\n", "utt2age": "u1 7\n"}, "utt2age"),
    "librispeech": ({"SPEAKERS.TXT": "1|F|a|1|n\n", "1/2/1-2.trans.txt": "1-2-3 WORDS\n"}, "1/2/1-2.trans.txt"),
    "librispeech speakers": ({"SPEAKERS.TXT": "1|F|a|1|n\n", "1/2/1-2.trans.txt": "1-2-3 WORDS\n"}, "SPEAKERS.TXT"),
    "sonos": ({"metadata/test_metadata.json": "{}"}, "metadata/test_metadata.json"),
    "speechocean": ({"train/wav.scp": "u1 a.wav\n", "train/text": "u1 words\n"}, "train/text"),
    "speechocean train": ({"train/wav.scp": "u1 a.wav\n", "train/text": "u1 words\n"}, "train"),
    "timit": ({"TRAIN/DR1/FAAA0/SA1.TXT": "0 9 She had it.\n"}, "TRAIN/DR1/FAAA0/SA1.TXT"),
    "timit speakers": ({"TRAIN/DR1/FAAA0/SA1.TXT": "0 9 She had it.\n", "SPKRINFO.TXT": ";\n"}, "SPKRINFO.TXT"),
}
"""By preset: files of a corpus, and the one of them that is a link out of it."""


@pytest.mark.parametrize("case", LINKED)
def test_no_link_leads_out_of_a_corpus(tmp_path: Path, case: str) -> None:
    content, stolen = LINKED[case]
    corpus, outside = tmp_path / "corpus", tmp_path / "outside"
    for name, text in content.items():
        write(corpus / name, text)
    link = corpus / stolen
    if link.is_dir():
        link.rename(outside)
    else:
        link.unlink()
        write(outside, SECRET)
    link.symlink_to(outside)
    error = refuse(case.split()[0], corpus)
    assert error.message == f"The link leads out of its folder, to {outside.resolve()}."
    assert (error.where, "not followed" in error.hint) == (str(link), True)
    assert SECRET.strip() not in error.message + error.where.removeprefix(str(tmp_path)) + error.hint
    link.unlink()
    inside = corpus / "moved"
    outside.rename(inside)
    if inside.is_file():
        # What the link leads to is read, now that it lies in the corpus, whatever becomes of it.
        inside.write_text(content[stolen])
    link.symlink_to(inside)
    try:
        read(case.split()[0], corpus)
    except InputError as error:
        assert "leads out" not in error.message


def test_a_link_that_the_user_names_and_one_into_the_cache_of_the_hub_are_followed(tmp_path: Path) -> None:
    table = write(tmp_path / "cache" / "blobs" / "abc", COMMON_VOICE + "c1\ta.mp3\t1\tPlain.\t2\t0\t\t\t\ten\n")
    folder = tmp_path / "cache" / "snapshots" / "1" / "en"
    folder.mkdir(parents=True)
    (folder / "test.tsv").symlink_to(table)
    assert only(read("common-voice", folder)).text == "Plain."
    (tmp_path / "mine.tsv").symlink_to(table)
    assert only(read("common-voice", tmp_path / "mine.tsv")).text == "Plain."
    (tmp_path / "corpus").symlink_to(folder)
    assert only(read("common-voice", tmp_path / "corpus")).text == "Plain."
    sound = write(tmp_path / "cache" / "blobs" / "def", "sound")
    (folder / "clips").mkdir()
    (folder / "clips" / "a.mp3").symlink_to(sound)
    clip = only(read("common-voice", folder))
    assert clip.fault is None and clip.path == sound.resolve()
    (folder / "clips" / "a.mp3").unlink()
    (folder / "clips" / "a.mp3").symlink_to(write(tmp_path / "cache" / "elsewhere", "sound"))
    fault = only(read("common-voice", folder)).fault
    assert fault is not None and "leads out" in fault.message


def test_where_recordings_are_not_opened_their_folder_may_be_a_link(tmp_path: Path) -> None:
    file = write(tmp_path / "en" / "test.tsv", COMMON_VOICE + "c1\ta.mp3\t1\tPlain.\t2\t0\t\t\t\ten\n")
    (tmp_path / "big").mkdir()
    (file.parent / "clips").symlink_to(tmp_path / "big")
    error = refuse("common-voice", file)
    assert "leads out" in error.message and "--audio-root" in error.hint
    assert only(read("common-voice", file, opened=False)).name == "a.mp3"
    assert only(read("common-voice", file, audio_root=tmp_path / "big")).path == tmp_path.resolve() / "big" / "a.mp3"


def test_presets_read_files_of_the_corpus_alone() -> None:
    for file in (Path(corpora.__file__).parent).glob("*.py"):
        if file.name != "layout.py":
            text = file.read_text()
            for reader in ("read_text", "read_table", "open(", "read_bytes"):
                assert reader not in text, f"{file.name} reads by itself with {reader}"
