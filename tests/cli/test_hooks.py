"""Do the hooks of pre-commit stop what is wrong before a commit, and nothing else?"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HOOKS = {one["id"]: one for one in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}


@pytest.fixture
def folder(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MILES_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "repository"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "miles").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m miles_cli "$@"\n', encoding="utf-8")
    (place / "bin" / "miles").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}/bin{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shutil.copy(prepared / "work" / "cells.csv", place / "cells.csv")
    return place


def hooked(name: str, folder: Path, *words: str) -> tuple[int, str]:
    entry, check = HOOKS[name]["entry"].split()
    done = subprocess.run(
        [sys.executable, str(ROOT / entry), check, *words], cwd=folder, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stderr


def test_a_file_of_options_is_checked_with_its_inputs_and_gates(folder: Path) -> None:
    file = folder / "miles.toml"
    file.write_text('[audit-scaling]\nfrom-csv = "cells.csv"\nfail-if = ["exponent[target=ours].low > 2"]\n')
    assert hooked("miles-check", folder, "miles.toml") == (0, "")
    file.write_text('[audit-scaling]\nfrom-csv = "cells.csv"\nfail-if = ["exponnt.low > 2"]\n')
    status, said = hooked("miles-check", folder, "miles.toml")
    assert status == 1 and "miles audit-scaling: exit status 2" in said and "exponnt" in said
    file.write_text("seed = 0\n")
    assert "No table of an audit" in hooked("miles-check", folder, "miles.toml")[1]
    # The audit, with what a file cannot name, from the hook's args.
    assert hooked("miles-check", folder, "audit-scaling", "--from-csv", "cells.csv", "--", "miles.toml") == (0, "")
    file.write_text("seed = \n")
    assert "It cannot be read: TOMLDecodeError" in hooked("miles-check", folder, "miles.toml")[1]
    assert not (folder / "runs").exists()


def test_registered_criteria_that_were_changed_are_seen(folder: Path) -> None:
    content: dict[str, Any] = {
        "schema": "miles.registration/1",
        "criteria": ["gap.low > 0.05"],
        "level": 0.95,
        "é": "ü",
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    file = folder / "criteria.json"
    file.write_text(json.dumps({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}), encoding="utf-8")
    (folder / "other.json").write_text("[1]")
    assert hooked("miles-registration", folder, "criteria.json", "other.json") == (0, "")
    file.write_text(file.read_text(encoding="utf-8").replace("0.05", "0.06"), encoding="utf-8")
    status, said = hooked("miles-registration", folder, "criteria.json")
    assert status == 1 and "changed after it was registered" in said
    file.write_text(file.read_text(encoding="utf-8")[:-1], encoding="utf-8")
    assert "It cannot be read" in hooked("miles-registration", folder, "criteria.json")[1]


def test_json_of_others_that_is_not_strict_is_none_of_its_business(folder: Path) -> None:
    kinds = {
        "comments.json": b'// as of an editor\n{"a": 1,}',
        "mark.json": b'\xef\xbb\xbf{"a": 1}',
        "other.json": b"\xff\x00{",
    }
    for name, content in kinds.items():
        (folder / name).write_bytes(content)
    assert hooked("miles-registration", folder, *kinds) == (0, "")


def test_a_committed_report_with_a_failed_gate_is_stopped(folder: Path) -> None:
    passed = {"schema": "miles.report/1", "gates": [{"expression": "gap.low > 0.05", "outcome": "pass", "rows": [0]}]}
    (folder / "report.json").write_text(json.dumps(passed))
    assert hooked("miles-gate", folder, "report.json") == (0, "")
    (folder / "report.json").write_text(json.dumps(passed).replace('"pass"', '"fail"'))
    assert hooked("miles-gate", folder, "report.json") == (1, "report.json: gate failed: gap.low > 0.05\n")
    (folder / "report.json").write_text("{")
    assert hooked("miles-gate", folder, "report.json")[0] == 1
