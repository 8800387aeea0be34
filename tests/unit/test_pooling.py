"""Are pooled rates nearer to the truth than raw ones, and do their intervals cover, few as the groups may be?"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import gamma, multivariate_normal, t

from audits.statistics.pooling import shrink_rates

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]


def drawn(
    groups: int, spread: float, rng: np.random.Generator, *, mean: float = 0.2, most: int = 60
) -> tuple[Floats, Floats, Floats]:
    """Draw true rates from a Gamma prior with this coefficient of variation, and errors and words of speakers."""
    rates = rng.gamma(1 / spread**2, mean * spread**2, groups)
    speakers = np.round(np.exp(rng.uniform(np.log(3), np.log(most), groups))).astype(int)
    group = np.repeat(np.arange(groups), speakers)
    words = np.maximum(rng.gamma(3, 20, len(group)).round(), 1)
    # Speakers differ within a group by a half.
    wrong = rng.poisson(rates[group] * rng.gamma(4, 0.25, len(group)) * words)
    member = np.eye(groups)[group]
    return rates, wrong[:, None] * member, words[:, None] * member


def ends(value: Floats | float, reach: Floats | float) -> tuple[Floats, Floats]:
    """Return the further ends of Student's on the scale of a rate and on that of its log odds."""
    value = np.asarray(value)
    odds = reach / (value * (1 - value))
    low, high = expit(logit(value) - odds), expit(logit(value) + odds)
    return np.maximum(np.minimum(value - reach, low), 0.0), np.minimum(np.maximum(value + reach, high), 1.0)


CASES = [(3, 0.2, 60, 0.9), (12, 0.3, 6, 0.8), (12, 0.3, 60, 0.85), (40, 0.2, 60, 0.6)]


