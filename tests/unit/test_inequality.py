"""Are the indices of inequality those of their definitions, and do their parts make up the whole?"""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from audits.statistics import cluster_weights
from audits.statistics.inequality import Split, atkinson, differential_fairness, generalised_entropy

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]
Index = Callable[[Floats, NDArray[np.int64], Floats], Split]
ALPHAS = (0.0, 0.5, 1.0, 2.0, 3.0)
EPSILONS = (0.25, 0.5, 0.9, 1.0, 1.5, 2.0)
INDICES = [partial(generalised_entropy, alpha=alpha) for alpha in ALPHAS]
INDICES += [partial(atkinson, epsilon=epsilon) for epsilon in EPSILONS]


def named(index: object) -> str:
    return f"{index.func.__name__}-{index.keywords}"  # type: ignore[attr-defined]


def one(index: Index, benefits: list[float] | Floats, groups: list[int] | None = None) -> tuple[float, float, float]:
    numbers = np.asarray(benefits, dtype=float)
    split = index(numbers, np.array(groups or [0] * len(numbers)), np.ones((1, len(numbers))))
    return float(split.total[0]), float(split.between[0]), float(split.within[0])


def entropy_by_hand(benefits: list[float], alpha: float) -> float:
    n, mean = len(benefits), sum(benefits) / len(benefits)
    if alpha == 0:
        return sum(np.log(mean / b) for b in benefits) / n
    if alpha == 1:
        return sum(b / mean * np.log(b / mean) for b in benefits if b > 0) / n
    return sum((b / mean) ** alpha - 1 for b in benefits) / (n * alpha * (alpha - 1))


def equivalent_by_hand(benefits: list[float], epsilon: float) -> float:
    if epsilon >= 1 and min(benefits) == 0:
        return 0.0
    if epsilon == 1:
        return float(np.prod(benefits) ** (1 / len(benefits)))
    return float((sum(b ** (1 - epsilon) for b in benefits) / len(benefits)) ** (1 / (1 - epsilon)))


def samples(zeros: bool) -> tuple[Floats, NDArray[np.int64], Floats]:
    rng = np.random.default_rng(3)
    benefits = rng.uniform(0.1, 1.0, 17)
    if zeros:
        benefits[[2, 5, 11]] = 0.0
    # The last group is so small that some samples have nobody of it.
    groups = np.array([0] * 7 + [1] * 5 + [2] * 4 + [3])
    return benefits, groups, cluster_weights(17, 40, rng)


def drawn(benefits: Floats, groups: NDArray[np.int64], weights: Floats) -> list[list[float]]:
    """Return the benefits of each group in one sample, everybody as often as drawn."""
    rows = [np.repeat(benefits[groups == g], weights[groups == g].astype(int)).tolist() for g in range(4)]
    return [row for row in rows if row]


@pytest.mark.parametrize(("alpha", "zeros"), [(alpha, zeros) for zeros in (False, True) for alpha in ALPHAS[zeros:]])
def test_entropy_is_that_of_loops_over_speakers(alpha: float, zeros: bool) -> None:
    benefits, groups, weights = samples(zeros)
    split = generalised_entropy(benefits, groups, weights, alpha=alpha)
    for place, counts in enumerate(weights):
        rows = drawn(benefits, groups, counts)
        everybody = [b for row in rows for b in row]
        means = [np.mean(row) for row in rows for _ in row]
        mean = np.mean(everybody)
        within = sum(
            len(row) / len(everybody) * (np.mean(row) / mean) ** alpha * entropy_by_hand(row, alpha)
            for row in rows
            if np.mean(row) > 0
        )
        assert split.total[place] == pytest.approx(entropy_by_hand(everybody, alpha), abs=1e-13)
        assert split.between[place] == pytest.approx(entropy_by_hand(means, alpha), abs=1e-13)
        assert split.within[place] == pytest.approx(within, abs=1e-13)
    assert np.abs(split.between + split.within - split.total).max() < 1e-12
    assert split.total.min() > 0.01


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_atkinson_is_that_of_loops_over_speakers(epsilon: float, zeros: bool) -> None:
    benefits, groups, weights = samples(zeros)
    split = atkinson(benefits, groups, weights, epsilon=epsilon)
    for place, counts in enumerate(weights):
        rows = drawn(benefits, groups, counts)
        everybody = [b for row in rows for b in row]
        own = [equivalent_by_hand(row, epsilon) for row in rows for _ in row]
        total = 1 - equivalent_by_hand(everybody, epsilon) / np.mean(everybody)
        between = 1 - equivalent_by_hand(own, epsilon) / np.mean(own) if any(own) else 0.0
        assert split.total[place] == pytest.approx(total, abs=1e-13)
        assert split.between[place] == pytest.approx(between, abs=1e-12)
        assert split.within[place] == pytest.approx(1 - np.mean(own) / np.mean(everybody), abs=1e-13)
    assert np.abs((1 - split.between) * (1 - split.within) - (1 - split.total)).max() < 1e-12


