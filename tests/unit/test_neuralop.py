"""Is a neuraloperator checkpoint read as its release would run it?"""

import itertools
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from probes.core.errors import InputError
from probes.files.pickles import read_pickle
from probes.operators.fno.factorised import dense, kind
from probes.operators.fno.layers import Activation, Listener, Padding
from probes.operators.fno.network import FourierOperator
from probes.operators.fno.neuralop import STANDINS, is_neuralop, read_neuralop

FAR = 20.0
RELEASES = ("0.2", "0.3", "1.x", "2.0")


class Heard(Listener):
    def __init__(self) -> None:
        self.activations: list[str] = []

    def activation(self, name: str, before: Tensor, function: Activation) -> None:
        self.activations.append(name)


def line(name: str, *layers: tuple[float, float], axes: int = 2, columns: int = 1) -> dict[str, Tensor]:
    """Layers of one channel by weight and bias; further channels of the first layer have no effect."""
    made = {}
    for place, (weight, bias) in enumerate(layers):
        values = torch.zeros(1, columns if place == 0 else 1, *[1] * axes)
        values[0, 0] = weight
        made |= {f"{name}.{place}.weight": values, f"{name}.{place}.bias": torch.tensor([bias])}
    return made


def passing(name: str, axes: int, start: float = 0.0) -> dict[str, Tensor]:
    """Two layers that take a number off: far from 0, the activation between them is the identity."""
    return line(name, (1.0, FAR - start), (1.0, -FAR), axes=axes)


def state(release: str, kernel: Tensor, *, layers: int = 1, mlp: bool | None = None, skip: float | None = 0.0) -> Any:
    """One channel; the projection passes everything on, and skips and biases are 0.

    The first block of 0.2 has an activation even where it is the last: what goes into it is moved far from 0.
    """
    axes = kernel.dim() - 2
    old = release in ("0.2", "0.3")
    flat = axes if old else 1
    mlp = not old if mlp is None else mlp
    ones = [1] * axes
    made: dict[str, Tensor] = {}
    far = FAR if release == "0.2" and not mlp else 0.0
    if release == "0.2":
        made |= {"lifting.fc.weight": torch.ones(1, 1, *ones), "lifting.fc.bias": torch.zeros(1)}
        ends = passing("p", axes, far)
        made |= {f"projection.fc{int(key[2]) + 1}.{key[4:]}": value for key, value in ends.items()}
    else:
        made |= line("lifting.fcs", (1.0, 0.0), axes=flat, columns=1 if old else 1 + axes)
        made |= passing("projection.fcs", flat)
    if old:
        made["fno_blocks.convs.bias"] = torch.full((layers, 1, *ones), far)
    for layer in range(layers):
        block = "fno_blocks."
        if release == "0.2":
            for number, corner in enumerate(corners(kernel)):
                place = 2 ** (axes - 1) * layer + number
                made[f"{block}convs.weight.{place}.tensor"] = torch.view_as_real(corner.contiguous())
        elif release == "0.3":
            made[f"{block}convs.weight.{layer}.tensor"] = torch.view_as_real(kernel)
        else:
            made[f"{block}convs.{layer}.weight.tensor"] = kernel
            made[f"{block}convs.{layer}.bias"] = torch.zeros(1, *ones)
        if skip is not None:
            made[f"{block}fno_skips.{layer}.weight"] = torch.full((1, 1, *ones), skip)
        if mlp:
            name = "mlp" if old else "channel_mlp"
            made |= passing(f"{block}{name}.{layer}.fcs", flat)
            made[f"{block}{name}_skips.{layer}.weight"] = torch.zeros(1, 1, *ones)
    return made


def corners(kernel: Tensor) -> list[Tensor]:
    """Cut (in, out, *modes) with frequencies 0 to h - 1 and -h to -1 on all axes but the last."""
    parts = [kernel]
    for axis in range(2, kernel.dim() - 1):
        parts = [half for part in parts for half in part.chunk(2, dim=axis)]
    return parts


def settings(release: str, modes: tuple[int, ...] = (4, 4), **changed: object) -> dict[str, object] | None:
    """What the release records; 0.2 records nothing."""
    if release == "0.2":
        return None
    made: dict[str, object] = {"_name": "FNO", "args": (), "n_modes": modes, "in_channels": 1, "norm": None}
    if release in ("0.3", "1.x"):
        made["domain_padding_mode"] = "one-sided"
    if release == "2.0":
        made["use_channel_mlp"] = True
    return made | changed


