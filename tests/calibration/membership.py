"""`miles membership`: a file with scores of three attacks on as many members as others, whose laws are known."""

import tempfile
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from audits.core.context import Cache, Context, Draft
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.membership import AUDIT, Options, bounding, figures
from audits.membership.pool import LEAST
from audits.statistics.roc import call_at, roc
from calibration.checks import NONE, Calibration, Case, Check, Outcomes, held
from calibration.worlds import Floats, groups_of
from probes.core.errors import InputError

LEAK, CLAIMED, RATE, ATTACKS = "leak", 0.5, 0.1, 3
SAME = ("exchangeable", "rare-events", "ties")
"""Worlds in which members and others have one law of scores: nothing leaks."""
WORLDS_HERE = (*SAME, "unequal-spread")
"""Each point counts once: what is about sizes has no meaning here."""
_MANY = 200_000


def laws(case: Case, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw scores of members and of others; with a leak those of members are shifted."""
    others, members = groups_of(case.world, count, rng)
    if case.world != "unequal-spread":
        # Of one law: that of the odd group.
        (_, others) = groups_of(case.world, count, rng)
        shift = {"ties": 0.05}.get(case.world, 0.15) if case.effect == LEAK else 0.0
        # Rounded last, or what ties in the file would differ in its last bit.
        return (members.rates + shift).round(9), others.rates.round(9)
    # Logarithms about their median: of another spread, and as often above as below each other.
    scores = [np.log(group.rates / _middle(place)) for place, group in enumerate((others, members))]
    return scores[1] + (0.5 if case.effect == LEAK else 0.0), scores[0]


@cache
def _middle(place: int) -> float:
    return float(np.median(groups_of("unequal-spread", _MANY, np.random.default_rng(1))[place].rates))


@cache
def population(case: Case) -> tuple[Floats, Floats]:
    """Return sorted scores of many more members and others than any sample has."""
    members, others = laws(case, _MANY, np.random.default_rng(2))
    return np.sort(members), np.sort(others)


def reached(scores: Floats, threshold: float) -> float:
    """Return the share of sorted scores at or above a threshold."""
    return 1 - float(np.searchsorted(scores, threshold - 1e-9)) / len(scores)


@cache
def truths(case: Case) -> tuple[float, float]:
    """Return AUC and largest advantage in the population."""
    members, others = population(case)
    below = (np.searchsorted(others, members - 1e-9) + np.searchsorted(others, members + 1e-9)) / 2
    gains = [
        reached(members, at) - reached(others, at) for at in np.unique(np.quantile(members, np.linspace(0, 1, 801)))
    ]
    return (0.5 if case.effect == NONE else float(below.mean() / len(others))), max(0.0, *gains)


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Audit one file of scores and hold every number and sentence against the truth."""
    population_case = Case(world=case.world, units=0, level=0.95, effect=case.effect)
    drawn = [laws(case, case.units, rng) for _ in range(ATTACKS)]
    scores = np.stack([np.concatenate(pair) for pair in drawn], axis=1)
    member = np.repeat([True, False], case.units)
    if case.units < LEAST:
        with pytest.raises(InputError):
            audited(scores, member, case.level, 0)
        return {}
    draft = audited(scores, member, case.level, int(rng.integers(2**31)))
    area, best = truths(population_case)
    members, others = population(population_case)
    at = call_at(roc(scores[:, 0], member), RATE).threshold
    hits, alarms = reached(members, at), reached(others, at)
    rows = {name: _row(draft, name, attack="a0") for name in ("auc", "advantage", "balanced_accuracy")}
    held_out = _row(draft, "advantage_held_out", attack="a0"), _row(draft, "balanced_accuracy_held_out", attack="a0")
    ratio = _row(draft, "hit_ratio", attack="a0")
    found: dict[str, bool | None] = {
        "auc": held(rows["auc"], area),
        "advantage": held(rows["advantage"], best),
        "balanced_accuracy": held(rows["balanced_accuracy"], (1 + best) / 2),
        "advantage_held_out": held(held_out[0], 0.0),
        "balanced_accuracy_held_out": held(held_out[1], 0.5),
        "tpr": held(_row(draft, "tpr", attack="a0", fpr=RATE), hits),
        "hit_ratio": None if ratio is None else ratio.value <= (hits / alarms if alarms else np.inf) + 1e-9,
        "leakage": held(_row(draft, "leakage"), area),
    }
    for method in ("clopper-pearson", "gdp"):
        bounds = [row.value for row in draft.estimates if row.name == "epsilon_lower" and row.where["method"] == method]
        # Of all attacks together: each is told.
        found[f"epsilon_lower[method={method}]"] = all(value <= 1e-9 for value in bounds) if bounds else None
    ids = {item.id for item in draft.findings}
    broken = [item for item in draft.findings if item.where.get("verdict") == "violation"]
    return found | {
        "membership.leak": "membership.leak" in ids,
        "membership.leak found": "membership.leak" in ids,
        "membership.flipped": "membership.flipped" in ids,
        "membership.verdict": bool(broken),
    }


def audited(scores: Floats, member: np.ndarray[tuple[int], np.dtype[np.bool_]], level: float, seed: int) -> Draft:
    """Write a file of scores and audit it, without figures and credible intervals, which take most of the time."""
    names = [f"score_a{place}" for place in range(scores.shape[1])]
    lines = [",".join(["id", "member", *names])]
    for place, (row, inside) in enumerate(zip(scores.tolist(), member.tolist(), strict=True)):
        lines.append(",".join([f"p{place}", str(int(inside)), *(f"{score:.12g}" for score in row)]))
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(figures, "figures", lambda *given: iter(())),
        patch.object(bounding, "joint_beta", lambda *counts, **more: (0.0, 10.0)),
    ):
        file = Path(folder) / "scores.csv"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = Options(scores=file, higher_is="member", epsilon=CLAIMED)
        context = Context(seed=seed, level=level, cache=Cache(Path(folder) / "cache"))
        return drafted(AUDIT, options, context)


