"""Is the softmax probe scikit-learn's logistic regression, layer by layer?"""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from probes.speech.softmax_probes import softmax_probe, standardise

pytestmark = [pytest.mark.numerical, pytest.mark.usefixtures("one_thread")]


def problem(layers: int, items: int, width: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return standardised features of growing noise, shape (layers, items, width), and labels."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=generator) * 0.5
    labels = torch.arange(items) % classes
    scale = torch.linspace(0.5, 3.0, layers)[:, None, None]
    features = centres[labels] + torch.randn(layers, items, width, generator=generator) * scale
    return standardise(features)[0], labels


def log_probabilities(features: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
    return torch.log_softmax(features @ weights + biases[:, None], -1)


@pytest.mark.parametrize(
    ("items", "width", "classes", "penalty"),
    [(60, 200, 12, 1.0), (150, 150, 10, 1.0), (600, 40, 12, 1.0), (200, 30, 2, 1.0), (300, 50, 6, 10.0)],
)
def test_probe_is_the_logistic_regression_of_scikit_learn(items: int, width: int, classes: int, penalty: float) -> None:
    train, labels = problem(3, items, width, classes)
    asked = problem(3, 90, width, classes, seed=1)[0]
    weights, biases = softmax_probe(train, labels, classes, penalty=penalty)
    found = log_probabilities(asked, weights, biases)
    for layer in range(3):
        oracle = LogisticRegression(C=1 / penalty, max_iter=5000, tol=1e-8)
        if classes == 2:
            # Two classes have one weight vector w there and two here, -w/2 and w/2, whose penalty is half as much.
            oracle = LogisticRegression(C=2 / penalty, max_iter=5000, tol=1e-8)
        oracle.fit(train[layer].double().numpy(), labels.numpy())
        expected = torch.from_numpy(oracle.predict_log_proba(asked[layer].double().numpy()))
        assert float((found[layer] - expected).abs().max()) < 0.05
        sure = expected.sort(-1).values.diff(dim=-1)[:, -1] > 0.05
        assert torch.equal(found[layer].argmax(-1)[sure], torch.from_numpy(oracle.predict(asked[layer].numpy()))[sure])


@pytest.mark.parametrize(("items", "width"), [(60, 200), (300, 40)])
def test_layers_do_not_see_each_other(items: int, width: int) -> None:
    features, labels = problem(5, items, width, 8)
    weights, biases = softmax_probe(features, labels, 8)
    for layer in range(5):
        alone = softmax_probe(features[layer : layer + 1], labels, 8)
        assert torch.allclose(alone[0][0], weights[layer], atol=2e-4)
        assert torch.allclose(alone[1][0], biases[layer], atol=2e-4)


def test_probe_is_at_the_minimum() -> None:
    features, labels = problem(2, 80, 150, 7)
    weights, biases = (part.double().requires_grad_() for part in softmax_probe(features, labels, 7))
    logits = features.double() @ weights + biases[:, None]
    loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels.expand(2, -1), reduction="sum")
    (loss + 0.5 * (weights**2).sum()).backward()
    assert weights.grad is not None and biases.grad is not None
    assert float(weights.grad.abs().max()) < 5e-3 and float(biases.grad.abs().max()) < 5e-3


def test_one_layer_without_signal_disturbs_none() -> None:
    features, labels = problem(2, 100, 20, 5)
    features[1] = 0.0
    weights, biases = softmax_probe(features, labels, 5)
    assert float(weights[1].abs().max()) == 0.0 and float(biases[1].abs().max()) < 1e-4
    assert torch.allclose(softmax_probe(features[:1], labels, 5)[0][0], weights[0], atol=2e-4)


def weighed_problem(items: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return features, labels and whole weights of three layers, each with labels and weights of its own."""
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(0, 5, (3, items), generator=generator)
    centres = 0.8 * torch.randn(5, width, generator=generator)
    features = standardise(centres[labels] + torch.randn(3, items, width, generator=generator))[0]
    return features, labels, torch.randint(0, 4, (3, items), generator=generator).float()


SIZES = [(60, 100), (150, 20)]


@pytest.mark.parametrize(("items", "width"), SIZES)
def test_weights_are_the_sample_weights_of_scikit_learn(items: int, width: int) -> None:
    features, labels, counts = weighed_problem(items, width)
    for shares in (counts, 0.37 * counts + 0.1):
        weights, biases = softmax_probe(features, labels, 5, shares=shares)
        found = log_probabilities(features, weights, biases)
        for layer in range(3):
            x, y = features[layer].double().numpy(), labels[layer].numpy()
            oracle = LogisticRegression(C=1.0, max_iter=5000, tol=1e-8).fit(x, y, sample_weight=shares[layer].numpy())
            assert np.abs(found[layer].numpy() - oracle.predict_log_proba(x)).max() < 0.05


@pytest.mark.parametrize(("items", "width"), SIZES)
def test_weight_zero_leaves_an_item_out_and_a_whole_weight_repeats_it(items: int, width: int) -> None:
    features, labels, counts = weighed_problem(items, width)
    weights, biases = softmax_probe(features, labels, 5, shares=counts)
    # What has no weight may be anything.
    loud = torch.where(counts[:, :, None] > 0, features, 50.0)
    other = softmax_probe(loud, torch.where(counts > 0, labels, 0), 5, shares=counts)
    for layer in range(3):
        rows = torch.repeat_interleave(torch.arange(items), counts[layer].long())
        repeated = softmax_probe(features[layer][rows][None], labels[layer][rows], 5)
        expected = log_probabilities(features[layer : layer + 1], *repeated)[0]
        assert len(rows) > items and len(rows.unique()) < items
        for found in ((weights, biases), other):
            given = log_probabilities(features[layer : layer + 1], found[0][layer][None], found[1][layer][None])[0]
            assert float((given - expected).abs().max()) < 0.02


@pytest.mark.parametrize(("items", "width"), SIZES)
def test_weights_of_one_change_nothing(items: int, width: int) -> None:
    features, labels, _ = weighed_problem(items, width)
    plain = softmax_probe(features, labels, 5)
    weighed = softmax_probe(features, labels, 5, shares=torch.ones(3, items))
    assert torch.equal(plain[0], weighed[0]) and torch.equal(plain[1], weighed[1])


@pytest.mark.parametrize(("items", "width"), SIZES)
def test_layers_of_labels_of_their_own_are_fitted_as_alone(items: int, width: int) -> None:
    features, labels, shares = weighed_problem(items, width)
    weights, biases = softmax_probe(features, labels, 5, shares=shares)
    for layer in range(3):
        alone = softmax_probe(features[layer][None], labels[layer], 5, shares=shares[layer][None])
        assert torch.allclose(alone[0][0], weights[layer], atol=2e-4)
        assert torch.allclose(alone[1][0], biases[layer], atol=2e-4)
    assert not torch.allclose(softmax_probe(features, labels[0], 5, shares=shares)[0][1], weights[1], atol=0.01)


def test_standardise_uses_the_training_items_only() -> None:
    train = torch.randn(2, 50, 4, generator=torch.Generator().manual_seed(0)) * 3 + 100
    other = torch.randn(2, 10, 4, generator=torch.Generator().manual_seed(1))
    known, asked = standardise(train, other)
    assert float(known.mean(1).abs().max()) < 1e-4
    assert np.allclose(known.numpy().std(1), 1, atol=1e-4)
    expected = (other.numpy() - train.numpy().mean(1, keepdims=True)) / train.numpy().std(1, keepdims=True)
    assert np.allclose(asked.numpy(), expected, rtol=1e-4)


def test_standardise_leaves_a_constant_dimension_at_zero() -> None:
    train = torch.full((1, 20, 2), 1234.567)
    train[0, :, 1] = torch.arange(20.0)
    known, asked = standardise(train, train[:, :3] + 1)
    assert float(known[0, :, 0].abs().max()) < 1e-3
    assert torch.allclose(asked[0, :, 0], torch.ones(3), atol=1e-3)
