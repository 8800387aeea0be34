from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_models
import torch
from safetensors.torch import save_file
from torch import nn

from probes.classifiers.classifier_files import load_classifier
from probes.core.errors import InputError
from probes.files.weights import check_held, entries, unwrap, without_prefixes
from probes.generators.denoisers import load_denoiser
from probes.generators.generator_files import load_discriminator, load_generator
from probes.models.checkpoints import ModelFolder, load_state_dict, read_weights
from probes.models.network_weights import hash_tensors, load_into, read_tensors
from probes.operators.fno.reading import load_operator

READERS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[Path], Any]]] = {
    "classifier": (small_models.cnn, lambda path: load_classifier(str(path), arch="small_cnn").sha256),
    "operator": (small_models.operator, lambda path: str(load_operator(path).operator.state_dict())),
    "denoiser": (
        small_models.denoiser,
        lambda path: load_denoiser(path, arch="mlp-denoiser", schedule="linear", shape=(1, 4, 4)).sha256,
    ),
    "generator": (
        lambda: small_models.gan(0),
        lambda path: load_generator(path, arch="mlp-generator", shape=(1, 4, 4)).sha256,
    ),
    "discriminator": (
        lambda: small_models.gan(1),
        lambda path: load_discriminator(path, arch="mlp-discriminator", shape=(1, 4, 4)).sha256,
    ),
    "tensors": (small_models.cnn, lambda path: str(load_state_dict(path))),
    "averaged": (small_models.cnn, lambda path: str(read_tensors(path)[0])),
}


@pytest.mark.parametrize("prefix", ["module.", "_module.", "_orig_mod.", "_orig_mod.module.", "module._orig_mod."])
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("form", ["a.pt", "a.safetensors", "wrapped.pt"])
def test_what_wraps_a_network_is_taken_off_everywhere(tmp_path: Path, kind: str, prefix: str, form: str) -> None:
    make, read = READERS[kind]
    tensors = make()
    prefixed = {f"{prefix}{name}": value for name, value in tensors.items()}
    for place, content in (("plain", tensors), ("under", prefixed)):
        (tmp_path / place).mkdir()
        if form == "a.safetensors":
            save_file({name: value.clone() for name, value in content.items()}, tmp_path / place / form)
        else:
            torch.save({"state_dict": content} if form == "wrapped.pt" else content, tmp_path / place / form)
    assert read(tmp_path / "under" / form) == read(tmp_path / "plain" / form)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_prefixes_are_those_of_torch() -> None:
    net = nn.Linear(2, 2)
    wrapped = torch.compile(nn.DataParallel(net))
    assert without_prefixes(wrapped.state_dict()).keys() == net.state_dict().keys()
    averaged = torch.optim.swa_utils.AveragedModel(wrapped)
    assert without_prefixes(entries(averaged.state_dict())).keys() == net.state_dict().keys()


def test_a_prefix_that_not_every_name_has_is_a_name() -> None:
    for names in (["module.a", "b"], ["module.", "module.a"], ["model.a"], []):
        assert list(without_prefixes(dict.fromkeys(names))) == names
    assert list(without_prefixes({"model.net.a": 1}, more=("model.",))) == ["net.a"]
    assert list(without_prefixes({"module." * 20 + "a": 1})) == ["module." * 12 + "a"]


def test_wrappers_are_opened_by_their_keys() -> None:
    inner = {"a": 1}
    for key in ("state_dict", "model_state_dict", "module_state_dict", "model", "net", "network", "net_model"):
        found = unwrap({"epoch": 3, key: inner, 7: "seven"})
        assert (found.content, found.keys, found.beside) == (inner, (key,), {"epoch": 3, "7": "seven"})
    assert unwrap({"model": inner, "ema": {"b": 2}}, first=("ema",)).content == {"b": 2}
    assert unwrap({"model": {"state_dict": inner}}).content == {"state_dict": inner}
    assert unwrap({"model": {"state_dict": inner}}, levels=8).keys == ("model", "state_dict")
    assert unwrap(inner).content is inner and unwrap([1]).content == [1]
    assert unwrap({"model": 3}).keys == ()
    itself: dict[str, Any] = {}
    itself["net"] = itself
    assert len(unwrap(itself, levels=8).keys) == 8


def test_what_torch_notes_beside_weights_is_no_weight() -> None:
    assert entries({"a": 1, "_metadata": {}, "n_averaged": 2, "b._extra_state": None, 3: 4}) == {"a": 1, "3": 4}


@pytest.mark.parametrize("kind", READERS)
def test_a_tensor_of_more_numbers_than_are_stored_is_refused(kind: str, tmp_path: Path) -> None:
    make, read = READERS[kind]
    tensors = make()
    name = next(name for name, value in tensors.items() if value.is_floating_point())
    # Made contiguous, or turned into float32, it would take 64 GB.
    torch.save({**tensors, name: torch.zeros(1).expand(2**34)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"claims .* numbers, more than are stored") as caught:
        read(tmp_path / "a.pt")
    assert str(tmp_path / "a.pt") in caught.value.where and name in caught.value.message and caught.value.hint


def test_weights_of_a_folder_hold_what_they_claim(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1).expand(2**34)}, path := tmp_path / "pytorch_model.bin")
    folder = ModelFolder(reference="", path=tmp_path, family="bert", config={}, weights=(path,), sha256="")
    with pytest.raises(InputError, match="claims 17179869184 numbers") as caught:
        read_weights(folder)
    assert caught.value.where == str(path)


def test_a_network_is_neither_loaded_nor_hashed_with_more_numbers_than_are_stored() -> None:
    net, wide = nn.Linear(2**17, 2**17, bias=False, device="meta"), torch.zeros(1).expand(2**17, 2**17)
    with pytest.raises(InputError, match="weight claims 17179869184 numbers") as caught:
        load_into(net, {"weight": wide}, "a", "a.pt", "Mend it.")
    assert caught.value.where == "a.pt"
    net.load_state_dict({"weight": wide}, assign=True)
    with pytest.raises(InputError, match="weight claims 17179869184 numbers") as caught:
        hash_tensors(net, "a.pt")
    assert caught.value.where == "a.pt"


def test_views_hold_what_they_claim() -> None:
    whole = torch.ones(4, 6)
    views = {"a": whole, "b": whole.T, "c": whole[1:3, ::2], "d": whole[0].expand(1, 6), "e": torch.empty(0)}
    odd = {"f": torch.ones(3).to_sparse(), "g": torch.empty(5, device="meta"), "h": 3}
    check_held({**views, **odd}, "a.pt")
    # Its name does not reach the terminal as it is.
    with pytest.raises(InputError, match=r"The tensor \\x1b claims 30 numbers"):
        check_held({"\x1b": torch.ones(1).expand(5, 6)}, "a.pt")