def read(release: str, kernel: Tensor, metadata: object = "own", **options: Any) -> FourierOperator:
    parts = {key: options.pop(key) for key in ("layers", "mlp", "skip") if key in options}
    tensors = state(release, kernel, **parts)
    if metadata == "own":
        modes = kernel.shape[2:]
        metadata = settings(release, (*modes[:-1], 2 * modes[-1] - 2))
    return read_neuralop(tensors, metadata, where="m.pt", **options)  # type: ignore[arg-type]


def kernel_of(*sizes: int) -> Tensor:
    return torch.zeros(1, 1, *sizes, dtype=torch.complex64)


def wave(sizes: tuple[int, ...], frequencies: tuple[int, ...], factor: complex = 1.0) -> Tensor:
    """Return Re(factor exp(2 pi i f.x)) on the open grid, shape (1, 1, *sizes)."""
    axes = [torch.arange(size, dtype=torch.float64) / size for size in sizes]
    grid = torch.meshgrid(*axes, indexing="ij")
    angle = 2 * math.pi * sum(f * x for f, x in zip(frequencies, grid, strict=True))
    return torch.real(factor * torch.exp(1j * angle)).float()[None, None]  # type: ignore[arg-type]


def answer(network: FourierOperator, fields: Tensor) -> Tensor:
    with torch.no_grad():
        output: Tensor = network(fields)
    return output


