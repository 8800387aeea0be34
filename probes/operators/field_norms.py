"""Squared L2 and H1 norms of fields."""

import math

import torch
from torch import Tensor

from probes.operators.fno.layers import GridKind


def squares(x: Tensor) -> Tensor:
    """Return the sum of squares of each field (n, channels, *grid), accumulated in float64, shape (n,).

    Examples
    --------
    >>> squares(torch.tensor([[[3.0, 4.0]], [[0.0, 1.0]]])).tolist()
    [25.0, 1.0]
    """
    return x.double().square().flatten(1).sum(1)


def sobolev_squares(x: Tensor, kind: GridKind) -> Tensor:
    """Return the squared H1 norm of each field on the unit cube, u^2 plus its squared gradient, shape (n,).

    Sums over the channels of means over the grid, so that numbers of different grids can be compared.

    - open: the gradient of the trigonometric interpolant, that is weights 1 + 4 pi^2 |k|^2 on the squared Fourier
      coefficients.
    - closed and cell: forward differences between neighbours over their distance, 1 / (N - 1) and 1 / N; each axis adds
      the mean over its own differences, of which there are N - 1 a line. An axis of a single node adds nothing.

    Parameters
    ----------
    x
        Shape (n, channels, *grid).

    Examples
    --------
    >>> sobolev_squares(torch.tensor([[[0.0, 0.5, 1.0]]]), "closed").tolist()  # mean square 5/12, slope 1
    [1.4166666666666667]
    """
    x = x.double()
    if kind == "open":
        return _spectral(x)
    total = x.square().flatten(2).mean(2)
    for axis in range(2, x.dim()):
        steps = x.shape[axis] - 1
        if steps:
            slopes = x.diff(dim=axis) * (steps if kind == "closed" else steps + 1)
            total = total + slopes.square().flatten(2).mean(2)
    return total.sum(1)


def _spectral(x: Tensor) -> Tensor:
    weights = x.new_ones(())
    for size in x.shape[2:]:
        waves = torch.fft.fftfreq(size, d=1 / size, dtype=torch.float64, device=x.device)
        weights = weights.unsqueeze(-1) + (2 * math.pi * waves).square()
    hat = torch.fft.fftn(x, dim=tuple(range(2, x.dim())), norm="forward")
    energy: Tensor = hat.abs().square() * weights
    return energy.flatten(1).sum(1)
