"""Have estimates built from what each speaker moves the errors and intervals of the textbook?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from audits.statistics.influences import Moved, left_out, rate
from audits.statistics.linearised import linearised_differences

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]


def all_of(units: int) -> NDArray[np.bool_]:
    return np.ones((1, units), dtype=bool)


def strata_of(*sizes: int) -> NDArray[np.bool_]:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    found: NDArray[np.bool_] = labels == np.arange(len(sizes))[:, None]
    return found


def mean_of(values: Floats, inside: NDArray[np.bool_] | None = None) -> Moved:
    """Return a mean over some units, each of one trial."""
    inside = np.ones(len(values), dtype=bool) if inside is None else inside
    return rate(np.where(inside, values, 0.0), inside.astype(float))


def counts(seed: int, units: int = 12) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 30, units).astype(float)
    return rng.binomial(trials.astype(int), rng.uniform(0.2, 0.9, units)).astype(float), trials


NUMBERS = st.lists(st.floats(-50, 50), min_size=4, max_size=4).map(np.array)


@settings(deadline=None)
@given(one=NUMBERS, other=NUMBERS, third=NUMBERS)
def test_estimates_add_and_subtract_as_their_values_and_moves_do(one: Floats, other: Floats, third: Floats) -> None:
    a, b, c = (Moved(float(moves.sum()), moves) for moves in (one, other, third))
    found, expected = a - b + c, Moved(a.value - b.value + c.value, one - other + third)
    assert found.value == pytest.approx(expected.value) and found.moves == pytest.approx(expected.moves)
    nothing = a - a
    assert nothing.value == 0 and not nothing.moves.any()
    assert nothing.error(all_of(4))[0] == 0 and nothing.p(all_of(4)) == 1.0
    back = a + b - b
    assert back.value == pytest.approx(a.value) and back.moves == pytest.approx(a.moves, abs=1e-9)


def test_a_logarithm_is_moved_by_the_delta_method() -> None:
    s, n = counts(0)
    found, plain = rate(s, n).log(), rate(s, n)
    assert found.value == pytest.approx(np.log(s.sum() / n.sum()))
    assert found.moves == pytest.approx(plain.moves / plain.value)


def test_a_unit_moves_a_rate_by_what_leaving_it_out_would() -> None:
    s, n = counts(1)
    found = rate(s, n)
    for unit in range(12):
        left = np.arange(12) != unit
        assert found.moves[unit] == pytest.approx(11 / 12 * (found.value - s[left].sum() / n[left].sum()))


def test_a_rate_of_units_of_one_size_is_moved_as_its_linear_part() -> None:
    s = counts(2)[0]
    found = rate(s, np.full(12, 9.0))
    assert found.moves == pytest.approx((s - s.mean()) / 108)


def test_one_large_unit_leaves_few_degrees_of_freedom() -> None:
    s, n = counts(3)
    found, sizes = rate(s, n), np.where(np.arange(12) == 0, 100.0, 1.0)
    assert found.error(all_of(12), np.full(12, 7.0)) == pytest.approx(found.error(all_of(12)))
    assert found.error(all_of(12), sizes)[1] == pytest.approx(1, abs=0.25)


def test_repetitions_are_part_of_the_error() -> None:
    still, shaken = Moved(0.5, np.zeros(8), np.array([0.4, 0.6])), Moved(0.5, np.zeros(8), np.array([0.4, 0.6]))
    assert still.error(all_of(8))[0] == pytest.approx(0.1)
    # The same repetitions: what they share is no chance.
    assert (still - shaken).error(all_of(8))[0] == 0
    assert still.log().draws == pytest.approx([0.8, 1.2])


@pytest.mark.parametrize("seed", range(5))
def test_differences_of_rates_have_the_error_of_the_jackknife(seed: int) -> None:
    """Of other people, and of the same people twice; close to the linearised one."""
    (s, n), (t, m) = counts(seed), counts(seed + 100)
    apart = tuple(np.concatenate(pair) for pair in ((s, 0 * t), (n, 0 * m), (0 * s, t), (0 * n, m)))
    for (e1, n1, e2, n2), strata in ((apart, strata_of(12, 12)), ((s, n, t, m), all_of(12))):
        found = rate(e1, n1) - rate(e2, n2)
        columns = [part[:, None] for part in (e1, e2, n1, n2)]
        expected = linearised_differences((columns[0], columns[1]), (columns[2], columns[3]))
        without = np.array([_without(e1, n1, unit) - _without(e2, n2, unit) for unit in range(len(e1))])
        parts = [without[inside] for inside in strata]
        squares = sum((len(part) - 1) / len(part) * ((part - part.mean()) ** 2).sum() for part in parts)
        assert found.value == pytest.approx(float(expected.value[0]))
        assert found.error(strata)[0] == pytest.approx(np.sqrt(squares))
        assert found.error(strata)[0] == pytest.approx(float(expected.error[0]), rel=0.25)


def _without(e: np.ndarray, n: np.ndarray, unit: int) -> float:
    left = np.arange(len(e)) != unit
    return float(e[left].sum() / n[left].sum())


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_the_interval_of_one_mean_is_students(level: float) -> None:
    from scipy.stats import ttest_1samp

    values = np.random.default_rng(2).gamma(2.0, size=9)
    found, oracle = mean_of(values), ttest_1samp(values, 0.0)
    assert found.interval(all_of(9), level) == pytest.approx(tuple(oracle.confidence_interval(level)))
    assert found.p(all_of(9)) == pytest.approx(oracle.pvalue, rel=1e-9)


@pytest.mark.parametrize(("units", "spread"), [((9, 9), 1.0), ((4, 25), 5.0), ((30, 3), 0.2), ((2, 2), 1.0)])
def test_the_interval_of_two_means_is_welchs(units: tuple[int, int], spread: float) -> None:
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(3)
    one, other = rng.normal(1, 1, units[0]), rng.normal(0, spread, units[1])
    values, strata = np.concatenate([one, other]), strata_of(*units)
    found = mean_of(values, strata[0]) - mean_of(values, strata[1])
    oracle = ttest_ind(one, other, equal_var=False)
    assert found.error(strata)[1] == pytest.approx(oracle.df)
    assert found.interval(strata, 0.95) == pytest.approx(tuple(oracle.confidence_interval(0.95)))
    assert found.p(strata) == pytest.approx(oracle.pvalue, rel=1e-9)


def test_the_same_people_twice_are_a_paired_test() -> None:
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(4)
    skill = rng.normal(0, 3, 15)
    one, other = skill + rng.normal(0.5, 0.3, 15), skill + rng.normal(0, 0.3, 15)
    paired = mean_of(one) - mean_of(other)
    oracle = ttest_rel(one, other)
    assert paired.interval(all_of(15), 0.95) == pytest.approx(tuple(oracle.confidence_interval(0.95)))
    assert paired.p(all_of(15)) == pytest.approx(oracle.pvalue, rel=1e-9)
    values, strata = np.concatenate([one, other]), strata_of(15, 15)
    alone = mean_of(values, strata[0]) - mean_of(values, strata[1])
    assert alone.value == pytest.approx(paired.value)
    assert paired.error(all_of(15))[0] < alone.error(strata)[0] / 4


def jackknife(statistic, *columns: Floats) -> tuple[float, Floats, float]:
    """Return a statistic, its values without each unit, and the textbook's delete-one standard error."""
    n = len(columns[0])
    without = np.array([statistic(*(np.delete(column, unit) for column in columns)) for unit in range(n)])
    return statistic(*columns), without, float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))


