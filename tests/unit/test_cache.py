import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from probes.core import cache as module
from probes.core.cache import Cache
from probes.core.errors import IncompleteError, InputError
from probes.language_models.model_results import Results

KEY = {"encoder": "a1", "clips": ["b2", "c3"]}


def entry() -> dict[str, torch.Tensor]:
    return {"pooled": torch.arange(12.0).reshape(3, 4), "counts": torch.tensor([1, 2])}


def same(found: dict[str, torch.Tensor] | None, wanted: dict[str, torch.Tensor]) -> bool:
    return found is not None and found.keys() == wanted.keys() and all(found[key].equal(wanted[key]) for key in wanted)


def test_what_was_written_is_read_and_nothing_else(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.read("kind", KEY) is None
    assert not cache.has("kind", KEY)
    cache.write("kind", KEY, entry())
    assert cache.has("kind", KEY)
    assert same(cache.read("kind", KEY), entry())
    for kind, key in (("other", KEY), ("kind", {**KEY, "encoder": "a2"}), ("kind", {**KEY, "clips": ["c3", "b2"]})):
        assert cache.read(kind, key) is None
    assert same(cache.read("kind", dict(reversed(KEY.items()))), entry())
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".safetensors"]


def test_arrays_are_kept_in_the_bytes_of_tensors_and_read_as_either(tmp_path: Path) -> None:
    wide = torch.arange(20.0, dtype=torch.float64).reshape(4, 5)
    tensors = {"cut": wide[:, 1:3], "one": torch.tensor(3), "which": torch.tensor([True, False]), "none": wide[:0]}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    by_torch, by_numpy = Cache(tmp_path / "torch"), Cache(tmp_path / "numpy")
    by_torch.write("kind", KEY, tensors)
    assert by_numpy.memo_arrays("kind", KEY, lambda: arrays) is arrays
    assert by_numpy.path("kind", KEY).read_bytes() == by_torch.path("kind", KEY).read_bytes()
    assert same(by_numpy.read("kind", KEY), tensors)
    found = by_torch.memo_arrays("kind", KEY, dict)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    by_torch.path("kind", KEY).write_bytes(by_numpy.path("kind", KEY).read_bytes()[:-1] + b"x")
    assert by_torch.read_arrays("kind", KEY) is None


def test_an_entry_is_computed_once_and_again_where_it_is_damaged(tmp_path: Path) -> None:
    cache, calls = Cache(tmp_path), list[int]()

    def compute() -> dict[str, torch.Tensor]:
        calls.append(len(calls))
        return entry()

    for _ in range(2):
        assert same(cache.memo("kind", KEY, compute), entry())
    assert calls == [0]
    assert same(cache.read("kind", KEY), entry())
    cache.path("kind", KEY).write_bytes(b"damaged")
    assert same(cache.memo("kind", KEY, compute), entry())
    assert calls == [0, 1]


def test_what_could_not_be_computed_leaves_no_entry(tmp_path: Path) -> None:
    def fail() -> dict[str, torch.Tensor]:
        raise InputError("no", where="here", hint="none")

    with pytest.raises(InputError):
        Cache(tmp_path).memo("kind", KEY, fail)
    assert not any(tmp_path.iterdir())


def test_views_and_slices_are_written_as_they_look(tmp_path: Path) -> None:
    wide = torch.arange(20.0).reshape(4, 5)
    cut = {"a": wide[:, 1:3], "b": wide.T, "none": torch.empty(0, 3)}
    Cache(tmp_path).write("kind", 1, cut)
    assert same(Cache(tmp_path).read("kind", 1), cut)


