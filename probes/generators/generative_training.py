"""Train a small diffusion model or GAN on given points, reproducibly.

Every random number comes from the seed: initial weights, order of points, timesteps and noise; the global
random state is neither read nor changed.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from probes.core.errors import InputError
from probes.core.executor import one_thread
from probes.core.progress import Progress, Silent
from probes.core.random_streams import stream
from probes.generators.diffusion import Prediction
from probes.generators.generative_networks import MlpDenoiser, MlpDiscriminator, MlpGenerator, fresh_denoiser, fresh_gan

_DRAWN = 2**20
"""Random numbers drawn at once, 4 MB: fewer calls, and no more memory than a step takes."""
_MOST_STEPS = 100
BETAS = (0.5, 0.999)
"""Moments of Adam for both networks of a GAN (Radford et al. 2016, arXiv 1511.06434)."""


def train_denoiser(
    points: NDArray[np.float32],
    *,
    alphas_bar: NDArray[np.float64],
    hidden: int = 256,
    layers: int = 3,
    steps: int = 10_000,
    batch: int = 128,
    rate: float = 1e-3,
    seed: int = 0,
    progress: Progress | None = None,
    label: str = "Training a diffusion model",
) -> MlpDenoiser:
    """Train a denoiser from scratch on points (n, *shape) in [-1, 1]; the same weights on any number of cores."""
    module = fresh_denoiser(points.shape[1:], hidden=hidden, layers=layers, seed=seed)
    with one_thread():
        fit_denoiser(
            module,
            points,
            alphas_bar=alphas_bar,
            steps=steps,
            batch=batch,
            rate=rate,
            seed=seed,
            progress=progress,
            label=label,
        )
    return module


def fit_denoiser(
    module: nn.Module,
    points: NDArray[np.float32],
    *,
    alphas_bar: NDArray[np.float64],
    steps: int,
    batch: int,
    rate: float,
    seed: int,
    prediction: Prediction = "epsilon",
    progress: Progress | None = None,
    label: str = "Training a diffusion model",
) -> None:
    """Train any network on the unweighted loss of Ho et al. 2020, equation 14, with Adam; it is left in eval mode.

    Parameters
    ----------
    module
        Called as module(x, t) with points (b, *shape) and timesteps (b,), on the device that its weights are on;
        weights that need no gradient stay as they are.
    points
        (n, *shape) in [-1, 1]. Every point is used once before any is used again.
    alphas_bar
        (T,), the share of a point's variance that is left at each timestep.
    prediction
        What the network is to return: the noise, v = sqrt(ab) noise - sqrt(1 - ab) point, or the point.

    Raises
    ------
    InputError
        Where the training diverges.
    """
    weights = list(module.parameters())
    device, data = weights[0].device, _tensor(points)
    draws = stream(seed, "denoiser")
    scales = [torch.from_numpy(np.sqrt(part)).float() for part in (alphas_bar, 1 - alphas_bar)]
    optimiser = torch.optim.Adam(weights, lr=rate, fused=True)
    module.train()
    watched = (progress or Silent()).phase(label, steps, "steps")
    # Dropout in a network of the user draws from the shared state.
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())), watched as advance:
        torch.manual_seed(seed)
        for order in _orders(len(data), steps, batch, data[0].numel(), draws):
            times = torch.randint(len(alphas_bar), order.shape, generator=draws)
            noised, target = _noised(data[order], times, scales, draws, prediction)
            for x, t, wanted in zip(noised.to(device), times.to(device), target.to(device), strict=True):
                loss = functional.mse_loss(module(x, t), wanted)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            check_training(loss, label)
            advance(len(order))
    module.eval()


def _noised(
    clean: Tensor, times: Tensor, scales: list[Tensor], draws: torch.Generator, prediction: Prediction
) -> tuple[Tensor, Tensor]:
    """Return the points after the forward process, and the prediction that the network is to learn."""
    noise = torch.randn(clean.shape, generator=draws)
    signal, spread = (scale[times].reshape(times.shape + (1,) * (clean.ndim - times.ndim)) for scale in scales)
    noised = signal * clean + spread * noise
    if prediction == "v_prediction":
        return noised, signal * noise - spread * clean
    return noised, noise if prediction == "epsilon" else clean


def train_gan(
    points: NDArray[np.float32],
    *,
    latent: int = 32,
    hidden: int = 256,
    steps: int = 10_000,
    batch: int = 64,
    rate: float = 2e-4,
    seed: int = 0,
    progress: Progress | None = None,
    label: str = "Training a GAN",
) -> tuple[MlpGenerator, MlpDiscriminator]:
    """Train a generator and a discriminator on points (n, *shape) in [-1, 1], with the non-saturating loss.

    Goodfellow et al. 2014 (arXiv 1406.2661), section 3: each step is one of the discriminator, then one of the
    generator. The weights are the same on any number of cores.

    Raises
    ------
    InputError
        Where the training diverges.
    """
    data, draws = _tensor(points), stream(seed, "gan")
    generator, discriminator = fresh_gan(points.shape[1:], latent=latent, hidden=hidden, seed=seed)
    pair = (generator, discriminator)
    both = [torch.optim.Adam(network.parameters(), lr=rate, betas=BETAS, fused=True) for network in pair]
    with one_thread(), (progress or Silent()).phase(label, steps, "steps") as advance:
        for order in _orders(len(data), steps, batch, data[0].numel() + latent, draws):
            noise = torch.randn(*order.shape, latent, generator=draws)
            for real, z in zip(data[order], noise, strict=True):
                fake = generator(z)
                logits = discriminator(torch.cat((real, fake.detach())))
                # One pass for both halves: the sign turns each logit to the side where it is wrong.
                loss = functional.softplus(torch.cat((-logits[: len(real)], logits[len(real) :]))).mean() * 2
                step_with(both[1], discriminator, loss)
                wanted = functional.softplus(-discriminator(fake)).mean()
                step_with(both[0], generator, wanted)
            check_training(loss + wanted, label)
            advance(len(order))
    return generator.eval(), discriminator.eval()


def step_with(optimiser: torch.optim.Optimizer, network: nn.Module, loss: Tensor) -> None:
    """Make one optimiser step of one network, without gradients of any other."""
    weights = list(network.parameters())
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = gradient
    optimiser.step()


def sample_gan(generator: MlpGenerator, count: int, *, seed: int = 0, batch: int = 1024) -> NDArray[np.float32]:
    """Return `count` points (count, *shape) from standard normal latent vectors."""
    noise = torch.randn(count, generator.latent, generator=stream(seed, "samples"))
    with torch.no_grad():
        return torch.cat([generator(part) for part in noise.split(batch)]).numpy()


def check_training(loss: Tensor, label: str) -> None:
    """Raise an InputError where the last loss is not finite."""
    if not bool(torch.isfinite(loss).all()):
        raise InputError(
            "The training diverged: its loss is not finite.",
            where=label,
            hint="Check that the points are scaled to [-1, 1], or train with a lower rate.",
        )


def _tensor(points: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(np.array(points, dtype=np.float32))


def _orders(count: int, steps: int, batch: int, numbers: int, draws: torch.Generator) -> Iterator[Tensor]:
    """Yield which points the next steps use, (steps, batch): permutation after permutation, cut into batches."""
    size = min(_MOST_STEPS, max(1, _DRAWN // (batch * numbers)))
    left = torch.empty(0, dtype=torch.int64)
    for begin in range(0, steps, size):
        wanted = min(size, steps - begin) * batch
        missing = -(-max(0, wanted - len(left)) // count)
        left = torch.cat([left, *(torch.randperm(count, generator=draws) for _ in range(missing))])
        yield left[:wanted].reshape(-1, batch)
        left = left[wanted:]
