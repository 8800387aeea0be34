"""Are areas of clustered rows those of a direct count, and do their intervals know of the clusters?"""

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t

from audits.statistics.clustered_areas import (
    ALIKE,
    JACKKNIFE,
    ClusteredArea,
    area_difference,
    area_interval,
    clustered_area,
    clustered_mean,
    paired_share,
)
from audits.statistics.clustered_rates import NO_INTERVAL
from audits.statistics.mean_intervals import mean_interval
from audits.statistics.roc import DISJOINT, TIED, area, difference
from audits.statistics.roc import area_interval as plain_interval

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]
Labels = NDArray[Any]
World = tuple[Floats, NDArray[np.bool_], Labels, Labels]


def small(seed: int, rows: int = 30) -> World:
    """Return few rows with ties, of seven clusters and three systems that cross them."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, rows).astype(float)
    return scores, rng.random(rows) < 0.4, rng.integers(0, 7, rows), rng.integers(0, 3, rows)


def large(seed: int, clusters: int = 150) -> World:
    """Return clusters of one to nine rows with scores that a third of the variance makes alike."""
    rng = np.random.default_rng(seed)
    number = np.repeat(np.arange(clusters), rng.integers(1, 10, clusters))
    positive = rng.random(len(number)) < rng.beta(1, 1, clusters)[number]
    scores = rng.normal(size=len(number)) + rng.normal(0, 0.7, clusters)[number] + positive
    return scores, positive, number, rng.integers(0, 4, len(number))


def counted(
    scores: Floats, positive: NDArray[np.bool_], clusters: Labels, strata: Labels, across: bool
) -> float | None:
    """Return the area by looking at every pair."""
    one, other = positive[:, None], ~positive[None, :]
    pairs = one & other & (strata[:, None] == strata[None, :])
    if across:
        pairs &= clusters[:, None] != clusters[None, :]
    wins = (scores[:, None] > scores[None, :]) + (scores[:, None] == scores[None, :]) / 2
    return float(wins[pairs].mean()) if pairs.any() else None


def strata_of(world: World, name: str) -> Labels:
    return {"none": np.zeros(len(world[0])), "systems": world[3], "clusters": world[2]}[name]


def found_in(world: World, name: str = "none", *, across: bool = False) -> ClusteredArea:
    strata = None if name == "none" else strata_of(world, name)
    found = clustered_area(*world[:3], strata=strata, across=across)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("name", "across"), [("none", False), ("none", True), ("systems", False), ("systems", True), ("clusters", False)]
)
def test_area_and_area_without_each_cluster_are_those_of_all_pairs(seed: int, name: str, across: bool) -> None:
    world = small(seed)
    strata = strata_of(world, name)
    found = found_in(world, name, across=across)
    assert found.value == pytest.approx(counted(*world[:3], strata, across), abs=1e-12)
    count = found.clusters
    for at, cluster in enumerate(np.unique(world[2])):
        kept = world[2] != cluster
        left = counted(world[0][kept], world[1][kept], world[2][kept], strata[kept], across)
        moved = found.moves[:, at].sum()
        assert np.isnan(moved) if left is None else moved == pytest.approx((found.value - left) * (count - 1) / count)


def test_rows_of_their_own_clusters_are_those_of_the_plain_curve() -> None:
    scores, positive, *_ = large(0)
    found = clustered_area(scores, positive, np.arange(len(scores)))
    assert found is not None
    plain = area(scores, positive)
    assert found.value == pytest.approx(plain.value, abs=1e-12)
    ours, (low, high, _) = area_interval(found), plain_interval(plain, 0.95)
    assert ours.low == pytest.approx(low, abs=0.02 * (high - low))
    assert ours.high == pytest.approx(high, abs=0.02 * (high - low))
    assert ours.method == JACKKNIFE
    assert found.unclustered == pytest.approx(plain.variance(), rel=0.02)


@pytest.mark.parametrize(("name", "across"), [("none", False), ("none", True), ("systems", False), ("clusters", False)])
def test_interval_is_as_wide_as_that_of_a_cluster_bootstrap(name: str, across: bool) -> None:
    world = large(1)
    scores, positive, clusters, _ = world
    strata = strata_of(world, name)
    rng, draws = np.random.default_rng(0), []
    places = [np.flatnonzero(clusters == one) for one in np.unique(clusters)]
    for _ in range(800):
        drawn = [places[one] for one in rng.integers(len(places), size=len(places))]
        rows, copy = np.concatenate(drawn), np.repeat(np.arange(len(places)), [len(part) for part in drawn])
        # A cluster that was drawn twice is two clusters, whose rows are no pairs of the same context.
        inside = copy if name == "clusters" else strata[rows]
        again = clustered_area(scores[rows], positive[rows], copy, strata=inside, across=across)
        assert again is not None
        draws.append(again.value)
    # Of so many draws a quantile has a standard error of a fortieth of the width.
    low, high = np.quantile(draws, [0.025, 0.975])
    ours = area_interval(found_in(world, name, across=across))
    assert ours.low == pytest.approx(low, abs=0.1 * (high - low))
    assert ours.high == pytest.approx(high, abs=0.1 * (high - low))


def test_rows_that_are_listed_twice_narrow_nothing() -> None:
    scores, positive, clusters, _ = large(2)
    once, twice = (
        area_interval(found_in((np.tile(scores, k), np.tile(positive, k), np.tile(clusters, k), clusters), across=True))
        for k in (1, 2)
    )
    assert (once.low, once.high) == pytest.approx((twice.low, twice.high))


def test_perfect_scores_count_contexts_not_rows() -> None:
    positive, clusters = np.tile([True, False], 30), np.repeat(np.arange(6), 10)
    found = clustered_area(positive.astype(float), positive, clusters)
    assert found is not None
    result = area_interval(found, unit="contexts")
    assert (result.high, result.method, result.n, result.unit) == (1.0, DISJOINT, 6, "contexts")
    assert result.low == pytest.approx(0.025 ** (1 / 6))
    apart = clustered_area(positive.astype(float), positive, clusters, across=True)
    assert apart is not None
    assert area_interval(apart).low == pytest.approx(0.025 ** (1 / 3))
    # Two rows of each class in a system, but six contexts with pairs of their own.
    within = clustered_area(positive.astype(float), positive, clusters, strata=clusters)
    assert within is not None
    assert area_interval(within).low == pytest.approx(0.025 ** (1 / 6))


def test_equal_scores_are_half_within_what_ties_allow() -> None:
    found = clustered_area(np.ones(20), np.arange(20) % 2 == 0, np.arange(20) // 2)
    assert found is not None
    result = area_interval(found)
    assert (result.value, result.method) == (0.5, TIED)
    assert 0 < (result.low or 0) < 0.5 < (result.high or 0) < 1


def test_metric_that_sees_nothing_of_a_fault_is_blind_and_not_without_interval() -> None:
    scores = np.repeat(np.arange(40.0) % 7, 2)
    found = clustered_area(scores, np.tile([True, False], 40), np.repeat(np.arange(40), 2), across=True)
    assert found is not None
    assert not found.tied
    result = area_interval(found)
    assert result.value == pytest.approx(0.5)
    assert result.method == ALIKE
    same = 0.025 ** (1 / 20)
    assert (result.low, result.high) == pytest.approx((same / 2, 1 - same / 2))
    # Two contexts that are alike, right in three pairs of four.
    twins = clustered_area(np.tile([2.0, 3.0, 4.0], 2), np.tile([True, True, False], 2), np.repeat([0, 1], 3))
    assert twins is not None
    assert area_interval(twins).value == 0
    mixed = clustered_area(np.tile([2.0, 4.0, 3.0, 1.0], 2), np.tile([1, 1, 0, 0], 2) == 1, np.repeat([0, 1], 4))
    assert mixed is not None
    ends, same = area_interval(mixed), 0.025 ** (1 / 2)
    assert (ends.low, ends.value, ends.high) == pytest.approx((0.75 * same, 0.75, 0.75 * same + 1 - same))


def test_no_area_of_one_class_and_no_interval_of_one_cluster() -> None:
    scores = np.arange(6.0)
    for kinds in (np.ones(6, dtype=bool), np.zeros(6, dtype=bool)):
        assert clustered_area(scores, kinds, np.arange(6)) is None
    assert clustered_area(np.zeros(0), np.zeros(0, dtype=bool), np.zeros(0)) is None
    # All positive rows are in one cluster: without it nothing can be said.
    lone = clustered_area(scores, np.array([1, 0, 1, 0, 0, 0], dtype=bool), np.array([0, 1, 0, 1, 2, 3]))
    assert lone is not None
    result = area_interval(lone)
    assert (result.low, result.high, result.method) == (None, None, NO_INTERVAL)
    assert area_difference(lone, lone).method == NO_INTERVAL


def test_difference_of_metrics_is_paired() -> None:
    scores, positive, clusters, _ = large(3)
    noise = np.random.default_rng(5).normal(0, 0.3, len(scores))
    first, second = (clustered_area(one, positive, clusters) for one in (scores, scores + noise))
    assert first is not None
    assert second is not None
    gap = area_difference(first, second)
    alone = area_interval(first)
    assert gap.value == pytest.approx(first.value - second.value)
    assert (gap.high or 0) - (gap.low or 0) < 0.5 * ((alone.high or 0) - (alone.low or 0))
    one, other = (clustered_area(each, positive, np.arange(len(scores))) for each in (scores, scores + noise))
    assert one is not None
    assert other is not None
    ours, plain = area_difference(one, other), difference(area(scores, positive), area(scores + noise, positive), 0.95)
    assert (ours.low, ours.high) == pytest.approx((plain.low, plain.high), abs=0.02 * (plain.high - plain.low))


def quantile_of(scores: Floats, other: Floats, positive: NDArray[np.bool_], clusters: Labels) -> tuple[float, int]:
    """Return how many jackknife errors the interval of a difference reaches, and the number of clusters."""
    first, second = (clustered_area(one, positive, clusters) for one in (scores, other))
    assert first is not None
    assert second is not None
    gap, count = area_difference(first, second), first.clusters
    error = np.sqrt(((first.moves - second.moves).sum(0) ** 2).sum() * count / (count - 1))
    return ((gap.high or 0) - gap.value) / error, count


def test_few_clusters_that_weigh_much_leave_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(7)
    scores, other = rng.normal(size=(2, 600))
    even = np.repeat(np.arange(60), 10)
    quantile, count = quantile_of(scores, other, rng.random(600) < 0.5, even)
    assert t.isf(0.025, count - 1) <= quantile < t.isf(0.025, 20)
    # Half of the rows are of one cluster.
    quantile, _ = quantile_of(scores, other, rng.random(600) < 0.5, np.where(np.arange(600) < 300, 0, even))
    assert quantile > t.isf(0.025, 5)
    # Three clusters have all positive rows, and the scores agree on the other rows.
    positive, shift = even < 3, np.array([1.0, 0.0, -1.0])[np.minimum(even, 2)]
    quantile, _ = quantile_of(scores, scores + np.where(positive, shift, 0), positive, even)
    assert quantile > t.isf(0.025, 2.5)
    # All but one cluster come out alike under both.
    quantile, _ = quantile_of(scores, np.where(even == 9, -scores, scores), rng.random(600) < 0.5, even)
    assert quantile > t.isf(0.025, 5)


def test_two_clusters_have_an_interval_and_few_wrong_rows_a_wider_one() -> None:
    scores, positive, clusters = np.array([3.0, 1.0, 2.0, 4.0, 0.0, 2.5]), np.arange(6) % 2 == 0, np.arange(6) // 3
    two = clustered_area(scores, positive, clusters)
    assert two is not None
    assert area_interval(two).low is not None
    # The same rows ten times over are no more rows.
    scores, positive, clusters, _ = large(4, 12)
    once, often = (
        area_interval(found_in((np.tile(scores, k), np.tile(positive, k), np.tile(clusters, k), clusters), across=True))
        for k in (1, 10)
    )
    assert once.method == often.method
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_difference_where_nothing_varies_spans_both_intervals() -> None:
    positive, clusters = np.arange(20) % 2 == 0, np.arange(20) // 2
    perfect = clustered_area(positive.astype(float), positive, clusters)
    blind = clustered_area(np.ones(20), positive, clusters)
    assert perfect is not None
    assert blind is not None
    gap = area_difference(perfect, blind)
    assert gap.value == 0.5
    assert (gap.low, gap.high) == pytest.approx((0.0125 ** (1 / 10) - 1, 1))


def test_share_of_pairs_is_over_whole_clusters() -> None:
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(40), 5)
    apart = rng.normal(1, 1, 40)[clusters]
    found = paired_share(-apart, 0 * apart, clusters, unit="contexts")
    assert found.value == pytest.approx((apart > 0).mean())
    assert (found.n, found.unit) == (40, "contexts")
    assert (found.low or 0) < found.value < (found.high or 0)
    # Five equal rows say no more than one.
    alone = paired_share(-apart[::5], 0 * apart[::5], np.arange(40))
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.01)
    assert paired_share(np.ones(3), np.zeros(3), np.zeros(3)).method == NO_INTERVAL
    assert paired_share(np.array([1.0, 2.0, 2.0]), np.array([2.0, 2.0, 1.0]), np.arange(3)).value == 0.5


def test_mean_over_clusters_is_that_of_their_means_where_all_are_as_large() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=60) + np.repeat(rng.normal(size=12), 5)
    found = clustered_mean(values, np.repeat(np.arange(12), 5))
    plain = mean_interval(values.reshape(12, 5).mean(1))
    assert plain is not None
    assert found.value == pytest.approx(values.mean())
    assert (found.low or 0) <= plain[1][0] + 1e-9
    assert (found.low, found.high) == pytest.approx(plain[1], abs=0.1)
    lone = np.where(np.arange(60) < 30, 0, np.arange(60))
    wide, plain = clustered_mean(values, lone), mean_interval(values)
    assert plain is not None
    assert (wide.high or 0) - (wide.low or 0) > 2 * (plain[1][1] - plain[1][0])
    turned = clustered_mean(-values, np.repeat(np.arange(12), 5))
    assert (turned.low, turned.high) == pytest.approx((-(found.high or 0), -(found.low or 0)))
    for few in (np.zeros(60), np.arange(60)):
        assert (clustered_mean(np.ones(60), few).low, clustered_mean(np.ones(60), few).value) == (None, 1.0)


def test_ten_thousand_rows_take_no_time() -> None:
    rng = np.random.default_rng(0)
    scores, positive, clusters = rng.normal(size=10_000), rng.random(10_000) < 0.4, rng.integers(0, 1500, 10_000)
    began = time.process_time()
    for _ in range(10):
        clustered_area(scores, positive, clusters, strata=clusters)
    assert time.process_time() - began < 3