def refused(release: str, tensors: object, metadata: object, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read_neuralop(tensors, metadata, where="m.pt", **options)  # type: ignore[arg-type]
    assert caught.value.message and caught.value.where.startswith("m.pt") and caught.value.hint
    return caught.value


# The factors of a decomposition.


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def tucker() -> tuple[dict[str, Tensor], Callable[..., complex]]:
    core, factors = drawn(2, 3, 2), [drawn(4, 2, seed=1), drawn(3, 3, seed=2), drawn(5, 2, seed=3)]

    def entry(i: int, j: int, k: int) -> complex:
        ranks = itertools.product(range(2), range(3), range(2))
        return sum(complex(core[a, b, c] * factors[0][i, a] * factors[1][j, b] * factors[2][k, c]) for a, b, c in ranks)

    return {"core": core, **numbered(factors)}, entry


def cp() -> tuple[dict[str, Tensor], Callable[..., complex]]:
    weights, factors = drawn(6), [drawn(4, 6, seed=1), drawn(3, 6, seed=2), drawn(5, 6, seed=3)]

    def entry(i: int, j: int, k: int) -> complex:
        return sum(complex(weights[r] * factors[0][i, r] * factors[1][j, r] * factors[2][k, r]) for r in range(6))

    return {"weights": weights, **numbered(factors)}, entry


def train() -> tuple[dict[str, Tensor], Callable[..., complex]]:
    factors = [drawn(1, 4, 2, seed=1), drawn(2, 3, 3, seed=2), drawn(3, 5, 1, seed=3)]

    def entry(i: int, j: int, k: int) -> complex:
        ranks = itertools.product(range(2), range(3))
        return sum(complex(factors[0][0, i, a] * factors[1][a, j, b] * factors[2][b, k, 0]) for a, b in ranks)

    return numbered(factors), entry


def numbered(factors: list[Tensor]) -> dict[str, Tensor]:
    return {f"factors.factor_{place}": factor for place, factor in enumerate(factors)}


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("make", [tucker, cp, train])
def test_factors_make_up_the_sum_that_defines_them(make: Any, paired: bool) -> None:
    parts, entry = make()
    kept = {name: torch.view_as_real(part) if paired else part for name, part in parts.items()}
    made = dense(kept, where="w")
    assert made.shape == (4, 3, 5) and kind(kept) == {tucker: "Tucker", cp: "CP", train: "TT"}[make]
    for place in itertools.product(range(4), range(3), range(5)):
        assert complex(made[place]) == pytest.approx(entry(*place), abs=1e-5)


def test_a_cp_of_many_ranks_is_summed_in_steps() -> None:
    # Of 1,024 ranks a step.
    weights, left, right = drawn(2500), drawn(2**12, 2500), drawn(2, 2500)
    found = dense({"weights": weights, **numbered([left, right])}, where="w")
    torch.testing.assert_close(found, (left * weights) @ right.T, rtol=1e-4, atol=1e-3)


def test_no_step_on_the_way_from_a_core_is_larger_than_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    contract = torch.tensordot

    def measured(*args: Any, **options: Any) -> Tensor:
        sizes.append((product := contract(*args, **options)).numel())
        return product

    monkeypatch.setattr(torch, "tensordot", measured)
    dense({"core": drawn(1, 1, 64), **numbered([drawn(8, 1), drawn(8, 1), drawn(1, 64)])}, where="w")
    assert len(sizes) == 3 and max(sizes) <= 64


@pytest.mark.parametrize(
    ("make", "name", "part", "message"),
    [
        (tucker, "core", drawn(2, 2, 2), "contradicts factors"),
        (tucker, "factors.factor_1", drawn(3), "contradicts factors"),
        (tucker, "factors.factor_4", drawn(3, 1), "no dense, Tucker, CP or TT"),
        (tucker, "core", torch.ones(2, 3, 3), "no pairs"),
        (cp, "weights", drawn(5), "contradict factors"),
        (cp, "weights", drawn(6, 1), "contradict factors"),
        (cp, "core", drawn(2), "no dense, Tucker, CP or TT"),
        (train, "factors.factor_1", drawn(2, 3), "3 axes"),
        (train, "factors.factor_2", drawn(2, 5, 1), "do not couple"),
        (train, "factors.factor_2", drawn(3, 5, 2), "do not couple"),
        (train, "factors.factor_0", drawn(2, 4, 2), "do not couple"),
        (cp, "factors.factor_0", drawn(1, 6).expand(2**26, 6), "at most"),
        (tucker, "factors.factor_0", drawn(1, 2).expand(2**26, 2), "at most"),
        (train, "factors.factor_2", drawn(3, 1, 1).expand(3, 2**26, 1), "at most"),
    ],
)
def test_factors_that_contradict_each_other(make: Any, name: str, part: Tensor, message: str) -> None:
    parts, _ = make()
    with pytest.raises(InputError, match=message) as caught:
        dense({**parts, name: part}, where="m.pt, weight 0")
    assert caught.value.where == "m.pt, weight 0" and caught.value.hint


def test_factors_take_the_place_of_a_dense_weight() -> None:
    core, factors = drawn(1, 1, 2, 2), [torch.ones(1, 1) + 0j, torch.ones(1, 1) + 0j, drawn(4, 2), drawn(3, 2, seed=1)]
    kernel = torch.einsum("abcd,xc,yd->abxy", core, *factors[2:])
    tensors = state("2.0", kernel)
    factored = {name: part for name, part in tensors.items() if not name.endswith(".tensor")}
    parts = {"core": core, **numbered(factors)}
    factored |= {f"fno_blocks.convs.0.weight.{name}": part for name, part in parts.items()}
    network = read_neuralop(factored, settings("2.0"), where="m.pt")
    assert network.layout.release == "neuralop 2.0 (Tucker)"
    fields = torch.randn(2, 1, 9, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(answer(network, fields), answer(read("2.0", kernel), fields))


# Frequencies: one entry of the weights is not 0, and one wave comes through.

EVEN, ODD = (8, 10), (9, 11)


@pytest.mark.parametrize(
    ("release", "modes", "place", "sizes", "taken", "given", "fixed"),
    [
        ("0.2", (4, 3), (1, 2), EVEN, (1, 2), (1, 2), False),
        ("0.2", (4, 3), (2, 1), EVEN, (-2, 1), (-2, 1), False),
        ("0.2", (4, 3), (3, 1), ODD, (-1, 1), (-1, 1), False),
        ("0.2", (4, 3), (3, 1), ODD, (-1, 1), (-1, 1), True),
        *[
            (release, modes, place, sizes, taken, given, fixed)
            for release in ("0.3", "1.x", "2.0")
            for modes, place, sizes, taken, given, fixed in [
                ((4, 3), (0, 1), EVEN, (-2, 1), (-2, 1), False),
                ((4, 3), (3, 2), EVEN, (1, 2), (1, 2), False),
                ((4, 3), (3, 2), ODD, (1, 2), (0, 2), False),
                ((4, 3), (3, 2), ODD, (1, 2), (1, 2), True),
                ((4, 3), (3, 2), (8, 11), (1, 2), (1, 2), False),
                ((3, 3), (2, 2), ODD, (1, 2), (0, 2), False),
                ((3, 3), (2, 2), EVEN, (1, 2), (1, 2), True),
            ]
        ],
        # An odd number of modes sits one lower on even grids, until 2.0.
        ("0.3", (3, 3), (2, 2), EVEN, (0, 2), (0, 2), False),
        ("1.x", (3, 3), (2, 2), EVEN, (0, 2), (0, 2), False),
        ("2.0", (3, 3), (2, 2), EVEN, (1, 2), (1, 2), False),
        # In three dimensions the sign of the second axis changes fastest among the corners of 0.2.
        ("0.2", (2, 4, 2), (0, 2, 1), (6, 8, 7), (0, -2, 1), (0, -2, 1), False),
        ("0.2", (2, 4, 2), (1, 1, 1), (6, 8, 7), (-1, 1, 1), (-1, 1, 1), False),
        ("2.0", (2, 4, 2), (1, 3, 1), (6, 9, 7), (0, 1, 1), (0, 0, 1), False),
        *[(release, (3,), (2,), (9,), (2,), (2,), False) for release in RELEASES],
    ],
)
def test_the_frequencies_of_the_weights(
    release: str,
    modes: tuple[int, ...],
    place: tuple[int, ...],
    sizes: tuple[int, ...],
    taken: tuple[int, ...],
    given: tuple[int, ...],
    fixed: bool,
) -> None:
    kernel = kernel_of(*modes)
    kernel[(0, 0, *place)] = 0.5 + 0.25j
    network = read(release, kernel, fixed_shift=fixed)
    reach = [range(-2, 3)] * (len(sizes) - 1) + [range(1, 3)]
    for frequencies in itertools.product(*reach):
        wanted = wave(sizes, given, 0.5 + 0.25j) if frequencies == taken else torch.zeros(1, 1, *sizes)
        assert float((answer(network, wave(sizes, frequencies)) - wanted).abs().max()) < 1e-5, frequencies
    assert network.shifted_at_odd is (release != "0.2" and len(sizes) > 1 and not fixed)


def test_modes_in_use_are_cut_out_of_weights_made_for_more() -> None:
    kernel = kernel_of(7, 6)
    kernel[0, 0, 1, 2] = 1
    network = read("2.0", kernel, settings("2.0", max_n_modes=(7, 6)))
    torch.testing.assert_close(answer(network, wave(EVEN, (-2, 2))), wave(EVEN, (-2, 2)), atol=1e-5, rtol=0)
    assert network.modes == (2, 2)


def test_waves_beyond_the_grid_are_told() -> None:
    assert [read(release, kernel_of(4, 3)).smallest for release in RELEASES] == [(4, 4)] * 4


# Activations, skips and norms.


@pytest.mark.parametrize(
    ("release", "mlp", "layers", "wanted"),
    [
        ("0.2", False, 4, ["0.activated", "1.activated"]),
        ("0.2", False, 5, ["0.activated", "1.activated", "2.activated"]),
        ("0.2", True, 2, ["0.activated", "0.mlp", "0.mlp", "0.out", "1.activated", "1.mlp", "1.mlp"]),
        ("0.3", False, 3, ["0.activated", "1.activated"]),
        ("0.3", True, 2, ["0.activated", "0.mlp", "0.out", "1.activated", "1.mlp"]),
        ("1.x", True, 2, ["0.activated", "0.mlp", "0.out", "1.mlp"]),
        ("2.0", True, 2, ["0.activated", "0.mlp", "0.out", "1.mlp"]),
        ("2.0", False, 2, ["0.activated", "0.out"]),
    ],
)
def test_where_a_release_has_activations(release: str, mlp: bool, layers: int, wanted: list[str]) -> None:
    changed = {"use_channel_mlp": mlp} if release == "2.0" else {}
    network = read(release, kernel_of(4, 3), settings(release, **changed), layers=layers, mlp=mlp)
    heard = Heard()
    network(torch.zeros(1, 1, 8, 8), listener=heard)
    names = [name.removeprefix("block") for name in heard.activations if name.startswith("block")]
    assert [name.split(".activated")[0] if ".mlp" in name else name for name in names] == wanted


def test_the_perceptron_of_the_first_release_ends_with_an_activation() -> None:
    tensors = state("0.2", kernel_of(4, 3), mlp=True, skip=1.0)
    # The perceptron passes its input on: between it and the sum stand two activations.
    fields = torch.tensor([-1.0, 2.0, 0.5, 0.0]).view(1, 1, 2, 2).repeat(1, 1, 2, 2)
    wanted = torch.nn.functional.gelu(torch.nn.functional.gelu(fields))
    found = answer(read_neuralop(tensors, None, where="m.pt"), fields)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("release", RELEASES)
def test_skips(release: str) -> None:
    fields = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    gated = answer(read(release, kernel_of(4, 3), skip=-1.5), fields)
    torch.testing.assert_close(gated, -1.5 * fields, atol=1e-5, rtol=0)
    same = read(release, kernel_of(4, 3), settings(release, fno_skip="identity"), skip=None)
    torch.testing.assert_close(answer(same, fields), fields, atol=1e-5, rtol=0)


def two_channels(skip: Tensor) -> dict[str, Tensor]:
    """Release 0.3 without spectral weights other than 0, with the biases 3 and -3."""
    ends = {"lifting.fcs.0": 0.0, "projection.fcs.0": FAR, "projection.fcs.1": -FAR}
    tensors = {f"{name}.weight": torch.eye(2)[..., None, None] for name in ends}
    tensors |= {f"{name}.bias": torch.full((2,), bias) for name, bias in ends.items()}
    tensors["fno_blocks.convs.bias"] = torch.tensor([[3.0, -3.0]])[..., None, None]
    tensors["fno_blocks.convs.weight.0.tensor"] = torch.zeros(2, 2, 2, 2, 2)
    tensors["fno_blocks.fno_skips.0.weight"] = skip[..., None, None]
    return tensors


@pytest.mark.parametrize(
    ("skip", "matrix"),
    [
        (torch.tensor([[0.0, 2.0], [1.0, 0.0]]),) * 2,
        (torch.tensor([[3.0, -1.0]]), torch.diag(torch.tensor([3.0, -1.0]))),
    ],
)
def test_skips_of_two_channels_beside_a_group_norm_of_both(skip: Tensor, matrix: Tensor) -> None:
    norm = {"weight": torch.tensor([1.0, 2.0]), "bias": torch.tensor([0.5, 0.0])}
    tensors = two_channels(skip) | {f"fno_blocks.norm.0.{name}": value for name, value in norm.items()}
    fields = torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(2))
    # Of both channels together, the biases 3 and -3 have mean 0 and standard deviation 3.
    wanted = torch.einsum("oi,bixy->boxy", matrix, fields) + torch.tensor([1.5, -2.0]).view(1, 2, 1, 1)
    found = answer(read_neuralop(tensors, None, where="m.pt"), fields)
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=0)


