"""Proven l2 Lipschitz constants of single operations of a network.

Layers with weights come back as linear operators, to be measured. An operation that is not listed, or an
option of one that no proof here covers, has no constant.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from probes.classifiers.linear_operators import Convolution, Dense, Operator, Transposed

Size = tuple[int, ...]
Constant = float | Operator | None
"""A proven constant, an operator whose norm is one, or None where neither is known."""

GELU = 1.1289043
"""Largest slope of x Phi(x), rounded up. The slope Phi(x) + x phi(x) is stationary where (2 - x^2) phi(x) = 0; at
x = sqrt(2) it is 1.12890413, at -sqrt(2) it is -0.129, and it tends to 1 and 0."""


OWN_SPREAD = (nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d, nn.RMSNorm)
"""Layers that divide by the spread of what they are given, so that their slope grows where there is little of it."""

LINEAR = frozenset((
    nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Flatten, nn.ZeroPad2d, nn.ConstantPad2d, nn.Conv2d,
    nn.ConvTranspose2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d,
))  # fmt: skip
"""Layers that are linear in evaluation mode, but for a constant that they add."""


def of_module(part: nn.Module, kind: type[nn.Module], before: Size, after: Size) -> Constant:
    """Return the constant of a module of exactly the type `kind`, for one input size and its output size."""
    rule = _RULES.get(kind)
    return rule(part, before, after) if rule else None


def as_module(function: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> nn.Module | None:
    """Return the module equal to a call of a function, without its tensor; None where there is none."""
    maker = _FUNCTIONS.get(function)
    try:
        return maker(*args, **kwargs) if maker else None
    except TypeError:
        # The call has an argument that the rule does not know, so the rule does not hold for it.
        return None


def of_scaling(factors: Any) -> float:
    """Return the constant of multiplying by a number, or by a tensor of numbers element by element.

    Examples
    --------
    >>> of_scaling(-2), of_scaling(torch.tensor([0.5, -3.0]))
    (2.0, 3.0)
    """
    return float(torch.as_tensor(factors, dtype=torch.float64).abs().max())


def of_mean(before: Size, after: Size) -> float:
    """Return 1/sqrt(m), the constant of means over m numbers each, none of them shared.

    Examples
    --------
    >>> of_mean((1, 64, 8, 8), (1, 64))
    0.125
    """
    return math.sqrt(math.prod(after) / math.prod(before))


def _one(part: nn.Module, before: Size, after: Size) -> Constant:
    return 1.0


def _conv(part: Any, before: Size, after: Size) -> Constant:
    if part.padding_mode not in ("zeros", "circular"):
        return None
    (top, bottom), (left, right) = _sides(part)
    # Without padding nothing is repeated: as with zeros, the kernel stays inside the picture.
    circular = part.padding_mode == "circular" and (top, bottom, left, right) != (0, 0, 0, 0)
    try:
        return Convolution(
            weight=part.weight,
            size=(before[-2], before[-1]),
            stride=part.stride,
            padding=(top, bottom, left, right),
            dilation=part.dilation,
            groups=part.groups,
            circular=circular,
        )
    except ValueError:
        return None


def _conv_transpose(part: Any, before: Size, after: Size) -> Constant:
    """Return the adjoint of the convolution that goes from the output to the input, with the weights as they are.

    Per axis n inputs give (n - 1) s - 2 p + d (k - 1) + 1 + extra outputs, the extra ones from `output_padding` or from
    the output size of the call. They lie below the last window where p is less than them, and are zero there.
    """
    axes = [
        _from_transposed(*axis)
        for axis in zip(
            before[-2:], after[-2:], part.kernel_size, part.stride, part.padding, part.dilation, strict=True
        )
    ]
    (height, top, bottom), (width, left, right) = axes
    # One cell alone has no neighbour that its window could overlap, whatever the stride.
    strides = [
        max(stride, dilation * (taps - 1) + 1) if inputs == 1 else stride
        for inputs, stride, dilation, taps in zip(
            before[-2:], part.stride, part.dilation, part.kernel_size, strict=True
        )
    ]
    if height < 1 or width < 1:
        return 0.0
    convolution = Convolution(
        weight=part.weight,
        size=(height, width),
        stride=(strides[0], strides[1]),
        padding=(top, bottom, left, right),
        dilation=part.dilation,
        groups=part.groups,
    )
    return Transposed(convolution=convolution, size=(before[-2], before[-1]), stride=part.stride)


def _from_transposed(
    inputs: int, outputs: int, taps: int, stride: int, padding: int, dilation: int
) -> tuple[int, int, int]:
    """Return input size and padding before and behind of the convolution that a transposed one is the adjoint of.

    >>> _from_transposed(4, 8, 3, 2, 1, 1), _from_transposed(2, 5, 1, 3, 0, 1)
    ((8, 1, 0), (4, 0, 0))
    """
    whole = (inputs - 1) * stride + dilation * (taps - 1) + 1
    extra = outputs - (whole - 2 * padding)
    return outputs - max(extra - padding, 0), padding, max(padding - extra, 0)


def _sides(part: Any) -> list[tuple[int, int]]:
    if part.padding == "valid":
        return [(0, 0), (0, 0)]
    if part.padding == "same":
        spans = [step * (taps - 1) for step, taps in zip(part.dilation, part.kernel_size, strict=True)]
        return [(span // 2, span - span // 2) for span in spans]
    return [(side, side) for side in part.padding]


def _linear(part: Any, before: Size, after: Size) -> Constant:
    return Dense(weight=part.weight)


def _norm(part: Any, before: Size, after: Size) -> Constant:
    """Return max |gamma| / sqrt(var + eps); without kept statistics a picture's output depends on its batch."""
    if part.running_var is None or part.training:
        return None
    scale = (part.running_var.double() + part.eps).rsqrt()
    return of_scaling(scale if part.weight is None else scale * part.weight.detach().double())


