"""Is the spoken corpus what its manifest says, balanced where it must be, and the same for the same seed?"""

import csv
import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from probes.errors import InputError
from probes.synthetic.speech import (
    ACCENTS,
    AUDIT_VOICES,
    SAMPLE_RATE,
    TRACTS,
    TRAINING_VOICES,
    WORDS,
    SpokenCorpus,
    speak_corpus,
)


def speak(folder: Path, *, seed: int = 7, balanced: bool = False) -> SpokenCorpus:
    return speak_corpus(
        folder,
        seed=seed,
        balanced=balanced,
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


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> SpokenCorpus:
    return speak(tmp_path_factory.mktemp("corpus"))


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
        "import sys, pathlib; from probes.synthetic.speech import speak_corpus;"
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