def test_instance_normalisation_takes_each_channel_alone() -> None:
    recorded = settings("0.3", (2, 2), norm="instance_norm", in_channels=2)
    network = read_neuralop(two_channels(torch.zeros(1, 2)), recorded, where="m.pt")
    # Each of the biases is the mean of its channel.
    assert answer(network, torch.zeros(1, 2, 6, 6)).abs().max() < 1e-5


@pytest.mark.parametrize(("release", "mlp", "wanted"), [("0.3", False, 1), ("0.3", True, 2), ("2.0", False, 2)])
def test_norms_belong_to_their_blocks(release: str, mlp: bool, wanted: int) -> None:
    tensors = state(release, kernel_of(4, 3), layers=3, mlp=mlp)
    for number in range(3 * wanted):
        tensors[f"fno_blocks.norm.{number}.weight"] = torch.tensor([float(number)])
        tensors[f"fno_blocks.norm.{number}.bias"] = torch.zeros(1)
    changed = {"use_channel_mlp": mlp} if release == "2.0" else {}
    network = read_neuralop(tensors, settings(release, norm="group_norm", **changed), where="m.pt")
    norms: list[Any] = [norm for block in network.blocks for norm in (block.norm, block.norm_out) if norm is not None]
    assert [norm.scale.item() for norm in norms] == list(range(3 * wanted))


