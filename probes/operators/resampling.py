"""Resample fields to another grid, as fields without frequencies beyond those that their own grid can hold.

Every method continues the field to a periodic one, axis by axis, and evaluates its trigonometric interpolant at the
nodes of the other grid. So each is a matrix an axis, computed once in float64 through a transform of the identity.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from probes.operators.fno.layers import GridKind

Method = Literal["fourier", "sine", "even", "wrap"]

METHODS: dict[GridKind, tuple[Method, ...]] = {
    "open": ("fourier",),
    "closed": ("sine", "even", "wrap", "fourier"),
    "cell": ("even", "fourier"),
}
"""The methods for each kind of grid."""
AGREEMENT = 1e-3
"""Share of a field's root mean square up to which a boundary counts as zero, or opposite sides as equal.

A jump of that share makes the interpolant ring by about as much next to the boundary: a tenth of the one per cent by
which a good operator errs. Solutions with a zero boundary sit at 1e-7, in float32; fields without one at 0.1 to 1.
"""
MATRIX_UP_TO = 2**19
"""Entries of a matrix, 4 MB, beyond which each line is transformed instead.

Measured on one core in float32: 32 x 211^2 to 421^2 takes 0.05 s by matrices and 0.13 s by transforms, as 211 and 421
are prime; 421^2 to 1684^2 takes 0.033 s against 0.025 s, 1024^2 to 2048^2 0.13 s against 0.03 s.
"""


def upsample(
    x: Tensor, sizes: Sequence[int], kind: GridKind, method: Method, *, matrix_up_to: int = MATRIX_UP_TO
) -> Tensor:
    """Return a field on a grid of other sizes, in its own precision.

    Parameters
    ----------
    x
        Shape (n, channels, *grid), real, 1 to 3 axes.
    sizes
        Nodes along each axis; an axis with as many as before is left as it is. On one with fewer, only frequencies
        strictly below what the new grid can hold are kept: an ideal low-pass filter, not the values at common
        nodes.
    kind
        Where the nodes of both grids lie: open i / N, closed i / (N - 1), cell (i + 1/2) / N.
    method
        - `fourier`: the field is one period. With an even number of nodes, the highest frequency is split in halves
          between +n/2 and -n/2. On a cell grid, the phase exp(i pi k (1/S - 1/n)) moves the nodes. On a closed grid
          this is zero-padding as if it were open: both ends are read as different nodes of one period, so that the
          result is misaligned. It is there to be compared with.
        - `sine`: the straight line through the two ends is taken off, the rest, which is zero there, is continued
          oddly around both ends (DST-I), and the line is put back on the other grid. Closed only.
        - `even`: even around both ends, DCT-I on a closed grid and DCT-II on a cell grid.
        - `wrap`: the last node repeats the first, is dropped and put back. Closed only.
    matrix_up_to
        Entries of a matrix beyond which each line of an axis is transformed instead.

    Returns
    -------
    Tensor
        Shape (n, channels, *sizes).

    Raises
    ------
    ValueError
        Where the method does not belong to the kind of grid, or a size is not possible.

    Examples
    --------
    >>> upsample(torch.tensor([[[1.0, 0.0, -1.0, 0.0]]], dtype=torch.float64), [8], "open", "fourier").round(decimals=4)
    tensor([[[ 1.0000,  0.7071,  0.0000, -0.7071, -1.0000, -0.7071,  0.0000,
               0.7071]]], dtype=torch.float64)
    """
    if method not in METHODS[kind]:
        raise ValueError(f"{method!r} is no method for a grid that is {kind}: {', '.join(METHODS[kind])} are")
    if len(sizes) != x.dim() - 2:
        raise ValueError(f"{len(sizes)} sizes for a field of {x.dim() - 2} axes")
    if (fewest := min(*sizes, *x.shape[2:])) < (least := 2 if kind == "closed" else 1):
        raise ValueError(f"an axis of {fewest} nodes: a grid that is {kind} has at least {least}")
    # From the last axis on: its product is one of large matrices, and cheapest while the others are still short.
    for axis in range(x.dim() - 1, 1, -1):
        old, new = x.shape[axis], sizes[axis - 2]
        if old == new:
            continue
        if old * new <= matrix_up_to:
            x = along(x, _matrix(method, kind, old, new).to(x), axis)
        else:
            x = _resampled(x.movedim(axis, -1), new, kind, method).movedim(-1, axis)
    return x


def along(x: Tensor, matrix: Tensor, axis: int) -> Tensor:
    """Return x, shape (..., *grid), with every line along an axis multiplied by a matrix (new size, size)."""
    if axis == x.dim() - 1:
        return x @ matrix.T
    lines: Tensor = (matrix @ x.flatten(axis + 1)).unflatten(-1, x.shape[axis + 1 :])
    return lines


def suitable(values: Tensor, kind: GridKind) -> Method:
    """Return the method whose assumption on the boundary holds for all channels of a field.

    open: `fourier`; cell: `even`. closed: `sine` where the root mean square over the boundary is at most `AGREEMENT`
    times that over the grid; else `wrap` where that of the difference of opposite sides is, on every axis; else `even`,
    which asks for nothing.

    Parameters
    ----------
    values
        Shape (n, channels, *grid).

    Examples
    --------
    >>> suitable(torch.tensor([[[0.0, 2.0, 0.0]]]), "closed"), suitable(torch.tensor([[[1.0, 2.0, 1.0]]]), "closed")
    ('sine', 'wrap')
    """
    if kind != "closed":
        return "fourier" if kind == "open" else "even"
    allowed = AGREEMENT * _rms(values.flatten(2))
    boundary = torch.ones(values.shape[2:], dtype=torch.bool, device=values.device)
    boundary[(slice(1, -1),) * (values.dim() - 2)] = False
    if (_rms(values[..., boundary]) <= allowed).all():
        return "sine"
    jumps = [values.narrow(axis, 0, 1) - values.narrow(axis, -1, 1) for axis in range(2, values.dim())]
    return "wrap" if all((_rms(jump.flatten(2)) <= allowed).all() for jump in jumps) else "even"


def _rms(values: Tensor) -> Tensor:
    return values.double().square().mean((0, 2)).sqrt()


@lru_cache(maxsize=32)
def _matrix(method: Method, kind: GridKind, old: int, new: int) -> Tensor:
    return _resampled(torch.eye(old, dtype=torch.float64), new, kind, method).T.contiguous()


def _resampled(x: Tensor, size: int, kind: GridKind, method: Method) -> Tensor:
    """Extend the lines of the last axis to a period, resample it, and cut out the part of the line."""
    if method == "fourier":
        return _period(x, size, centred=kind == "cell")
    if kind == "cell":
        return _period(torch.cat([x, x.flip(-1)], -1), 2 * size, centred=True)[..., :size]
    if method == "wrap":
        period = _period(x[..., :-1], size - 1, centred=False)
        return torch.cat([period, period[..., :1]], -1)
    if method == "sine":
        # Ends that are not quite zero would make an odd continuation jump there, and ring all along the line.
        rest = x - _between(x, x.shape[-1])
        whole = torch.cat([rest, -rest[..., 1:-1].flip(-1)], -1)
        return _period(whole, 2 * (size - 1), centred=False)[..., :size] + _between(x, size)
    whole = torch.cat([x, x[..., 1:-1].flip(-1)], -1)
    return _period(whole, 2 * (size - 1), centred=False)[..., :size]


def _between(x: Tensor, size: int) -> Tensor:
    """Return the straight line through both ends of each line, at the nodes of a closed grid."""
    nodes = torch.linspace(0, 1, size, dtype=x.dtype, device=x.device)
    return x[..., :1] * (1 - nodes) + x[..., -1:] * nodes


def _period(x: Tensor, size: int, *, centred: bool) -> Tensor:
    """Resample lines that are one period; with `centred`, nodes are the centres of cells."""
    old = x.shape[-1]
    hat = torch.fft.rfft(x, norm="forward")[..., : old // 2 + 1 if size >= old else (size + 1) // 2]
    angles = torch.arange(hat.shape[-1], dtype=torch.float64, device=x.device) * (
        math.pi * (old - size) / (old * size) if centred else 0.0
    )
    factors = torch.polar(torch.ones_like(angles), angles)
    if size > old and old % 2 == 0:
        factors[-1] /= 2
    line: Tensor = torch.fft.irfft(hat * factors.to(hat.dtype), n=size, norm="forward")
    return line
