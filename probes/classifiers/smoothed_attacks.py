"""Look for a change of an image within an l2 distance that turns the vote of a classifier under noise.

Projected gradient ascent with an expectation over noise, as SmoothAdv has it (Salman et al. 2019, section 3): each step
follows the gradient of the smoothed classifier's own output, estimated from fresh noisy copies. An attack that finds
nothing proves nothing.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from probes.classifiers.noise import BLOCK, start_block
from probes.classifiers.smoothing import MOST_VALUES, Sampler
from probes.core.errors import IncompleteError, InputError, first_line

PASSES = 3
"""Forward passes that one draw of a step costs: its own, and a backward pass that costs about two."""
TOGETHER = 64
"""Draws whose gradient is taken at once, at the most: what all layers keep for it is many times an image."""
_SHRINKS = 64
_HINT = (
    "Give a model that torch can differentiate: no no_grad, detach, argmax or numpy in its forward. Or leave "
    "--attack-steps out."
)


@dataclass(frozen=True, slots=True)
class Attacked:
    """An image after an attack.

    Parameters
    ----------
    pixels
        The changed image, shape (c, h, w), float32; not clipped to [0, 1], since certificates cover all changes.
    blind
        Steps whose gradient was zero or not finite, and which went a random way instead.
    """

    pixels: Tensor
    blind: int


def attack(
    sampler: Sampler, pixels: Tensor, index: int, top: int, *, length: float, steps: int, draws: int
) -> Attacked:
    """Change an image by an l2 distance of `length` at most so that class `top` loses votes under noise.

    Each of the steps is 2 length / steps long, along the gradient of log mean softmax over fresh draws, and ends
    within the distance (Salman et al. 2019, algorithm 1 and eq. 6, with the step of their code).

    Parameters
    ----------
    sampler
        The network with its noise; its seed and `index` decide the noise of the attack.
    pixels
        Shape (c, h, w), float32, in units of pixels in [0, 1].
    draws
        Noisy copies that each gradient is the mean over; no more than `TOGETHER` are held at once.

    Raises
    ------
    InputError
        Where the network has no gradient, or logits that are not finite.
    IncompleteError
        Where the device runs out of memory.

    Examples
    --------
    Of two classes that are told apart by the first of two pixels, the way to the other one is that pixel.

    >>> from torch import nn
    >>> from probes.classifiers.noise import Noise
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))
    >>> _ = net[1].weight.data.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    >>> settings = {"noise": Noise("gaussian", 0.5), "seed": 0, "device": "cpu", "dtype": "float32"}
    >>> sampler = Sampler(net, classes=2, **settings)
    >>> attack(sampler, torch.tensor([[[0.25, 0.5]]]), 0, 0, length=0.5, steps=4, draws=16).pixels
    tensor([[[-0.2500,  0.5000]]])
    """
    start = pixels.to(sampler.device)
    change = torch.zeros(pixels.shape, dtype=torch.float64, device=sampler.device)
    generator, blind = torch.Generator(sampler.device), 0
    for step in range(steps):
        slope, spare = _slope(sampler, _moved(start, change), index, top, step, draws, generator)
        if not 0 < float(slope.abs().max()) < math.inf:
            # Without a gradient any direction is as good as another.
            slope, blind = spare, blind + 1
        # By its largest entry first: the square of a tiny one would be 0.
        slope = slope / slope.abs().max()
        change = change + 2 * length / steps / float(slope.norm()) * slope
        change *= min(1.0, length / max(float(change.norm()), 1e-300))
    return Attacked(_within(start, change, length).cpu(), blind)


def check_gradient(sampler: Sampler, pixels: Tensor, draws: int = 1) -> None:
    """Try whether the network can be attacked at all, by the gradient of so many draws around one image.

    Raises
    ------
    InputError, IncompleteError
        As of `attack`.
    """
    _slope(sampler, pixels.to(sampler.device), 0, 0, 0, draws, torch.Generator(sampler.device))


def _moved(start: Tensor, change: Tensor) -> Tensor:
    return (start.double() + change).float()


def _within(start: Tensor, change: Tensor, length: float) -> Tensor:
    """Return the changed image in float32; what its rounding adds to the distance is taken off the change."""
    for _ in range(_SHRINKS):
        found = _moved(start, change)
        far = float((found.double() - start.double()).norm())
        if far <= length:
            return found
        change = change * (length / far) * (1 - 1e-7)
    return start


def _slope(
    sampler: Sampler, image: Tensor, index: int, top: int, step: int, draws: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the direction in which the mean softmax of class `top` falls fastest, and noise of the step.

    Both are float64 of the shape of the image. The mean of 1 - softmax rises where that of softmax falls, by the same
    amount, and its logarithm, taken in float64, tells a direction even where a network is so sure that its softmax is
    rounded to 1. Parts of the draws are joined by their weight in that mean.
    """
    slope, weight = torch.zeros(image.shape, dtype=torch.float64, device=sampler.device), -math.inf
    spare = slope
    together = max(min(TOGETHER, MOST_VALUES // image.numel() // BLOCK * BLOCK), BLOCK)
    blocks = -(-draws // BLOCK)
    for first in range(0, draws, together):
        # The draws of a step are whole blocks of their own, so that no two steps share noise.
        noise = _noise(sampler, image, index, step * blocks + first // BLOCK, min(together, draws - first), generator)
        part, heavy = _part(sampler, image, noise, top)
        both = float(np.logaddexp(weight, heavy))
        slope = slope * math.exp(weight - both) + part * math.exp(heavy - both)
        spare, weight = noise[0].permute(2, 0, 1).double(), both
    return slope, spare


def _noise(sampler: Sampler, image: Tensor, index: int, block: int, draws: int, generator: torch.Generator) -> Tensor:
    """Return the noise of draws from the start of a block on, shape (draws, h, w, c) as in memory."""
    channels, height, width = image.shape
    noise = torch.empty((-(-draws // BLOCK) * BLOCK, height, width, channels), device=sampler.device)
    for start in range(0, len(noise), BLOCK):
        start_block(generator, sampler.seed, index, "attack", block + start // BLOCK)
        sampler.noise.fill(noise[start : start + BLOCK], generator)
    return noise[:draws]


def _part(sampler: Sampler, image: Tensor, noise: Tensor, top: int) -> tuple[Tensor, float]:
    """Return the gradient of log sum (1 - softmax of class `top`) over some draws, and that logarithm."""
    with torch.enable_grad():
        leaf = image.detach().clone().requires_grad_()
        batch = (leaf.permute(1, 2, 0) + noise).permute(0, 3, 1, 2)
        try:
            logits = sampler.module(batch.to(sampler.dtype))
            heavy, pull = _pull(logits.detach().double(), top)
            # Scaled to 1 for the way through the network: far from all boundaries it is less than float32 can hold.
            scale = float(pull.abs().max()) or 1.0
            (slope,) = torch.autograd.grad(logits, leaf, (pull / scale).to(logits.dtype))
        except torch.OutOfMemoryError as error:
            raise IncompleteError(
                f"{sampler.device} ran out of memory on the gradient of {len(noise)} noisy copies.",
                where="--attack-draws",
                hint=f"Give fewer than {len(noise)}, give --device cpu, or free the memory of the device.",
            ) from error
        except RuntimeError as error:
            raise InputError(
                f"The model has no gradient that an attack could follow: {first_line(error)}",
                where="--attack-steps",
                hint=_HINT,
            ) from error
    if not math.isfinite(heavy):
        raise InputError(
            f"The logits are not finite under noise of {sampler.noise.scale}.",
            where="the model under noise",
            hint="Use --dtype float32, or a smaller --sigma.",
        )
    return slope.double() * scale, heavy


def _pull(logits: Tensor, top: int) -> tuple[float, Tensor]:
    """Return log sum (1 - softmax of class `top`) over rows of logits, without taking 1 from 1, and its gradient."""
    leaf = logits.requires_grad_()
    others = leaf.index_fill(1, torch.tensor([top], device=leaf.device), -math.inf)
    heavy = (others.logsumexp(1) - leaf.logsumexp(1)).logsumexp(0)
    (pull,) = torch.autograd.grad(heavy, leaf)
    return float(heavy.detach()), pull
