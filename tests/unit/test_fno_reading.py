"""Is every checkpoint of a Fourier neural operator told for what it is, or refused with a way out?"""

import io
import json
import math
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.operators.fno.layers import Padding
from probes.operators.fno.reading import Loaded, fit_fields, load_operator

Tensors = dict[str, Tensor]
X = torch.randn(1, 1, 12, 13, generator=torch.Generator().manual_seed(0))


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self.path}",)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) / math.sqrt(shape[1] if shape[1:] else 4)


def li(fields: int = 1, axes: int = 2) -> Tensors:
    ones = (1,) * axes
    tensors = {"fc0.weight": noise(4, fields + axes), "fc0.bias": noise(4)}
    for place in range(2):
        for corner in range(2 ** (axes - 1)):
            pairs = noise(4, 4, *(2,) * axes, 2, seed=corner + 10 * place)
            tensors[f"conv{place}.weights{corner + 1}"] = torch.view_as_complex(pairs)
        tensors |= {f"w{place}.weight": noise(4, 4, *ones, seed=place), f"w{place}.bias": noise(4, seed=place)}
    return tensors | {"fc1.weight": noise(6, 4), "fc1.bias": noise(6), "fc2.weight": noise(1, 6), "fc2.bias": noise(1)}


def neuralop(fields: int, *, late: bool) -> Tensors:
    """A network of two blocks in the names of release 0.3, or 1 and later."""
    tensors: Tensors = {}
    for name, (out, channels) in {"lifting.fcs.0": (6, fields), "lifting.fcs.1": (4, 6)}.items():
        tensors |= {f"{name}.weight": noise(out, channels, *((1,) if late else (1, 1))), f"{name}.bias": noise(out)}
    for name, (out, channels) in {"projection.fcs.0": (6, 4), "projection.fcs.1": (1, 6)}.items():
        tensors |= {f"{name}.weight": noise(out, channels, *((1,) if late else (1, 1))), f"{name}.bias": noise(out)}
    for place in range(2):
        pairs, head = noise(4, 4, 4, 3, 2, seed=place), "fno_blocks"
        if late:
            tensors[f"{head}.convs.{place}.weight.tensor"] = torch.view_as_complex(pairs)
            tensors[f"{head}.convs.{place}.bias"] = noise(4, 1, 1)
            tensors[f"{head}.fno_skips.{place}.conv.weight"] = noise(4, 4, 1)
            for layer, size in ((0, (2, 4, 1)), (1, (4, 2, 1))):
                tensors[f"{head}.channel_mlp.{place}.fcs.{layer}.weight"] = noise(*size)
                tensors[f"{head}.channel_mlp.{place}.fcs.{layer}.bias"] = noise(size[0])
            tensors[f"{head}.channel_mlp_skips.{place}.weight"] = noise(1, 4, 1, 1)
        else:
            tensors[f"{head}.convs.weight.{place}.tensor"] = pairs
            tensors[f"{head}.fno_skips.{place}.weight"] = noise(4, 4, 1, 1)
    return tensors if late else tensors | {"fno_blocks.convs.bias": noise(2, 4, 1, 1)}


