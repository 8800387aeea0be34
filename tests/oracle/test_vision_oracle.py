"""Are networks by name those of torchvision and timm, and are pictures resized as torchvision's presets do?

The packages run in a process of their own, since transformers behaves otherwise where they can be imported.
MILES_VISION names folders, separated as on the path, into which they were installed without what they depend on
(pip install --no-deps --target FOLDER torchvision timm), where they are not installed.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json, sys
import torch
from probes.core import library_imports
from probes.models.architectures import build
from probes.models.package_networks import build_packaged, package_resizing

vision, zoo = library_imports.torchvision(), library_imports.timm()
library_imports.transformers().ViTImageProcessor
found = {"networks": {}, "resizing": {}}

def moved(net):
    torch.manual_seed(1)
    for name, value in net.state_dict().items():
        if name.endswith("running_var"):
            value.uniform_(0.5, 1.5)
        elif name.endswith("running_mean"):
            value.normal_(0, 0.1)
    return net.eval()

for package, name, more in json.loads(sys.argv[1]):
    torch.manual_seed(0)
    make = vision.models.get_model if package == "torchvision" else zoo.create_model
    net = moved(make(name, num_classes=7, **more))
    arch = f"{package}:{name}"
    state = net.state_dict()
    made = build_packaged(arch, state)
    pixels = torch.rand(1, *made.shape)
    with torch.inference_mode():
        expected = net(pixels)
        apart = [float((expected - made.net(pixels)).abs().max())]
        if package == "torchvision" and name.startswith(("resnet", "wide")):
            apart.append(float((expected - build(name, state).eval()(pixels)).abs().max()))
    found["networks"][arch] = [apart, list(made.shape), list(made.mean)]

import numpy as np
from PIL import Image
from probes.files.images import fitted
for name in ("resnet18", "vit_b_16", "efficientnet_b0"):
    preset = vision.models.get_model_weights(name).DEFAULT.transforms()
    weights = list(vision.models.get_model_weights(name))[0].transforms()
    apart = []
    for size in ((300, 280), (301, 333), (281, 500)):
        noise = np.random.default_rng(4).integers(0, 256, (9, 11, 3), dtype=np.uint8)
        picture = Image.fromarray(noise).resize(size)
        mean, std = (torch.tensor(each)[:, None, None] for each in (weights.mean, weights.std))
        expected = weights(picture) * std + mean
        mine = torch.from_numpy(np.asarray(fitted(picture, package_resizing(f"torchvision:{name}"), "RGB")).copy())
        apart.append(float((expected - mine.permute(2, 0, 1) / 255).abs().max()))
    found["resizing"][name] = max(apart)
print(json.dumps(found))
"""
NETWORKS: list[tuple[str, str, dict[str, Any]]] = [
    ("torchvision", "resnet18", {}),
    ("torchvision", "resnet34", {}),
    ("torchvision", "resnet50", {}),
    ("torchvision", "densenet121", {}),
    ("torchvision", "regnet_y_400mf", {}),
    ("torchvision", "mobilenet_v3_small", {}),
    ("timm", "resnet18", {"in_chans": 1}),
    ("timm", "vit_tiny_patch16_224", {}),
    ("timm", "eva02_tiny_patch14_224", {}),
]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    named = os.environ.get("MILES_VISION", "")
    if not named and not all(importlib.util.find_spec(name) for name in ("torchvision", "timm")):
        pytest.skip("torchvision and timm are not installed, and MILES_VISION names no folders with them")
    path = os.pathsep.join(filter(None, (str(ROOT), named, os.environ.get("PYTHONPATH", ""))))
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(NETWORKS)]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_networks_are_those_of_the_packages(found: dict[str, Any]) -> None:
    assert set(found["networks"]) == {f"{package}:{name}" for package, name, _ in NETWORKS}
    for arch, (apart, shape, mean) in found["networks"].items():
        assert max(apart) <= 1e-5, arch
        assert shape[0] == (1 if arch == "timm:resnet18" else 3) and len(mean) == (0 if shape[0] == 1 else 3)
    # Of ResNets ours are compared with theirs too.
    assert len(found["networks"]["torchvision:resnet18"][0]) == 2


def test_pictures_are_resized_as_the_presets_do(found: dict[str, Any]) -> None:
    assert found["resizing"] and max(found["resizing"].values()) <= 1.001 / 255
