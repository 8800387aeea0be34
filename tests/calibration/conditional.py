"""`miles audit-conditional`: true and wrong laws of seven worlds, with rows as units; no file is read."""

from typing import Any

import numpy as np

from audits.conditional.estimates import estimates, reached
from audits.conditional.findings import findings
from audits.core.context import Draft
from audits.core.records import Estimate
from calibration.checks import Calibration, Case, Check, Outcomes, held
from calibration.conditional_simulated import LEVELS, NARROW, POINTS, WORLD, measured, truths
from probes.conditional.quantisers import normal_quantiser

HERE = "exchangeable"
AT_MODE = 0.5 * 0.9545
"""Share of draws within two standard deviations of one of two modes."""
EQUAL = float(np.abs(normal_quantiser(POINTS).weights - 1 / POINTS).sum() / 2)
"""Total variation between equal weights and those of the cells."""


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Hold the estimates of the true law and of the narrow one against what many rows have."""
    known, world = truths()[case.effect], WORLD[case.effect]
    counts = measured(case.effect, case.units, case.level, rng)
    draft = Draft(level=case.level, seed=int(rng.integers(2**31)))
    estimates(draft, counts)
    findings(draft, counts)
    metric = "energy" if counts.dimensions > 1 else "crps"

    def row(name: str, law: str = "truth", **where: object) -> Estimate | None:
        return draft.get(name, candidate=law, **{"group": "all", **where})  # type: ignore[arg-type]

    found: dict[str, bool | None] = {
        "score": held(row("score", metric=metric), known["score"]),
        "difference": held(row("difference", against="climatology", metric=metric), known["difference"]),
        "skill": held(draft.get("skill", candidate="truth", against="climatology", metric=metric), known["skill"]),
        "self_gap": held(row("self_gap"), 0.0),
        "self_gap[candidate=narrow]": held(row("self_gap", "narrow"), known["self_gap"]),
        "spread_skill": held(row("spread_skill"), 1.0),
        "uses_input": held(draft.get("uses_input", candidate="truth"), known["uses_input"]),
        "pit_deviation": held(row("pit_deviation", "narrow", projection="nearest"), known["pit_deviation"]),
        "distortion": held(row("distortion", points=2), known["distortion"]),
        "best_of": held(draft.get("best_of", candidate="truth", points=2), known["best_of"]),
        "wasserstein[kind=marginal]": held(row("wasserstein", order=1, kind="marginal"), 0.0),
        "wasserstein[kind=joint]": held(row("wasserstein", order=1, kind="joint"), 0.0),
        "wasserstein[candidate=narrow]": held(
            row("wasserstein", "narrow", order=1, kind="marginal"), known["wasserstein"]
        ),
        "mode_weight": held(row("mode_weight", mode=0), AT_MODE),
        "mode_coverage": held(row("mode_coverage", mode=0), 1 - (1 - AT_MODE) ** world.draws),
    }
    if world.spread_by_error is not None:
        found["spread_skill[candidate=narrow]"] = held(row("spread_skill", "narrow"), world.spread_by_error(NARROW))
    for level in LEVELS:
        where: dict[str, Any] = {"level": level}
        found[f"coverage[level={level}]"] = held(
            row("coverage", **where), reached(counts.rows["truth"], level, counts.dimensions)
        )
        found[f"coverage[level={level},candidate=narrow]"] = held(
            row("coverage", "narrow", **where), known.get(f"coverage {level}", -1.0)
        )
    found["width"] = held(row("width", "narrow", level=0.8), known.get("width 0.8", -1.0))
    if world.normal is not None:
        found["weight_error"] = held(draft.get("weight_error", candidate="optimal"), 0.0)
        found["weight_error[candidate=equal]"] = held(draft.get("weight_error", candidate="equal"), EQUAL)
    return {**found, **_told(case, draft)}


def _told(case: Case, draft: Draft) -> Outcomes:
    words = {
        (str(one.where["candidate"]), str(one.where["group"])): str(one.where["verdict"])
        for one in draft.findings
        if one.id == "conditional.verdict"
    }
    claims = {
        (str(one.where["candidate"]), str(one.where["claim"])): str(one.where["verdict"])
        for one in draft.findings
        if one.id == "conditional.claim"
    }
    own = {word for (law, _), word in words.items() if law == "truth"}
    modal = case.effect in ("none", "fifty")
    return {
        "conditional.verdict[candidate=truth]": bool(own - {"covers", "undecided"}),
        "conditional.verdict[verdict=ignores-input]": "ignores-input" in own,
        "conditional.verdict[verdict=mode-missing]": "mode-missing" in own if modal else None,
        "conditional.verdict[candidate=narrow] found": words.get(("narrow", "all")) == "too-narrow",
        "conditional.verdict[verdict=ignores-input] found": words.get(("climate", "all")) == "ignores-input",
        "conditional.claim[claim=c3]": claims.get(("optimal", "c3")) == "refuted",
        "conditional.claim[claim=c3] found": claims.get(("equal", "c3")) == "refuted",
    }


EVERY = tuple(WORLD)
LINE = tuple(name for name in EVERY if name != "four")
NORMAL = tuple(name for name, world in WORLD.items() if world.normal is not None)
CENTRED = tuple(name for name, world in WORLD.items() if world.spread_by_error is not None)
MODAL = ("none", "fifty")


def _check(name: str, kind: str, estimand: str, *effects: str, family: str = "itself", says: str = "") -> Check:
    return Check(
        name=name,
        kind=kind,  # type: ignore[arg-type]
        estimand=estimand,
        effects=effects,
        family=family,
        worlds=(HERE,),
        says=says,
    )


RARE = "squared errors of heavy tails, or of a mode that few draws miss, are rare and large: the mean has them seldom"
_TESTS = "all projections and groups of a candidate (Holm)"
CALIBRATION = Calibration(
    checks=(
        _check("score", "estimate", "mean fair score of the true law", *EVERY),
        _check("difference", "estimate", "true law less climatology", *EVERY),
        _check("skill", "estimate", "share of climatology's score gained", *EVERY),
        _check("self_gap", "estimate", "0, of the true law", *EVERY),
        _check("self_gap[candidate=narrow]", "estimate", "of .7 of the spread", *EVERY),
        _check("spread_skill", "estimate", "1, of the true law", *EVERY),
        _check("spread_skill[candidate=narrow]", "estimate", "of .7 of the spread", *CENTRED),
        _check("uses_input", "estimate", "loss of the true law with inputs exchanged", *EVERY),
        _check("pit_deviation", "estimate", "deviation of ranks by nearest draws, of .7 of the spread", *EVERY),
        _check("distortion", "estimate", "of two points fitted to draws of the true law", *EVERY, says=RARE),
        _check("best_of", "estimate", "squared error of the best of two draws", *EVERY, says=RARE),
        _check("wasserstein[kind=marginal]", "estimate", "0, of the true law", *EVERY),
        _check("wasserstein[kind=joint]", "estimate", "0, of the true law", *EVERY),
        _check("wasserstein[candidate=narrow]", "estimate", "between marginal laws, of .7 of the spread", *LINE),
        _check("mode_weight", "estimate", "share of draws at a mode", *MODAL),
        _check("mode_coverage", "estimate", "rows with a draw at a mode", *MODAL),
        _check("coverage[level=0.5]", "estimate", "level of the true law's interval", *EVERY),
        _check("coverage[level=0.8]", "estimate", "level of the true law's interval", *EVERY),
        _check("coverage[level=0.5,candidate=narrow]", "estimate", "of .7 of the spread", *EVERY),
        _check("coverage[level=0.8,candidate=narrow]", "estimate", "of .7 of the spread", *EVERY),
        _check("width", "estimate", "width of the interval at .8, of .7 of the spread", *EVERY),
        _check("weight_error", "estimate", "0, of optimal weights", *NORMAL, family="all cells"),
        _check(
            "weight_error[candidate=equal]", "estimate", f"{EQUAL:.3f}, of equal weights", *NORMAL, family="all cells"
        ),
        _check(
            "conditional.verdict[candidate=truth]", "finding", "any deviation of the true law", *EVERY, family=_TESTS
        ),
        _check("conditional.verdict[verdict=ignores-input]", "finding", "the true law follows its input", *EVERY),
        _check("conditional.verdict[verdict=mode-missing]", "finding", "the true law has both modes", *MODAL),
        _check("conditional.claim[claim=c3]", "finding", "weights are those of the cells", *NORMAL),
        _check("conditional.verdict[candidate=narrow]", "power", "too narrow by .7", *EVERY),
        _check("conditional.verdict[verdict=ignores-input]", "power", "a law that ignores its input", "none"),
        _check("conditional.claim[claim=c3]", "power", "weights are equal instead", *NORMAL),
    ),
    reasons={
        "p_value": "exact, beside the verdicts that rest on it",
        "distortion_ratio": "a ratio of two means, by the interval of skill; references bracket the least",
        "floor": "quantiles of what it counts, without an estimand beyond this size",
        "conditional.best_of": "tells score and best_of, both beside it",
    },
    simulate=simulate,
    effects={name: world.text for name, world in WORLD.items() if name != "none"},
    grid=tuple(Case(world=HERE, units=n, level=0.95, effect=effect) for n in (100, 300, 1000) for effect in WORLD),
    full=lambda case: 400,
    quick=tuple(
        (Case(world=HERE, units=300 if effect in ("none", "uneven") else 100, level=0.95, effect=effect), count)
        for effect, count in zip(WORLD, (10, 5, 5, 8, 8, 5, 8), strict=True)
    ),
    worlds=(HERE,),
)
