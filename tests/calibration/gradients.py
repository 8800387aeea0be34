"""`miles audit-gradients`: estimates of known direction, error and bias at every batch; no network is run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Draft
from audits.gradients.counts import Counts
from audits.gradients.estimates import estimates
from audits.gradients.findings import findings
from calibration.checks import Calibration, Case, Check, Outcomes, held
from probes.gradients.agreement import Agreement, compare, stacked

Floats = NDArray[np.float64]
EDGE, STRONG = "edge", "strong"
SIZE, DRAWS = 200, 8
LAYERS = ("first", "last", "hidden", "all")
COSINE = {"none": 0.0, EDGE: 1.96 / SIZE**0.5, STRONG: 0.5}
"""At `edge` the cosine is as large as that of one in twenty random estimates."""
NOISE = 0.5
"""Relative error of the gradient of a batch."""
NEAR = {"none": NOISE, EDGE: NOISE, STRONG: NOISE / 3}
SAME = {"none": 1e-15, EDGE: 1e-6, STRONG: 0.1}
BIAS = {"none": 0.0, EDGE: 0.2, STRONG: 0.5}
FLIPPED, SPREAD, FASTER, LOSS = 0.2, 0.1, 1.5, 0.05
HERE = "exchangeable"


def _sums(guess: Floats, exact: Floats) -> Agreement:
    """Return the sums of estimates, (draws, batches, layers, entries), of one step."""
    parts = [
        stacked([compare(guess[:, b, at], one, float(np.abs(one).max())) for at, one in enumerate(layers)], 1)
        for b, layers in enumerate(exact)
    ]
    return stacked(parts, -1).map(lambda one: one[:, :, None]).with_totals([True, False])


def _across(exact: Floats, rng: np.random.Generator) -> Floats:
    """Return directions at right angles to a gradient, as long as it is."""
    drawn = rng.normal(size=exact.shape)
    squares = (exact**2).sum(-1, keepdims=True)
    drawn -= (drawn * exact).sum(-1, keepdims=True) / squares * exact
    return np.asarray(drawn * np.sqrt(squares / (drawn**2).sum(-1, keepdims=True)))


def _aimed(exact: Floats, cosine: float, spread: float, rng: np.random.Generator) -> Floats:
    """Return an estimate whose cosine in a batch is normal about its mean; its length is about 1."""
    drawn = np.clip(cosine + spread * rng.normal(size=(*exact.shape[:2], 1)), -1, 1)
    length = 1 + SPREAD * rng.normal(size=drawn.shape)
    return np.asarray(length * (drawn * exact + np.sqrt(1 - drawn**2) * _across(exact, rng)))


def _off(exact: Floats, error: float, rng: np.random.Generator) -> Floats:
    """Return an estimate whose relative error in a batch is about a number."""
    return np.asarray(exact + error * (1 + SPREAD * rng.normal(size=(*exact.shape[:2], 1))) * _across(exact, rng))


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Hold the estimates against what was planted, and the findings against what there is to find."""
    effect, count = case.effect, case.units
    exact = rng.normal(size=(count, 2, SIZE))
    noise = rng.normal(size=(DRAWS, *exact.shape))
    signs = np.where(rng.random(exact.shape) < FLIPPED, -1.0, 1.0)
    # A random direction has a cosine of this spread.
    aimed = _aimed(exact, COSINE[effect], SIZE**-0.5, rng)
    guesses = {
        "minibatch": _off(exact, NOISE, rng)[None],
        "aimed": aimed[None],
        "near": _off(exact, NEAR[effect], rng)[None],
        "same": _off(exact, SAME[effect], rng)[None],
        "flipped": (signs * exact)[None],
        "drawn": exact + BIAS[effect] * _across(exact, rng) + noise,
        **{f"path-{k}": _aimed(exact, c, 0.3 * (1 - c), rng)[None] for k, c in ((1, 0.8), (2, 0.95), (4, 0.999))},
    }
    losses, rounds = rng.normal(size=count), rng.normal(size=count)
    counts = Counts(
        layers=LAYERS,
        steps=(0,),
        agreements={name: _sums(guess, exact) for name, guess in guesses.items()},
        losses={"steps": {"bp": losses, "near": losses + LOSS * (1 + rng.normal(size=count))}},
        costs={
            ("bp", "seconds"): np.exp(rounds),
            ("near", "seconds"): np.exp(rounds + SPREAD * rng.normal(size=count)) / FASTER,
        },
    )
    draft = Draft(level=case.level, seed=int(rng.integers(2**31)))
    estimates(draft, counts)
    findings(draft, counts)
    told = {(claim.id.partition(".")[2], claim.where.get("method")) for claim in draft.findings}
    chance = any(
        claim.id == "gradients.chance"
        and claim.where["method"] == "aimed"
        and claim.where["layer"] in ("first", "hidden")
        for claim in draft.findings
    )
    verdicts = {
        claim.where["verdict"]
        for claim in draft.findings
        if claim.id == "gradients.descent" and claim.where["method"] == "aimed"
    }
    where: dict[str, Any] = {"layer": "first", "step": 0}
    return {
        "cosine": held(draft.get("cosine", method="aimed", **where), COSINE[effect]),
        "norm_ratio": held(draft.get("norm_ratio", method="aimed", **where), 1.0),
        "relative_error": held(draft.get("relative_error", method="near", **where), NEAR[effect]),
        "sign_agreement": held(draft.get("sign_agreement", method="flipped", **where), 1 - FLIPPED),
        "relative_bias": held(draft.get("relative_bias", method="drawn", **where), BIAS[effect]),
        # Each entry has a variance of 1, and so has each of the gradient, whose length is that of a batch.
        "relative_variance": held(draft.get("relative_variance", method="drawn", **where), SIZE / (SIZE - 2)),
        "loss_at_budget": held(draft.get("loss_at_budget", method="bp", budget="steps"), 0.0),
        "loss_difference": held(draft.get("loss_difference", method="near", against="bp", budget="steps"), LOSS),
        "speedup": held(draft.get("speedup", method="near"), FASTER),
        "iterations_needed": held(draft.get("iterations_needed", method="path", cosine=0.99), 4),
        "gradients.chance": chance,
        "gradients.chance found": chance,
        "gradients.equal": ("equal", "same") in told,
        "gradients.equal found": ("equal", "same") in told,
        "gradients.not_equal": ("not_equal", "same") in told,
        "gradients.not_equal found": ("not_equal", "same") in told,
        "gradients.descent": bool(verdicts & {"ascent", "descent"}),
        "gradients.descent found": "descent" in verdicts,
        "gradients.below_noise": ("below_noise", "near") in told,
        "gradients.below_noise found": ("below_noise", "near") in told,
    }


