"""Does the audit find members where a model learnt its points by heart, and nobody where there is nothing to find?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_points import attack_of, inputs_of, labelled
from chance import at_most
from headlines import says
from numpy.typing import NDArray
from safetensors.torch import save_file

from audits.core import runner
from audits.core.context import Cache, Claim, Context, Draft, Plan
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.membership import AUDIT, Options, bounding, figures, measure
from audits.membership.releases import Release
from audits.membership.scoring import Scored
from probes.generators.diffusion import linear
from probes.generators.generative_training import train_denoiser

pytestmark = pytest.mark.usefixtures("one_thread")
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
SIDE = 100
ASKED, FROM_SAMPLES = ("loss", "sima", "pia"), ("nearest", "calibrated", "domias")
NULL = 0.05
"""Largest share of audits in which something may be told that is not there."""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out figures and credible intervals, which say nothing here and take most of the time."""
    monkeypatch.setattr(figures, "figures", lambda *given: iter(()))
    monkeypatch.setattr(bounding, "joint_beta", lambda *counts, **more: (0.0, 10.0))


@pytest.fixture(scope="module")
def digits() -> tuple[Singles, NDArray[np.int64]]:
    """Return handwritten digits, (1797, 1, 8, 8) from -1 to 1 in random order, and which digit each is."""
    from sklearn.datasets import load_digits

    given = load_digits()
    order = np.random.default_rng(0).permutation(len(given.images))
    return (np.asarray(given.images, dtype=np.float32)[:, None] / 8 - 1)[order], given.target[order]