def kept(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path


def values(loaded: Loaded, x: Tensor = X) -> Tensor:
    with torch.no_grad():
        y: Tensor = loaded.operator(x, "closed")
    return y


def refuse(path: Path, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        load_operator(path, **options)
    assert caught.value.hint
    return caught.value


def test_every_wrapper_holds_the_same_network(tmp_path: Path) -> None:
    tensors = li()
    wanted = load_operator(kept(tmp_path / "bare", tensors))
    assert wanted.family == "li" and wanted.operator.layout.padding == Padding(amounts=(9, 9))
    assert wanted.parameters == sum(value.numel() * (1 + value.is_complex()) for value in tensors.values())
    assert not wanted.operator.training and not any(value.requires_grad for value in wanted.operator.parameters())
    parallel = {f"module.{name}": value for name, value in tensors.items()}
    pdebench = {"epoch": 3, "model_state_dict": tensors, "optimizer_state_dict": {"state": {}}, "loss": 0.5}
    for name, content in {
        "ordered.pt": OrderedDict(tensors),
        "state.pt": {"state_dict": tensors, "epoch": 7},
        "model.ckpt": {"model": tensors},
        "net": {"net": parallel},
        "compiled.pth": {f"_orig_mod.module.{key}": value for key, value in tensors.items()},
    }.items():
        loaded = load_operator(kept(tmp_path / name, content))
        assert loaded.family == "li" and torch.equal(values(loaded), values(wanted))
    save_file(tensors, tmp_path / "weights.safetensors")
    assert torch.equal(values(load_operator(tmp_path / "weights.safetensors")), values(wanted))
    bench = load_operator(kept(tmp_path / "2D_FNO.pt", pdebench))
    assert bench.family == "pdebench" and bench.operator.layout.padding == Padding(amounts=(2, 2))
    assert "Not used of the checkpoint: epoch, loss, optimizer_state_dict." in bench.notes


def test_family_of_the_option(tmp_path: Path) -> None:
    bare = kept(tmp_path / "w.pt", li())
    assert load_operator(bare, family="pdebench").operator.layout.padding == Padding(amounts=(2, 2))
    bench = {"epoch": 3, "model_state_dict": li(), "optimizer_state_dict": {}, "loss": 0.5}
    assert load_operator(kept(tmp_path / "b.pt", bench), family="li").family == "li"
    assert "is of the family li, the option says neuralop" in refuse(bare, family="neuralop").message
    assert "is no family" in refuse(bare, family="fno").message
    assert "--norm instance is for checkpoints of li" in refuse(bare, family="pdebench", normalised=True).message
    assert "--fftshift mended is for checkpoints of neuralop" in refuse(bare, fftshift_fixed=True).message


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("9", Padding(amounts=(9, 9))),
        ("0", Padding()),
        ("0.0", Padding()),
        ("0.25", Padding(amounts=(0.25, 0.25), fraction=True)),
        ("3, 0", Padding(amounts=(3, 0))),
        ("0.5,0", Padding(amounts=(0.5, 0), fraction=True)),
    ],
)
def test_padding_of_the_option(tmp_path: Path, text: str, wanted: Padding) -> None:
    loaded = load_operator(kept(tmp_path / "w.pt", li()), padding=text)
    assert loaded.operator.layout.padding == wanted
    assert any(note.endswith("as --padding says.") for note in loaded.notes)


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "nan.", "inf", "1,2,3", "99999999"])
def test_paddings_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    assert refuse(kept(tmp_path / "w.pt", li()), padding=text).where == "--padding"


def test_one_number_pads_only_the_axes_that_the_family_pads(tmp_path: Path) -> None:
    path = kept(tmp_path / "w.pt", li(axes=3))
    loaded = load_operator(path)
    assert loaded.operator.layout.padding == Padding(amounts=(0, 0, 6))
    told = "The domain is padded by 0, 0, 6 cells at the far end of the axes: the family's published value; "
    assert told + "--padding overrides it." in loaded.notes
    assert load_operator(path, padding="4").operator.layout.padding == Padding(amounts=(0, 0, 4))
    assert load_operator(path, padding="4,4,4").operator.layout.padding == Padding(amounts=(4, 4, 4))
    periodic = load_operator(kept(tmp_path / "p.pt", li(axes=1)))
    assert "The domain is not padded: the family's published value; --padding overrides it." in periodic.notes


def test_scales_beside_the_weights(tmp_path: Path) -> None:
    scales = {"x_mean": 1, "x_std": torch.tensor([2.0]), "y_mean": torch.tensor(0.5), "y_std": torch.ones(4, 4)}
    loaded = load_operator(kept(tmp_path / "w.pt", {"state_dict": li(), **scales}))
    assert loaded.scales == {"x_mean": 1.0, "x_std": 2.0, "y_mean": 0.5, "y_std": None}
    assert any("y_std ((4, 4)) is not one number" in note for note in loaded.notes)
    assert load_operator(kept(tmp_path / "f.pt", li() | {"y_mean": torch.tensor(3.0)})).scales == {"y_mean": 3.0}
    for broken in ({"y_std": 0.0}, {"y_mean": math.nan}):
        assert next(iter(broken)) in refuse(kept(tmp_path / "b.pt", {"state_dict": li(), **broken})).message


