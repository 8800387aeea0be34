"""What a target or a table may hold that no number comes of."""

from pathlib import Path

import numpy as np
import pytest

from audits.core.intervals import Undefined
from audits.scaling.counting import blamed
from audits.scaling.counts import Counts, Curve, Uncounted
from audits.scaling.figures import _over_claims
from audits.scaling.findings import _missed
from audits.scaling.growth_claims import Law
from audits.scaling.growth_fits import seconds_excess, seconds_exponent
from probes.core.errors import InputError
from probes.models.programs import find_callable


def test_a_claim_on_what_is_nothing_everywhere_has_no_line() -> None:
    zeros = Curve(lengths=(1, 2), values=np.zeros((1, 2)), counted=True)
    counts = Counts(
        targets=("t",),
        asked=(1, 2),
        curves={("t", "operations", "length"): zeros},
        claims={("t", "operations"): Law(1)},
        tolerance=0.15,
    )
    assert _over_claims(counts) is None


def test_operators_that_hide_products_are_missed_and_elementwise_ones_are_not() -> None:
    hidden = {"_linalg_svd": 1, "flash_attn::_flash_attn_forward": 2, "mul": 3, "_linalg_check_errors": 1}
    counts = Counts(
        targets=("t", "u"),
        asked=(1, 2),
        curves={},
        claims={},
        tolerance=0.15,
        uncounted={
            "t": Uncounted(operators=hidden, calls=7),
            "u": Uncounted(operators={"_softmax": 1, "cumsum": 1, "permute": 1, "_linalg_check_errors": 1}, calls=4),
        },
    )
    told = _missed(counts, "t")
    assert "_linalg_svd and flash_attn::_flash_attn_forward" in told.replace(", ", " and ") and "mul" not in told
    assert _missed(counts, "u") == _missed(counts, "none") == ""


def test_bytes_that_are_0_in_a_round_have_no_exponent() -> None:
    n = 256 * 2.0 ** np.arange(6)
    cells = np.array([0 * n, n, 2 * n])
    for found in (seconds_exponent(n, cells, level=0.95, seed=0),
                  *(seconds_excess(n, cells, Law(p), level=0.95, seed=0) for p in (0, 1))):  # fmt: skip
        assert isinstance(found.exponent, Undefined) and not found.decided


def test_code_that_ends_the_process_is_blamed() -> None:
    with pytest.raises(InputError, match="t fails: SystemExit"), blamed("t"):
        raise SystemExit(0)


def test_code_that_changes_the_current_folder_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wandering.py").write_text("import os\ndef make():\n    os.chdir('/')\n")
    monkeypatch.chdir(tmp_path)
    find_callable("wandering:make")()
    assert Path.cwd() == tmp_path
