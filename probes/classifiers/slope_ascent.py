"""Ascent on the slope of a network, for a lower bound of its Lipschitz constant.

The slope at a point is the largest singular value of the Jacobian. In a network of ReLUs it is constant between kinks,
so that its gradient says nothing. What climbs is the slope of a chord, |f(x + r v) - f(x - r v)| / (2 r), whose two
ends lie beyond kinks; r shrinks from step to step. What is returned is the slope at a point, never that of a chord.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from probes.classifiers.spectral_norm import DOWN
from probes.core.random_streams import stream

LONG, SHORT = 0.3, 0.03
"""Half the length of the first and the last chord, as a root mean square over the pixels, which go from 0 to 1.

Measured on a small network of ReLUs, six starts of 100 steps: the steepest slope was 0.233 with chords so long, and
0.172 from 0.05 down to 0.001; of 4,000 random pictures the steepest was 0.171.
"""
STRIDE = 1.0
"""Length of a step as a share of half the chord."""
POLISH = 60
"""Most steps of the power iteration for the slope at one point."""
_STILL = 1e-10
_HAIR = 1e-5
"""How far, as a root mean square, a point is moved off the grid of pixels: equal ones tie in a pool."""

Network = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """Slopes of one ascent: at its start, and the largest at any point, both rounded down."""

    start: float
    slope: float


def climb(
    network: nn.Module, pictures: Tensor, hairs: Tensor, *, steps: int, advance: Callable[[int], None] = lambda n: None
) -> list[Climb]:
    """Climb from each picture and return the largest slopes that were met.

    Points stay in the range of pictures, [0, 1] in each pixel, up to a hair. Each step is one pass forwards and back
    for both ends of a chord; the slopes at its ends are at least the length of what comes back, and the end where
    that is largest gets a power iteration at last. Pictures do not influence each other.

    Parameters
    ----------
    network
        In evaluation mode, in float64; of pictures (n, channels, height, width) it makes logits (n, classes).
    pictures, hairs
        Where to start, in [0, 1], and standard normal numbers of the same shape: they move each point off ties.
    steps
        Steps of the ascent.

    Examples
    --------
    >>> matrix = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False)).double()
    >>> _ = nn.init.constant_(matrix[1].weight, 0.5)
    >>> start = torch.full((1, 1, 2, 2), 0.5, dtype=torch.float64)
    >>> [round(found.slope, 6) for found in climb(matrix, start, torch.zeros_like(start), steps=3)]
    [1.414214]
    """
    pictures, hairs = pictures.detach(), _HAIR * hairs
    root = math.sqrt(pictures[0].numel())
    at_start, across = _slopes(network, pictures + hairs, None)
    points, best = pictures, at_start.clone()
    top, seeds = pictures, torch.zeros(0)
    pulled_most = torch.zeros_like(at_start)
    for step in range(steps):
        half = root * LONG * (SHORT / LONG) ** (step / max(steps - 1, 1))
        # Where the network is flat, any way is as good: another one at each step.
        turned = hairs.flatten(1).roll(step, 1).reshape(hairs.shape)
        across = _where(_lengths(across) > 0, across, _unit(turned))
        ends = [(points + side * half * across).clamp(0, 1) for side in (1, -1)]
        risen, (ahead, behind) = _chord(network, ends[0] + hairs, ends[1] + hairs)
        if not seeds.numel():
            seeds = risen.clone()
        for end, pulled in zip(ends, (ahead, behind), strict=True):
            lengths = _lengths(pulled)
            better = lengths > pulled_most
            top, seeds = _where(better, end, top), _where(better, risen, seeds)
            pulled_most = torch.maximum(pulled_most, lengths)
        # Moving both ends changes the chord by what they pull more on the one side, turning it by what both pull.
        uphill = ahead - behind
        # Where both pull alike the chord crosses no kink, and goes on along itself.
        alike = _lengths(uphill) <= _STILL * _lengths(ahead)
        points = (points + STRIDE * half * _where(alike, across, _unit(uphill))).clamp(0, 1)
        across = _unit(ahead + behind)
        advance(len(pictures))
    if steps:
        found, _ = _slopes(network, top + hairs, seeds)
        best = torch.maximum(best, found)
    return [
        Climb(start=one * DOWN, slope=other * DOWN) for one, other in zip(at_start.tolist(), best.tolist(), strict=True)
    ]


def _slopes(network: Network, points: Tensor, seeds: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return |J^T u| at each point for a unit vector u of logits, and the direction of J^T u among pixels.

    J^T u is linear in u, so that its gradient along u gives J v: the second pass backwards. Whatever u is, the length
    is no more than the largest singular value.
    """
    with torch.enable_grad():
        # A copy, since a layer may change its input in place.
        leaf = points.detach().requires_grad_()
        logits = network(leaf.clone())
        dual = torch.zeros_like(logits, requires_grad=True)
        (pulled,) = torch.autograd.grad(logits, leaf, dual, create_graph=True)
    vectors = _beginning(logits.detach(), seeds)
    best = torch.zeros(len(points), dtype=points.dtype, device=points.device)
    across = torch.zeros_like(points)
    for _ in range(POLISH):
        (back,) = torch.autograd.grad(logits, leaf, vectors, retain_graph=True)
        lengths = _lengths(back)
        gained = bool((lengths > best * (1 + _STILL)).any())
        across = _where(lengths > best, back, across)
        best = torch.maximum(best, lengths)
        if not gained or not pulled.requires_grad:
            break
        (image,) = torch.autograd.grad(pulled, dual, _unit(back), retain_graph=True)
        vectors = _unit(image.detach())
    return best, _unit(across)


def _beginning(logits: Tensor, seeds: Tensor | None) -> Tensor:
    """Return unit vectors of logits to begin with: one that is random but fixed, and by `seeds` the most of them."""
    drawn = torch.randn(logits.shape[1], generator=stream(0, "slope ascent"), dtype=torch.float64).to(logits)
    fixed = _unit(drawn.expand_as(logits))
    # Seeds may be zeros, where a chord was flat.
    return fixed if seeds is None else _unit(seeds + 0.01 * fixed)


def _chord(network: Network, ahead: Tensor, behind: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return the direction in which the logits move along chords, and what it pulls the pixels of both ends to."""
    with torch.enable_grad():
        leaf = torch.cat([ahead, behind]).requires_grad_()
        first, last = network(leaf.clone()).chunk(2)
        risen = _unit((first - last).detach())
        (pulled,) = torch.autograd.grad(torch.cat([first, last]), leaf, torch.cat([risen, risen]))
    one, other = pulled.chunk(2)
    return risen, (one, other)


def _lengths(vectors: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(vectors.flatten(1), dim=1)
    return found


def _unit(vectors: Tensor) -> Tensor:
    """Return vectors of length 1; those of zeros stay."""
    lengths = _lengths(vectors).clamp_min(torch.finfo(vectors.dtype).tiny)
    return vectors / lengths.reshape(-1, *[1] * (vectors.dim() - 1))


def _where(chosen: Tensor, one: Tensor, other: Tensor) -> Tensor:
    return torch.where(chosen.reshape(-1, *[1] * (one.dim() - 1)), one, other)
