"""Does the measure of a model's work know one that predicts well from one that learnt nothing, and good samples?"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from audited_points import inputs_of
from numpy.typing import NDArray
from torch import Tensor, nn

from audits.core.context import Cache, Context, Draft
from audits.core.measures import by_name
from audits.core.records import Estimate
from audits.membership import MEASURES, Options, utility
from audits.membership.estimates import estimates
from audits.membership.measure import Counts
from audits.membership.pool import pool_of_points
from audits.membership.releases import Release
from audits.membership.utility import MOST, STEPS, K, utilities
from probes.generators.attacks.noise import point_noise
from probes.generators.diffusion import Denoiser, linear
from probes.generators.point_sets import PointSet, read_points

Singles = NDArray[np.float32]
SIZE, WIDTH, TOTAL = 60, 3, 100
ABAR = torch.from_numpy(linear(TOTAL))


class Nothing(nn.Module):
    """A network that sees no noise anywhere."""

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return torch.zeros_like(x)


class Knowing(nn.Module):
    """The exact noise of points that are all zero, but for a share that it leaves out."""

    def __init__(self, missed: float = 0.0) -> None:
        super().__init__()
        self.missed = missed

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return (1 - self.missed) * x / (1 - ABAR[t]).sqrt().float()[:, None]


def denoiser(module: nn.Module, name: str) -> Denoiser:
    return Denoiser(
        module=module,
        alphas_bar=linear(TOTAL),
        prediction="epsilon",
        shape=(WIDTH,),
        path=name,
        family="",
        sha256=name,
        parameters=0,
    )


def normal(count: int, seed: int, scale: float = 1.0) -> Singles:
    return (scale * np.random.default_rng(seed).normal(size=(count, WIDTH))).astype(np.float32)


class Bench:
    """Measures releases against points that stand in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def points(self, values: Singles) -> PointSet:
        path = self.folder / f"{len(list(self.folder.glob('*.npy')))}.npy"
        np.save(path, values)
        return read_points(path, role="")

    def measure(
        self,
        *releases: Release,
        members: Singles | None = None,
        others: Singles | None = None,
        reference: Singles | None = None,
        seed: int = 0,
        draft: Draft | None = None,
    ) -> dict[tuple[str, str], Estimate]:
        """Return the estimates by model and measure."""
        given = self.points(normal(SIZE, 1) if members is None else members)
        pool = pool_of_points(given, self.points(normal(SIZE, 2) if others is None else others), 0)
        beside = None if reference is None else self.points(reference)
        inputs = inputs_of(pool, blind=pool, reference=beside, releases=releases)
        draft = Draft(measures=by_name(MEASURES)) if draft is None else draft
        made = utilities(inputs, Options(), Context(cache=Cache(self.folder / "cache"), seed=seed))
        estimates(draft, Counts(inputs=inputs, options=Options(), level=0.95, seed=seed, attacks=(), utilities=made))
        found = {(str(row.where.get("model", "")), str(row.where["measure"])): row for row in draft.estimates}
        for (model, measure), one in found.items():
            assert one.name == "utility" and one.level == 0.95
            assert one.where == {"measure": measure} | ({"model": model} if model else {})
            assert one.low is not None and one.high is not None and one.low <= one.value <= one.high
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def named(name: str, **parts: Any) -> Release:
    return Release(name=name, **parts)


def test_the_loss_is_that_of_the_noise_on_non_members_alone(bench: Bench) -> None:
    # Far from zero are the members, of which the network knows nothing.
    far, zero = normal(SIZE, 1, 100.0), normal(SIZE, 2, 1e-6)
    releases = [
        named(name, denoiser=denoiser(module, name))
        for name, module in (("nothing", Nothing()), ("knows", Knowing()), ("half", Knowing(0.5)))
    ]
    found = bench.measure(*releases, members=far, others=zero)
    assert found.keys() == {(name, "held_out_loss") for name in ("nothing", "knows", "half")}
    assert all((one.n, one.unit) == (SIZE, "non-members") for one in found.values())
    noise = point_noise(0, np.arange(SIZE, 2 * SIZE), 1, (WIDTH,))
    whole = float((noise**2).mean())
    assert found["knows", "held_out_loss"].value == pytest.approx(0, abs=1e-6)
    assert found["nothing", "held_out_loss"].value == pytest.approx(whole, rel=1e-4)
    assert found["half", "held_out_loss"].value == pytest.approx(whole / 4, rel=1e-4)
    nothing = found["nothing", "held_out_loss"]
    assert nothing.low is not None and nothing.high is not None and nothing.low < 1 < nothing.high
    assert f"{STEPS} timesteps" in nothing.method


