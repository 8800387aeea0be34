import hashlib
import os
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from probes.contained import Session
from probes.core.errors import InputError
from probes.files.sound import Recording, check_sound, opened_sound
from probes.models.checkpoints import ModelFolder
from probes.speech import audio
from probes.speech.audio import Waveform, inspect_clip, load_clip
from probes.speech.manifests import Clip, ColumnMap, read_manifest
from probes.speech.recordings import TOO_SHORT, Sound, measure_sound

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
RATE = 16_000


def tone(seconds: float = 0.5, rate: int = RATE, hertz: float = 440.0) -> Any:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def save(path: Path, samples: Any, rate: int = RATE, **options: Any) -> Path:
    soundfile.write(path, samples, rate, **options)
    return path


def clip(path: Path, **options: Any) -> Clip:
    return Clip(path=path, name=path.name, line=7, source=Path("m.csv"), **options)


def read_clip(path: Path, **options: Any) -> Waveform:
    return load_clip(clip(path, **options)).waveform


def refuse(path: Path, **options: Any) -> InputError:
    """Every way in refuses the file; return what load_clip said."""
    with pytest.raises(InputError):
        read_clip(path, **{"start": 0.0, **options})
    with pytest.raises(InputError) as caught:
        load_clip(clip(path, **options))
    assert caught.value.where == f"m.csv:7 ({path.name})"
    return caught.value


@pytest.mark.parametrize(
    "options",
    [
        {"format": "WAV", "subtype": "FLOAT"},
        {"format": "WAV", "subtype": "PCM_16"},
        {"format": "FLAC"},
        {"format": "NIST", "subtype": "PCM_16"},
        {"format": "AIFF"},
        {"format": "OGG", "subtype": "VORBIS"},
        {"format": "MP3"},
    ],
)
def test_formats_are_read_from_disk_and_with_their_hash(tmp_path: Path, options: dict[str, Any]) -> None:
    path = save(tmp_path / "a.sound", tone(), **options)
    # A part is read from the disk, a whole clip from the bytes that were hashed.
    waveform = read_clip(path, start=0.0)
    loaded = load_clip(clip(path))
    assert waveform.samples.dtype == np.float32
    assert np.array_equal(waveform.samples, loaded.waveform.samples)
    assert (waveform.rate, waveform.original_rate, waveform.channels) == (RATE, RATE, 1)
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    lossy = options["format"] in ("OGG", "MP3")
    size = min(len(waveform.samples), 8000)
    assert np.allclose(waveform.samples[:size], tone()[:size], atol=0.2 if lossy else 1e-4)
    assert waveform.seconds == pytest.approx(0.5, abs=0.1 if lossy else 0)
    info = inspect_clip(clip(path))
    assert (info.rate, info.channels) == (RATE, 1)
    assert info.seconds == pytest.approx(0.5, abs=0.1)


def test_channels_are_averaged(tmp_path: Path) -> None:
    left = tone()
    path = save(tmp_path / "a.wav", np.stack([left, -0.5 * left], axis=1), subtype="FLOAT")
    waveform = read_clip(path)
    assert waveform.channels == 2
    assert np.allclose(waveform.samples, 0.25 * left, atol=1e-6)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled_to_the_same_tone(tmp_path: Path, rate: int) -> None:
    waveform = read_clip(save(tmp_path / "a.wav", tone(rate=rate), rate, subtype="FLOAT"))
    assert (waveform.rate, waveform.original_rate) == (RATE, rate)
    assert waveform.seconds == pytest.approx(0.5, abs=2 / RATE)
    inner = slice(1000, 7000)
    assert np.allclose(waveform.samples[inner], tone()[inner], atol=5e-3)


