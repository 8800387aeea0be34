"""Does an attack follow the right gradient, never go too far, hold little at once, and refuse what has none?"""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from probes.classifiers.classifier_networks import small_cnn
from probes.classifiers.noise import BLOCK, Noise, start_block
from probes.classifiers.smoothed_attacks import TOGETHER, attack, check_gradient
from probes.classifiers.smoothing import Sampler
from probes.core.errors import IncompleteError, InputError
from probes.core.executor import one_thread

SHAPE = (2, 6, 5)
SIGMA = 0.5


@pytest.fixture(autouse=True)
def as_in_a_job() -> Iterator[None]:
    with one_thread():
        yield


def image(number: int = 0, shape: tuple[int, int, int] = SHAPE) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(number))


def make_sampler(net: nn.Module, **more: Any) -> Sampler:
    noise = Noise("gaussian", SIGMA)
    return Sampler(net, **{"classes": 2, "noise": noise, "seed": 3, "device": "cpu", "dtype": "float32", **more})


class Smooth(nn.Module):
    """A curved network of three classes that counts the images of each call."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        stream = torch.Generator().manual_seed(1)
        self.first = nn.Parameter(torch.randn(60, 8, generator=stream) / 4, requires_grad=False)
        self.last = nn.Parameter(torch.randn(8, 3, generator=stream) * scale, requires_grad=False)
        self.calls: list[int] = []

    def forward(self, pixels: Tensor) -> Tensor:
        self.calls.append(len(pixels))
        logits: Tensor = (pixels.flatten(1) @ self.first).tanh() @ self.last
        return logits


class Plane(nn.Module):
    """Two classes on the sides of a plane through the middle of the pixels; `scale` is how sure it is."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.way = torch.randn(60, generator=torch.Generator().manual_seed(2))
        self.way /= self.way.norm()
        self.scale = scale

    def forward(self, pixels: Tensor) -> Tensor:
        far = self.scale * ((pixels - 0.5).flatten(1) @ self.way)
        return torch.stack([far, -far], 1)


