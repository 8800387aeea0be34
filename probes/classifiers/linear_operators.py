"""A convolution, a transposed convolution or a matrix, each without its bias, as a linear operator with its adjoint."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convolution:
    """A two-dimensional convolution without its bias, as a linear operator on inputs of one size.

    Parameters
    ----------
    weight
        (out channels, in channels / groups, kernel height, kernel width).
    size
        Height and width of the input.
    padding
        Cells added above, below, left and right.
    circular
        Whether the padding repeats the other side; zeros otherwise.
    """

    weight: Tensor
    size: Pair
    stride: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    circular: bool = False

    def __post_init__(self) -> None:
        top, bottom, left, right = self.padding
        if self.circular and any(
            added >= reach for added, reach in zip((top + bottom, left + right), self.reach, strict=True)
        ):
            raise ValueError("circular padding beyond the kernel repeats outputs, which no symbol accounts for")

    @property
    def has_own_symbol(self) -> bool:
        """Tell whether the norm of the symbol is that of the operator, and not of a larger periodic one."""
        axes = zip(self.size, self.reach, self.stride, (self.padding[:2], self.padding[2:]), strict=True)
        return all(_is_whole(*axis, circular=self.circular) for axis in axes)

    @property
    def reach(self) -> Pair:
        """Height and width that the dilated kernel spans, d (k - 1) + 1."""
        high, wide = (step * (taps - 1) + 1 for step, taps in zip(self.dilation, self.weight.shape[2:], strict=True))
        return high, wide

    def apply(self, x: Tensor) -> Tensor:
        """Apply the operator to x of shape (1, channels, height, width)."""
        return functional.conv2d(
            _padded(x, self), self.weight, stride=self.stride, dilation=self.dilation, groups=self.groups
        )

    def apply_adjoint(self, y: Tensor) -> Tensor:
        """Apply the adjoint: <apply(x), y> = <x, apply_adjoint(y)> for all x and y."""
        top, bottom, left, right = self.padding
        full = (self.size[0] + top + bottom, self.size[1] + left + right)
        # Where strides leave rows out at the far end, the transposed convolution returns too few.
        spare = [
            whole - ((out - 1) * step + reach)
            for whole, out, step, reach in zip(full, y.shape[2:], self.stride, self.reach, strict=True)
        ]
        spread = functional.conv_transpose2d(
            y, self.weight, stride=self.stride, dilation=self.dilation, groups=self.groups
        )
        return _cropped(functional.pad(spread, (0, spare[1], 0, spare[0])), self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dense:
    """A matrix (outputs, inputs) as a linear operator."""

    weight: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Return the matrix times a vector."""
        return self.weight @ x

    def apply_adjoint(self, y: Tensor) -> Tensor:
        """Return the transpose times a vector."""
        return self.weight.T @ y


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transposed:
    """A transposed convolution without its bias: the adjoint of a convolution, whose norm it has.

    Parameters
    ----------
    convolution
        From what the layer gives to what it takes.
    size
        Height and width of the layer's input, which are those of the convolution's output.
    stride
        Strides of the layer; of the convolution too, but where its output has one cell, which no stride moves.
    """

    convolution: Convolution
    size: Pair
    stride: Pair

    def apply(self, x: Tensor) -> Tensor:
        """Apply the operator to x of shape (1, channels, height, width)."""
        return self.convolution.apply_adjoint(x)

    def apply_adjoint(self, y: Tensor) -> Tensor:
        """Apply the adjoint, which is the convolution."""
        return self.convolution.apply(y)


Operator = Convolution | Dense | Transposed


def convolution_of(operator: Operator) -> Convolution | None:
    """Return the convolution that an operator is, or is the adjoint of: either has its norm; None for a matrix."""
    if isinstance(operator, Transposed):
        return operator.convolution
    return operator if isinstance(operator, Convolution) else None


def _is_whole(size: int, reach: int, stride: int, padding: Pair, *, circular: bool) -> bool:
    """Tell whether along one axis the layer equals the periodic one of its symbol.

    On a circle it must have as many outputs as strides fit in. Otherwise no two windows may overlap, and one of them
    must lie inside the input: it alone then has the norm.

    >>> _is_whole(8, 3, 2, (1, 1), circular=True), _is_whole(7, 3, 2, (1, 1), circular=True)
    (True, False)
    >>> _is_whole(7, 2, 2, (1, 1), circular=False), _is_whole(7, 3, 1, (1, 1), circular=False)
    (True, False)
    """
    outputs = (size + sum(padding) - reach) // stride + 1
    if circular and reach > 1:
        return size % stride == 0 and outputs == size // stride
    # The first window that begins inside the input; with windows of one cell there is nothing to overlap.
    first = -(-padding[0] // stride)
    alone = reach == 1 or reach <= stride
    return alone and first < outputs and first * stride - padding[0] + reach <= size


def _padded(x: Tensor, convolution: Convolution) -> Tensor:
    top, bottom, left, right = convolution.padding
    if convolution.circular:
        rows, columns = _wrapped(convolution)
        return x.index_select(2, rows).index_select(3, columns)
    return functional.pad(x, (left, right, top, bottom))


def _cropped(y: Tensor, convolution: Convolution) -> Tensor:
    """Apply the adjoint of `_padded`: cut the zeros off, or add wrapped values to where they came from."""
    height, width = convolution.size
    top, _, left, _ = convolution.padding
    if not convolution.circular:
        return y[:, :, top : top + height, left : left + width]
    rows, columns = _wrapped(convolution)
    folded = y.new_zeros(*y.shape[:2], height, y.shape[3]).index_add(2, rows, y)
    return folded.new_zeros(*folded.shape[:3], width).index_add(3, columns, folded)


def _wrapped(convolution: Convolution) -> tuple[Tensor, Tensor]:
    (height, width), (top, bottom, left, right) = convolution.size, convolution.padding
    return torch.arange(-top, height + bottom) % height, torch.arange(-left, width + right) % width
