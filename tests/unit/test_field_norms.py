"""Are the norms those of functions whose integrals are known?"""

import math

import pytest
import torch
from torch import Tensor

from probes.operators.field_norms import sobolev_squares, squares
from probes.operators.fno.layers import GridKind, coordinates
from probes.operators.resampling import upsample

pytestmark = pytest.mark.numerical


def grid(kind: GridKind, *sizes: int) -> Tensor:
    return coordinates(kind, sizes).double()


def test_squares_are_summed_sample_by_sample_in_double_precision() -> None:
    # In float32 the ones would vanish beside the first term.
    x = torch.ones(2, 1, 40, 50)
    x[0, 0, 0, 0] = 1e5
    assert squares(x).tolist() == [1e10 + 1999, 2000.0]
    assert squares(x).dtype == torch.float64


@pytest.mark.parametrize("sizes", [(8,), (9,), (8, 11), (6, 7, 8)])
def test_waves_on_an_open_grid_have_their_integrals(sizes: tuple[int, ...]) -> None:
    places = torch.arange(sizes[0], dtype=torch.float64) / sizes[0]
    wave = torch.sin(4 * math.pi * places).view(1, 1, -1, *[1] * (len(sizes) - 1)).expand(1, 1, *sizes)
    expected = 0.5 * (1 + (4 * math.pi) ** 2)
    assert float(sobolev_squares(wave, "open")) == pytest.approx(expected, rel=1e-12)


def test_axes_of_different_sizes_have_their_own_slopes() -> None:
    x, y = grid("open", 16, 9)
    wave = torch.cos(2 * math.pi * (3 * x + 2 * y))[None, None]
    expected = 0.5 * (1 + 4 * math.pi**2 * (9 + 4))
    assert float(sobolev_squares(wave, "open")) == pytest.approx(expected, rel=1e-5)
    assert sobolev_squares(wave.transpose(2, 3), "open") == pytest.approx(expected, rel=1e-5)


def test_the_norm_of_an_interpolant_is_the_same_on_every_grid() -> None:
    x = torch.randn(3, 2, 9, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fine = upsample(x, (20, 15), "open", "fourier")
    torch.testing.assert_close(sobolev_squares(fine, "open"), sobolev_squares(x, "open"), rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["closed", "cell"])
def test_planes_have_their_slopes(kind: GridKind) -> None:
    x, y = grid(kind, 201, 3)
    for plane, slopes in ((x, 1.0), (5 * y, 25.0), (2 * x - 3 * y, 13.0)):
        found = sobolev_squares(plane[None, None], kind) - plane.square().mean()
        assert float(found) == pytest.approx(slopes, rel=1e-4)


@pytest.mark.parametrize("kind", ["open", "closed", "cell"])
def test_channels_add_up_and_samples_do_not(kind: GridKind) -> None:
    x = torch.randn(1, 1, 8, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one = float(sobolev_squares(x, kind))
    both = torch.cat([torch.cat([x, 3 * x], dim=1), torch.cat([x, 0 * x], dim=1)])
    assert sobolev_squares(both, kind).tolist() == pytest.approx([10 * one, one])


@pytest.mark.parametrize("kind", ["open", "closed", "cell"])
def test_differences_converge_to_the_integrals(kind: GridKind) -> None:
    errors = []
    for size in (33, 129):
        x, y = grid(kind, size, size)
        field = (torch.sin(2 * math.pi * x) * torch.cos(2 * math.pi * y))[None, None]
        errors.append(abs(float(sobolev_squares(field, kind)) / (0.25 + 2 * math.pi**2) - 1))
    assert errors[1] < 0.02 and (errors[1] < errors[0] / 3 or errors[0] < 1e-5)


def test_a_single_node_has_no_slope() -> None:
    x = torch.full((1, 1, 1, 4), 3.0)
    assert [float(sobolev_squares(x, kind)) for kind in ("open", "cell", "closed")] == [9.0, 9.0, 9.0]
