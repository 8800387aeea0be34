"""Are areas and integrals of histograms those that can be worked out, and none of them out of its range?"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from audits.precision_recall.divergence_curves import EDGE, frontier_integral, mauve, prd_curve, prd_scores, prd_slopes

pytestmark = pytest.mark.numerical

LAMBDAS = np.array([0.01, 0.2, 0.5, 1.0, 1.5, 4.0, 100.0])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    buckets = draw(st.integers(1, 6))
    histogram = st.lists(st.integers(0, 5), min_size=buckets, max_size=buckets).filter(any)
    return np.array(draw(histogram)), np.array(draw(histogram))


def polygon(x: list[float], y: list[float]) -> float:
    return sum((x[i] - x[i + 1]) * (y[i] + y[i + 1]) / 2 for i in range(len(x) - 1))


@pytest.mark.parametrize("scaling", [1.0, 5.0])
@pytest.mark.parametrize("points", [2, 25])
def test_mauve_of_the_same_and_of_disjoint_histograms(scaling: float, points: int) -> None:
    p = np.array([3, 0, 1, 4])
    assert float(mauve(p, 2 * p, scaling=scaling, points=points)) == pytest.approx(1.0, abs=1e-12)
    weights = np.linspace(EDGE, 1 - EDGE, points)
    x, y = [1.0, *(1 - weights) ** scaling, 0.0], [0.0, *weights**scaling, 1.0]
    found = float(mauve(np.array([3, 0]), np.array([0, 1]), scaling=scaling, points=points))
    assert found == pytest.approx(polygon(x, y), rel=1e-9)


def test_mauve_of_disjoint_histograms_nears_the_beta_function() -> None:
    smooth = 5 * math.gamma(6) * math.gamma(5) / math.gamma(11)
    assert float(mauve(np.array([1, 0]), np.array([0, 1]), points=2000)) == pytest.approx(smooth, rel=1e-4)


def test_mauve_by_hand_with_half_the_mass_in_common() -> None:
    """p = (1/2, 1/2, 0), q = (0, 1/2, 1/2): KL(p | r) = -(log w) / 2 and KL(q | r) = -log(1 - w) / 2."""
    weights = np.linspace(EDGE, 1 - EDGE, 25)
    x, y = [1.0, *(1 - weights) ** 2.5, 0.0], [0.0, *weights**2.5, 1.0]
    assert float(mauve(np.array([1, 1, 0]), np.array([0, 2, 2]))) == pytest.approx(polygon(x, y), rel=1e-9)


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ([1, 3], [2, 6], 0.0),
        ([1, 0], [0, 5], 1.0),
        ([1, 1, 0], [0, 1, 1], 0.5),
        ([0, 1, 1, 0], [0, 0, 1, 1], 0.5),
        # Both terms are 1/2 - (3/16) log(3) / (1/2).
        ([1, 3], [3, 1], 1 - 0.75 * math.log(3)),
        ([1], [9], 0.0),
    ],
)
def test_frontier_integral_by_hand(p: list[int], q: list[int], expected: float) -> None:
    assert float(frontier_integral(np.array(p), np.array(q))) == pytest.approx(expected, abs=1e-15)


def test_frontier_integral_is_the_integral() -> None:
    p, q = np.array([0.1, 0.2, 0.7, 0.0]), np.array([0.3, 0.1, 0.4, 0.2])
    weights = (np.arange(200_000) + 0.5) / 200_000
    mixture = weights[:, None] * p + (1 - weights[:, None]) * q
    first, last = (np.where(one > 0, one * np.log(np.where(one > 0, one, 1) / mixture), 0).sum(1) for one in (p, q))
    expected = 2 * float((weights * first + (1 - weights) * last).mean())
    assert float(frontier_integral(p, q)) == pytest.approx(expected, abs=1e-9)


def test_nearly_equal_shares_lose_no_digits() -> None:
    """For a relative gap e the term is p e^2 / 6 at first order, far below the rounding of either half of it."""
    p, q = np.array([300_000_001, 699_999_999]), np.array([300_000_000, 700_000_000])
    assert 0 <= float(frontier_integral(p, q)) < 1e-15


@given(pairs())
def test_precision_and_recall_are_sums_of_minima(counts: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
    p, q = (one / one.sum() for one in counts)
    precision, recall = prd_curve(*counts, LAMBDAS)
    assert precision == pytest.approx(np.minimum(LAMBDAS[:, None] * p, q).sum(1), abs=1e-14)
    assert recall == pytest.approx(np.minimum(p, q / LAMBDAS[:, None]).sum(1), abs=1e-14)
    assert precision.max() <= 1 and recall.max() <= 1
    assert precision[3] == pytest.approx(1 - np.abs(p - q).sum() / 2)


@given(pairs())
@settings(deadline=None)
def test_every_value_is_in_its_range_and_the_sides_can_be_swapped(
    counts: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    p, q = counts
    for value, swapped in ((mauve(p, q), mauve(q, p)), (frontier_integral(p, q), frontier_integral(q, p))):
        assert value.shape == () and 0 <= float(value) <= 1
        assert float(value) == pytest.approx(float(swapped), abs=1e-12)
    precision, recall = prd_scores(p, q, slopes=99)
    assert (float(recall), float(precision)) == pytest.approx([float(one) for one in prd_scores(q, p, slopes=99)])
    assert 0 <= float(precision) <= 1 and 0 <= float(recall) <= 1
    same, disjoint = bool((p * q.sum() == q * p.sum()).all()), not (p * q).any()
    assert (float(mauve(p, q)) > 1 - 1e-9) == same and (float(frontier_integral(p, q)) < 1e-12) == same
    assert (float(frontier_integral(p, q)) > 1 - 1e-12) == disjoint and (float(precision) == 0) == disjoint


@given(pairs())
def test_empty_buckets_and_their_order_change_nothing(
    counts: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    wider = [np.append([0, 0], one[::-1]) for one in counts]
    for measure in (mauve, frontier_integral, lambda p, q: prd_curve(p, q, LAMBDAS), lambda p, q: prd_scores(p, q)):
        assert np.array(measure(*wider)) == pytest.approx(np.array(measure(*counts)), abs=1e-13)


def test_many_resamples_at_once_are_each_as_alone() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.integers(0, 4, (2, 5, 3, 20))
    together = (mauve(p, q), frontier_integral(p, q), *prd_curve(p, q, LAMBDAS), *prd_scores(p, q))
    assert [one.shape for one in together] == [(5, 3), (5, 3), (5, 3, 7), (5, 3, 7), (5, 3), (5, 3)]
    for place in np.ndindex(5, 3):
        one, other = p[place], q[place]
        alone = (mauve(one, other), frontier_integral(one, other), *prd_curve(one, other, LAMBDAS))
        for whole, part in zip(together, (*alone, *prd_scores(one, other)), strict=True):
            assert whole[place] == pytest.approx(part, abs=1e-13)
    one_reference = mauve(p[0, 0], q[0])
    assert one_reference == pytest.approx([float(mauve(p[0, 0], other)) for other in q[0]], abs=1e-13)


def test_dropped_modes_cost_recall_and_invented_ones_precision() -> None:
    """The reference has two modes; one model gives the first only, another adds two of its own."""
    reference = np.array([50, 50, 0, 0])
    dropped = prd_scores(reference, np.array([100, 0, 0, 0]))
    invented = prd_scores(reference, np.array([25, 25, 25, 25]))
    assert float(dropped[0]) > 0.98 and float(dropped[1]) == pytest.approx(0.504, abs=1e-3)
    assert float(invented[1]) > 0.98 and float(invented[0]) == pytest.approx(0.504, abs=1e-3)


def test_slopes_are_the_tangents_of_even_angles() -> None:
    assert np.arctan(prd_slopes(999)) == pytest.approx(np.arange(1, 1000) * np.pi / 2000, rel=1e-12)
    assert prd_slopes(1) == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0, 0], [1, 1]),
        ([1, 1], [0, 0]),
        ([1, -1, 2], [1, 1, 1]),
        ([1, 1], [1, 1, 1]),
        ([math.nan, 1], [1, 1]),
        ([], []),
    ],
)
def test_nonsense_is_refused(p: list[float], q: list[float]) -> None:
    for measure in (mauve, frontier_integral, prd_scores):
        with pytest.raises(ValueError, match="histogram"):
            measure(np.array(p, dtype=float), np.array(q, dtype=float))


def test_settings_outside_their_range_are_refused() -> None:
    p = np.array([1, 2])
    for bad in (np.array([0.0]), np.array([1.0, -1.0]), np.array([np.inf]), np.array([np.nan])):
        with pytest.raises(ValueError, match="lambda"):
            prd_curve(p, p, bad)
    with pytest.raises(ValueError, match="beta"):
        prd_scores(p, p, beta=0.0)
    with pytest.raises(ValueError, match="slopes"):
        prd_slopes(0)
    for options in ({"scaling": 0.0}, {"points": 1}):
        with pytest.raises(ValueError, match="scaling"):
            mauve(p, p, **options)
