"""Is it said where shadow models are too few, too weak or of another kind, and is nothing said where they are good?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_points import inputs_of, labelled, points_of
from torch import nn

from audits.core.context import Cache, Context, Draft
from audits.membership import Options, attacking
from audits.membership.attacking import FEW_SHADOWS, attack_all
from audits.membership.estimates import estimates
from audits.membership.measure import Counts, score
from audits.membership.membership_scores import ShadowScores
from audits.membership.pool import LEAST, Pool
from audits.membership.releases import Release
from audits.membership.scoring import Scored
from audits.membership.settings import LIRA
from probes.generators.attacks.denoiser import Request
from probes.generators.diffusion import Denoiser, linear
from probes.generators.shadows import Shadows, complementary_halves

POINTS = 200


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(cache=Cache(tmp_path))


def denoiser() -> Denoiser:
    return Denoiser(
        module=nn.Identity(), alphas_bar=linear(100), prediction="epsilon", shape=(1,), path="", family="", sha256="",
        parameters=0,
    )  # fmt: skip


class Drawn:
    """Stands for the networks: losses that are log-normal, lower by `leak` where a point was trained on."""

    def __init__(self, member: Any, *, models: int, leak: float, apart: float) -> None:
        self.member, self.models, self.leak, self.apart = member, models, leak, apart
        self.rng = np.random.default_rng(0)

    def minus_losses(self, kept: Any, apart: float = 0.0) -> Any:
        return -np.exp(0.1 * self.rng.normal(size=kept.shape) - self.leak * kept + apart)

    def own(self, _: Denoiser, points: Any, requests: Sequence[Request], **more: Any) -> dict[Request, Any]:
        return {request: self.minus_losses(self.member, self.apart) for request in requests}

    def shadows(self, _: Denoiser, points: Any, requests: Sequence[Request], **more: Any) -> Shadows:
        keep = complementary_halves(self.models, len(self.member), 0)
        return Shadows(keep=keep, scores={request: self.minus_losses(keep) for request in requests})


CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "good": ({}, {}),
    "few": ({"models": FEW_SHADOWS - 2}, {"few-shadows": f"{FEW_SHADOWS - 2} shadow models are few"}),
    "losses of another size": ({"apart": 1.0}, {"other-shadows": "At t = 10 the audited model takes non-members"}),
    "losses of a smaller size": ({"apart": -1.0}, {"other-shadows": "At t = 10 the audited model takes non-members"}),
    "less than chance apart": ({"apart": 0.1}, {}),
    "few were trained on": ({"members": 40}, {"other-shadows": "trained on 100 points, the audited one on 40"}),
    "just as many": ({"members": 50}, {}),
    "nothing leaks": ({"leak": 0.0}, {"weak-shadows": "no attack reaches an AUC above"}),
}


@pytest.mark.parametrize("case", CASES)
def test_shadows_that_are_no_likeness_of_the_audited_model_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: Context, case: str
) -> None:
    asked, told = CASES[case]
    kind = {"models": FEW_SHADOWS, "leak": 0.3, "apart": 0.0, "members": POINTS // 2, **asked}
    member = np.arange(POINTS) < kind.pop("members")
    drawn = Drawn(member, **kind)
    monkeypatch.setattr(attacking, "compute_scores", lambda *_, **__: None)
    monkeypatch.setattr(attacking, "score_denoiser", drawn.own)
    monkeypatch.setattr(attacking, "train_and_score", drawn.shadows)
    pool = replace(labelled(member), points=points_of(tmp_path / "points", -1, 1, count=POINTS))
    given = inputs_of(pool, timesteps=(10,), releases=(Release(name="", denoiser=denoiser()),))
    found = Scored()
    attack_all(found, given, Options(shadows=kind["models"], attack=("loss", *LIRA)), context)
    assert [one.name for one in found.attacks] == ["loss", *LIRA]
    assert {one.id for one in found.warnings} == told.keys()
    for one in found.warnings:
        assert told[one.id] in one.message
    # Without likelihood ratios nothing rests on the likeness.
    plain = Scored()
    attack_all(plain, given, Options(shadows=kind["models"], attack=("loss",)), context)
    assert {one.id for one in plain.warnings} == told.keys() & {"weak-shadows"}


def scores_of_five(pool: Pool, each: int) -> ShadowScores:
    """Return scores of which `each` points a side and half have two models with and two without them."""
    rng, member = np.random.default_rng(1), pool.member
    keep = np.ones((5, len(pool)), dtype=np.bool_)
    keep[0] = member
    for half in (pool.chooses, ~pool.chooses):
        for kind in (True, False):
            keep[3:, np.flatnonzero(half & (member == kind))[:each]] = False
    return ShadowScores(
        scores=rng.normal(size=(5, len(pool), 1)) + keep[:, :, None], keep=keep, target=0, reference=None,
        scale="unknown", names=pool.names, given=len(pool), skipped={}, sha256="", notes=(), path="", layout="",
        models=tuple("abcde"),
    )  # fmt: skip


@pytest.mark.parametrize(("each", "made"), [(LEAST // 2 - 1, False), (LEAST // 2, True)])
def test_likelihood_ratios_of_too_few_points_are_not_made(context: Context, each: int, made: bool) -> None:
    pool = labelled(np.arange(80) < 40)
    given = inputs_of(pool, fprs=(0.1,), given=scores_of_five(pool, each))
    found = score(given, Options(scores=Path("s.npz")), context)
    missing = {one.where["attack"]: one.message for one in found.warnings if one.id == "no-shadows"}
    ratios = ("lira-online", "lira-offline")
    assert [one.name for one in found.attacks] == ["threshold", *(ratios if made else ())]
    assert set(missing) == (set() if made else set(ratios))
    assert all(f"{4 * each} of 80 points" in message for message in missing.values())
    draft = Draft()
    options = Options(scores=Path("s.npz"))
    estimates(draft, Counts(inputs=given, options=options, level=0.95, seed=0, attacks=tuple(found.attacks)))
    unscored = {one.where["attack"]: one.message for one in draft.warnings if one.id == "unscored"}
    assert set(unscored) == (set(ratios) if made else set())
    assert all(f"{80 - 4 * each} of 80 points" in message for message in unscored.values())
    counts = {one.where["attack"]: one.n for one in draft.estimates if one.name == "auc"}
    assert counts == {"threshold": 80, **(dict.fromkeys(ratios, 4 * each) if made else {})}