def _check(name: str, kind: str, estimand: str, *effects: str, family: str = "itself") -> Check:
    return Check(name=name, kind=kind, estimand=estimand, effects=effects, family=family, worlds=(HERE,))  # type: ignore[arg-type]


EVERY = ("none", EDGE, STRONG)
_EXACT = "counted, without chance"
CALIBRATION = Calibration(
    checks=(
        _check("cosine", "estimate", "mean cosine over batches", *EVERY),
        _check("norm_ratio", "estimate", "mean length, in lengths of the gradient", *EVERY),
        _check("relative_error", "estimate", "mean relative error", *EVERY),
        _check("sign_agreement", "estimate", "share of entries with equal sign", *EVERY),
        _check("relative_bias", "estimate", "bias over 8 draws of a batch", *EVERY),
        _check("relative_variance", "estimate", "variance over 8 draws of a batch", *EVERY),
        _check("loss_at_budget", "estimate", "mean loss over seeds", *EVERY),
        _check("loss_difference", "estimate", "mean difference of losses within seeds", *EVERY),
        _check("speedup", "estimate", "ratio of seconds within rounds", *EVERY),
        _check("iterations_needed", "estimate", "fewest tried iterations with a cosine of 0.99", *EVERY),
        _check("gradients.chance", "finding", "the cosine is at the edge of chance, or above", EDGE, STRONG),
        _check("gradients.equal", "finding", "the relative error is 1e-6 or more", EDGE, STRONG),
        _check("gradients.not_equal", "finding", "the estimate is the gradient", "none"),
        _check("gradients.descent", "finding", "the estimate is random", "none"),
        _check("gradients.below_noise", "finding", "the error is that of a batch", "none", EDGE),
        _check("gradients.chance", "power", "the estimate is random", "none"),
        _check("gradients.equal", "power", "the estimate is the gradient", "none"),
        _check("gradients.not_equal", "power", "the relative error is 0.1", STRONG),
        _check("gradients.descent", "power", "the cosine is 0.5", STRONG),
        _check("gradients.below_noise", "power", "the error is a third of that of a batch", STRONG),
    ),
    reasons={
        "progress_ratio": "a mean over batches, by the interval of cosine",
        "assumption_gap": "a mean over batches, by the interval of cosine, or exact",
        "cost": "exact, or seconds of one machine",
        "speedup_ceiling": "exact, or seconds of one machine",
        "gradients.dead": _EXACT,
        "gradients.claimed_speed": "tells speedup beside its ceiling",
    },
    simulate=simulate,
    effects={
        EDGE: "a cosine at the edge of chance; an error of 1e-6, one as of a batch, and a bias of 0.2",
        STRONG: "a cosine of 0.5; an error of 0.1, one of a third of that of a batch, and a bias of 0.5",
    },
    grid=tuple(
        Case(world=HERE, units=units, level=level, effect=effect)
        for effect in EVERY
        for units in (8, 16)
        for level in ((0.9, 0.95) if effect == "none" else (0.95,))
    ),
    full=lambda case: 1000,
    quick=tuple((Case(world=HERE, units=16, level=0.95, effect=effect), 40) for effect in EVERY),
    worlds=(HERE,),
)
