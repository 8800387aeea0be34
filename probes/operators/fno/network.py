"""A Fourier neural operator that runs on any grid, stage by stage.

One network serves all families: lift every point, pass blocks of spectral convolution, pointwise skip and
activation on a padded grid, crop, project every point (Li et al. 2021, arXiv 2010.08895). The readers beside this
module fill it with the weights of a checkpoint; a `Listener` receives the output of every stage.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from probes.operators.fno.layers import (
    SILENT,
    Activation,
    CoordinateKind,
    Gate,
    GridKind,
    Listener,
    Norm,
    Padding,
    Part,
    Pointwise,
    SpectralConv,
    coordinates,
)
from probes.operators.grids import restricted
from probes.operators.resampling import upsample


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """The activations of a block, and whether its input is squashed first."""

    activated: bool
    activated_again: bool = False
    stabilised: bool = False


class Block(nn.Module):
    """y = act(inner(norm(K norm_in(x))) + skip(x)); then, where it has one, act(norm2(mlp(y) + mlp_skip(x))).

    Parameters
    ----------
    spectral
        The spectral convolution K.
    skip, mlp_skip
        Pointwise maps or gates of the block's input; None: nothing is added.
    inner
        Perceptron between K and the sum.
    """

    def __init__(
        self,
        spectral: SpectralConv,
        skip: Pointwise | Gate | None,
        shape: BlockShape,
        activation: Activation,
        *,
        inner: Pointwise | None = None,
        mlp: Pointwise | None = None,
        mlp_skip: Pointwise | Gate | None = None,
        norms: Sequence[Norm | None] = (None, None, None),
    ) -> None:
        super().__init__()
        self.spectral, self.skip, self.inner, self.mlp, self.mlp_skip = spectral, skip, inner, mlp, mlp_skip
        self.norm_in, self.norm, self.norm_out = norms
        self.shape, self.function = shape, activation

    def forward(self, x: Tensor, name: str, before: str, listener: Listener = SILENT) -> tuple[Tensor, str]:
        """Apply it to (n, channels, *grid); return its output and the name of the stage that this is."""
        skip = None if self.skip is None else self._skipped(self.skip, x, f"{name}.skip", before, listener)
        mlp_skip = None if self.mlp_skip is None else self._skipped(self.mlp_skip, x, "", before, SILENT)
        y = torch.tanh(x) if self.shape.stabilised else x
        y = self.spectral(y if self.norm_in is None else self.norm_in(y))
        listener.stage(last := f"{name}.spectral", y)
        if self.norm is not None:
            y = self.norm(y)
            listener.stage(last := f"{name}.norm", y)
        if self.inner is not None:
            y = self.inner(y, f"{name}.inner", last, listener)
            last = f"{name}.inner"
        if skip is not None:
            y = y + skip
            listener.stage(f"{name}.sum", y, (Part(last), Part(f"{name}.skip")))
            last = f"{name}.sum"
        if self.shape.activated:
            y, last = self._activated(y, f"{name}.activated", listener)
        if self.mlp is not None:
            y = self.mlp(y, f"{name}.mlp", last, listener)
            last = f"{name}.mlp"
            if mlp_skip is not None:
                y = y + mlp_skip
                listener.stage(last := f"{name}.mlp_sum", y)
        if self.norm_out is not None:
            y = self.norm_out(y)
            listener.stage(last := f"{name}.norm_out", y)
        if self.shape.activated_again:
            y, last = self._activated(y, f"{name}.out", listener)
        return y, last

    def _activated(self, y: Tensor, name: str, listener: Listener) -> tuple[Tensor, str]:
        listener.activation(name, y, self.function)
        y = self.function(y)
        listener.stage(name, y)
        return y, name

    @staticmethod
    def _skipped(skip: "Pointwise | Gate", x: Tensor, name: str, before: str, listener: Listener) -> Tensor:
        if isinstance(skip, Pointwise):
            mapped: Tensor = skip(x, name, before, listener)
            return mapped
        y: Tensor = skip(x)
        listener.stage(name, y)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The settings of a network beyond its weights.

    Parameters
    ----------
    family, release
        "li", "pdebench", "neuralop" or "physicsnemo"; and the form within it, in words for the report.
    fields
        Channels of the input without coordinates.
    coordinates
        Which coordinates the network appends after the fields, in the order of the axes.
    padding
        Zeros around the lifted features.
    """

    family: str
    release: str
    fields: int
    coordinates: CoordinateKind
    padding: Padding


