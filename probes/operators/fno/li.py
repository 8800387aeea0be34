"""Build a Fourier neural operator from the tensors of the published scripts.

The scripts that came with the paper (Li et al. 2021, arXiv 2010.08895) changed over the years, and many models were
trained with copies of them, PDEBench's among others. They save tensors alone: sizes follow from these, and what else
changed between the versions (activation, padding, order of the coordinates) follows from which of them are there.
"""

import math
import re
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from probes.core.errors import InputError, escaped
from probes.files.weights import check_held, is_plain
from probes.operators.fno.layers import Norm, Padding, Pointwise, SpectralConv
from probes.operators.fno.network import Block, BlockShape, FourierOperator, Layout

_BIAS_OF_VARIANCE = 1e-5
_HISTORY = 10
"""Time steps that the published Navier-Stokes models take as fields."""


class Weights:
    """Tensors by name, checked and turned into parts of a network; it remembers which of them were used."""

    def __init__(self, tensors: Mapping[str, Tensor], where: str) -> None:
        self.tensors, self.where = tensors, where
        self._left = set(tensors)

    @property
    def unused(self) -> list[str]:
        """Names of tensors that were not used, in order."""
        return sorted(self._left)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor in single precision."""
        if name not in self.tensors:
            raise self.wrong(f"The checkpoint has no {name}.")
        self._left.discard(name)
        value = self.tensors[name].detach()
        return value.to(torch.complex64 if value.is_complex() else torch.float32)

    def matrix(self, name: str, channels: tuple[int | None, int | None]) -> tuple[Tensor, Tensor | None]:
        """Return the matrix (out, in) and the bias of a linear layer or of a convolution with kernels of one point.

        Parameters
        ----------
        channels
            How many have to go in and come out; None: any number.
        """
        weight = self.tensor(f"{name}.weight")
        size = tuple(weight.shape)
        if weight.is_complex() or len(size) < 2 or math.prod(size[2:]) != 1:
            raise self.wrong(f"{name}.weight of shape {size} is no matrix of real numbers applied at every point.")
        if any(wanted not in (None, got) for wanted, got in zip(channels, (size[1], size[0]), strict=True)):
            raise self.wrong(
                f"{name}.weight maps {size[1]} to {size[0]} channels, its neighbours ask for "
                f"{channels[0] or 'any number'} to {channels[1] or 'any number'}."
            )
        bias = self.tensor(f"{name}.bias") if f"{name}.bias" in self.tensors else None
        if bias is not None and (bias.numel() != size[0] or bias.is_complex()):
            raise self.wrong(f"{name}.bias has {bias.numel()} entries for {size[0]} channels.")
        return weight.reshape(size[:2]), None if bias is None else bias.flatten()

    def dimensions(self, name: str) -> int:
        """Return the number of axes of a spectral convolution's grid, by the shape of its first corner."""
        corner = self.tensor(f"{name}.weights1")
        axes = corner.dim() - (2 if corner.is_complex() else 3)
        if axes not in (1, 2, 3) or not (corner.is_complex() or corner.shape[-1] == 2):
            raise self.wrong(
                f"{name}.weights1 of shape {tuple(corner.shape)} holds no spectral weights of 1 to 3 axes."
            )
        return axes

    def spectral(self, name: str, dimensions: int, width: int) -> SpectralConv:
        """Return a spectral convolution whose corners lie in weights1 to weights4, complex or as pairs of numbers.

        The first corner has frequencies from 0 on every axis, the second counts down from -1 on the first axis, the
        third on the second axis, the fourth on both.
        """
        names = [f"{name}.weights{number + 1}" for number in range(2 ** (dimensions - 1))]
        corners = [self.tensor(corner) for corner in names]
        corners = [corner if corner.is_complex() else _paired(corner) for corner in corners]
        size = tuple(corners[0].shape)
        if len(size) != dimensions + 2 or size[:2] != (width, width) or 0 in size:
            raise self.wrong(f"{names[0]} of complex shape {size} does not fit {width} channels, {dimensions} axes.")
        if any(tuple(corner.shape) != size for corner in corners):
            raise self.wrong(f"The corners of {name} differ in shape.")
        for axis in range(dimensions - 1):
            corners = [torch.cat(pair, dim=axis + 2) for pair in zip(corners[::2], corners[1::2], strict=True)]
        full = [[*range(modes), *range(-modes, 0)] for modes in size[2:-1]]
        return SpectralConv(corners[0], [*full, range(size[-1])])

    def wrong(self, message: str, hint: str = "") -> InputError:
        """Return the refusal of tensors that do not make up the network."""
        return InputError(message, where=self.where, hint=hint or "Save model.state_dict() again, of the whole model.")


