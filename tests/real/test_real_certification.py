"""Do the certificates of published networks come out as known, and does no attack break one?"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor

from audits.certification import AUDIT, Options
from audits.certification.inputs import Inputs
from audits.core import runner
from audits.core.context import Cache, Context, Draft
from audits.core.records import Estimate
from probes.classifiers.noise import Noise
from probes.classifiers.smoothing import Sampler

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
FOLDER = DATA / "classifiers"
SIGMA = 0.25
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is absent; MILES_TEST_DATA names another place"),
]


@dataclass(frozen=True)
class Done:
    """A run, and what it ran on."""

    inputs: Inputs
    draft: Draft

    def value(self, name: str, **where: float) -> Estimate:
        """Return the estimate of a name and place."""
        (found,) = [row for row in self.draft.estimates if row.name == name and row.where == where]
        return found


def certify(cache: Path, arch: str, sigma: float, *, n0: int, n: int, radii: tuple[str, ...] = ()) -> Done:
    cifar = arch == "cifar_resnet20"
    options = Options(
        model=str(FOLDER / ("resnet20-12fca82f.th" if cifar else "mnist_lenet5_clntrained.pt")),
        arch=arch,
        data=FOLDER / f"{'cifar10' if cifar else 'mnist'}_test_100.csv",
        sigma=sigma,
        n0=n0,
        n=n,
        radii=radii,
    )
    context = Context(cache=Cache(cache))
    planned = runner.check(AUDIT, options, context)
    assert isinstance(planned.inputs, Inputs)
    return Done(planned.inputs, runner.carry_out(AUDIT, options, planned, context))


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("cache")
    return certify(folder, "mnist_lenet", SIGMA, n0=100, n=2000, radii=("0", "0.25", "0.4", "0.5", "0.6"))


def test_certified_accuracy_of_a_digit_reader_is_as_known(lenet: Done) -> None:
    for radius, known in {0.0: 0.96, 0.25: 0.96, 0.4: 0.91, 0.5: 0.86, 0.6: 0.76}.items():
        assert lenet.value("certified_accuracy", radius=radius).value == pytest.approx(known, abs=0.0201), radius
    assert lenet.value("abstention_rate").value == pytest.approx(0.01, abs=0.0101)
    mean = lenet.value("average_certified_radius")
    assert mean.low is not None and mean.high is not None
    assert mean.low <= 0.601 <= mean.high
    assert mean.value == pytest.approx(0.601, abs=0.01)
    assert lenet.value("clean_accuracy").value == pytest.approx(0.99)
    assert lenet.value("noisy_accuracy").value == pytest.approx(0.966, abs=0.01)
    assert "certify.noise-defeats" not in [finding.id for finding in lenet.draft.findings]


def test_no_radius_is_beyond_unanimous_votes(lenet: Done) -> None:
    assert lenet.inputs.rule.ceiling == pytest.approx(0.6755, abs=5e-5)
    radii = [float(record["radius"]) for record in lenet.draft.records]
    assert max(radii) <= lenet.inputs.rule.ceiling
    assert max(radii) == pytest.approx(0.6755, abs=5e-5)


@pytest.mark.parametrize(("sigma", "accuracy", "defeated"), [(0.05, 0.603, False), (0.12, 0.243, True)])
def test_a_network_trained_without_noise_is_defeated_by_it(
    tmp_path: Path, sigma: float, accuracy: float, defeated: bool
) -> None:
    done = certify(tmp_path, "cifar_resnet20", sigma, n0=10, n=16)
    assert done.value("clean_accuracy").value == pytest.approx(0.94)
    assert done.value("noisy_accuracy").value == pytest.approx(accuracy, abs=0.025)
    assert ("certify.noise-defeats" in [finding.id for finding in done.draft.findings]) == defeated
    assert ("noisy-accuracy" in [warning.id for warning in done.draft.warnings]) == defeated


def attacked(module: torch.nn.Module, images: Tensor, classes: Tensor, budgets: Tensor, step: float) -> Tensor:
    """Return images moved against the smoothed classifier by at most their budgets, l2.

    Each of 20 steps goes `step` budgets along the gradient of the mean probability of the class over fresh noise; an
    image may leave [0, 1], as the certificate allows.
    """
    generator = torch.Generator().manual_seed(1)
    reach = budgets[:, None, None, None]
    moved = torch.zeros_like(images)
    for _ in range(20):
        moved.requires_grad_(True)
        noise = SIGMA * torch.randn((12, *images.shape), generator=generator)
        soft = module((images + moved + noise).flatten(0, 1)).softmax(1).unflatten(0, (12, -1)).mean(0)
        (gradient,) = torch.autograd.grad(soft.gather(1, classes[:, None]).clamp_min(1e-30).log().sum(), moved)
        direction = gradient / gradient.flatten(1).norm(dim=1).clamp_min(1e-30)[:, None, None, None]
        moved = moved.detach() - step * reach * direction
        moved = moved * (reach / moved.flatten(1).norm(dim=1)[:, None, None, None]).clamp_max(1.0)
    assert bool((moved.flatten(1).norm(dim=1) <= budgets * (1 + 1e-5)).all())
    return (images + moved).detach()


def predicted(sampler: Sampler, image: Tensor, index: int) -> int:
    """Return what the smoothed classifier says with fresh noise, -1 where 600 draws do not tell (alpha 0.001)."""
    votes = sampler.count_votes(image, index, "estimation", 0, 600).votes
    most, next_ = (int(count) for count in votes.topk(2).values)
    return int(votes.argmax()) if binomtest(most, most + next_).pvalue <= 0.001 else -1


def test_no_attack_within_the_certificate_changes_the_answer(lenet: Done) -> None:
    work = lenet.inputs.work
    assert work is not None
    sure = [record for record in lenet.draft.records if record["correct"] and float(record["radius"]) > 0.1]
    # The least certain ones are the nearest to another class.
    weakest = sorted(sure, key=lambda record: float(record["radius"]))[:8]
    indices = [int(record["idx"]) for record in weakest]
    images = torch.stack([torch.from_numpy(work.images.pixels(index)) for index in indices])
    classes = torch.tensor([int(record["predict"]) for record in weakest])
    radii = torch.tensor([float(record["radius"]) for record in weakest])
    module = work.classifier.module
    sampler = Sampler(
        module, classes=10, noise=Noise("gaussian", SIGMA), seed=12345, device="cpu", dtype="float32", batch=64
    )
    for step in (0.1, 0.25, 1.0):
        worst = attacked(module, images, classes, 0.999 * radii, step)
        for place, index in enumerate(indices):
            assert predicted(sampler, worst[place], index) in (int(classes[place]), -1), (index, step)
    # The same attack is no straw man: with more than the certificate allows it succeeds.
    far = attacked(module, images, classes, 6 * radii, 0.25)
    flips = [
        predicted(sampler, far[place], index) not in (int(classes[place]), -1) for place, index in enumerate(indices)
    ]
    assert sum(flips) >= 6
