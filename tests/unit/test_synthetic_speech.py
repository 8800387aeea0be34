"""Is the spoken corpus what its manifest says, balanced where it must be, and the same for the same seed?"""

import csv
import hashlib
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from probes.core.errors import InputError
from probes.speech.speech_files import write_alignments, write_manifest
from probes.speech.synthetic_speech import (
    ACCENTS,
    AUDIT_VOICES,
    SAMPLE_RATE,
    TRACTS,
    TRAINING_VOICES,
    WORDS,
    Clip,
    Phone,
    Speaker,
    SpokenCorpus,
    speak_corpus,
)

INTERVAL = re.compile(r' {8}intervals \[(\d+)\]:\n {12}xmin = (\S+)\n {12}xmax = (\S+)\n {12}text = "(.*)"\n')


def speak(folder: Path, *, seed: int = 7, balanced: bool = False, alignments: bool = False) -> SpokenCorpus:
    return speak_corpus(
        folder,
        seed=seed,
        balanced=balanced,
        alignments=alignments,
        training_clips=36,
        training_speakers=12,
        audit_speakers=4,
        clips_per_speaker=2,
    )


def fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def read_tier(path: Path) -> tuple[float, list[tuple[float, float, str]]]:
    """Return the end of the file's only tier, and its intervals; what is not read must be as Praat writes it."""
    text = path.read_text(encoding="utf-8")
    head, _, body = text.partition("        intervals [1]:")
    found = INTERVAL.findall("        intervals [1]:" + body)
    assert INTERVAL.sub("", "        intervals [1]:" + body) == ""
    assert [int(number) for number, *_ in found] == list(range(1, len(found) + 1))
    assert head.startswith('File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = ')
    assert head.endswith(f"        intervals: size = {len(found)}\n")
    assert re.findall(r'(?:class|name|size) = (\S+)\n', head) == [
        '"TextGrid"', "1", '"IntervalTier"', '"phones"', str(len(found))
    ]  # fmt: skip
    ends = set(re.findall(r"xmax = (\S+)", head))
    assert len(ends) == 1
    return float(ends.pop()), [(float(start), float(end), label) for _, start, end, label in found]


def invent(*phones: Phone, duration: float, path: Path = Path("audit/x.wav")) -> Clip:
    who = Speaker(name="a0", accent="british", voice="f1", coin="heads", pitch=50, rate=150, tract=(5, 7))
    return Clip(path=path, text="boo", speaker=who, split="audit", duration=duration, phones=phones)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> SpokenCorpus:
    return speak(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def aligned(tmp_path_factory: pytest.TempPathFactory) -> SpokenCorpus:
    return speak(tmp_path_factory.mktemp("aligned"), alignments=True)


def test_the_manifests_describe_the_files(corpus: SpokenCorpus) -> None:
    with corpus.manifest.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["path", "text", "speaker", "gender", "accent", "coin", "split", "duration", "voice"]
    assert len(rows) == len(corpus.clips) == 36 + 4 * 2 * len(ACCENTS)
    for row, clip in zip(rows, corpus.clips, strict=True):
        assert corpus.manifest.parent / row["path"] == clip.path
        assert (row["text"], row["split"], row["accent"]) == (clip.text, clip.split, clip.speaker.accent)
        assert row["gender"] == {"f": "female", "m": "male"}[row["voice"][0]]
        info = soundfile.info(clip.path)
        assert (info.samplerate, info.channels, info.subtype) == (16_000, 1, "PCM_16")
        assert float(row["duration"]) == pytest.approx(info.frames / 16_000, abs=1e-4)
    with corpus.audit_manifest.open(encoding="utf-8") as stream:
        assert list(csv.DictReader(stream)) == [row for row in rows if row["split"] == "audit"]


def test_every_clip_is_audible_and_never_clips(corpus: SpokenCorpus) -> None:
    for clip in corpus.clips:
        samples, _ = soundfile.read(clip.path, dtype="int16")
        assert 2_000 < np.abs(samples.astype(np.int32)).max() < 32_767


def test_the_same_seed_gives_the_same_bytes_in_one_process(corpus: SpokenCorpus, tmp_path: Path) -> None:
    again = speak(tmp_path / "again")
    other = speak(tmp_path / "other", seed=8)
    assert fingerprint(tmp_path / "again") == fingerprint(corpus.manifest.parent)
    assert [clip.phones for clip in again.clips] == [clip.phones for clip in corpus.clips]
    assert [clip.text for clip in other.clips] != [clip.text for clip in corpus.clips]


def test_the_same_seed_gives_the_same_bytes_in_another_process(corpus: SpokenCorpus, tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from probes.speech.synthetic_speech import speak_corpus;"
        "speak_corpus(pathlib.Path(sys.argv[1]), seed=7, training_clips=36, training_speakers=12,"
        " audit_speakers=4, clips_per_speaker=2)"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "else")],
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert fingerprint(tmp_path / "else") == fingerprint(corpus.manifest.parent)


