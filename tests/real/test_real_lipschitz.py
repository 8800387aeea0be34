"""Do published checkpoints have the norms that were computed for them by other means?"""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.lipschitz import AUDIT, Options
from probes.classifiers.classifier_files import load_classifier
from probes.classifiers.folding import fold_batchnorm
from probes.classifiers.linear_operators import Convolution
from probes.classifiers.spectral_norm import measure

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = pytest.mark.real


def place(name: str) -> Path:
    path = DATA / "classifiers" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the checkpoints")
    return path


def lenet() -> Options:
    return Options(model=str(place("mnist_lenet5_clntrained.pt")), arch="mnist_lenet", data=place("mnist_test_100.csv"))


def resnet() -> Options:
    return Options(model=str(place("resnet20-12fca82f.th")), arch="cifar_resnet20", data=place("cifar10_test_100.csv"))


def audited(options: Options, folder: Path) -> Draft:
    context = Context(cache=Cache(folder))
    return drafted(AUDIT, options, context)


def norms(draft: Draft) -> dict[tuple[Any, Any], float]:
    return {
        (row.where["layer"], row.where["kind"]): row.value for row in draft.estimates if row.name == "spectral_norm"
    }


def value(draft: Draft, name: str) -> float:
    return next(row.value for row in draft.estimates if row.name == name and not row.where)


def convolution(options: Options, layer: str, size: int, *, circular: bool = True) -> Convolution:
    part = load_classifier(options.model, arch=options.arch).module.get_submodule(layer)
    assert isinstance(part, nn.Conv2d)
    stride = (part.stride[0], part.stride[1])
    return Convolution(weight=part.weight, size=(size, size), stride=stride, padding=(1, 1, 1, 1), circular=circular)


@pytest.mark.parametrize(
    ("options", "layer", "size", "periodic", "zeros"),
    [
        (lenet, "conv2", 14, 9.556143, 9.373333),
        (resnet, "1.conv1", 32, 10.690992, 10.646020),
        (resnet, "1.layer1.0.conv1", 34, 5.331291, None),
        (resnet, "1.layer1.0.conv1", 32, None, 5.311255),
        (resnet, "1.layer2.0.conv1", 32, 4.5219, 4.5037),
    ],
)
def test_norms_of_trained_convolutions(
    options: Any, layer: str, size: int, periodic: float | None, zeros: float | None
) -> None:
    if periodic is not None:
        assert measure(convolution(options(), layer, size)).value == pytest.approx(periodic, abs=5e-5, rel=1e-7)
    if zeros is not None:
        found = measure(convolution(options(), layer, size, circular=False))
        assert found.lower == pytest.approx(zeros, abs=5e-5, rel=1e-7) and found.lower < found.value


def test_a_stride_is_not_ignored() -> None:
    strided = convolution(resnet(), "1.layer2.0.conv1", 32)
    dense = Convolution(weight=strided.weight, size=(32, 32), padding=(1, 1, 1, 1), circular=True)
    assert measure(dense).value == pytest.approx(8.6150, abs=5e-4)


def test_lenet_has_a_useful_bound(tmp_path: Path) -> None:
    draft = audited(lenet(), tmp_path)
    found = norms(draft)
    assert found["conv2", "gram"] == pytest.approx(9.556143, abs=1e-6)
    assert found["conv2", "lower"] == pytest.approx(9.373333, abs=1e-6)
    assert value(draft, "product_bound") == pytest.approx(239.627, abs=1e-3)
    assert value(draft, "margin_radius") == pytest.approx(0.028, abs=5e-4)
    assert sum(row["correct"] for row in draft.records) == 99
    assert draft.findings[0].id == "lipschitz.radius"
    assert 5 < value(draft, "constant_lower") < value(draft, "product_bound")


def test_resnet_has_a_bound_of_no_use(tmp_path: Path) -> None:
    draft = audited(resnet(), tmp_path)
    assert value(draft, "product_bound") == pytest.approx(1.092e11, rel=1e-3)
    kinds = [key[1] for key in norms(draft)]
    # All 19 convolutions have zero padding: only the norm of the last layer is its own.
    assert [kinds.count(kind) for kind in ("exact", "gram", "lower")] == [1, 19, 20]
    assert draft.findings[0].id == "lipschitz.vacuous"
    assert sum(row["correct"] for row in draft.records) == 94


def test_folding_a_trained_resnet_leaves_its_logits() -> None:
    module = load_classifier(resnet().model, arch="cifar_resnet20").module
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    folded = fold_batchnorm(module)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded.modules())
    torch.testing.assert_close(folded(images), module(images), rtol=1e-4, atol=1e-4)
