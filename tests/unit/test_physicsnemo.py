"""Are PhysicsNeMo's archives read for what they hold, and hostile ones for nothing?"""

import io
import itertools
import json
import math
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from probes.core.errors import InputError
from probes.operators.fno.layers import Padding
from probes.operators.fno.physicsnemo import read_physicsnemo

Tensors = dict[str, Tensor]
META = {"physicsnemo_version": "2.2.2", "mdlus_file_version": "0.1.0"}
BASE = {
    "in_channels": 2, "out_channels": 3, "latent_channels": 6, "num_fno_layers": 2, "num_fno_modes": 3,
    "decoder_layer_size": 5, "padding": 2,
}  # fmt: skip


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self.path}",)


def arguments(**changes: object) -> dict[str, Any]:
    return {"__name__": "FNO", "__module__": "physicsnemo.models.fno.fno", "__args__": {**BASE, **changes}}


def weights(args: dict[str, Any]) -> Tensors:
    """Tensors of a model, as its arguments ask for them."""
    told = {"dimension": 2, "decoder_layers": 1, "coord_features": True} | args["__args__"]
    axes, width = told["dimension"], told["latent_channels"]
    modes = told["num_fno_modes"] if isinstance(told["num_fno_modes"], list) else [told["num_fno_modes"]] * axes
    generator = torch.Generator().manual_seed(axes)
    tensors: Tensors = {"device_buffer": torch.empty(0), "spec_encoder.device_buffer": torch.empty(0)}

    def layer(name: str, out: int, channels: int, ones: int) -> None:
        size = (out, channels, *[1] * ones)
        tensors[f"{name}.weight"] = torch.randn(*size, generator=generator) / math.sqrt(channels)
        tensors[f"{name}.bias"] = torch.randn(out, generator=generator) / 2

    layer("spec_encoder.lift_network.0.conv", width // 2, told["in_channels"] + axes * told["coord_features"], axes)
    layer("spec_encoder.lift_network.2.conv", width, width // 2, axes)
    for place in range(told["num_fno_layers"]):
        layer(f"spec_encoder.conv_layers.{place}", width, width, axes)
        for corner in range(2 ** (axes - 1)):
            values = torch.randn(width, width, *modes[:axes], 2, generator=generator)
            tensors[f"spec_encoder.spconv_layers.{place}.weights{corner + 1}"] = values
    size = width
    for place in range(told["decoder_layers"]):
        layer(f"decoder_net.layers.{place}.linear", told["decoder_layer_size"], size, 0)
        size = told["decoder_layer_size"]
    layer("decoder_net.final_layer.linear", told["out_channels"], size, 0)
    return tensors


def saved(content: object) -> bytes:
    target = io.BytesIO()
    torch.save(content, target)
    return target.getvalue()


def members(args: object, content: object, meta: object = META) -> dict[str, bytes]:
    return {
        "args.json": json.dumps(args).encode(),
        "metadata.json": json.dumps(meta).encode(),
        "model.pt": saved(content),
    }


def packed(path: Path, files: dict[str, bytes], *, tar: bool = False) -> Path:
    if tar:
        with tarfile.open(path, "w") as archive:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    return path


def point(tensors: Tensors, name: str, x: Tensor) -> Tensor:
    bias = tensors[f"{name}.bias"].view(1, -1, *[1] * (x.dim() - 2))
    return torch.einsum("oi,ni...->no...", tensors[f"{name}.weight"].flatten(1), x) + bias


def plain(
    tensors: Tensors,
    x: Tensor,
    pad: list[int],
    acts: tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] = (functional.gelu, functional.silu),
    *,
    coordinates: bool = True,
    mode: str = "constant",
) -> Tensor:
    """The library's forward pass, with whole transforms."""
    act, decoder_act = acts
    sizes, axes = x.shape[2:], tuple(range(2, x.dim()))
    if coordinates:
        places = torch.meshgrid(*[torch.linspace(0, 1, size) for size in sizes], indexing="ij")
        x = torch.cat([x, torch.stack(places).expand(len(x), -1, *sizes)], dim=1)
    x = point(tensors, "spec_encoder.lift_network.0.conv", x)
    x = point(tensors, "spec_encoder.lift_network.2.conv", act(x))
    x = functional.pad(x, [cells for end in reversed(pad) for cells in (0, end)], mode=mode)
    count = sum(name.endswith("weights1") for name in tensors)
    for place in range(count):
        hat = torch.fft.fftn(x, dim=axes)[..., : x.shape[-1] // 2 + 1]
        out = torch.zeros_like(hat)
        for corner, signs in enumerate(itertools.product((1, -1), repeat=len(axes) - 1)):
            pairs = tensors[f"spec_encoder.spconv_layers.{place}.weights{corner + 1}"]
            weight = torch.complex(pairs[..., 0], pairs[..., 1])
            ends = [
                slice(0, modes) if sign > 0 else slice(-modes, None)
                for sign, modes in zip(signs[::-1], weight.shape[2:-1], strict=True)
            ]
            here = (slice(None), slice(None), *ends, slice(0, weight.shape[-1]))
            out[here] = torch.einsum("ni...,io...->no...", hat[here], weight)
        y = torch.fft.irfftn(out, s=x.shape[2:], dim=axes) + point(tensors, f"spec_encoder.conv_layers.{place}", x)
        x = act(y) if place < count - 1 else y
    x = x[(..., *[slice(0, size) for size in sizes])]
    for place in range(sum(name.startswith("decoder_net.layers") and name.endswith("weight") for name in tensors)):
        x = decoder_act(point(tensors, f"decoder_net.layers.{place}.linear", x))
    return point(tensors, "decoder_net.final_layer.linear", x)


def close(got: Tensor, wanted: Tensor) -> None:
    assert got.shape == wanted.shape
    assert float((got - wanted).abs().max()) < 1e-5 * max(1.0, float(wanted.abs().max()))


@pytest.mark.parametrize("tar", [False, True])
@pytest.mark.parametrize(
    ("changes", "sizes", "pad"),
    [
        ({"dimension": 1}, (12,), [2]),
        ({"dimension": 1, "num_fno_modes": [4]}, (13,), [2]),
        ({}, (10, 10), [2, 2]),
        ({"padding": [3], "num_fno_modes": [4, 2]}, (9, 12), [3, 0]),
        ({"padding": [0, 5, 7], "num_fno_layers": 1, "decoder_layers": 3}, (11, 8), [0, 5]),
        ({"dimension": 3, "padding": 1}, (6, 7, 8), [1, 1, 1]),
        ({"coord_features": False, "decoder_layers": 0}, (8, 9), [2, 2]),
    ],
)
def test_forward_is_that_of_the_library(
    tmp_path: Path, changes: dict[str, Any], sizes: tuple[int, ...], pad: list[int], tar: bool
) -> None:
    args = arguments(**changes)
    tensors = weights(args)
    operator = read_physicsnemo(packed(tmp_path / "m.mdlus", members(args, tensors), tar=tar))
    x = torch.randn(2, 2, *sizes, generator=torch.Generator().manual_seed(1))
    told = changes.get("coord_features", True)
    assert operator.layout.coordinates == ("closed" if told else "none")
    assert (operator.layout.fields, operator.layout.release) == (2, "PhysicsNeMo 2.2.2")
    with torch.no_grad():
        # The library's coordinates include both ends, wherever the nodes of the data lie.
        close(operator(x, "open"), plain(tensors, x, pad, coordinates=told))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", functional.relu),
        ("Tanh", torch.tanh),
        ("leaky_relu", lambda x: torch.where(x > 0, x, x / 10)),
        ("sin", torch.sin),
        ("identity", lambda x: x),
        ("squareplus", lambda x: 0.5 * (x + (x**2 + 4) ** 0.5)),
        ("threshold", lambda x: torch.where(x > 1, x, torch.ones_like(x))),
        ("celu", functional.celu),
    ],
)
def test_activations_have_the_librarys_names(tmp_path: Path, name: str, function: Callable[[Tensor], Tensor]) -> None:
    args = arguments(activation_fn=name, decoder_activation_fn="relu")
    tensors, x = weights(args), torch.randn(1, 2, 9, 8, generator=torch.Generator().manual_seed(2))
    operator = read_physicsnemo(packed(tmp_path / "m.mdlus", members(args, tensors)))
    with torch.no_grad():
        close(operator(x), plain(tensors, x, [2, 2], (function, functional.relu)))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_has_the_mode_of_the_archive(tmp_path: Path, mode: str) -> None:
    args = arguments(padding_type=mode)
    tensors, x = weights(args), torch.randn(1, 2, 9, 8, generator=torch.Generator().manual_seed(3))
    path = packed(tmp_path / "m.mdlus", members(args, tensors))
    with torch.no_grad():
        close(read_physicsnemo(path)(x), plain(tensors, x, [2, 2], mode=mode))
        other = read_physicsnemo(path, padding=Padding(amounts=(3, 1)))
        close(other(x), plain(tensors, x, [3, 1], mode=mode))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"dimension": 4}, "dimension is 4"),
        ({"dimension": "2"}, "dimension is '2'"),
        ({"activation_fn": "stan"}, "activation_fn is 'stan'"),
        ({"decoder_activation_fn": ["relu"]}, "decoder_activation_fn"),
        ({"weight_norm": True}, "weight_norm is True"),
        ({"padding": -1}, "padding is -1"),
        ({"padding": [1.5]}, "padding is"),
        ({"padding_type": "mirror"}, "padding_type is 'mirror'"),
        ({"coord_features": 1}, "coord_features is 1"),
        ({"num_fno_modes": [3, 4]}, "num_fno_modes"),
        ({"in_channels": None}, "in_channels is None"),
        ({"num_fno_layers": 10**18}, "num_fno_layers is 1000"),
    ],
)
def test_what_cannot_be_reproduced_is_named(tmp_path: Path, change: dict[str, Any], key: str) -> None:
    path = packed(tmp_path / "m.mdlus", members(arguments(**change), weights(arguments())))
    with pytest.raises(InputError, match=key) as refused:
        read_physicsnemo(path)
    assert "args.json, key " + next(iter(change)) in refused.value.where


