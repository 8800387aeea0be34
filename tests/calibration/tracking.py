"""`miles audit-tracking`: subjects of known accuracy at each depth answer items without a text; no model is run."""

from functools import cache

import numpy as np

from audits.core.context import Draft
from audits.tracking.estimates import estimates
from audits.tracking.findings import findings
from audits.tracking.items import Item
from audits.tracking.measure import Counts, Graded
from audits.tracking.scoring import Score
from calibration.checks import Calibration, Case, Check, Outcomes, held

STEP, GENTLE, LENGTH = "step", "gentle", "length"
DEPTHS = (0, 1, 2, 3, 4, 6, 8)
OPTIONS = ("cup", "hat", "pen", "key")
CHANCE, ACCURACY, HALF, SLOPE = 1 / len(OPTIONS), 0.9, 5.0, 1.5
LIMIT = 3
AT = 4
"""The depth whose estimates are held against their truth."""
HERE = "exchangeable"
SUBJECT = {"system": "subject"}


def accuracy(effect: str, depth: int, task: str) -> float:
    """Return the true accuracy of a subject."""
    if effect == GENTLE:
        return CHANCE + (1 - CHANCE) / (1 + float(np.exp((depth - HALF) / SLOPE))) if task == "pointer" else 1.0
    if effect == STEP:
        return 1.0 if depth <= LIMIT or task == "overwrite" else CHANCE
    return (1.0 if depth <= LIMIT else CHANCE) if effect == LENGTH else CHANCE


def last(effect: str, least: float) -> int:
    """Return the true last depth before the first at which accuracy is below a level."""
    found = -1
    for depth in DEPTHS:
        if accuracy(effect, depth, "pointer") < least:
            break
        found = depth
    return found