def test_the_loss_is_taken_over_the_whole_schedule(bench: Bench) -> None:
    class Late(nn.Module):
        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            right = x / (1 - ABAR[t]).sqrt().float()[:, None]
            return right * (t >= TOTAL // 2)[:, None]

    found = bench.measure(named("", denoiser=denoiser(Late(), "late")), others=normal(SIZE, 2, 1e-6))
    noise = point_noise(0, np.arange(SIZE, 2 * SIZE), 1, (WIDTH,))
    assert found["", "held_out_loss"].value == pytest.approx(float((noise**2).mean()) / 2, rel=1e-4)


def test_a_schedule_of_few_steps_is_taken_at_each_once(bench: Bench) -> None:
    short = replace(denoiser(Nothing(), "short"), alphas_bar=linear(4))
    one = bench.measure(named("", denoiser=short))["", "held_out_loss"]
    assert "4 timesteps" in one.method and 0.5 < one.value < 1.5


CASES: dict[str, tuple[Any, tuple[float, float], tuple[float, float]]] = {
    "alike": (lambda: normal(300, 5), (0.8, 1.0), (0.8, 1.0)),
    "elsewhere": (lambda: normal(300, 5) + 50, (0.0, 0.0), (0.0, 0.0)),
    "a part": (lambda: normal(300, 5, 0.2), (0.97, 1.0), (0.0, 0.3)),
    "junk for half": (lambda: np.concatenate([normal(150, 5), normal(150, 6) + 50]), (0.4, 0.55), (0.65, 1.0)),
    "copies of one": (lambda: np.repeat(normal(1, 5, 0.1), 300, axis=0), (1.0, 1.0), (0.0, 0.02)),
}


@pytest.mark.parametrize("case", CASES)
def test_precision_and_recall_of_samples(bench: Bench, case: str) -> None:
    make, precision, recall = CASES[case]
    found = bench.measure(named("gan", samples=bench.points(make())), reference=normal(300, 9))
    assert found.keys() == {("gan", "precision"), ("gan", "recall")}
    for measure, (low, high) in (("precision", precision), ("recall", recall)):
        one = found["gan", measure]
        assert low <= one.value <= high, measure
        assert one.n == 300 and one.unit == ("samples" if measure == "precision" else "points")


def test_without_a_reference_samples_are_compared_with_non_members(bench: Bench) -> None:
    near = named("", samples=bench.points(normal(SIZE, 5)))
    found = bench.measure(near, members=normal(SIZE, 1) + 50)
    assert found["", "precision"].value > 0.5 and found["", "precision"].n == SIZE
    found = bench.measure(near, others=normal(SIZE, 2) + 50)
    assert found["", "precision"].value == found["", "recall"].value == 0
    # A reference goes before.
    found = bench.measure(near, others=normal(SIZE, 2) + 50, reference=normal(SIZE, 9))
    assert found["", "precision"].value > 0.5


def test_the_smaller_side_decides_how_many_are_compared(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = named("", samples=bench.points(normal(300, 5)))
    assert bench.measure(samples, reference=normal(100, 9))["", "recall"].n == 100
    assert bench.measure(samples, reference=normal(400, 9))["", "recall"].n == 300
    assert MOST == 2000
    monkeypatch.setattr(utility, "MOST", 80)
    one, again, other = (bench.measure(samples, reference=normal(400, 9), seed=seed) for seed in (1, 1, 2))
    assert one["", "recall"].n == 80 and one == again and one != other


def test_too_few_samples_are_told_and_not_measured(bench: Bench) -> None:
    draft, few = Draft(), 10 * K - 1
    found = bench.measure(named("gan", samples=bench.points(normal(few, 5))), reference=normal(300, 9), draft=draft)
    assert not found and not draft.estimates
    (warning,) = draft.warnings
    assert warning.id == "few-samples" and f"{few} samples" in warning.message and warning.where == {"model": "gan"}
    assert bench.measure(named("", samples=bench.points(normal(few + 1, 5))), reference=normal(300, 9))


def test_models_without_samples_or_denoiser_have_no_measure(bench: Bench) -> None:
    assert bench.measure(named("gan")) == {}