@pytest.mark.parametrize(
    ("args", "meta", "told"),
    [
        ({"__name__": "AFNO", "__args__": {}}, META, "__name__ is 'AFNO'"),
        ({"__name__": "FNO"}, META, "__args__ is None"),
        ([1], META, "list, not an object"),
        (arguments(), {"mdlus_file_version": "9.0"}, "mdlus_file_version is '9.0'"),
    ],
)
def test_other_models_and_versions_are_refused(tmp_path: Path, args: object, meta: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_physicsnemo(packed(tmp_path / "m.mdlus", members(args, weights(arguments()), meta)))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"spec_encoder.conv_layers.1.weight": None}, "no spec_encoder.conv_layers.1"),
        ({"spec_encoder.conv_layers.1.weight": torch.zeros(6, 4, 1, 1)}, "maps 4 to 6"),
        ({"decoder_net.final_layer.linear.weight": torch.zeros(2, 5)}, "maps 5 to 2"),
        ({"extra.weight": torch.zeros(2)}, "extra.weight"),
        ({"extra": torch.zeros(1).expand(10**6)}, "more than are stored"),
        ({"note": "text"}, "something else than tensors"),
    ],
)
def test_weights_that_contradict_the_arguments_are_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    tensors = {name: value for name, value in (weights(arguments()) | change).items() if value is not None}
    with pytest.raises(InputError, match=told) as refused:
        read_physicsnemo(packed(tmp_path / "m.mdlus", members(arguments(), tensors)))
    assert "model.pt" in refused.value.where