class FourierOperator(nn.Module):
    """A Fourier neural operator on grids of 1, 2 or 3 dimensions."""

    divided = True
    """Whether its stages are known: lift, blocks and projection can be run one by one."""

    def __init__(self, lift: Pointwise, blocks: Sequence[Block], projection: Pointwise, layout: Layout) -> None:
        super().__init__()
        self.lift, self.blocks, self.projection, self.layout = lift, nn.ModuleList(blocks), projection, layout

    @property
    def dimensions(self) -> int:
        """Axes of the grid."""
        return len(self._first.spectral.frequencies)

    @property
    def modes(self) -> tuple[int, ...]:
        """The highest frequency that any block keeps, on each axis."""
        highest = [[max(map(abs, axis)) for axis in block.spectral.frequencies] for block in self._blocks]
        return tuple(max(axis) for axis in zip(*highest, strict=True))

    @property
    def widest(self) -> int:
        """The most channels that lift and projection take or give."""
        return max(*self.lift.channels, *self.projection.channels)

    @property
    def outputs(self) -> int:
        """Channels of the output."""
        return self.projection.channels[1]

    @property
    def shifted_at_odd(self) -> bool:
        """Whether spectra are shifted by one on grids of odd size."""
        return any(block.spectral.shifted_at_odd for block in self._blocks)

    @property
    def smallest(self) -> tuple[int, ...]:
        """The coarsest grid on each axis, padding counted, on which every block can run."""
        return tuple(max(axis) for axis in zip(*(block.spectral.smallest for block in self._blocks), strict=True))

    @property
    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    @property
    def _first(self) -> Block:
        return self._blocks[0]

    def forward(self, fields: Tensor, grid: GridKind = "open", listener: Listener = SILENT) -> Tensor:
        """Map fields (n, fields, *grid) to (n, outputs, *grid); `grid` says where the nodes lie."""
        return self.decoded(self.lifted(fields, grid, listener), listener)

    def lifted(self, fields: Tensor, grid: GridKind = "open", listener: Listener = SILENT) -> Tensor:
        """Append the coordinates and lift every point: (n, fields, *grid) to (n, width, *grid)."""
        if self.layout.coordinates != "none":
            kind: GridKind = grid if self.layout.coordinates == "grid" else self.layout.coordinates
            nodes = coordinates(kind, fields.shape[2:]).to(fields)
            fields = torch.cat([fields, nodes.expand(len(fields), *nodes.shape)], dim=1)
        listener.stage("input", fields)
        lifted: Tensor = self.lift(fields, "lift", "input", listener)
        return lifted

    def decoded(self, lifted: Tensor, listener: Listener = SILENT) -> Tensor:
        """Pad, pass the blocks, crop and project: (n, width, *grid) to (n, outputs, *grid)."""
        sizes = lifted.shape[2:]
        ends = self.layout.padding.cells(sizes)
        cropping = _Cropping(listener, sizes, ends) if any(map(any, ends)) else listener
        x, before = self._passed(self._padded(lifted), cropping)
        output: Tensor = self.projection(_cropped(x, sizes, ends), "output", before, listener, "projection")
        return output

    def oversampled(self, lifted: Tensor, factor: int | Sequence[int]) -> Tensor:
        """Decode with the blocks on a grid `factor` times as fine, read as the network itself reads its own.

        One factor is for all axes; else there is one for each.

        Padded features are taken as one period, interpolated by their trigonometric polynomial, passed through the
        blocks and thinned out again: what changes against `decoded` is the aliasing of what is nonlinear, alone.
        """
        sizes = lifted.shape[2:]
        factors = [factor] * len(sizes) if isinstance(factor, int) else list(factor)
        padded = self._padded(lifted)
        finer = [times * size for times, size in zip(factors, padded.shape[2:], strict=True)]
        x, _ = self._passed(upsample(padded, finer, "open", "fourier"), SILENT)
        thinned = restricted(x, [slice(None, None, times) for times in factors])
        crop = _cropped(thinned, sizes, self.layout.padding.cells(sizes))
        output: Tensor = self.projection(crop, "output", "", SILENT, "projection")
        return output

    def _padded(self, lifted: Tensor) -> Tensor:
        ends = self.layout.padding.cells(lifted.shape[2:])
        if not any(map(any, ends)):
            return lifted
        # pad counts its axes from the last.
        flat = [cells for pair in reversed(ends) for cells in pair]
        return nn.functional.pad(lifted, flat, mode=self.layout.padding.mode)

    def _passed(self, x: Tensor, listener: Listener) -> tuple[Tensor, str]:
        before = "lift"
        for index, block in enumerate(self.blocks):
            x, before = block(x, f"block{index}", before, listener)
        return x, before


def _cropped(x: Tensor, sizes: Sequence[int], ends: Sequence[tuple[int, int]]) -> Tensor:
    for axis, (size, (start, _)) in enumerate(zip(sizes, ends, strict=True)):
        x = x.narrow(axis + 2, start, size)
    return x


class _Cropping(Listener):
    """A listener that crops the padding off every stage before it passes it to another listener."""

    def __init__(self, listener: Listener, sizes: Sequence[int], ends: Sequence[tuple[int, int]]) -> None:
        self.listener, self.sizes, self.ends = listener, sizes, ends

    def stage(self, name: str, values: Tensor, parts: tuple[Part, ...] = (), constant: Tensor | None = None) -> None:
        self.listener.stage(name, _cropped(values, self.sizes, self.ends), parts, constant)

    def activation(self, name: str, before: Tensor, function: Activation) -> None:
        self.listener.activation(name, before, function)
