"""Bounds of the spectral norm of a convolution or a matrix.

Three kinds, never to be mixed up: `exact` and `gram` are upper bounds that may back a certificate,
`lower` is reached by a vector that was found, and proves only that no smaller bound can hold.

A convolution that is periodic is block-diagonal in frequency: its norm is the largest singular value of
the small matrices of its symbol. One with zero padding is part of a periodic one on a larger grid.
A transposed convolution is measured as the convolution that it is the adjoint of: both have one norm.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from probes.classifiers.linear_operators import Convolution, Dense, Operator, Pair, Transposed, convolution_of

Kind = Literal["exact", "gram"]

UP = 1 + 1e-9
"""Factor on every upper bound, a thousand times what rounding in float64 can take off it."""
DOWN = 1 - 1e-9
"""Factor on every lower bound."""
EXACT_UP_TO = 2048
"""Smaller side of a frequency's matrix up to which its eigenvalues are computed.

Measured on one core in complex128: 0.46 s against 1.4 s for seven Gram iterations at side 1024, 3.2 s
against 11 s at 2048. Products of matrices spread over cores and eigenvalues hardly do, so that beyond it
the iteration is the cheaper one from about four cores on.
"""
ITERATIONS = 7
"""Gram iterations: the bound is then at most r^(1/256) times the norm for rank r, 2.8 % above it for 1024."""
STEPS = 600
"""Steps of the power iteration, unless it converges before."""
_STILL = 1e-12
CHUNK = 2**22
"""Complex numbers of the symbol held at once, 64 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """Bounds of a layer's spectral norm: `lower` <= norm <= `value`; `grid` is that of the symbol.

    Parameters
    ----------
    kind
        How the norm of the symbol was computed: by eigenvalues, or bounded by Gram iteration.
    tight
        Whether `value` is the layer's norm itself, up to rounding, and not only a bound of it.
    """

    value: float
    kind: Kind
    tight: bool
    lower: float
    grid: Pair
    seconds: float


def measure(
    operator: Operator,
    *,
    steps: int = STEPS,
    iterations: int = ITERATIONS,
    kind: Kind | None = None,
    chunk: int = CHUNK,
) -> Norm:
    """Bound the spectral norm of a layer from above and from below, in float64 on the CPU.

    Parameters
    ----------
    steps
        Most steps of the power iteration behind `lower`.
    iterations
        Gram iterations, where they are used.
    kind
        "exact" for eigenvalues, "gram" for Gram iteration; None chooses by size, see `EXACT_UP_TO`.
    chunk
        Complex numbers of the symbol that are held at once.
    """
    begun = time.perf_counter()
    held = _in_double(operator)
    if isinstance(held, Dense):
        grid, sides = (1, 1), tuple(held.weight.shape)
        batches = iter((held.weight[None],))
    else:
        grid, stride = symbol_grid(held)
        sides = block_sides(held, stride)
        batches = symbol(held, grid, stride, chunk=chunk)
    chosen: Kind = kind or ("exact" if min(sides) <= EXACT_UP_TO else "gram")
    value = max(
        largest_singular_value(batch) if chosen == "exact" else gram_bound(batch, iterations) for batch in batches
    )
    lower = power_lower(held, steps)
    return Norm(
        value=value * UP,
        kind=chosen,
        tight=chosen == "exact" and has_own_symbol(held),
        lower=lower,
        grid=grid,
        seconds=time.perf_counter() - begun,
    )


def has_own_symbol(operator: Operator) -> bool:
    """Tell whether the norm is exact rather than that of a larger operator: for any matrix, and some convolutions."""
    convolution = convolution_of(operator)
    return convolution is None or convolution.has_own_symbol