def test_neuralop_with_its_metadata_inside_or_beside(tmp_path: Path) -> None:
    tensors = neuralop(3, late=True)
    settings = {"n_modes": (4, 4), "domain_padding": 0.25, "positional_embedding": "grid", "_name": "FNO"}
    inside = load_operator(kept(tmp_path / "inside.pt", {**tensors, "_metadata": settings}))
    assert inside.family == "neuralop" and inside.operator.layout.fields == 1
    assert inside.operator.layout.padding == Padding(amounts=(0.25, 0.25), fraction=True, symmetric=True)
    folder = tmp_path / "run"
    folder.mkdir()
    kept(folder / "model_state_dict.pt", tensors)
    kept(folder / "model_metadata.pkl", settings)
    for extra in ("optimizer.pt", "scheduler.pt", "manifest.pt"):
        kept(folder / extra, {"state": {}})
    beside = load_operator(folder)
    assert torch.equal(values(beside), values(inside)) and beside.sha256 != inside.sha256
    assert any("the value in its metadata" in note for note in beside.notes)
    save_file(tensors, folder / "alone.safetensors")
    assert any("assumed, since no metadata" in note for note in load_operator(folder / "alone.safetensors").notes)
    wider = load_operator(folder, padding="0.5").operator.layout.padding
    assert wider == Padding(amounts=(0.5, 0.5), fraction=True, symmetric=True)
    kept(folder / "model_metadata.pkl", {"n_modes": (4, 4), "positional_embedding": "grid", "use_channel_mlp": True})
    assert load_operator(folder).operator.layout.padding == Padding()
    assert load_operator(folder, padding="0.5").operator.layout.padding == wider
    kept(folder / "best_model_state_dict.pt", tensors)
    assert "2 files of weights" in refuse(folder).message
    assert "0 files of weights" in refuse(tmp_path).message
    kept(folder / "model_metadata.pkl", [1])
    assert "metadata is a list" in refuse(folder / "model_state_dict.pt").message


def test_spectra_at_odd_sizes_are_told(tmp_path: Path) -> None:
    path = kept(tmp_path / "w.pt", neuralop(3, late=True))
    assert any("odd size" in note for note in load_operator(path).notes)
    assert not any("shifts spectra" in note for note in load_operator(path, fftshift_fixed=True).notes)


def test_fields_that_the_data_have(tmp_path: Path) -> None:
    loaded = load_operator(kept(tmp_path / "w.pt", li(fields=2)))
    assert fit_fields(loaded, 2) is loaded
    with pytest.raises(InputError, match="appends 2 coordinates itself"):
        fit_fields(loaded, 4)
    with pytest.raises(InputError, match="takes 2 fields, the data have 3"):
        fit_fields(loaded, 3)


def test_first_releases_of_neuralop_get_the_coordinates_of_their_loaders(tmp_path: Path) -> None:
    loaded = load_operator(kept(tmp_path / "w.pt", neuralop(3, late=False)))
    assert (loaded.operator.layout.fields, loaded.operator.layout.coordinates) == (3, "none")
    fitted = fit_fields(loaded, 1)
    rows, columns = torch.meshgrid(torch.arange(12) / 12, torch.arange(13) / 13, indexing="ij")
    wanted = values(loaded, torch.cat([X, rows[None, None], columns[None, None]], dim=1))
    assert float((values(fitted) - wanted).abs().max()) < 1e-6
    assert (loaded.operator.layout.fields, loaded.operator.layout.coordinates) == (3, "none")
    assert len(fitted.notes) == len(loaded.notes) + 1
    with pytest.raises(InputError, match="takes 3 fields, the data have 2"):
        fit_fields(loaded, 2)
    late = kept(tmp_path / "late.pt", {**neuralop(3, late=True), "_metadata": {"positional_embedding": None}})
    with pytest.raises(InputError, match="appends no coordinates"):
        fit_fields(load_operator(late), 1)


def test_mdlus(tmp_path: Path) -> None:
    path, weights = tmp_path / "FNO.0.1.mdlus", io.BytesIO()
    args = {"in_channels": 1, "out_channels": 1, "dimension": 1, "latent_channels": 4, "num_fno_layers": 1}
    args |= {"num_fno_modes": 2, "decoder_layers": 0, "padding": 3}
    tensors = {"spec_encoder.lift_network.0.conv.weight": noise(2, 2, 1)}
    tensors |= {"spec_encoder.lift_network.2.conv.weight": noise(4, 2, 1)}
    tensors |= {"spec_encoder.spconv_layers.0.weights1": noise(4, 4, 2, 2)}
    tensors |= {
        "spec_encoder.conv_layers.0.weight": noise(4, 4, 1),
        "decoder_net.final_layer.linear.weight": noise(1, 4),
    }
    torch.save(tensors, weights)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("args.json", json.dumps({"__name__": "FNO", "__args__": args}))
        archive.writestr("metadata.json", "{}")
        archive.writestr("model.pt", weights.getvalue())
    loaded = load_operator(path)
    assert loaded.family == "physicsnemo" and loaded.operator.layout.padding == Padding(amounts=(3,))
    assert any("3 cells" in note and "args.json" in note for note in loaded.notes)
    assert load_operator(path, padding="1").operator.layout.padding == Padding(amounts=(1,))
    assert "is of the family physicsnemo" in refuse(path, family="li").message
    assert ".mdlus" in refuse(kept(tmp_path / "model.pt", tensors)).hint


