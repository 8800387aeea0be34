"""Are the norms those of the matrices that the layers are? Against dense matrices, filled tap by tap."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from probes.classifiers.linear_operators import Convolution, Dense
from probes.classifiers.spectral_norm import (
    DOWN,
    UP,
    gram_bound,
    largest_singular_value,
    measure,
    power_lower,
    symbol,
    symbol_grid,
)

pytestmark = pytest.mark.numerical


def weights(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense(conv: Convolution) -> Tensor:
    """Return the operator's matrix, each tap put into its place by plain loops."""
    outputs, inputs, high, wide = conv.weight.shape
    (height, width), (top, bottom, left, right) = conv.size, conv.padding
    rows = (height + top + bottom - conv.reach[0]) // conv.stride[0] + 1
    columns = (width + left + right - conv.reach[1]) // conv.stride[1] + 1
    matrix = torch.zeros(outputs, rows, columns, inputs * conv.groups, height, width, dtype=torch.float64)
    share = outputs // conv.groups
    for o, i, a, b, r, c in itertools.product(*map(range, (outputs, inputs, high, wide, rows, columns))):
        y = conv.stride[0] * r + conv.dilation[0] * a - top
        x = conv.stride[1] * c + conv.dilation[1] * b - left
        inside = 0 <= y < height and 0 <= x < width
        if conv.circular or inside:
            matrix[o, r, c, o // share * inputs + i, y % height, x % width] += conv.weight[o, i, a, b]
    return matrix.reshape(outputs * rows * columns, -1)


def norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=2))