@pytest.mark.parametrize(
    ("index", "benefits", "value"),
    [
        (partial(generalised_entropy, alpha=2.0), [1, 0], 0.5),
        (partial(generalised_entropy, alpha=1.0), [1, 0], np.log(2)),
        (partial(generalised_entropy, alpha=1.0), [0, 0, 0, 1], np.log(4)),
        (partial(generalised_entropy, alpha=0.0), [1, 4], np.log(2.5 / 2)),
        (partial(atkinson, epsilon=0.5), [1, 0], 0.5),
        (partial(atkinson, epsilon=1.0), [1, 4], 1 - 2 / 2.5),
        (partial(atkinson, epsilon=1.0), [1, 0], 1.0),
        (partial(atkinson, epsilon=2.0), [1, 0], 1.0),
        (partial(atkinson, epsilon=2.0), [1, 3], 1 - 1.5 / 2),
    ],
)
def test_known_values(index: Index, benefits: list[float], value: float) -> None:
    assert one(index, benefits)[0] == pytest.approx(value, abs=1e-14)


@pytest.mark.parametrize("index", INDICES, ids=named)
def test_scale_and_number_do_not_matter_and_a_transfer_to_the_worse_off_lowers(index: Index) -> None:
    benefits, groups = [0.2, 0.9, 0.5, 0.7, 0.4, 0.6], [0, 0, 1, 1, 1, 0]
    before = one(index, benefits, groups)
    assert one(index, [7 * b for b in benefits], groups) == pytest.approx(before, abs=1e-13)
    assert one(index, benefits * 3, groups * 3) == pytest.approx(before, abs=1e-13)
    weighted = index(np.array(benefits), np.array(groups), np.full((2, 6), 3.0))
    assert float(weighted.between[1]) == pytest.approx(before[1], abs=1e-13)
    for richer, poorer in itertools.permutations(range(6), 2):
        if benefits[richer] - benefits[poorer] > 0.05:
            moved = list(benefits)
            moved[richer], moved[poorer] = moved[richer] - 0.02, moved[poorer] + 0.02
            assert one(index, moved, groups)[0] < before[0] - 1e-5


@pytest.mark.parametrize("index", INDICES, ids=named)
def test_equal_benefits_and_groups_alike(index: Index) -> None:
    assert one(index, [0.3] * 5, [0, 1, 0, 1, 1]) == pytest.approx((0, 0, 0), abs=1e-14)
    total, between, within = one(index, [0.2, 0.8, 0.2, 0.8], [0, 0, 1, 1])
    assert between == pytest.approx(0, abs=1e-14)
    assert within == pytest.approx(total, abs=1e-14)
    total, between, within = one(index, [0.2, 0.8, 0.2, 0.8], [0, 1, 0, 1])
    assert within == pytest.approx(0, abs=1e-14)
    assert between == pytest.approx(total, abs=1e-14)
    assert total > 0.04


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_one_without_benefit_in_every_group_makes_it_all_within(epsilon: float) -> None:
    assert one(partial(atkinson, epsilon=epsilon), [0, 1, 0, 3], [0, 0, 1, 1]) == (1, 0, 1)
    assert one(partial(atkinson, epsilon=epsilon), [0, 0, 2, 2], [0, 0, 1, 1]) == (1, 1, 0)


@pytest.mark.parametrize("index", INDICES[1:], ids=named)
def test_nobody_with_a_benefit_has_no_index(index: Index) -> None:
    split = index(np.array([0.0, 0.0, 1.0]), np.array([0, 0, 1]), np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    for part in (split.total, split.between, split.within):
        assert np.isnan(part).tolist() == [True, False]


@pytest.mark.parametrize(
    ("index", "benefits", "groups", "weights"),
    [
        (partial(generalised_entropy, alpha=0.0), [0.0, 1.0], [0, 1], (1, 2)),
        (partial(generalised_entropy, alpha=-1.0), [1.0, 1.0], [0, 1], (1, 2)),
        (partial(atkinson, epsilon=0.0), [1.0, 1.0], [0, 1], (1, 2)),
        (generalised_entropy, [-0.1, 1.0], [0, 1], (1, 2)),
        (atkinson, [np.nan, 1.0], [0, 1], (1, 2)),
        (atkinson, [1.0, 1.0], [0, -1], (1, 2)),
        (atkinson, [1.0, 1.0], [0, 1], (1, 3)),
    ],
)
def test_what_is_not_defined_is_refused(
    index: Index, benefits: list[float], groups: list[int], weights: tuple[int, int]
) -> None:
    with pytest.raises(ValueError, match=r"take|have to be|do not fit"):
        index(np.array(benefits), np.array(groups), np.ones(weights))


def fairness(right: Floats, wrong: Floats, **options: float) -> tuple[float, str, tuple[int, int]]:
    clusters = np.full(len(right), 9)
    found = differential_fairness(right, wrong, np.stack([right] * 3), np.stack([wrong] * 3), clusters, **options)
    return found.value, found.outcome, found.groups


@pytest.mark.parametrize("smooth", [0.0, 0.5, 2.0])
def test_differential_fairness_is_the_largest_log_ratio(smooth: float) -> None:
    rng = np.random.default_rng(1)
    outcomes = set()
    for _ in range(30):
        right, wrong = rng.integers(1, 60, (2, 5)).astype(float)
        counts = {"right": right, "wrong": wrong}
        ratios = {
            (y, g, h): np.log((c[g] + smooth) / (right[g] + wrong[g] + 2 * smooth))
            - np.log((c[h] + smooth) / (right[h] + wrong[h] + 2 * smooth))
            for y, c in counts.items()
            for g, h in itertools.permutations(range(5), 2)
        }
        y, g, h = max(ratios, key=lambda key: ratios[key])
        value, outcome, pair = fairness(right, wrong, smooth=smooth)
        assert (outcome, pair) == (y, (g, h))
        assert value == pytest.approx(ratios[y, g, h], abs=1e-12)
        outcomes.add(y)
    assert outcomes == {"right", "wrong"}


def test_fewer_attributes_never_look_less_fair() -> None:
    rng = np.random.default_rng(2)
    smaller = 0
    for _ in range(50):
        # Crossed groups of three attributes with two, three and two levels.
        right, wrong = rng.integers(1, 2000, (2, 2, 3, 2)).astype(float)
        whole = fairness(right.ravel(), wrong.ravel(), smooth=0.0)[0]
        for dropped in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]:
            part = fairness(right.sum(dropped).ravel(), wrong.sum(dropped).ravel(), smooth=0.0)[0]
            assert part <= whole + 1e-12
            smaller += part < 0.9 * whole
    assert smaller > 100


