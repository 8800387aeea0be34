"""Are languages relabelled as wholes, and is every arrangement looked at where that is said?"""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from audits.statistics.qap import BLOCK_CELLS, Undefined, permutation_test, symmetries

pytestmark = pytest.mark.numerical


def same(*labels: int) -> np.ndarray:
    return np.equal.outer(labels, labels).astype(float)


def off(matrix: np.ndarray) -> np.ndarray:
    return matrix[~np.eye(len(matrix), dtype=bool)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def cells(n: int, seed: int = 0) -> np.ndarray:
    """Cells with effects of rows and columns."""
    draw = rng(seed)
    matrix = draw.normal(size=(n, n)) + 2 * draw.normal(size=(n, 1)) + draw.normal(size=n)
    np.fill_diagonal(matrix, np.nan)
    return matrix


def by_hand(statistic: str, y: np.ndarray, x: np.ndarray) -> float:
    if statistic == "difference":
        return float(y[x == 1].mean() - y[x == 0].mean())
    return float(spearmanr(y, x).statistic if statistic == "spearman" else np.polyfit(x, y, 1)[0])


@pytest.mark.parametrize("statistic", ["difference", "spearman", "slope"])
@pytest.mark.parametrize("seed", range(3))
def test_all_arrangements_against_a_loop(statistic: str, seed: int) -> None:
    n, y = 5, cells(5, seed)
    x = same(0, 0, 1, 1, 2) if statistic == "difference" else rng(seed + 9).normal(size=(n, n))
    values = []
    for order in permutations(range(n)):
        moved = x[np.ix_(order, order)]
        values.append(by_hand(statistic, off(y), off(moved)))
    found = permutation_test(y, x, statistic=statistic, rng=rng())
    far = np.abs(np.array(values) - np.mean(values))
    assert found.value == pytest.approx(values[0])
    assert found.p == pytest.approx((far >= far[0] - 1e-9).mean())
    assert found.exact and found.arrangements == len({off(x[np.ix_(o, o)]).tobytes() for o in orders(n)})
    assert (found.cells, found.languages) == (20, 5)


def orders(n: int) -> list[tuple[int, ...]]:
    return list(permutations(range(n)))


@pytest.mark.parametrize(
    ("labels", "ways"),
    [((0, 0, 1, 1, 2, 2), 15), ((0, 0, 0, 1, 1, 2), 60), ((0, 0, 0, 0, 0, 1), 6), ((0, 0, 1, 1), 3), ((0, 1, 1, 1), 4)],
)
def test_classes_of_few_languages_have_few_arrangements(labels: tuple[int, ...], ways: int) -> None:
    x = same(*labels)
    # The strongest cells that there can be.
    found = permutation_test(x + 0.001 * cells(len(labels)), x, statistic="difference", rng=rng())
    assert (found.arrangements, found.exact) == (ways, True)
    assert found.p == found.smallest_p == pytest.approx(1 / ways)
    assert symmetries(x) == math.factorial(len(labels)) // ways


def test_drawn_orders_of_few_arrangements_never_go_below_what_can_be() -> None:
    x = same(*[0] * 8, 1)
    found = [
        permutation_test(x + 0.001 * cells(9, seed), x, statistic="difference", rng=rng(seed), repeats=300)
        for seed in range(20)
    ]
    assert all(one.arrangements == 9 and not one.exact and one.smallest_p == pytest.approx(1 / 9) for one in found)
    assert all(one.p >= 1 / 9 for one in found)
    assert np.mean([one.p for one in found]) == pytest.approx(1 / 9, abs=0.03)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (same(0, 0, 1, 1, 2, 2, 3), 2**3 * 6),
        (same(*range(9)) + 1.0, math.factorial(9)),
        (np.arange(36.0).reshape(6, 6), 1),
        (np.subtract.outer(np.array([0, 0, 1, 2]), np.array([0, 0, 1, 2])), 2),
    ],
)
def test_symmetries(x: np.ndarray, expected: int) -> None:
    assert symmetries(x) == expected


def test_a_covariate_whose_sign_can_be_turned_has_two_best_arrangements() -> None:
    size = np.array([0.0, 1.0, 2.0, 3.0])
    x = np.subtract.outer(size, size)
    found = permutation_test(x, x, statistic="slope", rng=rng())
    assert found.value == pytest.approx(1) and found.arrangements == 24
    assert found.p == found.smallest_p == pytest.approx(2 / 24)


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 6), st.integers(0, 10**6), st.sampled_from(["difference", "spearman", "slope"]), st.booleans())
def test_p_lies_between_the_smallest_and_one_and_follows_no_names(
    n: int, seed: int, statistic: str, holes: bool
) -> None:
    draw = rng(seed)
    y = np.round(draw.normal(size=(n, n)), 1)
    x = (draw.random((n, n)) < 0.4).astype(float)
    if holes:
        y[draw.random((n, n)) < 0.2] = np.nan
    try:
        found = permutation_test(y, x, statistic=statistic, rng=rng())
    except Undefined:
        return
    assert found.smallest_p - 1e-12 <= found.p <= 1 and math.isfinite(found.value)
    order = draw.permutation(n)
    again = permutation_test(y[np.ix_(order, order)], x[np.ix_(order, order)], statistic=statistic, rng=rng())
    assert (again.value, again.p) == pytest.approx((found.value, found.p), abs=1e-9)
    turned = permutation_test(-3 * y, x, statistic=statistic, rng=rng())
    assert turned.p == pytest.approx(found.p)
    assert turned.value == pytest.approx(-found.value * (1 if statistic == "spearman" else 3), abs=1e-9)


