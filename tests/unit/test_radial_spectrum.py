"""Is energy neither lost nor made, and does every wave have its own wavenumber?"""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.operators.fno.layers import GridKind
from probes.operators.radial_spectrum import RadialSpectrum, View
from probes.operators.resampling import upsample

pytestmark = pytest.mark.numerical

KINDS: tuple[GridKind, ...] = ("open", "closed", "cell")
VIEWS: tuple[View, ...] = ("periodic", "even", "hann")
GRIDS = [(8,), (9,), (8, 9), (9, 16), (7, 8), (4, 5, 6), (5, 4, 7)]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def nodes(kind: GridKind, *sizes: int) -> tuple[Tensor, ...]:
    axes = []
    for size in sizes:
        places = torch.arange(size, dtype=torch.float64)
        axes.append({"open": places / size, "closed": places / (size - 1), "cell": (places + 0.5) / size}[kind])
    return torch.meshgrid(*axes, indexing="ij")


def shells(spectrum: RadialSpectrum, field: Tensor) -> Tensor:
    """Return the shells of one field (*grid)."""
    return spectrum.shells(spectrum.power(spectrum.transform(field[None, None])))[0]


def trapezoid(x: Tensor) -> Tensor:
    """Return the mean of (n, c, *grid), sides weighing half, corners a quarter or an eighth."""
    for _ in range(x.dim() - 2):
        x = (x[:, :, 1:] + x[:, :, :-1]).mean(2) / 2
    return x.mean(1)


@pytest.mark.parametrize("sizes", GRIDS)
@pytest.mark.parametrize(("kind", "view"), list(itertools.product(KINDS, VIEWS)))
def test_energy_is_the_mean_square(kind: GridKind, view: View, sizes: tuple[int, ...]) -> None:
    x = noise(3, 2, *sizes) + 0.5
    spectrum = RadialSpectrum(sizes, kind, view)
    power = spectrum.power(spectrum.transform(x))
    if view == "hann":
        places = nodes(kind, *sizes)
        window = torch.stack([torch.sin(math.pi * place) ** 2 for place in places]).prod(0)
        mean = x.mean(tuple(range(2, x.dim())), keepdim=True)
        expected = ((x - mean) * window / window.square().mean().sqrt()).square().flatten(1).mean(1)
    elif view == "even" and kind == "closed":
        expected = trapezoid(x.square())
    else:
        expected = x.square().flatten(1).mean(1)
    assert power.dtype == torch.float64
    # The window's places are those of the network's coordinates, which are rounded to float32.
    torch.testing.assert_close(power.flatten(1).sum(1), expected, rtol=1e-6 if view == "hann" else 1e-10, atol=0)
    whole = power.flatten(1).sum(1)
    torch.testing.assert_close(spectrum.shells(power).sum(1), whole, rtol=1e-12, atol=0)
    torch.testing.assert_close(spectrum.bands(power, [0, math.inf])[:, 0], whole, rtol=1e-12, atol=0)
    torch.testing.assert_close(spectrum.outside(power, [-1.0] * len(sizes)), whole, rtol=1e-12, atol=0)
    torch.testing.assert_close(spectrum.above(power, -1.0), whole, rtol=1e-12, atol=0)