@pytest.mark.parametrize(
    ("tensors", "told"),
    [
        ({"r.weight": 0, "spectral_list.0.weights1": 0, "conv_list.0.weight": 0, "q.weight": 0}, "CNO repository"),
        ({"fno_blocks.0.convs.weight.0.tensor": 0, "horizontal_skips.0.weight": 0}, "UNO"),
        ({"branch.linears.0.weight": 0, "trunk.linears.0.weight": 0}, "DeepONet"),
        ({"layer1.0.conv1.weight": 0, "fc.weight": 0}, "layer1.0.conv1.weight, fc.weight"),
        ({"bad\x1b[31m": 0}, r"bad\\x1b"),
    ],
)
def test_other_networks_are_named(tmp_path: Path, tensors: dict[str, int], told: str) -> None:
    content = {name: torch.zeros(2, 2) for name in tensors}
    assert told.replace("\\\\", "\\") in refuse(kept(tmp_path / "w.pt", content)).message


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_programs_and_foreign_objects_are_refused_and_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    whole = refuse(kept(tmp_path / "model.pkl", nn.Linear(2, 2)))
    assert "torch.nn.modules.linear.Linear" in whole.message and "state_dict()" in whole.hint
    assert "refused" in refuse(kept(tmp_path / "t.pt", {"a": Touch(trap)})).message
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps({"a": Touch(trap)}))
    assert refuse(tmp_path / "plain.pkl").message
    torch.jit.script(nn.Linear(2, 2)).save(str(tmp_path / "script.pt"))
    program = refuse(tmp_path / "script.pt")
    assert "TorchScript" in program.message and "state_dict()" in program.hint
    assert not trap.exists()


def test_damaged_and_empty_files_are_refused(tmp_path: Path) -> None:
    whole = kept(tmp_path / "w.pt", li()).read_bytes()
    for place, size in enumerate((0, 10, len(whole) // 2, len(whole) - 30)):
        cut = tmp_path / f"{place}.pt"
        cut.write_bytes(whole[:size])
        refuse(cut)
    (tmp_path / "page.pt").write_bytes(b"<!DOCTYPE html><html>")
    assert "web page" in refuse(tmp_path / "page.pt").message
    assert "w.pt" in refuse(tmp_path / "w.ptt").hint
    for content, told in (
        ([1], "a list"),
        ({}, "nothing"),
        ({"a": 3}, "'a'|a is a int"),
        ({"state_dict": {}}, "nothing"),
    ):
        error = refuse(kept(tmp_path / "odd.pt", content))
        assert any(part in error.message for part in told.split("|"))


def test_tensors_that_lie_or_diverged_are_refused(tmp_path: Path) -> None:
    huge = li() | {"fc1.weight": torch.zeros(1).expand(10**9, 4)}
    assert "more than are stored" in refuse(kept(tmp_path / "h.pt", huge)).message
    sparse = li() | {"fc1.weight": torch.eye(4).to_sparse()}
    assert "plain array" in refuse(kept(tmp_path / "s.pt", sparse)).message
    nan = li()
    nan["conv1.weights2"][0, 0, 0, 0] = complex(0, math.nan)
    assert "not finite" in refuse(kept(tmp_path / "n.pt", nan)).message


def test_other_precisions_are_rounded_and_told(tmp_path: Path) -> None:
    double = {name: value.to(torch.complex128 if value.is_complex() else torch.float64) for name, value in li().items()}
    loaded = load_operator(kept(tmp_path / "d.pt", double))
    assert "Weights in complex128, float64 were turned into single precision." in loaded.notes
    assert torch.equal(values(loaded), values(load_operator(kept(tmp_path / "w.pt", li()))))
