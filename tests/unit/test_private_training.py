"""Is training with privacy what it says: clipped, noised, accounted once, and otherwise the plain one?"""

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.core.random_streams import stream
from probes.files.pickles import read_pickle
from probes.generators.generative_networks import MlpDenoiser, fresh_denoiser, fresh_gan, network_from
from probes.generators.generator_files import load_generator
from probes.generators.private_training import (
    Mechanism,
    gradient_source,
    poisson_batches,
    save_private,
    train_private_denoiser,
    train_private_gan,
)

LINEAR = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
SIGMA: dict[str, Any] = {"noise_multiplier": 1.5, "sample_rate": 0.25, "steps": 6}


@pytest.fixture
def opacus() -> None:
    pytest.importorskip("opacus", reason="training with privacy needs opacus (pip install 'miles-audit[privacy]')")


def points(count: int = 16, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 1, 2, 3)).astype(np.float32)


def denoiser(**options: Any) -> Any:
    settings = {"alphas_bar": LINEAR, "hidden": 8, "layers": 2, **SIGMA, **options}
    return train_private_denoiser(
        options.pop("points", points()), **{k: v for k, v in settings.items() if k != "points"}
    )


def gan(**options: Any) -> Any:
    return train_private_gan(options.pop("points", points()), latent=3, hidden=8, **{**SIGMA, **options})


def flat(networks: Any) -> Tensor:
    return torch.cat([weight.detach().flatten() for network in networks for weight in network.parameters()])


def losses(module: nn.Module, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
    return (module(x, t) - noise).square().flatten(1).mean(1)


@pytest.mark.parametrize("clip", [1e-3, 0.5, 1e6])
def test_the_gradient_is_that_of_the_definition_and_of_opacus_with_a_gradient_per_point(
    opacus: None, clip: float
) -> None:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    mechanism = Mechanism(noise_multiplier=0.7, clip=clip, sample_rate=0.25)
    draws = torch.Generator().manual_seed(0)
    x, noise = (torch.randn(5, 3, 1, 2, 3, generator=draws) for _ in range(2))
    t = torch.randint(1000, (5, 3), generator=draws)
    module = fresh_denoiser((1, 2, 3), hidden=8, layers=2, seed=0)
    with gradient_source(module, torch.optim.SGD(module.parameters(), 1.0), mechanism, 4.0, 9) as source:
        source.differentiate(losses(module, x, t, noise))
        found = [weight.grad.clone() for weight in module.parameters()]

    def single(weights: dict[str, Tensor], *point: Tensor) -> Tensor:
        given = (part[None] for part in point[:2])
        return (torch.func.functional_call(module, weights, tuple(given))[0] - point[2]).square().mean()

    weights = {name: weight.detach() for name, weight in module.named_parameters()}
    each = torch.func.vmap(torch.func.grad(single), in_dims=(None, 0, 0, 0))(weights, x, t, noise)
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in each.values()]).norm(dim=0)
    assert (norms > 1e-3).all() and (norms < 1e6).all()
    shares, spread = (clip / norms).clamp(max=1), stream(9, "privacy")
    for (name, gradient), got in zip(each.items(), found, strict=True):
        summed = torch.einsum("n,n...->...", shares, gradient)
        drawn = torch.normal(0, 0.7 * clip, summed.shape, generator=spread)
        assert torch.allclose(got, (summed + drawn) / 4, rtol=1e-3, atol=1e-5 * float(got.abs().max())), name

    wrapped = GradSampleModule(copy.deepcopy(module), loss_reduction="sum")
    usual = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), 1.0),
        noise_multiplier=0.7,
        max_grad_norm=clip,
        expected_batch_size=4,
        generator=stream(9, "privacy"),
    )
    with pytest.warns(UserWarning, match="Full backward hook"):
        losses(wrapped, x, t, noise).sum().backward()
    usual.pre_step()
    for weight, got in zip(wrapped.parameters(), found, strict=True):
        assert torch.allclose(got, weight.grad, rtol=1e-3, atol=1e-5 * float(got.abs().max()))


@pytest.mark.parametrize("train", [denoiser, gan])
def test_without_noise_and_clipping_it_is_the_plain_training(opacus: None, train: Any) -> None:
    *free, none = train(private=False, steps=20)
    *held, history = train(noise_multiplier=1e-12, clip=1e4, steps=20)
    *noisy, _ = train(noise_multiplier=1.0, clip=1.0, steps=20)
    assert none == [] and history == [(1e-12, 0.25, 20)]
    assert torch.allclose(flat(free), flat(held), atol=1e-4)
    assert not torch.allclose(flat(free), flat(noisy), atol=1e-3)


@pytest.mark.parametrize("train", [denoiser, gan])
def test_every_step_is_charged_once(opacus: None, train: Any) -> None:
    assert train()[-1] == [(1.5, 0.25, 6)]


@pytest.mark.parametrize("train", [denoiser, gan])
@pytest.mark.parametrize("private", [False, True])
def test_batches_without_points_are_steps_too(opacus: None, train: Any, private: bool) -> None:
    assert {len(part) for part in poisson_batches(4, 0.05, 12, 0)} == {0, 1}
    *networks, history = train(points=points(4), sample_rate=0.05, steps=12, private=private)
    assert torch.isfinite(flat(networks)).all()
    assert history == ([(1.5, 0.05, 12)] if private else [])