def circular(weight: Tensor, size: tuple[int, int], **geometry: Any) -> Convolution:
    dilation = geometry.get("dilation", (1, 1))
    high, wide = (d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True))
    padding = (high // 2, high - high // 2, wide // 2, wide - wide // 2)
    return Convolution(weight=weight, size=size, padding=padding, circular=True, **geometry)


KERNELS = ((1, 1), (3, 3), (2, 3), (5, 1))
STRIDES = ((1, 1), (2, 2), (1, 2))
DILATIONS = ((1, 1), (2, 1))
GROUPS = (1, 2)
GEOMETRIES = list(itertools.product(KERNELS, STRIDES, DILATIONS, GROUPS))


@pytest.mark.parametrize(("kernel", "stride", "dilation", "groups"), GEOMETRIES)
def test_a_periodic_convolution_has_the_norm_of_its_matrix(
    kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], groups: int
) -> None:
    weight = weights(4, 4 // groups, *kernel)
    conv = circular(weight, (6, 4), stride=stride, dilation=dilation, groups=groups)
    found = measure(conv, kind="exact")
    assert found.value == pytest.approx(norm(dense(conv)) * UP, rel=1e-10)
    assert found.lower == pytest.approx(norm(dense(conv)) * DOWN, rel=1e-5) and found.kind == "exact"
    assert found.tight


@pytest.mark.parametrize(("kernel", "stride", "dilation", "groups"), GEOMETRIES)
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 0, 1)])
def test_zero_padding_is_bounded_from_both_sides(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    padding: tuple[int, int, int, int],
) -> None:
    weight = weights(4, 4 // groups, *kernel)
    size = (9, 5)
    conv = Convolution(weight=weight, size=size, stride=stride, padding=padding, dilation=dilation, groups=groups)
    found, truth = measure(conv, kind="exact"), norm(dense(conv))
    assert found.lower <= truth <= found.value
    assert found.lower == pytest.approx(truth, rel=5e-3)
    # The frequencies of a finite grid cannot be far above what an input of the grid's size attains.
    assert found.value <= 1.6 * truth


geometry = st.fixed_dictionaries(
    {
        "channels": st.tuples(st.integers(1, 2), st.integers(1, 2)),
        "groups": st.integers(1, 2),
        "kernel": st.tuples(st.integers(1, 4), st.integers(1, 4)),
        "size": st.tuples(st.integers(4, 7), st.integers(4, 7)),
        "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "dilation": st.tuples(st.integers(1, 2), st.integers(1, 2)),
        "padding": st.tuples(*[st.integers(2, 4)] * 4),
        "seed": st.integers(0, 1000),
    }
)


@settings(max_examples=30, deadline=None)
@given(geometry)
def test_no_geometry_breaks_the_bounds(drawn: dict[str, Any]) -> None:
    outputs, inputs = drawn.pop("channels")
    weight = weights(outputs * drawn["groups"], inputs, *drawn.pop("kernel"), seed=drawn.pop("seed"))
    conv = Convolution(weight=weight, **drawn)
    truth = norm(dense(conv))
    for kind in ("exact", "gram"):
        found = measure(conv, kind=kind, steps=50)
        assert found.lower <= truth <= found.value
        assert not found.tight or (kind == "exact" and found.value == pytest.approx(truth, rel=1e-7))


@settings(max_examples=20, deadline=None)
@given(geometry)
def test_operator_and_adjoint_are_the_matrix_and_its_transpose(drawn: dict[str, Any]) -> None:
    outputs, inputs = drawn.pop("channels")
    weight = weights(outputs * drawn["groups"], inputs, *drawn.pop("kernel"), seed=drawn.pop("seed"))
    del drawn["padding"]
    for conv in (Convolution(weight=weight, padding=(4, 3, 2, 4), **drawn), circular(weight, **drawn)):
        matrix = dense(conv)
        x = weights(1, weight.shape[1] * conv.groups, *conv.size, seed=7)
        y = conv.apply(x)
        torch.testing.assert_close(y.flatten(), matrix @ x.flatten())
        image = weights(*y.shape, seed=8)
        torch.testing.assert_close(conv.apply_adjoint(image).flatten(), matrix.T @ image.flatten())


def test_a_kernel_larger_than_the_grid_wraps_and_is_not_cropped() -> None:
    conv = Convolution(weight=weights(2, 2, 5, 5), size=(3, 3), padding=(2, 2, 2, 2), circular=True)
    assert measure(conv).value == pytest.approx(norm(dense(conv)) * UP, rel=1e-10)


def test_circular_outputs_that_repeat_are_refused() -> None:
    with pytest.raises(ValueError, match="repeats outputs"):
        Convolution(weight=weights(1, 1, 3, 3), size=(6, 6), padding=(2, 1, 1, 1), circular=True)


def test_a_stride_that_does_not_divide_a_circle_is_still_bounded() -> None:
    conv = circular(weights(2, 2, 3, 3), (5, 7), stride=(2, 3))
    found = measure(conv)
    assert found.grid == (5, 7) and found.lower <= norm(dense(conv)) <= found.value


# Kernel, size, stride, dilation, padding on each side, and by how much the bound is at least above the norm.
LOOSE = [(3, 7, 2, 1, 1, 1.2), (3, 7, 3, 1, 1, 1.2), (3, 7, 2, 3, 3, 1.2), (5, 7, 1, 1, 1, 1.1)]


@pytest.mark.parametrize(("kernel", "size", "stride", "dilation", "padding", "above"), LOOSE)
def test_a_circle_with_fewer_outputs_is_called_a_bound(
    kernel: int, size: int, stride: int, dilation: int, padding: int, above: float
) -> None:
    conv = Convolution(
        weight=weights(3, 2, kernel, kernel),
        size=(size, size),
        stride=(stride, stride),
        dilation=(dilation, dilation),
        padding=(padding,) * 4,
        circular=True,
    )
    found = measure(conv)
    assert not found.tight and found.value > above * norm(dense(conv))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 5), st.integers(2, 8), st.integers(1, 3), st.integers(1, 3), st.integers(0, 8), st.integers(0, 999)
)
def test_on_a_circle_the_norm_is_called_one_only_where_it_is(
    kernel: int, size: int, stride: int, dilation: int, padding: int, seed: int
) -> None:
    total = min(padding, dilation * (kernel - 1))
    if size + total < dilation * (kernel - 1) + 1:
        return
    conv = Convolution(
        weight=weights(2, 1, kernel, 1, seed=seed),
        size=(size, 2),
        stride=(stride, 1),
        dilation=(dilation, 1),
        padding=(total // 2, total - total // 2, 0, 0),
        circular=True,
    )
    found, truth = measure(conv, steps=1), norm(dense(conv))
    assert found.value >= truth
    assert not found.tight or found.value == pytest.approx(truth, rel=1e-7)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "tight"),
    [(2, 2, 0, True), (2, 3, 1, True), (1, 2, 0, True), (1, 1, 3, True), (3, 1, 1, False), (3, 1, 0, False)],
)
def test_windows_that_do_not_overlap_have_the_norm_of_one(kernel: int, stride: int, padding: int, tight: bool) -> None:
    conv = Convolution(
        weight=weights(3, 2, kernel, kernel), size=(7, 7), stride=(stride, stride), padding=(padding,) * 4
    )
    found, truth = measure(conv), norm(dense(conv))
    assert found.tight == tight and (found.value == pytest.approx(truth, rel=1e-7)) == tight


@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (0, 1, 0, 1)])
def test_a_window_that_padding_cuts_has_no_norm_of_its_own(padding: tuple[int, int, int, int]) -> None:
    conv = Convolution(weight=weights(2, 2, 4, 4), size=(3, 3), stride=(4, 4), padding=padding)
    found = measure(conv)
    assert not found.tight and found.value > 1.01 * norm(dense(conv))


def test_a_matrix_has_the_norm_that_is_told() -> None:
    found = measure(Dense(weight=weights(5, 8)))
    assert found.tight and not measure(Dense(weight=weights(5, 8)), kind="gram").tight