@cache
def items(units: int) -> tuple[Item, ...]:
    """Return as many items of each task and depth as there are units; a cheap rule answers the second option."""
    return tuple(
        Item(
            id=f"{task} {depth} {number}",
            task=task,
            prompt="",
            target=OPTIONS[0],
            options=OPTIONS,
            n_ops=8,
            n_changes=depth,
            depth=depth if task == "pointer" else min(depth, 1),
            guesses={"initial": frozenset(OPTIONS[1:2])},
            twin=number,
        )
        for task in ("pointer", "overwrite")
        for depth in DEPTHS
        for number in range(units)
    )


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Hold the estimates of a subject against its accuracy, and its findings against what it does."""
    whole = items(case.units)
    chosen: dict[int, Score] = {}
    said: dict[int, Score] = {}
    for at, item in enumerate(whole):
        share = accuracy(case.effect, item.n_changes, item.task)
        for scores in (chosen, said):
            right = rng.random() < (share - CHANCE) / (1 - CHANCE)
            answer = OPTIONS[0] if right else OPTIONS[int(rng.integers(len(OPTIONS)))]
            scores[at] = Score(answer == OPTIONS[0], answer)
    graded = (
        Graded(system="subject", scoring="choice", scores=chosen),
        Graded(system="subject", scoring="exact", scores=said),
    )
    counts, draft = Counts(items=whole, graded=graded, level_accuracy=ACCURACY), Draft(level=case.level)
    estimates(draft, counts)
    findings(draft, counts)
    told = {claim.id for claim in draft.findings}
    where = {**SUBJECT, "task": "pointer", "scoring": "choice"}
    gap = accuracy(case.effect, AT, "pointer") - accuracy(case.effect, AT, "overwrite")
    outcomes: dict[str, bool | None] = {
        "accuracy": held(draft.get("accuracy", **where, depth=AT), accuracy(case.effect, AT, "pointer")),
        "critical_n": held(draft.get("critical_n", **where), last(case.effect, ACCURACY)),
        "above_chance_depth": held(draft.get("above_chance_depth", **where), last(case.effect, CHANCE + 1e-9)),
        "half_n": held(draft.get("half_n", **where), HALF if case.effect == GENTLE else LIMIT + 0.5),
        "chained_minus_overwrite": held(draft.get("chained_minus_overwrite", **SUBJECT, depth=AT), gap),
        "format_gap": held(draft.get("format_gap", **SUBJECT, task="pointer", depth=AT), 0.0),
        "heuristic_agreement": held(
            draft.get("heuristic_agreement", **SUBJECT, heuristic="initial", task="pointer"), CHANCE
        ),
    }
    for name in ("below_chance", "shortcut", "chaining_cost", "length_cost", "format", "at_chance"):
        outcomes[f"tracking.{name}"] = outcomes[f"tracking.{name} found"] = f"tracking.{name}" in told
    return outcomes


def _check(name: str, kind: str, estimand: str, *effects: str, family: str = "itself") -> Check:
    return Check(name=name, kind=kind, estimand=estimand, effects=effects, family=family, worlds=(HERE,))  # type: ignore[arg-type]


_EXACT = "counted or computed, without chance"
_TOLD = "tells critical_n, with its interval"
_NETWORK = "the same interval of test sequences as accuracy"
CALIBRATION = Calibration(
    checks=(
        _check("accuracy", "estimate", f"accuracy at depth {AT}", "none", GENTLE),
        _check(
            "critical_n",
            "estimate",
            "last depth before accuracy is below 0.9",
            "none",
            STEP,
            GENTLE,
            family="all depths",
        ),
        _check("above_chance_depth", "estimate", "last depth above chance", "none", STEP, family="all depths"),
        _check("half_n", "estimate", "depth half-way to chance", GENTLE),
        _check(
            "chained_minus_overwrite", "estimate", f"difference of accuracies at {AT} changes", "none", GENTLE, LENGTH
        ),
        _check("format_gap", "estimate", "choosing and saying are equally accurate", "none", GENTLE),
        _check("heuristic_agreement", "estimate", "share of answers that a rule gives by chance", "none"),
        _check("tracking.below_chance", "finding", "accuracy is chance", "none", family="all depths of a task"),
        _check("tracking.shortcut", "finding", "answers are guesses", "none", family="all rules of a task"),
        _check("tracking.chaining_cost", "finding", "both tasks are equally hard", "none", LENGTH),
        _check("tracking.length_cost", "finding", "accuracy does not fall", "none"),
        _check("tracking.format", "finding", "choosing and saying are equally accurate", "none", GENTLE),
        _check("tracking.at_chance", "power", "answers are guesses", "none", family="all depths of a task"),
        _check("tracking.chaining_cost", "power", "chained changes are lost from 4 on, others never", STEP),
        _check("tracking.length_cost", "power", "all changes are lost from 4 on", LENGTH),
    ),
    reasons={
        "chance": _EXACT,
        "depth_bound": _EXACT,
        "layers_needed": _EXACT,
        "heuristic_gold": _EXACT,
        "operator_difference": _EXACT,
        "seconds_ratio": "times of one machine: order statistics of seven pairs",
        "depth_use": "log2 of critical_n, end by end",
        "layer_critical_n": "the interval of critical_n, of test sequences",
        "exact_match": _NETWORK,
        "block_share": "the mean of shares of items; mean_interval is calibrated with other audits",
        "tracking.depth_pattern": _TOLD,
        "tracking.heads": "tells exact_match of a pair of networks, with their intervals",
        "tracking.block_structure": "the largest of many heads is picked, and the finding says so",
        "tracking.operator_mismatch": _EXACT,
    },
    simulate=simulate,
    effects={
        STEP: "right to depth 3, then guesses; without chaining always right",
        GENTLE: "a logistic curve about depth 5; without chaining always right",
        LENGTH: "right to 3 changes, chained or not, then guesses",
    },
    grid=tuple(
        Case(world=HERE, units=units, level=level, effect=effect)
        for effect in ("none", STEP, GENTLE, LENGTH)
        for units in (20, 60)
        for level in ((0.9, 0.95) if effect == "none" else (0.95,))
    ),
    full=lambda case: 1000,
    quick=tuple(
        (Case(world=HERE, units=60, level=0.95, effect=effect), 40) for effect in ("none", STEP, GENTLE, LENGTH)
    ),
    worlds=(HERE,),
)
