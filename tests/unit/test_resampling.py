"""Does resampling give back what every wave that the grid can hold is on the other grid?"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from rounding import transform_error
from torch import Tensor

from probes.operators.fno.layers import GridKind, Padding, Pointwise, SpectralConv
from probes.operators.fno.network import Block, BlockShape, FourierOperator, Layout
from probes.operators.resampling import METHODS, Method, suitable, upsample

pytestmark = pytest.mark.numerical

SIZES = (8, 9, 16, 31)
PAIRS = [(kind, method) for kind, methods in METHODS.items() for method in methods]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


def nodes(kind: GridKind, size: int) -> Tensor:
    places = torch.arange(size, dtype=torch.float64)
    return {"open": places / size, "closed": places / (size - 1), "cell": (places + 0.5) / size}[kind]


def line(values: Tensor, size: int, kind: GridKind, method: Method) -> Tensor:
    return upsample(values[None, None], [size], kind, method)[0, 0]


def distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def zero_padded(values: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Fill a whole spectrum with the coefficients of a grid, halves of the highest ones on both sides."""
    hat = np.fft.fftn(values.numpy(), norm="forward")
    spectrum = np.zeros(sizes, dtype=complex)
    for index in itertools.product(*map(range, hat.shape)):
        choices = []
        for k, old, new in zip(index, hat.shape, sizes, strict=True):
            signed = k if k <= old // 2 else k - old
            split = 2 * k == old and new > old
            choices.append([(signed, 0.5), (-signed, 0.5)] if split else [(signed, 1.0)])
        for choice in itertools.product(*choices):
            spectrum[tuple(k for k, _ in choice)] += hat[index] * math.prod(weight for _, weight in choice)
    result = np.fft.ifftn(spectrum, norm="forward")
    assert abs(result.imag).max() < transform_error(result.size)
    return torch.from_numpy(result.real)


@pytest.mark.parametrize("size", SIZES)
def test_zero_padding_has_its_properties(size: int) -> None:
    values = noise(size, seed=size)
    for factor in (1, 2, 3):
        fine = line(values, factor * size, "open", "fourier")
        assert distance(fine[::factor], values) < transform_error(len(fine))
        assert distance(fine.mean(), values.mean()) < transform_error(len(fine))
    for finer in range(size, 3 * size, 5):
        fine = line(values, finer, "open", "fourier")
        assert distance(fine, zero_padded(values, (finer,))) < transform_error(finer)


@pytest.mark.parametrize(
    ("old", "new"), [((8, 9), (16, 31)), ((9, 8), (9, 12)), ((4, 5, 6), (7, 10, 9)), ((1, 4), (3, 4)), ((31,), (32,))]
)
def test_zero_padding_in_more_dimensions(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    values = noise(2, 3, *old)
    fine = upsample(values, new, "open", "fourier")
    for sample, channel in itertools.product(range(2), range(3)):
        expected = zero_padded(values[sample, channel], new)
        assert distance(fine[sample, channel], expected) < transform_error(math.prod(new))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("kind", "period"), [("open", 0), ("cell", 0), ("closed", 1)])
def test_periodic_waves_below_the_limit_are_exact(kind: GridKind, period: int, size: int) -> None:
    method: Method = "wrap" if period else "fourier"
    for finer in (size, size + 1, 2 * size, 3 * size - 2):
        for wave in range((size - period + 1) // 2):
            for phase in (0.0, 1.0):
                a, b = (torch.cos(2 * math.pi * wave * nodes(kind, n) + phase) for n in (size, finer))
                assert distance(line(a, finer, kind, method), b) < transform_error(2 * finer, condition=max(wave, 1))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("kind", "method"), [("closed", "sine"), ("closed", "even"), ("cell", "even")])
