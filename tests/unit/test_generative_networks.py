"""Are the networks those that their names say, in the sizes of their weights, and is everything else refused?"""

import copy
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.generators.generative_networks import (
    NETWORKS,
    MlpDenoiser,
    MlpDiscriminator,
    MlpGenerator,
    encode_times,
    fresh_denoiser,
    fresh_gan,
    guess_network,
    network_from,
)

SHAPE = (1, 4, 4)
State = dict[str, Tensor]


def small(name: str, shape: tuple[int, ...] = SHAPE) -> nn.Module:
    generator, discriminator = fresh_gan(shape, latent=5, hidden=7, seed=3)
    made = {"mlp-generator": generator, "mlp-discriminator": discriminator}
    return made[name] if name in made else fresh_denoiser(shape, hidden=6, layers=2, seed=3)


def value(module: nn.Module, shape: tuple[int, ...] = SHAPE) -> Tensor:
    draws = torch.Generator().manual_seed(0)
    if isinstance(module, MlpGenerator):
        return module(torch.randn(3, module.latent, generator=draws))
    points = torch.randn(3, *shape, generator=draws)
    return module(points, torch.tensor([0, 10, 999])) if isinstance(module, MlpDenoiser) else module(points)


@pytest.mark.parametrize(
    ("module", "count"),
    [
        (MlpDenoiser((1, 8, 8)), 2 * (64 * 256 + 256) + 3 * (256 * 256 + 256) + 256 * 64 + 64),
        (MlpGenerator((1, 8, 8)), 32 * 256 + 256 + 256 * 256 + 256 + 256 * 64 + 64),
        (MlpDiscriminator((1, 8, 8)), 64 * 256 + 256 + 256 * 256 + 256 + 257),
    ],
)
def test_sizes(module: nn.Module, count: int) -> None:
    assert sum(weight.numel() for weight in module.parameters()) == count


def test_times_are_encoded_as_cosines_and_sines() -> None:
    t = np.array([0, 1, 17, 999])
    angles = t[:, None] * 10_000.0 ** (-np.arange(4) / 4)
    wanted = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    assert np.allclose(encode_times(torch.from_numpy(t), 8).numpy(), wanted, atol=1e-4)