def test_a_part_is_cut_by_seconds_before_resampling(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", tone(2.0), subtype="FLOAT")
    part = load_clip(clip(path, start=0.5, end=1.25))
    assert np.array_equal(part.waveform.samples, read_clip(path).samples[8000:20000])
    assert part.sha256 == load_clip(clip(path)).sha256
    assert inspect_clip(clip(path, start=0.5, end=1.25)).frames == 12_000
    assert len(read_clip(path, start=1.0, end=2.05).samples) == RATE
    for start, end in ((1.0, 2.2), (2.0, 2.05), (1.0, 1.00001)):
        error = refuse(path, start=start, end=end)
        assert "part" in error.message
        with pytest.raises(InputError):
            inspect_clip(clip(path, start=start, end=end))


def test_long_recording_is_hashed_once_for_all_its_parts(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", tone(2.0))
    first, changed = load_clip(clip(path, start=0.0, end=0.5)).sha256, path.stat().st_mtime_ns
    # Another sound of the same length and time is not read again: only its parts are.
    save(path, tone(2.0, hertz=97))
    os.utime(path, ns=(changed, changed))
    for start in (0.5, 1.0):
        assert load_clip(clip(path, start=start, end=start + 0.5)).sha256 == first
    os.utime(path, ns=(changed, changed + 10**9))
    assert load_clip(clip(path, start=0.0, end=0.5)).sha256 == hashlib.sha256(path.read_bytes()).hexdigest() != first


def test_missing_files_name_the_nearest_one(tmp_path: Path) -> None:
    save(tmp_path / "clip_17.wav", tone())
    assert "clip_17.wav" in refuse(tmp_path / "clip_17.mp3").hint
    assert "clip_17.wav" in refuse(tmp_path / "clip17.wav").hint
    assert "--audio-root" in refuse(tmp_path / "nowhere" / "a.wav").hint
    assert "write it in the place of each \\" in refuse(tmp_path / "clips\\a.wav").hint
    with pytest.raises(InputError, match="no such file"):
        inspect_clip(clip(tmp_path / "x.flac"))


def test_folders_pipes_and_forbidden_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "folder" in refuse(tmp_path).message
    os.mkfifo(tmp_path / "pipe.wav")
    assert "ordinary" in refuse(tmp_path / "pipe.wav").message
    path = save(tmp_path / "a.wav", tone())
    whole = Path.open

    def deny(self: Path, *values: Any, **options: Any) -> Any:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return whole(self, *values, **options)

    monkeypatch.setattr(Path, "open", deny)
    assert "Permission denied" in refuse(path).message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello, this is text\n" * 10, "cannot be read as sound"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "cannot be read as sound"),
        (b"<!DOCTYPE html><html>not found</html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", "cannot be read as sound"),
    ],
)
def test_what_is_no_sound_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    assert message in refuse(path).message
    with pytest.raises(InputError):
        inspect_clip(clip(path))


def test_raw_samples_without_a_header_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(bytes(1000))
    refuse(path)


def test_no_samples_and_samples_that_are_no_numbers(tmp_path: Path) -> None:
    assert "no samples" in refuse(save(tmp_path / "a.wav", np.zeros(0))).message
    for bad in (np.nan, np.inf, -np.inf):
        samples = tone()
        samples[4000] = bad
        error = refuse(save(tmp_path / "b.wav", samples, subtype="FLOAT"))
        assert "0.250 s" in error.message


