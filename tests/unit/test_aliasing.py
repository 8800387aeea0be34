"""Is the aliasing of an activation that of series which are known in closed form?"""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from probes.operators.aliasing import activation_aliasing
from probes.operators.resampling import upsample

pytestmark = pytest.mark.numerical


def wave(size: int, cycles: int = 1) -> Tensor:
    return torch.cos(2 * math.pi * cycles * torch.arange(size, dtype=torch.float64) / size)[None, None]


def smooth(*shape: int, seed: int = 0) -> Tensor:
    """Return noise on odd grids of twice the size, without the highest frequencies."""
    source = torch.Generator().manual_seed(seed)
    noise = torch.randn(*shape, generator=source, dtype=torch.float64)
    return upsample(noise, [2 * size + 1 for size in shape[2:]], "open", "fourier")


@pytest.mark.parametrize("size", [8, 9, 16, 21])
def test_a_rectified_cosine_has_the_aliasing_of_its_series(size: int) -> None:
    """relu(cos t) = 1/pi + cos(t)/2 + (2/pi) sum_m (-1)^(m+1) cos(2 m t) / (4 m^2 - 1)."""
    limit = (size - 1) // 2
    angles = 2 * math.pi * torch.arange(size, dtype=torch.float64) / size
    heights = [(m, 2 / math.pi * (-1) ** (m + 1) / (4 * m * m - 1)) for m in range(1, limit // 2 + 1)]
    below = 1 / math.pi + torch.cos(angles) / 2 + sum(height * torch.cos(2 * m * angles) for m, height in heights)
    activated = torch.relu(torch.cos(angles))
    energy = 1 / math.pi**2 + 1 / 8 + sum(height**2 for _, height in heights) / 2
    ratio, share = activation_aliasing(wave(size), torch.relu, factor=256)
    norm = torch.linalg.vector_norm
    assert float(ratio) == pytest.approx(float(norm(activated - below) / norm(activated)), rel=1e-4)
    assert float(share) == pytest.approx(1 - energy / 0.25, rel=1e-3)


@pytest.mark.parametrize("shape", [(2, 3, 8), (2, 3, 5, 7), (1, 2, 3, 4, 5)])
def test_functions_that_make_no_frequencies_alias_nothing(shape: tuple[int, ...]) -> None:
    for function in (torch.nn.Identity(), lambda x: 3 * x, lambda x: 1 - x):
        ratio, share = activation_aliasing(smooth(*shape), function)
        assert ratio.shape == share.shape == (shape[0],)
        assert ratio.max() < 1e-14 and share.max() < 1e-13


def test_a_square_needs_twice_the_grid() -> None:
    # cos(k)^2 = 1/2 + cos(2 k)/2: of 16 nodes, 7 is the highest frequency that is kept.
    found = [activation_aliasing(wave(16, k), torch.square) for k in (3, 5)]
    assert float(found[0][0]) < 1e-14 and float(found[0][1]) < 1e-14
    # At the nodes, cos(10) is cos(6): half of an amplitude against 1/4 + 1/8.
    assert float(found[1][0]) == pytest.approx(math.sqrt((1 / 8) / (3 / 8)))
    assert float(found[1][1]) == pytest.approx((1 / 8) / (3 / 8))


def test_what_a_filter_cannot_see_counts_as_aliased() -> None:
    ratio, share = activation_aliasing(wave(8, 4), torch.nn.Identity())
    assert float(ratio) == pytest.approx(1) and float(share) == pytest.approx(1)


def test_samples_are_apart_and_channels_together() -> None:
    x = torch.cat([wave(16, k) for k in (1, 3, 5)])
    alone = torch.cat([activation_aliasing(x[i : i + 1], torch.relu)[0] for i in range(3)])
    torch.testing.assert_close(activation_aliasing(x, torch.relu)[0], alone)
    stacked = activation_aliasing(x.transpose(0, 1), torch.relu)[0]
    norms = torch.relu(x).square().sum((1, 2))
    assert float(stacked) == pytest.approx(float(((alone**2 * norms).sum() / norms.sum()).sqrt()))


def test_chunks_change_nothing() -> None:
    x = smooth(2, 3, 5, 6)
    whole = activation_aliasing(x, functional.gelu)
    calls = []

    def counted(values: Tensor) -> Tensor:
        calls.append(values.shape)
        return functional.gelu(values)

    torch.testing.assert_close(activation_aliasing(x, counted, memory=0), whole)
    assert calls == [(1, 1, 11, 13), (1, 1, 44, 52)] * 6


def test_a_finer_grid_refines_the_answer() -> None:
    x = smooth(1, 4, 9, 9)
    found = [float(activation_aliasing(x, torch.relu, factor=factor)[0]) for factor in (2, 4, 8, 32)]
    errors = [abs(value - found[-1]) for value in found[:-1]]
    assert errors[2] < errors[1] < errors[0] and errors[1] < 0.05 * found[-1]
    kink, bend = (float(activation_aliasing(x, function)[0]) for function in (torch.relu, functional.gelu))
    assert 0 < bend < kink


def test_single_precision_is_close_and_nothing_is_not_a_number() -> None:
    x = smooth(2, 3, 6, 6)
    exact, single = (activation_aliasing(field, functional.gelu) for field in (x, x.float()))
    torch.testing.assert_close(single[0], exact[0], rtol=1e-4, atol=0)
    torch.testing.assert_close(single[1], exact[1], rtol=1e-2, atol=1e-6)
    # Where nothing is cut off, rounding leaves a difference of either sign.
    _, share = activation_aliasing(smooth(20, 1, 6, 6).float(), torch.nn.Identity())
    assert share.min() == 0 and share.max() < 1e-6
    ratio, share = activation_aliasing(torch.zeros(2, 1, 8), torch.relu)
    assert ratio.tolist() == share.tolist() == [0.0, 0.0]


def test_an_activation_that_vanishes_only_at_the_nodes() -> None:
    # The nodes hold 1, 0, -1 and 0, all of which are sent to 0; what lies between them is not.
    ratio, share = activation_aliasing(wave(4), lambda x: torch.relu(x.abs() * (1 - x.abs()) - 1e-9), factor=4)
    assert float(ratio) == pytest.approx(1) and 0 < float(share) < 1
