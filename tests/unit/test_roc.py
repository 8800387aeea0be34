"""Are areas, rates and differences those of a direct count over all pairs, ties and all?"""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, norm, t

from audits.statistics.roc import (
    DELONG,
    DISJOINT,
    TIED,
    Area,
    Roc,
    area,
    area_interval,
    best_advantage,
    call,
    call_at,
    difference,
    roc,
)

pytestmark = pytest.mark.numerical

CASES = {
    "apart": ([4.0, 3.0, 2.0, 1.0], [1, 1, 0, 0]),
    "the wrong way round": ([4.0, 3.0, 2.0, 1.0], [0, 0, 1, 1]),
    "one tie": ([3.0, 2.0, 2.0, 1.0], [1, 1, 0, 0]),
    "mixed": ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]),
    "all equal": ([5.0] * 6, [1, 0, 1, 0, 1, 1]),
    "one member": ([1.0, 2.0, 3.0, 2.0], [0, 0, 0, 1]),
    "one of each": ([1.0, 2.0], [1, 0]),
    "two values": ([1.0, 0.0, 1.0, 0.0, 0.0], [1, 1, 0, 0, 0]),
    "huge and tiny": ([1e300, -1e300, 5e-324, 0.0, -0.0], [1, 0, 1, 0, 1]),
}


def drawn(seed: int, *, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    m, n = rng.integers(2, 40, size=2)
    member = rng.permutation(np.arange(m + n) < m)
    scores = rng.normal(size=m + n) + member
    return (np.round(scores) if ties else scores), member


ALL = [
    *((np.array(scores), np.array(member, dtype=bool)) for scores, member in CASES.values()),
    *(drawn(seed, ties=bool(seed % 2)) for seed in range(12)),
]


def wins(scores: np.ndarray, member: np.ndarray) -> np.ndarray:
    """Return who wins each pair of a member (rows) and a non-member: 1, 0, or a half for a tie."""
    one, other = scores[member][:, None], scores[~member][None, :]
    return (one > other) + (one == other) / 2


def jackknifed(value, m: int, n: int) -> float:
    """Return the variance from leaving out one point at a time; `value` takes the rows and columns of pairs kept."""
    total = 0.0
    for axis, count in ((0, m), (1, n)):
        every = np.arange(count)
        ones = [value(*((every[every != i], np.arange(n)) if axis == 0 else (np.arange(m), every[every != i])))
                for i in range(count)]  # fmt: skip
        total += (count - 1) / count * float(((ones - np.mean(ones)) ** 2).sum())
    return total


@pytest.mark.parametrize(("scores", "member"), ALL)
def test_counts_at_every_threshold_are_those_of_counting(scores: np.ndarray, member: np.ndarray) -> None:
    found = roc(scores, member)
    assert found.thresholds[1:].tolist() == sorted(set(scores.tolist()), reverse=True)
    assert found.thresholds[0] == np.inf
    for place, threshold in enumerate(found.thresholds):
        reached = scores >= threshold
        assert found.hits[place] == (reached & member).sum()
        assert found.alarms[place] == (reached & ~member).sum()
        direct = call(scores, member, float(threshold))
        assert (direct.hits, direct.alarms) == (found.hits[place], found.alarms[place])
    assert (found.members, found.others) == (member.sum(), (~member).sum()) == (direct.members, direct.others)


@pytest.mark.parametrize(("scores", "member"), ALL)
def test_the_area_and_what_each_point_adds_are_those_of_all_pairs(scores: np.ndarray, member: np.ndarray) -> None:
    found, pairs = area(scores, member), wins(scores, member)
    assert found.value == pytest.approx(pairs.mean(), abs=1e-12)
    np.testing.assert_allclose(found.of_members, pairs.mean(1), atol=1e-12)
    np.testing.assert_allclose(found.of_others, pairs.mean(0), atol=1e-12)
    # The trapezoids under the curve are the same area.
    curve = roc(scores, member)
    under = np.trapezoid(curve.hits / curve.members, curve.alarms / curve.others)
    assert found.value == pytest.approx(under, abs=1e-12)


def test_the_area_does_not_depend_on_scale_or_order_and_turns_with_the_sign() -> None:
    scores, member = drawn(3, ties=True)
    found = area(scores, member).value
    order = np.random.default_rng(0).permutation(len(scores))
    assert area(np.exp(3 * scores) - 7, member).value == found
    assert area(scores[order], member[order]).value == pytest.approx(found, abs=1e-14)
    assert area(-scores, member).value == pytest.approx(1 - found, abs=1e-14)
    assert area(scores, ~member).value == pytest.approx(1 - found, abs=1e-14)


@pytest.mark.parametrize("seed", range(6))
def test_the_variance_is_that_of_leaving_points_out(seed: int) -> None:
    scores, member = drawn(seed, ties=bool(seed % 2))
    pairs = wins(scores, member)
    expected = jackknifed(lambda rows, columns: pairs[np.ix_(rows, columns)].mean(), *pairs.shape)
    assert area(scores, member).variance() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("case", "value", "variance"),
    # Of two values, members win 5/6 and 1/3 of their pairs, and non-members lose 1/4, 3/4 and 3/4 of theirs.
    [("apart", 1, 0), ("the wrong way round", 0, 0), ("one tie", 7 / 8, 1 / 32), ("mixed", 3 / 4, 1 / 8),
     ("all equal", 1 / 2, 0), ("one member", 1 / 2, 1 / 12), ("two values", 7 / 12, 1 / 16 + 1 / 36)],
)  # fmt: skip
def test_areas_by_hand(case: str, value: float, variance: float) -> None:
    scores, member = CASES[case]
    found = area(np.array(scores), np.array(member, dtype=bool))
    assert found.value == pytest.approx(value)
    assert found.variance() == pytest.approx(variance)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_an_interval_by_hand(level: float) -> None:
    scores, member = CASES["mixed"]
    low, high, method = area_interval(area(np.array(scores), np.array(member, dtype=bool)), level)
    # Each side has two points and a variance of 1/16: two degrees of freedom in all.
    wide = t.isf((1 - level) / 2, 2) * (1 / 8) ** 0.5 / (3 / 16)
    assert (low, high) == pytest.approx((expit(logit(0.75) - wide), expit(logit(0.75) + wide)))
    assert method == f"{DELONG}, or Newcombe where wider"