def test_no_skip_at_all_is_known_in_release_2_only() -> None:
    kernel = kernel_of(4, 3)
    bare = read("2.0", kernel, settings("2.0", fno_skip=None), skip=None)
    assert answer(bare, torch.ones(1, 1, 8, 8)).abs().max() < 1e-5
    assert "fno_skip" in refused("1.x", state("1.x", kernel, skip=None), settings("1.x", fno_skip=None)).where
    assert "identity" in refused("", state("2.0", kernel, skip=None), None).message
    assert answer(read("0.3", kernel, None, skip=None), torch.ones(1, 1, 8, 8)).mean() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("release", ["0.3", "1.x", "2.0"])
def test_instance_normalisation_is_told_by_the_metadata(release: str) -> None:
    kernel = kernel_of(4, 3)
    kernel[0, 0, 3, 1] = 3
    fields = 5 * wave((8, 8), (1, 1))
    found = answer(read(release, kernel, settings(release, norm="instance_norm")), fields)
    torch.testing.assert_close(found, math.sqrt(2) * wave((8, 8), (1, 1)), atol=1e-4, rtol=0)


def test_the_stabiliser_squashes_the_input_of_the_spectrum_but_not_of_the_skip() -> None:
    kernel = kernel_of(4, 3)
    kernel[0, 0, 2, 0] = 1
    network = read("2.0", kernel, settings("2.0", stabilizer="tanh"), skip=1.0)
    found = answer(network, torch.full((1, 1, 8, 8), 2.0))
    torch.testing.assert_close(found, torch.full((1, 1, 8, 8), 2 + math.tanh(2)), atol=1e-5, rtol=0)


