"""Does the gate on skips fail a run for a skip that is not listed, and for no other?"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parents[1] / "support"
LISTED = "only root may mount a file system"
FAILING = "@pytest.mark.xfail\ndef test_that_fails(): assert False"
"""A failure that is expected is no skip."""


@pytest.mark.parametrize(
    ("code", "status", "workers"),
    [
        (f"import pytest\ndef test(): pytest.skip('{LISTED}')\n{FAILING}", 0, "0"),
        ("import pytest\ndef test(): pytest.skip('no such wheel')", 1, "0"),
        ("import pytest\ndef test(): pytest.skip('no such wheel')", 1, "2"),
        ("import pytest\nthing = pytest.importorskip('no_such_wheel')\ndef test(): pass", 1, "2"),
    ],
    ids=["listed", "unlisted", "unlisted-of-a-worker", "whole-file"],
)
def test_an_unlisted_skip_fails_the_run(tmp_path: Path, code: str, status: int, workers: str) -> None:
    (tmp_path / "test_code.py").write_text(code)
    (tmp_path / "test_other.py").write_text("def test(): pass")
    plugins = ["-p", "xdist", "-p", "listed_skips"]
    command = [sys.executable, "-m", "pytest", *plugins, "-n", workers, "-q", "-c", "/dev/null", "."]
    # Other plugins, which are of no matter here, take most of so short a run.
    env = {**os.environ, "PYTHONPATH": str(SUPPORT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # Where it is not asked for, the gate is not there: one case shows it as well as all.
    for wanted, expected in (("1", status), ("", 0)) if (status, workers) == (1, "0") else (("1", status),):
        done = subprocess.run(
            command, cwd=tmp_path, env=env | {"MILES_LISTED_SKIPS": wanted}, capture_output=True, text=True
        )
        assert done.returncode == expected, done.stdout
        assert ("skipped (" in done.stdout) == bool(wanted)
