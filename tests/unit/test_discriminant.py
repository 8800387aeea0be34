"""Are moments additive, and is a linear discriminant what it is by hand, however the data lie?"""

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.speech.discriminant import ClassMoments, Probe, fit_discriminant

pytestmark = pytest.mark.numerical

CLASSES, WIDTH = 4, 5


def items(count: int, seed: int, *, classes: int = CLASSES, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=rng)
    centres = 1.5 * torch.randn(classes, width, generator=rng)
    return centres[labels] + torch.randn(count, width, generator=rng), labels


def moments_of(vectors: Tensor, labels: Tensor, *, classes: int = CLASSES) -> ClassMoments:
    found = ClassMoments.empty(1, classes, vectors.shape[1])
    found.add(0, vectors, labels)
    return found


def answers(probe: Probe, vectors: Tensor) -> Tensor:
    return (vectors @ probe[0] + probe[1]).argmax(1)


def assert_same(one: ClassMoments, other: ClassMoments, *, atol: float = 1e-9) -> None:
    for name in ("counts", "sums", "squares"):
        assert torch.allclose(getattr(one, name), getattr(other, name), atol=atol, rtol=0), name


def test_moments_are_those_of_a_slow_loop() -> None:
    vectors, labels = items(50, 0)
    found, exact = moments_of(vectors, labels), vectors.double().numpy()
    assert [part.dtype for part in (found.counts, found.sums, found.squares)] == [torch.float64] * 3
    for number in range(CLASSES):
        own = exact[labels.numpy() == number]
        assert found.counts[0, number] == len(own)
        assert found.sums[0, number].numpy() == pytest.approx(own.sum(0), abs=1e-10)
    upper = np.triu_indices(WIDTH)
    assert found.squares[0].numpy()[upper] == pytest.approx((exact.T @ exact)[upper], rel=1e-5, abs=1e-4)


def test_sets_are_added_and_taken_out() -> None:
    """Whole numbers, whose products float32 holds exactly."""
    found = ClassMoments.empty(3, CLASSES, WIDTH)
    parts = []
    for place in range(3):
        rng = torch.Generator().manual_seed(place)
        vectors = torch.randint(-9, 10, (20 + place, WIDTH), generator=rng).float()
        labels = torch.randint(0, CLASSES, (20 + place,), generator=rng)
        parts.append((vectors, labels))
        # In two pieces, the first of one item.
        found.add(place, vectors[:1], labels[:1])
        found.add(place, vectors[1:], labels[1:])
    whole = moments_of(torch.cat([v for v, _ in parts]), torch.cat([y for _, y in parts]))
    assert_same(found.total([0, 1, 2]), whole)
    for place, (vectors, labels) in enumerate(parts):
        assert_same(found.total([place]), moments_of(vectors, labels))
        assert_same(whole.subtract(found.total([place])), found.total([p for p in range(3) if p != place]))
    assert_same(found.total([]), ClassMoments.empty(1, CLASSES, WIDTH))


def test_sets_do_not_share_memory() -> None:
    found = ClassMoments.empty(2, CLASSES, WIDTH)
    found.add(0, *items(10, 1))
    assert not found.counts[1].any() and not found.sums[1].any() and not found.squares[1].any()
    total = found.total([0])
    found.add(0, *items(10, 2))
    assert total.counts.sum() == 10


@pytest.mark.parametrize("shift", [0.0, 3.0, -20.0])
def test_a_shift_of_all_data_moves_only_the_biases(shift: float) -> None:
    vectors, labels = items(400, 3)
    asked = items(300, 4)[0]
    plain = fit_discriminant(moments_of(vectors, labels))
    moved = fit_discriminant(moments_of(vectors + shift, labels))
    scores = asked @ plain[0] + plain[1]
    shifted = (asked + shift) @ moved[0] + moved[1]
    assert torch.allclose(scores - scores[:, :1], shifted - shifted[:, :1], atol=0.02)
    sure = scores.topk(2).values.diff(dim=1).abs()[:, 0] > 0.02
    assert torch.equal(answers(plain, asked)[sure], answers(moved, asked + shift)[sure]) and sure.sum() > 250


def test_a_rotation_of_all_data_changes_no_score() -> None:
    """Shrinking towards a multiple of the identity does not see directions."""
    vectors, labels = items(60, 5)
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(6)))[0]
    plain, turned = fit_discriminant(moments_of(vectors, labels)), fit_discriminant(moments_of(vectors @ turn, labels))
    assert torch.allclose(vectors @ plain[0] + plain[1], vectors @ turn @ turned[0] + turned[1], atol=1e-3)


