"""Are ranks tested all together, and does a rejection mean what it is called?"""

import numpy as np
import pytest

from audits.conditional import rank_tests
from audits.conditional.counts import Counts, Groups, Rows
from audits.conditional.rank_tests import band, coverage_p, uniformity
from probes.conditional.ranks import Projection

LINE, RADIAL = Projection("y0", False), Projection("distance", True)


def made(u: np.ndarray, projection: Projection = LINE, **more: object) -> tuple[Rows, Counts]:
    rows = Rows(name="a", kind="samples", draws=20, scores={}, projections=(projection,), pits=u[:, None], **more)  # type: ignore[arg-type]
    groups = Groups(member=np.zeros(len(u), dtype=np.int64))
    counts = Counts(
        groups=groups, clusters=np.arange(len(u)), rows={"a": rows}, against="climatology", levels=(), dimensions=1
    )
    return rows, counts


def meaning(u: np.ndarray, projection: Projection = LINE) -> str:
    (one,) = rank_tests.tests_of(*made(u, projection), 0.95, np.random.default_rng(0))
    return one.meaning[1] if one.adjusted < 0.05 else "covers"


@pytest.mark.parametrize(
    ("ends", "projection", "word"),
    [
        ((0.0, 1.0), LINE, "covers"),
        ((0.0, 0.02), LINE, "shifted"),
        ((0.6, 1.0), LINE, "shifted"),
        ((0.3, 0.7), LINE, "too-wide"),
        ((0.0, 0.02), RADIAL, "too-wide"),
        ((0.98, 1.0), RADIAL, "too-narrow"),
    ],
)
def test_a_rejection_is_named_by_where_the_ranks_lie(
    ends: tuple[float, float], projection: Projection, word: str
) -> None:
    assert meaning(np.random.default_rng(0).uniform(*ends, size=400), projection) == word


def test_ranks_at_both_ends_are_those_of_a_law_that_is_too_narrow() -> None:
    u = np.random.default_rng(0).uniform(0, 0.1, size=400)
    assert meaning(np.where(np.arange(400) % 2, u, 1 - u)) == "too-narrow"


def test_equal_laws_count_once_and_laws_that_are_no_draws_not_at_all() -> None:
    u = np.random.default_rng(0).uniform(size=400)
    (one,) = rank_tests.tests_of(*made(u, law=np.arange(400) % 50), 0.95, np.random.default_rng(0))
    assert one.n == 50
    assert rank_tests.tests_of(*made(u, law=np.zeros(400, dtype=np.int64)), 0.95, np.random.default_rng(0)) == ()
    assert rank_tests.tests_of(*made(u, untested="they are a grid"), 0.95, np.random.default_rng(0)) == ()


def test_no_deviation_is_seen_that_is_finer_than_the_draws() -> None:
    u = np.random.default_rng(0).uniform(size=4000)
    seen = [
        rank_tests.tests_of(*made(u, grain=grain), 0.95, np.random.default_rng(0))[0].detectable for grain in (0.0, 0.5)
    ]
    assert seen[0] < 0.05 and seen[1] == 0.5


def test_the_p_value_of_the_largest_deviation_is_that_of_scipy_and_the_band_holds_it() -> None:
    from scipy.stats import kstest

    u = np.random.default_rng(1).uniform(size=60)
    deviation, p = uniformity(u)
    theirs = kstest(u, "uniform")
    assert (deviation, p) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert band(60, 0.95) == pytest.approx(1.358 / 60**0.5, abs=1e-3)


def test_the_coverage_of_a_calibrated_interval_varies_with_the_rows_that_it_was_calibrated_on() -> None:
    rng, reject = np.random.default_rng(0), [0, 0]
    for _ in range(400):
        threshold = np.sort(rng.uniform(size=99))[89]
        held = int((rng.uniform(size=500) < threshold).sum())
        reject[0] += coverage_p(held, 500, 0.9, 99) <= 0.05
        reject[1] += coverage_p(held, 500, 0.9, 0) <= 0.05
    assert reject[0] <= 30 and reject[1] >= 100
