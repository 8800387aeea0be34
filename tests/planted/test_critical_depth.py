"""Is the critical depth found where it is known, and does its interval hold it in worlds of every slope?"""

import numpy as np
import pytest

from audits.core.intervals import Interval, Undefined
from audits.tracking.critical_depth import (
    BRACKET,
    critical_depth,
    depth_above_chance,
    half_depth,
    least_items,
    limits_of,
)

DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
CHANCE, LEVEL = 0.25, 0.95


def drawn(accuracy: dict[int, float], count: int, rng: np.random.Generator) -> dict[int, tuple[int, int]]:
    return {depth: (int(rng.binomial(count, share)), count) for depth, share in accuracy.items()}


@pytest.mark.parametrize("limit", [0, 1, 3, 8])
def test_a_step_is_found_exactly(limit: int) -> None:
    rng = np.random.default_rng(limit)
    world = {depth: 1.0 if depth <= limit else CHANCE for depth in DEPTHS}
    for trial in range(200):
        hits = drawn(world, 64, rng)
        found = critical_depth(hits, 0.9, LEVEL)
        assert (found.value, found.low, found.high) == (limit, limit, limit)
        if trial >= 20:
            continue
        half = half_depth(hits, CHANCE, LEVEL)
        after = min(depth for depth in DEPTHS if depth > limit)
        assert isinstance(half, Interval)
        assert (half.low, half.high, half.method) == (limit, after, BRACKET)


@pytest.mark.parametrize("slope", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("count", [64, 200])
def test_intervals_hold_the_first_failure_whatever_the_slope(slope: float, count: int) -> None:
    rng = np.random.default_rng(int(10 * slope) + count)
    world = {depth: CHANCE + (1 - CHANCE) / (1 + np.exp((depth - 10) / slope)) for depth in DEPTHS}
    truth = max(depth for depth in DEPTHS if all(world[less] >= 0.9 for less in DEPTHS if less <= depth))
    found = [critical_depth(drawn(world, count, rng), 0.9, LEVEL) for _ in range(400)]
    held = sum(one.low is not None and one.high is not None and one.low <= truth <= one.high for one in found)
    # 380 of 400 is the level; a deviation of four standard errors is allowed.
    assert held >= 380 - 4 * (400 * 0.05 * 0.95) ** 0.5


def test_accuracy_that_comes_back_after_a_failure_does_not_count() -> None:
    hits = {0: (64, 64), 1: (10, 64), 2: (64, 64)}
    assert critical_depth(hits, 0.9, LEVEL).value == 0


def test_who_fails_at_once_follows_nothing() -> None:
    assert critical_depth({0: (1, 64), 1: (64, 64)}, 0.9, LEVEL).value == -1
    # Of depths below the least nothing is known: a gate must not take them for followed.
    found = critical_depth({4: (1, 64), 8: (64, 64)}, 0.9, LEVEL)
    assert (found.value, found.low, found.high) == (-1, -1, -1)


def test_guessing_is_not_above_chance() -> None:
    rng = np.random.default_rng(0)
    chance = dict.fromkeys(DEPTHS, CHANCE)
    lows = [depth_above_chance(drawn(chance, 64, rng), chance, LEVEL).low for _ in range(400)]
    assert sum(low is not None and low >= 0 for low in lows) <= 0.05 * 400
    assert depth_above_chance({0: (64, 64), 1: (60, 64), 2: (16, 64)}, {0: 0.25, 1: 0.25, 2: 0.25}, LEVEL).low == 1


@pytest.mark.parametrize("slope", [1.0, 3.0])
def test_the_half_way_depth_is_held_by_its_interval(slope: float) -> None:
    rng = np.random.default_rng(1)
    world = {depth: CHANCE + (1 - CHANCE) / (1 + np.exp((depth - 7.0) / slope)) for depth in DEPTHS}
    held = 0
    for _ in range(80):
        found = half_depth(drawn(world, 200, rng), CHANCE, LEVEL)
        assert isinstance(found, Interval)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 7.0 <= found.high
    assert held >= 0.95 * 80 - 4 * (80 * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_no_half_is_made_up(share: float) -> None:
    hits = {depth: (round(64 * share), 64) for depth in DEPTHS}
    assert isinstance(half_depth(hits, CHANCE, LEVEL), Undefined)


@pytest.mark.parametrize(("depths", "level_accuracy"), [(9, 0.9), (17, 0.9), (5, 0.99)])
def test_the_least_number_of_items_is_the_least(depths: int, level_accuracy: float) -> None:
    least = least_items(level_accuracy, depths, LEVEL)
    for count, passes in ((least, True), (least - 1, False)):
        hits = dict.fromkeys(range(depths), (count, count))
        assert (min(low for low, _ in limits_of(hits, LEVEL).values()) >= level_accuracy) is passes
