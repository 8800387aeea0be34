"""Is TOML read or refused in time and memory that grow with its size?"""

import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from probes.core.errors import InputError
from probes.files.toml_values import MOST_BYTES, MOST_PARTS, read_toml


def refused(path: Path, content: bytes) -> InputError:
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_toml(path, hint="Write it so.")
    return error.value


DEEP = {
    "a key": ".".join(["a"] * 16_000) + " = 1",
    "a table": "[" + " . ".join(["a"] * 16_000) + "]",
    "a list of tables": "[[" + ".".join(["a"] * 16_000) + "]]",
    "inside": "x = {" + ".".join(["'a b'"] * 16_000) + " = 1}",
    "quoted": "\n" + ".".join(['"a.b"', "c"] * 8_000) + " = 1",
}


@pytest.mark.parametrize("name", DEEP)
def test_a_key_of_thousands_of_parts_is_refused_before_it_costs_anything(name: str, tmp_path: Path) -> None:
    tracemalloc.start()
    began = time.process_time()
    error = refused(tmp_path / "c.toml", DEEP[name].encode())
    assert time.process_time() - began < 1 and tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    assert f"more than {MOST_PARTS} parts" in error.message
    assert error.where == f"{tmp_path / 'c.toml'}:{2 if name == 'quoted' else 1}"


@pytest.mark.parametrize(
    "filling", ["a", "a.", "a .", "'", '"', "[", "a=", "a b ", "{a.", "'a'.", "\n", "a" * 99 + "."]
)
def test_no_megabyte_takes_long(filling: str, tmp_path: Path) -> None:
    began = time.process_time()
    refused(tmp_path / "c.toml", (filling * (MOST_BYTES // len(filling)) + "?").encode()[-MOST_BYTES:])
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("# Nothing.\n", {}),
        ("\ufeffa = 1", {"a": 1}),
        ("a.b.'c d' = 1", {"a": {"b": {"c d": 1}}}),
        ("a = [" + ", ".join(["'x.y.wav'"] * 300) + "]", {"a": ["x.y.wav"] * 300}),
    ],
)
def test_ordinary_files_are_read(text: str, found: Any, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    assert read_toml(tmp_path / "c.toml", hint="") == found


def test_as_many_parts_as_are_allowed_are_read(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(".".join(["a"] * MOST_PARTS) + " = 1", encoding="utf-8")
    found = read_toml(tmp_path / "c.toml", hint="")
    for _ in range(MOST_PARTS):
        found = found["a"]
    assert found == 1


def test_what_is_no_toml_is_refused_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    assert "more than 1,000,000 bytes" in refused(path, b"#" * (MOST_BYTES + 1)).message
    assert refused(path, b"a = 1\n\xff").where == f"{path}:2"
    assert "a web page" in refused(path, b"<!DOCTYPE html>\n<html></html>").message
    assert "line 1" in refused(path, b"a = \n").message
    assert refused(path, b"a = " + b"9" * 5000).where == str(path)
    assert refused(path, b"a = " + b"[" * 5000).where == str(path)
    with pytest.raises(InputError, match="no such file"):
        read_toml(tmp_path / "d.toml", hint="")
    with pytest.raises(InputError) as error:
        read_toml(tmp_path / ("n" * 300), hint="")
    assert error.value.where == str(tmp_path / ("n" * 300))
