"""Membership attacks on a diffusion model whose network can be called.

Every attack here takes points and steps and gives a score per point, higher for a likely member. Losses are mean
squared errors of the predicted noise over the coordinates of a point.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional

from probes.core.errors import IncompleteError, InputError, MilesError, first_line
from probes.generators.attacks.noise import point_noise
from probes.generators.diffusion import Denoiser, to_epsilon

_Item = TypeVar("_Item")

FLUCTUATIONS = 10
"""Neighbours of a point that PFAMI looks at."""
_STRENGTHS = (0.95, 0.7)
SMALLEST_CROPPED = 16
_JITTER = 0.1
_MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""The mean of |e| for standard Gaussian e."""
_STRIDES = 100
_HELD_GRADIENTS = 2**25
"""Numbers of per-point gradients that are held at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A denoiser as attacks call it: in batches, with a refusal of outputs that are not finite.

    `batch` is the largest number of rows that pass the network together; its weights are on `device`.
    """

    denoiser: Denoiser
    batch: int
    device: str
    dtype: str

    def epsilon(self, x: Tensor, steps: Sequence[int] | NDArray[np.int64]) -> Tensor:
        """Return the predicted noise of points (rows, *shape) at one step a row.

        Raises
        ------
        InputError
            Where a prediction is not finite, or the network fails.
        IncompleteError
            Where the device runs out of memory.
        """
        times = torch.tensor(steps, dtype=torch.int64)
        with self.network_calls(len(x)), torch.no_grad():
            parts = [
                self.denoiser.epsilon(rows, part.to(x.device))
                for rows, part in zip(x.split(self.batch), times.split(self.batch), strict=True)
            ]
            noise = torch.cat(parts)
        self.check(noise, times)
        return noise

    @contextmanager
    def network_calls(self, rows: int) -> Iterator[None]:
        """Run the network in this number format, and turn its failures on so many rows into refusals."""
        kind, number = self.device.partition(":")[0], getattr(torch, self.dtype)
        try:
            # Casting as it goes suits any network, also one that makes tensors of float32 inside.
            with torch.autocast(kind, dtype=number, enabled=self.dtype != "float32"):
                yield
        except MilesError:
            raise
        except torch.OutOfMemoryError as error:
            raise IncompleteError(
                f"The device ran out of memory on {min(rows, self.batch)} points.",
                hint="Give a smaller --batch or --device cpu.",
            ) from error
        except Exception as error:
            raise InputError(
                f"The network fails on points of {'x'.join(map(str, self.denoiser.shape))}: {first_line(error)}",
                where=self.denoiser.path,
                hint="Give points of the shape that it was trained on; a network must take (points, steps).",
            ) from error

    def check(self, values: Tensor, steps: Tensor) -> None:
        """Refuse values (rows, ...) that are not finite, naming the first step (rows,) that has any."""
        finite = torch.isfinite(values).flatten(1).all(dim=1).cpu()
        if not bool(finite.all()):
            step = int(steps[int((~finite).nonzero()[0, 0])])
            raise InputError(
                f"The model gives numbers that are not finite at timestep {step}.",
                where=self.denoiser.path,
                hint="Its training diverged, its weights are damaged, or the number format is too small for them: "
                "try --dtype float32.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points `x` (b, *shape) on the target's device, and the seed and draws of their noise: see `point_noise`."""

    x: Tensor
    indices: NDArray[np.int64]
    seed: int
    draws: int

    def noise(self, draws: int, stream: str = "draws") -> Tensor:
        """Return noise (draws, b, *shape)."""
        found = point_noise(self.seed, self.indices, draws, tuple(self.x.shape[1:]), stream=stream)
        return torch.from_numpy(found).movedim(0, 1).to(self.x.device)


def stride(total: int) -> int:
    """Return the step width of SecMI's inversion: T / 100, which is 10 for T = 1000."""
    return max(1, total // _STRIDES)


def loss(target: Target, points: Points, steps: Sequence[int]) -> Tensor:
    """Return minus the loss, a mean over draws."""
    noise = points.noise(points.draws)
    return -_losses(target, points.x.expand(noise.shape), noise, steps).mean(dim=1)


def _losses(target: Target, clean: Tensor, noise: Tensor, steps: Sequence[int]) -> Tensor:
    """Return losses of versions of points, (steps, versions, b), from both as (versions, b, *shape)."""
    versions, count = noise.shape[:2]
    found = torch.empty(len(steps) * versions, count, dtype=torch.float64)
    done = 0
    for pairs in _fused(list(product(steps, range(versions))), target.batch // count):
        times = np.repeat([step for step, _ in pairs], count)
        rows = [version for _, version in pairs]
        fresh = noise[rows].flatten(0, 1)
        x = target.denoiser.q_sample(clean[rows].flatten(0, 1), fresh, torch.from_numpy(times).to(noise.device))
        errors = (target.epsilon(x, times) - fresh).flatten(1).square().mean(dim=1)
        found[done : done + len(pairs)] = errors.cpu().double().view(-1, count)
        done += len(pairs)
    return found.view(len(steps), versions, count)


def _fused(items: Sequence[_Item], together: int) -> Iterator[Sequence[_Item]]:
    size = max(1, together)
    return (items[start : start + size] for start in range(0, len(items), size))


def _repeated(x: Tensor, times: int) -> Tensor:
    return x.expand(times, *x.shape).flatten(0, 1)


def sima(target: Target, points: Points, steps: Sequence[int]) -> Tensor:
    """Return minus the 2-norm of the noise predicted in the point itself."""
    norms = []
    for times in _fused(steps, target.batch // len(points.x)):
        noise = target.epsilon(_repeated(points.x, len(times)), np.repeat(times, len(points.x)))
        norms.append(torch.linalg.vector_norm(noise.flatten(1), dim=1).cpu().double())
    return -torch.cat(norms).view(len(steps), -1)


def pia(target: Target, points: Points, steps: Sequence[int], *, normalised: bool = False) -> Tensor:
    """Return minus the fourth power of the 4-norm between the noise predicted at step 0 and, once added, at a step."""
    x = points.x
    first = target.epsilon(x, [0] * len(x))
    if normalised:
        size = first.flatten(1).abs().mean(dim=1).clamp_min(torch.finfo(first.dtype).tiny)
        first = first * (_MEAN_ABSOLUTE / size).view(-1, *[1] * (x.ndim - 1))
    scores = []
    for times in _fused(steps, target.batch // len(x)):
        rows = np.repeat(times, len(x))
        added = _repeated(first, len(times))
        moved = target.denoiser.q_sample(_repeated(x, len(times)), added, torch.from_numpy(rows).to(x.device))
        scores.append((added - target.epsilon(moved, rows)).flatten(1).cpu().double().pow(4).sum(dim=1))
    return -torch.cat(scores).view(len(steps), -1)


def pian(target: Target, points: Points, steps: Sequence[int]) -> Tensor:
    """Return the score of PIA with the first noise scaled to the mean size of Gaussian noise."""
    return pia(target, points, steps, normalised=True)


def secmi(target: Target, points: Points, steps: Sequence[int]) -> Tensor:
    """Return minus the squared error of one step forth and back, after an inversion up to the step."""
    width = stride(target.denoiser.steps)
    scores: dict[int, Tensor] = {}
    x, here = points.x, 0
    # From the lowest step on, so that each continues the inversion of those below it.
    for step in sorted(set(steps)):
        while here + width < step:
            x, here = _move(target, x, here, here + width), here + width
        reached = _move(target, x, here, step)
        back = _move(target, _move(target, reached, step, step + width), step + width, step)
        scores[step] = -(back - reached).flatten(1).cpu().double().square().sum(dim=1)
    return torch.stack([scores[step] for step in steps])


def _move(target: Target, x: Tensor, start: int, end: int) -> Tensor:
    with target.network_calls(len(x)), torch.no_grad():
        moved = torch.cat([target.denoiser.ddim_step(rows, start, end) for rows in x.split(target.batch)])
    target.check(moved, torch.full((len(x),), start))
    return moved


def pfami(target: Target, points: Points, steps: Sequence[int]) -> Tensor:
    """Return the relative rise of the loss, a mean over neighbours of the point, each under its noise.

    Neighbours of images of 16 pixels a side or more are crops of their centre, 0.95 to 0.7 of a side, at full size
    again; of anything smaller, where a crop moves by whole pixels or means nothing, the point with Gaussian noise of
    standard deviation 0.1.
    """
    used = min(points.draws, FLUCTUATIONS)
    noise = points.noise(used)
    near = _neighbours(points)
    # With fewer noises than neighbours, the noises go round.
    drawn = [number % used for number in range(len(near))]
    clean = torch.cat([points.x.expand(noise.shape), near])
    losses = _losses(target, clean, noise[[*range(used), *drawn]], steps)
    own = losses[:, drawn].mean(dim=1)
    return (losses[:, used:].mean(dim=1) - own) / own.clamp_min(torch.finfo(own.dtype).tiny)


def _neighbours(points: Points) -> Tensor:
    """Return neighbours of points, (neighbours, b, *shape)."""
    x = points.x
    if x.ndim != 4 or min(x.shape[2:]) < SMALLEST_CROPPED:
        return x + _JITTER * points.noise(FLUCTUATIONS, "neighbours")
    crops = []
    for share in np.linspace(*_STRENGTHS, FLUCTUATIONS):
        sides = [int(side * share) for side in x.shape[2:]]
        top, left = ((side - inner) // 2 for side, inner in zip(x.shape[2:], sides, strict=True))
        crop = x[:, :, top : top + sides[0], left : left + sides[1]]
        crops.append(functional.interpolate(crop, size=x.shape[2:], mode="bilinear", antialias=True))
    return torch.stack(crops)


def gradnorm(target: Target, points: Points, steps: Sequence[int]) -> Tensor:
    """Return minus the norm of the loss's gradient in the weights, per point.

    Raises
    ------
    InputError
        Where the network has no weights, or a gradient is not finite.
    """
    if not any(True for _ in target.denoiser.module.parameters()):
        raise InputError(
            "The network has no weights to take a gradient in.",
            where=target.denoiser.path,
            hint="Leave the attack gradnorm out.",
        )
    noise = points.noise(points.draws).movedim(0, 1)
    held = max(1, min(target.batch, _HELD_GRADIENTS // max(1, target.denoiser.parameters)))
    scores = torch.empty(len(steps), len(points.x), dtype=torch.float64)
    gradients = _Gradients(target.denoiser)
    for row, step in enumerate(steps):
        for start in range(0, len(points.x), held):
            part = slice(start, start + held)
            with target.network_calls(held):
                norms = gradients.norms(points.x[part], noise[part], step)
            target.check(norms[:, None], torch.full((len(norms),), step))
            scores[row, part] = -norms.cpu().double()
    return scores


class _Gradients:
    """Norms of the gradient of each point's loss; one by one where the network cannot be batched over weights."""

    def __init__(self, denoiser: Denoiser) -> None:
        self._denoiser = denoiser
        self._weights = {name: weight.detach() for name, weight in denoiser.module.named_parameters()}
        self._batched = True

    def norms(self, x: Tensor, noise: Tensor, step: int) -> Tensor:
        """Return norms (b,) for points (b, *shape) and noise (b, draws, *shape)."""
        rows = torch.full((noise.shape[1],), step, dtype=torch.int64, device=x.device)
        if self._batched:
            try:
                # torch warns where it batches an operation by a loop of its own.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    sought = vmap(grad_and_value(self._loss), in_dims=(None, 0, 0, None))
                    found, values = sought(self._weights, x, noise, rows)
                squares = [part.flatten(1).square().sum(dim=1) for part in found.values()]
                return _known(torch.stack(squares).sum(dim=0).sqrt(), values)
            except torch.OutOfMemoryError:
                raise
            except Exception:
                self._batched = False
        return torch.stack([self._norm(*pair, rows) for pair in zip(x, noise, strict=True)])

    def _norm(self, x: Tensor, noise: Tensor, rows: Tensor) -> Tensor:
        weights = {name: weight.clone().requires_grad_() for name, weight in self._weights.items()}
        with torch.enable_grad():
            value = self._loss(weights, x, noise, rows)
        parts = torch.autograd.grad(value, list(weights.values()), allow_unused=True)
        norm = torch.stack([part.square().sum() for part in parts if part is not None]).sum().sqrt()
        return _known(norm, value.detach())

    def _loss(self, weights: Mapping[str, Tensor], x: Tensor, noise: Tensor, rows: Tensor) -> Tensor:
        signal, spread = self._denoiser.levels(rows, x.ndim)
        x_t = signal * x + spread * noise
        raw = functional_call(self._denoiser.module, dict(weights), (x_t, rows))
        return (to_epsilon(raw.float(), x_t, signal, spread, self._denoiser.prediction) - noise).square().mean()


def _known(norms: Tensor, losses: Tensor) -> Tensor:
    # A loss that is no number can have a gradient of zeros.
    return torch.where(torch.isfinite(losses), norms, torch.nan)
