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

import numpy as np
import pytest

from audits.statistics.binomial import upper_limit
from audits.statistics.epsilon_bounds import error_rates, gdp_epsilon, mu_of_rates
from audits.statistics.one_run import one_run_epsilon, one_run_p
from audits.statistics.one_run_fdp import one_run_fdp_epsilon
from audits.statistics.threshold_selection import bound

COUNTS = [
    (0, 10, 10), (1, 1, 1), (5, 10, 20), (10, 10, 1000), (80, 100, 1000), (90, 100, 1000), (100, 100, 1000),
    (300, 500, 500), (560, 1000, 1000), (700, 1000, 1000), (1000, 1000, 1000), (1300, 2000, 10_000),
]  # fmt: skip


def folder(package: str) -> Path:
    """Find where a package lies; it is not imported."""
    named = os.environ.get("MILES_JAX_PRIVACY")
    if named and (Path(named) / package).is_dir():
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


def drawn(seed: int, m: int, n: int, mu: float, *, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng, member = np.random.default_rng(seed), np.arange(m + n) < m
    scores = rng.normal(size=m + n) + mu * member
    return (np.round(scores, 1) if ties else scores), member


SCORES = [(0, 200, 200, 1.0, False), (1, 500, 100, 2.0, True), (2, 50, 400, 0.3, False), (3, 30, 30, 6.0, True)]


@pytest.mark.parametrize(("seed", "m", "n", "mu", "ties"), SCORES)
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.02])
def test_clopper_pearson_at_a_threshold(
    theirs: Any, seed: int, m: int, n: int, mu: float, ties: bool, delta: float
) -> None:
    scores, member = drawn(seed, m, n, mu, ties=ties)
    given = theirs.CanaryScoreAuditor(scores[member], scores[~member])
    for threshold in (-9.0, mu / 2 - 1, mu / 2, 1.1, mu + 1, 99.0):
        for alpha in (0.05, 0.001):
            expected = given.epsilon_clopper_pearson(
                alpha, delta, one_sided=False, threshold_strategy=theirs.Explicit(threshold)
            )
            found = bound(scores, member, delta=delta, alpha=alpha, selection="fixed", threshold=threshold)
            assert found.epsilon == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("seed", "m", "n", "mu", "ties"), [one for one in SCORES if one[3] >= 1])
def test_a_gaussian_mechanism_over_many_thresholds(
    theirs: Any, seed: int, m: int, n: int, mu: float, ties: bool
) -> None:
    scores, member = drawn(seed, m, n, mu, ties=ties)
    given = theirs.CanaryScoreAuditor(scores[member], scores[~member])
    # Of all thresholds theirs keeps the corners of the hull, which share the error. It takes mu without its sign, so
    # that a worthless attack on few points seems to prove much: no such case is compared.
    hits, alarms = m - given._fn_counts, n - given._tn_counts
    best = float(mu_of_rates(*error_rates(hits, m, alarms, n, 0.05 / len(hits))).max())
    for delta in (1e-9, 1e-5, 0.02):
        expected = given.epsilon_from_gdp(0.05, delta)
        assert gdp_epsilon(best, delta) == pytest.approx(expected, rel=1e-6, abs=3e-6)


def test_upper_limits_of_rates(theirs: Any) -> None:
    errors = np.arange(51)
    for alpha in (0.2, 0.025, 1e-6):
        expected = theirs._clopper_pearson_upper(errors, 50, alpha)
        np.testing.assert_allclose(upper_limit(errors, 50, alpha), expected, rtol=1e-9)
