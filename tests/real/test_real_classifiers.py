"""Do published checkpoints load as the functions that their authors measured?"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.classifiers.classifier_files import check_classifier, load_classifier
from probes.core.errors import InputError

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
FOLDER = DATA / "classifiers"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is absent; MILES_TEST_DATA names another place"),
]
CHECKPOINTS = {"cifar_resnet20": "resnet20-12fca82f.th", "mnist_lenet": "mnist_lenet5_clntrained.pt"}


def images(arch: str) -> tuple[Tensor, list[int]]:
    """The first hundred test images, in [0, 1], and their labels."""
    cifar = arch == "cifar_resnet20"
    rows = np.loadtxt(FOLDER / f"{'cifar10' if cifar else 'mnist'}_test_100.csv", delimiter=",", dtype=np.float32)
    pixels = torch.from_numpy(rows[:, 1:] / 255)
    shaped = pixels.reshape(100, 32, 32, 3).permute(0, 3, 1, 2) if cifar else pixels.reshape(100, 1, 28, 28)
    return shaped.contiguous(), [int(label) for label in rows[:, 0]]


@pytest.mark.parametrize(
    ("arch", "accuracy", "parameters", "shape", "mean"),
    [
        ("cifar_resnet20", 0.94, 269_722, (3, 32, 32), (0.485, 0.456, 0.406)),
        ("mnist_lenet", 0.99, 648_226, (1, 28, 28), ()),
    ],
)
def test_accuracy_on_the_first_hundred_test_images(
    arch: str, accuracy: float, parameters: int, shape: tuple[int, int, int], mean: tuple[float, ...]
) -> None:
    found = load_classifier(str(FOLDER / CHECKPOINTS[arch]), arch=arch)
    assert (found.parameters, found.shape, found.mean) == (parameters, shape, mean)
    pixels, labels = images(arch)
    assert check_classifier(found, pixels, labels=labels).classes == 10
    right = found.module(pixels).argmax(1) == torch.tensor(labels)
    assert right.float().mean().item() == pytest.approx(accuracy)


def test_the_names_of_the_weights_tell_the_architecture() -> None:
    for arch, name in CHECKPOINTS.items():
        with pytest.raises(InputError) as caught:
            load_classifier(str(FOLDER / name))
        assert f"--arch {arch}" in caught.value.hint
    with pytest.raises(InputError, match="weights of cifar_resnet20, not of cifar_resnet110"):
        load_classifier(str(FOLDER / CHECKPOINTS["cifar_resnet20"]), arch="cifar_resnet110")