# What the metadata tell.


@pytest.mark.parametrize(
    ("release", "changed", "wanted"),
    [
        ("0.3", {"domain_padding": 0.25}, Padding(amounts=(0.25, 0.25), fraction=True)),
        ("1.x", {"domain_padding": 1}, Padding(amounts=(1.0, 1.0), fraction=True)),
        ("1.x", {"domain_padding": [0.1, 0.0], "domain_padding_mode": "Symmetric"},
         Padding(amounts=(0.1, 0.0), fraction=True, symmetric=True)),
        ("2.0", {"domain_padding": 0.5}, Padding(amounts=(0.5, 0.5), fraction=True, symmetric=True)),
        ("2.0", {"domain_padding": (0.5, 0.5)}, Padding()),
        ("2.0", {"domain_padding": None}, Padding()),
        ("2.0", {"domain_padding": [0, 0]}, Padding()),
    ],
)  # fmt: skip
def test_padding(release: str, changed: dict[str, object], wanted: Padding) -> None:
    assert read(release, kernel_of(4, 3), settings(release, **changed)).layout.padding == wanted


def test_a_given_padding_comes_before_that_of_the_metadata() -> None:
    given = Padding(amounts=(2, 2))
    network = read("2.0", kernel_of(4, 3), settings("2.0", domain_padding=0.5), padding=given)
    assert network.layout.padding == given
    assert read("0.2", kernel_of(4, 3), padding=given).layout.padding == given
    error = refused("2.0", state("2.0", kernel_of(4, 3)), None, padding=Padding(amounts=(2,)))
    assert "1 amounts" in error.message


@pytest.mark.parametrize(
    ("release", "metadata", "words", "coordinates", "fields"),
    [
        ("0.2", None, "neuralop 0.2 (dense)", "none", 1),
        ("0.3", None, "neuralop 0.3 (dense, no metadata)", "none", 1),
        ("1.x", settings("1.x"), "neuralop 1.x (dense)", "open", 1),
        ("2.0", settings("2.0"), "neuralop 2.0 (dense)", "open", 1),
        ("2.0", {"_name": "TFNO", "args": ((4, 4), 1, 1, 1)}, "neuralop 2.0 (dense)", "open", 1),
        ("2.0", {}, "neuralop 1.x or 2.0 (dense)", "open", 1),
        ("2.0", None, "neuralop 1.x or 2.0 (dense, no metadata)", "open", 1),
        ("2.0", settings("2.0", in_channels=3, positional_embedding=None), "neuralop 2.0 (dense)", "none", 3),
        ("2.0", settings("2.0", in_channels=None, positional_embedding=None), "neuralop 2.0 (dense)", "none", 3),
    ],
)
def test_release_fields_and_coordinates(
    release: str, metadata: object, words: str, coordinates: str, fields: int
) -> None:
    layout = read(release, kernel_of(4, 3), metadata).layout
    found = (layout.family, layout.release, layout.coordinates, layout.fields)
    assert found == ("neuralop", words, coordinates, fields)


def test_tensors_that_take_no_more_channels_than_there_are_axes_get_no_coordinates() -> None:
    tensors = state("2.0", kernel_of(4, 3))
    tensors["lifting.fcs.0.weight"] = torch.ones(1, 2, 1)
    layout = read_neuralop(tensors, None, where="m.pt").layout
    assert (layout.coordinates, layout.fields) == ("none", 2)


def test_a_mended_shift_is_told_in_words() -> None:
    assert "mended" in read("2.0", kernel_of(4, 3), fixed_shift=True).layout.release
    assert "separable" in read_neuralop(separable("2.0"), settings("2.0"), where="m.pt").layout.release


def separable(release: str) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = state(release, kernel_of(4, 3))
    return {name: value[0] if name.endswith("tensor") else value for name, value in tensors.items()}


@pytest.mark.parametrize(
    ("name", "args"),
    [("FNO", ((4, 4), 1, 1, 1)), ("FNO2d", (4, 4, 1, 1)), ("TFNO2d", (4, 4))],
)
def test_arguments_given_by_place_come_before_the_defaults_recorded_beside_them(name: str, args: object) -> None:
    recorded = settings("1.x", _name=name, args=args, n_modes=None)
    if name == "FNO":
        recorded = settings("1.x", args=args, n_modes=(6, 6), in_channels=3)
    layout = read("1.x", kernel_of(4, 3), recorded).layout
    assert (layout.fields, layout.coordinates) == (1, "open")


