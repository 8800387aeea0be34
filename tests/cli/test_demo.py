"""Does `miles demo` list all demos, and does it say in the end what was planted and whether it was found?"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audits.core import registry

Call = Callable[..., Any]
QUESTION = "What was planted in this example, and was it found?"


def test_all_demos_are_listed_with_what_they_take_in_eighty_columns(call_miles: Call) -> None:
    done = call_miles("demo", "--list")
    assert done.code == 0 and done.err == ""
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    for entry, line in zip(registry.AUDITS, lines, strict=False):
        assert re.fullmatch(rf"{entry.name} +{entry.seconds} s  {re.escape(entry.demo)}", line)
        assert entry.demo and entry.seconds and registry.find(entry.name).step("demo", "prepare")


def test_an_audit_of_another_package_is_listed_without_being_imported(
    call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = registry.Entry(name="audit-tea", summary="from tea 1.0", needs="", target="nowhere:AUDIT",
                             distribution="tea")  # fmt: skip
    monkeypatch.setattr(registry, "entries", lambda: (*registry.AUDITS, foreign))
    lines = call_miles("demo", "--list").out.splitlines()
    assert any(re.fullmatch(r"audit-tea +\?  from tea 1\.0", line) for line in lines)
    assert lines[-1].startswith("?: ")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILES_CACHE", str(cache))
    monkeypatch.setattr("audits.report.pages.write_pages", lambda report, folder: None)


def test_a_demo_ends_with_its_plants(call_miles: Call, tmp_path: Path) -> None:
    done = call_miles("demo", "lipschitz", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    summary, _, end = done.out.partition(QUESTION)
    assert "Report " in summary
    said = " ".join(end.split())
    assert "✓ Planted The Lipschitz constant is 6 by construction." in said
    assert "Found Yes. The proved bound is 6.0000, and the steepest slope met 6.0000." in said
    # The same run again, and its twin.
    assert QUESTION in call_miles("demo", "lipschitz", "--out", tmp_path / "run").out
    twin = call_miles("demo", "lipschitz", "--balanced", "--out", tmp_path / "twin").out.partition(QUESTION)[2]
    assert "Nothing, as it should be." in twin and "✗" not in twin


def test_plants_are_told_at_the_terminal_alone(call_miles: Call, tmp_path: Path) -> None:
    words = ("demo", "lipschitz", "--out", tmp_path / "run")
    assert call_miles(*words, "--quiet").out == ""
    done = call_miles(*words, "--json")
    assert json.loads(done.out)["audit"] == "lipschitz" and QUESTION not in done.err


def test_a_demo_that_names_no_plants_ends_as_every_run_does(
    call_miles: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("audits.lipschitz.demo.planted")
    done = call_miles("demo", "lipschitz", "--out", tmp_path / "run")
    assert done.code == 0 and QUESTION not in done.out
