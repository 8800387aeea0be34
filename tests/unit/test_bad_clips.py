from pathlib import Path

import numpy as np
import pytest
import soundfile

from probes.core.errors import InputError
from probes.files.several_refusals import SHOWN
from probes.speech.bad_clips import BadClips
from probes.speech.manifests import Clip


def clips(folder: Path, *names: str) -> list[Clip]:
    source = folder / "clips.csv"
    return [Clip(path=folder / name, name=name, line=at, source=source) for at, name in enumerate(names, start=2)]


def sound(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(1600), 16_000)
    return path


def refused(folder: Path, *names: str, given: int = 0, advice: str = "") -> InputError:
    listed = clips(folder, *names)
    bad = BadClips(folder / "clips.csv", given or len(listed), skip="--on-bad skip", advice=advice)
    for clip in listed:
        bad.keep(clip, bad.check_header, clip)
    with pytest.raises(InputError) as caught:
        bad.refuse()
    return caught.value


def test_all_bad_clips_are_named_at_once(tmp_path: Path) -> None:
    sound(tmp_path / "good.wav")
    (tmp_path / "empty.wav").touch()
    (tmp_path / "page.wav").write_text("<!doctype html>")
    whole = sound(tmp_path / "whole.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:400])
    address = "https://example.org/a.wav"
    error = refused(tmp_path, "nowhere.wav", "good.wav", "empty.wav", "page.wav", "cut.wav", address)
    first, *lines = error.message.split("\n")
    assert first == "5 of 6 clips cannot be used:"
    assert lines == [
        "line 2 (nowhere.wav): There is no such file.",
        "line 4 (empty.wav): The file is empty.",
        "line 5 (page.wav): This is a web page, not a recording.",
        f"line 6 (cut.wav): The header promises {len(whole) - 400} bytes of sound more than the file holds.",
        f"line 7 ({address}): {address!r} is an address, not a file.",
    ]
    assert error.where == str(tmp_path / "clips.csv")
    assert error.hint.startswith("Of the first: ") and error.hint.endswith("left out with --on-bad skip.")


def test_ten_are_named_and_the_others_counted(tmp_path: Path) -> None:
    names = [f"{number}.wav" for number in range(1234)]
    error = refused(tmp_path / "gone", *names, advice="Is it a corpus?")
    lines = error.message.split("\n")
    assert lines[0] == "1,234 of 1,234 clips cannot be used:"
    assert len(lines) == SHOWN + 2
    assert lines[-2].startswith("line 11 (9.wav)") and lines[-1] == "and 1,224 more"
    # Nothing would be left.
    assert "--on-bad skip" not in error.hint
    assert "is --audio-root right?" in error.hint and error.hint.endswith("Is it a corpus?")


def test_a_single_refusal_stays_as_it_is(tmp_path: Path) -> None:
    error = refused(tmp_path, "nowhere.wav", given=9)
    assert error.message == "There is no such file."
    assert (error.where, error.hint) == (f"{tmp_path / 'clips.csv'}:2 (nowhere.wav)", "Check the path.")
    assert refused(tmp_path, "nowhere.wav", advice="So?").hint == "Check the path. So?"


def test_a_clip_without_a_path_is_named_by_its_line_once(tmp_path: Path) -> None:
    (clip,) = clips(tmp_path, "line 2")
    assert clip.where == f"{tmp_path / 'clips.csv'}:2"
    bad = BadClips(tmp_path / "clips.csv", 2, skip="--on-bad skip")
    for _ in range(2):
        bad.add(clip, InputError("There is no text.", where=clip.where, hint="Add it."))
    with pytest.raises(InputError) as caught:
        bad.refuse()
    assert caught.value.message.split("\n")[1].startswith("line 2: There is no text.")


def test_good_clips_and_other_errors_pass(tmp_path: Path) -> None:
    sound(tmp_path / "good.wav")
    (clip,) = clips(tmp_path, "good.wav")
    bad = BadClips(tmp_path / "clips.csv", 1, skip="--on-bad skip")
    bad.keep(clip, bad.check_header, clip)
    assert bad.keep(clip, len, "abc") == 3
    bad.refuse()
    with pytest.raises(ZeroDivisionError):
        bad.keep(clip, lambda: 1 / 0)


def test_a_name_of_several_lines_stays_on_one(tmp_path: Path) -> None:
    error = refused(tmp_path, "a\nline 9 (b.wav): fine", "c.wav")
    assert [line[:6] for line in error.message.split("\n")] == ["2 of 2", "line 2", "line 3"]


def test_clips_that_are_left_out_are_counted_and_named(tmp_path: Path) -> None:
    sound(tmp_path / "short.wav")
    listed = clips(tmp_path, "short.wav", *(f"{number}.wav" for number in range(30)))
    bad = BadClips(tmp_path / "clips.csv", 40, skip="--on-bad skip")
    for clip in listed:
        bad.keep(clip, bad.check_header, clip)
    assert bad.notes([]) == ()
    count, *lines = bad.notes([(clip, "unreadable" if at else "too short") for at, clip in enumerate(listed)])
    assert count == "31 of 40 clips are left out (1 too short, 30 unreadable):"
    # A reason in a few words where nothing more is known.
    assert lines[:2] == ["line 2 (short.wav): too short", "line 3 (0.wav): There is no such file."]
    assert len(lines) == SHOWN + 1 and lines[-1] == "and 21 more"
