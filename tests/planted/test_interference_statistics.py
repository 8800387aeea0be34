"""Do intervals of a matrix of languages hold the planted truth, and do tests leave matrices without effects alone?

A short version of the table that `tests/benchmarks/interference_coverage.py` prints, by the same simulation.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom

from audits.statistics.crossed import crossed_intervals
from audits.statistics.multiplicity import adjust
from audits.statistics.qap import permutation_test

pytestmark = pytest.mark.slow

DRAWS, SURE = 60, 1e-4
KINDS = ("cells", "asymmetries", "row means", "column means")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "benchmarks" / "interference_coverage.py"
    spec = importlib.util.spec_from_file_location("interference_coverage", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their own module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def covered(script: ModuleType) -> dict[str, np.ndarray]:
    setting = script.Setting(6, 3, sentences=30)
    return script.cover(setting, DRAWS, np.random.default_rng(1))


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_the_truth_and_are_no_wider_than_need_be(kind: str, covered: dict[str, np.ndarray]) -> None:
    held, below, above, ratio, _ = covered[kind]
    # Contrasts of one matrix go together; six of them at least are as good as independent.
    independent = 6 * DRAWS
    assert held >= binom.ppf(SURE, independent, 0.945) / independent
    assert abs(below - above) < 0.05
    # Of the errors made to the standard errors given.
    assert 0.85 < ratio < 1.2


def test_a_matrix_without_effects_seldom_alarms(script: ModuleType) -> None:
    setting = script.Setting(6, 3, sentences=30, null=True)
    found = script.alarms(setting, DRAWS, np.random.default_rng(2))
    for kind in KINDS:
        assert found[kind][1] <= binom.ppf(1 - SURE, DRAWS, 0.06) / DRAWS


def test_a_planted_cell_is_found_and_no_other(script: ModuleType) -> None:
    drawn = script.draw(script.Setting(6, 3, sentences=30, null=True), np.random.default_rng(3))
    drawn.deltas[1, 4] += 1.5 * drawn.weights[1]
    contrasts, _ = script.families(drawn)["cells"]
    found = crossed_intervals(contrasts)
    p = adjust([one.p if one.p is not None else 1.0 for one in found], "holm")
    # Row 1, fourth of the five others.
    assert [place for place, one in enumerate(p) if one < 0.05] == [1 * 5 + 3]
    assert found[8].low is not None and found[8].low < 1.5 < (found[8].high or 0)


def cells(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n, n)) + 3 * rng.normal(size=(n, 1)) + rng.normal(size=n)


def shares(count: int, n: int, rng: np.random.Generator, effect: float, statistic: str) -> float:
    labels = np.arange(n) % 3
    same = np.equal.outer(labels, labels).astype(float)
    x = same if statistic == "difference" else same + 0.3 * np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    found = [
        permutation_test(cells(n, rng) + effect * same, x, statistic=statistic, rng=rng, repeats=199).p
        for _ in range(count)
    ]
    return float((np.array(found) <= 0.05).mean())


@pytest.mark.parametrize("statistic", ["difference", "spearman", "slope"])
def test_cells_of_rows_that_differ_are_not_taken_for_an_effect(statistic: str) -> None:
    count = 400
    found = shares(count, 12, np.random.default_rng(4), 0.0, statistic)
    assert binom.ppf(SURE, count, 0.05) <= found * count <= binom.ppf(1 - SURE, count, 0.05)


def test_a_planted_effect_of_classes_is_found() -> None:
    assert shares(60, 12, np.random.default_rng(5), 1.5, "difference") > 0.8


def test_what_another_covariate_does_is_not_taken_for_an_effect_of_this_one() -> None:
    rng, count, n = np.random.default_rng(6), 300, 12
    alone, adjusted, real = 0, 0, 0
    for _ in range(count):
        z = rng.normal(size=(n, n))
        x = 0.7 * z + 0.7 * rng.normal(size=(n, n))
        y = cells(n, rng) / 2 + z
        alone += permutation_test(y, x, statistic="slope", rng=rng, repeats=199).p <= 0.05
        adjusted += permutation_test(y, x, statistic="slope", adjust=[z], rng=rng, repeats=199).p <= 0.05
        real += permutation_test(y + x, x, statistic="slope", adjust=[z], rng=rng, repeats=199).p <= 0.05
    assert alone > 0.7 * count and real > 0.7 * count
    assert binom.ppf(SURE, count, 0.05) <= adjusted <= binom.ppf(1 - SURE, count, 0.05)