def test_the_wider_interval_is_newcombes() -> None:
    # Ten members beside 200 others, all but one above all of them: ranks of members hardly vary.
    scores = np.concatenate((np.full(9, 300.0), [180.5], np.arange(200.0)))
    found = area(scores, np.arange(210) < 10)
    low, high, _ = area_interval(found, 0.95)
    # The area met lies 1.96 standard errors of the lower end above that end.
    spread = low * (1 - low) * (1 + 104 * (1 - low) / (2 - low) + 104 * low / (1 + low)) / 2000
    assert found.value - low == pytest.approx(1.959964 * spread**0.5, rel=1e-5)
    assert found.value == pytest.approx(0.9905) and low < 0.9 < found.value < high < 1


@pytest.mark.parametrize(
    ("members", "others", "value"), [(10, 200, 0.96), (200, 10, 0.96), (10, 200, 0.7), (5, 60, 0.9), (60, 60, 0.99)]
)
@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_areas_are_covered(members: int, others: int, value: float, spread: float) -> None:
    # 10 beside 200 at .96: DeLong on the logit scale alone covers 87 %, or 73 % where members spread three times wider.
    rng, repeats = np.random.default_rng(members), 600
    shift = norm.ppf(value) * (1 + spread**2) ** 0.5
    member = np.arange(members + others) < members
    held = 0
    for _ in range(repeats):
        scores = np.where(member, rng.normal(shift, spread, members + others), rng.normal(size=members + others))
        low, high, _ = area_interval(area(scores, member), 0.95)
        held += low <= value <= high
    assert held >= binom.ppf(0.001, repeats, 0.94)


