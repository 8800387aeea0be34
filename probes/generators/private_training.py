"""Train a small diffusion model or GAN with differential privacy.

Opacus clips, adds the noise and keeps the account: a point's gradient is scaled to a norm of at most `clip` by ghost
clipping, which needs no gradient per point in memory (Li et al. 2022, arXiv 2110.05679). Batches are Poisson samples.
The noise comes from the seed, so that a study can be repeated: the guarantee holds towards who does not know it.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from probes.core.errors import InputError
from probes.core.executor import one_thread
from probes.core.progress import Progress, Silent
from probes.core.random_streams import stream
from probes.generators.accountants import ACCOUNT
from probes.generators.generative_networks import MlpDenoiser, MlpDiscriminator, MlpGenerator, fresh_denoiser, fresh_gan
from probes.generators.generative_training import BETAS, check_training, step_with

History = list[tuple[float, float, int]]
"""Noise multiplier, sampling rate and number of steps, stage by stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """The Poisson-subsampled Gaussian mechanism of a step; its noise is in units of `clip`, the norm of a gradient."""

    noise_multiplier: float
    clip: float
    sample_rate: float

    def __post_init__(self) -> None:
        if not (self.noise_multiplier > 0 and self.clip > 0 and 0 < self.sample_rate <= 1):
            raise ValueError("noise and clipping must be above 0, and the sampling rate in (0, 1]")


def train_private_denoiser(
    points: NDArray[np.float32],
    *,
    alphas_bar: NDArray[np.float64],
    noise_multiplier: float,
    clip: float = 1.0,
    sample_rate: float,
    steps: int,
    multiplicity: int = 4,
    private: bool = True,
    hidden: int = 256,
    layers: int = 3,
    rate: float = 1e-3,
    seed: int = 0,
    progress: Progress | None = None,
    label: str = "Training a diffusion model with privacy",
) -> tuple[MlpDenoiser, History]:
    """Train a denoiser from scratch with DP-SGD (Abadi et al. 2016, arXiv 1607.00133), with Adam on its gradients.

    Parameters
    ----------
    points
        (n, *shape) in [-1, 1].
    noise_multiplier, clip
        The noise has the standard deviation noise_multiplier * clip, clip being the norm that no gradient exceeds.
    sample_rate
        Probability with which each point is in a batch, independently of all others.
    multiplicity
        Timesteps and noises that the loss of one point is the mean of, so that the point still has one gradient of
        norm `clip` (Dockhorn et al. 2023, arXiv 2210.09929).
    private
        False trains on the same batches without clipping and noise, for a comparison step by step; its history is
        empty, and Opacus is not needed.

    Raises
    ------
    InputError
        Where Opacus is not installed, or the training diverges.
    """
    data, draws = torch.from_numpy(np.array(points, dtype=np.float32)), stream(seed, "private denoiser")
    module = fresh_denoiser(points.shape[1:], hidden=hidden, layers=layers, seed=seed)
    adam = torch.optim.Adam(module.parameters(), lr=rate, fused=True)
    scales = [torch.from_numpy(np.sqrt(part)).float() for part in (alphas_bar, 1 - alphas_bar)]
    mechanism = Mechanism(noise_multiplier=noise_multiplier, clip=clip, sample_rate=sample_rate) if private else None
    with gradient_source(module, adam, mechanism, sample_rate * len(data), seed) as source, one_thread():
        with (progress or Silent()).phase(label, steps, "steps") as advance:
            for chosen in poisson_batches(len(data), sample_rate, steps, seed):
                times = torch.randint(len(alphas_bar), (len(chosen), multiplicity), generator=draws)
                noise = torch.randn(*times.shape, *data.shape[1:], generator=draws)
                signal, spread = (scale[times].reshape(*times.shape, *(1,) * (data.ndim - 1)) for scale in scales)
                errors = module(signal * data[chosen].unsqueeze(1) + spread * noise, times) - noise
                source.differentiate(errors.square().flatten(2).mean(dim=(1, 2)))
                adam.step()
                advance(1)
        _check(module, label)
        return module.eval(), source.history()


def train_private_gan(
    points: NDArray[np.float32],
    *,
    noise_multiplier: float,
    clip: float = 1.0,
    sample_rate: float,
    steps: int,
    private: bool = True,
    latent: int = 32,
    hidden: int = 256,
    rate: float = 2e-4,
    seed: int = 0,
    progress: Progress | None = None,
    label: str = "Training a GAN with privacy",
) -> tuple[MlpGenerator, MlpDiscriminator, History]:
    """Train a GAN whose discriminator sees the points through DP-SGD only (Xie et al. 2018, arXiv 1802.06739).

    Clipping and noise are for the gradients of real batches. What the discriminator learns from generated points, and
    all that the generator learns, depends on the data through private weights only, and is charged nothing.

    Parameters
    ----------
    points, noise_multiplier, clip, sample_rate, private
        As for `train_private_denoiser`; a batch of generated points has the expected size of a real one.

    Raises
    ------
    InputError
        Where Opacus is not installed, or the training diverges.
    """
    data, draws = torch.from_numpy(np.array(points, dtype=np.float32)), stream(seed, "private gan")
    generator, discriminator = fresh_gan(points.shape[1:], latent=latent, hidden=hidden, seed=seed)
    pair = (generator, discriminator)
    both = [torch.optim.Adam(network.parameters(), lr=rate, betas=BETAS, fused=True) for network in pair]
    mechanism = Mechanism(noise_multiplier=noise_multiplier, clip=clip, sample_rate=sample_rate) if private else None
    expected = sample_rate * len(data)
    with gradient_source(discriminator, both[1], mechanism, expected, seed) as source, one_thread():
        with (progress or Silent()).phase(label, steps, "steps") as advance:
            for chosen in poisson_batches(len(data), sample_rate, steps, seed):
                source.differentiate(functional.softplus(-discriminator(data[chosen])))
                with source.uncharged():
                    fake = generator(torch.randn(max(1, round(expected)), latent, generator=draws))
                    _add_gradient(discriminator, functional.softplus(discriminator(fake.detach())).mean())
                    both[1].step()
                    step_with(both[0], generator, functional.softplus(-discriminator(fake)).mean())
                advance(1)
        _check(discriminator, label)
        return generator.eval(), discriminator.eval(), source.history()


