"""Does `--dry-run` say what audits of models and data could show, and which units an effect needs?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_world import CANARIES, CERTIFY, CONDITIONAL, GRADIENTS, LANGUAGES, SHORT, SLOPES, SPECTRA, SUITE, TEXT_SETS

Call = Callable[..., Any]
SHOWN = {
    "membership": (SUITE, "AUC of the best attack"),
    "scores": (CANARIES, "TPR at an FPR of"),
    "certify": (CERTIFY, "difference in certified accuracy at radius 0.25 between classes"),
    "lipschitz": (SLOPES, "share of images with more than a stated radius, for the median radius to lie above it"),
    "spectra": (SPECTRA, "share of samples on which running at 25 and 49 directly loses"),
    "precision-recall": (TEXT_SETS, "shortfall in precision or recall from that of reference texts"),
    "losses": (LANGUAGES, "rise of a loss by another language, in nats per byte"),
    "interference": (SHORT, "rise of a loss by another language"),
    "audit-gradients": (GRADIENTS, "mean cosine with the gradient, of all parameters, away from 0"),
    "audit-conditional": (CONDITIONAL, "deviation of the ranks of ours from uniform, in all rows"),
}


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_a_dry_run_tells_what_could_be_shown(name: str, prepared: Path, call_miles: Call, tmp_path: Path) -> None:
    words, effect = SHOWN[name]
    found = call_miles(
        *words[:-2], "--out", str(tmp_path / "run"), "--dry-run", "--detect", "0.6", cwd=prepared / "work"
    )
    assert found.code == 0, found.err
    lines = [line.strip() for line in found.out.splitlines()]
    assert "  can show   with probability 0.8, at the level 0.95:\n" in found.out
    (told,) = (line for line in lines if line.startswith(effect) and " or more (" in line)
    assert told.endswith(")")
    what, after = told.partition(": ")[0], lines[lines.index("--detect   0.6, with the same probability:") :]
    (needed,) = (line.removeprefix(f"{what}: ") for line in after if line.startswith(f"{what}: "))
    assert needed.startswith(("needs ", "no number of units is known", "no such size"))
    assert not (tmp_path / "run").exists()
