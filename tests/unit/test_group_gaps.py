"""Gaps of groups in which nothing, or everything, went wrong: no surer than the rates that they are made of."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from audits.statistics import SpeakerSums, group_gaps, rate_intervals
from audits.statistics.clustered_rates import spread_of
from audits.statistics.group_gaps import Kind, clearest, gap_between

Floats = NDArray[np.float64]


def sums_of(*groups: list[float], words: float = 20.0) -> SpeakerSums:
    speakers = [len(rates) for rates in groups]
    group = np.repeat(np.arange(len(groups)), speakers)
    sizes = np.eye(len(groups))[group] * words
    errors = np.concatenate(groups)[:, None] * sizes
    return SpeakerSums(errors=errors[..., None], hits=(sizes - errors)[..., None], sizes=sizes)


def ends_of(sums: SpeakerSums, group: int, level: float) -> tuple[float, float]:
    found = rate_intervals(sums.errors[:, [group], 0], sums.sizes[:, [group]], level=level)
    return float(found.low[0]), float(found.high[0])


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.parametrize("speakers", [2, 12, 60])
def test_a_gap_of_two_certain_groups_has_the_ends_of_their_rates(level: float, rate: float, speakers: int) -> None:
    sums = sums_of([rate] * speakers, [rate] * speakers)
    low, high = ends_of(sums, 0, level)
    gap = gap_between(sums, 0, "absolute", (0, 1), level=level)
    assert gap == pytest.approx((0.0, -(high - low), high - low))
    assert clearest(sums, 0, "pairs")[0] == pytest.approx(1.0)


def test_a_gap_never_ends_beyond_all_and_nothing() -> None:
    sums = sums_of([1.0] * 12, [0.0] * 12)
    gap, low, high = gap_between(sums, 0, "absolute", (0, 1), level=0.95)
    # Both ends of 1 - 0.2646, and the square-and-add of the two.
    assert (gap, low, high) == pytest.approx((1.0, 1 - np.hypot(0.2646, 0.2646), 1.0), abs=1e-4)


def test_a_gap_above_a_group_without_an_error_is_no_surer_than_its_rate() -> None:
    rates = [0.1, 0.2, 0.15, 0.05, 0.2, 0.1, 0.3, 0.15, 0.1, 0.2, 0.05, 0.1]
    sums = sums_of(rates, [0.0] * 12)
    (low, _), (_, none) = ends_of(sums, 0, 0.95), ends_of(sums, 1, 0.95)
    gap, least, _ = gap_between(sums, 0, "absolute", (0, 1), level=0.95)
    assert least == pytest.approx(gap - np.hypot(gap - low, none), rel=0.02)
    p = clearest(sums, 0, "pairs")[0]
    assert (p < 0.05) == (least > 0)
    assert clearest(sums_of(rates * 5, [0.0] * 60), 0, "pairs")[0] < 1e-3


@pytest.mark.parametrize("kind", ["log_odds", "four_fifths"])
def test_gaps_on_other_scales_are_no_surer_either(kind: Kind) -> None:
    sums = sums_of([0.1, 0.2, 0.15, 0.05] * 3, [0.0] * 12)
    _, low, high = gap_between(sums, 0, kind, (0, 1), level=0.95)
    assert np.isfinite([low, high]).all() and high - low > 2 * 0.2646


def test_no_p_value_is_missing_where_nothing_varies_between_a_group_and_the_others() -> None:
    p, *_ = clearest(sums_of([0.0] * 5, [0.0] * 5, [0.0] * 5), 0, "others")
    assert p == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["ratio", "relative", "log_odds", "four_fifths"])
def test_no_scale_shows_a_gap_that_another_does_not(kind: Kind) -> None:
    rng, unsure, clear = np.random.default_rng(1), 0, 0
    for speakers in rng.integers(3, 20, 100):
        sums = sums_of(*(rng.beta(2, 20, speakers) * scale for scale in (1.0, 2.0)), words=60.0)
        absolute = gap_between(sums, 0, "absolute", (0, 1), level=0.95)
        value, low, high = gap_between(sums, 0, kind, (0, 1), level=0.95)
        assert low < value < high
        if absolute[1] <= 0 <= absolute[2]:
            unsure += 1
            assert low <= 0 <= high
        clear += not low <= 0 <= high
    assert unsure > 20 and clear > 20


def test_the_spread_of_rates_is_found_once_for_all_kinds_of_gaps_and_their_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[int] = []
    plain = spread_of

    def counted(errors: Floats, sizes: Floats) -> Any:
        found.append(1)
        return plain(errors, sizes)

    monkeypatch.setattr(group_gaps, "spread_of", counted)
    sums = sums_of([0.1, 0.2, 0.2, 0.3], [0.3, 0.4, 0.4, 0.6])
    kinds: tuple[Kind, ...] = ("absolute", "relative", "log_odds")
    ends = [gap_between(sums, 0, kind, (1, 0), level=0.95) for kind in kinds]
    p = clearest(sums, 0, "pairs")
    assert len(found) == 1
    # What rates do not show of themselves makes another spread, and other sums have their own.
    noise = 0.01 * np.eye(2)
    wider = [gap_between(sums, 0, "absolute", (1, 0), level=0.95, noise=noise) for _ in range(2)]
    assert len(found) == 2 and wider[0] == wider[1] and wider[0][1] < ends[0][1]
    again = sums_of([0.1, 0.2, 0.2, 0.3], [0.3, 0.4, 0.4, 0.6])
    assert [gap_between(again, 0, kind, (1, 0), level=0.95) for kind in kinds] == ends
    assert clearest(again, 0, "pairs") == p and len(found) == 3