def _row(draft: Draft, name: str, **where: str | float) -> Estimate | None:
    rows = (row for row in draft.estimates if row.name == name)
    return next((row for row in rows if all(row.where.get(key) == value for key, value in where.items())), None)


_BOTH = (NONE, LEAK)
_POINTS = "needs points, samples or models beside scores: see tests/planted/test_membership.py"
_TOLD = "tells what was not shown, with intervals"
_ALL = "all attacks"


def _estimate(name: str, estimand: str, same: bool = False, family: str = "itself") -> Check:
    effects, worlds = ((NONE,), SAME) if same else (_BOTH, WORLDS_HERE)
    return Check(name=name, kind="estimate", estimand=estimand, family=family, effects=effects, worlds=worlds)


def _finding(name: str, estimand: str, family: str, worlds: tuple[str, ...] = SAME) -> Check:
    return Check(name=name, kind="finding", estimand=estimand, family=family, worlds=worlds)


CALIBRATION = Calibration(
    checks=(
        _estimate("auc", "chance that a member's score is above another point's"),
        _estimate("advantage", "largest TPR - FPR over thresholds", family="all thresholds"),
        _estimate("balanced_accuracy", "the same as an accuracy", family="all thresholds"),
        _estimate("advantage_held_out", "TPR - FPR at the threshold of the other half", same=True),
        _estimate("balanced_accuracy_held_out", "the same as an accuracy", same=True),
        _estimate("tpr", "share of members at the threshold that the false alarms set"),
        _estimate("hit_ratio", "TPR over FPR at that threshold, at the least", family=_ALL),
        _estimate("leakage", "AUC of the attack chosen on the other half"),
        _estimate("epsilon_lower[method=clopper-pearson]", "epsilon, at the least (it is 0)", same=True, family=_ALL),
        _estimate("epsilon_lower[method=gdp]", "epsilon, at the least (it is 0)", same=True, family=_ALL),
        _finding("membership.leak", "AUC above one half, or more hits at few false alarms", "all attacks and accesses"),
        _finding("membership.flipped", "AUC below one half", "all attacks", WORLDS_HERE),
        _finding("membership.verdict", f"epsilon above the {CLAIMED:g} claimed (it is 0)", "all attacks"),
        Check(
            name="membership.leak", kind="power", estimand="scores of members are shifted", effects=(LEAK,),
            worlds=WORLDS_HERE, family="all attacks and accesses",
        ),
    ),
    reasons={
        **dict.fromkeys(("copied_members", "copied_nonmembers", "copies", "blind_auc", "utility"), _POINTS),
        "leakage_difference": _POINTS,
        "epsilon_ceiling": "what could have been shown: without an interval",
        "epsilon_claimed": "the user's word",
        "epsilon_credible": "a posterior interval, of no frequency",
        **dict.fromkeys(("membership.shifted", "membership.copies", "membership.copies-alike"), _POINTS),
        **dict.fromkeys(("membership.more-leakage", "membership.learnt-less"), _POINTS),
        "membership.equal": "tells that all scores are equal",
        "membership.no-leak": _TOLD,
        "membership.alike": _TOLD,
    },
    simulate=simulate,
    effects={LEAK: "scores of members are shifted by about a standard deviation"},
    quick=(
        *((Case(world=world, units=20, level=0.95), 40) for world in WORLDS_HERE),
        (Case(world="exchangeable", units=60, level=0.95, effect=LEAK), 20),
    ),
    full=lambda case: 1000,
    worlds=WORLDS_HERE,
)  # fmt: skip