def save_private(path: Path, module: nn.Module, history: Sequence[tuple[float, float, int]]) -> None:
    """Write weights and accountant in the layout of Opacus' `PrivacyEngine.save_checkpoint`."""
    weights = {f"_module.{name}": value for name, value in module.state_dict().items()}
    account = {"history": [tuple(stage) for stage in history], "mechanism": "rdp"}
    torch.save({"module_state_dict": weights, ACCOUNT: account}, path)


class GradientSource(Protocol):
    """The interface that turns losses of real points into the gradients that a network learns from."""

    def differentiate(self, losses: Tensor) -> None:
        """Set the gradients of the weights to those of the losses, one for each point."""

    def uncharged(self) -> AbstractContextManager[None]:
        """Return a block in which what is learned of no real point costs no privacy."""

    def history(self) -> History:
        """Return the steps as the accountant has them."""


class _Plain:
    """Gradients without protection: the sum over the batch, divided by the expected size."""

    def __init__(self, network: nn.Module, expected: float) -> None:
        self.network, self.expected = network, expected

    def differentiate(self, losses: Tensor) -> None:
        weights = list(self.network.parameters())
        for weight, gradient in zip(weights, torch.autograd.grad(losses.sum() / self.expected, weights), strict=True):
            weight.grad = gradient

    @contextmanager
    def uncharged(self) -> Iterator[None]:
        yield

    def history(self) -> History:
        return []


class _Private:
    """Private gradients by Opacus: each is clipped, their sum gets noise and is divided by the expected size."""

    def __init__(
        self, network: nn.Module, adam: torch.optim.Optimizer, mechanism: Mechanism, expected: float, seed: int
    ) -> None:
        grad_sample, optimizers, accountants, self.losses = _opacus()
        self.wrapped = grad_sample.GradSampleModuleFastGradientClipping(
            network, loss_reduction="sum", max_grad_norm=mechanism.clip
        )
        self.optimiser = optimizers.DPOptimizerFastGradientClipping(
            adam,
            noise_multiplier=mechanism.noise_multiplier,
            max_grad_norm=mechanism.clip,
            expected_batch_size=expected,
            generator=stream(seed, "privacy"),
        )
        self.accountant = accountants.RDPAccountant()
        self.optimiser.attach_step_hook(self.accountant.get_optimizer_hook_fn(mechanism.sample_rate))

    def differentiate(self, losses: Tensor) -> None:
        self.losses.DPTensorFastGradientClipping(self.wrapped, self.optimiser, losses, "sum").backward()
        # Adds the noise and charges the account; the step itself is the plain optimiser's.
        self.optimiser.pre_step()

    @contextmanager
    def uncharged(self) -> Iterator[None]:
        self.wrapped.disable_hooks()
        try:
            yield
        finally:
            self.wrapped.enable_hooks()

    def history(self) -> History:
        return list(self.accountant.history)


@contextmanager
def gradient_source(
    network: nn.Module, adam: torch.optim.Optimizer, mechanism: Mechanism | None, expected: float, seed: int
) -> Iterator[GradientSource]:
    """Yield what gives a network its gradients, clipped and noised by the mechanism where there is one.

    Parameters
    ----------
    expected
        Mean number of points in a batch.
    """
    if mechanism is None:
        yield _Plain(network, expected)
        return
    source = _Private(network, adam, mechanism, expected, seed)
    try:
        with warnings.catch_warnings():
            # The first layer's input is data: that it needs no gradient is as it should be.
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            yield source
    finally:
        source.wrapped.to_standard_module()


def _opacus() -> tuple[ModuleType, ModuleType, ModuleType, ModuleType]:
    try:
        from opacus import accountants, grad_sample, optimizers
        from opacus.utils import fast_gradient_clipping_utils as losses
    except ImportError:
        raise InputError(
            "Training with privacy needs Opacus, which is not installed.",
            where="opacus",
            hint="pip install 'miles-audit[privacy]'",
        ) from None
    return grad_sample, optimizers, accountants, losses


def poisson_batches(count: int, sample_rate: float, steps: int, seed: int) -> Iterator[Tensor]:
    """Yield the indices of each step's points, drawn independently with the same probability; there may be none."""
    draws = stream(seed, "poisson batches")
    for _ in range(steps):
        # In float32 the share of chosen points would be a multiple of 2^-24, and not the rate that is accounted for.
        yield torch.nonzero(torch.rand(count, generator=draws, dtype=torch.float64) < sample_rate).squeeze(1)


def _add_gradient(network: nn.Module, loss: Tensor) -> None:
    weights = list(network.parameters())
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = gradient if weight.grad is None else weight.grad + gradient


def _check(network: nn.Module, label: str) -> None:
    check_training(torch.stack([weight.detach().sum() for weight in network.parameters()]), label)
