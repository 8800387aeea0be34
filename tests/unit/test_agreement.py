"""Do the sums give the numbers that closed forms say, and do they add up?"""

import numpy as np
import pytest
import torch

from probes.gradients.agreement import Agreement, added, agreement, compare

P = 1000


def of(estimates: np.ndarray, reference: np.ndarray) -> Agreement:
    return compare(np.atleast_2d(estimates), reference, float(np.abs(reference).max()))


def test_noise_has_the_cosine_of_its_law() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(size=P)
    noise = rng.normal(size=(200, P)) * 0.05 * np.linalg.norm(reference)
    found = of(reference + noise, reference)
    assert float(found.measures()["cosine"]) == pytest.approx(1 / np.sqrt(1 + 0.05**2 * P), abs=0.005)
    assert float(found.measures()["norm_ratio"]) == pytest.approx(np.sqrt(1 + 0.05**2 * P), rel=0.01)
    assert float(found.measures()["relative_error"]) == pytest.approx(0.05 * np.sqrt(P), rel=0.01)
    assert float(found.measures()["variance"]) == pytest.approx(0.05**2 * P, rel=0.02)
    assert float(found.measures()["squared_bias"]) == pytest.approx(0.0, abs=0.01)


def test_flipped_signs_are_counted() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(size=100_000)
    flipped = np.where(rng.random(reference.size) < 0.2, -reference, reference)
    found = of(flipped, reference)
    assert float(found.measures()["sign_agreement"]) == pytest.approx(0.8, abs=0.004)
    assert float(found.measures()["weighted_sign_agreement"]) == pytest.approx(0.8, abs=0.005)


def test_signs_of_vanishing_entries_are_not_counted() -> None:
    found = of(np.array([1.0, -1.0, 0.0, 1.0]), np.array([1.0, 1e-13, 1.0, 0.0]))
    assert (float(found.agreeing[0]), float(found.counted[0])) == (1.0, 2.0)


def test_the_bias_of_a_forward_gradient_is_corrected() -> None:
    rng = np.random.default_rng(1)
    reference = rng.normal(size=P)
    corrected, naive, squares, cosines = [], [], [], []
    for _ in range(60):
        directions = rng.normal(size=(50, P))
        found = of(directions * (directions @ reference)[:, None], reference)
        corrected.append(float(found.measures()["squared_bias"]))
        naive.append(float(found.bias[0] / found.reference[0]))
        squares.append(float((found.square / found.reference).mean()))
        cosines.append(float(np.abs(found.dot / np.sqrt(found.square * found.reference)).mean()))
    assert np.mean(naive) == pytest.approx((P + 1) / 50, rel=0.1)
    assert abs(np.mean(corrected)) < 4 * np.std(corrected) / np.sqrt(60)
    assert np.mean(squares) == pytest.approx(P + 2, rel=0.1)
    assert np.mean(cosines) == pytest.approx(np.sqrt(2 / (np.pi * P)), rel=0.05)


def test_three_times_the_gradient_has_its_direction_and_three_times_its_norm() -> None:
    reference = np.random.default_rng(0).normal(size=P)
    found = of(3 * reference, reference)
    assert (float(found.measures()["cosine"]), float(found.measures()["norm_ratio"])) == (
        pytest.approx(1.0),
        pytest.approx(3.0),
    )
    assert np.isnan(found.measures()["variance"])


def test_blocks_add_up_to_the_whole() -> None:
    rng = np.random.default_rng(0)
    estimates, reference = rng.normal(size=(3, 50)), rng.normal(size=50)
    largest = float(np.abs(reference).max())
    parts = added(
        compare(estimates[:, :20], reference[:20], largest), compare(estimates[:, 20:], reference[20:], largest)
    )
    whole = compare(estimates, reference, largest)
    for name in Agreement.__slots__:
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)


def test_totals_leave_out_the_last_layer_and_what_is_absent() -> None:
    shapes = {"first": (4, 3), "second": (5,), "last": (2, 2)}
    rng = torch.Generator().manual_seed(0)
    exact = {name: torch.randn(shape, generator=rng, dtype=torch.float64) for name, shape in shapes.items()}
    guess = {name: 2 * exact[name] for name in ("first", "last")}
    found = agreement([guess], exact).with_totals([True, True, False])
    assert found.dot.shape == (1, 5)
    assert np.isnan(found.dot[0, 1])
    np.testing.assert_allclose(found.size[0], [12, np.nan, 4, 12, 16])
    np.testing.assert_allclose(found.measures()["norm_ratio"], [2, np.nan, 2, 2, 2])


def test_what_is_not_finite_is_absent_and_zero_has_no_direction() -> None:
    exact = {"a": torch.ones(3), "b": torch.ones(3), "c": torch.zeros(3)}
    guess = {"a": torch.tensor([1.0, float("nan"), 1.0]), "b": torch.zeros(3), "c": torch.ones(3)}
    found = agreement([guess], exact)
    assert np.isnan(found.measures()["cosine"]).all()
    np.testing.assert_array_equal(found.measures()["relative_error"], [np.nan, 1.0, np.nan])
