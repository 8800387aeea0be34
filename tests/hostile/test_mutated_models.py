"""Is a broken or hostile file of a model opened as what it is, or refused, and never anything else?"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAST = {"files": 770, "folders": 180}
"""Cases of each group that have to run."""
EVERY = 3
"""One in so many of all cases is run; `break_models.py` alone takes all."""


@pytest.mark.slow
@pytest.mark.parametrize("group", LEAST)
def test_broken_models_are_opened_or_refused(group: str, tmp_path: Path) -> None:
    """No other exception, nothing that hangs or takes memory, no program, no connection, no file elsewhere."""
    paths = os.pathsep.join(str(place) for place in (ROOT, ROOT / "tests" / "support"))
    variables = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    variables |= {"OMP_NUM_THREADS": "1", "HF_HOME": str(tmp_path / "hub")}
    script = Path(__file__).with_name("break_models.py")
    done = subprocess.run(
        [sys.executable, script, group, tmp_path, str(EVERY)],
        env=variables,
        capture_output=True,
        text=True,
        timeout=600,
    )
    # The last case that began, and where it stood when its time was up.
    assert done.returncode == 0, done.stderr[-4000:]
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    print(f"{group}:", dict(Counter(case["outcome"] for case in cases)), "of", len(cases))
    wrong = [case for case in cases if case["wrong"] or case["outcome"] not in ("loaded", "refused")]
    assert not wrong, "\n".join(map(str, wrong[:10]))
    families = {case["family"] for case in cases}
    for outcome in ("loaded", "refused"):
        assert {case["family"] for case in cases if case["outcome"] == outcome} >= families - {
            "mdlus, tar",
            "endless, zip",
        }
    assert len(cases) >= LEAST[group]