def symbol_grid(convolution: Convolution) -> tuple[Pair, Pair]:
    """Return the periodic grid whose norm bounds the convolution's, and the strides on it.

    With input size n, dilated kernel size k and stride s, per axis:

    - k = 1: a grid of one point, as frequencies do not differ; striding only leaves rows out;
    - k <= s: one window, since none overlaps another, N = s;
    - circular padding: N = n, which is the operator itself where s divides n and the padding gives n / s outputs;
      where it gives fewer, rows are left out, and where s does not divide n, all rows are kept (stride 1): then it
      is a bound;
    - zeros: N = n + k - 1 rounded up to a multiple of s. No window then overlaps the input from two sides,
      so that the operator is a part (some rows and columns) of the periodic one.

    Examples
    --------
    >>> symbol_grid(Convolution(weight=torch.zeros(4, 3, 3, 3), size=(32, 28), stride=(1, 2), padding=(1,) * 4))
    ((34, 30), (1, 2))
    """
    axes = [
        _axis(size, reach, stride, convolution.circular)
        for size, reach, stride in zip(convolution.size, convolution.reach, convolution.stride, strict=True)
    ]
    (height, down), (width, across) = axes
    return (height, width), (down, across)


def _axis(size: int, reach: int, stride: int, circular: bool) -> Pair:
    if reach == 1:
        return 1, 1
    if circular:
        return size, stride if size % stride == 0 else 1
    if reach <= stride:
        return stride, stride
    return -(-(size + reach - 1) // stride) * stride, stride


def block_sides(convolution: Convolution, stride: Pair) -> Pair:
    """Return outputs and inputs of the matrix at one frequency of one group: c_out/g and s_h s_w c_in/g."""
    outputs, inputs = convolution.weight.shape[:2]
    return outputs // convolution.groups, inputs * stride[0] * stride[1]


def symbol(convolution: Convolution, grid: Pair, stride: Pair, *, chunk: int = CHUNK) -> Iterator[Tensor]:
    """Yield the matrices whose largest singular value is the norm of the periodic operator, batch by batch.

    On a grid of N points, the kernel w has the symbol A(f) = sum_j w_j exp(-2 pi i f d j / N), with d the
    dilation; a kernel larger than the grid wraps around and adds up. Stride s keeps each s-th output, which
    adds up the s frequencies f + l N/s: per axis, the output at f < N/s is

        y(f) = (1/s) sum_l A(f + l N/s) x(f + l N/s).

    The N/s-point transform of y and the N-point transform of x have norms sqrt(N/s) |y| and sqrt(N) |x|.
    So the operator has the norm of the matrices [A(f) ... A(f + (s-1) N/s)] / sqrt(s), side by side; with
    stride s on both axes they are divided by s. Real weights give the same norms at f and -f: half of the
    frequencies suffice. The transform is computed from the few taps alone, so any part of it can be computed alone.

    Parameters
    ----------
    chunk
        Complex numbers that are held at once, at most, beside a single frequency.

    Yields
    ------
    Tensor
        (frequencies, groups, c_out/groups, s_h s_w c_in/groups), complex128.
    """
    outputs, inputs, *taps = convolution.weight.shape
    groups = convolution.groups
    # (groups, c_out/groups, c_in/groups, height, width): each group maps its own channels.
    weight = convolution.weight.reshape(groups, outputs // groups, inputs, *taps).to(torch.complex128)
    rows = _waves(grid[0], stride[0], taps[0], convolution.dilation[0])
    columns = _waves(grid[1], stride[1], taps[1], convolution.dilation[1])
    columns = columns[: columns.shape[0] // 2 + 1]
    scale = 1 / math.sqrt(stride[0] * stride[1])
    numbers = weight[..., 0, 0].numel() * stride[0] * stride[1]
    many = max(1, chunk // max(1, numbers * len(columns)))
    few = max(1, chunk // numbers)
    for some_rows in rows.split(many):
        for some_columns in columns.split(len(columns) if many > 1 else few):
            along = torch.einsum("goihw,flh->gfloiw", weight, some_rows)
            blocks = torch.einsum("gfloiw,emw->fegolmi", along, some_columns)
            yield scale * blocks.reshape(-1, groups, outputs // groups, inputs * stride[0] * stride[1])


def _waves(points: int, stride: int, taps: int, dilation: int) -> Tensor:
    """Return exp(-2 pi i (f + l N/s) d j / N) as (f, l, j)."""
    coarse = points // stride
    frequencies = torch.arange(coarse)[:, None] + coarse * torch.arange(stride)
    # Whole turns are taken off in integers, where nothing is lost.
    turns = (frequencies[..., None] * (dilation * torch.arange(taps))) % points
    angles = turns.double() * (-2 * math.pi / points)
    return torch.polar(torch.ones_like(angles), angles)


def largest_singular_value(matrices: Tensor) -> float:
    """Return the largest singular value of a batch, as the root of the largest eigenvalue of A A^H or A^H A.

    Squaring loses digits of small singular values only; the largest keeps its relative error of about 1e-15.
    """
    eigenvalues = torch.linalg.eigvalsh(_small_gram(matrices))
    return math.sqrt(max(float(eigenvalues[..., -1].max()), 0.0))


def gram_bound(matrices: Tensor, iterations: int = ITERATIONS) -> float:
    """Return a bound of the largest singular value of a batch from above, by Gram iteration.

    With G_1 the smaller of A A^H and A^H A and G_(i+1) = G_i G_i^H, the bound after t iterations is
    |G_t|_F^(1/2^t), a Schatten norm of A of order 2^(t+1): never below the norm, at most r^(1/2^(t+1))
    times it for rank r. Each product is divided by its Frobenius norm first, whose logarithm is carried
    along, so that nothing overflows (Delattre and others 2023).

    Examples
    --------
    >>> bound = gram_bound(torch.diag(torch.tensor([3.0, 2.0], dtype=torch.float64))[None])
    >>> 3.0 <= bound < 3.0 + 1e-8
    True
    """
    grams = _small_gram(matrices)
    logarithm = torch.zeros(grams.shape[:-2], dtype=torch.float64)
    for _ in range(iterations - 1):
        # A matrix of zeros stays one, and its bound becomes exp(-inf) = 0.
        size = torch.linalg.matrix_norm(grams).clamp_min(torch.finfo(torch.float64).tiny)
        scaled = grams / size[..., None, None]
        # The product squares whatever was divided out so far, so its logarithm doubles.
        logarithm = 2 * (logarithm + size.log())
        grams = scaled @ scaled.mH
    bounds = (torch.linalg.matrix_norm(grams).log() + logarithm) / 2**iterations
    return math.exp(float(bounds.max())) * UP


def _small_gram(matrices: Tensor) -> Tensor:
    flat = matrices.shape[-2] <= matrices.shape[-1]
    return matrices @ matrices.mH if flat else matrices.mH @ matrices


def power_lower(operator: Operator, steps: int = STEPS) -> float:
    """Return a lower bound of the norm of the operator as it is executed, zero padding and stride included.

    Power iteration on A^T A from a fixed random vector v: |A v| / |v| never exceeds the norm. It proves
    nothing from above, however many steps it takes. It ends where a step gains less than 1e-12 of it.
    """
    held = _in_double(operator)
    source = torch.Generator().manual_seed(0)
    if isinstance(held, Dense):
        shape: tuple[int, ...] = (held.weight.shape[1],)
    else:
        shape = (1, held.weight.shape[1] * held.groups, *held.size)
    vector = torch.randn(shape, generator=source, dtype=torch.float64)
    best = 0.0
    for _ in range(max(steps, 1)):
        vector = vector / torch.linalg.vector_norm(vector)
        image = held.apply(vector)
        reached = float(torch.linalg.vector_norm(image))
        # An operator of zeros ends here too, before its image is divided by its length.
        if reached <= best * (1 + _STILL):
            break
        best = reached
        vector = held.apply_adjoint(image)
    return best * DOWN


def _in_double(operator: Operator) -> Convolution | Dense:
    """Return the convolution or the matrix that is measured, in float64 on the CPU."""
    held = operator.convolution if isinstance(operator, Transposed) else operator
    return replace(held, weight=held.weight.detach().to("cpu", torch.float64))
