"""The limits and radii of certificates against other hands' code, exact sums over the binomial, and quadrature."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln, xlogy
from scipy.stats import beta, binom, binomtest, norm

from audits.certification.bounds import (
    Counts,
    Interval,
    Limits,
    bernstein_shift,
    clopper_pearson_upper,
    soft_limits,
    vote_limits,
)
from audits.certification.radii import (
    Geometry,
    ceiling,
    gaussian_radius,
    lipschitz_radius,
    published_radius,
    ramp_mean,
    uniform_radius,
)
from audits.statistics.binomial import lower_limit

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]
UNIT = Geometry("l2", 1.0)
KINDS: tuple[Any, ...] = ("one-sided", "two-class")
CASES = [(n, k) for n in (1, 2, 9, 100, 1000, 100_000) for k in sorted({0, 1, n // 3, n // 2, n - 1, n})]


@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-6])
@pytest.mark.parametrize(("n", "k"), CASES)
def test_limits_of_a_proportion_are_those_of_scipy(n: int, k: int, alpha: float) -> None:
    low, high = float(lower_limit(k, n, alpha)), float(clopper_pearson_upper(k, n, alpha))
    assert low == pytest.approx(beta.ppf(alpha, k, n - k + 1) if k else 0.0, rel=1e-9)
    assert high == pytest.approx(beta.isf(alpha, k + 1, n - k) if k < n else 1.0, rel=1e-9)
    if alpha >= 0.001:
        # The other hand searches for the root and stops early.
        for side, own in (("greater", low), ("less", high)):
            other = binomtest(k, n, alternative=side).proportion_ci(1 - alpha, method="exact")
            assert own == pytest.approx(other.low if side == "greater" else other.high, rel=1e-6, abs=1e-9)
    if k == n:
        assert low == pytest.approx(alpha ** (1 / n), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_no_true_proportion_below_the_limit_shows_so_many_votes(n: int, alpha: float) -> None:
    k = np.arange(1, n + 1)
    exceeded = binom.sf(k - 1, n, lower_limit(k, n, alpha))
    assert exceeded.max() <= alpha * (1 + 1e-9)
    assert exceeded.min() >= alpha * (1 - 1e-9)
    missed = binom.cdf(k - 1, n, clopper_pearson_upper(k - 1, n, alpha))
    assert missed.max() <= alpha * (1 + 1e-9)
    assert missed.min() >= alpha * (1 - 1e-9)


def false_share(p: float, n: int, alpha: float) -> float:
    """Sum up exactly how often the claimed radius is above the true one."""
    votes = np.arange(n + 1)
    radii = np.array([UNIT.radius(low, 1 - low) for low in lower_limit(votes, n, alpha)])
    return float(binom.pmf(votes, n, p)[radii > norm.ppf(p)].sum())


@pytest.mark.parametrize(
    ("p", "n", "alpha", "expected"),
    [
        (0.6, 100, 0.001, 0.000562),
        (0.6, 1000, 0.001, 0.000810),
        (0.6, 10_000, 0.001, 0.000972),
        (0.6, 100_000, 0.001, 0.000999),
        (0.8413, 100, 0.001, 0.000758),
        (0.8413, 1000, 0.001, 0.000851),
        (0.8413, 10_000, 0.001, 0.000948),
        (0.8413, 100_000, 0.001, 0.000988),
        (0.99, 100, 0.001, 0.0),
        (0.99, 1000, 0.001, 0.000479),
        (0.99, 10_000, 0.001, 0.000926),
        (0.99, 100_000, 0.001, 0.000927),
        (0.6, 1000, 0.05, 0.0495),
        (0.8413, 1000, 0.05, 0.0465),
        (0.99, 1000, 0.05, 0.0287),
        (0.9999, 1000, 0.05, 0.0),
    ],
)
def test_false_radii_are_as_rare_as_stated(p: float, n: int, alpha: float, expected: float) -> None:
    found = false_share(p, n, alpha)
    assert found <= alpha
    assert found == pytest.approx(expected, abs=6e-7 if alpha == 0.001 else 6e-5)


def claimed(p: float, n: int) -> tuple[Floats, Floats]:
    """Return the radii that n votes can claim at alpha .001, sigma 1, and the probability of each."""
    ends = binom.ppf([1e-14, 1 - 1e-14], n, p).astype(int)
    votes = np.arange(max(ends[0] - 1, 0), min(ends[1] + 1, n) + 1)
    limits = lower_limit(votes, n, 0.001)
    return np.array([max(UNIT.radius(low, 1 - low), 0.0) for low in limits]), binom.pmf(votes, n, p)


# Mean, and 5 and 95 % quantiles.
@pytest.mark.parametrize(
    ("p", "n", "mean", "low", "high"),
    [
        (0.6, 1000, 0.1285, 0.062, 0.193),
        (0.6, 10_000, 0.2141, 0.193, 0.235),
        (0.6, 100_000, 0.2409, 0.234, 0.248),
        (0.8413, 1000, 0.8528, 0.779, 0.928),
        (0.8413, 10_000, 0.9532, 0.929, 0.978),
        (0.8413, 100_000, 0.9851, 0.977, 0.993),
        (0.99, 1000, 1.9868, 1.866, 2.135),
        (0.99, 10_000, 2.2138, 2.159, 2.270),
        (0.99, 100_000, 2.2902, 2.272, 2.309),
        (0.9999, 1000, 2.4529, 2.358, 2.463),
        (0.9999, 10_000, 3.1252, 3.010, 3.199),
        (0.9999, 100_000, 3.4963, 3.421, 3.591),
    ],
)
def test_radii_of_a_linear_classifier_have_their_exact_distribution(
    p: float, n: int, mean: float, low: float, high: float
) -> None:
    radii, weights = claimed(p, n)
    assert weights.sum() == pytest.approx(1.0, abs=1e-9)
    assert float(radii @ weights) == pytest.approx(mean, abs=1e-4)
    reached = np.cumsum(weights)
    ends = radii[np.searchsorted(reached, [0.05, 0.95])]
    assert ends == pytest.approx([low, high], abs=6e-4)


@pytest.mark.parametrize(
    ("p", "n", "expected"),
    [
        (0.6, 100, 0.8697),
        (0.6, 1000, 0.0006),
        (0.501, 100, 0.9990),
        (0.501, 1000, 0.9989),
        (0.501, 10_000, 0.9982),
        (0.501, 100_000, 0.9931),
    ],
)
def test_the_share_of_abstentions_is_exact(p: float, n: int, expected: float) -> None:
    votes = np.arange(n + 1)
    abstains = np.array([UNIT.radius(low, 1 - low) < 0 for low in lower_limit(votes, n, 0.001)])
    assert float(binom.pmf(votes, n, p)[abstains].sum()) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("n", "expected"), [(100, 1.5005), (1000, 2.4633), (10_000, 3.1986), (100_000, 3.8115), (1_000_000, 4.3468)]
)
def test_unanimous_votes_reach_the_ceiling_and_no_further(n: int, expected: float) -> None:
    assert ceiling(UNIT, n, 0.001) == pytest.approx(expected, abs=5e-5)
    assert ceiling(Geometry("l2", 0.25), n, 0.001) == pytest.approx(0.25 * expected, abs=2e-5)
    votes = np.array([0, n, 0])
    for kind in KINDS:
        limits = vote_limits(votes, Interval(kind, 1), 0.001)
        assert UNIT.radius(*limits) <= ceiling(UNIT, n, 0.001) + 1e-12


@given(low=st.floats(0.5, 1 - 1e-12), sigma=st.floats(0.01, 10))
def test_the_one_class_radius_is_sigma_times_the_quantile(low: float, sigma: float) -> None:
    assert gaussian_radius(low, 1 - low, sigma) == pytest.approx(sigma * norm.ppf(low), rel=1e-9, abs=1e-12)


# Few classes, few votes: every outcome can be listed, and every error probability is a sum.


def compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in compositions(total - first, parts - 1)]


def every_outcome(classes: int, draws: int) -> Counts:
    return np.array(compositions(draws, classes), dtype=np.int64)


def failures(shares: Floats, votes: Counts, top: int, limits: list[Limits]) -> tuple[Floats, Floats]:
    """Sum up exactly, for each row of class probabilities, how often limits miss and how often radii are false.

    `limits` has an item for each row of `votes`. They miss where the top class has less than its lower limit or any
    rival more than the upper one. A certificate for a class that is not on top is false, whatever its radius.
    """
    logs = gammaln(votes.sum(1) + 1) - gammaln(votes + 1).sum(1) + xlogy(votes, shares[:, None, :]).sum(2)
    own, rival = shares[:, top, None], np.delete(shares, top, 1).max(1)[:, None]
    low, high = np.array(limits).T
    radii = np.array([gaussian_radius(*one, 1.0) for one in limits])
    true = np.array([gaussian_radius(a, b, 1.0) for a, b in zip(own.ravel(), rival.ravel(), strict=True)])[:, None]
    missed = (low > own + 1e-12) | (high < rival - 1e-12)
    false = (radii >= 0) & (radii > true + 1e-9)
    chance = np.exp(logs)
    assert chance.sum(1) == pytest.approx(1.0, abs=1e-9)
    return (chance * missed).sum(1), (chance * false).sum(1)


# Classes, draws, steps of the grid of all vectors of class probabilities, worst joint miss of two-class limits.
LISTED = [(2, 12, 100, 0.0245), (3, 10, 100, 0.0367), (3, 12, 100, 0.0435), (4, 10, 25, 0.0337), (4, 12, 25, 0.0280)]


@pytest.mark.parametrize(("classes", "draws", "steps", "worst"), LISTED)
def test_vote_limits_fail_no_more_often_than_alpha_for_any_number_of_classes(
    classes: int, draws: int, steps: int, worst: float
) -> None:
    shares, votes = every_outcome(classes, steps) / steps, every_outcome(classes, draws)
    found = {}
    # Every order of the probabilities is on the grid, so one top class stands for all.
    for kind in KINDS:
        missed, false = failures(shares, votes, 0, [vote_limits(row, Interval(kind, 0), 0.05) for row in votes])
        assert (false <= missed + 1e-12).all()
        found[kind] = missed.max()
    assert max(found.values()) <= 0.05
    assert found["two-class"] == pytest.approx(worst, abs=6e-5)


# Found by search: nearly all of alpha is spent.
HARDEST = [
    (10, (0.0025, 0.0640, 0.9335), 0.0469),
    (12, (0.0021, 0.8495, 0.1484), 0.0472),
    (25, (0.0097, 0.2342, 0.7561), 0.0476),
    (40, (0.0156, 0.1906, 0.7938), 0.0473),
    (12, (0.0021, 0.0453, 0.1635, 0.7891), 0.0472),
]


@pytest.mark.parametrize(("draws", "shares", "expected"), HARDEST)
def test_vote_limits_hold_where_they_are_hardest_to_keep(
    draws: int, shares: tuple[float, ...], expected: float
) -> None:
    votes = every_outcome(len(shares), draws)
    limits = [vote_limits(row, Interval("two-class", 0), 0.05) for row in votes]
    missed = failures(np.array([shares]), votes, 0, limits)[0][0]
    assert missed <= 0.05
    assert missed == pytest.approx(expected, abs=5e-4)


SHARES = np.array([[0.5, 0.05, 0.45]])
TENS = every_outcome(3, 10)


@pytest.mark.parametrize("top", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_vote_limits_hold_where_those_of_a_named_rival_do_not(kind: Any, top: int) -> None:
    missed, false = failures(SHARES, TENS, top, [vote_limits(row, Interval(kind, top), 0.05) for row in TENS])
    assert false[0] <= missed[0] <= 0.05


def named(votes: Counts, top: int, rival: int, share: float) -> Limits:
    """Limit one rival that was named before the votes were known, as if no other could be the strongest."""
    low = float(lower_limit(votes[top], int(votes.sum()), share))
    return low, min(float(clopper_pearson_upper(votes[rival], int(votes.sum()), share)), 1 - low)


def test_the_limit_of_a_rival_named_beforehand_is_no_certificate() -> None:
    false = failures(SHARES, TENS, 0, [named(row, 0, 1, 0.05) for row in TENS])[1]
    assert false[0] == pytest.approx(0.2742, abs=1e-4)
    # With alpha / 2 for each limit it still fails, for a top class that is not the true one.
    assert failures(SHARES, TENS, 2, [named(row, 2, 1, 0.025) for row in TENS])[1][0] > 0.05


def test_two_classes_share_alpha_by_halves_however_many_there_are() -> None:
    votes, alpha = np.array([120, 30, 700, 100, 50]), 0.001
    low, high = vote_limits(votes, Interval("two-class", 2), alpha)
    assert low == pytest.approx(beta.ppf(alpha / 2, 700, 301), rel=1e-10)
    assert high == pytest.approx(beta.isf(alpha / 2, 121, 880), rel=1e-10)
    # The rival may have more votes than the top class, which other draws named.
    low, high = vote_limits(votes, Interval("two-class", 0), alpha)
    assert low == pytest.approx(beta.ppf(alpha / 2, 120, 881), rel=1e-10)
    assert high == pytest.approx(beta.isf(alpha / 2, 701, 300), rel=1e-10)
    low, high = vote_limits(votes, Interval("one-sided", 2), alpha)
    assert low == pytest.approx(beta.ppf(alpha, 700, 301), rel=1e-10)
    assert high == 1 - low


# sigma, L, p, and three radii: without L, as published, exact.
LIPSCHITZ = [
    (0.25, 1, 0.99, 0.5816, 0.7137, 0.8401),
    (0.25, 2, 0.99, 0.5816, 0.6447, 0.6656),
    (0.25, 4, 0.99, 0.5816, 0.6030, 0.6049),
    (0.5, 1, 0.95, 0.8224, 0.9303, 0.9497),
    (0.5, 10, 0.95, 0.8224, 0.8238, 0.8238),
    (1, 1, 0.99, 2.3263, 2.4119, 2.4195),
]


@pytest.mark.parametrize(("sigma", "lipschitz", "p", "plain", "published", "exact"), LIPSCHITZ)
def test_lipschitz_radii_are_those_of_the_table(
    sigma: float, lipschitz: float, p: float, plain: float, published: float, exact: float
) -> None:
    assert gaussian_radius(p, 1 - p, sigma) == pytest.approx(plain, abs=5.1e-5)
    assert published_radius(p, 1 - p, sigma, lipschitz) == pytest.approx(published, abs=5.1e-5)
    assert lipschitz_radius(p, 1 - p, sigma, lipschitz) == pytest.approx(exact, abs=5.1e-5)


@pytest.mark.parametrize(("sigma", "lipschitz", "p"), [row[:3] for row in LIPSCHITZ])
def test_the_published_radius_is_its_formula_by_quadrature(sigma: float, lipschitz: float, p: float) -> None:
    def level(start: float) -> float:
        area: float = quad(lambda s: norm.cdf(s / sigma), start, start + 1 / lipschitz, epsabs=1e-13)[0]
        return 1 - lipschitz * area - p

    start = brentq(level, -20 * sigma - 2 / lipschitz, 20 * sigma, xtol=1e-12)
    rise = lipschitz * (norm.cdf((start + 1 / lipschitz) / sigma) - norm.cdf(start / sigma))
    own = norm.ppf(p) * norm.pdf(norm.ppf(p)) / rise
    assert published_radius(p, 1 - p, sigma, lipschitz) == pytest.approx(own, rel=1e-8)


@pytest.mark.parametrize("sigma", [0.12, 0.5, 1.0])
@pytest.mark.parametrize("lipschitz", [0.3, 1.0, 7.0, 300.0])
@pytest.mark.parametrize("shift", [-1.7, -0.3, 0.0, 0.02, 0.4, 1.2])
def test_the_mean_of_a_noisy_ramp_is_its_integral(sigma: float, lipschitz: float, shift: float) -> None:
    half = 0.5 / lipschitz
    rising = quad(
        lambda s: (0.5 + lipschitz * s) * norm.pdf(s, shift, sigma),
        max(-half, shift - 12 * sigma),
        max(min(half, shift + 12 * sigma), max(-half, shift - 12 * sigma)),
        epsabs=1e-14,
        limit=400,
    )[0]
    assert ramp_mean(shift, sigma, lipschitz) == pytest.approx(rising + norm.sf(half, shift, sigma), abs=1e-10)


NOISES = ((0.25, 1.0), (0.5, 0.4), (0.1, 5.0), (1.0, 30.0))
# Where more than 1 - 1e-9 of the noise stays on the right side, float64 knows the distance no longer.
RAMPS = [(s, r, c) for s, r in NOISES for c in (0.001, 0.2, 0.5, 1.5) if ramp_mean(-c, s, r) > 1e-9]


@pytest.mark.parametrize(("sigma", "lipschitz", "distance"), RAMPS)
def test_the_certificate_of_a_ramp_is_its_distance(sigma: float, lipschitz: float, distance: float) -> None:
    p = ramp_mean(distance, sigma, lipschitz)
    assert lipschitz_radius(p, 1 - p, sigma, lipschitz) == pytest.approx(distance, abs=1e-6)
    assert gaussian_radius(p, 1 - p, sigma) <= distance + 1e-6


GRID = [(sigma, lipschitz) for sigma in (0.12, 0.25, 0.5, 1.0) for lipschitz in (0.1, 0.5, 1, 2, 4, 10, 100)]


@pytest.mark.parametrize(("sigma", "lipschitz"), GRID)
def test_the_exact_radius_is_the_largest_and_rises_with_the_probability(sigma: float, lipschitz: float) -> None:
    levels = [*np.linspace(0.5, 0.999, 25), 0.9999, 0.999999]
    exact = [lipschitz_radius(p, 1 - p, sigma, lipschitz) for p in levels]
    plain = [gaussian_radius(p, 1 - p, sigma) for p in levels]
    published = [published_radius(p, 1 - p, sigma, lipschitz) for p in levels]
    assert (np.diff(exact) > 0).all()
    assert (np.array(exact) >= np.array(plain)).all()
    assert (np.array(exact) >= np.array(published) - 1e-9).all()


@settings(deadline=None, max_examples=60)
@given(
    low=st.floats(1e-6, 1 - 1e-9),
    rival=st.floats(0, 1),
    sigma=st.floats(0.05, 4),
    lipschitz=st.floats(0.05, 1e3),
)
def test_a_lipschitz_constant_never_costs_radius(low: float, rival: float, sigma: float, lipschitz: float) -> None:
    high = max(rival * (1 - low), 1e-9)
    with_it = lipschitz_radius(low, high, sigma, lipschitz)
    assert with_it >= gaussian_radius(low, high, sigma)
    assert with_it >= lipschitz_radius(low, high, sigma, 2 * lipschitz) - 1e-9
    assert (
        lipschitz_radius(min(low + 0.01, 1 - high), high, sigma, lipschitz) >= with_it - 1e-9 or low + 0.01 > 1 - high
    )


@pytest.mark.parametrize("p", [0.5, 0.51, 0.9, 0.999, 0.999999])
@pytest.mark.parametrize("sigma", [0.12, 1.0])
def test_limits_of_the_lipschitz_radius(p: float, sigma: float) -> None:
    assert lipschitz_radius(p, 1 - p, sigma, 1e4) == pytest.approx(sigma * norm.ppf(p), abs=1e-4)
    assert lipschitz_radius(p, 1 - p, sigma, 1e9) == gaussian_radius(p, 1 - p, sigma)
    assert lipschitz_radius(p, 1 - p, 1e-6, 2.0) == pytest.approx((p - 0.5) / 2, abs=1e-5)


@pytest.mark.parametrize("half_width", [0.2, 1.0, 3.0])
def test_uniform_noise_certifies_by_its_width(half_width: float) -> None:
    for low in (0.5, 0.6, 0.75, 0.999):
        assert uniform_radius(low, 1 - low, half_width) == pytest.approx(half_width * (2 * low - 1))
        assert Geometry("l1", half_width).probability(half_width * (2 * low - 1)) == pytest.approx(low)


@pytest.mark.parametrize(
    ("geometry", "p"),
    [(Geometry("l2", 0.5), 0.9), (Geometry("l1", 0.5), 0.9), (Geometry("l2", 0.5, 1.5), 0.9), (UNIT, 0.5)],
)
def test_the_probability_that_a_radius_needs_gives_the_radius(geometry: Geometry, p: float) -> None:
    assert geometry.probability(geometry.radius(p, 1 - p)) == pytest.approx(p, abs=1e-9)


def test_the_bernstein_shift_is_its_formula() -> None:
    found = bernstein_shift([0.0, 0.1, 0.25], 1000, 0.01)
    by_hand = [math.sqrt(2 * v * math.log(200) / 1000) + 7 * math.log(200) / 2997 for v in (0.0, 0.1, 0.25)]
    assert found == pytest.approx(by_hand, rel=1e-12)
    # Ten classes whose outputs never vary: what is left of 100 000 draws is 3.50 sigma.
    assert UNIT.radius(1 - float(bernstein_shift(0.0, 100_000, 1e-4)), float(bernstein_shift(0.0, 100_000, 1e-4))) == (
        pytest.approx(3.50, abs=0.005)
    )


@pytest.mark.parametrize(("kind", "share"), [("one-sided", 0.01), ("two-class", 0.005)])
def test_limits_of_soft_outputs_are_means_and_shifts(kind: Any, share: float) -> None:
    rng = np.random.default_rng(0)
    # The third class has the larger mean of the rivals, the fourth the larger limit.
    outputs = np.concatenate([rng.dirichlet([1, 60, 20, 5], 495), [[0.0, 0.0, 0.0, 1.0]] * 75])
    draws = len(outputs)
    interval = Interval(kind, 1)
    low, high = soft_limits(outputs.sum(0), (outputs**2).sum(0), draws, interval, 0.01, 0.0)
    shift = bernstein_shift(outputs.var(0, ddof=1), draws, share)
    assert low == pytest.approx(outputs[:, 1].mean() - shift[1], rel=1e-12)
    means = outputs.mean(0)
    rivals = {place: means[place] + shift[place] for place in (0, 2, 3)}
    assert means[2] > means[3] and max(rivals, key=rivals.__getitem__) == 3
    most = 1 - low if kind == "one-sided" else rivals[3]
    assert high == pytest.approx(min(most, 1 - low), rel=1e-12)
    assert soft_limits(outputs[0], outputs[0] ** 2, 1, interval, 0.01, 0.0) == (0.0, 1.0)


def soft_votes(votes: Counts, kind: Any) -> list[Limits]:
    """Return soft limits of outputs that are 0 or 1."""
    sums, draws = votes.astype(np.float64), int(votes[0].sum())
    return [soft_limits(row, row, draws, Interval(kind, 0), 0.05, 0.0) for row in sums]


@pytest.mark.parametrize(("classes", "draws", "steps"), [(2, 50, 100), (2, 400, 100), (3, 60, 20), (4, 20, 10)])
def test_soft_limits_of_hard_votes_hold_exactly(classes: int, draws: int, steps: int) -> None:
    shares, votes = every_outcome(classes, steps) / steps, every_outcome(classes, draws)
    for kind in KINDS:
        missed, false = failures(shares, votes, 0, soft_votes(votes, kind))
        assert max(missed.max(), false.max()) <= 0.05


def test_the_soft_limit_of_a_rival_named_beforehand_is_no_certificate() -> None:
    votes = every_outcome(3, 120)
    assert failures(SHARES, votes, 0, soft_votes(votes, "two-class"))[1][0] <= 0.05
    # To name class 1 is to leave class 2 out of the limits.
    pairs = votes[:, :2].astype(np.float64)
    alone = [soft_limits(row, row, 120, Interval("two-class", 0), 0.05, 0.0) for row in pairs]
    assert failures(SHARES, votes, 0, alone)[1][0] > 0.5
