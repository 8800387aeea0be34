"""Are bounds of one run above the truth no more often than they may be, and is it told when canaries interfere?

A short version of the table that `tests/benchmarks/one_run_bounds.py` prints, without jax-privacy.
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

pytestmark = pytest.mark.slow

AUDITS = 60
SURE = 1e-4
"""How often a test may fail where all is as it should be."""
ASSUMED = ("one-run-independent", "one-run-independent-gdp")


@pytest.fixture(scope="module")
def found() -> Iterator[Any]:
    """Return a function that audits a world: the share of bounds above the truth, and the median, by method."""
    folder = str(Path(__file__).resolve().parents[1] / "benchmarks")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        script, coverage = (importlib.import_module(name) for name in ("one_run_bounds", "membership_coverage"))

        def audit(world: str) -> dict[str, tuple[float, float]]:
            bounds = script.audited(world, AUDITS, make, None)
            truth = script.WORLDS[world].truth
            named = {name.split()[1]: values for name, values in bounds.items()}
            return {name: (float((rows > truth).mean()), float(np.median(rows))) for name, rows in named.items()}

        with coverage.audits() as make:
            yield audit
        for name in ("one_run_bounds", "membership_coverage"):
            sys.modules.pop(name, None)


def too_often(share: float) -> bool:
    return bool(share * AUDITS > binom.isf(SURE, AUDITS, 0.05))


@pytest.mark.parametrize(
    ("world", "medians"),
    [("none", (0.0, 0.0)), ("medium", (1.4, 3.3)), ("large", (2.9, 8.5)), ("shared-shift", (2.9, 8.5))],
)
def test_where_canaries_do_not_interfere_no_bound_is_false_too_often(
    found: Any, world: str, medians: tuple[float, float]
) -> None:
    shares = found(world)
    assert {name for name, (share, _) in shares.items() if too_often(share)} == set()
    for name, expected in zip(ASSUMED, medians, strict=True):
        assert shares[name][1] == pytest.approx(expected, abs=0.1 + 0.1 * expected), name
    if medians[0]:
        assert shares["one-run"][1] < shares["one-run-fdp"][1] < shares["one-run-independent-gdp"][1]


@pytest.mark.parametrize(("world", "false"), [("shared-size", ASSUMED[1:]), ("revealed", ASSUMED)])
def test_where_canaries_interfere_the_certified_bound_holds_and_the_others_do_not(
    found: Any, world: str, false: tuple[str, ...]
) -> None:
    shares = found(world)
    assert not too_often(shares["one-run"][0])
    for name in false:
        assert shares[name][0] > 0.08, name