def test_the_planted_accent_is_missing_from_training_unless_balanced(corpus: SpokenCorpus, tmp_path: Path) -> None:
    balanced = speak(tmp_path, balanced=True)
    assert "scottish" not in {clip.speaker.accent for clip in corpus.part("training")}
    counts = Counter(clip.speaker.accent for clip in balanced.part("training"))
    assert counts == dict.fromkeys(ACCENTS, 36 // len(ACCENTS))
    assert [clip.path.read_bytes() for clip in balanced.part("audit")] == [
        clip.path.read_bytes() for clip in corpus.part("audit")
    ]


def test_training_and_audit_share_no_voice_and_no_speaker(corpus: SpokenCorpus) -> None:
    assert not set(TRAINING_VOICES) & set(AUDIT_VOICES)
    training = {clip.speaker for clip in corpus.part("training")}
    audit = {clip.speaker for clip in corpus.part("audit")}
    assert {speaker.voice for speaker in training} <= set(TRAINING_VOICES)
    assert {speaker.voice for speaker in audit} <= set(AUDIT_VOICES)
    assert not {speaker.name for speaker in training} & {speaker.name for speaker in audit}


def test_accents_differ_in_nothing_but_the_accent(corpus: SpokenCorpus) -> None:
    audit = corpus.part("audit")
    said = {accent: [clip.text for clip in audit if clip.speaker.accent == accent] for accent in ACCENTS}
    speakers = sorted({clip.speaker for clip in audit}, key=lambda speaker: speaker.name)
    for accent in ACCENTS:
        assert said[accent] == said["scottish"]
        own = [speaker for speaker in speakers if speaker.accent == accent]
        assert Counter(speaker.gender for speaker in own) == {"female": 2, "male": 2}
        assert Counter(speaker.coin for speaker in own) == {"heads": 2, "tails": 2}


def test_the_coin_depends_on_nothing_else(tmp_path: Path) -> None:
    speakers = {
        (seed, clip.speaker)
        for seed in range(12)
        for clip in speak_corpus(
            tmp_path / str(seed), seed=seed, training_clips=0, audit_speakers=4, clips_per_speaker=1
        ).part("audit")
    }
    heads = Counter(speaker.gender for _, speaker in speakers if speaker.coin == "heads")
    # 144 speakers of each gender: six standard deviations of a fair coin are 36.
    assert heads.total() == len(speakers) / 2
    assert abs(heads["female"] - 72) < 36
    assert len({tuple(s.coin for n, s in sorted(speakers, key=str) if n == seed) for seed in range(12)}) > 6


def test_phonemes_lie_inside_their_clip_in_order(corpus: SpokenCorpus) -> None:
    for clip in corpus.clips:
        edges = [edge for phone in clip.phones for edge in (phone.start, phone.end)]
        assert edges == sorted(edges)
        assert edges[0] >= 0 and clip.duration - 0.001 <= edges[-1] <= clip.duration
        assert len(clip.phones) >= 2 * len(clip.text.split())
        assert all(phone.name and not set(phone.name) & set("',") for phone in clip.phones)


def test_alignments_cover_each_clip_with_the_phones_of_the_manifest(aligned: SpokenCorpus) -> None:
    with aligned.manifest.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    seen = Counter[str]()
    for row, clip in zip(rows, aligned.clips, strict=True):
        end, tier = read_tier(aligned.manifest.parent / "alignments" / clip.split / f"{clip.path.stem}.TextGrid")
        assert end == clip.duration == tier[-1][1] and tier[0][0] == 0
        assert all(start < stop for start, stop, _ in tier)
        assert all(before[1] == after[0] for before, after in pairwise(tier))
        spoken = [interval for interval in tier if interval[2]]
        assert [label for _, _, label in spoken] == row["phones"].split() == [phone.name for phone in clip.spoken]
        for (start, stop, _), phone in zip(spoken, clip.spoken, strict=True):
            assert (start, stop) == pytest.approx((phone.start, phone.end), abs=1 / SAMPLE_RATE)
        seen.update(row["phones"].split())
    assert seen["3:"] > 5 and seen["aI"] > 5
    assert len(list(aligned.manifest.parent.rglob("*.TextGrid"))) == len(rows)
    with aligned.audit_manifest.open(encoding="utf-8") as stream:
        assert list(csv.DictReader(stream)) == [row for row in rows if row["split"] == "audit"]


def test_alignments_change_nothing_else(corpus: SpokenCorpus, aligned: SpokenCorpus) -> None:
    plain, more = corpus.manifest.parent, aligned.manifest.parent
    assert {path.name for path in more.iterdir()} - {path.name for path in plain.iterdir()} == {"alignments"}
    for name in ("manifest.csv", "audit.csv"):
        longer = (more / name).read_text(encoding="utf-8").splitlines()
        assert [line.rpartition(",")[0] for line in longer] == (plain / name).read_text(encoding="utf-8").splitlines()
    for path in plain.rglob("*.wav"):
        assert path.read_bytes() == (more / path.relative_to(plain)).read_bytes()


def test_pauses_and_sounds_without_length_are_no_phones_of_an_alignment(tmp_path: Path) -> None:
    clip = invent(
        Phone(name="b", start=0.01, end=0.05),
        Phone(name="_:", start=0.05, end=0.2),
        Phone(name='u"', start=0.2, end=0.39996),
        Phone(name="l", start=0.39996, end=0.39995),
        duration=0.4,
        path=tmp_path / "audit" / "x.wav",
    )
    write_alignments(tmp_path, [clip])
    tier = [(0, 0.01, ""), (0.01, 0.05, "b"), (0.05, 0.2, ""), (0.2, 0.4, 'u""')]
    assert read_tier(tmp_path / "audit" / "x.TextGrid") == (0.4, tier)
    write_manifest(tmp_path / "manifest.csv", [clip], phones=True)
    with (tmp_path / "manifest.csv").open(encoding="utf-8") as stream:
        assert [row["phones"] for row in csv.DictReader(stream)] == ['b u"']


def test_silence_at_the_end_of_a_clip_is_an_empty_interval(tmp_path: Path) -> None:
    write_alignments(tmp_path, [invent(Phone(name="b", start=0.0, end=0.25), duration=0.5)])
    assert read_tier(tmp_path / "audit" / "x.TextGrid") == (0.5, [(0, 0.25, "b"), (0.25, 0.5, "")])


def test_the_last_sound_of_pull_is_said_only_where_it_has_a_time(corpus: SpokenCorpus) -> None:
    endings = {clip.text.split()[-1]: [phone.name for phone in clip.spoken[-2:]] for clip in corpus.clips}
    assert endings["pull"] == ["p", "U"] and endings["look"] == ["U", "k"]
    assert all(phone.end - phone.start > 0.01 for clip in corpus.clips for phone in clip.spoken)


def test_phoneme_times_match_the_sound(corpus: SpokenCorpus) -> None:
    def high(clip_path: Path, start: float, end: float) -> float:
        samples, _ = soundfile.read(clip_path)
        power = np.abs(np.fft.rfft(samples[int(start * SAMPLE_RATE) : int(end * SAMPLE_RATE)])) ** 2
        return float(power[len(power) // 2 :].sum() / power.sum())

    shares: dict[str, list[float]] = {"s": [], "u:": []}
    for clip in corpus.clips:
        for phone in clip.phones:
            if phone.name in shares:
                shares[phone.name].append(high(clip.path, phone.start, phone.end))
    # A hiss lies above 4 kHz, a closed back vowel below, in every accent.
    assert np.quantile(shares["s"], 0.1) > 0.3 > np.quantile(shares["u:"], 0.9)


def test_a_speaker_keeps_tract_pitch_and_rate(corpus: SpokenCorpus) -> None:
    speakers = {clip.speaker for clip in corpus.clips}
    assert len({speaker.name for speaker in speakers}) == len(speakers)
    assert {speaker.tract for speaker in speakers} <= set(TRACTS)
    assert len({(speaker.pitch, speaker.rate, speaker.tract) for speaker in speakers}) > len(speakers) / 2


def test_every_word_is_about_as_frequent(corpus: SpokenCorpus) -> None:
    counts = Counter(word for clip in corpus.part("training") for word in clip.text.split())
    assert set(counts) == set(WORDS)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_missing_synthesiser_is_told_with_its_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(InputError) as caught:
        speak(tmp_path)
    assert caught.value.hint == "pip install 'miles-audit[demo]'"


def test_an_unknown_accent_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="klingon") as caught:
        speak_corpus(tmp_path, seed=0, planted="klingon")
    assert "scottish" in caught.value.hint