def _paired(values: Tensor) -> Tensor:
    return torch.view_as_complex(values.contiguous()) if values.shape[-1:] == (2,) else values.to(torch.complex64)


def check_plain(tensors: Mapping[str, Tensor], where: str) -> None:
    """Refuse tensors that are not plain arrays on the CPU, or claim more numbers than are stored for them.

    Raises
    ------
    InputError
        Naming the first of them.
    """
    for name, value in tensors.items():
        if not is_plain(value):
            raise InputError(
                f"The tensor {escaped(name)} is no plain array.",
                where=where,
                hint="Save contiguous tensors of the plain model, on the CPU.",
            )
    check_held(tensors, where)


def is_li(tensors: Mapping[str, Tensor]) -> bool:
    """Tell whether tensors have the names of the published scripts, PDEBench's included."""
    names = _unwrapped(tensors)
    return "conv0.weights1" in names and ("fc0.weight" in names or "p.weight" in names)


def read_li(
    tensors: Mapping[str, Tensor],
    *,
    where: str,
    family: Literal["li", "pdebench"] = "li",
    padding: Padding | None = None,
    normalised: bool = False,
) -> FourierOperator:
    """Build the network of a checkpoint of the published scripts.

    Parameters
    ----------
    tensors
        By name, without the prefix of DataParallel.
    where
        File, for messages.
    padding
        None: as published for this version of the scripts and this number of dimensions.
    normalised
        Whether there is instance normalisation before and after every spectral convolution, as in the Navier-Stokes
        scripts of 2022; it has no weights, hence no trace in the tensors.

    Raises
    ------
    InputError
        Where tensors are missing, contradict each other, or belong to a variant that is not known.
    """
    weights = Weights(_unwrapped(tensors), where)
    axes = weights.dimensions("conv0")
    early = family == "li" and _is_early(tensors, weights, axes)
    if early:
        _check_early(weights, axes, normalised=normalised)
    activation = nn.functional.relu if early else nn.functional.gelu
    (matrix, bias), fields = _lift(weights, axes, early=early)
    count, width = _count(weights), matrix.shape[0]
    blocks = [
        _block(weights, index, axes, width, last=index == count - 1, early=early, normalised=normalised)
        for index in range(count)
    ]
    ends = ("fc1", "fc2") if "fc1.weight" in weights.tensors else ("q.mlp1", "q.mlp2")
    first = weights.matrix(ends[0], (width, None))
    projection = [first, weights.matrix(ends[1], (first[0].shape[0], None))]
    _check_rest(weights, early=early)
    steps = family == "li" and axes == 2 and (normalised or fields == _HISTORY or "bn0.weight" in weights.tensors)
    layout = Layout(
        family=family,
        release=_release(family, axes, early=early, steps=steps, inner="mlp0.mlp1.weight" in weights.tensors),
        fields=fields,
        coordinates="grid",
        padding=_published(family, axes, unpadded=early or steps) if padding is None else padding,
    )
    return FourierOperator(Pointwise([(matrix, bias)], activation), blocks, Pointwise(projection, activation), layout)