def _by_own_spread(part: Any, before: Size, after: Size) -> Constant:
    """Return max |gamma| / sqrt(eps), which is reached, but for one part in the count, where all numbers are equal.

    With y = (x - mean) / s, s = sqrt(var + eps), over d numbers, the Jacobian is (P - y y^T / d) / s, with P the
    projection that takes the mean off. It shrinks along y, since |y|^2 < d, so that its norm is at most 1 / s and at
    most 1 / sqrt(eps); at var = 0 it is P / sqrt(eps). RMSNorm takes no mean off: there P is the identity. Each row,
    group or channel has its own d numbers, and gamma multiplies what comes out (Kim, Papamakarios and Mnih 2021).
    """
    # Without an eps of its own RMSNorm takes that of the number format in which it is run.
    if part.eps is None or not part.eps > 0 or getattr(part, "running_var", None) is not None:
        return None
    weight = getattr(part, "weight", None)
    return (1.0 if weight is None else of_scaling(weight.detach())) / math.sqrt(part.eps)


def _leaky(part: Any, before: Size, after: Size) -> Constant:
    return max(1.0, abs(float(part.negative_slope)))


def _prelu(part: Any, before: Size, after: Size) -> Constant:
    return max(1.0, of_scaling(part.weight.detach()))


def _elu(part: Any, before: Size, after: Size) -> Constant:
    return max(1.0, abs(float(part.alpha)))


def _softplus(part: Any, before: Size, after: Size) -> Constant:
    """Return the largest slope of log(1 + exp(b x)) / b; PyTorch leaves that curve beyond a threshold, by a jump."""
    return 1.0 if part.beta > 0 and part.threshold >= 20 else None


def _sigmoid(part: nn.Module, before: Size, after: Size) -> Constant:
    return 0.25


def _gelu(part: Any, before: Size, after: Size) -> Constant:
    return GELU if part.approximate == "none" else None