def flac_that_claims(path: Path, frames: int) -> Path:
    """Write a FLAC file of half a second and change the length in its header (36 bits at bytes 21 to 25)."""
    data = bytearray(save(path, tone(), format="FLAC").read_bytes())
    data[21:26] = struct.pack(">Q", ((data[21] >> 4) << 36) | frames)[3:]
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("frames", [10**9, 10**7, 8001])
def test_headers_that_promise_too_much_allocate_nothing(tmp_path: Path, frames: int) -> None:
    path = flac_that_claims(tmp_path / "a.flac", frames)
    read_clip(save(tmp_path / "warm.wav", tone()))
    tracemalloc.start()
    try:
        error = refuse(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "promises" in error.message or "decoded" in error.message
    assert peak < 20_000_000


def test_wav_header_that_promises_too_much_allocates_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", tone(0.05))
    data = bytearray(path.read_bytes())
    data[4:8] = data[40:44] = struct.pack("<I", 2_000_000_000)
    path.write_bytes(data)
    tracemalloc.start()
    try:
        error = refuse(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "promises" in error.message
    assert peak < 20_000_000


@pytest.mark.parametrize("form", ["FLAC", "WAV", "MP3", "NIST", "AIFF", "AU", "RF64", "W64", "AU LITTLE", "WAV BIG"])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, form: str) -> None:
    values = np.random.default_rng(0).normal(0, 0.1, 3 * RATE)
    path = save(tmp_path / "a", values, format=form.split()[0], endian=form.partition(" ")[2] or None)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    error = refuse(path)
    assert "promises" in error.message or "decoded" in error.message


SPHERE = (
    b"NIST_1A\n   1024\nsample_count -i 9999\nsample_n_bytes -i 2\nchannel_count -i %s\nsample_coding -%s\nend_head\n"
)


@pytest.mark.parametrize(
    ("form", "at", "sizes"),
    [
        # The last one is that of sox, which writes to a pipe.
        ("AIFF", 42, (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x7f\0\0\x08")),
        ("AU", 8, (b"\xff\xff\xff\xff",)),
        ("RF64", 28, (b"\xff" * 8, b"\0" * 8)),
        ("NIST", 0, (SPHERE % (b"x", b"s3 pcm"), SPHERE % (b"1", b"s26 pcm,embedded-shorten-v2.00"))),
    ],
)
def test_a_length_that_its_writer_did_not_know_is_no_loss(
    tmp_path: Path, form: str, at: int, sizes: tuple[bytes, ...]
) -> None:
    path = save(tmp_path / "a", tone(0.05), format=form)
    data = path.read_bytes()
    for size in sizes:
        # A header of text ends there; what followed in the old one would count as well.
        size = size.ljust(1024, b"\0") if form == "NIST" else size
        path.write_bytes(data[:at] + size + data[at + len(size) :])
        check_sound(path, "m.csv:2")


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 1644])
def test_sizes_that_a_stream_or_a_careless_writer_puts_are_no_loss(tmp_path: Path, size: int) -> None:
    path = save(tmp_path / "a.wav", tone(0.05))
    data = bytearray(path.read_bytes())
    data[40:44] = struct.pack("<I", size)
    path.write_bytes(data)
    assert len(read_clip(path).samples) == 800


def test_a_decoder_that_ends_early_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.flac", tone())
    whole = Recording.block
    monkeypatch.setattr(Recording, "block", lambda self, most: whole(self, most - 1))
    assert "promises 8000 samples, the file holds 7999" in refuse(path).message


def test_a_clip_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", tone(), subtype="PCM_U8")
    # Silence up to a length of five hours, of which the disk holds nothing.
    header = bytearray(path.read_bytes()[:44])
    header[4:8], header[40:44] = struct.pack("<I", 36 + 2**28 + 2), struct.pack("<I", 2**28 + 2)
    path.write_bytes(header + path.read_bytes()[44:])
    os.truncate(path, 44 + 2**28 + 2)
    assert "4.7 hours" in refuse(path).message
    assert len(read_clip(path, start=0.0, end=0.05).samples) == 800


@pytest.mark.parametrize("rate", [1, 16_001, 655_350])
def test_rates_that_cannot_be_resampled_are_refused(tmp_path: Path, rate: int) -> None:
    path = save(tmp_path / "a.wav", np.zeros(RATE * 2), rate)
    if rate == 655_350:
        assert read_clip(path).rate == RATE
    else:
        assert f"{rate} Hz" in refuse(path).message


@pytest.mark.real
@pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is absent; MILES_TEST_DATA names another place")
@pytest.mark.parametrize(
    ("folder", "clips", "minutes"), [("nonnative_english", 636, 36.8), ("spoken_digits", 720, 5.2)]
)
def test_every_real_recording_is_read(folder: str, clips: int, minutes: float) -> None:
    manifest = read_manifest(
        DATA / folder / "manifest.csv",
        columns=ColumnMap(),
        by=(),
        values=None,
        bins={},
        needs=frozenset({"path"}),
    )
    assert len(manifest.clips) == clips
    total = 0.0
    for item in manifest.clips:
        waveform = load_clip(item).waveform
        assert (waveform.original_rate, waveform.channels) == (RATE, 1)
        assert waveform.seconds == pytest.approx(inspect_clip(item).seconds)
        assert waveform.seconds == pytest.approx(float(item.extras["duration"]), abs=1e-3)
        total += waveform.seconds
    assert total / 60 == pytest.approx(minutes, abs=0.05)


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that tells what is asked of contained processes from here on."""
    seen: list[str] = []
    ask = Session.ask

    def counting(self: Session, method: str, *values: Any) -> Any:
        seen.append(method)
        return ask(self, method, *values)

    monkeypatch.setattr(Session, "ask", counting)
    return seen


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3"])
def test_large_and_long_recordings_are_decoded_elsewhere_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    # Of several blocks.
    path = save(tmp_path / "a", np.stack([tone(18), 0.3 * tone(18, hertz=97)], axis=1), 22_050, format=form)

    def decoded(**options: int) -> list[object]:
        found: list[object] = []
        for first, last in ((0, None), (15_435, 41_895)):
            with opened_sound(path, "a", size=path.stat().st_size, **options) as sound:
                samples = sound.samples(first, sound.header.frames if last is None else last, most=2**28)
                found += [sound.header, samples.tobytes()]
        return found

    seen = asked(monkeypatch)
    here = decoded()
    load_clip(clip(path))
    assert not seen
    for options in ({"large": 100}, {"long": 100}):
        assert decoded(**options) == here
        assert {"header", "seek", "block"} == set(seen)
        seen.clear()


def test_a_header_that_promises_hours_is_not_believed_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = asked(monkeypatch)
    error = refuse(flac_that_claims(tmp_path / "a.flac", 2**27 + 1))
    assert "promises 134217729 samples" in error.message or "decoded" in error.message
    assert "block" in seen
    assert "10.0 hours" in refuse(flac_that_claims(tmp_path / "b.flac", 36_000 * RATE)).message


def test_a_recording_beyond_the_limits_is_named(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", np.zeros((20_000, 200)))
    (tmp_path / "b.wav").write_bytes(b"hello, this is text\n" * 10)
    for name, memory, said in (("a.wav", 2**20, "limits"), ("b.wav", 2**28, "cannot be read as sound")):
        where = f"m.csv:7 ({name})"
        with (
            pytest.raises(InputError, match=said) as caught,
            opened_sound(tmp_path / name, where, size=2**26, memory=memory) as sound,
        ):
            sound.samples(0, 20_000, most=2**28)
        assert caught.value.where == where


@pytest.mark.parametrize("chunks", [900, 300_000])
def test_chunks_without_end_before_the_sound(tmp_path: Path, chunks: int) -> None:
    """Eight bytes make an empty chunk; a gigabyte of them took a minute, for a refusal of libsndfile."""
    path = save(tmp_path / "a.wav", tone(0.1), subtype="PCM_16")
    data = path.read_bytes()
    path.write_bytes(data[:36] + b"junk\0\0\0\0" * chunks + data[36:])
    begin = time.process_time()
    if chunks < 1000:
        assert len(read_clip(path).samples) == 1600
    else:
        assert "1000 chunks" in refuse(path).message
    assert time.process_time() - begin < 1


def test_the_shortest_clip_has_one_frame_of_the_encoder(tmp_path: Path) -> None:
    for family in ("wav2vec2", "whisper"):
        folder = ModelFolder(reference="", path=tmp_path, family=family, config={}, weights=(), sha256="")
        for samples in (399, 400):
            found = measure_sound(clip(save(tmp_path / "a.wav", tone()[:samples])), folder)
            assert found == TOO_SHORT if samples == 399 else isinstance(found, Sound) and found.samples == 400


def test_what_just_fits_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read_clip(save(tmp_path / "one.wav", tone()[:1])).samples) == 1
    path = save(tmp_path / "a.wav", tone())
    end = len(tone()) / RATE + audio._END_TOLERANCE
    assert len(read_clip(path, end=end).samples) == len(tone())
    monkeypatch.setattr(audio, "MAX_FRAMES", len(tone()))
    assert len(read_clip(path).samples) == len(tone())
    monkeypatch.setattr(audio, "MAX_FRAMES", len(tone()) - 1)
    assert "hours of sound in one clip" in refuse(path).message