def test_the_grid_of_zero_padding_is_the_smallest_without_wrapping() -> None:
    def grid(kernel: int, size: int, stride: int, dilation: int = 1) -> tuple[int, int]:
        conv = Convolution(weight=weights(1, 1, kernel, 1), size=(size, 9), stride=(stride, 1), dilation=(dilation, 1))
        found, strides = symbol_grid(conv)
        return found[0], strides[0]

    assert grid(3, 32, 1) == (34, 1)
    assert grid(3, 32, 2) == (34, 2) and grid(3, 32, 3) == (3, 3) and grid(4, 32, 3) == (36, 3)
    assert grid(3, 32, 1, dilation=2) == (36, 1)
    assert grid(1, 32, 2) == (1, 1) and grid(16, 224, 16) == (16, 16)


def test_frequencies_come_in_chunks_that_change_nothing() -> None:
    conv = Convolution(weight=weights(3, 2, 3, 3), size=(8, 6), stride=(2, 1), padding=(1, 1, 1, 1))
    whole = measure(conv, kind="exact")
    for numbers in (1, 30, 200):
        batches = list(symbol(conv, *symbol_grid(conv), chunk=numbers))
        assert len(batches) > 1 and max(batch.numel() for batch in batches) <= max(numbers, 12)
        assert measure(conv, kind="exact", chunk=numbers).value == pytest.approx(whole.value, rel=1e-14)


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (1, 1), (40, 40)])
def test_gram_iteration_comes_down_on_the_norm(shape: tuple[int, int]) -> None:
    matrices = torch.complex(weights(6, *shape), weights(6, *shape, seed=1))
    truth = float(torch.linalg.svdvals(matrices).max())
    assert largest_singular_value(matrices) == pytest.approx(truth, rel=1e-13)
    bounds = [gram_bound(matrices, iterations) for iterations in range(1, 8)]
    assert all(bound >= truth - 1e-12 for bound in bounds)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(bounds))
    assert bounds[-1] <= truth * (1 + 1e-4)
    schatten = float((torch.linalg.svdvals(matrices) ** 4).sum(-1).max() ** 0.25)
    assert bounds[0] == pytest.approx(schatten * UP, rel=1e-12)


def test_gram_iteration_neither_overflows_nor_vanishes() -> None:
    for size in (1e-60, 1e60):
        assert gram_bound(size * weights(1, 6, 6)) == pytest.approx(size * norm(weights(6, 6)), rel=1e-2)
    assert gram_bound(torch.zeros(1, 3, 3, dtype=torch.float64)) == 0.0


def test_equal_singular_values_are_the_worst_case_that_is_stated() -> None:
    assert gram_bound(torch.eye(64, dtype=torch.float64)[None]) == pytest.approx(64 ** (1 / 256), rel=1e-8)


def test_matrices_are_layers_too() -> None:
    weight = weights(4, 9)
    found = measure(Dense(weight=weight.float()))
    truth = norm(weight.float().double())
    assert found.value == pytest.approx(truth * UP, rel=1e-12) and found.lower == pytest.approx(truth, rel=1e-8)
    assert found.lower <= truth and found.grid == (1, 1)


def test_the_power_iteration_is_only_ever_below() -> None:
    conv = Convolution(weight=weights(6, 6, 3, 3), size=(8, 8), padding=(1, 1, 1, 1))
    truth = norm(dense(conv))
    reached = [power_lower(conv, steps) for steps in (1, 10, 600)]
    assert reached[0] < reached[1] < reached[2] <= truth and reached[1] < 0.99 * truth
    assert measure(conv, kind="exact").value >= reached[2]


def test_zero_weights_have_norm_zero() -> None:
    for kind in ("exact", "gram"):
        found = measure(Convolution(weight=torch.zeros(2, 2, 3, 3), size=(4, 4)), kind=kind)
        assert found.value == 0.0 and found.lower == 0.0


def test_large_matrices_go_to_gram_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.classifiers.spectral_norm.EXACT_UP_TO", 3)
    assert measure(Dense(weight=weights(4, 9))).kind == "gram"
    assert measure(Dense(weight=weights(3, 9))).kind == "exact"
    # By the matrix of one frequency of one group, not by all channels; a stride makes it wider.
    assert measure(Convolution(weight=weights(8, 1, 3, 3), size=(5, 5), groups=8)).kind == "exact"
    assert measure(Convolution(weight=weights(8, 1, 3, 3), size=(6, 6), stride=(2, 2))).kind == "gram"


def test_a_box_of_ones_has_the_norm_that_one_can_work_out() -> None:
    # Adding up k x k cells without overlap turns a change spread evenly over them, 1/k each, into k.
    conv = Convolution(weight=torch.ones(1, 1, 3, 3), size=(9, 9), stride=(3, 3))
    assert math.isclose(measure(conv).value, 3.0, rel_tol=1e-8)