@pytest.mark.parametrize("name", list(NETWORKS))
@pytest.mark.parametrize("shape", [SHAPE, (6,), (3, 2, 2), (1,), (1, 1, 1)])
def test_weights_alone_bring_the_network_back(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    module = small(name, shape)
    save_file(module.state_dict(), tmp_path / "a.safetensors")
    state = load_file(tmp_path / "a.safetensors")
    again = network_from(name, state)
    assert guess_network(state) == name and not again.training
    assert torch.equal(value(again, shape), value(module, shape))
    assert again.state_dict().keys() == module.state_dict().keys()
    assert all(tensor.device.type == "cpu" for tensor in again.state_dict().values())


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_the_number_of_layers_is_read_back(layers: int) -> None:
    module = MlpDenoiser(SHAPE, hidden=4, layers=layers, times=6)
    again = network_from("mlp-denoiser", module.state_dict())
    assert torch.equal(value(again), value(module))


@pytest.mark.parametrize(
    ("saved", "asked", "found"),
    [
        ((1, 4, 4), None, (1, 4, 4)),
        ((1, 4, 4), (1, 4, 4), (1, 4, 4)),
        ((1, 4, 4), (4, 4), (4, 4)),
        ((1, 4, 4), (16,), (16,)),
        ((16,), (1, 4, 4), (1, 4, 4)),
        (None, None, (16,)),
        (None, (4, 2, 2), (4, 2, 2)),
        ((1, 4, 4), (1, 2, 8), None),
        ((4, 2, 2), (2, 2, 4), None),
        ((1, 4, 4), (1, 8, 8), None),
        (None, (1, 4, 5), None),
    ],
)
@pytest.mark.parametrize("name", list(NETWORKS))
def test_the_shape_of_a_point(
    name: str, saved: tuple[int, ...] | None, asked: tuple[int, ...] | None, found: tuple[int, ...] | None
) -> None:
    state = small(name, saved or (16,)).state_dict()
    if saved is None:
        del state["point_shape"]
    if found is None:
        with pytest.raises(InputError, match="points have the shape"):
            network_from(name, state, asked)
    else:
        assert network_from(name, state, asked).shape == found


def without(name: str) -> Callable[[State], State]:
    return lambda state: {key: tensor for key, tensor in state.items() if key != name}


def changed(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[State], State]:
    return lambda state: {**state, name: change(state[name])}


DAMAGE: dict[str, tuple[Callable[[State], State], str]] = {
    "missing": (without("leave.bias"), "missing"),
    "no first layer": (without("enter.weight"), "enter.weight is missing"),
    "left over": (lambda state: {**state, "extra": torch.ones(1)}, "unexpected"),
    "shape": (changed("enter.bias", lambda t: t[:-1]), "another shape"),
    "gap": (lambda state: {**state, "blocks.7.weight": torch.ones(6, 6)}, "do not fit"),
    "not a number": (changed("leave.weight", lambda t: t * math.nan), "not finite, first in leave.weight"),
    "no matrix": (changed("enter.weight", lambda t: t.flatten()), "no matrix"),
    "whole numbers": (changed("enter.weight", lambda t: t.long()), "no matrix"),
    "complex": (changed("time.bias", lambda t: t.to(torch.complex64)), "no plain array"),
    "sparse": (changed("time.weight", lambda t: t.to_sparse()), "no plain array"),
    "empty": (changed("time.weight", lambda t: t[:0]), "no plain array"),
    "expanded": (changed("time.bias", lambda t: torch.ones(1).expand(10**12)), "more than are stored"),
    "lying shape": (changed("point_shape", lambda t: torch.tensor([1, 4, 5])), "not the shape of 16"),
    "huge shape": (changed("point_shape", lambda t: torch.tensor([2**62, 4, 4])), "not the shape of 16"),
    "negative shape": (changed("point_shape", lambda t: torch.tensor([-4, -4])), "not the shape of 16"),
    "shape of fractions": (changed("point_shape", lambda t: t.float()), "not the shape of 16"),
    "many axes": (changed("point_shape", lambda t: torch.tensor([16, 1, 1, 1, 1])), "not the shape of 16"),
}


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_damaged_weights_are_refused(kind: str) -> None:
    change, said = DAMAGE[kind]
    with pytest.raises(InputError, match=said) as caught:
        network_from("mlp-denoiser", change(small("mlp-denoiser").state_dict()))
    assert caught.value.where and caught.value.hint


def test_names_that_do_not_fit() -> None:
    state = small("mlp-generator").state_dict()
    with pytest.raises(InputError, match="not of mlp-denoiser") as caught:
        network_from("mlp-denoiser", state)
    assert caught.value.hint == "Give --arch mlp-generator."
    with pytest.raises(InputError, match="not a known network") as caught:
        network_from("mlp-generatr", state)
    assert "mlp-generator" in caught.value.hint
    assert guess_network({"conv1.weight": torch.ones(1)}) is None


def test_wider_numbers_become_float32() -> None:
    module = small("mlp-denoiser")
    again = network_from("mlp-denoiser", copy.deepcopy(module).double().state_dict())
    assert again.enter.weight.dtype == torch.float32 and torch.equal(value(again), value(module))


def test_the_denoiser_is_what_its_docstring_says() -> None:
    module = small("mlp-denoiser").double()
    w = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    x, t = np.random.default_rng(0).normal(size=16), torch.tensor([40])
    h = w["enter.weight"] @ x + w["time.weight"] @ encode_times(t, 64)[0].double().numpy()
    h += w["enter.bias"] + w["time.bias"]
    for block in range(2):
        h = h + w[f"blocks.{block}.weight"] @ (h / (1 + np.exp(-h))) + w[f"blocks.{block}.bias"]
    wanted = w["leave.weight"] @ (h / (1 + np.exp(-h))) + w["leave.bias"]
    found = module(torch.from_numpy(x).reshape(1, *SHAPE), t)
    assert np.allclose(found.detach().numpy().ravel(), wanted)


@pytest.mark.parametrize("shape", [SHAPE, (5,)])
def test_further_axes_are_points_of_their_own(shape: tuple[int, ...]) -> None:
    module = fresh_denoiser(shape, hidden=6, layers=2, seed=0)
    points, times = torch.randn(3, 4, *shape), torch.randint(1000, (3, 4))
    each = torch.stack([module(x, t) for x, t in zip(points, times, strict=True)])
    assert module(points, times).shape == points.shape
    assert torch.allclose(module(points, times), each, atol=1e-6)


def test_every_point_has_a_gradient_of_its_own() -> None:
    module = small("mlp-denoiser")
    weights = {name: weight.detach() for name, weight in module.named_parameters()}

    def loss(given: State, x: Tensor, t: Tensor) -> Tensor:
        return torch.func.functional_call(module, given, (x[None], t[None])).square().sum()

    points, times = torch.randn(3, *SHAPE), torch.tensor([1, 2, 3])
    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, points, times)
    module(points[1:2], times[1:2]).square().sum().backward()
    assert torch.allclose(found["enter.weight"][1], module.enter.weight.grad, atol=1e-5)


def test_the_seed_draws_the_weights_and_nothing_else_moves() -> None:
    before = torch.get_rng_state()
    one, same, other = (fresh_denoiser(SHAPE, hidden=6, layers=1, seed=seed) for seed in (0, 0, 1))
    first, again = fresh_gan(SHAPE, latent=2, hidden=4, seed=0), fresh_gan(SHAPE, latent=2, hidden=4, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.enter.weight, same.enter.weight) and not torch.equal(one.enter.weight, other.enter.weight)
    assert all(torch.equal(a.leave.weight, b.leave.weight) for a, b in zip(first, again, strict=True))