def test_only_what_is_learnt_from_real_points_is_clipped(opacus: None) -> None:
    # Gradients of real points are clipped to nothing: what is left is learnt from generated points.
    options: Any = {"noise_multiplier": 1e-6, "clip": 1e-12, "steps": 150, "sample_rate": 0.5, "rate": 2e-3}
    generator, discriminator, _ = gan(**options)
    with torch.no_grad():
        made = discriminator(generator(torch.randn(200, 3, generator=torch.Generator().manual_seed(0))))
        real = discriminator(torch.from_numpy(points(200, seed=1)))
    assert made.mean() < -0.7 and real.mean() < 0


def test_what_is_not_charged_leaves_no_trace(opacus: None) -> None:
    module = fresh_denoiser((1, 2, 3), hidden=8, layers=2, seed=0)
    mechanism = Mechanism(noise_multiplier=1.0, clip=1.0, sample_rate=0.25)
    with gradient_source(module, torch.optim.SGD(module.parameters(), 1.0), mechanism, 4.0, 9) as source:
        for charged in (False, True):
            with source.uncharged():
                module(torch.ones(2, 1, 2, 3), torch.tensor([1, 2]))
            assert not any(getattr(part, "activations", []) for part in module.modules())
            assert source.history() == ([(1.0, 0.25, 1)] if charged else [])
            source.differentiate(module(torch.ones(2, 1, 2, 3), torch.tensor([1, 2])).square().flatten(1).sum(1))


@pytest.mark.parametrize("train", [denoiser, gan])
def test_one_seed_gives_the_same_weights(opacus: None, train: Any) -> None:
    state = torch.get_rng_state()
    *one, _ = train(seed=1)
    *same, _ = train(seed=1)
    *other, _ = train(seed=2)
    assert torch.equal(flat(one), flat(same)) and not torch.equal(flat(one), flat(other))
    assert torch.equal(torch.get_rng_state(), state)


def test_points_join_batches_independently() -> None:
    drawn = np.zeros((4000, 6), dtype=bool)
    for row, chosen in zip(drawn, poisson_batches(6, 0.3, 4000, 3), strict=True):
        row[chosen.numpy()] = True
    # Four standard errors of a share of .3, and of a correlation of 0, in 4000 batches.
    assert np.abs(drawn.mean(0) - 0.3).max() < 0.029
    assert np.abs(np.corrcoef(drawn.T) - np.eye(6)).max() < 0.064
    assert abs(drawn.sum(1).var() - 6 * 0.3 * 0.7) < 0.12


def test_the_network_bears_no_trace_of_opacus(opacus: None) -> None:
    module, _ = denoiser()
    again = pickle.loads(pickle.dumps(copy.deepcopy(module)))
    assert isinstance(again, MlpDenoiser) and not again.training
    assert module.state_dict().keys() == fresh_denoiser((1, 2, 3), hidden=8, layers=2, seed=0).state_dict().keys()
    assert not any(part._forward_hooks or part._backward_hooks for part in module.modules())
    assert not any(hasattr(weight, name) for weight in module.parameters() for name in ("grad_sample", "_norm_sample"))


def test_a_saved_network_is_laid_out_as_opacus_does(opacus: None, tmp_path: Path) -> None:
    from opacus import GradSampleModule, PrivacyEngine

    generator, _, history = gan()
    save_private(tmp_path / "g.pt", generator, history)
    wrapped = GradSampleModule(fresh_gan((1, 2, 3), latent=3, hidden=8, seed=5)[0])
    with pytest.warns(UserWarning, match="Secure RNG"):
        engine = PrivacyEngine(accountant="rdp")
    engine.load_checkpoint(path=tmp_path / "g.pt", module=wrapped)
    assert torch.equal(flat([wrapped]), flat([generator]))
    assert engine.accountant.history == history == [(1.5, 0.25, 6)] and engine.get_epsilon(1e-3) > 0
    content: Any = read_pickle(tmp_path / "g.pt")
    assert content["privacy_accountant_state_dict"] == {"history": history, "mechanism": "rdp"}
    found = load_generator(tmp_path / "g.pt", arch="mlp-generator")
    assert found.latent == 3 and found.shape == (1, 2, 3)
    assert torch.equal(flat([found.module]), flat([generator]))
    assert found.notes == ()
    bare = {name.removeprefix("_module."): value for name, value in content["module_state_dict"].items()}
    assert torch.equal(flat([network_from("mlp-generator", bare)]), flat([generator]))


def test_without_opacus_only_the_plain_training_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opacus"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(InputError, match="needs Opacus") as caught:
        denoiser()
    assert "miles-audit[privacy]" in caught.value.hint
    assert denoiser(private=False)[1] == []


@pytest.mark.parametrize(
    "wrong", [{"noise_multiplier": 0.0}, {"clip": 0.0}, {"sample_rate": 0.0}, {"sample_rate": 1.5}]
)
def test_no_mechanism_without_noise_clipping_and_sampling(wrong: dict[str, float]) -> None:
    for train in (denoiser, gan):
        with pytest.raises(ValueError, match="above 0"):
            train(**wrong)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("train", [denoiser, gan])
def test_training_that_diverges_is_told(opacus: None, train: Any, private: bool) -> None:
    with pytest.raises(InputError, match="diverged"):
        train(points=np.full_like(points(), np.nan), private=private)
