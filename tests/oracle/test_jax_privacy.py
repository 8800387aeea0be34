"""Are the bounds of one run those of jax-privacy 2.0.0, from the same counts?

Its one file is loaded without the package, which needs jax. MILES_JAX_PRIVACY names the folder in which the packages
jax_privacy and dp_accounting lie, where they are not installed.
"""

import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audits.statistics.one_run import one_run_epsilon, one_run_p
from audits.statistics.one_run_fdp import one_run_fdp_epsilon

COUNTS = [
    (0, 10, 10), (1, 1, 1), (5, 10, 20), (10, 10, 1000), (80, 100, 1000), (90, 100, 1000), (100, 100, 1000),
    (300, 500, 500), (560, 1000, 1000), (700, 1000, 1000), (1000, 1000, 1000), (1300, 2000, 10_000),
]  # fmt: skip


def folder(package: str) -> Path:
    """Find where a package lies; it is not imported."""
    if named := os.environ.get("MILES_JAX_PRIVACY"):
        return Path(named) / package
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed, and MILES_JAX_PRIVACY names no folder with it")
    return Path(found.submodule_search_locations[0])


def load(name: str, file: Path) -> types.ModuleType:
    if not file.is_file():
        pytest.skip(f"no {file}")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    """Load the file with dp_accounting's one function that it needs: the rest of that package asks for more."""
    with pytest.MonkeyPatch.context() as patch:
        gaussian = load("miles_oracle_gaussian", folder("dp_accounting") / "gaussian_mechanism.py")
        patch.setitem(sys.modules, "dp_accounting", gaussian)
        yield load("miles_oracle_auditing", folder("jax_privacy") / "auditing.py")
    for name in ("miles_oracle_gaussian", "miles_oracle_auditing"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("correct", "guesses", "canaries"), COUNTS)
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_one_run(theirs: Any, correct: int, guesses: int, canaries: int, delta: float) -> None:
    for epsilon in (0.0, 0.3, 1.0, 4.0):
        expected = theirs._one_run_p_value(canaries, guesses, correct, epsilon, delta)
        assert one_run_p(correct, guesses, canaries, epsilon, delta) == pytest.approx(expected, rel=1e-7, abs=1e-300)
    for level in (0.9, 0.95, 0.999):
        expected = theirs._epsilon_one_run(0.0, canaries, guesses, correct, 1 - level, delta)
        found = one_run_epsilon(correct, guesses, canaries, delta=delta, level=level)
        assert found == pytest.approx(expected, abs=3e-6)


@pytest.mark.parametrize(("correct", "guesses", "canaries"), COUNTS)
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_one_run_of_a_gaussian_mechanism(theirs: Any, correct: int, guesses: int, canaries: int, delta: float) -> None:
    expected = theirs._epsilon_one_run_fdp(0.0, canaries, guesses, correct, 1 - 0.95, delta)
    found = one_run_fdp_epsilon(correct, guesses, canaries, delta=delta)
    assert found == pytest.approx(expected, abs=3e-6, rel=3e-6)
