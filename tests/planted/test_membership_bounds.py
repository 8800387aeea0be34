"""Are bounds of epsilon as close to the truth as they can be, and above it no more often than they may?

A short version of the tables that `tests/benchmarks/membership_coverage.py` prints, by the same simulation. Expected
means are of 200 audits by another programme.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audits.statistics.one_run import one_run_search, published_grid

pytestmark = pytest.mark.slow

AUDITS = {500: 40, 5000: 16}
SURE = 1e-4
"""How often a test may fail where all is as it should be."""
TABLE = {
    # mu: size: split, bonferroni, Gaussian split, Gaussian at mu / 2
    0.5: {500: (0.14, 0.21, 0.51, 1.00), 5000: (0.62, 0.67, 1.48, 1.69)},
    1.0: {500: (0.82, 0.96, 2.41, 3.22), 5000: (1.69, 1.77, 3.72, 4.01)},
    2.0: {500: (2.30, 2.43, 7.52, 8.36), 5000: (3.66, 3.76, 9.06, 9.48)},
    3.0: {500: (3.25, 3.41, 13.1, 14.3), 5000: (5.02, 5.20, 15.3, 15.9)},
}
COLUMNS = (("clopper-pearson", "split"), ("clopper-pearson", "bonferroni"), ("gdp", "split"), ("gdp", "fixed"))


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    path = Path(__file__).resolve().parents[1] / "benchmarks" / "membership_coverage.py"
    spec = importlib.util.spec_from_file_location("membership_coverage", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop(spec.name)


@pytest.fixture(scope="module")
def make(script: ModuleType) -> Iterator[Any]:
    with script.audits() as made:
        yield made


def plain(script: ModuleType, make: Any, mu: float, n: int, draws: int) -> dict[tuple[str, str], np.ndarray]:
    """Return bounds by method and selection, one for each audit."""
    rng = np.random.default_rng([n, int(10 * mu), 7])
    rows = [script.plain(make(*script.normal(mu, n, rng), seed), mu) for seed in range(draws)]
    return {(key[0], key[2]): np.array([row[key] for row in rows]) for key in rows[0]}


def too_often(above: int, draws: int) -> bool:
    """Tell whether bounds of 95 % lie above the truth more often than by chance."""
    return above > binom.isf(SURE, draws, 0.05)


@pytest.mark.parametrize("n", AUDITS)
@pytest.mark.parametrize("mu", TABLE)
def test_bounds_of_a_gaussian_mechanism_are_those_found_before(
    script: ModuleType, make: Any, mu: float, n: int
) -> None:
    found = plain(script, make, mu, n, AUDITS[n])
    true = script.truth(mu)
    for column, expected in zip(COLUMNS, TABLE[mu][n], strict=True):
        values = found[column]
        error = values.std(ddof=1) * (1 / len(values) + 1 / 200) ** 0.5
        # A tenth of the table's figure, or of 1, for the thresholds that are tried here and were not there.
        assert values.mean() == pytest.approx(expected, abs=4 * error + 0.1 * max(1.0, expected)), column
    for column, values in found.items():
        assert not too_often(int((values > true).sum()), len(values)), column
        assert (values >= 0).all()


@pytest.mark.parametrize("mu", TABLE)
def test_the_gaussian_bound_comes_close_and_the_plain_one_stays_below(script: ModuleType, make: Any, mu: float) -> None:
    rng, true = np.random.default_rng(3), script.truth(mu)
    rows = [make(*script.normal(mu, 50_000, rng), seed).bounds("split", independent=True) for seed in range(3)]
    assert np.median([row["gdp"].epsilon for row in rows]) == pytest.approx(true, rel=0.1)
    plain = [row["clopper-pearson"].epsilon for row in rows]
    assert max(plain) <= true
    assert np.median(plain) > mu


@pytest.mark.parametrize("n", [100, 500])
def test_nothing_is_proved_where_nothing_leaks(script: ModuleType, make: Any, n: int) -> None:
    draws = 80
    for values in plain(script, make, 0.0, n, draws).values():
        assert not too_often(int((values > 0).sum()), draws)


def test_the_best_of_many_guesses_proves_what_is_not_there_and_the_bounds_do_not(script: ModuleType, make: Any) -> None:
    rng, draws = np.random.default_rng(5), 80
    best, honest = 0, {"split": 0, "bonferroni": 0}
    for seed in range(draws):
        scores, included = script.flipped(0.0, 500, rng)
        best += one_run_search(scores, included, published_grid(1000), delta=script.DELTA)[0] > 0
        audit = make(scores, included, seed)
        for selection in honest:
            honest[selection] += audit.bounds(selection, coin_flip=0.5)["one-run"].epsilon > 0
    assert binom.ppf(SURE, draws, 0.3) < best < draws
    for selection, above in honest.items():
        assert not too_often(above, draws), selection


@pytest.mark.parametrize("mu", [1.0, 2.0])
def test_bounds_of_one_run_stay_below_the_truth_and_find_a_good_part_of_it(
    script: ModuleType, make: Any, mu: float
) -> None:
    rng, draws = np.random.default_rng(int(mu)), 10
    rows = [script.one_run(make(*script.flipped(mu, 500, rng), seed), mu) for seed in range(draws)]
    for key in rows[0]:
        values = np.array([row[key] for row in rows])
        assert not too_often(int((values > script.truth(mu)).sum()), draws), key
        assert values.mean() > 0.8 * mu, key