STATISTICS = {
    "mean": lambda s, n: s.mean(),
    "ratio": lambda s, n: s.sum() / n.sum(),
    "log of a variance": lambda s, n: np.log(s.var(ddof=1)),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("units", [2, 5, 30])
def test_what_is_left_out_gives_the_jackknifes_error(name: str, units: int) -> None:
    if name.startswith("log") and units < 3:
        units = 3
    value, without, error = jackknife(STATISTICS[name], *counts(5, units))
    found = left_out(value, without, all_of(units))
    assert found.value == value
    assert found.error(all_of(units)) == pytest.approx((error, units - 1))
    assert found.moves.sum() == pytest.approx(0, abs=1e-9)


def test_for_a_mean_leaving_out_is_the_same_as_moving() -> None:
    values = np.random.default_rng(6).normal(size=8)
    value, without, error = jackknife(np.mean, values)
    assert left_out(value, without, all_of(8)).moves == pytest.approx(mean_of(values).moves)
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(8))


def test_strata_are_left_out_by_themselves() -> None:
    """A difference of two means, with each person left out in turn, is Welch's."""
    rng = np.random.default_rng(7)
    values, strata = rng.normal(size=13), strata_of(9, 4)
    labels = strata.argmax(0)

    def gap(kept: NDArray[np.intp]) -> float:
        return float(values[kept][labels[kept] == 0].mean() - values[kept][labels[kept] == 1].mean())

    everyone = np.arange(13)
    without = np.array([gap(np.delete(everyone, unit)) for unit in range(13)])
    found = left_out(gap(everyone), without, strata)
    expected = mean_of(values, strata[0]) - mean_of(values, strata[1])
    assert found.moves == pytest.approx(expected.moves)
    assert found.interval(strata, 0.95) == pytest.approx(expected.interval(strata, 0.95))