@pytest.mark.parametrize(("scores", "member"), ALL)
def test_an_interval_holds_its_value_within_nought_and_one(scores: np.ndarray, member: np.ndarray) -> None:
    found = area(scores, member)
    ends = [area_interval(found, level) for level in (0.5, 0.9, 0.99)]
    for low, high, _ in ends:
        assert 0 <= low <= found.value <= high <= 1
    lows, highs, _ = zip(*ends, strict=True)
    assert list(lows) == sorted(lows, reverse=True)
    assert list(highs) == sorted(highs)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 50), (30, 30), (200, 20)])
def test_scores_that_lie_apart_prove_as_much_as_that_many_pairs(m: int, n: int) -> None:
    scores, member = np.arange(m + n, dtype=float), np.arange(m + n) >= n
    low, high, method = area_interval(area(scores, member), 0.95)
    # Of min(m, n) independent pairs all were won.
    assert (low, high, method) == (pytest.approx(0.025 ** (1 / min(m, n))), 1.0, DISJOINT)
    low, high, _ = area_interval(area(-scores, member), 0.95)
    assert (low, high) == (0.0, pytest.approx(1 - 0.025 ** (1 / min(m, n))))


def test_equal_scores_prove_that_most_pairs_tie() -> None:
    # Of ten pairs without a common point all tied, so that at least 69 % of all pairs do.
    low, high, method = area_interval(area(np.ones(20), np.arange(20) < 10), 0.95)
    assert (low, high, method) == (pytest.approx(0.025**0.1 / 2), pytest.approx(1 - 0.025**0.1 / 2), TIED)


@pytest.mark.parametrize("seed", range(6))
def test_a_difference_is_that_of_leaving_points_out_of_both(seed: int) -> None:
    scores, member = drawn(seed, ties=bool(seed % 2))
    again = np.round(scores + np.random.default_rng(seed).normal(size=len(scores)) / 2, 1)
    one, two = wins(scores, member), wins(again, member)
    found = difference(area(scores, member), area(again, member), 0.9)
    apart = one - two
    error = jackknifed(lambda rows, columns: apart[np.ix_(rows, columns)].mean(), *apart.shape) ** 0.5
    value = one.mean() - two.mean()
    assert found.value == pytest.approx(value, abs=1e-12)
    wide = norm.isf(0.05) * error
    assert (found.low, found.high) == pytest.approx((max(-1, value - wide), min(1, value + wide)), abs=1e-9)
    assert found.p == pytest.approx(2 * norm.sf(abs(value) / error), rel=1e-6)


def test_a_difference_of_the_same_scores_is_nothing_and_turns_with_the_order() -> None:
    scores, member = drawn(5, ties=False)
    first, second = area(scores, member), area(np.sin(scores), member)
    same = difference(first, first, 0.95)
    assert (same.value, same.p) == (0.0, 1.0)
    assert same.low <= 0 <= same.high
    found, turned = difference(first, second, 0.95), difference(second, first, 0.95)
    assert (turned.value, turned.low, turned.high) == pytest.approx((-found.value, -found.high, -found.low))
    assert turned.p == pytest.approx(found.p)
    # Scores of the same points go up and down together: the paired interval is the shorter one.
    close = area(scores + np.random.default_rng(0).normal(size=len(scores)) / 4, member)
    paired = difference(first, close, 0.95)
    assert paired.high - paired.low < 2 * norm.isf(0.025) * (first.variance() + close.variance()) ** 0.5 / 2


def test_a_difference_stays_within_its_range() -> None:
    first = Area(0.9, np.array([1.0, 0.8]), np.array([1.0, 0.8]))
    second = Area(0.1, np.array([0.0, 0.2]), np.array([0.2, 0.0]))
    found = difference(first, second, 0.999)
    assert found.value == pytest.approx(0.8)
    assert -1 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("points", [5, 20, 500])