@pytest.mark.parametrize("sizes", GRIDS)
def test_every_count_is_that_of_the_whole_transform(sizes: tuple[int, ...]) -> None:
    x = noise(1, 1, *sizes)
    whole = np.abs(np.fft.fftn(x[0, 0].numpy(), norm="forward")) ** 2
    waves = np.meshgrid(*(np.fft.fftfreq(size, 1 / size) for size in sizes), indexing="ij")
    radius = np.sqrt(sum(wave**2 for wave in waves))
    spectrum = RadialSpectrum(sizes, "open", "periodic")
    power = spectrum.power(spectrum.transform(x))
    by_shell = [whole[np.round(radius) == q].sum() for q in range(int(np.round(radius.max())) + 1)]
    assert spectrum.wavenumbers.tolist() == list(range(len(by_shell)))
    assert spectrum.shells(power)[0].numpy() == pytest.approx(np.array(by_shell), abs=1e-15)
    for limit in (0.0, 1.0, 1.5, 2.0, 3.0):
        assert float(spectrum.above(power, limit)) == pytest.approx(whole[radius > limit].sum(), abs=1e-15)
        box = [limit, 2.0, 1.0][: len(sizes)]
        beyond = np.any([abs(wave) > side for wave, side in zip(waves, box, strict=True)], axis=0)
        assert float(spectrum.outside(power, box)) == pytest.approx(whole[beyond].sum(), abs=1e-15)
    edges = [0.5, 1, 2, 2.5, math.inf]
    by_band = [whole[(radius >= a) & (radius < b)].sum() for a, b in itertools.pairwise(edges)]
    assert spectrum.bands(power, edges)[0].numpy() == pytest.approx(np.array(by_band), abs=1e-15)


@pytest.mark.parametrize("size", [16, 17, 31])
def test_a_wave_lies_in_its_shell(size: int) -> None:
    x, y = nodes("open", size, size + 3)
    spectrum = RadialSpectrum((size, size + 3), "open", "periodic")
    energy = shells(spectrum, torch.cos(2 * math.pi * (3 * x + 4 * y)))
    assert float(energy[5]) == pytest.approx(0.5, rel=1e-12) and spectrum.wavenumbers[5] == 5
    assert float(energy.sum() - energy[5]) < 1e-25


@pytest.mark.parametrize("kind", ["closed", "cell"])
def test_a_mirrored_wave_lies_in_its_shell(kind: GridKind) -> None:
    sizes = (16, 19)
    x, y = nodes(kind, *sizes)
    spectrum = RadialSpectrum(sizes, kind, "even")
    for across, up, wavenumber in ((6, 8, 5.0), (3, 4, 2.5), (1, 0, 0.5), (0, 0, 0.0)):
        energy = shells(spectrum, torch.cos(math.pi * across * x) * torch.cos(math.pi * up * y))
        assert spectrum.wavenumbers[energy.argmax()] == wavenumber
        assert float(energy.max()) == pytest.approx((0.5 if across else 1) * (0.5 if up else 1), rel=1e-12)
        assert float(energy.sum() / energy.max()) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_grids_share_their_wavenumbers(kind: GridKind) -> None:
    view: View = "periodic" if kind == "open" else "even"
    x = noise(9, 10)
    method = "fourier" if kind == "open" else "even"
    fine = upsample(x[None, None], (21, 32), kind, method)[0, 0]
    coarse = shells(RadialSpectrum((9, 10), kind, view), x)
    found = shells(RadialSpectrum((21, 32), kind, view), fine)
    # Up to the highest wavenumber of the coarse grid, whose energy may be split differently.
    torch.testing.assert_close(found[:4], coarse[:4], rtol=1e-12, atol=0)


@pytest.mark.parametrize(("view", "kind"), [("periodic", "open"), ("even", "cell"), ("hann", "open")])
def test_white_noise_has_the_same_energy_everywhere(view: View, kind: GridKind) -> None:
    size = 32
    spectrum = RadialSpectrum((size, size), kind, view)
    power = spectrum.power(spectrum.transform(noise(400, 4, size, size)))
    waves = torch.arange(size) / 2 if view == "even" else torch.fft.fftfreq(size, 1 / size)
    radius = (waves[:, None] ** 2 + waves**2).sqrt() * (2 if view == "even" else 1)
    counts = torch.bincount(radius.round().long().flatten()).double()
    share = spectrum.shells(power).mean(0) / (counts / size**2)
    # A window mixes neighbours, and the mean is missing in the first two.
    assert share[2:-1].numpy() == pytest.approx(1, abs=0.1)
    assert float(power.sum() / len(power)) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("size", [8, 9, 61])
