"""Does any reader take more than in proportion to the size of a file: time, or memory?"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile.growth import CASES, too_much


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    """Measure every case in a process of its own, which may be forked."""
    root = Path(__file__).resolve().parents[2]
    places = [str(root), str(root / "tests"), str(root / "tests" / "support")]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("growth.py"))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {line["case"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(case.name, marks=pytest.mark.xfail(reason=f"mended by {case.mends}")) if case.mends else case.name
        for case in CASES
    ],
)
def test_four_times_as_much_takes_about_four_times_as_long(name: str, found: dict[str, dict[str, Any]]) -> None:
    sizes = found[name]["found"]
    assert not any(one["how"].startswith("raised") for one in sizes), sizes
    assert too_much(sizes) == "", sizes