def test_mirrored_waves_are_exact(kind: GridKind, method: Method, size: int) -> None:
    wave_of = torch.sin if method == "sine" else torch.cos
    # All of them: as many as the grid has nodes that are free, so that this is the whole matrix.
    first, last = (1, size - 2) if method == "sine" else (0, size - 1)
    for finer, wave in itertools.product((size, size + 1, 2 * size - 1, 3 * size), range(first, last + 1)):
        a, b = (wave_of(math.pi * wave * nodes(kind, n)) for n in (size, finer))
        assert distance(line(a, finer, kind, method), b) < transform_error(2 * finer, condition=max(wave, 1))


@pytest.mark.parametrize(("kind", "method"), PAIRS)
def test_coarser_grids_get_the_waves_they_can_hold(kind: GridKind, method: Method) -> None:
    if (kind, method) == ("closed", "fourier"):
        nodes_of = {size: torch.arange(size, dtype=torch.float64) / size for size in (9, 10, 25)}
    else:
        nodes_of = {size: nodes(kind, size) for size in (9, 10, 25)}
    unit = 1 if method in ("even", "sine") else 2
    wave_of = torch.sin if method == "sine" else torch.cos
    for coarse, wave in itertools.product((9, 10), range(1, 12)):
        a, b = (wave_of(math.pi * unit * wave * nodes_of[size]) for size in (25, coarse))
        # Waves of the period: the domain, less its last node where it wraps; twice the domain where it is mirrored.
        ends = kind == "closed" and method != "fourier"
        period = 2 * (coarse - ends) if unit == 1 else coarse - ends
        kept = wave < period / 2
        found = line(a, coarse, kind, method)
        assert distance(found, b if kept else 0 * b) < transform_error(50, condition=unit * wave)


def test_mirrored_data_stay_at_common_nodes() -> None:
    values = noise(9)
    assert distance(line(values, 17, "closed", "even")[::2], values) < transform_error(32)
    assert distance(line(values, 17, "closed", "sine")[::2], values) < transform_error(32)
    assert distance(line(values, 27, "cell", "even")[1::3], values) < transform_error(54)
    wrapped = torch.cat([values, values[:1]])
    assert distance(line(wrapped, 28, "closed", "wrap")[::3], wrapped) < transform_error(27)


def test_sine_keeps_ends_that_are_not_quite_zero() -> None:
    values = torch.sin(math.pi * torch.linspace(0, 1, 9, dtype=torch.float64))
    values[[0, -1]] = torch.tensor([0.01, -0.02], dtype=torch.float64)
    fine = line(values, 33, "closed", "sine")
    assert distance(fine[[0, -1]], values[[0, -1]]) < transform_error(64)
    # What the ends hold stays near them: the middle is that of the sine.
    assert abs(float(fine[16]) - 1) < 0.01


@pytest.mark.parametrize("size", (17, 33, 20, 5))
def test_sine_takes_the_line_through_the_ends_off_first(size: int) -> None:
    def field(places: Tensor) -> Tensor:
        return 0.7 - 1.3 * places + torch.sin(math.pi * places) + 0.2 * torch.sin(3 * math.pi * places)

    a, b = (field(nodes("closed", n)) for n in (9, size))
    assert distance(line(a, size, "closed", "sine"), b) < 1e-14


def test_zero_padding_of_a_closed_grid_is_misaligned() -> None:
    a, b = (torch.sin(math.pi * nodes("closed", size)) for size in (17, 33))
    plain, sine = line(a, 33, "closed", "fourier"), line(a, 33, "closed", "sine")
    assert distance(plain, line(a, 33, "open", "fourier")) < transform_error(33)
    assert distance(sine, b) < transform_error(64) < 0.02 < distance(plain, b)


@pytest.mark.parametrize(("kind", "method"), PAIRS)
@pytest.mark.parametrize("sizes", [(12,), (7, 12), (5, 9, 8)])
def test_transforms_and_matrices_agree(kind: GridKind, method: Method, sizes: tuple[int, ...]) -> None:
    values = noise(2, 3, *(8, 9, 6)[: len(sizes)])
    by_matrix = upsample(values, sizes, kind, method)
    assert by_matrix.shape == (2, 3, *sizes)
    assert distance(by_matrix, upsample(values, sizes, kind, method, matrix_up_to=0)) < transform_error(
        2 * math.prod(sizes)
    )