def test_a_ramp_has_its_law(size: int) -> None:
    ramp = torch.arange(size, dtype=torch.float64) / size
    hat = RadialSpectrum((size,), "open", "periodic").transform(ramp[None, None])[0, 0]
    assert float(hat[0].real) == pytest.approx(0.5 - 0.5 / size, rel=1e-14)
    assert hat[1:].real.numpy() == pytest.approx(-0.5 / size, rel=1e-12)


def test_views_that_end_smoothly_show_the_tail_of_a_ramp() -> None:
    (ramp,) = nodes("open", 128)
    found = {}
    for view in VIEWS:
        spectrum = RadialSpectrum((128,), "open", view)
        power = spectrum.power(spectrum.transform((ramp + 0.1 * torch.sin(2 * math.pi * ramp))[None, None]))
        found[view] = float(spectrum.above(power, 16.0) / spectrum.above(power, 0.0))
    # Of tails like k^-2, k^-4 and k^-6 about 1/16, 1/16^3 and 1/16^5 lie beyond 16.
    assert found["periodic"] > 0.02 > 1e-3 > found["even"] > 1e-6 > found["hann"]


@pytest.mark.parametrize("sizes", [(9,), (8, 9), (140, 6), (4, 5, 6)])
@pytest.mark.parametrize(("kind", "view"), list(itertools.product(KINDS, VIEWS)))
def test_sums_of_fields_need_no_transform(kind: GridKind, view: View, sizes: tuple[int, ...]) -> None:
    a, b = noise(2, 3, *sizes), noise(2, 4, *sizes, seed=1)
    matrix, constant = noise(4, 3, seed=2), noise(4, seed=3)
    field = torch.einsum("oi,ni...->no...", matrix, a) + b + constant.view(-1, *[1] * len(sizes))
    spectrum = RadialSpectrum(sizes, kind, view)
    hats = [spectrum.transform(part) for part in (a, b)]
    before = [hat.clone() for hat in hats]
    found = spectrum.constant(spectrum.combined([(matrix, hats[0]), (None, hats[1])]), constant)
    torch.testing.assert_close(found, spectrum.transform(field), rtol=0, atol=1e-14)
    assert all(torch.equal(hat, old) for hat, old in zip(hats, before, strict=True))
    spectrum.constant(hats[1], constant)
    assert torch.equal(hats[1], before[1])
    # Float32 matrices, as networks have them, and coefficients of either precision.
    single = spectrum.combined([(matrix.float(), hats[0])])
    torch.testing.assert_close(single, spectrum.combined([(matrix, hats[0])]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("sizes", [(9,), (8, 9), (4, 5, 6)])
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_and_fast_transforms_agree(kind: GridKind, sizes: tuple[int, ...]) -> None:
    x = noise(2, 3, *sizes)
    by_matrix = RadialSpectrum(sizes, kind, "even").transform(x)
    fast = RadialSpectrum(sizes, kind, "even", matrix_up_to=0)
    kept = x.clone()
    torch.testing.assert_close(fast.transform(x), by_matrix, rtol=0, atol=1e-14)
    assert torch.equal(x, kept)


@pytest.mark.parametrize(("kind", "view"), list(itertools.product(KINDS, VIEWS)))
def test_single_precision_is_accumulated_in_double(kind: GridKind, view: View) -> None:
    x = noise(1, 16, 33, 40)
    spectrum = RadialSpectrum((33, 40), kind, view)
    hat = spectrum.transform(x.float())
    assert hat.dtype == (torch.float32 if view == "even" else torch.complex64)
    exact, single = spectrum.power(spectrum.transform(x)), spectrum.power(hat)
    assert single.dtype == torch.float64
    torch.testing.assert_close(spectrum.shells(single), spectrum.shells(exact), rtol=1e-5, atol=0)
    # Squares of what float32 can hold, but whose squares it cannot.
    torch.testing.assert_close(spectrum.power(1e-25 * hat), 1e-50 * single, rtol=1e-5, atol=0)


def test_short_axes_are_refused() -> None:
    with pytest.raises(ValueError, match="three nodes on every axis, not 2"):
        RadialSpectrum((8, 2), "open", "periodic")
