"""Are the scores those of all distances at once, do they find planted copies, and nothing where there is nothing?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import rankdata
from sklearn.datasets import load_digits

from probes.core.errors import InputError
from probes.generators.attacks import discriminators, samples
from probes.generators.attacks.densities import density_ratio, log_kernel_means
from probes.generators.attacks.discriminators import shadow_discriminator
from probes.generators.attacks.samples import calibrated, monte_carlo, nearest
from probes.generators.point_sets import PointSet, read_points

pytestmark = pytest.mark.numerical

Singles = NDArray[np.float32]


def normal(count: int, width: int, *, seed: int, offset: float = 0.0, scale: float = 1.0) -> Singles:
    return (offset + scale * np.random.default_rng(seed).normal(size=(count, width))).astype(np.float32)


def stored(folder: Path, values: Singles) -> PointSet:
    np.savez_compressed(folder / "points.npz", x=values)
    return read_points(folder / "points.npz", role="--samples")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "ROWS", 32)
    monkeypatch.setattr(samples, "COLUMNS", 48)


CASES: dict[str, tuple[Singles, Singles]] = {
    "one number": (normal(50, 1, seed=0), normal(70, 1, seed=1)),
    "many blocks": (normal(110, 5, seed=0), normal(205, 5, seed=1)),
    "wide": (normal(40, 700, seed=0), normal(60, 700, seed=1)),
    "far from the origin": (normal(60, 6, seed=0, offset=1e4), normal(90, 6, seed=1, offset=1e4)),
    "copies": (normal(60, 4, seed=0), np.repeat(normal(60, 4, seed=0), 3, axis=0)),
    "one sample over and over": (normal(60, 4, seed=0), np.repeat(normal(1, 4, seed=1), 200, axis=0)),
    # Of 9 near copies rounding tells none from another, and each counts.
    "near copies": (
        normal(40, 4, seed=0),
        np.repeat(normal(40, 4, seed=0), 8, axis=0) + normal(320, 4, seed=3, scale=1e-5),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("small_blocks")
def test_nearest_and_share_are_those_of_all_distances(case: str) -> None:
    x, made = CASES[case]
    squared = cdist(x.astype(np.float64), made.astype(np.float64), "sqeuclidean")
    np.testing.assert_allclose(nearest(x, made), -squared.min(1), rtol=1e-12, atol=0)
    radius = np.sort(squared.min(1))[(len(x) - 1) // 2]
    shares = monte_carlo(x, made)
    assert (shares >= (squared < radius * (1 - 1e-9)).mean(1)).all()
    assert (shares <= (squared <= radius + 1e-9 * squared.max()).mean(1)).all()
    assert (shares > 0).mean() >= 0.5
    other = normal(33, x.shape[1], seed=9)
    np.testing.assert_allclose(calibrated(x, made, other), nearest(x, made) - nearest(x, other), rtol=1e-12)


def test_a_heap_is_no_further_off_than_float32_rounds() -> None:
    heap = (1 + 1e-5 * np.random.default_rng(0).normal(size=(500, 3))).astype(np.float32)
    x = heap[:50] - np.float32([1.0, 0.0, 0.0])
    squared = cdist(x.astype(np.float64), heap.astype(np.float64), "sqeuclidean").min(1)
    np.testing.assert_allclose(-nearest(x, heap), squared, rtol=1e-4)


@pytest.mark.usefixtures("small_blocks")
def test_the_ratio_of_densities_is_that_of_all_kernels() -> None:
    x, made, real = normal(70, 3, seed=0), normal(130, 3, seed=1), normal(61, 3, seed=2)
    widths = [0.003, 0.5, 10.0]
    parts = []
    for others in (made, real):
        squared = cdist(x.astype(np.float64), others.astype(np.float64), "sqeuclidean")
        parts.append(np.stack([logsumexp(-squared / 2 / h**2, axis=1) - np.log(len(others)) for h in widths]))
    np.testing.assert_allclose(log_kernel_means(x, made, widths), parts[0], rtol=1e-9)
    np.testing.assert_allclose(density_ratio(x, made, real, widths), parts[0] - parts[1], rtol=1e-9, atol=1e-8)
    for wrong in ([0.0], [np.nan], [], [1e-200]):
        with pytest.raises(InputError, match="bandwidth"):
            log_kernel_means(x, made, wrong)


@pytest.mark.usefixtures("small_blocks")
def test_sets_in_files_score_as_arrays_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discriminators, "STEPS", 5)
    monkeypatch.setattr(discriminators, "MOST", 40)
    x, made, real = (normal(count, 12, seed=count) for count in (60, 90, 50))
    scores: list[list[Any]] = []
    for one in (made, stored(tmp_path, made.reshape(90, 3, 2, 2))):
        ratio = density_ratio(x, one, real, [1.0])
        scores.append([nearest(x, one), monte_carlo(x, one), ratio, shadow_discriminator(x, one, real, seed=3)])
    for left, right in zip(*scores, strict=True):
        np.testing.assert_array_equal(left, right)


def test_what_cannot_be_compared_is_refused() -> None:
    x = normal(5, 3, seed=0)
    with pytest.raises(InputError, match=r"\(3,\) are compared with \(4,\)"):
        nearest(x, normal(5, 4, seed=0))
    with pytest.raises(InputError, match="no points"):
        monte_carlo(x, x[:0])
    with pytest.raises(InputError, match="not finite"):
        nearest(x, np.where(x > 0, np.nan, x))
    with pytest.raises(InputError, match="squares") as caught:
        nearest(x * np.float32(1e30), x)
    assert "--normalisation" not in caught.value.hint


def success(scores: NDArray[np.float64], count: int) -> float:
    """Return the area under the curve where the first `count` are members."""
    ranks = rankdata(scores)
    return float((ranks[:count].sum() - count * (count + 1) / 2) / count / (len(scores) - count))


@pytest.mark.parametrize("leaks", [True, False])
def test_planted_copies_are_found_and_fresh_samples_tell_nothing(leaks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discriminators, "STEPS", 600)
    digits = (load_digits().data / 8 - 1).astype(np.float32)
    rng = np.random.default_rng(0)
    digits = digits[rng.permutation(len(digits))]
    x = digits[:1000]
    source, real = (x[:500], digits[1000:]) if leaks else (digits[1000:1400], digits[1400:])
    made = source[rng.integers(len(source), size=2000)] + normal(2000, 64, seed=1, scale=0.1)
    found = {
        "nearest": success(nearest(x, made), 500),
        "calibrated": success(calibrated(x, made, real), 500),
        "monte carlo": success(monte_carlo(x, made), 500),
        "densities": success(density_ratio(x, made, real, [0.5])[0], 500),
        "discriminator": success(shadow_discriminator(x, made, real, seed=0), 500),
    }
    for name, area in found.items():
        if leaks:
            # A network draws a boundary, and does not keep every sample.
            assert area > (0.8 if name == "discriminator" else 0.94), found
        else:
            assert abs(area - 0.5) < 3 * 0.0183, found


def test_a_seed_gives_the_same_discriminator_and_leaves_the_global_state_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(discriminators, "STEPS", 3)
    x, made, real = normal(20, 4, seed=0), normal(30, 4, seed=1), normal(30, 4, seed=2)
    before = torch.random.get_rng_state()
    first = shadow_discriminator(x, made, real, seed=1)
    np.testing.assert_array_equal(first, shadow_discriminator(x, made, real, seed=1))
    assert (first != shadow_discriminator(x, made, real, seed=2)).any()
    assert torch.equal(before, torch.random.get_rng_state())
    same = np.zeros((4, 4), dtype=np.float32)
    assert np.isfinite(shadow_discriminator(same, same, same, seed=0)).all()