@pytest.mark.parametrize(
    ("release", "changed"),
    [
        ("2.0", {"preactivation": True}),
        ("2.0", {"complex_data": True}),
        ("0.3", {"joint_factorization": True}),
        ("2.0", {"non_linearity": torch.nn.functional.relu}),
        ("2.0", {"non_linearity": "gelu"}),
        ("1.x", {"conv_module": torch.nn.Linear}),
        ("0.3", {"SpectralConv": "SphericalConv"}),
        ("2.0", {"norm": "batch_norm"}),
        ("1.x", {"norm": "ada_in"}),
        ("2.0", {"positional_embedding": torch.ones(2)}),
        ("2.0", {"fno_block_precision": "half"}),
        ("1.x", {"fno_block_precision": "mixed"}),
        ("2.0", {"resolution_scaling_factor": 2}),
        ("1.x", {"resolution_scaling_factor": [1, [0.5, 1]]}),
        ("0.3", {"output_scaling_factor": "2"}),
        ("2.0", {"_name": "SFNO"}),
        ("2.0", {"_name": ["FNO"]}),
        ("2.0", {"args": ((4, 4), 1, 1, 1, 4)}),
        ("2.0", {"args": 4}),
        ("2.0", {"in_channels": 2}),
        ("0.3", {"in_channels": 3}),
        ("2.0", {"in_channels": 0}),
        ("2.0", {"out_channels": 3}),
        ("2.0", {"hidden_channels": 3}),
        ("2.0", {"n_layers": 3}),
        ("2.0", {"n_modes": (4, 6)}),
        ("2.0", {"n_modes": (4, 4, 4)}),
        ("2.0", {"n_modes": (4, "4")}),
        ("2.0", {"n_modes": (4, -4)}),
        ("2.0", {"max_n_modes": (4, 4)}),
        ("2.0", {"max_n_modes": (4, 3), "n_modes": (8, 4)}),
        ("2.0", {"domain_padding": [0.1]}),
        ("2.0", {"domain_padding": [0.1, -0.1]}),
        ("2.0", {"domain_padding": 1e9}),
        ("2.0", {"domain_padding": math.nan}),
        ("1.x", {"domain_padding": 0.1, "domain_padding_mode": "reflect"}),
        ("2.0", {"use_channel_mlp": False}),
        ("0.3", {"use_mlp": True}),
    ],
)
def test_settings_that_cannot_be_reproduced(release: str, changed: dict[str, object]) -> None:
    error = refused(release, state(release, kernel_of(4, 3)), settings(release, **changed))
    key = error.where.removeprefix("m.pt, metadata, key ")
    assert key in changed and error.message.startswith(f"{key} is ")


def test_settings_without_effect_are_no_reason_to_refuse() -> None:
    spectral, gelu = (name for name, _ in STANDINS)
    for release in ("0.3", "1.x", "2.0"):
        factor = "output_scaling_factor" if release == "0.3" else "resolution_scaling_factor"
        changed: dict[str, object] = {"non_linearity": gelu, factor: [1, [1.0, 1.0]], "stabilizer": "other", "rank": 9}
        changed |= {"SpectralConv": spectral, "fno_block_precision": "half"} if release == "0.3" else {}
        read(release, kernel_of(4, 3), settings(release, **changed))
    read("2.0", kernel_of(4, 3), settings("2.0", non_linearity=torch.nn.functional.gelu, conv_module=spectral))


