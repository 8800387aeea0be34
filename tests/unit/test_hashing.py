import hashlib
from pathlib import Path

import pytest

from probes.core.hashing import sha256_file, sha256_folder, sha256_json


def test_file_hash_is_that_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_file(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


def test_folder_hash_follows_names_and_bytes_but_not_place_or_order(tmp_path: Path) -> None:
    folders = []
    for place in ("here", "there/deeper"):
        folder = tmp_path / place
        (folder / "sub").mkdir(parents=True)
        (folder / "a").write_bytes(b"1")
        (folder / "sub" / "b").write_bytes(b"2")
        folders.append([folder / "a", folder / "sub" / "b"])
    here, there = folders
    assert sha256_folder(here) == sha256_folder(reversed(there))
    before = sha256_folder(here)
    here[0].write_bytes(b"3")
    assert sha256_folder(here) != before
    here[0].write_bytes(b"1")
    assert sha256_folder([here[0].rename(here[0].with_name("c")), here[1]]) != before


def test_folder_hash_of_one_file_does_not_depend_on_its_folder(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_bytes(b"1")
    assert sha256_folder([tmp_path / "x" / "a"]) == sha256_folder([tmp_path / "y" / "a"])
    assert sha256_folder([]) == sha256_folder(iter(()))


def test_json_hash_is_of_canonical_json() -> None:
    assert sha256_json({"b": 1, "a": "é"}) == hashlib.sha256('{"a":"é","b":1}'.encode()).hexdigest()
    assert sha256_json(1) != sha256_json("1")
    assert sha256_json("\udcff")
    with pytest.raises(ValueError, match="JSON compliant"):
        sha256_json(float("nan"))
