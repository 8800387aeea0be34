"""Recordings that ffmpeg decodes: how it is called, what comes back and what is refused; the rest where it is there."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from stand_in_ffmpeg import DECODING, as_m4a, stand_in

from probes.contained.programs import installed
from probes.core.errors import InputError
from probes.files import ffmpeg
from probes.files.ffmpeg import form_of
from probes.speech.audio import Waveform, inspect_clip, load_clip
from probes.speech.embeddings import clip_item
from probes.speech.manifests import Clip

RATE = 16_000
REAL = pytest.mark.skipif(installed("ffmpeg") is None, reason="ffmpeg is not installed")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="walls around files and the network are Linux's")


def tone(seconds: float = 0.5, rate: int = RATE, channels: int = 1) -> Any:
    wave = 0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)
    return np.stack([wave * (1 - 0.5 * at) for at in range(channels)], axis=1).astype(np.float32)


def clip(path: Path, **options: Any) -> Clip:
    return Clip(path=path, name=path.name, line=7, source=Path("m.csv"), **options)


def read_clip(path: Path) -> Waveform:
    return load_clip(clip(path)).waveform


Stand = Callable[..., Path]


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Return a function that puts a stand-in of ffmpeg into PATH."""
    times: list[int] = []

    def put(code: str = DECODING, version: str = "9.9") -> Path:
        program = stand_in(tmp_path / "bin", code, version)
        # Two that are written within a tick of the clock would be one.
        times.append(len(times) * 1_000_000_000)
        os.utime(program, ns=(0, times[-1]))
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
        return program

    return put


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return what begins as M4A does, before a WAV of two channels at 44.1 kHz."""
    wav, path = tmp_path / "whole.wav", tmp_path / "-i a.m4a"
    soundfile.write(wav, tone(rate=44_100, channels=2), 44_100, subtype="FLOAT")
    return as_m4a(wav, path)


def test_what_ffmpeg_decodes_is_read_as_any_other_recording(stand: Stand, recording: Path, tmp_path: Path) -> None:
    stand()
    found, same = read_clip(recording), read_clip(tmp_path / "whole.wav")
    assert np.array_equal(found.samples, same.samples) and same.decoder == ""
    assert (found.original_rate, found.channels, found.decoder) == (44_100, 2, "ffmpeg 9.9")
    info = inspect_clip(clip(recording))
    assert (info.frames, info.rate, info.format) == (22_050, 44_100, "MP4 (M4A) by ffmpeg 9.9")
    part = load_clip(clip(recording, start=0.25, end=0.5))
    assert len(part.waveform.samples) == 4000


def test_a_clip_is_decoded_once_for_its_header_and_its_samples(stand: Stand, recording: Path, tmp_path: Path) -> None:
    calls = []

    def counted(*words: Any, **options: Any) -> Any:
        calls.append(words)
        return ffmpeg_run(*words, **options)

    stand()
    ffmpeg_run = ffmpeg.run_program
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ffmpeg, "run_program", counted)
        ffmpeg.decoder()
        calls.clear()
        inspect_clip(clip(recording))
        load_clip(clip(recording))
        assert len(calls) == 1
        recording.write_bytes(recording.read_bytes() + b"\0\0\0\0")
        load_clip(clip(recording))
    (_, words), _ = calls
    # The demuxer is fixed, and the path can be neither an option nor an address.
    assert words[words.index("-f") + 1] == "mov" and words[words.index("-i") + 1] == f"file:{recording}"
    assert words[words.index("-protocol_whitelist") + 1] == "file" and "-nostdin" in words


def test_another_version_decodes_anew_and_has_entries_of_its_own(stand: Stand, recording: Path) -> None:
    stand()
    first = load_clip(clip(recording))
    items = [clip_item(clip(recording), first.sha256, 8000, decoder) for decoder in ("", "ffmpeg 9.9", "ffmpeg 9.8")]
    assert len({item.sha256 for item in items}) == 3
    assert len(items[1].read()) == 8000
    stand(version="9.8")
    with pytest.raises(InputError, match="version of ffmpeg changed"):
        items[1].read()
    assert load_clip(clip(recording)).waveform.decoder == "ffmpeg 9.8"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("exit 4", "status 4"),
        ('tail -c +65 "$path"; echo "$path: partial file" >&2', "without errors: file:-i a.m4a: partial file"),
        ("true", "without errors: status 0"),
        ("echo no sound", "cannot be read as sound"),
        ("kill -9 $$", "status -9"),
    ],
)
def test_what_ffmpeg_complains_of_is_refused(stand: Stand, recording: Path, code: str, message: str) -> None:
    stand(code.replace('"$path: ', '"file:$path: '))
    with pytest.raises(InputError) as caught:
        load_clip(clip(recording))
    assert message in caught.value.message and caught.value.where == "m.csv:7 (-i a.m4a)" and caught.value.hint


def test_more_than_it_may_hand_back_is_refused(stand: Stand, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand("yes")
    monkeypatch.setattr(ffmpeg, "MOST", 2**21)
    with pytest.raises(InputError, match="within the limits for strangers' files: it writes more than 2 MiB"):
        load_clip(clip(recording))


@LINUX
def test_it_reads_the_recording_and_nothing_beside_it(stand: Stand, recording: Path, tmp_path: Path) -> None:
    stand(f'cat "{tmp_path}/whole.wav"')
    with pytest.raises(InputError, match=r"without errors: cat: .*Permission denied"):
        load_clip(clip(recording))


def test_without_ffmpeg_the_refusal_says_how(recording: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for opened in (inspect_clip, load_clip):
        with pytest.raises(InputError) as caught:
            opened(clip(recording))
        assert "MP4 (M4A), which only ffmpeg reads" in caught.value.message
        assert "apt install ffmpeg" in caught.value.hint and "ffmpeg -i" in caught.value.hint
    assert ffmpeg.decoder() == ""


def test_what_is_neither_is_refused_as_before(stand: Stand, tmp_path: Path) -> None:
    stand("touch ran; exit 1")
    for name, data in (("a.m3u8", b"#EXTM3U\n/etc/passwd\n"), ("a.ffconcat", b"ffconcat version 1.0\nfile x\n")):
        (tmp_path / name).write_bytes(data)
        assert form_of(data) is None
        with pytest.raises(InputError, match="cannot be read as sound"):
            load_clip(clip(tmp_path / name))
    # Of what libsndfile reads some of, the refusal is that of libsndfile, whatever ffmpeg says.
    (tmp_path / "a.ogg").write_bytes(b"OggS" + bytes(100))
    with pytest.raises(InputError, match="cannot be read as sound"):
        load_clip(clip(tmp_path / "a.ogg"))


# With ffmpeg itself


def encoded(path: Path, *words: str, channels: int = 2) -> Path:
    wav = path.with_suffix(".source.wav")
    soundfile.write(wav, tone(1.0, 44_100, channels), 44_100, subtype="FLOAT")
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-i", wav, *words, path], check=True)
    return path


FORMS: dict[str, tuple[tuple[str, ...], str]] = {
    "a.m4a": (("-c:a", "aac"), "MP4 (M4A)"),
    "lossless.m4a": (("-c:a", "alac"), "MP4 (M4A)"),
    "a.aac": (("-c:a", "aac"), "AAC"),
    "a.webm": (("-c:a", "libopus"), "WebM or Matroska"),
    "a.mka": (("-c:a", "flac"), "WebM or Matroska"),
    "a.wma": (("-c:a", "wmav2"), "WMA"),
    "a.wv": (("-c:a", "wavpack"), "WavPack"),
    "a.flv": (("-c:a", "libmp3lame"), "FLV"),
    "a.avi": (("-c:a", "pcm_s16le"), "AVI"),
    "a.tta": (("-c:a", "tta"), "True Audio"),
    "a.ac3": (("-c:a", "ac3"), "AC-3"),
    "speex.ogg": (("-c:a", "libspeex", "-ar", "32000"), "Ogg"),
}


@REAL
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_ffmpeg(name: str, tmp_path: Path) -> None:
    words, form = FORMS[name]
    found = load_clip(clip(encoded(tmp_path / name, *words)))
    wave = found.waveform
    assert wave.decoder.startswith("ffmpeg ") and inspect_clip(clip(tmp_path / name)).format.startswith(f"{form} by")
    assert wave.channels == 2 and wave.rate == RATE and 0.95 < wave.seconds < 1.15
    # The tone is there, at its height: the mean of a channel and of its half.
    middle = wave.samples[6000:12000].astype(np.float64)
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert abs(int(spectrum.argmax()) * RATE / len(middle) - 440) < 6
    assert 0.2 < np.sqrt(2 * np.mean(middle**2)) < 0.45


@REAL
def test_lossless_sound_comes_back_as_it_was(tmp_path: Path) -> None:
    wav = encoded(tmp_path / "a.m4a", "-c:a", "alac", "-sample_fmt", "s16p", "-ac", "1").with_suffix(".source.wav")
    soundfile.write(tmp_path / "s16.wav", soundfile.read(wav)[0].mean(axis=1), 44_100, subtype="PCM_16")
    found, same = read_clip(tmp_path / "a.m4a"), read_clip(tmp_path / "s16.wav")
    assert len(found.samples) == len(same.samples) and np.abs(found.samples - same.samples).max() < 3 / 2**15


@REAL
@pytest.mark.parametrize("share", [0.3, 0.7, 0.97])
def test_a_recording_that_was_cut_off_is_refused(share: float, tmp_path: Path) -> None:
    path = encoded(tmp_path / "a.m4a", "-c:a", "aac", "-movflags", "+faststart")
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError, match="without errors"):
        load_clip(clip(path))


@REAL
def test_a_film_gives_its_sound_and_a_picture_alone_none(tmp_path: Path) -> None:
    film, mute = tmp_path / "a.mp4", tmp_path / "b.mp4"
    picture = ("-f", "lavfi", "-i", "color=c=red:s=32x32:d=1:r=5")
    source = encoded(tmp_path / "a.m4a", "-c:a", "aac")
    for path, words in ((film, ("-i", str(source), *picture, "-c:a", "copy", "-shortest")), (mute, picture)):
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", *words, "-c:v", "mpeg4", path], check=True)
    assert read_clip(film).seconds > 0.9
    with pytest.raises(InputError, match="without errors"):
        read_clip(mute)