def test_who_is_in_no_stratum_moves_nothing() -> None:
    without = np.array([1.0, 2.0, 3.0, 99.0, np.nan])
    strata = np.array([[True, True, True, False, False]])
    found = left_out(2.0, without, strata)
    assert found.moves.tolist() == pytest.approx([2 / 3, 0, -2 / 3, 0, 0])
    assert found.error(strata) == pytest.approx((2 / np.sqrt(3), 2))
    assert Moved(2.0, np.array([-1.0, 1.0, 50.0])).error(np.array([[True, True, False]]))[0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("sizes", "moves"),
    [((1,), [0.3]), ((3, 1), [0.1, -0.1, 0.0, 0.5]), ((1, 1), [0.2, -0.2]), ((1, 3), [-0.4, 0.1, 0.2, -0.3])],
)
def test_of_one_unit_nothing_is_known(sizes: tuple[int, ...], moves: list[float]) -> None:
    found, strata = Moved(0.7, np.array(moves)), strata_of(*sizes)
    assert np.isnan(found.error(strata)).all()
    assert found.interval(strata, 0.95) is None
    assert found.p(strata) == 1.0


@pytest.mark.parametrize(("successes", "trials"), [(1.0, 3.0), (7.0, 10.0), (5.0, 5.0), (0.0, 4.0), (11.0, 49.0)])
def test_the_rate_of_one_speaker_has_no_interval(successes: float, trials: float) -> None:
    """A lone speaker moves a rate by nothing, which is no knowledge."""
    found = rate(np.array([successes]), np.array([trials]))
    assert found.interval(all_of(1), 0.95) is None
    beside = rate(np.array([successes, 0.0, 0.0]), np.array([trials, 0.0, 0.0]))
    assert beside.interval(np.array([[True, False, False]]), 0.95) is None
    again = left_out(0.5, np.array([np.nan]), all_of(1))
    assert again.interval(all_of(1), 0.95) is None


def test_what_a_whole_stratum_moves_is_no_error() -> None:
    """Of people drawn from each stratum by itself, only how they differ from their own stratum counts."""
    rng = np.random.default_rng(9)
    moves, strata = rng.normal(size=12), strata_of(7, 5)
    variance = sum(len(part) * part.var(ddof=1) for part in np.split(moves, [7]))
    found = Moved(1.0, moves)
    assert found.error(strata)[0] == pytest.approx(np.sqrt(variance))
    moved = Moved(1.0, moves + np.where(strata[0], 3.0, -8.0))
    assert moved.error(strata) == pytest.approx(found.error(strata))


def test_a_stratum_that_the_estimate_is_not_of_is_no_matter() -> None:
    values = np.array([1.0, 4.0, 2.0, 5.0, 6.0])
    strata = strata_of(3, 2)
    alone = mean_of(values, strata[0])
    assert alone.error(strata) == pytest.approx(alone.error(strata[:1]))
    assert alone.error(strata)[1] == pytest.approx(2)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """A pooled rate over 20 speakers of unequal rates and sizes, in 1000 samples."""
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(1000):
        trials = rng.integers(10, 30, 20)
        successes = rng.binomial(trials, rng.beta(6, 4, 20))
        low, high = rate(successes.astype(float), trials.astype(float)).interval(all_of(20), 0.9) or (2.0, 2.0)
        covered += low <= 0.6 <= high
    assert 860 < covered < 930