@pytest.mark.parametrize("damage", ["empty", "cut", "page", "flipped header"])
def test_a_damaged_entry_is_dropped_and_can_be_written_again(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    cache.write("kind", KEY, entry())
    path = cache.path("kind", KEY)
    whole = path.read_bytes()
    spoilt = {"empty": b"", "cut": whole[:-5], "page": b"<!DOCTYPE html>" * 9, "flipped header": b"\xff" + whole[1:]}
    path.write_bytes(spoilt[damage])
    assert cache.read("kind", KEY) is None
    assert not path.exists()
    cache.write("kind", KEY, entry())
    assert same(cache.read("kind", KEY), entry())


def _tampered(path: Path) -> None:
    tensors = {label: tensor + 1 for label, tensor in load_file(path).items()}
    with safe_open(path, framework="pt") as file:
        held = file.metadata()
    save_file(tensors, path, held)


def _stripped(path: Path) -> None:
    save_file(load_file(path), path)


def _of_another_shape(path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        held = file.metadata()
    save_file({label: tensor.reshape(-1, 1) for label, tensor in load_file(path).items()}, path, held)


def _of_fewer(path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        held = json.loads(file.metadata()["sha256"])
    tensors = dict(list(load_file(path).items())[1:])
    save_file(tensors, path, {"sha256": json.dumps({label: held[label] for label in tensors})})


def _of_another_key(path: Path) -> None:
    cache = Cache(path.parents[2])
    cache.write("kind", "another", entry())
    path.write_bytes(cache.path("kind", "another").read_bytes())


def _of_odd_hashes(path: Path) -> None:
    save_file(load_file(path), path, {"sha256": "[1]"})


@pytest.mark.parametrize(
    "tamper", [_tampered, _stripped, _of_another_shape, _of_fewer, _of_another_key, _of_odd_hashes]
)
def test_an_entry_that_is_not_what_was_written_is_none(tmp_path: Path, tamper: Callable[[Path], None]) -> None:
    cache = Cache(tmp_path)
    cache.write("kind", KEY, entry())
    path = cache.path("kind", KEY)
    label = sorted(entry())[-1]
    one = cache.read_one("kind", KEY, label)
    assert cache.has("kind", KEY) and one is not None and torch.equal(one, entry()[label])
    tamper(path)
    assert cache.read_one("kind", KEY, label) is None
    assert cache.read("kind", KEY) is None
    assert not path.exists()


def test_an_entry_of_an_older_version_is_none(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.path("kind", KEY)
    path.parent.mkdir(parents=True)
    save_file(entry(), path)
    assert not cache.has("kind", KEY)
    assert cache.read("kind", KEY) is None


def test_the_same_entry_has_the_same_bytes(tmp_path: Path) -> None:
    wanted = {str(number): torch.arange(float(number)) for number in range(9)}
    found = set()
    for turn in range(5):
        Cache(tmp_path / str(turn)).write("kind", KEY, dict(reversed(wanted.items())) if turn % 2 else wanted)
        found.add(Cache(tmp_path / str(turn)).path("kind", KEY).read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_is_no_entry_and_makes_room(tmp_path: Path, kind: str) -> None:
    cache = Cache(tmp_path / "cache")
    cache.write("kind", KEY, entry())
    path = cache.path("kind", KEY)
    path.rename(tmp_path / "genuine")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "genuine")
    else:
        path.mkdir()
    assert not cache.has("kind", KEY)
    assert cache.read_one("kind", KEY, "counts") is None
    assert cache.read("kind", KEY) is None
    if kind != "folder":
        cache.write("kind", KEY, entry())
        assert not path.is_symlink() and same(cache.read("kind", KEY), entry())
    assert (tmp_path / "genuine").is_file()


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        Cache(tmp_path / "a" / "cache").write("kind", KEY, entry())
        Cache(tmp_path / "b").make()
    finally:
        os.umask(before)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("a/cache", "b")} == {0o700}


@pytest.mark.parametrize(
    ("named", "mode", "owner", "why"),
    [
        (False, 0o755, 0, ""), (False, 0o775, 0, ""), (False, 0o775, 1, "another user"), (False, 0o757, 0, "everybody"),
        (False, 0o755, 1, "another user"), (True, 0o775, 1, ""), (True, 0o777, 0, "everybody"),
        (True, 0o1777, 1, "everybody"),
    ],
)  # fmt: skip
def test_a_cache_that_others_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool, mode: int, owner: int, why: str
) -> None:
    monkeypatch.setenv("MILES_CACHE", str(tmp_path / "miles") if named else "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "miles").mkdir()
    (tmp_path / "miles").chmod(mode)
    held = os.stat_result
    monkeypatch.setattr(os, "getuid", lambda: (tmp_path / "miles").stat().st_uid + 1000 * owner)
    if (tmp_path / "miles").stat().st_uid == 0 and owner:
        # Whatever belongs to root is trusted.
        monkeypatch.setattr(Path, "stat", lambda path: held((0o40000 | mode, 0, 0, 0, 7, 7, 0, 0, 0, 0)))
    if not why:
        assert Cache.default().folder == tmp_path / "miles"
        return
    with pytest.raises(InputError, match=why) as error:
        Cache.default()
    assert error.value.where == str(tmp_path / "miles") and "chmod go-w" in error.value.hint


def test_the_cache_of_earlier_versions_is_closed_to_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILES_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "miles"
    Cache(folder).write("kind", KEY, entry())
    # As a plain mkdir made it under umask 002.
    for place in (folder, folder / "kind"):
        place.chmod(0o775)
    cache = Cache.default()
    # Folders inside are out of reach too.
    assert folder.stat().st_mode & 0o777 == 0o700
    assert same(cache.read("kind", KEY), entry())


@pytest.mark.parametrize("harm", ["refused", "without effect"])
def test_a_cache_that_cannot_be_closed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    def change(path: Path, mode: int) -> None:
        if harm == "refused":
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setenv("MILES_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "miles").mkdir()
    (tmp_path / "miles").chmod(0o775)
    monkeypatch.setattr(Path, "chmod", change)
    with pytest.raises(InputError, match="its group may write it"):
        Cache.default()


def test_a_shared_cache_keeps_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o775)
    monkeypatch.setenv("MILES_CACHE", str(tmp_path))
    Cache.default()
    assert tmp_path.stat().st_mode & 0o777 == 0o775


def test_a_folder_that_cannot_be_written_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(IncompleteError) as error:
        Cache(tmp_path / "file").write("kind", KEY, entry())
    assert error.value.exit_code == 3
    assert "MILES_CACHE" in error.value.hint
    assert error.value.where == str(tmp_path / "file")
    # Reading from there is no error: there is nothing.
    assert Cache(tmp_path / "nowhere").read("kind", KEY) is None


@pytest.mark.parametrize("raised", [OSError(28, "No space left on device"), RuntimeError("I/O error")])
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception) -> None:
    import safetensors.torch

    def fail(_: object, name: str, metadata: object) -> None:
        Path(name).write_bytes(b"half")
        raise raised

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(IncompleteError, match=str(raised.args[-1])):
        Cache(tmp_path).write("kind", KEY, entry())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch

    def interrupt(_: object, name: str, metadata: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.torch, "save_file", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Cache(tmp_path).write("kind", KEY, entry())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_size_is_that_of_the_entries(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.usage() == {}
    for key in range(3):
        cache.write("pooled", key, entry())
    cache.write("frames", 0, entry())
    (tmp_path / "notes.txt").write_bytes(b"0" * 1000)
    one = cache.path("frames", 0).stat().st_size
    assert cache.usage() == {"frames": (1, one), "pooled": (3, 3 * one)}
    assert cache.clear() == 4 * one
    assert cache.usage() == {}


def test_clearing_takes_our_entries_and_nobody_elses(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write("kind", KEY, entry())
    folder = cache.path("kind", KEY).parent
    others = [
        tmp_path / "model.safetensors",
        tmp_path / "kind" / "model.safetensors",
        folder / "model.safetensors",
        folder / "notes.txt",
        folder / ".part-now",
        tmp_path / "kind" / "deeper" / "still" / f"{'0' * 64}.safetensors",
    ]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
    left = folder / ".part-old"
    left.write_bytes(b"by a killed run")
    os.utime(left, (time.time() - 2 * module._STALE,) * 2)
    cache.clear()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(others)


def test_results_of_models_are_counted_and_cleared_with_the_rest(tmp_path: Path) -> None:
    cache, results = Cache(tmp_path), Results(tmp_path / "language-models")
    cache.write("pooled", KEY, entry())
    for seed in range(3):
        results.write({"seed": seed}, {"loss": 1.5})
    size = results.path({"seed": 0}).stat().st_size
    pooled = cache.path("pooled", KEY).stat().st_size
    mine = [results.path({"seed": 0}).with_name(name) for name in ("notes.json", f"{'0' * 64}.json.bak")]
    for path in mine:
        path.write_text("{}")
    assert cache.usage()["language-models"] == (3, 3 * size)
    assert cache.clear() == 3 * size + pooled
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(mine)


def test_the_place_is_the_users_or_the_platforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILES_CACHE", str(tmp_path))
    assert Cache.default().folder == tmp_path
    monkeypatch.setenv("MILES_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache.default().folder.name == "miles"


def test_two_processes_may_write_the_same_entry(tmp_path: Path) -> None:
    code = (
        "import os, sys, torch; from pathlib import Path; from probes.core.cache import Cache\n"
        "other = os.fork()\n"
        "cache = Cache(Path(sys.argv[1]))\n"
        "for turn in range(40): cache.write('kind', turn % 4, {'a': torch.full((500,), turn % 4.0)})\n"
        "sys.exit(other and os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, timeout=120, check=True)
    for key in range(4):
        found = Cache(tmp_path).read("kind", key)
        assert found is not None
        assert found["a"].unique().tolist() == [float(key)]
    assert not list(tmp_path.rglob(".part-*"))


def test_an_example_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    folder = cache.examples("certify-0123456789ab")
    with pytest.raises(RuntimeError), cache.making(folder) as place:
        (place / "half").write_text("x")
        raise RuntimeError
    assert not folder.exists() and list(folder.parent.iterdir()) == []
    with cache.making(folder) as place:
        (place / "whole").write_text("x")
        assert not folder.exists()
    assert [file.name for file in folder.iterdir()] == ["whole"] and list(folder.parent.iterdir()) == [folder]


def test_an_example_that_another_run_made_meanwhile_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    folder = cache.examples("certify-0123456789ab")
    with cache.making(folder) as slow:
        (slow / "slow").write_text("x")
        with cache.making(folder) as quick:
            (quick / "quick").write_text("x")
    assert [file.name for file in folder.iterdir()] == ["quick"] and list(folder.parent.iterdir()) == [folder]


def test_an_example_that_cannot_be_written_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a file where the folder should be")
    cache = Cache(tmp_path)
    with (
        pytest.raises(IncompleteError, match="cannot be written"),
        cache.making(cache.examples("certify-0123456789ab")),
    ):
        pass


def test_a_single_number_may_have_any_stride(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write("kind", "key", {"one": torch.ones(3, dtype=torch.float64).as_strided((1,), (0,))})
    found = cache.read("kind", "key")
    assert found is not None and found["one"].tolist() == [1.0]


def test_an_entry_that_is_open_elsewhere_stays_where_it_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows; where there is none, or a system replaces open files, the error is told."""
    from probes.core import cache as module

    kept = Cache(tmp_path / "cache")
    kept.write("kind", "key", {"x": torch.ones(2)})

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "in use")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(IncompleteError):
        kept.write("kind", "key", {"x": torch.ones(2)})
    monkeypatch.setattr(module, "REMOVES_OPEN_FILES", False)
    kept.write("kind", "key", {"x": torch.ones(2)})
    with pytest.raises(IncompleteError):
        kept.write("kind", "other", {"x": torch.ones(2)})
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [kept.path("kind", "key").name]