@pytest.fixture(scope="module")
def overfitted(digits: tuple[Singles, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a diffusion model that was trained on the first points until it knew them."""
    module = train_denoiser(digits[0][:SIDE], alphas_bar=linear(), steps=3000, batch=50, seed=0)
    path = tmp_path_factory.mktemp("model") / "ddpm.safetensors"
    save_file(module.state_dict(), path)
    return path


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs the audit on points."""

    folder: Path

    def audit(self, members: Singles, others: Singles, *, seed: int = 0, **asked: Any) -> Draft:
        for name, points in (("members", members), ("nonmembers", others)):
            np.save(self.folder / f"{name}.npy", points)
        for name in ("samples", "reference"):
            if name in asked:
                np.save(self.folder / f"{name}.npy", asked[name])
                asked[name] = self.folder / f"{name}.npy"
        sides = {name: self.folder / f"{name}.npy" for name in ("members", "nonmembers")}
        options = Options(**{"blind": False, **sides, **asked})
        context = Context(cache=Cache(self.folder / "cache"), seed=seed)
        return drafted(AUDIT, options, context)

    def asked(self, model: Path, members: Singles, others: Singles, **more: Any) -> Draft:
        how: dict[str, Any] = {"model": str(model), "arch": "mlp-denoiser", "schedule": "linear", "attack": ASKED}
        return self.audit(members, others, epsilon=0.5, **{**how, **more})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def row(draft: Draft, name: str, **where: str) -> Estimate:
    (found,) = [one for one in draft.estimates if one.name == name and where.items() <= one.where.items()]
    return found


def told(draft: Draft, name: str) -> list[Claim]:
    return [one for one in draft.findings if one.id == f"membership.{name}"]


def test_points_that_a_model_knows_by_heart_are_told_from_others(
    bench: Bench, digits: tuple[Singles, Any], overfitted: Path
) -> None:
    draft = bench.asked(overfitted, digits[0][:SIDE], digits[0][SIDE : 2 * SIDE])
    for attack in ASKED:
        found = row(draft, "auc", attack=attack)
        assert found.value > 0.9 and found.low is not None and found.low > 0.8, attack
        assert row(draft, "tpr", attack=attack, fpr=0.1).value > 0.7
    (leak,) = told(draft, "leak")
    assert leak.severity == "high" and leak.where["access"] == "weights" and leak.where["attack"] in ASKED
    assert not told(draft, "no-leak")
    broken = told(draft, "verdict")
    assert broken and all(one.where["verdict"] == "violation" and one.severity == "medium" for one in broken)
    assert all("heuristic" in says(one) for one in broken)


def test_a_model_that_saw_none_of_the_points_gives_nobody_away(
    bench: Bench, digits: tuple[Singles, Any], overfitted: Path
) -> None:
    found, areas = Counter[str](), []
    trials = (len(digits[0]) - SIDE) // (2 * SIDE)
    for trial in range(trials):
        members, others = np.split(digits[0][SIDE + 2 * SIDE * trial :][: 2 * SIDE], 2)
        draft = bench.asked(overfitted, members, others, seed=trial)
        areas.append([row(draft, "auc", attack=attack).value for attack in ASKED])
        found["leak"] += bool(told(draft, "leak"))
        found["violation"] += any(one.where["verdict"] == "violation" for one in told(draft, "verdict"))
        assert bool(told(draft, "leak")) != bool(told(draft, "no-leak")) and told(draft, "verdict")
    assert trials == 8 and found["leak"] <= at_most(NULL, trials) and found["violation"] <= at_most(NULL, trials)
    # An area from 100 and 100 points, of which half are judged, has a standard error of 0.058.
    assert np.abs(np.mean(areas, axis=0) - 0.5).max() < 4 * 0.058 / np.sqrt(trials)


def test_samples_that_are_copies_give_members_away_and_fresh_ones_do_not(
    bench: Bench, digits: tuple[Singles, Any]
) -> None:
    points, rng = digits[0], np.random.default_rng(1)
    members, others, reference = points[:SIDE], points[SIDE : 2 * SIDE], points[2 * SIDE : 6 * SIDE]
    copies = (members + 0.05 * rng.normal(size=members.shape)).astype(np.float32)
    fresh = points[6 * SIDE : 10 * SIDE]
    samples = np.concatenate([copies, fresh])
    given: dict[str, Any] = {"reference": reference, "attack": FROM_SAMPLES}
    draft = bench.audit(members, others, samples=samples, **given)
    assert row(draft, "auc", attack="nearest").value > 0.95
    assert row(draft, "auc", attack="calibrated").value > 0.95
    (leak,) = told(draft, "leak")
    assert leak.severity == "high" and leak.where["access"] == "samples"
    draft = bench.audit(members, others, samples=fresh, **given)
    assert not told(draft, "leak")
    (none,) = told(draft, "no-leak")
    assert none.where["access"] == "samples" and "four of five" in says(none)


def test_sides_of_other_digits_stop_the_verdict(bench: Bench, digits: tuple[Singles, NDArray[np.int64]]) -> None:
    points, kinds = digits
    low, high = (points[SIDE:][kinds[SIDE:] // 5 == part] for part in (0, 1))
    given: dict[str, Any] = {"epsilon": 0.5, "blind": True, "attack": ("nearest", "monte-carlo")}
    draft = bench.audit(low[:SIDE], high[:SIDE], samples=low[SIDE : 3 * SIDE], **given)
    (shifted,) = told(draft, "shifted")
    assert shifted.severity == "high" and row(draft, "blind_auc", classifier="trees").value > 0.9
    assert not told(draft, "verdict") and "no-verdict" in {one.id for one in draft.warnings}
    # The samples are of the members' digits: the leak is the difference, and is told so.
    assert all("may be the difference between the two sides" in says(one) for one in told(draft, "leak"))
    assert told(draft, "leak")
    draft = bench.audit(low[:SIDE], low[SIDE : 2 * SIDE], samples=low[2 * SIDE :], **given)
    assert not told(draft, "shifted") and told(draft, "verdict")
    assert "no-verdict" not in {one.id for one in draft.warnings}


def scores(rng: np.random.Generator, member: NDArray[np.bool_], moves: Floats, common: float = 0.5) -> Floats:
    """Draw normal scores of attacks, (attacks, points): members are moved, and points have some of them in common."""
    own = rng.normal(size=(len(moves), len(member)))
    shared = rng.normal(size=len(member))
    return np.sqrt(common) * shared + np.sqrt(1 - common) * own + moves[:, None] * member


def compared(
    monkeypatch: pytest.MonkeyPatch, cache: Path, models: Mapping[str, Floats], tiers: Sequence[str], seed: int
) -> Draft:
    """Run the audit on models of which each has an attack of each tier, whose scores are known."""
    member = np.arange(2 * SIDE) < SIDE
    attacks = [
        attack_of(f"attack-{number}", found, member, model=model, tier=tier)
        for model, rows in models.items()
        for number, (tier, found) in enumerate(zip(tiers, rows, strict=True))
    ]
    monkeypatch.setattr(measure, "score", lambda *given: Scored(attacks=attacks))
    releases = tuple(Release(name=model) for model in models)
    inputs = inputs_of(labelled(member, seed=seed), fprs=(0.1,), releases=releases)
    context = Context(cache=Cache(cache), seed=seed)
    made = Plan(inputs=inputs, subject=None, data=(), cost=())
    return runner.carry_out(AUDIT, Options(suite=cache, blind=False), made, context)


@pytest.mark.parametrize(("models", "tiers"), [(1, ["full"] * 8), (4, ["samples", "full"])])
def test_seldom_is_anything_told_of_scores_that_know_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, models: int, tiers: Sequence[str]
) -> None:
    member, found, trials = np.arange(2 * SIDE) < SIDE, Counter[str](), 100
    names = [f"model-{place}" for place in range(models)] if models > 1 else [""]
    for seed in range(trials):
        rows = scores(np.random.default_rng([7, seed]), member, np.zeros(8), 0.0).reshape(models, len(tiers), -1)
        draft = compared(monkeypatch, tmp_path, dict(zip(names, rows, strict=True)), tiers, seed)
        found["leak"] += bool(told(draft, "leak"))
        found["more"] += bool(told(draft, "more-leakage"))
        areas = [one for one in draft.estimates if one.name == "auc"]
        assert len(areas) == 8 and len(told(draft, "alike")) >= (models > 1) * (1 - bool(told(draft, "more-leakage")))
        found["any"] += any((one.low or 0) > 0.5 for one in areas)
    assert found["leak"] <= at_most(NULL, trials) and found["more"] <= at_most(NULL, trials)
    assert found["any"] > at_most(NULL, trials), "what is not paid for would not be noticed"


def test_the_model_that_leaks_more_is_told_with_the_access_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    member, found, trials = np.arange(2 * SIDE) < SIDE, Counter[str](), 20
    tiers = ("samples", "samples", "denoiser", "full")
    for seed in range(trials):
        rng = np.random.default_rng([8, seed])
        moves = np.array([0.0, 0.0, 1.5, 0.0, 0.0, 0.0, 0.0, 1.5])
        one, other = np.split(scores(rng, member, moves), 2)
        draft = compared(monkeypatch, tmp_path, {"one": one, "other": other}, tiers, seed)
        found.update(f"leak {one.where['model']} {one.where['access']}" for one in told(draft, "leak"))
        for one in told(draft, "more-leakage"):
            found[f"more {one.where['access']}"] += "one leaks more than other" in says(one)
            found[f"wrong {one.where['access']}"] += "other leaks more than one" in says(one)
    # The second model's leak is in its discriminator alone: with all that was released the two are alike.
    assert found["leak one weights"] == found["leak other full"] == found["more weights"] == trials
    for nothing in ("leak one samples", "leak other samples", "leak other weights", "more samples", "more full"):
        assert found[nothing] <= at_most(NULL, trials), nothing
    assert not found["wrong weights"] and found["wrong samples"] + found["wrong full"] <= at_most(NULL, trials)