def _unwrapped(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # The scripts of 2020 put the network, as `conv1`, into a module that only drops an axis.
    wrapped = bool(tensors) and all(name.startswith("conv1.") for name in tensors)
    return {name.removeprefix("conv1.") if wrapped else name: value for name, value in tensors.items()}


def _is_early(tensors: Mapping[str, Tensor], weights: Weights, axes: int) -> bool:
    """Tell whether a script of 2020 wrote them: wrapped, flat skips on two axes or more, or numbers in pairs."""
    skip = weights.tensors.get("w0.weight")
    flat = axes > 1 and skip is not None and skip.dim() == 3
    pairs = axes == 1 and not weights.tensors["conv0.weights1"].is_complex()
    wrapped = "conv1.fc0.weight" in tensors
    return "fc0.weight" in weights.tensors and (wrapped or flat or pairs)


def _check_early(weights: Weights, axes: int, *, normalised: bool) -> None:
    if normalised:
        raise weights.wrong("The scripts of 2020 know no instance normalisation.", "Leave the normalisation out.")
    if axes == 3:
        raise weights.wrong(
            "The three-dimensional script of 2020 puts coordinates before the fields, with time at (j + 1) / T: that "
            "is not reproduced here.",
            "Train the model again with the script of 2021 or later.",
        )


def _lift(weights: Weights, axes: int, *, early: bool) -> tuple[tuple[Tensor, Tensor | None], int]:
    """Return the lift, for coordinates of the unit cube in the order of the axes, and the number of fields."""
    matrix, bias = weights.matrix("fc0" if "fc0.weight" in weights.tensors else "p", (None, None))
    fields = matrix.shape[1] - axes
    if fields < 1:
        raise weights.wrong(f"The lift takes {fields + axes} channels: not enough for a field and {axes} coordinates.")
    coordinates = matrix[:, fields:]
    if early and axes == 1:
        # The Burgers script let its coordinate run from 0 to 2 pi; here it runs over the unit interval.
        coordinates = coordinates * 2 * math.pi
    elif early and fields == 1:
        # The Darcy script made its grid with numpy.meshgrid, whose first coordinate runs along the last axis.
        coordinates = coordinates.flip(1)
    return (torch.cat([matrix[:, :fields], coordinates], dim=1), bias), fields


def _count(weights: Weights) -> int:
    numbers = {int(found[1]) for name in weights.tensors if (found := re.fullmatch(r"conv(\d{1,4})\.weights1", name))}
    if numbers != set(range(len(numbers))):
        raise weights.wrong(f"The spectral convolutions {sorted(numbers)} are not numbered without gaps from 0.")
    return len(numbers)


def _block(weights: Weights, index: int, axes: int, width: int, *, last: bool, early: bool, normalised: bool) -> Block:
    spectral = weights.spectral(f"conv{index}", axes, width)
    skip, bias = weights.matrix(f"w{index}", (width, width))
    activation = nn.functional.relu if early else nn.functional.gelu
    inner = None
    if f"mlp{index}.mlp1.weight" in weights.tensors:
        first = weights.matrix(f"mlp{index}.mlp1", (width, None))
        inner = Pointwise([first, weights.matrix(f"mlp{index}.mlp2", (first[0].shape[0], width))], activation)
    if early and f"bn{index}.weight" in weights.tensors and not weights.tensors["conv0.weights1"].is_complex():
        # The scripts with complex weights kept these layers but called them no more.
        scale, shift = _folded(weights, f"bn{index}", width)
        across = scale.view(1, -1, *[1] * axes)
        spectral = SpectralConv(spectral.weight.detach() * across, spectral.frequencies)
        skip, bias = skip * scale[:, None], shift if bias is None else bias * scale + shift
    norms = (Norm(width), Norm(width), None) if normalised else (None, None, None)
    shape = BlockShape(activated=not last)
    return Block(spectral, Pointwise([(skip, bias)], activation), shape, activation, inner=inner, norms=norms)


def _folded(weights: Weights, name: str, width: int) -> tuple[Tensor, Tensor]:
    """Return the scale and the shift of each channel by a batch normalisation in evaluation."""
    keys = ("weight", "bias", "running_mean", "running_var")
    scale, shift, mean, variance = (weights.tensor(f"{name}.{key}") for key in keys)
    if any(tuple(values.shape) != (width,) for values in (scale, shift, mean, variance)) or bool((variance < 0).any()):
        raise weights.wrong(f"{name} holds no mean and variance of {width} channels.")
    scale = scale / torch.sqrt(variance + _BIAS_OF_VARIANCE)
    return scale, shift - mean * scale


def _check_rest(weights: Weights, *, early: bool) -> None:
    # Batch normalisation that was folded is used by now; what is left of it, no script calls.
    folded = early and not weights.tensors["conv0.weights1"].is_complex()
    idle = r"bn\d+\.num_batches_tracked" if folded else r"bn\d+\.\w+"
    rest = [name for name in weights.unused if not re.fullmatch(idle, name)]
    if rest:
        raise weights.wrong(
            f"The checkpoint holds {len(rest)} tensors that the published scripts do not have: {', '.join(rest[:5])}.",
            "It is of a variant whose computation the tensors do not tell; only the published networks are read.",
        )


def _release(family: str, axes: int, *, early: bool, steps: bool, inner: bool) -> str:
    if family == "pdebench":
        return f"FNO{axes}d"
    year = "2020, ReLU" if early else "2022, a perceptron in every block" if inner else "2021"
    return f"scripts of {year}{', Navier-Stokes' if steps else ''}"


def _published(family: str, axes: int, *, unpadded: bool) -> Padding:
    """Return the padding of the published code, in cells at the far end of the axes.

    neuraloperator's fourier_1d.py, fourier_2d.py, fourier_2d_time.py and fourier_3d.py, PDEBench's fno.py: problems
    taken as periodic (Burgers, Navier-Stokes) have none in the former; in three dimensions time alone is padded.
    """
    far = {"li": {2: (9, 9), 3: (0, 0, 6)}, "pdebench": {1: (2,), 2: (2, 2), 3: (0, 0, 6)}}[family]
    return Padding() if unpadded else Padding(amounts=far.get(axes, ()))
