import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from probes.core.cache import Cache
from probes.core.errors import IncompleteError, InputError
from probes.language_models import model_results as module
from probes.language_models.model_results import SUBFOLDER, Results

KEY = {"languages": ["en", "fr"], "seed": 0, "steps": 300, "rate": 0.004}
VALUE = {"held": {"en": {"nats": [0.1, 1 / 3, 1e-300], "masked": [3, 0, 2]}}, "note": "é\ud800", "none": None}


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_was_written_is_read_to_the_last_bit_and_nothing_else(tmp_path: Path) -> None:
    results = Results(tmp_path / "new" / "folder")
    assert results.read(KEY) is None and not results.has(KEY)
    results.write(KEY, VALUE)
    assert results.has(KEY) and results.read(KEY) == VALUE
    assert results.read(dict(reversed(KEY.items()))) == VALUE
    for other in ({**KEY, "seed": 1}, {**KEY, "rate": 0.0040000000000000001 * (1 + 1e-15)}, {}, None):
        assert results.read(other) is None and not results.has(other)
    path = results.path(KEY)
    assert files(tmp_path) == [path]
    assert path.parent.name == path.name[:2] and len(path.stem) == 64
    # A file explains itself.
    assert json.loads(path.read_bytes())["key"] == KEY
    assert results.problems() == ()


def test_the_same_value_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = Results(tmp_path / "1"), Results(tmp_path / "2")
    one.write({"b": 1, "a": (1, 2)}, {"x": (0.5, -0.0), "y": {2: "a", 10: "b"}})
    two.write({"a": [1, 2], "b": 1}, {"y": {10: "b", 2: "a"}, "x": [0.5, -0.0]})
    assert [path.read_bytes() for path in files(one.folder)] == [path.read_bytes() for path in files(two.folder)]
    assert two.read({"a": [1, 2], "b": 1}) == {"x": [0.5, -0.0], "y": {"2": "a", "10": "b"}}


def replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) == 1
    return data.replace(old, new)


