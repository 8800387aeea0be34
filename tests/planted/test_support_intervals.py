"""Do the intervals of precision-recall hold the truth, and does it leave equal candidates alone?

A short version of the table that `tests/benchmarks/support_coverage.py` prints, by the same simulation.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2

from audits.core.context import Cache, Context
from audits.statistics.halves import Halved, halved
from probes.vectors.support_metrics import METRICS

pytestmark = pytest.mark.slow

DRAWS, MORE, SURE = 64, 256, 1e-4


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "benchmarks" / "support_coverage.py"
    spec = importlib.util.spec_from_file_location("support_coverage", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their own module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def drawn(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return estimates and halves of pairs of equal candidates against one reference, and the true values."""
    setting = script.Setting(300, 3, shift=1.0)
    context, rng = Context(cache=Cache(tmp_path_factory.mktemp("cache"))), np.random.default_rng(11)
    estimates: list[dict[str, Any]] = []
    sides: list[list[dict[str, Halved]]] = []
    wholes: list[dict[str, float]] = []
    for _ in range(DRAWS):
        two = script.scores(setting.reference(rng), [setting.candidate(rng), setting.candidate(rng)], rng)
        sides.append([{name: halved(parts[:, None]) for name, parts in one.items()} for one in two])
        estimates.append(script.reported(two[0], setting.n, context))
        wholes.append({name: float(parts[0]) for name, parts in two[0].items()})
    for _ in range(MORE):
        one = script.scores(setting.reference(rng), [setting.candidate(rng)], rng, splits=0)[0]
        wholes.append({name: float(parts[0]) for name, parts in one.items()})
    truth = {name: float(np.mean([one[name] for one in wholes])) for name in METRICS}
    spread = {name: float(np.var([one[name] for one in wholes], ddof=1)) for name in METRICS}
    return {"estimates": estimates, "sides": sides, "truth": truth, "spread": spread}


@pytest.mark.parametrize("name", METRICS)
def test_intervals_hold_the_truth(name: str, drawn: dict[str, Any], script: ModuleType) -> None:
    # The truth is known to a fifteenth of an interval only, which costs a third of a percent.
    held = sum(script.holds(one[name], drawn["truth"][name]) for one in drawn["estimates"])
    assert held >= binom.ppf(SURE, DRAWS, 0.947), held / DRAWS


@pytest.mark.parametrize("name", METRICS)
def test_errors_are_as_wide_as_what_draws_differ_by(name: str, drawn: dict[str, Any]) -> None:
    # So that no interval holds the truth for being far too wide.
    errors = np.array([one[name].error() ** 2 for one, _ in drawn["sides"]])
    draws = DRAWS + MORE
    low, high = (chi2.ppf(sure, draws - 1) / (draws - 1) for sure in (SURE, 1 - SURE))
    ratio = drawn["spread"][name] / errors.mean()
    # Halves are samples of their own size, where a variance need not yet fall as 1 / n: a tenth of room for that.
    assert 0.9 * low <= ratio <= 1.1 * high, ratio


@pytest.mark.parametrize("name", METRICS)
def test_equal_candidates_are_not_told_apart(name: str, drawn: dict[str, Any]) -> None:
    found = np.array([(one[name] - two[name]).p() for one, two in drawn["sides"]])
    assert (found < 0.05).sum() <= binom.ppf(1 - SURE, DRAWS, 0.05)
    assert (found < 0.5).sum() >= binom.ppf(SURE, DRAWS, 0.5)


def test_what_is_known_for_many_points_is_met(script: ModuleType) -> None:
    rng, setting = np.random.default_rng(3), script.Setting(1000, 1, shift=0.5)
    limits = setting.limits()
    # By a second way: the share of draws in which one of the k nearest of either kind is a candidate.
    x = rng.normal(size=200_000)
    odds = np.exp(-(x**2) / 2 + (x - 0.5) ** 2 / 2)
    assert limits["coverage"] == pytest.approx(np.mean(1 - (odds / (1 + odds)) ** script.K), abs=1e-3)
    found = [script.scores(setting.reference(rng), [setting.candidate(rng)], rng, splits=0)[0] for _ in range(40)]
    for name, value in limits.items():
        values = [float(one[name][0]) for one in found]
        assert abs(np.mean(values) - value) < 4 * np.std(values, ddof=1) / np.sqrt(40) + 2 / setting.n, name
