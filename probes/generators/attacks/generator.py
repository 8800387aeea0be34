"""Membership attacks on a GAN: how near its generator comes to a point, and its discriminator's logit.

Two scores, higher for members, for two sorts of access: the weights of the generator alone (GAN-Leaks with a white
box, Chen et al. 2020, arXiv 1909.03935), and those of the discriminator (LOGAN, Hayes et al. 2019, arXiv 1705.07663).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.core.errors import InputError, first_line
from probes.core.progress import Progress, Silent

if TYPE_CHECKING:
    from probes.generators.point_sets import PointSet

_HINT = "Give the network and the points that belong together."


def latent_search(
    generator: nn.Module,
    points: "PointSet | NDArray[np.float32]",
    *,
    latent: int,
    samples_start: int = 2000,
    steps: int = 50,
    rate: float = 0.1,
    batch: int = 256,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Return -min over z of |G(z) - x|^2 for each point x, by Adam from several starts.

    Chen et al. 2020, equation 7, without the terms for perception and prior. The search for a point does not depend on
    which others are in its batch.

    Parameters
    ----------
    generator
        Called with latent vectors (b, latent), standard normal in training; gives points (b, *shape).
    points
        (n, *shape) in the generator's scale; pixels of a `PointSet` are brought from [0, 1] to [-1, 1].
    samples_start
        Generated points of which the nearest one is where the search for a point begins.
    steps, rate
        Of Adam over z; the best z on the way counts.

    Raises
    ------
    InputError
        Where the generator gives points of another shape, or numbers that are not finite.
    """
    generator = generator.to(device).eval()
    shape = _shape(points)
    draws = torch.Generator().manual_seed(seed)
    starts = torch.randn(samples_start, latent, generator=draws).to(device)
    with torch.no_grad():
        made = torch.cat([_generate(generator, part, shape) for part in starts.split(batch)])
    _check_finite(made, "generator")
    found = []
    with (progress or Silent()).phase("Searching the latent space", len(points), "points") as advance:
        for block in _blocks(points, batch):
            x = block.flatten(1).to(device)
            # |x|^2 is the same for all candidates; rounding can cost no more than a start that is second best.
            nearest = (made.square().sum(1) - 2 * x @ made.T).argmin(1)
            found.append(_descend(generator, x, starts[nearest], steps=steps, rate=rate, shape=shape))
            advance(len(block))
    return -torch.cat(found).double().cpu().numpy()


def _descend(
    generator: nn.Module, x: Tensor, starts: Tensor, *, steps: int, rate: float, shape: tuple[int, ...]
) -> Tensor:
    """Return the smallest squared distance that the descent from each start passes."""
    z = starts.clone().requires_grad_()
    adam = torch.optim.Adam([z], lr=rate)
    best = torch.full((len(x),), torch.inf, device=x.device)
    with torch.enable_grad():
        for _ in range(steps):
            distances = (_generate(generator, z, shape) - x).square().sum(1)
            best = torch.minimum(best, distances.detach())
            (z.grad,) = torch.autograd.grad(distances.sum(), z)
            adam.step()
    with torch.no_grad():
        best = torch.minimum(best, (_generate(generator, z, shape) - x).square().sum(1))
    # A minimum keeps what is not a number.
    _check_finite(best, "generator")
    return best


def discriminator_scores(
    discriminator: nn.Module,
    points: "PointSet | NDArray[np.float32]",
    *,
    batch: int = 1024,
    device: str = "cpu",
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Return the discriminator's logit of each point.

    Parameters
    ----------
    discriminator
        Called with points (b, *shape); gives one number each, (b,), (b, 1) or (b, 1, 1, 1).
    points
        As for `latent_search`.

    Raises
    ------
    InputError
        Where it gives something else, or numbers that are not finite.
    """
    discriminator = discriminator.to(device).eval()
    found = []
    watched = (progress or Silent()).phase("Asking the discriminator", len(points), "points")
    with torch.no_grad(), watched as advance:
        for block in _blocks(points, batch):
            logits = _called(discriminator, block.to(device), "discriminator")
            if logits.numel() != len(block):
                raise InputError(
                    f"The discriminator gives {tuple(logits.shape)} for {len(block)} points of shape {_shape(points)}, "
                    "not one number each.",
                    where="discriminator",
                    hint=_HINT,
                )
            _check_finite(logits, "discriminator")
            found.append(logits.flatten())
            advance(len(block))
    return torch.cat(found).double().cpu().numpy()


def _shape(points: "PointSet | NDArray[np.float32]") -> tuple[int, ...]:
    return points.shape[1:] if isinstance(points, np.ndarray) else points.shape


def _blocks(points: "PointSet | NDArray[np.float32]", batch: int) -> Iterator[Tensor]:
    for begin in range(0, len(points), batch):
        end = min(begin + batch, len(points))
        if isinstance(points, np.ndarray):
            yield torch.from_numpy(np.array(points[begin:end], dtype=np.float32))
        else:
            block = torch.from_numpy(np.array(points.block(begin, end), dtype=np.float32))
            yield 2 * block - 1 if points.pixels else block


def _generate(generator: nn.Module, z: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return generated points, flattened to (b, d)."""
    made = _called(generator, z, "generator")
    if made.shape != (len(z), *shape):
        raise InputError(
            f"The generator gives points of shape {tuple(made.shape[1:])}, the points to score have {shape}.",
            where="generator",
            hint=_HINT,
        )
    return made.flatten(1)


def _called(network: nn.Module, batch: Tensor, role: str) -> Tensor:
    try:
        made = network(batch)
    except RuntimeError as error:
        raise InputError(f"The {role} cannot be applied: {first_line(error)}", where=role, hint=_HINT) from error
    if not isinstance(made, Tensor) or not made.is_floating_point():
        raise InputError(f"The {role} gives no floating-point tensor.", where=role, hint=_HINT)
    return made.float()


def _check_finite(values: Tensor, role: str) -> None:
    if not bool(torch.isfinite(values).all()):
        raise InputError(
            f"The {role} gives numbers that are not finite.",
            where=role,
            hint="Its training diverged, or the points are not in the scale it was trained on.",
        )