DAMAGES: dict[str, Any] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "last bytes cut": lambda data: data[:-3],
    "hole of zeros": lambda data: data[:90] + bytes(60) + data[150:],
    "twice": lambda data: data + data,
    "page": lambda data: b"<!DOCTYPE html>",
    "not text": lambda data: b"\xff\xfe\xfa" * 50,
    "a digit": lambda data: replaced(data, b"0.333", b"0.334"),
    "not a number": lambda data: replaced(data, b"0.3333333333333333", b"NaN"),
    "infinite": lambda data: replaced(data, b"0.3333333333333333", b"1e999"),
    "nested deeply": lambda data: b"[" * 200_000,
    "huge integer": lambda data: replaced(data, b"1e-300", b"9" * 5000),
    "a list": lambda data: b"[]\n",
    "no value": lambda data: json.dumps({"key": KEY}).encode(),
    "one more entry": lambda data: data.replace(b'{"key"', b'{"also":1,"key"'),
    "value is a list": lambda data: json.dumps({"key": KEY, "value": [], "sha256": module.sha256_json([])}).encode(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_told_and_costs_a_retraining(tmp_path: Path, damage: str) -> None:
    results = Results(tmp_path)
    results.write(KEY, VALUE)
    path = results.path(KEY)
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    assert results.read(KEY) is None
    assert results.read(KEY) is None
    (told,) = results.problems()
    assert told.startswith(str(path))
    results.write(KEY, VALUE)
    assert results.read(KEY) == VALUE and path.read_bytes() == whole


def test_the_file_of_another_model_is_not_taken(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write({**KEY, "seed": 1}, VALUE)
    other = results.path({**KEY, "seed": 1})
    results.path(KEY).parent.mkdir(exist_ok=True)
    other.rename(results.path(KEY))
    assert results.read(KEY) is None and not results.has(KEY)
    assert "another model" in results.problems()[0]


def test_true_is_not_one_in_a_key(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write({"head": True}, VALUE)
    results.path({"head": 1}).parent.mkdir(exist_ok=True)
    results.path({"head": True}).rename(results.path({"head": 1}))
    assert results.read({"head": 1}) is None


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.path(KEY).mkdir(parents=True)
    assert results.read(KEY) is None and not results.has(KEY)
    assert "not an ordinary file" in results.problems()[0]
    with pytest.raises(IncompleteError):
        results.write(KEY, VALUE)
    results.path(KEY).rmdir()
    os.mkfifo(results.path(KEY))
    assert results.read(KEY) is None and not results.has(KEY)


def test_a_result_that_is_too_large_is_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(tmp_path)
    results.write(KEY, VALUE)
    size = results.path(KEY).stat().st_size
    monkeypatch.setattr(module, "MOST_BYTES", size)
    assert results.has(KEY) and results.read(KEY) == VALUE
    monkeypatch.setattr(module, "MOST_BYTES", size - 1)
    assert not results.has(KEY) and results.read(KEY) is None
    assert "more than" in results.problems()[0]
    with pytest.raises(InputError, match="can be kept"):
        results.write(KEY, VALUE)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_no_nan_is_written(tmp_path: Path, number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        Results(tmp_path).write(KEY, {"loss": number})
    assert files(tmp_path) == []


def test_results_of_other_machines_are_used_and_copied(tmp_path: Path) -> None:
    first, second = Results(tmp_path / "1"), Results(tmp_path / "2")
    first.write("a", {"loss": 1.0})
    second.write("a", {"loss": 2.0})
    second.write("b", {"loss": 3.0})
    merged = Results(tmp_path / "own", also=(first.folder, second.folder))
    assert merged.finished(["a", "c", "b"]) == {0, 2}
    assert [merged.read(key) for key in ("a", "b", "c")] == [{"loss": 1.0}, {"loss": 3.0}, None]
    alone = Results(tmp_path / "own")
    assert alone.finished(["a", "c", "b"]) == {0, 2} and alone.read("b") == {"loss": 3.0}
    assert alone.path("b").read_bytes() == second.path("b").read_bytes()
    # The own one wins.
    second.write("b", {"loss": 4.0})
    assert merged.read("b") == {"loss": 3.0}
    assert merged.problems() == ()


def test_a_damaged_result_of_ones_own_is_mended_by_another_folder(tmp_path: Path) -> None:
    other, own = Results(tmp_path / "other"), Results(tmp_path / "own", also=(tmp_path / "other",))
    for results in (other, own):
        results.write(KEY, VALUE)
    own.path(KEY).write_bytes(b"{")
    assert own.read(KEY) == VALUE
    assert own.path(KEY).read_bytes() == other.path(KEY).read_bytes()
    assert str(own.path(KEY)) in own.problems()[0]


def test_another_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    results = Results(tmp_path, also=(tmp_path / "mistyped",))
    assert results.read(KEY) is None
    assert results.problems() == (f"{tmp_path / 'mistyped'}: there is no such folder",)


def test_a_folder_that_cannot_be_written_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    results = Results(tmp_path / "file")
    assert results.read(KEY) is None and not results.has(KEY)
    with pytest.raises(IncompleteError) as error:
        results.write(KEY, VALUE)
    assert error.value.where == str(tmp_path / "file") and "resumes" in error.value.hint


@pytest.mark.parametrize(("place", "name"), [(os, "fsync"), (Path, "replace")])
@pytest.mark.parametrize(
    ("raised", "seen"), [(OSError(28, "No space left"), IncompleteError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_a_full_disk_or_an_interrupt_leaves_nothing_behind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    raised: BaseException,
    seen: type[BaseException],
    place: object,
    name: str,
) -> None:
    results = Results(tmp_path)
    results.write(KEY, {"loss": 1.0})

    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(place, name, fail)
    with pytest.raises(seen):
        results.write(KEY, VALUE)
    assert files(tmp_path) == [results.path(KEY)] and results.read(KEY) == {"loss": 1.0}


def test_what_killed_writers_left_is_no_result_and_goes_with_the_cache(tmp_path: Path) -> None:
    results = Results(tmp_path / SUBFOLDER)
    results.write(KEY, VALUE)
    code = (
        "import os, signal, sys; from pathlib import Path; from probes.language_models.model_results import Results\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"Results(Path(sys.argv[1])).write({KEY!r}, {{'loss': 2.0}})"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code, str(results.folder)], cwd=root, check=False, timeout=60)
    (left,) = set(files(tmp_path)) - {results.path(KEY)}
    assert results.read(KEY) == VALUE and results.problems() == ()
    cache = Cache(tmp_path)
    assert cache.usage() == {SUBFOLDER: (1, results.path(KEY).stat().st_size)}
    os.utime(left, (time.time() - 7200,) * 2)
    cache.clear()
    assert files(tmp_path) == []


def test_others_may_read_what_the_users_mask_allows(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        Results(tmp_path).write(KEY, VALUE)
    finally:
        os.umask(before)
    assert Results(tmp_path).path(KEY).stat().st_mode & 0o777 == 0o640


def test_two_processes_may_write_and_read_the_same_results(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from probes.language_models.model_results import Results\n"
        "results = Results(Path(sys.argv[1]))\n"
        "for turn in range(80):\n"
        "    results.write(turn % 4, {'a': [turn % 4 + 0.5] * 500})\n"
        "    assert results.read((turn + 1) % 4) in (None, {'a': [(turn + 1) % 4 + 0.5] * 500})\n"
        "assert results.problems() == ()"
    )
    root = Path(__file__).resolve().parents[2]
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root) for _ in range(2)]
    assert [one.wait(timeout=120) for one in both] == [0, 0]
    assert len(files(tmp_path)) == 4


def test_results_travel_to_worker_processes(tmp_path: Path) -> None:
    results = Results(tmp_path, also=(tmp_path,))
    results.write(KEY, VALUE)
    copy = pickle.loads(pickle.dumps(results))
    assert copy == results and copy.read(KEY) == VALUE