@pytest.mark.parametrize(("kind", "method"), PAIRS)
def test_the_precision_is_that_of_the_field(kind: GridKind, method: Method) -> None:
    values = noise(1, 2, 9, 8)
    single = upsample(values.float(), (33, 20), kind, method)
    assert single.dtype == torch.float32
    assert distance(single.double(), upsample(values, (33, 20), kind, method)) < 2e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([8], "open", "sine"), "'sine' is no method for a grid that is open: fourier are"),
        (([8], "open", "even"), "'even' is no method"),
        (([8], "cell", "wrap"), "'wrap' is no method"),
        (([8], "closed", "bicubic"), "'bicubic' is no method"),
        (([8, 8], "open", "fourier"), "2 sizes for a field of 1 axes"),
        (([1], "closed", "even"), "an axis of 1 nodes: a grid that is closed has at least 2"),
        (([0], "open", "fourier"), "an axis of 0 nodes"),
    ],
)
def test_what_cannot_be_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        upsample(torch.ones(1, 1, 4), *arguments)


def waves(kind: GridKind, sizes: tuple[int, int] = (17, 13)) -> tuple[Tensor, Tensor]:
    x, y = torch.meshgrid(*(nodes(kind, size) for size in sizes), indexing="ij")
    return x[None, None], y[None, None]


def test_the_method_follows_the_boundary() -> None:
    x, y = waves("closed")
    zero = torch.sin(math.pi * x) * torch.sin(3 * math.pi * y)
    periodic = 1 + torch.cos(2 * math.pi * x) * torch.sin(2 * math.pi * y)
    cases: list[tuple[Tensor, Method]] = [
        (zero, "sine"),
        (zero + 4e-4, "sine"),
        (zero + 2e-3, "wrap"),
        (zero + 2e-3 * x, "even"),
        (periodic, "wrap"),
        (periodic + 0.1 * x, "even"),
        (periodic + 0.1 * y, "even"),
        (torch.cat([zero, periodic], dim=1), "wrap"),
        (torch.cat([1e5 * zero, 1 + x], dim=1), "even"),
        (zero + 0.1 * torch.sin(math.pi * y) * (x == 1), "even"),
        (torch.zeros_like(zero), "sine"),
        (zero.float(), "sine"),
    ]
    assert [suitable(values, "closed") for values, _ in cases] == [method for _, method in cases]
    assert suitable(zero, "open") == "fourier" and suitable(zero, "cell") == "even"


def test_a_linear_network_is_the_same_on_every_grid() -> None:
    source = torch.Generator().manual_seed(3)

    def weight(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=source) / 2

    frequencies = ([0, 1, 2, 3, -3, -2, -1], [0, 1, 2, 3])
    blocks = [
        Block(
            SpectralConv(torch.complex(weight(4, 4, 7, 4), weight(4, 4, 7, 4)), frequencies),
            Pointwise([(weight(4, 4), weight(4))], torch.nn.Identity()),
            BlockShape(activated=True),
            torch.nn.Identity(),
        )
        for _ in range(2)
    ]
    ends = [Pointwise([(weight(out, into), weight(out))], torch.nn.Identity()) for out, into in ((4, 1), (1, 4))]
    layout = Layout(family="li", release="", fields=1, coordinates="none", padding=Padding())
    network = FourierOperator(ends[0], blocks, ends[1], layout)
    coarse = upsample(noise(3, 1, 9, 11).float(), (16, 17), "open", "fourier")
    with torch.no_grad():
        output = network(coarse)
        for sizes in ((32, 34), (33, 31), (20, 64)):
            raised = upsample(output, sizes, "open", "fourier")
            direct = network(upsample(coarse, sizes, "open", "fourier"))
            assert torch.linalg.vector_norm(direct - raised) < 1e-5 * torch.linalg.vector_norm(raised)