@pytest.mark.parametrize("tar", [False, True])
def test_code_in_the_weights_is_not_run(tmp_path: Path, tar: bool) -> None:
    trap = tmp_path / "trap"
    content = {"a": torch.zeros(1), "b": Touch(trap)}
    with pytest.raises(InputError, match="refused"):
        read_physicsnemo(packed(tmp_path / "m.mdlus", members(arguments(), content), tar=tar))
    assert not trap.exists()


@pytest.mark.parametrize("tar", [False, True])
@pytest.mark.parametrize("missing", ["args.json", "metadata.json", "model.pt"])
def test_missing_members_are_told(tmp_path: Path, tar: bool, missing: str) -> None:
    files = members(arguments(), {})
    # A path that leads elsewhere is not the member of that name.
    files[f"../{missing}"] = files.pop(missing)
    with pytest.raises(InputError, match=f"holds no {missing}"):
        read_physicsnemo(packed(tmp_path / "m.mdlus", files, tar=tar))


def test_large_and_broken_text_is_refused(tmp_path: Path) -> None:
    good = members(arguments(), weights(arguments()))
    for data, told in ((b" " * (2 << 20), "more than"), (b"{", "not JSON"), (b"\xff", "not UTF-8"), (b"3", "int, not")):
        with pytest.raises(InputError, match=told):
            read_physicsnemo(packed(tmp_path / "m.mdlus", good | {"args.json": data}))


