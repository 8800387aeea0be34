"""Energy of fields by wavenumber, comparable between grids.

Wavenumbers are in cycles per domain, so that spectra of different grids can be laid on top of each other. A field that
is not periodic is a step for the Fourier transform, whose tail falls like 1/k^2 and hides its own: hence three views.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Literal

import scipy.fft
import torch
from torch import Tensor

from probes.operators.fno.layers import GridKind, coordinates
from probes.operators.resampling import along

View = Literal["periodic", "even", "hann"]

MATRIX_UP_TO = 128
"""Largest axis for which the CPU multiplies by a matrix of cosines instead of transforming fast.

Measured on one core, 32 channels in float32, DCT-I and DCT-II: at 61^2 0.5 ms against 0.5 and 1.4 ms, at 128^2 2.9 ms
against 15 and 1.5 ms, as 127 is prime; at 421^2 140 ms against 34 and 125 ms.
"""


class RadialSpectrum:
    """The transform and the energy of fields on one grid, by wavenumber.

    A spectrum of a linear combination of fields costs no transform: `combined` and `constant` act on coefficients.

    Parameters
    ----------
    sizes, kind
        Nodes along each of 1 to 3 axes, at least three, and where they lie.
    view
        - `periodic`: the grid is one period. On a closed grid of N nodes that is N / (N - 1) of the domain;
          wavenumbers are cycles per such period.
        - `even`: the field is mirrored at the ends of the domain. Its period is twice the domain, its wavenumbers are
          multiples of 1/2. On a closed grid it is mirrored at the last node (DCT-I), on a cell grid half a step beyond
          it (DCT-II); an open grid is treated as a cell grid, that is as if moved by half a step, which changes phases
          and no energy.
        - `hann`: the mean is taken off, and sin^2(pi x) on every axis lets the field end in zeros. The window has the
          mean square 1 over the nodes, so that white noise keeps its energy; other fields need not. The mean that is
          missing at wavenumber 0 is replaced by what the window leaks into it.
    device
        Where coefficients will lie; it must know float64.
    matrix_up_to
        Largest axis for which the CPU multiplies by a matrix of cosines.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        kind: GridKind,
        view: View,
        device: str = "cpu",
        *,
        matrix_up_to: int = MATRIX_UP_TO,
    ) -> None:
        if min(sizes) < 3:
            raise ValueError(f"a spectrum needs three nodes on every axis, not {min(sizes)}")
        self.sizes, self.kind, self.view = tuple(sizes), kind, view
        self._matrix_up_to = matrix_up_to
        self._unit = 0.5 if view == "even" else 1.0
        last = len(sizes) - 1
        axes = [self._axis(size, half=axis == last) for axis, size in enumerate(sizes)]
        self._waves = [waves.to(device) for waves, _ in axes]
        self._counts = _outer([counts for _, counts in axes]).to(device)
        self._radius = reduce(lambda total, waves: total.unsqueeze(-1) + waves.square(), self._waves,
                              torch.zeros((), dtype=torch.float64, device=device)).sqrt().flatten()  # fmt: skip
        self._shell = (self._radius / self._unit).round().long()
        shells = int(self._shell.max()) + 1
        self.wavenumbers = torch.arange(shells, dtype=torch.float64, device=device) * self._unit
        """Of each shell, in cycles per domain, shape (shells,), float64."""
        self._window = _hann(self.sizes, kind).to(device) if view == "hann" else None

    def _axis(self, size: int, *, half: bool) -> tuple[Tensor, Tensor]:
        """Return the absolute wavenumbers of an axis, and how many coefficients of the transform each counts for."""
        if self.view == "even":
            waves = torch.arange(size, dtype=torch.float64) / 2
        else:
            waves = torch.fft.fftfreq(size, d=1 / size, dtype=torch.float64).abs()[: size // 2 + 1 if half else size]
        counts = torch.ones_like(waves)
        if self.view == "even" or half:
            counts[1:] = 2
            # The last stands for itself alone where it is the frequency n/2 of an even grid, or the end of a DCT-I.
            if self.kind == "closed" if self.view == "even" else size % 2 == 0:
                counts[-1] = 1
        return waves, counts

    def transform(self, x: Tensor) -> Tensor:
        """Return the coefficients of fields (n, channels, *grid), in their precision; it is linear.

        Fourier coefficients of the period, (1/n) sum_j x_j exp(-2 pi i j k / n): complex, half of the last axis, or
        real for the even view, where phases are those of waves around the first end of the domain.
        """
        axes = tuple(range(2, x.dim()))
        if self.view == "even":
            return self._cosines(x, axes)
        if self._window is not None:
            x = (x - x.mean(axes, keepdim=True)) * self._window.to(x.dtype)
        hat: Tensor = torch.fft.rfftn(x, dim=axes, norm="forward")
        return hat

    def _cosines(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        kind = 1 if self.kind == "closed" else 2
        if x.device.type == "cpu" and max(self.sizes) > self._matrix_up_to:
            fields = x.detach().numpy()
            return torch.from_numpy(scipy.fft.dctn(fields, type=kind, axes=axes, norm="forward", workers=1))
        for axis in reversed(axes):
            identity = torch.eye(x.shape[axis], dtype=torch.float64).numpy()
            x = along(x, torch.from_numpy(scipy.fft.dct(identity, type=kind, axis=0, norm="forward")).to(x), axis)
        return x

    def constant(self, coefficients: Tensor, per_channel: Tensor) -> Tensor:
        """Return the coefficients of the fields plus a constant a channel, shape (channels,)."""
        # The mean is taken off in this view, so that a constant leaves no trace.
        if self.view == "hann":
            return coefficients
        moved = coefficients.clone(memory_format=torch.contiguous_format)
        moved.flatten(2)[:, :, 0] += per_channel.to(moved)
        return moved

    @staticmethod
    def combined(parts: Sequence[tuple[Tensor | None, Tensor]]) -> Tensor:
        """Return the coefficients of a sum of fields, each multiplied by a matrix (out, in) or, with None, as it is."""
        return reduce(torch.add, (field if matrix is None else _mixed(matrix, field) for matrix, field in parts))

    def power(self, coefficients: Tensor) -> Tensor:
        """Return the energy of each coefficient, meaned over the channels, shape (n, *frequencies), float64.

        Coefficients that represent two of the whole transform, or more, count as often. The sum is the mean square of
        the field over nodes and channels; for the even view of a closed grid that of the trapezoidal rule, which gives
        nodes on a side half the weight; for the Hann view that of the windowed field.
        """
        channels = coefficients.unbind(1)
        whole = [torch.view_as_real(field) if field.is_complex() else field.unsqueeze(-1) for field in channels]
        total = torch.zeros(whole[0].shape, dtype=torch.float64, device=coefficients.device)
        # Channel by channel, as a whole copy in float64 would not stay in the processor's cache.
        for field in whole:
            total.addcmul_(wide := field.double(), wide)
        return total.sum(-1) * (self._counts / len(channels))

    def shells(self, power: Tensor) -> Tensor:
        """Return the energy by shell, wavenumbers rounded to the next multiple of the view's unit: (n, shells)."""
        return _binned(power, self._shell, len(self.wavenumbers))

    def bands(self, power: Tensor, edges: Sequence[float]) -> Tensor:
        """Return the energy with a <= |k| < b for neighbouring edges a, b, in cycles per domain: (n, edges - 1)."""
        limits = torch.tensor(edges, dtype=torch.float64, device=power.device)
        # 0 is below the first edge, and len(edges) at or above the last.
        return _binned(power, torch.bucketize(self._radius, limits, right=True), len(edges) + 1)[:, 1:-1]

    def above(self, power: Tensor, radius: float) -> Tensor:
        """Return the energy with |k| > radius, shape (n,)."""
        return power.flatten(1) @ (self._radius > radius).double()

    def outside(self, power: Tensor, box: Sequence[float]) -> Tensor:
        """Return the energy with |k_j| above box_j on any axis j, shape (n,)."""
        inside = _outer([(waves <= limit).double() for waves, limit in zip(self._waves, box, strict=True)])
        return power.flatten(1) @ (1 - inside).flatten()


def _outer(axes: Sequence[Tensor]) -> Tensor:
    return reduce(lambda total, axis: total.unsqueeze(-1) * axis, axes)


def _hann(sizes: Sequence[int], kind: GridKind) -> Tensor:
    axes = [(coordinates(kind, (size,))[0].double() * math.pi).sin().square() for size in sizes]
    return _outer([axis / axis.square().mean().sqrt() for axis in axes])


def _mixed(matrix: Tensor, field: Tensor) -> Tensor:
    # A real matrix acts on real and imaginary parts alone, at half the cost of a complex product.
    parts = torch.view_as_real(field) if field.is_complex() else field
    mixed = (matrix.to(parts) @ parts.flatten(2)).unflatten(2, parts.shape[2:])
    return torch.view_as_complex(mixed) if field.is_complex() else mixed


def _binned(power: Tensor, bins: Tensor, count: int) -> Tensor:
    return power.new_zeros(len(power), count).index_add_(1, bins, power.flatten(1))