def test_scores_that_do_not_vary_are_as_sure_as_their_number(points: int) -> None:
    member = np.arange(2 * points) >= points
    perfect = area(np.arange(2.0 * points), member)
    equal, wrong = area(np.ones(2 * points), member), area(-np.arange(2.0 * points), member)
    # Of that many pairs all were won: at half the error, with what is not known of equal scores.
    low = 0.0125 ** (1 / points)
    found = difference(perfect, equal, 0.95)
    assert found.value == 0.5
    assert (found.low, found.high) == pytest.approx((low - 1, 1.0))
    assert found.p == 1.0
    found = difference(perfect, wrong, 0.95)
    assert (found.low, found.high) == pytest.approx((2 * low - 1, 1.0))
    assert (found.p <= 0.051) == (2 * low - 1 > 0)


@pytest.mark.parametrize(("scores", "member"), ALL)
def test_the_best_advantage_is_that_of_trying_every_threshold(scores: np.ndarray, member: np.ndarray) -> None:
    value, low, high = best_advantage(roc(scores, member), 0.95)
    tried = [(scores[member] >= t).mean() - (scores[~member] >= t).mean() for t in [*scores, np.inf]]
    assert value == pytest.approx(max(*tried, 0.0))
    room = sum(np.sqrt(log(2 / 0.025) / (2 * n)) for n in (member.sum(), (~member).sum()))
    assert (low, high) == pytest.approx((max(0, value - room), min(1, value + room)))


@pytest.mark.parametrize("mu", [0.0, 1.0, 2.5])
def test_the_interval_of_the_best_advantage_holds_the_true_one(mu: float) -> None:
    rng, member = np.random.default_rng(1), np.arange(200) < 100
    true = 2 * norm.cdf(mu / 2) - 1
    found = [best_advantage(roc(rng.normal(size=200) + mu * member, member), 0.5) for _ in range(200)]
    # At a level of one half it is wrong in far less than half of the cases, and the value is too high.
    assert np.mean([low <= true <= high for _, low, high in found]) > 0.9
    assert np.mean([value for value, _, _ in found]) > true


def stairs(others: int) -> Roc:
    """Return a curve on which one more alarm is paid for one more hit, at each of `others` steps."""
    steps = np.arange(others + 1)
    return Roc(np.concatenate(([np.inf], -steps[1:].astype(float))), steps, steps)


@pytest.mark.parametrize("others", [1, 3, 7, 10, 49, 50, 100, 250, 1000, 1250, 12_345, 100_000, 1_000_000])
def test_a_rate_of_alarms_on_a_step_is_met_and_never_exceeded(others: int) -> None:
    curve = stairs(others)
    for text in ("0.5", "0.3", "0.29", "0.1", "0.07", "0.06", "0.035", "0.01", "0.0057", "0.001", "0.0001", "0.00007"):
        found = call_at(curve, float(text))
        # In whole numbers: as many alarms as fit, and not one more.
        assert found.alarms == int(Fraction(text) * others), text
        assert found.hits == found.alarms
        assert found.threshold == curve.thresholds[found.alarms]


@pytest.mark.parametrize("others", [3, 7, 11, 13, 49, 98, 103, 997])
def test_a_rate_that_is_a_quotient_is_met_on_its_step(others: int) -> None:
    curve = stairs(others)
    assert [call_at(curve, k / others).alarms for k in range(others + 1)] == list(range(others + 1))
    assert [call_at(curve, (k - 0.001) / others).alarms for k in range(1, others + 1)] == list(range(others))


@pytest.mark.parametrize(("scores", "member"), ALL)
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2, 1 / 3, 0.5, 0.75, 1.0])
def test_no_threshold_within_the_rate_has_more_hits(scores: np.ndarray, member: np.ndarray, rate: float) -> None:
    curve = roc(scores, member)
    found = call_at(curve, rate)
    allowed = [h for h, a in zip(curve.hits, curve.alarms, strict=True) if a / curve.others <= rate]
    assert found.alarms / found.others <= rate
    assert found.hits == max(allowed)
    direct = call(scores, member, found.threshold)
    assert (direct.hits, direct.alarms) == (found.hits, found.alarms)
