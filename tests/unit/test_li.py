"""Do networks read from tensors of the published scripts compute what those scripts compute?"""

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from probes.core.errors import InputError
from probes.operators.fno.layers import Padding
from probes.operators.fno.li import is_li, read_li

Tensors = dict[str, Tensor]
WIDTH = 5
GRIDS = {1: [(16,), (13,)], 2: [(12, 12), (11, 14), (9, 13)], 3: [(8, 7, 6), (6, 9, 7)]}


def noise(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def spectral(axes: int, seed: int, *, pairs: bool = False) -> Tensors:
    modes = (3, 2, 3)[:axes] if axes > 1 else (4,)
    made = {
        f"weights{place + 1}": noise(WIDTH, WIDTH, *modes, 2, seed=seed * 10 + place)
        for place in range(2 ** (axes - 1))
    }
    return {name: value if pairs else torch.view_as_complex(value) for name, value in made.items()}


def layer(out: int, channels: int, seed: int, *ones: int) -> Tensors:
    return {
        "weight": noise(out, channels, *ones, seed=seed) / math.sqrt(channels),
        "bias": noise(out, seed=seed + 1) / 2,
    }


def under(prefix: str, tensors: Tensors) -> Tensors:
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


def scripts(
    axes: int, *, fields: int = 1, layers: int = 3, inner: bool = False, pairs: bool = False, flat: bool = False
) -> Tensors:
    """A state dict as the scripts save it: with `inner` the late one, with pairs and flat skips the early one."""
    ones = (1,) if flat else (1,) * axes
    tensors = under("p" if inner else "fc0", layer(WIDTH, fields + axes, 1))
    for place in range(layers):
        tensors |= under(f"conv{place}", spectral(axes, 10 + place, pairs=pairs))
        tensors |= under(f"w{place}", layer(WIDTH, WIDTH, 20 + 2 * place, *ones))
        if inner:
            tensors |= under(f"mlp{place}.mlp1", layer(7, WIDTH, 40 + 2 * place, *ones))
            tensors |= under(f"mlp{place}.mlp2", layer(WIDTH, 7, 60 + 2 * place, *ones))
    ends = ("q.mlp1", "q.mlp2") if inner else ("fc1", "fc2")
    sizes = (1,) * axes if inner else ()
    return tensors | under(ends[0], layer(8, WIDTH, 80, *sizes)) | under(ends[1], layer(2, 8, 82, *sizes))


def point(tensors: Tensors, name: str, x: Tensor) -> Tensor:
    weight = tensors[f"{name}.weight"]
    shape = (1, -1, *[1] * (x.dim() - 2))
    return torch.einsum("oi,ni...->no...", weight.flatten(1), x) + tensors[f"{name}.bias"].view(shape)


def convolved(tensors: Tensors, name: str, x: Tensor) -> Tensor:
    """Every frequency of a whole transform, one slice a corner."""
    axes = tuple(range(2, x.dim()))
    whole = torch.fft.fftn(x, dim=axes)[..., : x.shape[-1] // 2 + 1]
    out = torch.zeros_like(whole)
    for place, signs in enumerate(itertools.product((1, -1), repeat=len(axes) - 1)):
        # itertools turns the last sign fastest, the scripts the first.
        weight = tensors[f"{name}.weights{place + 1}"]
        weight = weight if weight.is_complex() else torch.complex(weight[..., 0], weight[..., 1])
        ends = [
            slice(0, m) if sign > 0 else slice(-m, None)
            for sign, m in zip(signs[::-1], weight.shape[2:-1], strict=True)
        ]
        here = (slice(None), slice(None), *ends, slice(0, weight.shape[-1]))
        out[here] = torch.einsum("ni...,io...->no...", whole[here], weight)
    return torch.fft.irfftn(out, s=x.shape[2:], dim=axes)


def plain(
    tensors: Tensors,
    x: Tensor,
    places: Sequence[Tensor],
    pad: Sequence[int],
    act: Callable[[Tensor], Tensor] = functional.gelu,
    *,
    normalised: bool = False,
) -> Tensor:
    """The published forward pass, coordinates given; x of shape (n, fields, *grid)."""
    sizes, late = x.shape[2:], "p.weight" in tensors
    norm = functional.instance_norm if normalised else (lambda y: y)
    x = torch.cat([x, torch.stack(list(places)).expand(len(x), -1, *sizes)], dim=1)
    x = point(tensors, "p" if late else "fc0", x)
    x = functional.pad(x, [cells for end in reversed(pad) for cells in (0, end)])
    count = sum(name.endswith("weights1") for name in tensors)
    for place in range(count):
        y = norm(convolved(tensors, f"conv{place}", norm(x)))
        if late:
            y = point(tensors, f"mlp{place}.mlp2", act(point(tensors, f"mlp{place}.mlp1", y)))
        y = y + point(tensors, f"w{place}", x)
        if f"bn{place}.weight" in tensors and act is functional.relu:
            keys = ("running_mean", "running_var", "weight", "bias")
            y = functional.batch_norm(y, *(tensors[f"bn{place}.{key}"] for key in keys), eps=1e-5)
        x = act(y) if place < count - 1 else y
    x = x[(..., *[slice(0, size) for size in sizes])]
    first, last = ("q.mlp1", "q.mlp2") if late else ("fc1", "fc2")
    return point(tensors, last, act(point(tensors, first, x)))


def grid(sizes: Sequence[int]) -> list[Tensor]:
    return list(torch.meshgrid(*[torch.linspace(0, 1, size) for size in sizes], indexing="ij"))


def close(got: Tensor, wanted: Tensor) -> None:
    assert got.shape == wanted.shape
    assert float((got - wanted).abs().max()) < 1e-5 * max(1.0, float(wanted.abs().max()))


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(("axes", "sizes"), [(axes, sizes) for axes, cases in GRIDS.items() for sizes in cases])
def test_forward_is_that_of_the_scripts(axes: int, sizes: tuple[int, ...], inner: bool) -> None:
    tensors = scripts(axes, fields=2, inner=inner)
    pad = {1: (0,), 2: (9, 9), 3: (0, 0, 6)}[axes]
    x = noise(2, 2, *sizes, seed=5)
    operator = read_li(tensors, where="w.pt")
    assert operator.layout.padding == Padding(amounts=pad if any(pad) else ())
    assert (operator.layout.fields, operator.layout.coordinates, operator.outputs) == (2, "grid", 2)
    with torch.no_grad():
        close(operator(x, "closed"), plain(tensors, x, grid(sizes), pad))


@pytest.mark.parametrize(("axes", "pad"), [(1, (2,)), (2, (2, 2)), (3, (0, 0, 6))])
def test_pdebench_pads_otherwise(axes: int, pad: tuple[int, ...]) -> None:
    tensors, sizes = scripts(axes), GRIDS[axes][-1]
    operator = read_li(tensors, where="w.pt", family="pdebench")
    x = noise(1, 1, *sizes, seed=6)
    assert (operator.layout.family, operator.layout.release) == ("pdebench", f"FNO{axes}d")
    with torch.no_grad():
        close(operator(x, "closed"), plain(tensors, x, grid(sizes), pad))


def test_own_padding_and_any_number_of_layers() -> None:
    tensors, x = scripts(2, layers=1), noise(1, 1, 10, 11, seed=7)
    operator = read_li(tensors, where="w.pt", padding=Padding(amounts=(3, 0)))
    with torch.no_grad():
        close(operator(x, "closed"), plain(tensors, x, grid((10, 11)), (3, 0)))
    assert len(read_li(scripts(1, layers=6), where="w.pt").blocks) == 6


def test_instance_normalisation_only_where_it_is_said() -> None:
    tensors, x = scripts(2, fields=10, inner=True), noise(2, 10, 12, 13, seed=8)
    for normalised in (True, False):
        operator = read_li(tensors, where="w.pt", normalised=normalised)
        assert operator.layout.padding == Padding()
        assert "Navier-Stokes" in operator.layout.release
        with torch.no_grad():
            close(operator(x, "closed"), plain(tensors, x, grid((12, 13)), (0, 0), normalised=normalised))


def test_skips_of_any_form_and_pairs_for_complex_numbers_are_the_same_network() -> None:
    tensors, x = scripts(2), noise(1, 1, 9, 10, seed=9)
    paired = tensors | {name: torch.view_as_real(value) for name, value in tensors.items() if value.is_complex()}
    linear = {
        name: value.flatten(1) if name.startswith("w") and value.dim() == 4 else value
        for name, value in tensors.items()
    }
    with torch.no_grad():
        wanted = read_li(tensors, where="w.pt")(x)
        for variant in (paired, linear):
            close(read_li(variant, where="w.pt")(x), wanted)


def early(axes: int, fields: int, *, wrapped: bool = True) -> Tensors:
    tensors = scripts(axes, fields=fields, pairs=True, flat=True)
    for place in range(3):
        norm = {"weight": noise(WIDTH, seed=90 + place), "bias": noise(WIDTH, seed=93 + place)}
        norm |= {
            "running_mean": noise(WIDTH, seed=96 + place),
            "running_var": noise(WIDTH, seed=99 + place).abs() + 0.1,
        }
        tensors |= under(f"bn{place}", norm) | {f"bn{place}.num_batches_tracked": torch.tensor(7)}
    return under("conv1", tensors) if wrapped else tensors


@pytest.mark.parametrize(
    ("axes", "fields", "coordinates"),
    [
        (1, 1, lambda places: [2 * math.pi * places[0]]),
        (2, 1, lambda places: [places[1], places[0]]),
        (2, 10, lambda places: places),
    ],
)
def test_scripts_of_2020(axes: int, fields: int, coordinates: Callable[[list[Tensor]], list[Tensor]]) -> None:
    """ReLU, no padding, batch normalisation, and each script's own coordinates."""
    bare, sizes = early(axes, fields, wrapped=False), GRIDS[axes][-1]
    x = noise(2, fields, *sizes, seed=11)
    wanted = plain(bare, x, coordinates(grid(sizes)), (0,) * axes, functional.relu)
    for tensors in (bare, under("conv1", bare)):
        assert is_li(tensors)
        operator = read_li(tensors, where="w.pt")
        assert "ReLU" in operator.layout.release
        with torch.no_grad():
            close(operator(x, "closed"), wanted)


def test_idle_batch_normalisation_changes_nothing() -> None:
    tensors = scripts(3)
    idle = tensors | under("bn0", {"weight": torch.ones(WIDTH), "running_var": torch.full((WIDTH,), 9.0)})
    x = noise(1, 1, 6, 7, 8, seed=12)
    with torch.no_grad():
        assert torch.equal(
            read_li(idle, where="w.pt", family="pdebench")(x), read_li(tensors, where="w.pt", family="pdebench")(x)
        )


def test_names_are_recognised() -> None:
    assert is_li(scripts(2)) and is_li(scripts(1, inner=True)) and is_li(early(1, 1))
    assert (
        not is_li({}) and not is_li({"fc0.weight": torch.zeros(3, 3)}) and not is_li({"conv0.weights1": torch.zeros(3)})
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"w1.weight": None}, "no w1.weight"),
        ({"conv1.weights1": None}, "without gaps"),
        ({"conv0.weights2": None}, "no conv0.weights2"),
        ({"fc2.weight": None}, "no fc2.weight"),
        ({"fc1.weight": None}, "no q.mlp1.weight"),
        ({"w1.weight": torch.zeros(WIDTH, 4, 1, 1)}, "maps 4 to 5"),
        ({"w1.weight": torch.zeros(WIDTH, WIDTH, 3, 3)}, "no matrix"),
        ({"w1.bias": torch.zeros(3)}, "3 entries"),
        ({"fc0.weight": torch.zeros(WIDTH, 2)}, "2 channels"),
        ({"fc2.weight": torch.zeros(1, 9)}, "maps 9 to 1"),
        ({"conv2.weights2": torch.zeros(WIDTH, WIDTH, 2, 2, dtype=torch.complex64)}, "differ in shape"),
        ({"conv0.weights1": torch.zeros(WIDTH, WIDTH, 2, 2, 2, 2, dtype=torch.complex64)}, "1 to 3 axes"),
        ({"conv0.weights1": torch.zeros(WIDTH, WIDTH, 3, 3)}, "1 to 3 axes"),
        ({"conv1.weights1": torch.zeros(4, 4, 3, 2, dtype=torch.complex64)}, "does not fit 5 channels"),
        ({"norm.weight": torch.zeros(WIDTH)}, "norm.weight"),
        ({"fc3.weight": torch.zeros(1, 1)}, "fc3.weight"),
    ],
)
def test_contradictions_are_refused(change: dict[str, Tensor | None], told: str) -> None:
    tensors = {name: value for name, value in (scripts(2) | change).items() if value is not None}
    with pytest.raises(InputError, match=told) as refused:
        read_li(tensors, where="w.pt")
    assert refused.value.where == "w.pt" and refused.value.hint


def test_what_the_early_scripts_do_not_allow_is_refused() -> None:
    with pytest.raises(InputError, match="time at"):
        read_li(early(3, 10), where="w.pt")
    with pytest.raises(InputError, match="no instance normalisation"):
        read_li(early(2, 1), where="w.pt", normalised=True)
    broken = early(1, 1, wrapped=False) | {"bn1.running_var": -torch.ones(WIDTH)}
    with pytest.raises(InputError, match="bn1"):
        read_li(broken, where="w.pt")
