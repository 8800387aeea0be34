"""Does the action of GitHub do in a job what it says, whatever its inputs hold?

Its steps are run as a runner does: bash, with inputs as variables and files for outputs, path and summary.
"""

import json
import os
import re
import shlex
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
def folder(tmp_path: Path) -> Path:
    """Return the workspace of a job; its miles writes down what it is asked for, and ends as `ends` says."""
    place = tmp_path / "job"
    (place / "bin").mkdir(parents=True)
    said = """printf '%s\\n' "$@" ENDED >>asked; exit "$(cat ends 2>/dev/null || echo 0)\""""
    put(place / "bin" / "miles", said)
    return place


def put(path: Path, code: str) -> None:
    path.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
    path.chmod(0o755)


def asked(folder: Path) -> list[list[str]]:
    """Return the words of each call of miles so far."""
    file = folder / "asked"
    calls = file.read_text(encoding="utf-8").split("\nENDED\n")[:-1] if file.exists() else []
    return [one.split("\n") for one in calls]


def test_it_is_an_action_and_no_input_is_written_into_a_script() -> None:
    spec = find_spec("check_jsonschema")
    assert spec is not None and spec.submodule_search_locations
    schema = Path(spec.submodule_search_locations[0]) / "builtin_schemas" / "vendor" / "github-actions.json"
    jsonschema.validate(ACTION, json.loads(schema.read_text(encoding="utf-8")))
    for step in STEPS:
        assert "${{" not in step["run"], step["name"]
        assert subprocess.run(["bash", "-n"], input=step["run"], text=True).returncode == 0
        assert step["shell"] == "bash"


@pytest.mark.slow
def test_a_run_that_passes_and_one_whose_gate_fails(
    folder: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With miles itself; what the steps make of its exit status is tested below."""
    monkeypatch.setenv("MILES_CACHE", str(folder / "cache"))
    put(folder / "bin" / "miles", f'exec "{sys.executable}" -m miles_cli "$@"')
    shutil.copy(prepared / "work" / "cells.csv", folder / "cells of ours.csv")
    job = Job(folder, audit=CELLS[0], args=CELLS[1], out="runs/ci")
    assert job.run() == 0, job.said
    assert job.outputs == {
        "status": "0", "report": "runs/ci/report.json", "junit": "runs/ci.junit.xml", "sarif": "runs/ci.sarif",
    }  # fmt: skip
    assert all((folder / job.outputs[name]).stat().st_size > 100 for name in ("report", "junit", "sarif"))
    assert "exponent" in job.files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    # Judged again on the finished run.
    gated = Job(folder, audit=CELLS[0], args=f"{CELLS[1]} --fail-if 'exponent[target=theirs].low > 1'", out="runs/ci")
    assert gated.step("Audit") == 0, gated.said
    assert gated.outputs["status"] == "1"
    assert "gate failed" in gated.said


@pytest.mark.parametrize("status", [0, 1, 2, 3, 130])
def test_a_job_ends_as_the_audit_does_and_publishes_what_was_finished(folder: Path, status: int) -> None:
    (folder / "ends").write_text(f"{status}")
    job = Job(folder, audit="audit-groups", args="a.csv", out="/tmp/else where//")
    assert job.step("Audit") == 0
    assert asked(folder) == [["audit-groups", "a.csv", "--out", "/tmp/else where//", "--quiet"]]
    (folder / "ends").write_text("0")
    paths = {"report": "/report.json", "junit": ".junit.xml", "sarif": ".sarif"}
    outputs = {"status": str(status)}
    # The condition of the next step.
    if status < 2:
        assert job.step("Publish the result") == 0
        outputs |= {name: f"/tmp/else where{ending}" for name, ending in paths.items()}
        assert [call[:4] for call in asked(folder)[1:]] == [
            ["export", "/tmp/else where", "--to", to] for to in ("junit", "sarif", "github")
        ]
    assert job.outputs == outputs
    assert job.step("Give the verdict") == status


TRICKS = [
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "' ; touch pwned ; '",
    "a\n touch pwned",
    "é*",
]


@pytest.mark.parametrize("trick", TRICKS)
def test_nothing_in_an_input_is_run(folder: Path, trick: str) -> None:
    # A module of what was checked out is none of Python's.
    (folder / "shlex.py").write_text("open('pwned', 'w')", encoding="utf-8")
    assert Job(folder, audit=f"list{trick}").step("Audit") == 2
    quoted = shlex.quote(trick)
    assert Job(folder, audit="list", args=f"{quoted} {quoted}").step("Audit") == 0
    assert Job(folder, audit="list", out=trick).step("Audit") == (2 if "\n" in trick else 0)
    Job(folder, audit="list", args=trick).step("Audit")
    calls = "\n".join(map("\n".join, asked(folder)))
    assert f"list\n{trick}\n{trick}\n--out\nruns/ci\n--quiet" in calls
    for name in ("version", "extra"):
        assert Job(folder, audit="list", **{name: f"1.0{trick}"}).step("Install miles") == 2
    assert not (folder / "pwned").exists() and not (folder / "miles").exists()


def test_what_is_no_folder_or_no_words_is_refused(folder: Path) -> None:
    # A line of its own would be an output of its own.
    for out in ("runs\nreport=elsewhere", "runs\rreport=elsewhere", "", ".", "../", "-x"):
        job = Job(folder, audit="list", out=out)
        assert (job.step("Audit"), job.said) == (2, "::error::out is no folder\n")
    job = Job(folder, audit="list", args="a 'b")
    assert (job.step("Audit"), job.said) == (2, "::error::args: a quote is left open\n")
    assert not asked(folder)


@pytest.mark.parametrize(
    ("inputs", "wanted"),
    [
        ({}, [str(ROOT)]),
        ({"extra": "demo,tables"}, [f"{ROOT}[demo,tables]"]),
        ({"version": "0.1.0", "extra": "tables"}, ["miles-audit[tables]==0.1.0"]),
        ({"version": "a checkout", "extra": "tables"}, ["./a checkout[tables]"]),
        ({"version": "../job/a checkout"}, ["../job/a checkout"]),
    ],
)
def test_what_is_installed(folder: Path, inputs: dict[str, str], wanted: list[str]) -> None:
    """An interpreter that writes down what pip is asked for stands in the place of Python."""
    (folder / "bin" / "python3").write_text(
        '#!/bin/sh\n[ "$3" = venv ] || exit 0\nmkdir -p "$4/bin"\n'
        """printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@" >asked\\n' >"$4/bin/pip"\nchmod +x "$4/bin/pip"\n""",
        encoding="utf-8",
    )
    (folder / "bin" / "python3").chmod(0o755)
    (folder / "a checkout").mkdir()
    job = Job(folder, audit="list", **inputs)
    assert job.step("Install miles") == 0, job.said
    words = (folder / "asked").read_text(encoding="utf-8").splitlines()
    assert words == ["install", "-q", "--extra-index-url", "https://download.pytorch.org/whl/cpu", "--", *wanted]
    assert job.files["GITHUB_PATH"].read_text(encoding="utf-8") == f"{folder}/miles/bin\n"
