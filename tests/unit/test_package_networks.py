"""Are networks of torchvision and timm built from weights alone? The packages are stood for by small ones here."""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from probes.classifiers.classifier_files import load_classifier
from probes.core import library_imports
from probes.core.errors import InputError
from probes.models.package_networks import build_packaged, check_packaged


class Net(nn.Module):
    """A network with a buffer that is no weight, one that no state dict holds, and a counter, as the packages have."""

    def __init__(self, num_classes: int = 1000, in_chans: int = 3, *, index: bool = True) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_chans, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(2, num_classes)
        self.indexed = index
        if index:
            self.register_buffer("order", torch.tensor([1, 0]))
            self.register_buffer("scale", torch.tensor([2.0, 3.0]), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.norm(self.stem(pixels)).mean((2, 3))
        logits: Tensor = self.head(features[:, self.order] * self.scale if self.indexed else features)
        return logits


class Config:
    def __init__(self, **told: Any) -> None:
        self.told = told

    def to_dict(self) -> dict[str, Any]:
        return self.told


class Preset:
    crop_size, mean, std = [40], [0.4, 0.5, 0.6], [0.1, 0.2, 0.3]


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small packages in the place of torchvision and timm, and what was asked of them."""
    asked: list[str] = []

    def made(name: str, **given: Any) -> nn.Module:
        assert given.pop("weights", None) is None and given.pop("pretrained", False) is False
        asked.append(f"{name} {given} {torch.get_default_device()}")
        if name == "counting" and torch.get_default_device().type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor")
        return Net(**given, index=name != "plain")

    vision, zoo = types.ModuleType("torchvision"), types.ModuleType("timm")
    models = types.SimpleNamespace(
        list_models=lambda module: ["tiny", "plain", "counting"],
        get_model=made,
        get_model_weights=lambda name: [types.SimpleNamespace(transforms=Preset)],
    )
    vision.models = models  # type: ignore[attr-defined]
    told = Config(
        input_size=(3, 24, 24), mean=(0.5,) * 3, std=(0.25,) * 3, first_conv="stem", classifier="head", num_classes=0
    )
    zoo.list_models = lambda: ["tiny"]  # type: ignore[attr-defined]
    zoo.create_model = made  # type: ignore[attr-defined]
    zoo.models = types.SimpleNamespace(get_pretrained_cfg=lambda name: told)  # type: ignore[attr-defined]
    for name, module in (("torchvision", vision), ("timm", zoo)):
        monkeypatch.setattr(library_imports, name, lambda module=module: module)
    return asked


def state(**given: Any) -> dict[str, Tensor]:
    torch.manual_seed(3)
    return {name: value.clone() for name, value in Net(**given).state_dict().items()}


@pytest.mark.parametrize("name", ["tiny", "counting", "plain"])
def test_weights_of_other_classes_are_fitted_and_give_the_same_logits(name: str) -> None:
    weights = state(num_classes=5, index=name != "plain")
    found = build_packaged(f"torchvision:{name}", weights)
    network = Net(5, index=name != "plain").eval()
    network.load_state_dict(weights)
    pixels = torch.rand(2, 3, 8, 8)
    assert torch.equal(found.net(pixels), network(pixels))
    assert found.shape == (3, 40, 40) and found.mean == (0.4, 0.5, 0.6) and found.std == (0.1, 0.2, 0.3)
    assert not any(value.is_meta for value in [*found.net.parameters(), *found.net.buffers()])


def test_channels_are_read_off_where_the_package_names_its_first_layer(packages: list[str]) -> None:
    found = build_packaged("timm:tiny", state(num_classes=4, in_chans=1))
    assert found.shape == (1, 24, 24) and found.mean == ()
    assert found.net(torch.rand(2, 1, 24, 24)).shape == (2, 4)
    assert any("'in_chans': 1, 'num_classes': 4" in one for one in packages)


def test_indices_of_a_file_are_not_believed() -> None:
    weights = state(num_classes=5) | {"order": torch.tensor([1 << 40, 7])}
    assert bool(torch.isfinite(build_packaged("torchvision:tiny", weights).net(torch.rand(1, 3, 8, 8))).all())


def test_nothing_is_made_on_the_cpu_before_the_weights_fit(packages: list[str]) -> None:
    weights = state(num_classes=5)
    del weights["stem.bias"]
    with pytest.raises(InputError, match=r"do not fit torchvision:tiny: 1 missing \(stem.bias\)"):
        build_packaged("torchvision:tiny", weights)
    assert packages and all(one.endswith("meta") for one in packages)


def test_whole_numbers_are_no_weights() -> None:
    weights = state() | {"stem.bias": torch.ones(2, dtype=torch.int64)}
    with pytest.raises(InputError, match=r"stem\.bias has numbers of type torch\.int64"):
        build_packaged("torchvision:tiny", weights)


@pytest.mark.parametrize("name", ["tinny", "hf-hub:a/b", "local-dir:x", "../tiny", "", "tiny\x1b[0m", "a" * 5000])
def test_other_names_are_refused(name: str) -> None:
    for package in ("torchvision", "timm"):
        with pytest.raises(InputError, match="has no network") as raised:
            check_packaged(f"{package}:{name}")
        assert "\x1b" not in str(raised.value.message) and len(str(raised.value.message)) < 200


def absent(name: str) -> Callable[[], object]:
    def fail() -> object:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    return fail


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_without_the_package_the_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library_imports, package, absent(package))
    save_file(state(), tmp_path / "net.safetensors")
    with pytest.raises(InputError, match=f"{package} is not installed") as raised:
        load_classifier(str(tmp_path / "net.safetensors"), arch=f"{package}:tiny")
    assert raised.value.hint == "pip install 'miles-audit[vision]'"


def test_a_bare_name_of_theirs_points_to_the_packages(tmp_path: Path) -> None:
    save_file(state(), tmp_path / "net.safetensors")
    with pytest.raises(InputError, match="'densenet121' is not a known architecture") as raised:
        load_classifier(str(tmp_path / "net.safetensors"), arch="densenet121")
    assert "torchvision:densenet121 or timm:densenet121" in str(raised.value.hint)


def test_a_classifier_standardises_as_its_package_says(tmp_path: Path) -> None:
    weights = state(num_classes=5)
    save_file({f"module.{name}": value for name, value in weights.items()}, tmp_path / "net.safetensors")
    found = load_classifier(str(tmp_path / "net.safetensors"), arch="torchvision:tiny")
    assert found.family == "torchvision:tiny" and found.shape == (3, 40, 40) and found.parameters == 75
    network = Net(5).eval()
    network.load_state_dict(weights)
    pixels = torch.rand(2, 3, 40, 40)
    mean, std = (torch.tensor(each)[:, None, None] for each in (Preset.mean, Preset.std))
    assert torch.allclose(found.module(pixels), network((pixels - mean) / std), atol=1e-6)
    assert any("those that torchvision gives for tiny" in note for note in found.notes)
    grey = state(num_classes=5, in_chans=1)
    save_file(grey, tmp_path / "grey.safetensors")
    told = load_classifier(str(tmp_path / "grey.safetensors"), arch="timm:tiny").notes
    assert any("Give --mean and --std" in note for note in told)


def test_a_broken_package_is_told_apart_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> object:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(library_imports, "torchvision", fail)
    with pytest.raises(InputError, match="cannot be imported: operator torchvision::nms"):
        check_packaged("torchvision:tiny")


def test_a_library_that_does_not_load_leaves_the_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that describes its operators while it is imported, as torchvision does, without its library."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("from torchvision import shapes\nnamed = 'here'\n")
    (tmp_path / "torchvision" / "shapes.py").write_text(
        "import torch\n"
        "for name in ('nms', 'qnms'):\n"
        "    torch.library.register_fake(f'torchvision::{name}', lambda dets, scores, threshold: dets)\n"
    )
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    try:
        library_imports.torchvision.cache_clear()
        assert library_imports.torchvision().named == "here"
    finally:
        library_imports.torchvision.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
