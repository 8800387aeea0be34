"""Does the action of GitHub do in a job what it says, whatever its inputs hold?

Its steps are run as a runner does: bash, with inputs as variables and files for outputs, path and summary.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
CELLS = "audit-scaling", '--from-csv "cells of ours.csv" --claim time=n'


class Job:
    """A job with one call of the action."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.folder, self.outputs, self.said = folder, dict[str, str](), ""
        given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        self.values = {f"inputs.{name}": inputs.get(name, default) for name, default in given.items()}
        self.files = {
            name: folder / f".{name.lower()}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")
        }
        for file in self.files.values():
            file.touch()

    def step(self, name: str) -> int:
        """Run a step and return its exit status."""
        (step,) = [one for one in STEPS if one["name"] == name]
        filled = {
            key: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: self.values.get(found[1], ""), value)
            for key, value in step["env"].items()
        }
        own = {name: str(file) for name, file in self.files.items()}
        env = {**os.environ, **own, "RUNNER_TEMP": str(self.folder), "GITHUB_ACTION_PATH": str(ROOT), **filled}
        env |= {"PATH": f"{self.folder}/bin{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        (self.folder / "step.sh").write_text(step["run"], encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(self.folder / "step.sh")],
            cwd=self.folder, env=env, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        self.said += done.stdout + done.stderr
        for line in self.files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            self.outputs[key] = self.values[f"steps.{step.get('id', '')}.outputs.{key}"] = value
        return done.returncode

    def run(self) -> int:
        """Run the steps behind the installation and return the status of the last that ran."""
        if (status := self.step("Audit")) != 0:
            return status
        if self.outputs["status"] in ("0", "1"):
            assert self.step("Publish the result") == 0, self.said
        return self.step("Give the verdict")


@pytest.fixture
def folder(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the workspace of a job, with a table, and miles on its path."""
    monkeypatch.setenv("MILES_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "job"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "miles").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m miles_cli "$@"\n', encoding="utf-8")
    (place / "bin" / "miles").chmod(0o755)
    shutil.copy(prepared / "work" / "cells.csv", place / "cells of ours.csv")
    return place


def test_it_is_an_action_and_no_input_is_written_into_a_script() -> None:
    spec = find_spec("check_jsonschema")
    assert spec is not None and spec.submodule_search_locations
    schema = Path(spec.submodule_search_locations[0]) / "builtin_schemas" / "vendor" / "github-actions.json"
    jsonschema.validate(ACTION, json.loads(schema.read_text(encoding="utf-8")))
    for step in STEPS:
        assert "${{" not in step["run"], step["name"]
        assert subprocess.run(["bash", "-n"], input=step["run"], text=True).returncode == 0
        assert step["shell"] == "bash"


def test_a_run_that_passes_and_one_whose_gate_fails(folder: Path) -> None:
    job = Job(folder, audit=CELLS[0], args=CELLS[1], out="runs/ci")
    assert job.run() == 0, job.said
    assert job.outputs == {
        "status": "0", "report": "runs/ci/report.json", "junit": "runs/ci.junit.xml", "sarif": "runs/ci.sarif",
    }  # fmt: skip
    assert all((folder / job.outputs[name]).stat().st_size > 100 for name in ("report", "junit", "sarif"))
    assert "exponent" in job.files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    # Judged again on the finished run.
    gated = Job(folder, audit=CELLS[0], args=f"{CELLS[1]} --fail-if 'exponent[target=theirs].low > 1'", summary="false")
    assert gated.run() == 1, gated.said
    assert gated.outputs["status"] == "1"
    assert "gate failed" in gated.said
    assert "<failure" in (folder / "runs/ci.junit.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize("trick", ["$(touch pwned)", "`touch pwned`", "; touch pwned #", "' ; touch pwned ; '"])
def test_nothing_in_an_input_is_run(folder: Path, trick: str) -> None:
    for inputs in ({"audit": f"list{trick}"}, {"audit": "list", "args": trick}, {"audit": "list", "out": trick}):
        job = Job(folder, **inputs)
        job.step("Audit")
    assert not (folder / "pwned").exists()
    # A line of its own would be an output of its own.
    assert Job(folder, audit="list", out="runs\nreport=elsewhere").step("Audit") == 2


def test_wrong_input_fails_the_job_with_its_own_status_and_publishes_nothing(folder: Path) -> None:
    job = Job(folder, audit=CELLS[0], args="--from-csv nowhere.csv")
    assert job.run() == 2
    assert job.outputs == {"status": "2"}
    assert "nowhere.csv" in job.said


@pytest.mark.parametrize(
    ("inputs", "wanted"),
    [
        ({}, [str(ROOT)]),
        ({"extra": "demo,tables"}, [f"{ROOT}[demo,tables]"]),
        ({"version": "0.1.0", "extra": "tables"}, ["miles-audit[tables]==0.1.0"]),
        ({"version": "cells of ours.csv"}, ["cells of ours.csv"]),
    ],
)
def test_what_is_installed(folder: Path, inputs: dict[str, str], wanted: list[str]) -> None:
    """An interpreter that writes down what pip is asked for stands in the place of Python."""
    (folder / "bin" / "python3").write_text(
        '#!/bin/sh\n[ "$2" = venv ] || exit 0\nmkdir -p "$3/bin"\n'
        """printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@" >asked\\n' >"$3/bin/pip"\nchmod +x "$3/bin/pip"\n""",
        encoding="utf-8",
    )
    (folder / "bin" / "python3").chmod(0o755)
    job = Job(folder, audit="list", **inputs)
    assert job.step("Install miles") == 0, job.said
    asked = (folder / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == ["install", "-q", "--extra-index-url", "https://download.pytorch.org/whl/cpu", "--", *wanted]
    assert job.files["GITHUB_PATH"].read_text(encoding="utf-8") == f"{folder}/miles/bin\n"
