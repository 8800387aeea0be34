"""Layers of Fourier neural operators, for a grid of any size, and the listener that receives what passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]
GridKind = Literal["open", "closed", "cell"]
CoordinateKind = Literal["none", "grid", "open", "closed", "cell"]
"""Coordinates that the network appends: none, those of the grid it is run on, or always those of one kind of grid."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stage that enters another linearly: its name, and the matrix (out, in) applied at every point.

    None for the matrix: the stage itself is added.
    """

    name: str
    matrix: Tensor | None = None


class Listener:
    """Receives the values of a forward pass; this one ignores them. Values have the shape (n, channels, *grid)."""

    def stage(self, name: str, values: Tensor, parts: tuple[Part, ...] = (), constant: Tensor | None = None) -> None:
        """Receive the output of a stage, without the padding of the domain.

        Parameters
        ----------
        parts, constant
            Where given, values are the sum of the parts and of a constant a channel, shape (channels,).
        """

    def activation(self, name: str, before: Tensor, function: Activation) -> None:
        """Receive the input of an activation, with the padding: on the network's own periodic grid."""


SILENT = Listener()


def coordinates(kind: GridKind, sizes: Sequence[int]) -> Tensor:
    """Return the coordinates of every node of a grid on the unit cube, shape (dimensions, *sizes), in float32.

    open: i / N; closed: i / (N - 1); cell: (i + 1/2) / N.

    Examples
    --------
    >>> coordinates("open", (4,)).tolist(), coordinates("closed", (3,)).tolist()
    ([[0.0, 0.25, 0.5, 0.75]], [[0.0, 0.5, 1.0]])
    """
    axes = []
    for size in sizes:
        # As numpy's linspace does it in double precision; every release rounds to float32 in the end.
        nodes = torch.arange(size, dtype=torch.float64)
        axis = {"open": nodes / size, "closed": nodes / max(size - 1, 1), "cell": (nodes + 0.5) / size}[kind]
        axes.append(axis.float())
    return torch.stack(torch.meshgrid(*axes, indexing="ij"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Zeros around the domain, axis by axis: a number of cells, or with `fraction` a share of the grid's size.

    Parameters
    ----------
    amounts
        Cells, or shares, of each axis; empty: none.
    symmetric
        Both sides, or only the far one.
    mode
        As torch.nn.functional.pad has it.
    """

    amounts: tuple[float, ...] = ()
    fraction: bool = False
    symmetric: bool = False
    mode: str = "constant"

    def cells(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Return the cells before and after the domain on each axis of a grid of these sizes."""
        if not self.amounts:
            return [(0, 0)] * len(sizes)
        ends = [
            round(amount * size) if self.fraction else int(amount)
            for amount, size in zip(self.amounts, sizes, strict=True)
        ]
        return [(end if self.symmetric else 0, end) for end in ends]

    @property
    def fixed(self) -> bool:
        """Whether the padding is a number of cells, hence another domain on every grid."""
        return not self.fraction and any(self.amounts)


class Pointwise(nn.Module):
    """A multilayer perceptron applied at every point, activation between its layers.

    Parameters
    ----------
    layers
        Matrix (out, in) and bias (out,) or None of each layer.
    """

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor | None]], activation: Activation) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(weight) for weight, _ in layers])
        # A layer without a bias keeps an empty one, so that lists stay parallel.
        self.biases = nn.ParameterList([nn.Parameter(weight.new_zeros(0) if b is None else b) for weight, b in layers])
        self.function = activation

    @property
    def channels(self) -> tuple[int, int]:
        """Channels that go in and come out."""
        return self.weights[0].shape[1], self.weights[-1].shape[0]

    def forward(self, x: Tensor, name: str, before: str, listener: Listener = SILENT, inner: str = "") -> Tensor:
        """Apply it to (n, in, *grid).

        Parameters
        ----------
        name, before
            Names of its output and of its input as stages.
        inner
            Prefix of the stages between its layers; empty: as `name`.
        """
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.matmul(weight, x.flatten(2)).unflatten(2, x.shape[2:])
            if bias.numel():
                x = x + bias.view(-1, *[1] * (x.dim() - 2))
            number = str(index) if last > 1 else ""
            label = name if index == last else f"{inner or name}.hidden{number}"
            listener.stage(label, x, (Part(before, weight),), bias if bias.numel() else None)
            if index < last:
                before = f"{inner or name}.activated{number}"
                listener.activation(before, x, self.function)
                x = self.function(x)
                listener.stage(before, x)
        return x