def noise_of(draws: int, block: int, index: int = 0, seed: int = 3) -> Tensor:
    """Return the noise of draws as the definition of a stream has it, shape (draws, c, h, w)."""
    generator, rows = torch.Generator(), []
    for number in range(-(-draws // BLOCK)):
        start_block(generator, seed, index, "attack", block + number)
        rows.append(torch.empty(BLOCK, 6, 5, 2).normal_(0.0, SIGMA, generator=generator))
    return torch.cat(rows)[:draws].permute(0, 3, 1, 2)


@pytest.mark.parametrize("draws", [1, 16, 30, 150])
def test_a_step_follows_the_gradient_of_the_log_of_the_mean_softmax(draws: int) -> None:
    net = Smooth()
    moved = attack(make_sampler(net), image(), 0, 1, length=0.25, steps=1, draws=draws).pixels - image()
    leaf = image().requires_grad_()
    # The objective as it is published, of all draws at once.
    mean = net(leaf + noise_of(draws, 0)).softmax(1)[:, 1].mean()
    (slope,) = torch.autograd.grad(-mean.log(), leaf)
    assert float((moved * slope).sum() / moved.norm() / slope.norm()) == pytest.approx(1.0, abs=1e-5)
    assert float(moved.norm()) == pytest.approx(0.25, rel=1e-5)


def test_steps_have_noise_of_their_own_and_end_within_the_distance() -> None:
    net, length, steps = Smooth(3.0), 0.6, 3
    change = torch.zeros(SHAPE)
    for step in range(steps):
        leaf = (image() + change).requires_grad_()
        mean = net(leaf + noise_of(40, 3 * step, index=5)).softmax(1)[:, 0].mean()
        (slope,) = torch.autograd.grad(-mean.log(), leaf)
        change = change + 2 * length / steps * slope / slope.norm()
        change *= min(1.0, length / float(change.norm()))
    found = attack(make_sampler(net), image(), 5, 0, length=length, steps=steps, draws=40).pixels
    assert torch.allclose(found, image() + change, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
def test_a_network_that_is_sure_still_shows_the_way(scale: float) -> None:
    net = Plane(scale)
    start = 0.5 + 2.0 * net.way.reshape(SHAPE)
    found = attack(make_sampler(net), start, 0, 0, length=1.0, steps=4, draws=32)
    moved = (found.pixels - start).flatten()
    assert float(moved @ net.way) == pytest.approx(-1.0, abs=1e-4)
    assert found.blind == 0


@settings(max_examples=60)
@given(length=st.floats(1e-6, 1e3), side=st.integers(1, 40), number=st.integers(0, 9))
def test_no_change_is_longer_than_the_distance_not_even_by_rounding(length: float, side: int, number: int) -> None:
    pixels = image(number, (1, side, side))
    net = nn.Sequential(nn.Flatten(), nn.Linear(side * side, 2))
    found = attack(make_sampler(net), pixels, number, 0, length=length, steps=2, draws=1).pixels
    assert float((found.double() - pixels.double()).norm()) <= length


def test_draws_are_many_and_few_of_them_are_held_at_once() -> None:
    net = Smooth()
    attack(make_sampler(net), image(), 0, 0, length=0.5, steps=3, draws=150)
    assert net.calls == [TOGETHER, TOGETHER, 150 - 2 * TOGETHER] * 3


def test_large_images_are_held_a_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.classifiers.smoothed_attacks.MOST_VALUES", 60 * 20)
    net = Smooth()
    small = attack(make_sampler(net), image(), 0, 0, length=0.5, steps=1, draws=40).pixels
    assert net.calls == [BLOCK, BLOCK, 8]
    monkeypatch.undo()
    assert torch.allclose(small, attack(make_sampler(net), image(), 0, 0, length=0.5, steps=1, draws=40).pixels)


def test_the_outcome_depends_on_seed_and_number_of_the_image_alone() -> None:
    def made(seed: int, index: int) -> Tensor:
        return attack(make_sampler(Smooth(), seed=seed), image(), index, 0, length=0.5, steps=2, draws=4).pixels

    assert torch.equal(made(3, 1), made(3, 1))
    assert not torch.equal(made(3, 1), made(3, 2))
    assert not torch.equal(made(3, 1), made(4, 1))
    # Another seed is set on a copy.
    sampler = make_sampler(Smooth())
    again = attack(sampler.reseeded(4), image(), 1, 0, length=0.5, steps=2, draws=4).pixels
    assert torch.equal(again, made(4, 1)) and sampler.seed == 3


def test_a_flat_network_is_left_a_random_way_and_said_to_be_flat() -> None:
    class Flat(nn.Module):
        def forward(self, pixels: Tensor) -> Tensor:
            return torch.stack([pixels.flatten(1).sum(1) * 0 + 1, pixels.flatten(1).sum(1) * 0], 1)

    found = attack(make_sampler(Flat()), image(), 0, 0, length=0.5, steps=3, draws=2)
    assert found.blind == 3
    assert 0 < float((found.pixels - image()).norm()) <= 0.5


class Hidden(nn.Module):
    """A network whose gradient is lost in one of several ways."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.net = how, small_cnn(SHAPE, 3, 4)

    def forward(self, pixels: Tensor) -> Tensor:
        if self.how == "no_grad":
            with torch.no_grad():
                return self.net(pixels)
        if self.how == "numpy":
            return self.net(torch.from_numpy(pixels.numpy()))
        logits: Tensor = self.net(pixels)
        return torch.eye(3)[logits.argmax(1)]


@pytest.mark.parametrize("how", ["no_grad", "numpy", "argmax"])
def test_a_network_without_gradients_is_refused(how: str) -> None:
    net = Hidden(how)
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(InputError) as error:
        check_gradient(make_sampler(net, classes=3), image())
    assert "no gradient" in str(error.value) and error.value.where == "--attack-steps"
    assert "--attack-steps" in (error.value.hint or "") and "differentiate" in (error.value.hint or "")


def test_a_network_with_gradients_is_taken_in_eval_mode_and_left_without_gradients() -> None:
    net = small_cnn(SHAPE, 3, 4).eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    check_gradient(make_sampler(net, classes=3), image())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_a_device_without_room_for_a_gradient_is_told_with_a_way_out() -> None:
    class Full(nn.Module):
        def forward(self, pixels: Tensor) -> Tensor:
            raise torch.OutOfMemoryError

    with pytest.raises(IncompleteError, match="ran out of memory on the gradient of 40 noisy copies") as raised:
        attack(make_sampler(Full()), image(), 0, 0, length=0.5, steps=1, draws=40)
    assert raised.value.where == "--attack-draws" and "fewer than 40" in (raised.value.hint or "")


def test_logits_that_are_not_finite_are_refused() -> None:
    class Broken(nn.Module):
        def forward(self, pixels: Tensor) -> Tensor:
            return torch.stack([pixels.flatten(1).sum(1) * math.nan] * 2, 1)

    with pytest.raises(InputError, match="not finite"):
        attack(make_sampler(Broken()), image(), 0, 0, length=0.5, steps=1, draws=1)