@pytest.mark.parametrize(
    ("release", "name", "value", "message"),
    [
        ("2.0", "fno_blocks.0.convs.0.weight.tensor", torch.ones(1), "UNO"),
        ("0.3", "fno_blocks.convs.weight.core", torch.ones(1), "joint_factorization"),
        ("2.0", "fno_blocks.norm.0.norm.running_mean", torch.ones(1), "batch_norm"),
        ("2.0", "fno_blocks.norm.0.mlp.0.weight", torch.ones(1), "ada_in"),
        ("2.0", "lifting.fr.fcs.0.weight", torch.ones(1), "complex_data"),
        ("2.0", "projection.fcs.0.weight", torch.ones(1, 1, 1) + 0j, "complex_data"),
        ("2.0", "lifting.fcs.0.weight", torch.ones(1, 3, 1, dtype=torch.float16), "float16"),
        ("2.0", "lifting.fcs.0.bias", torch.tensor([math.nan]), "not finite"),
        ("2.0", "fno_blocks.fno_skips.0.weight", torch.ones(1).expand(2**15, 2**15, 1), "at most"),
        ("2.0", "fno_blocks.fno_skips.0.weight", torch.tensor(1.0), "no matrix"),
        ("2.0", "fno_blocks.fno_skips.7.weight", torch.ones(1, 1, 1, 1), "Nothing is known"),
        ("2.0", "gno.weight", torch.ones(1), "Nothing is known"),
        ("2.0", "fno_blocks.convs.2.weight.tensor", torch.ones(1, 1, 4, 3) + 0j, "numbered"),
        ("2.0", "fno_blocks.convs.0.weight.tensor", torch.ones(2, 1, 4, 3) + 0j, "does not fit"),
        ("2.0", "fno_blocks.convs.0.weight.tensor", torch.ones(1, 1, 0, 3) + 0j, "does not fit"),
        ("2.0", "fno_blocks.convs.0.weight.tensor", torch.ones(1, 3) + 0j, "does not fit"),
        ("2.0", "fno_blocks.convs.0.weight.other", torch.ones(1) + 0j, "no dense, Tucker"),
        ("2.0", "fno_blocks.convs.0.bias", torch.ones(1), "grid of 1 to 3 axes"),
        ("0.3", "fno_blocks.convs.bias", torch.ones(2, 1, 1, 1), "layers"),
        ("0.2", "fno_blocks.convs.weight.1.tensor", torch.ones(1, 1, 3, 3, 2), "differ in shape"),
        ("0.2", "fno_blocks.convs.weight.2.tensor", torch.ones(1, 1, 2, 3, 2), "layers"),
        ("0.3", "fno_blocks.norm.0.weight", torch.ones(3), "norm"),
        ("0.3", "lifting.fcs.0.weight", torch.ones(2, 1, 1, 1), "channels"),
    ],
)
def test_tensors_that_cannot_be_reproduced(release: str, name: str, value: Tensor, message: str) -> None:
    assert message in refused(release, {**state(release, kernel_of(4, 3)), name: value}, None).message


def test_what_the_tensors_alone_leave_open_is_refused() -> None:
    kernel = kernel_of(3, 3)
    assert "1.x than in 2.0" in refused("", state("2.0", kernel), None).message
    assert read("2.0", kernel, None, fixed_shift=True).modes == (1, 2)
    assert "separable" in refused("0.3", separable("0.3"), settings("0.3")).message
    tensors = state("2.0", kernel_of(4, 3), layers=2)
    del tensors["fno_blocks.channel_mlp.1.fcs.1.weight"], tensors["fno_blocks.channel_mlp.1.fcs.1.bias"]
    del tensors["fno_blocks.convs.1.bias"]
    assert "no fno_blocks.convs.1.bias" in refused("2.0", tensors, None).message


def test_names() -> None:
    assert is_neuralop(state("0.2", kernel_of(4, 3))) and not is_neuralop({"conv0.weights1": torch.ones(1)})


# Files: names are read, and nothing can be done with them.


def pickled(path: Path, program: bytes) -> Path:
    torch.save({}, path)
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, program if name.endswith("data.pkl") else content)
    return path


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("action", [b")R", b"K\x01\x85R", b")\x81", b")\x81}b", b"}b", b"K\x01K\x02\x86b"])
def test_a_file_can_name_but_never_use_what_stands_in(tmp_path: Path, place: int, action: bytes) -> None:
    module, _, name = STANDINS[place][1].rpartition(".")
    named = b"\x80\x02c" + f"{module}\n{name}\n".encode()
    file = pickled(tmp_path / "m.pt", named + b".")
    assert read_pickle(file, standins=STANDINS) is STANDINS[place][0]
    with pytest.raises(InputError, match=name):
        read_pickle(file)
    with pytest.raises(InputError) as caught:
        read_pickle(pickled(tmp_path / "m.pt", named + action + b"."), standins=STANDINS)
    assert caught.value.where == str(file)
    assert not vars(STANDINS[place][0]).keys() - {"__module__", "__doc__", "path"}


def test_other_names_stay_refused(tmp_path: Path) -> None:
    file = pickled(tmp_path / "m.pt", b"\x80\x02cneuralop.layers.spherical_convolution\nSphericalConv\n.")
    with pytest.raises(InputError, match="SphericalConv"):
        read_pickle(file, standins=STANDINS)
