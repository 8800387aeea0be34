"""Does the linear discriminant from moments answer as scikit-learn's does, and shrink as it shrinks?"""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.covariance import oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from probes.speech.discriminant import ClassMoments, Probe, fit_discriminant

pytestmark = pytest.mark.numerical


def problem(count: int, width: int, classes: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return vectors with correlated dimensions and unequally frequent classes."""
    rng = np.random.default_rng(seed)
    common = np.random.default_rng(classes * 1000 + width)
    mixing = np.eye(width) + 0.5 * common.normal(size=(width, width)) / np.sqrt(width)
    shares = common.dirichlet(np.full(classes, 3.0))
    centres = common.normal(0.0, 1.5 / np.sqrt(width), size=(classes, width))
    labels = rng.choice(classes, count, p=shares)
    vectors = centres[labels] + rng.normal(size=(count, width)) @ mixing
    return vectors.astype(np.float32), labels


def fitted(vectors: NDArray[np.float32], labels: NDArray[np.int64], classes: int) -> Probe:
    moments = ClassMoments.empty(1, classes, vectors.shape[1])
    for part in np.array_split(np.arange(len(labels)), 7):
        moments.add(0, torch.from_numpy(vectors[part]), torch.from_numpy(labels[part]))
    return fit_discriminant(moments)


def scores(probe: Probe, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = torch.log_softmax(torch.from_numpy(vectors) @ probe[0] + probe[1], 1).double().numpy()
    return found


@pytest.mark.parametrize(("width", "classes"), [(2, 2), (10, 8), (40, 20)])
def test_with_many_items_it_answers_as_scikit_learn_does(width: int, classes: int) -> None:
    vectors, labels = problem(20_000, width, classes, 0)
    asked = problem(3000, width, classes, 1)[0]
    probe = fitted(vectors, labels, classes)
    oracle = LinearDiscriminantAnalysis(solver="lsqr").fit(vectors.astype(np.float64), labels)
    expected = oracle.predict_log_proba(asked.astype(np.float64))
    found = scores(probe, asked)
    best = np.sort(expected, axis=1)
    sure = best[:, -1] - best[:, -2] > 0.2
    assert (found.argmax(1) == expected.argmax(1))[sure].all() and sure.mean() > 0.8
    likely = expected > np.log(1e-3)
    assert np.abs(found - expected)[likely].mean() < 0.06


def centred(vectors: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    exact = vectors.astype(np.float64)
    means = np.stack([exact[labels == number].mean(0) for number in range(labels.max() + 1)])
    return exact - means[labels]


@pytest.mark.parametrize(("count", "width", "classes"), [(60, 150, 4), (150, 100, 5), (400, 60, 3)])
def test_with_few_items_it_shrinks_as_scikit_learn_does(count: int, width: int, classes: int) -> None:
    """scikit-learn leaves out the 2 / p of equation 23 and divides by n, not by n less the classes: both fade away."""
    vectors, labels = problem(count, width, classes, 2)
    probe = fitted(vectors, labels, classes)
    residuals = centred(vectors, labels)
    freedom = count - classes
    covariance, amount = oas(residuals, assume_centered=True)
    means = vectors.astype(np.float64) - residuals
    means = np.stack([means[labels == number][0] for number in range(classes)])
    ours = np.linalg.lstsq(means @ means.T, means @ probe[0].double().numpy(), rcond=None)[0]
    theirs = np.linalg.lstsq(means @ means.T, means @ np.linalg.solve(covariance, means.T), rcond=None)[0]
    assert 0.01 < amount < 1
    assert ours == pytest.approx(theirs * freedom / count, rel=0.06, abs=0.02 * np.abs(theirs).max())


@pytest.mark.parametrize("width", [3, 20, 200])
def test_the_amount_is_that_of_scikit_learn_but_for_its_two_over_p(width: int) -> None:
    """The published equation, and scikit-learn's without 2 / p, which agree the better the more dimensions."""
    from probes.speech.discriminant import shrunk_covariance

    data = np.random.default_rng(3).normal(size=(80, width)) * np.linspace(1, 2, width)
    covariance = data.T @ data / 80
    shrunk = shrunk_covariance(torch.from_numpy(covariance), 80.0).numpy()
    off = ~np.eye(width, dtype=bool)
    amount = 1 - float((shrunk[off] / covariance[off]).mean())
    square, trace = (covariance**2).sum(), np.trace(covariance)
    published = ((1 - 2 / width) * square + trace**2) / ((81 - 2 / width) * (square - trace**2 / width))
    assert amount == pytest.approx(min(published, 1.0), rel=1e-9)
    theirs = oas(data, assume_centered=True)[1]
    assert amount == pytest.approx(theirs, rel=2 / width)
    assert np.trace(shrunk) == pytest.approx(trace)


def test_shrinking_helps_where_items_are_few() -> None:
    vectors, labels = problem(80, 60, 4, 4)
    asked, truth = problem(3000, 60, 4, 5)
    shrunk = (scores(fitted(vectors, labels, 4), asked).argmax(1) == truth).mean()
    plain = LinearDiscriminantAnalysis(solver="lsqr").fit(vectors, labels).score(asked, truth)
    oracle = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(vectors, labels).score(asked, truth)
    assert shrunk > plain + 0.03
    assert shrunk > oracle - 0.05
