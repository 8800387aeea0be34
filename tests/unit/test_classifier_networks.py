import torch

from probes.classifiers.classifier_networks import Normalise, small_cnn
from probes.models.architectures import build


def test_normalise_is_per_channel() -> None:
    layer = Normalise((0.5, 0.25), (0.5, 2.0))
    assert layer.mean.shape == layer.std.shape == (2, 1, 1)
    images = torch.stack([torch.full((3, 3), 1.0), torch.full((3, 3), 0.75)])[None]
    assert layer(images)[0, :, 1, 1].tolist() == [1.0, 0.25]


def test_small_cnn_is_drawn_from_its_seed_alone() -> None:
    before = torch.random.get_rng_state()
    first, again, other = (small_cnn((1, 8, 8), 10, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first.conv1.weight, again.conv1.weight)
    assert not torch.equal(first.conv1.weight, other.conv1.weight)
    assert small_cnn((1, 8, 8), 10, width=5).conv2.weight.shape == (10, 5, 3, 3)
    build("small_cnn", first.state_dict())
    assert torch.equal(torch.random.get_rng_state(), before)