def test_the_interval_of_differential_fairness_holds_for_the_pair_that_was_picked() -> None:
    rng = np.random.default_rng(4)
    rates, speakers = np.array([0.2, 0.2, 0.3]), np.array([20, 30, 25])
    groups = np.eye(3)[np.repeat(np.arange(3), speakers)]
    log = {"right": np.log(1 - rates), "wrong": np.log(rates)}
    held = covered = 0
    for _ in range(60):
        own = groups @ rates
        words = rng.integers(20, 100, len(own))
        wrong = rng.binomial(words, rng.beta(6 * own, 6 * (1 - own)))[:, None] * groups
        right = words[:, None] * groups - wrong
        weights = cluster_weights(len(own), 300, rng)
        found = differential_fairness(right.sum(0), wrong.sum(0), weights @ right, weights @ wrong, speakers)
        g, h = found.groups
        held += found.low <= max(log[found.outcome][g] - log[found.outcome][h], 0.0) <= found.high
        covered += found.low <= np.log(1.5) <= found.high
        assert 0 <= found.low <= found.value <= found.high
    assert min(held, covered) >= 53
    narrow = differential_fairness(right.sum(0), wrong.sum(0), weights @ right, weights @ wrong, speakers, level=0.5)
    assert narrow.high - narrow.low < 0.7 * (found.high - found.low)


def test_a_group_without_an_error_is_not_certain_and_one_missing_from_a_sample_is_left_out() -> None:
    right, wrong = np.array([400.0, 380.0]), np.array([0.0, 20.0])
    spread = np.random.default_rng(0).normal(0, 2.0, 200)
    drawn_wrong = np.stack([np.zeros(200), 20 + spread], axis=1)
    drawn_right = np.stack([np.full(200, 400.0), 380 - spread], axis=1)
    found = differential_fairness(right, wrong, drawn_right, drawn_wrong, np.array([5, 5]))
    assert found.outcome == "wrong" and found.groups == (1, 0)
    assert found.high - found.low > 2
    there = differential_fairness(right, wrong + 8, drawn_right, drawn_wrong + 8, np.array([5, 5]))
    drawn_right[:50, 0], drawn_wrong[:50, 0] = 0.0, -8.0
    absent = differential_fairness(right, wrong + 8, drawn_right, drawn_wrong + 8, np.array([5, 5]))
    # As a rate of a half, the smoothing alone, these samples would make it ten times as wide.
    assert absent.high - absent.low == pytest.approx(there.high - there.low, rel=0.2)


@pytest.mark.parametrize(
    ("right", "wrong", "clusters", "smooth"),
    [
        ([9.0], [1.0], [5], 0.5),
        ([9.0, 9.0], [1.0, 1.0], [5, 1], 0.5),
        ([9.0, 0.0], [1.0, 0.0], [5, 5], 0.5),
        ([9.0, 9.0], [1.0, 0.0], [5, 5], 0.0),
    ],
)
def test_no_ratio_without_two_groups_and_no_count_of_zero_unsmoothed(
    right: list[float], wrong: list[float], clusters: list[int], smooth: float
) -> None:
    counts = np.array(right), np.array(wrong)
    drawn = np.array([right, right]), np.array([wrong, wrong])
    with pytest.raises(ValueError, match=r"two groups|without smoothing"):
        differential_fairness(*counts, *drawn, np.array(clusters), smooth=smooth)
