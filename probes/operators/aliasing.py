"""Measure the aliasing of an activation: on a grid, against the same activation of the continuous field.

An activation makes frequencies that the grid cannot hold; at the nodes they pass for lower ones. What it would be
without that is computed on a finer grid, filtered there and taken back (Bartolucci et al. 2023, arXiv 2305.19913).
"""

import math

import torch
from torch import Tensor

from probes.operators.field_norms import squares
from probes.operators.fno.layers import Activation
from probes.operators.resampling import upsample

MEMORY = 64 * 2**20
"""Bytes in use at once besides the input, unless the fine grid of a single channel takes more."""
_COPIES = 5
"""Fine fields alive at the same time: before and after the activation, and its transform with what it copies."""


def activation_aliasing(
    before: Tensor, function: Activation, factor: int = 4, *, memory: int = MEMORY
) -> tuple[Tensor, Tensor]:
    """Return the aliasing of a pointwise activation on a periodic grid, and its energy beyond the grid's frequencies.

    With v the field, U its trigonometric interpolation onto a grid `factor` times as fine, P the ideal filter that
    keeps |k| <= floor((n - 1) / 2) on every axis and D the restriction to the nodes, the two are

        |f(v) - D P f(U v)| / |f(v)|  and  |(1 - P) f(U v)|^2 / |f(U v)|^2.

    The fine grid aliases as well, if less: the ratio is good where a factor of 8 hardly moves it. At the frequency n/2
    of an even grid only half of a wave can be seen; P drops it, so that what v has there counts as aliased.

    Parameters
    ----------
    before
        What goes into the activation, shape (n, channels, *grid), on an open grid.
    function
        Must act on every value alone; is called with shape (any, 1, *fine grid).
    memory
        Bytes in use at once besides the input, unless the fine grid of a single channel takes more.

    Returns
    -------
    tuple[Tensor, Tensor]
        The ratio and the share, each of shape (n,) in float64, over all channels. Zero over zero is 0; a ratio to an
        f(v) that vanishes at all nodes, but not between them, is 1. In float32 shares below 1e-6 are rounding.

    Examples
    --------
    >>> wave = torch.tensor([[[1.0, 0.0, -1.0, 0.0]]], dtype=torch.float64)
    >>> ratio, share = activation_aliasing(wave, torch.square)  # cos^2 = 1/2 + cos(2)/2, which four nodes cannot hold
    >>> ratio.round(decimals=6).tolist(), share.round(decimals=6).tolist()
    ([0.707107], [0.333333])
    """
    sizes = before.shape[2:]
    fine = [factor * size for size in sizes]
    single = before.flatten(0, 1).unsqueeze(1)
    together = max(1, memory // (_COPIES * math.prod(fine) * before.element_size()))
    # Means over the nodes: of what is aliased, of the activation, of the fine activation and of its part below.
    sums = torch.cat([_means(part, function, fine, sizes) for part in single.split(together)], dim=1)
    aliased, whole, finer, below = sums.unflatten(1, before.shape[:2]).sum(2)
    ratio = _ratio(aliased, torch.where(whole > 0, whole, aliased)).sqrt()
    return ratio, _ratio((finer - below).clamp_min(0), finer)


def _means(v: Tensor, function: Activation, fine: list[int], sizes: torch.Size) -> Tensor:
    activated = function(v)
    finer = function(upsample(v, fine, "open", "fourier"))
    energy = _energy(finer)
    # On fewer nodes than before, upsampling is the filter and the restriction in one.
    below = upsample(finer, sizes, "open", "fourier")
    parts = [squares(part) / math.prod(sizes) for part in (activated - below, activated, below)]
    return torch.stack([parts[0], parts[1], energy / math.prod(fine), parts[2]])


def _energy(finer: Tensor) -> Tensor:
    # Squared before it is widened: a copy in float64 would take twice the memory of the field.
    return finer.square().flatten(1).sum(1, dtype=torch.float64)


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1.0), 0.0)