@pytest.mark.parametrize("missing", range(CLASSES))
def test_a_class_without_items_is_never_answered(missing: int) -> None:
    vectors, labels = items(200, 7)
    kept = labels != missing
    weights, biases = fit_discriminant(moments_of(vectors[kept], labels[kept]))
    assert bool(torch.isfinite(weights).all()) and biases[missing] == -torch.inf
    others = [number for number in range(CLASSES) if number != missing]
    assert bool(torch.isfinite(biases[others]).all())
    asked = torch.cat([vectors, torch.zeros(1, WIDTH), 100 * torch.randn(50, WIDTH)])
    assert set(answers((weights, biases), asked).tolist()) <= set(others)


def test_a_class_without_items_changes_the_answers_of_no_other() -> None:
    vectors, labels = items(200, 8, classes=3)
    three = fit_discriminant(moments_of(vectors, labels, classes=3))
    four = fit_discriminant(moments_of(vectors, labels, classes=4))
    assert torch.equal(three[0], four[0][:, :3]) and torch.equal(three[1], four[1][:3])


def test_frequent_classes_are_answered_more_often_where_vectors_say_nothing() -> None:
    vectors = torch.randn(400, 2, generator=torch.Generator().manual_seed(9))
    labels = (torch.arange(400) % 10 == 0).long()
    weights, biases = fit_discriminant(moments_of(vectors, labels, classes=2))
    assert float(biases[0] - biases[1]) == pytest.approx(np.log(9), abs=0.1)
    assert answers((weights, biases), vectors).float().mean() < 0.02


@pytest.mark.parametrize("count", [2, 3, 12])
def test_few_items_of_many_dimensions_give_finite_probes_that_know_them(count: int) -> None:
    rng = torch.Generator().manual_seed(10)
    vectors, labels = torch.randn(count, 200, generator=rng), torch.arange(count) % 2
    probe = fit_discriminant(moments_of(vectors, labels, classes=2))
    assert bool(torch.isfinite(probe[0]).all()) and bool(torch.isfinite(probe[1]).all())
    assert torch.equal(answers(probe, vectors), labels)


@pytest.mark.parametrize("width", [1, 2, 6])
def test_items_without_spread_give_a_finite_probe(width: int) -> None:
    vectors = torch.eye(2).repeat(3, 1)[:, :1] * torch.ones(width)
    labels = torch.arange(2).repeat(3)
    probe = fit_discriminant(moments_of(vectors, labels, classes=2))
    assert bool(torch.isfinite(probe[0]).all())
    assert torch.equal(answers(probe, vectors), labels)


def test_one_dimension_is_the_textbook_rule() -> None:
    """Two normal classes of variance s^2: the border lies at the middle, moved by s^2 log(p0 / p1) / (m1 - m0)."""
    low, high = torch.tensor([-2.0, -1.0, 0.0, -1.0, -2.0, 0.0]), torch.tensor([2.0, 4.0])
    vectors, labels = torch.cat([low, high])[:, None], torch.tensor([0] * 6 + [1] * 2)
    weights, biases = fit_discriminant(moments_of(vectors, labels, classes=2))
    variance = (float((low + 1).square().sum()) + float((high - 3).square().sum())) / (8 - 2)
    border = float((biases[0] - biases[1]) / (weights[0, 1] - weights[0, 0]))
    assert border == pytest.approx(1.0 + variance * np.log(3) / 4, rel=1e-5)


def test_the_covariance_is_shrunk_by_equation_23() -> None:
    """Read back from the weights, which are the shrunk covariance's inverse times the means."""
    vectors, labels = items(30, 11, classes=2, width=3)
    vectors = vectors * torch.tensor([1.0, 2.0, 5.0])
    weights = fit_discriminant(moments_of(vectors, labels, classes=2))[0].double().numpy()
    exact, y = vectors.double().numpy(), labels.numpy()
    means = np.stack([exact[y == number].mean(0) for number in range(2)])
    n, p = 30 - 2, 3
    s = (exact - means[y]).T @ (exact - means[y]) / n
    square, trace = np.trace(s @ s), np.trace(s)
    rho = ((1 - 2 / p) * square + trace**2) / ((n + 1 - 2 / p) * (square - trace**2 / p))
    rho = min(rho, 1.0)
    shrunk = (1 - rho) * s + rho * trace / p * np.eye(p)
    assert 0 < rho < 1
    assert weights == pytest.approx(np.linalg.solve(shrunk, means.T), rel=1e-4, abs=1e-4)