def test_compressed_crowded_and_doubled_archives_are_refused(tmp_path: Path) -> None:
    good = members(arguments(), weights(arguments()))
    path = tmp_path / "m.mdlus"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in good:
            archive.writestr(name, b"0" * 5_000_000)
    with pytest.raises(InputError, match="compressed"):
        read_physicsnemo(path)
    crowd = {f"{place}": b"" for place in range(1100)}
    for tar in (False, True):
        with pytest.raises(InputError, match="more than 1000"):
            read_physicsnemo(packed(path, crowd | good, tar=tar))
    with tarfile.open(path, "w") as archive:
        for name in ("args.json", "args.json"):
            archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(InputError, match="twice"):
        read_physicsnemo(path)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "w") as doubled:
        for name in ("args.json", "args.json"):
            doubled.writestr(name, b"")
    with pytest.raises(InputError, match="twice"):
        read_physicsnemo(path)


def test_a_zip_that_readers_see_differently_is_refused(tmp_path: Path) -> None:
    good = packed(tmp_path / "m.mdlus", members(arguments(), weights(arguments()))).read_bytes()
    for data in (b"before it" + good, good + b"behind it", good.replace(b"args.json", b"ARGS.json", 1)):
        path = tmp_path / "other.mdlus"
        path.write_bytes(data)
        with pytest.raises(InputError):
            read_physicsnemo(path)
    read_physicsnemo(tmp_path / "m.mdlus")


def test_links_and_lying_sizes_in_a_tar_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(arguments()))
    path = tmp_path / "m.mdlus"
    files = members(arguments(), weights(arguments()))
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            if name == "args.json":
                entry.type, entry.linkname = tarfile.SYMTYPE, str(secret)
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    with pytest.raises(InputError, match=r"holds no args\.json"):
        read_physicsnemo(path)
    blocks = b""
    for name in ("args.json", "metadata.json"):
        entry = tarfile.TarInfo(name)
        entry.size = len(files[name])
        blocks += entry.tobuf() + files[name].ljust(512, b"\0")
    liar = tarfile.TarInfo("model.pt")
    liar.size = 1 << 40
    path.write_bytes(blocks + liar.tobuf() + bytes(2048))
    with pytest.raises(InputError, match=r"damaged|would be 1099511627776 bytes"):
        read_physicsnemo(path)


def test_damaged_archives_are_refused_wherever_they_are_cut(tmp_path: Path) -> None:
    for tar in (False, True):
        whole = packed(tmp_path / "whole.mdlus", members(arguments(), weights(arguments())), tar=tar).read_bytes()
        for kept in (0, 100, 700, len(whole) // 2):
            path = tmp_path / "cut.mdlus"
            path.write_bytes(whole[:kept])
            with pytest.raises(InputError):
                read_physicsnemo(path)
    flipped = bytearray(packed(tmp_path / "zip.mdlus", members(arguments(), weights(arguments()))).read_bytes())
    flipped[len(flipped) // 3] ^= 0xFF
    path.write_bytes(flipped)
    with pytest.raises(InputError, match="damaged"):
        read_physicsnemo(path)


def test_what_goes_wrong_with_the_weights_is_not_called_a_damaged_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a defect of our own")

    monkeypatch.setattr("probes.operators.fno.physicsnemo.read_pickle", fail)
    with pytest.raises(RuntimeError, match="of our own"):
        read_physicsnemo(packed(tmp_path / "m.mdlus", members(arguments(), weights(arguments()))))