@pytest.mark.parametrize(("groups", "spread", "most", "gain"), CASES)
def test_shrunken_rates_are_nearer_and_intervals_cover(groups: int, spread: float, most: int, gain: float) -> None:
    rng = np.random.default_rng(7)
    raw, shrunken, covered = [], [], []
    for _ in range(max(40, 1600 // groups)):
        rates, errors, sizes = drawn(groups, spread, rng, most=most)
        found = shrink_rates(errors, sizes)
        raw.append(np.mean((errors.sum(0) / sizes.sum(0) - rates) ** 2))
        shrunken.append(np.mean((found.value - rates) ** 2))
        covered.append(np.mean((found.low <= rates) & (rates <= found.high)))
    assert np.mean(shrunken) < gain * np.mean(raw)
    assert 0.91 < np.mean(covered) < 0.99


def test_the_design_effect_is_that_of_the_errors_drawn() -> None:
    rng = np.random.default_rng(8)
    # Words go wrong four at a time: a rate varies four times as much as one of single words.
    sizes = np.repeat(np.eye(60), 3, axis=0) * 400.0
    found = [shrink_rates(4.0 * rng.poisson(0.05 * sizes), sizes) for _ in range(60)]
    # The common one, the smallest, is right; a group's own is taken where it is larger.
    assert np.mean([one.design_effect.min() for one in found]) == pytest.approx(4.0, rel=0.05)
    assert np.mean([np.median(one.design_effect) for one in found]) < 4.5
    # Nothing between the groups but chance: pooled on to all that was heard about every other time.
    capped = np.mean([one.prior_words.min() == sizes.sum() for one in found])
    assert 0.3 < capped < 0.8
    alone = [shrink_rates(1.0 * rng.poisson(0.2 * sizes), sizes).design_effect.min() for _ in range(60)]
    assert min(alone) == 1.0
    assert np.mean(alone) < 1.1


def test_the_words_of_the_prior_are_those_of_its_variance() -> None:
    rng = np.random.default_rng(9)
    sizes = np.repeat(np.eye(80), 6, axis=0) * 100.0
    rates = rng.gamma(10.0, 0.02, (40, 80))
    found = [shrink_rates(1.0 * rng.poisson(row * sizes), sizes) for row in rates]
    # tau^2 = 10 * 0.02^2 and m = 0.2: k = 0.2 / 0.004.
    assert np.median([one.prior_words.min() for one in found]) == pytest.approx(50, rel=0.15)


def test_every_rate_goes_towards_that_of_all_and_the_smallest_group_the_furthest() -> None:
    rng = np.random.default_rng(10)
    _, errors, sizes = drawn(15, 0.3, rng)
    found = shrink_rates(errors, sizes)
    raw, words = errors.sum(0) / sizes.sum(0), sizes.sum(0)
    kept = (found.value - found.prior_mean) / (raw - found.prior_mean)
    assert kept == pytest.approx(words / (words + found.prior_words))
    assert found.prior_mean == pytest.approx(errors.sum() / sizes.sum())
    assert np.all((found.low < found.value) & (found.value < found.high))
    narrow = shrink_rates(errors, sizes, level=0.5)
    assert np.all((narrow.high - narrow.low) < 0.5 * (found.high - found.low))


def test_with_many_groups_the_interval_is_near_the_one_of_the_gamma_distribution() -> None:
    rng = np.random.default_rng(11)
    _, errors, sizes = drawn(400, 0.5, rng)
    found = shrink_rates(errors, sizes)
    # Of groups that have the common design effect, and so many degrees of freedom.
    alike = found.design_effect == found.design_effect.min()
    assert alike.sum() > 150
    shape = (errors.sum(0) + found.prior_words * found.prior_mean) / found.design_effect
    rate = (sizes.sum(0) + found.prior_words) / found.design_effect
    for tail, end in ((0.025, found.low), (0.975, found.high)):
        ideal = gamma.ppf(tail, shape, scale=1 / rate)
        assert np.median(np.abs(end / ideal - 1)[alike]) < 0.1


@pytest.mark.parametrize(("speakers", "least"), [(10, 0.86), (20, 0.86)])
def test_one_group_of_uneven_speakers_keeps_its_noise(speakers: int, least: float) -> None:
    rng, odd, others = np.random.default_rng(21), [], []
    group = np.repeat(np.arange(8), speakers)
    spread = np.where(group == 0, 1.5, 0.5)
    sizes = np.eye(8)[group] * 60.0
    for _ in range(300):
        rates = rng.gamma(11, 0.2 / 11, 8)
        own = rates[group] * rng.gamma(1 / spread**2, spread**2)
        found = shrink_rates(rng.poisson(own[:, None] * sizes).astype(float), sizes)
        inside = (found.low <= rates) & (rates <= found.high)
        odd.append(inside[0])
        others.append(inside[1:].mean())
    # 0.90 in truth with one design effect a group, 0.75 with one for all.
    assert np.mean(odd) >= least
    assert np.mean(others) >= 0.93


def test_one_group_keeps_its_rate() -> None:
    errors = np.array([[1.0], [5.0], [2.0], [12.0]])
    found = shrink_rates(errors, np.full((4, 1), 50.0))
    assert found.value.tolist() == [0.1]
    assert found.prior_words == 0
    assert found.design_effect == pytest.approx((16 + 0 + 9 + 49) / (20 * 0.75))
    low, high = ends(0.1, float(t.isf(0.025, 3) * np.sqrt(found.design_effect[0] * 0.1 / 200)))
    assert [found.low[0], found.high[0]] == pytest.approx([low, high])


def test_a_group_without_an_error_may_have_none() -> None:
    _, errors, sizes = drawn(15, 0.3, np.random.default_rng(12))
    errors[:, 4] = 0.0
    found = shrink_rates(errors, sizes)
    assert found.value[4] > 0
    assert (found.low == 0).tolist() == [group == 4 for group in range(15)]


def test_no_group_is_pooled_on_to_more_than_all_that_was_heard() -> None:
    rng = np.random.default_rng(13)
    sizes = np.repeat(np.eye(3), 3, axis=0) * 20.0
    found = [shrink_rates(1.0 * rng.poisson(0.3 * sizes), sizes).prior_words.max() for _ in range(100)]
    assert max(found) == sizes.sum()
    assert min(found) < 0.5 * sizes.sum()


def test_the_interval_is_averaged_over_the_spread_between_the_groups() -> None:
    rates, words = np.array([0.1, 0.25, 0.3, 0.15]), np.array([200.0, 40.0, 60.0, 400.0])
    sizes = np.repeat(np.diag(words / 2), 2, axis=0)
    # Speakers of a group alike: words go wrong one at a time, d = 1, and of how spread d is nothing is learnt.
    found = shrink_rates(sizes * rates, sizes)
    assert np.all(found.design_effect == 1.0)
    sampling = found.prior_mean / words
    differ = np.eye(4)[1:] - np.eye(4)[0]
    chances, moments = [], []
    taus = np.linspace(1e-5, 10 * max(np.sqrt(sampling.max()), abs(rates - found.prior_mean).max()), 4000)
    for tau in taus:
        spread = np.diag(tau**2 + sampling)
        # Likelihood of the differences of the rates, in which the mean of the prior plays no part.
        chances.append(multivariate_normal.pdf(differ @ rates, cov=differ @ spread @ differ.T))
        weight = 1 / np.diag(spread)
        mean, kept = weight @ rates / weight.sum(), tau**2 * weight
        centre = kept * rates + (1 - kept) * mean
        moments.append(centre * kept / words + (1 - kept) ** 2 / weight.sum() + (centre - found.value) ** 2)
    low, high = ends(found.value, t.isf(0.025, 1) * np.sqrt(np.average(moments, axis=0, weights=chances)))
    assert found.low == pytest.approx(low, abs=1e-9) and found.high == pytest.approx(high, rel=2e-3)
    # With hardly any degrees of freedom these ends see next to nothing; those of half are inside.
    found = shrink_rates(sizes * rates, sizes, level=0.5)
    low, high = ends(found.value, t.isf(0.25, 1) * np.sqrt(np.average(moments, axis=0, weights=chances)))
    assert [*found.low, *found.high] == pytest.approx([*low, *high], rel=2e-3)
    assert np.all(low > 0)


def test_intervals_of_higher_levels_hold_those_of_lower_ones_and_stay_in_range() -> None:
    rng = np.random.default_rng(14)
    for _ in range(60):
        sizes = np.zeros((9, 2))
        sizes[:4, 0], sizes[4:, 1] = rng.integers(5, 200, 4), rng.integers(5, 200, 5)
        errors = np.minimum(rng.poisson(0.1 * rng.gamma(1, 1, (9, 2)) * sizes), sizes)
        if not errors.any():
            continue
        before = shrink_rates(errors, sizes, level=0.5)
        for level in (0.9, 0.999, 0.9999):
            found = shrink_rates(errors, sizes, level=level)
            assert np.all((found.low <= before.low) & (before.high <= found.high) & (found.high <= 1))
            assert np.all((found.low < found.value) & (found.value < found.high))
            before = found


def test_without_errors_the_high_end_is_the_exact_one_over_speakers() -> None:
    sizes = np.zeros((12, 2))
    sizes[:2, 0], sizes[2:, 1] = 100.0, 5.0
    found = shrink_rates(np.zeros((12, 2)), sizes)
    assert found.value.tolist() == found.low.tolist() == [0.0, 0.0]
    assert found.high == pytest.approx([1 - 0.025 ** (1 / 2), 1 - 0.025 ** (1 / 10)])
    assert (found.prior_words.tolist(), found.prior_mean, found.design_effect.tolist()) == ([0.0, 0.0], 0.0, [1.0, 1.0])


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        # One speaker in a group, no error in a group, more errors than words, and a speaker in both groups.
        ([[4, 0], [2, 0], [0, 9]], [[20, 0], [20, 0], [0, 20]]),
        ([[4, 0], [2, 0], [0, 0]], [[20, 0], [20, 0], [0, 2000]]),
        ([[40, 0], [20, 0], [0, 9]], [[20, 0], [20, 0], [0, 20]]),
        ([[4, 3], [2, 1]], [[20, 5], [20, 5]]),
        ([[1, 0, 0], [0, 0, 0], [0, 1e6, 0], [0, 0, 1]], [[1, 0, 0], [1, 0, 0], [0, 1e7, 0], [0, 0, 1e7]]),
        ([[2, 0], [2, 0], [0, 2]], [[20, 0], [20, 0], [0, 20]]),
    ],
)
def test_few_speakers_still_have_rates_and_intervals(errors: list[list[float]], words: list[list[float]]) -> None:
    wrong, sizes = np.array(errors, dtype=float), np.array(words, dtype=float)
    found = shrink_rates(wrong, sizes)
    numbers = np.stack([found.low, found.value, found.high])
    assert np.isfinite(numbers).all()
    assert np.all(np.diff(numbers, axis=0) >= 0) and np.all(found.low >= 0) and np.all(found.value > 0)
    assert np.all(found.high - found.low > 0)
    assert not found.low[wrong.sum(0) == 0].any()
    assert np.all((found.prior_words > 0) & (found.prior_words <= sizes.sum()))
    assert np.all(found.design_effect >= 1)


@pytest.mark.parametrize(
    ("errors", "sizes", "said"),
    [
        ([[1, 0], [1, 0]], [[9, 0], [9, 0]], "no words"),
        ([[]], [[]], "no words"),
        ([[1, 0], [0, 1]], [[9, 0], [0, 9]], "two speakers"),
        ([[0, 0], [0, 0], [0, 1]], [[9, 0], [9, 0], [0, 9]], "two speakers"),
    ],
)
def test_what_cannot_be_told_is_refused(errors: list[list[float]], sizes: list[list[float]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        shrink_rates(np.array(errors, dtype=float), np.array(sizes, dtype=float))
