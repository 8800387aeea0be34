"""Clips of a speaker that are added up, and sums under shuffled labels: the numbers are those of single clips."""

import numpy as np
import pytest

from audits.statistics import Summed, fit_poisson_gee
from audits.statistics.bootstrap import blocks_of, cluster_counts, cluster_weights, resampled_sums
from audits.statistics.permutation import permuted_group_sums


def test_a_model_of_sums_is_that_of_the_clips() -> None:
    rng = np.random.default_rng(0)
    speakers = np.repeat(np.arange(60), 7)
    group, room = (speakers % 2).astype(float), rng.integers(2, size=len(speakers)).astype(float)
    sizes = rng.integers(4, 12, len(speakers)).astype(float)
    errors = rng.poisson(sizes * np.exp(-2 + 0.5 * group + 0.2 * room)).astype(float)
    design = np.stack([np.ones(len(speakers)), group, room], axis=1)
    whole = fit_poisson_gee(errors, sizes, design, speakers)
    _, first, cell = np.unique(speakers * 2 + room, return_index=True, return_inverse=True)
    summed = Summed(clips=len(speakers), squares=np.bincount(cell, errors**2 / sizes))
    rows = (np.bincount(cell, errors), np.bincount(cell, sizes), design[first], speakers[first])
    found = fit_poisson_gee(*rows, summed=summed)
    for name in ("coefficients", "covariance", "robust", "dispersion", "clusters"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_sums_under_shuffled_labels_are_those_counted_one_by_one(scale: float) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=40)
    sums = np.zeros((40, 3, 2))
    sums[np.arange(40), labels] = scale * rng.integers(1, 9, (40, 2))
    found = np.concatenate(list(permuted_group_sums(sums, sums[..., 0] > 0, 300, np.random.default_rng(2))))
    drawn, blocks = np.random.default_rng(2), []
    for size in (250, 50):
        shuffled = drawn.permuted(np.tile(labels, (size, 1)), axis=1)
        blocks.append([[sums.sum(axis=1)[row == group].sum(axis=0) for group in range(3)] for row in shuffled])
    np.testing.assert_allclose(found, np.concatenate(blocks), rtol=1e-12)


def test_samples_in_little_memory_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cluster_weights(30, 70, np.random.default_rng(3))
    monkeypatch.setattr("audits.statistics.bootstrap._AT_ONCE", 100)
    counts = cluster_counts(30, 70, np.random.default_rng(3))
    assert counts.dtype == np.uint8 and (counts == whole).all()
    places = np.array([4, 4, 29])
    assert (np.concatenate(list(blocks_of(counts, places))) == whole[:, places]).all()
    sums = np.random.default_rng(4).integers(9, size=(30, 2, 2)).astype(float)
    assert (resampled_sums(counts, sums) == resampled_sums(whole, sums)).all()


def test_a_cluster_that_is_drawn_very_often_is_counted() -> None:
    assert cluster_counts(1, 3, np.random.default_rng(0)).tolist() == [[1]] * 3
    always = type("Rng", (), {"multinomial": lambda self, n, share, size: np.array([[n, 0]] * size)})()
    assert cluster_counts(2, 3, always).max() == 2


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_parts_of_a_cluster_are_moved_together_as_one_by_one(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    present = rng.random((40, 3)) < 0.7
    sums = present[..., None] * scale * rng.integers(1, 9, (40, 3, 2))

    def drawn() -> np.ndarray:
        return np.concatenate(list(permuted_group_sums(sums, present, 300, np.random.default_rng(6))))

    found = drawn()
    monkeypatch.setattr("audits.statistics.permutation._AT_ONCE", 500)
    np.testing.assert_array_equal(drawn(), found)
    monkeypatch.setattr("audits.statistics.permutation._whole", lambda values: False)
    np.testing.assert_allclose(drawn(), found, rtol=1e-12)
