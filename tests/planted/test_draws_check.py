"""Are quantiles, quantiser points and shared random numbers told from draws, and draws never called so?"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

from audits.conditional.draws import REGULAR
from probes.conditional.draws_check import (
    Piled,
    piled,
    regular_spacing,
    shared_draws,
    whole_numbers,
)

Floats = np.ndarray
Law = Callable[[np.random.Generator, tuple[int, ...]], Floats]
ROWS, SEEDS = 300, 200
INDEPENDENT = 2 * np.log(2) - 1
"""Mean ratio of the smaller to the larger of two adjacent spacings of independent draws (Oganesyan & Huse 2007)."""


def mixture(rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
    drawn: Floats = rng.normal(size=size)
    return np.where(rng.random(size) < 0.4, -2.0, 2.0) + 0.3 * drawn


LAWS: dict[str, Law] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "mixture": mixture,
    "exponential": lambda rng, size: rng.exponential(size=size),
    "t": lambda rng, size: rng.standard_t(3, size=size),
}
QUANTISER = {
    5: np.array([-1.7241, -0.7646, 0, 0.7646, 1.7241]),
    10: np.array([-2.3451, -1.5790, -1.0578, -0.6099, -0.1996, 0.1996, 0.6099, 1.0578, 1.5790, 2.3451]),
}


def by_row(values: Floats, seed: int = 0) -> Floats:
    """Return values, shape (K,) or (rows, K), of a mean and a spread by row, shape (rows, K, 1)."""
    rng = np.random.default_rng(seed)
    moved = rng.normal(size=(ROWS, 1)) + rng.gamma(2, size=(ROWS, 1)) * values
    return moved[:, :, None]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("draws", [2, 5, 20])
def test_independent_draws_are_never_called_anything_else(law: str, draws: int) -> None:
    means, correlations = [], []
    for seed in range(SEEDS):
        samples = by_row(LAWS[law](np.random.default_rng([seed, draws]), (ROWS, draws)), seed)
        for given in (samples, np.sort(samples, axis=1), -np.sort(samples, axis=1)):
            spacing, shared = regular_spacing(given), shared_draws(given)
            assert shared is not None and not shared.shared
            if draws >= 5:
                assert spacing is not None and spacing < REGULAR - 0.1
                means.append(spacing)
        found = shared_draws(samples)
        assert found is not None and found.z < 5
        correlations.append(found.correlation)
    error = np.sqrt(2 / (ROWS * (ROWS - 1) * (draws - 1)))
    assert abs(np.mean(correlations)) < 4 * error / np.sqrt(SEEDS)
    assert np.std(correlations) == pytest.approx(error, rel=0.35)
    if law == "normal" and draws == 20:
        assert np.mean(means) == pytest.approx(INDEPENDENT, abs=0.005)


@pytest.mark.parametrize("draws", [5, 9, 20, 50])
def test_quantiles_and_points_are_too_regular(draws: int) -> None:
    quantiles = norm.ppf((np.arange(draws) + 0.5) / draws)
    jitter = 1 + 1e-3 * np.random.default_rng(0).normal(size=(ROWS, draws))
    for values in (quantiles, quantiles * jitter, -np.log((np.arange(draws) + 0.5) / draws)):
        mixed = np.random.default_rng(1).permuted(by_row(values), axis=1)
        found = regular_spacing(mixed)
        assert found is not None and found > REGULAR
    if draws in QUANTISER:
        for n in QUANTISER:
            found = regular_spacing(by_row(QUANTISER[n]))
            assert found is not None and found > 0.8


def test_spacings_tell_nothing_of_few_or_whole_or_tied_values() -> None:
    rng = np.random.default_rng(2)
    samples = rng.normal(size=(ROWS, 10, 1))
    nothing = {
        "coordinates": rng.normal(size=(ROWS, 10, 2)),
        "draws": samples[:, :4],
        "rows": samples[:5],
        "whole": np.round(1e3 * samples),
        "rounded": np.round(samples, 1),
        "equal": np.ones((ROWS, 10, 1)) / 3,
    }
    assert {name: regular_spacing(given) for name, given in nothing.items()} == dict.fromkeys(nothing)
    # Some equal draws, or values rounded a little, leave the rest as it was.
    repeated = samples.copy()
    repeated[:100, 1] = repeated[:100, 0]
    for given in (repeated, np.round(samples, 2), np.r_[samples, np.ones((20, 10, 1))]):
        assert regular_spacing(given) == pytest.approx(INDEPENDENT, abs=0.035)


@pytest.mark.parametrize("draws", [5, 20, 100])
@pytest.mark.parametrize("law", LAWS)
def test_random_numbers_used_again_in_each_row_are_shared(law: str, draws: int) -> None:
    for seed in range(20):
        noise = LAWS[law](np.random.default_rng([seed, 1]), (draws,))
        found = shared_draws(by_row(noise, seed))
        if (np.diff(noise) > 0).all() or (np.diff(noise) < 0).all():
            continue
        assert found is not None and found.shared
        assert found.correlation == pytest.approx(1)
        few = shared_draws(by_row(noise, seed)[:20])
        assert few is not None and few.shared == (draws > 5 or few.z > 6)
    # A few rows in ten that share their numbers are too many as well.
    rng = np.random.default_rng(3)
    samples = LAWS[law](rng, (ROWS, draws))
    samples[: ROWS // 2] = samples[0]
    found = shared_draws(by_row(samples))
    assert found is not None and found.shared and 0.2 < found.correlation < 0.3


def test_points_of_several_values_in_a_fixed_order_are_shared_and_draws_are_not() -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(size=(ROWS, 1, 1))
    for draws in (2, 3, 6):
        points = np.array([[-2, 1], [-1, -1], [1, 3], [0, 0], [3, 2], [2, -3]])[:draws]
        found = shared_draws((1 + x) * points + x)
        assert found is not None and found.shared and found.correlation == pytest.approx(1)
    for seed in range(SEEDS):
        samples = np.random.default_rng(seed).normal(size=(ROWS, 6, 3))
        samples[..., 1:] += 2 * samples[..., :1]
        found = shared_draws(samples)
        assert found is not None and not found.shared and found.z < 5
        # In the order of the first value, the others, which go with it, are alike without being shared.
        ordered = np.take_along_axis(samples, samples[..., :1].argsort(1), axis=1)
        found = shared_draws(ordered)
        assert found is not None and found.in_order == 1 and found.correlation > 0.5 and not found.shared


def test_rows_that_do_not_vary_say_nothing_of_shared_draws() -> None:
    rng = np.random.default_rng(5)
    samples = np.where(np.arange(ROWS)[:, None, None] < 200, 0.1, rng.normal(size=(1, 8, 1)))
    found = shared_draws(samples)
    assert found is not None and found.shared and found.correlation == pytest.approx(1) and found.in_order == 0
    half = np.concatenate((np.full((ROWS, 8, 1), 0.3), rng.normal(size=(ROWS, 8, 1))), axis=2)
    found = shared_draws(half)
    assert found is not None and not found.shared and abs(found.correlation) < 0.01
    once = half.copy()
    once[0, :, 0] = np.arange(8)
    assert shared_draws(once) == found.__class__(correlation=found.correlation, z=found.z, in_order=1.0, shared=False)
    assert shared_draws(np.full((ROWS, 8, 1), 0.1)) is None
    assert shared_draws(samples[199:201]) is None
    assert shared_draws(rng.normal(size=(ROWS, 1, 1))) is None


def test_ends_where_values_pile_up() -> None:
    values = np.random.default_rng(6).normal(size=2_000)
    assert piled(values) == Piled(0.0, 0.0)
    assert piled(np.maximum(values, -1)) == Piled(float((values <= -1).mean()), 0.0)
    both = np.clip(values, -1, 0.5)
    assert piled(both) == Piled(float((values <= -1).mean()), float((values >= 0.5).mean()))
    table = np.stack((values, both, np.ones_like(values), np.zeros_like(values)), axis=1)
    assert piled(table) == piled(both)
    assert piled(np.maximum(values, -2)) == Piled(0.0, 0.0)
    assert piled(np.array([1.0, 1.0, 2.0, 3.0])) == Piled(0.0, 0.0)
    with pytest.raises(ValueError, match="no values"):
        piled(values[:0])


def test_whole_numbers() -> None:
    assert whole_numbers(np.array([[1.0, 2e15], [-3.0, 0.0]]))
    assert not whole_numbers(np.array([1.0, 2.000001]))
