"""Is what --resize does told by its numbers, and refused where no numbers tell it?"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from probes.classifiers.images import load_images
from probes.classifiers.resizing import has_processor, processor_resizing, resizing_of
from probes.core.errors import InputError
from probes.files.images import Resizing, fitted
from probes.models import package_networks

SOURCE = Path("preprocessor_config.json")
CLIP: dict[str, Any] = {"size": {"shortest_edge": 28}, "do_center_crop": True, "crop_size": 24, "resample": 3}
VIT: dict[str, Any] = {"size": {"height": 20, "width": 24}, "resample": 2}
CONVNEXT = {"size": {"shortest_edge": 28}, "resample": 3, "image_processor_type": "ConvNextImageProcessor"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (VIT, Resizing(size=(20, 24))),
        ({"size": 24, "resample": 2, "image_processor_type": "ViTFeatureExtractor"}, Resizing(size=(24, 24))),
        (CLIP, Resizing(short=28, crop=(24, 24), resample=3)),
        (CONVNEXT, Resizing(short=32, crop=(28, 28), resample=3)),
        ({**CONVNEXT, "size": {"shortest_edge": 384}}, Resizing(size=(384, 384), resample=3)),
        ({**CONVNEXT, "crop_pct": 1.0}, Resizing(short=28, crop=(28, 28), resample=3)),
        ({**VIT, "do_center_crop": True, "crop_size": {"height": 8, "width": 9}}, Resizing(size=(20, 24), crop=(8, 9))),
    ],
)
def test_what_a_processor_does_is_read_off(settings: dict[str, Any], expected: Resizing) -> None:
    assert processor_resizing(settings, SOURCE) == expected


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, "do_resize"),
        ({**VIT, "do_resize": False}, "do_resize"),
        ({**VIT, "do_pad": True}, "do_pad"),
        ({**VIT, "resample": 9}, "resample"),
        ({**VIT, "resample": None}, "resample"),
        ({**VIT, "size": 24}, "size"),
        ({**VIT, "size": {"height": 20, "width": 2**40}}, "size"),
        ({**VIT, "size": {"height": 20, "width": True}}, "size"),
        ({**VIT, "size": {"max_height": 20, "max_width": 4}}, "size"),
        ({**VIT, "size": {"shortest_edge": 20, "longest_edge": 40}}, "size"),
        ({**VIT, "do_center_crop": True, "crop_size": 99}, "crop_size"),
        ({**CLIP, "crop_size": 99}, "crop_size"),
        ({**CLIP, "do_center_crop": False}, "do_center_crop"),
        ({**CLIP, "crop_pct": 0.9}, "crop_pct"),
        ({**CONVNEXT, "crop_pct": 1e-9}, "crop_pct"),
    ],
)
def test_what_no_numbers_tell_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as raised:
        processor_resizing(settings, SOURCE)
    assert str(raised.value.where).endswith(f", key {key}") and "--resize 256 --crop 224" in str(raised.value.hint)


def test_a_picture_keeps_its_ratio_and_its_centre() -> None:
    # A white square in the middle of a picture twice as wide as high stays in the middle of what is kept.
    values = np.zeros((40, 80, 3), dtype=np.uint8)
    values[16:24, 36:44] = 255
    made = np.asarray(fitted(Image.fromarray(values), Resizing(short=20, crop=(20, 20)), "RGB"))
    assert made.shape == (20, 20, 3)
    rows, columns = np.nonzero(made[..., 0] > 127)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (8, 11, 8, 11)


def test_odd_margins_are_halved_as_is_said() -> None:
    assert Resizing(short=10, crop=(7, 7)).corner(10, 13) == (1, 3)
    assert Resizing(short=10, crop=(7, 7), rounded=True).corner(10, 14) == (2, 4)


def test_a_long_strip_is_refused_before_it_is_made() -> None:
    with pytest.raises(InputError, match="would have 25600000 x 256"):
        fitted(Image.new("RGB", (100_000, 1)), Resizing(short=256, crop=(224, 224)), "RGB")


def folder(root: Path, *sizes: tuple[int, int]) -> Path:
    (root / "cat").mkdir(parents=True)
    for index, size in enumerate(sizes):
        Image.new("RGB", size, (10 * index, 0, 0)).save(root / "cat" / f"{index}.png")
    return root


def asked(text: str, crop: int | None = None, **more: Any) -> Resizing:
    return resizing_of(text, crop, **{"reference": "net.pt", "arch": "resnet18", "shape": (3, 24, 24), **more})


def test_images_of_any_size_become_one(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", (60, 50), (24, 24), (33, 100))
    images = load_images(root, shape=(3, 24, 24), resize=asked("30", 24))
    assert images.shape == (3, 24, 24) and [images.pixels(index).shape for index in range(3)] == [(3, 24, 24)] * 3
    assert images.pixels(2)[0].max() == np.float32(20 / 255)
    note = "3 images were resized: shorter side brought to 30 pixels (bilinear), then the centre of 24 x 24 kept."
    assert note in images.notes
    other = load_images(root, shape=(3, 24, 24), resize=asked("26", 24))
    assert other.sha256 != images.sha256
    # Without a network's size it is what is cropped.
    assert load_images(root, resize=asked("30", 20, shape=None)).shape == (3, 20, 20)


def test_arrays_are_not_resized(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 3, 9, 9)), y=np.zeros(2, dtype=int))
    with pytest.raises(InputError, match="Arrays are not resized") as raised:
        load_images(tmp_path / "data.npz", resize=asked("30", 24))
    assert raised.value.where == "--resize"


def test_the_side_of_the_network_is_cropped_by_default() -> None:
    assert asked("30") == Resizing(short=30, crop=(24, 24))
    assert asked("30", 24) == asked("30")


@pytest.mark.parametrize(
    ("text", "crop", "more", "what"),
    [
        ("0", 24, {}, "is no size"),
        ("-1", 24, {}, "is no size"),
        ("999999", 24, {}, "is no size"),
        ("proces", 24, {}, "is no size"),
        ("20", None, {}, "fewer than the 24"),
        ("30", 20, {}, "would be brought to 20 x 20 pixels, the network takes 24 x 24"),
        ("30", None, {"shape": None}, "is not said"),
        ("processor", 20, {}, "The processor says by itself"),
        ("processor", None, {}, "no processor of their own"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, crop: int | None, more: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what) as raised:
        asked(text, crop, **more)
    assert str(raised.value.where).startswith(("--resize", "--crop")) and raised.value.hint


def test_the_processor_of_a_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(CLIP))
    assert asked("processor", reference=str(tmp_path), arch=None) == Resizing(short=28, crop=(24, 24), resample=3)


def test_packages_say_how_their_pictures_are_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Resizing(short=32, crop=(24, 24), resample=3, rounded=True)
    monkeypatch.setattr(package_networks, "check_packaged", lambda arch: None)
    told = {"input_size": (3, 24, 24), "crop_pct": 0.75, "interpolation": "bicubic"}
    monkeypatch.setattr(package_networks, "_timm_config", lambda name: told)
    assert asked("processor", arch="timm:tiny") == known
    told["crop_mode"] = "squash"
    with pytest.raises(InputError, match="does not say how pictures"):
        asked("processor", arch="timm:tiny")


def test_the_size_of_the_network_is_offered() -> None:
    for asked, crop in (("processor", None), ("40", 28)):
        with pytest.raises(InputError) as raised:
            resizing_of(asked, crop, reference="weights.pt", arch="cifar_resnet20", shape=(3, 32, 32))
        assert "--resize 32 --crop 32" in str(raised.value.hint) and "processor" not in str(raised.value.hint)
    assert has_processor("weights.pt", "torchvision:resnet50") and not has_processor("weights.pt", "resnet50")