class Gate(nn.Module):
    """A skip that scales every channel by a number, or with None passes its input on."""

    def __init__(self, scale: Tensor | None) -> None:
        super().__init__()
        self.scale = None if scale is None else nn.Parameter(scale.flatten())

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to (n, channels, *grid)."""
        return x if self.scale is None else x * self.scale.view(-1, *[1] * (x.dim() - 2))


class SpectralConv(nn.Module):
    """A spectral convolution: a matrix for each of the lowest frequencies, none for the others (Li et al. 2021, eq. 4).

    Parameters
    ----------
    weight
        Complex, shape (in, out, *modes), or (channels, *modes) where each channel is multiplied alone.
    frequencies
        The frequency of every entry along each axis, as signed integers; the last axis has none below zero.
    bias
        Shape (out,) or None.
    shifted_at_odd
        Whether what is read at frequency f is written at f - 1 along every axis but the last on grids of odd size, as
        releases do that undo fftshift by fftshift.
    lowered_at_even
        Whether an axis but the last with an odd number of entries has each a frequency lower on grids of even size, as
        releases do that cut their modes out of the middle by rounding down.
    """

    def __init__(
        self,
        weight: Tensor,
        frequencies: Sequence[Sequence[int]],
        bias: Tensor | None = None,
        *,
        shifted_at_odd: bool = False,
        lowered_at_even: bool = False,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias.flatten())
        self.frequencies = tuple(tuple(axis) for axis in frequencies)
        self.shifted_at_odd = shifted_at_odd and len(self.frequencies) > 1
        self.lowered_at_even = lowered_at_even
        self.separable = weight.dim() == len(self.frequencies) + 1

    @property
    def smallest(self) -> tuple[int, ...]:
        """The coarsest grid on each axis that holds every frequency."""
        # An even grid of N nodes holds -N/2 to N/2 - 1; one node less will do where the frequencies stay apart on it.
        full = [2 * max(max(axis) + (max(axis) >= -min(axis)), -min(axis)) for axis in self.frequencies[:-1]]
        return (*[max(size - 1, len(axis)) for size, axis in zip(full, self.frequencies[:-1], strict=True)],
                max(2 * self.frequencies[-1][-1], 1))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to (n, in, *grid).

        Axis by axis, only the frequencies that are kept are transformed further: the values are those of the whole
        transform, for a fraction of its cost on a fine grid.
        """
        sizes = x.shape[2:]
        hat = torch.fft.rfft(x, dim=-1)[..., : len(self.frequencies[-1])]
        for axis in range(len(sizes) - 2, -1, -1):
            hat = torch.fft.fft(hat, dim=axis + 2).index_select(axis + 2, self._bins(axis, sizes[axis], 0))
        hat = self._mixed(hat)
        for axis in range(len(sizes) - 1):
            size = sizes[axis]
            whole = hat.new_zeros(*hat.shape[: axis + 2], size, *hat.shape[axis + 3 :])
            moved = int(self.shifted_at_odd and size % 2 == 1)
            hat = torch.fft.ifft(whole.index_copy(axis + 2, self._bins(axis, size, moved), hat), dim=axis + 2)
        y: Tensor = torch.fft.irfft(hat, n=sizes[-1], dim=-1)
        return y if self.bias is None else y + self.bias.view(-1, *[1] * len(sizes))

    def _mixed(self, hat: Tensor) -> Tensor:
        if self.separable:
            alone: Tensor = hat * self.weight
            return alone
        # A batch of small matrix products, one a frequency.
        flat = torch.matmul(hat.flatten(2).permute(2, 0, 1), self.weight.flatten(2).permute(2, 0, 1))
        mixed: Tensor = flat.permute(1, 2, 0).unflatten(2, hat.shape[2:])
        return mixed

    def _bins(self, axis: int, size: int, moved: int) -> Tensor:
        moved += int(self.lowered_at_even and size % 2 == 0 and len(self.frequencies[axis]) % 2 == 1)
        nodes: Tensor = (torch.tensor(self.frequencies[axis], device=self.weight.device) - moved) % size
        return nodes


class Norm(nn.Module):
    """Normalise each channel, or each group of channels, of each sample over its grid.

    Parameters
    ----------
    groups
        As many as there are channels: instance normalisation.
    scale, shift
        Shape (channels,) or None.
    """

    def __init__(
        self, groups: int, scale: Tensor | None = None, shift: Tensor | None = None, eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.groups, self.eps = groups, eps
        self.scale = None if scale is None else nn.Parameter(scale)
        self.shift = None if shift is None else nn.Parameter(shift)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to (n, channels, *grid)."""
        normed: Tensor = nn.functional.group_norm(x, self.groups, self.scale, self.shift, self.eps)
        return normed