@pytest.mark.parametrize("statistic", ["slope", "spearman"])
def test_missing_cells_stay_where_they_are(statistic: str) -> None:
    centred = 0
    for seed in range(12):
        y, x = cells(5, seed), np.round(rng(seed + 50).exponential(size=(5, 5)), 1)
        y[1, 2:] = y[3, 0] = np.nan
        here = np.isfinite(y) & ~np.eye(5, dtype=bool)
        # The ranks, too, are those of the cells that are there.
        ranked = rankdata if statistic == "spearman" else np.asarray
        values = np.array([np.corrcoef(ranked(y[here]), ranked(x[np.ix_(o, o)][here]))[0, 1] for o in orders(5)])
        found = permutation_test(y, x, statistic=statistic, rng=rng())
        far = np.abs(values - values.mean())
        assert found.cells == here.sum() and found.value == pytest.approx(by_hand(statistic, y[here], x[here]))
        assert found.p == pytest.approx((far >= far[0] - 1e-9).mean())
        centred += found.p != pytest.approx((np.abs(values) >= np.abs(values[0]) - 1e-9).mean())
    # Without some cells the mean arrangement is not at 0.
    assert centred > 0


def test_drawn_orders_come_near_to_all() -> None:
    y, x = cells(7, 1), rng(2).normal(size=(7, 7))
    whole = permutation_test(y, x, statistic="slope", rng=rng())
    drawn = permutation_test(y, x, statistic="slope", rng=rng(), repeats=4000, enumerated=6)
    assert whole.exact and not drawn.exact and drawn.arrangements == 4001
    assert drawn.smallest_p == pytest.approx(1 / 4001) and drawn.value == whole.value
    assert abs(drawn.p - whole.p) < 4 * math.sqrt(whole.p * (1 - whole.p) / 4000) + 0.003


def test_more_orders_than_are_held_at_once_are_each_looked_at_once() -> None:
    x = rng().normal(size=(9, 9))
    repeats = BLOCK_CELLS // x.size + 1
    assert permutation_test(x, x, statistic="slope", rng=rng(), repeats=repeats).p == 1 / (repeats + 1)


def test_the_adjusted_slope_is_that_of_least_squares() -> None:
    y, x, z = cells(9), rng(1).normal(size=(9, 9)), rng(2).normal(size=(9, 9))
    y[2, 4] = np.nan
    here = np.isfinite(y) & ~np.eye(9, dtype=bool)
    expected = np.linalg.lstsq(np.stack([np.ones(here.sum()), x[here], z[here]], 1), y[here], rcond=None)[0][1]
    found = permutation_test(y, x, statistic="slope", adjust=[z], rng=rng(), repeats=200)
    assert found.value == pytest.approx(expected)
    # A covariate twice is no other model.
    twice = permutation_test(y, x, statistic="slope", adjust=[z, 2 * z], rng=rng(), repeats=200)
    assert (twice.value, twice.p) == pytest.approx((found.value, found.p))


SCRIPT = same(0, 0, 1, 1, 2, 2)


@pytest.mark.parametrize(
    ("matrix", "covariate", "adjust", "why"),
    [
        (cells(3), same(0, 0, 1), [], "too few"),
        (np.full((5, 5), np.nan), same(0, 0, 1, 1, 1), [], "no cell"),
        (cells(6), same(0, 0, 0, 0, 0, 0), [], "same for all cells"),
        (cells(6), same(*range(6)), [], "same for all cells"),
        (np.ones((6, 6)), SCRIPT, [], "all alike"),
        (np.where(SCRIPT == 0, cells(6), np.nan), SCRIPT, [], "same for all cells"),
        (cells(6), SCRIPT, [SCRIPT], "follows from"),
        (cells(6), SCRIPT, [1.0 - SCRIPT], "follows from"),
    ],
)
def test_where_there_is_no_test_it_says_why(
    matrix: np.ndarray, covariate: np.ndarray, adjust: list[np.ndarray], why: str
) -> None:
    statistics = ["slope"] if adjust else ["difference", "spearman", "slope"]
    for statistic in statistics:
        with pytest.raises(Undefined, match=why):
            permutation_test(matrix, covariate, statistic=statistic, adjust=adjust, rng=rng())


@pytest.mark.parametrize(
    ("covariate", "more", "why"),
    [
        (same(0, 0, 1, 1), {"statistic": "slope"}, "square shape"),
        (np.where(SCRIPT == 1, np.nan, 0.0), {"statistic": "slope"}, "missing cells"),
        (2 * SCRIPT, {"statistic": "difference"}, "0 or 1"),
        (SCRIPT, {"statistic": "difference", "adjust": [cells(6)]}, "only the slope"),
    ],
)
def test_wrong_use_is_refused(covariate: np.ndarray, more: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        permutation_test(cells(6), covariate, rng=rng(), **more)