def _max_pool(part: Any, before: Size, after: Size) -> Constant:
    """Return sqrt(w), w the most windows that hold one cell: per axis ceil(k g / s), g = gcd(s, d).

    An output changes by no more than the largest change in its window, so the squared change of all is at most
    the sum over windows of the squared change in each, which counts a cell w times. Taps d apart meet a cell only in
    each s/g-th window.
    """
    if part.return_indices:
        return None
    shared = 1
    for taps, stride, dilation, windows in zip(
        _pair(part.kernel_size), _pair(part.stride), _pair(part.dilation), after[-2:], strict=True
    ):
        shared *= min(-(-taps * math.gcd(stride, dilation) // stride), windows)
    return math.sqrt(shared)


def _average_pool(part: Any, before: Size, after: Size) -> Constant:
    """Return the norm of the pool, the product over its axes: 1/sqrt(k) each where windows do not overlap."""
    if part.divisor_override is not None:
        return None
    norm = 1.0
    # The divisor is a product over the axes, padding counted or not, so that the pool is one axis after the other.
    for size, taps, stride, side in zip(
        before[-2:], _pair(part.kernel_size), _pair(part.stride), _pair(part.padding), strict=True
    ):
        cells = torch.eye(size, dtype=torch.float64)[:, None, None]
        means = functional.avg_pool2d(cells, (1, taps), (1, stride), (0, side), part.ceil_mode, part.count_include_pad)
        norm *= _largest(means)
    return norm


def _adaptive_pool(part: nn.Module, before: Size, after: Size) -> Constant:
    norm = 1.0
    for size, windows in zip(before[-2:], after[-2:], strict=True):
        cells = torch.eye(size, dtype=torch.float64)[:, None, None]
        norm *= _largest(functional.adaptive_avg_pool2d(cells, (1, windows)))
    return norm


def _largest(means: Tensor) -> float:
    return float(torch.linalg.matrix_norm(means[:, 0, 0], ord=2))


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _dropout(p: float = 0.5, training: bool = True, inplace: bool = False) -> nn.Module:
    if training:
        raise TypeError("dropout at work is random")
    return nn.Identity()


_RULES: dict[type[nn.Module], Callable[[Any, Size, Size], Constant]] = {
    **dict.fromkeys(
        (
            nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Flatten, nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh,
            nn.ZeroPad2d, nn.ConstantPad2d,
        ),
        _one,
    ),
    nn.Conv2d: _conv,
    nn.ConvTranspose2d: _conv_transpose,
    nn.Linear: _linear,
    nn.BatchNorm1d: _norm,
    nn.BatchNorm2d: _norm,
    **dict.fromkeys(OWN_SPREAD, _by_own_spread),
    nn.LeakyReLU: _leaky,
    nn.PReLU: _prelu,
    nn.ELU: _elu,
    nn.Softplus: _softplus,
    nn.Sigmoid: _sigmoid,
    nn.GELU: _gelu,
    nn.MaxPool2d: _max_pool,
    nn.AvgPool2d: _average_pool,
    nn.AdaptiveAvgPool2d: _adaptive_pool,
}  # fmt: skip
"""By exact type, in evaluation mode, where dropout does nothing."""

_FUNCTIONS: dict[object, Callable[..., nn.Module]] = {
    **dict.fromkeys((torch.relu, torch.relu_, functional.relu, "relu", "relu_"), nn.ReLU),
    **dict.fromkeys((torch.tanh, functional.tanh, "tanh"), nn.Tanh),
    **dict.fromkeys((torch.sigmoid, functional.sigmoid, "sigmoid"), nn.Sigmoid),
    functional.relu6: nn.ReLU6,
    functional.hardtanh: nn.Hardtanh,
    functional.leaky_relu: nn.LeakyReLU,
    functional.elu: nn.ELU,
    functional.softplus: nn.Softplus,
    functional.gelu: nn.GELU,
    functional.dropout: _dropout,
    functional.max_pool2d: nn.MaxPool2d,
    functional.avg_pool2d: nn.AvgPool2d,
    torch._C._nn.avg_pool2d: nn.AvgPool2d,
    functional.adaptive_avg_pool2d: nn.AdaptiveAvgPool2d,
}
"""Functions, and names of methods, whose arguments after the tensor are those of a module in the same order."""
