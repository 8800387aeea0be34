"""`miles certify`: images whose chance of a wrong answer under noise is known; no network is run."""

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audits.certification.certificates import ABSTAIN, Verdict, judge
from audits.certification.estimates import estimates
from audits.certification.findings import findings
from audits.certification.inputs import Inputs
from audits.certification.log_comparison import LogCounts
from audits.certification.logs import Log
from audits.certification.measure import Counts
from audits.certification.named_logs import Logs, NamedLog
from audits.certification.radii import Geometry, gaussian_radius
from audits.certification.rules import Rule, geometric_looks
from audits.certification.sampling import draw
from audits.core.context import Draft
from audits.core.records import Estimate
from calibration.checks import NONE, Calibration, Case, Check, Outcomes, held
from calibration.worlds import Floats, groups_of
from probes.classifiers.smoothing import VoteCounts

GROUPS, SIGMA, FIRST, DRAWS, RADIUS = 4, 0.5, 50, 400, 0.25
GAP, HALF = "gap", "half"
PUBLISHED, GAUSSIAN = 0.8, 0.9
"""What other radii are given as, over the certified one: they are means like that."""
WORLDS_HERE = ("exchangeable", "unequal-spread", "rare-events", "ties")
"""Each image counts once: what is about sizes has no meaning here."""
_MANY = 4_000


@dataclass(slots=True)
class Votes:
    """Counts of one image as the audit asks for them, drawn where a network would be run."""

    index: int
    label: int
    rate: float
    right: bool
    rng: np.random.Generator
    seconds: float = 0.0
    _kept: dict[str, tuple[int, int]] = field(default_factory=dict)

    def clean(self) -> int:
        """Return the class without noise."""
        return self.label if self.right else 1 - self.label

    def until(self, purpose: str, draws: int) -> VoteCounts:
        """Return the votes of the first so many draws for a purpose."""
        done, wrong = self._kept.get(purpose, (0, 0))
        wrong += int(self.rng.binomial(draws - done, self.rate))
        self._kept[purpose] = (draws, wrong)
        votes = torch.zeros(2, dtype=torch.int64)
        votes[self.label], votes[1 - self.label] = draws - wrong, wrong
        none = torch.zeros(2, dtype=torch.int64)
        return VoteCounts(draws=draws, votes=votes, sums=none, squares=none)

    def save(self) -> None:
        """Keep nothing."""


def rule_of(level: float, images: int, mode: str) -> Rule:
    """Return a rule of which no certificate of so many images is false but with a chance of 1 less the level."""
    settings: dict[str, Any] = {"mode": mode, "method": "one-sided", "n0": FIRST, "n": DRAWS, "radii": (RADIUS,)}
    looks = geometric_looks(DRAWS) if mode == "decide" else (DRAWS,)
    return Rule(geometry=Geometry("l2", SIGMA, None), alpha=(1 - level) / images, looks=looks, asked=True, **settings)


def images_of(case: Case, rng: np.random.Generator) -> tuple[Floats, np.ndarray[Any, Any]]:
    """Return the chance of an error of every image and the group that it is in, which says nothing of it.

    With the effect `gap` the images of one group err by .35 more, with `half` all err half of the time on average.
    """
    (_, drawn) = groups_of(case.world, GROUPS * case.units, rng)
    rates, at = drawn.rates, rng.permutation(np.repeat(np.arange(GROUPS), case.units))
    if case.effect == GAP:
        rates = np.where(at == 1, rates + 0.35 * (1 - rates), rates)
    if case.effect == HALF:
        rates = rates + (0.5 - drawn.estimand) / (1 - drawn.estimand) * (1 - rates)
    return rates, at


def verdicts_of(rates: Floats, rule: Rule, rng: np.random.Generator) -> list[Verdict]:
    """Return the certificates of images with these chances of an error."""
    found = []
    for index, rate in enumerate(rates.tolist()):
        counts: Any = Votes(index, int(rng.integers(2)), rate, bool(rng.random() >= rate), rng)
        verdict = judge(draw(counts, counts.label, rule), rule)
        found.append(replace(verdict, published=PUBLISHED * verdict.radius, gaussian=GAUSSIAN * verdict.radius))
    return found


def is_false(verdict: Verdict, rate: float) -> bool:
    """Tell whether a certificate claims what is not so."""
    if verdict.predict == ABSTAIN:
        return False
    sure = 1 - rate if verdict.predict == verdict.label else rate
    # A class that is never met has no radius of its own to be held against, and one always met has every.
    return sure <= 0.5 or (sure < 1 and verdict.radius > gaussian_radius(sure, 1 - sure, SIGMA))


@cache
def truths(case: Case) -> dict[str, float]:
    """Return what the estimates of the marked group are of, summed over all votes that its images may get."""
    from scipy.stats import binom

    rng = np.random.default_rng(7)
    rates, at = images_of(replace(case, units=_MANY), rng)
    rates = rates[at == 1] if case.effect == GAP else rates
    radii = _radii(rule_of(case.level, GROUPS * case.units, "fixed"))
    # Equal votes go to the first class, which is the right one half of the time.
    half = FIRST // 2
    right = binom.cdf(half - 1, FIRST, rates) + binom.pmf(half, FIRST, rates) / 2
    shares = binom.pmf(np.arange(DRAWS + 1), DRAWS, rates[:, None])
    told, told_other = radii >= 0, radii[::-1] >= 0
    radius = float((right * (shares @ np.maximum(radii, 0.0))).mean())
    noisy = 1 - _mean_rate(case)
    return {
        "certified_accuracy": float((right * (shares @ (radii >= RADIUS))).mean()),
        "prediction_accuracy": float((right * (shares @ told)).mean()),
        "abstention_rate": float(1 - (right * (shares @ told) + (1 - right) * (shares @ told_other)).mean()),
        "average_certified_radius": radius,
        "average_certified_radius_published": PUBLISHED * radius,
        "average_certified_radius_gaussian": GAUSSIAN * radius,
        "clean_accuracy": noisy,
        "noisy_accuracy": noisy,
    }


def _mean_rate(case: Case) -> float:
    (_, drawn) = groups_of(case.world, 3, np.random.default_rng(0))
    if case.effect == HALF:
        return 0.5
    return drawn.estimand + (0.35 * (1 - drawn.estimand) if case.effect == GAP else 0.0)


def _radii(rule: Rule) -> Floats:
    """Return the radius by how many of the draws were wrong, of an image whose class was chosen right; -1: none."""
    counts: Any = Votes(0, 0, 0.0, True, np.random.default_rng(0))
    found = np.empty(DRAWS + 1)
    for wrong in range(DRAWS + 1):
        looks = replace(counts, _kept={"selection": (FIRST, 0), "estimation": (DRAWS, wrong)})
        verdict = judge(draw(looks, 0, rule), rule)
        found[wrong] = -1.0 if verdict.predict == ABSTAIN else verdict.radius
    return found


@cache
def mean_draws(case: Case) -> float:
    """Return how many draws an image takes on average with --mode decide."""
    rng = np.random.default_rng(7)
    rates, _ = images_of(replace(case, units=_MANY // 4), rng)
    rule = rule_of(case.level, GROUPS * case.units, "decide")
    return float(np.mean([row.draws for row in verdicts_of(rates, rule, rng)]))


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Certify the images of one data set and hold every number and sentence against the truth."""
    rates, at = images_of(case, rng)
    seed, rule = int(rng.integers(2**31)), rule_of(case.level, len(rates), "fixed")
    verdicts, draft = verdicts_of(rates, rule, rng), Draft(seed=seed, level=case.level)
    groups = {"group": tuple(f"g{place}" for place in at), "side": tuple(rng.choice(["a", "b"], len(at)).tolist())}
    counts = _counts(verdicts, rule, groups)
    estimates(draft, counts)
    findings(draft, counts)
    outcomes: dict[str, bool | None] = {
        name: held(_row(draft, name, group="group=g1"), true)
        for name, true in truths(case).items()
        if name != "prediction_accuracy"
    }
    decide = rule_of(case.level, len(rates), "decide")
    early, other = verdicts_of(rates, decide, rng), Draft(seed=seed, level=case.level)
    estimates(other, _counts(early, decide, {}))
    if case.effect == NONE:
        outcomes["draws_per_item"] = held(_row(other, "draws_per_item"), mean_draws(case))
    for name, made in (("fixed", verdicts), ("decide", early)):
        wrong = [is_false(verdict, rate) for verdict, rate in zip(made, rates.tolist(), strict=True)]
        outcomes[f"false_certificate_bound[mode={name}]"] = any(wrong)
    outcomes |= _of_logs(case, verdicts, rates, rule, rng)
    told = [(item.id, str(item.where)) for item in draft.findings]
    for key, word in (("group", "group=g"), ("label", "'label'")):
        enough = case.units >= 5 or key == "label"
        outcomes[f"certify.uneven[{key}]"] = (
            any(i == "certify.uneven" and word in w for i, w in told) if enough else None
        )
    outcomes["certify.uneven[group] found"] = outcomes["certify.uneven[group]"]
    for name in ("certify.noise-defeats", "certify.noise-costs"):
        outcomes[name] = any(found == name for found, _ in told)
    return outcomes


def _of_logs(
    case: Case, verdicts: list[Verdict], rates: Floats, rule: Rule, rng: np.random.Generator
) -> dict[str, bool | None]:
    """Hold what is said of two logs of the same images; with the effect `gap` the second errs by .35 more."""
    worse = rates + 0.35 * (1 - rates) if case.effect == GAP else rates
    # Images are the same ones, whichever class was drawn for them.
    again = [replace(row, label=verdicts[row.index].label) for row in verdicts_of(worse, rule, rng)]
    outcomes: dict[str, bool | None] = {}
    for certified in (True, False):
        draft = Draft(level=case.level)
        counts = LogCounts(logs=_logs({"first": verdicts, "second": again}, rule if certified else None))
        estimates(draft, counts)
        findings(draft, counts)
        names = ("certified_accuracy", "average_certified_radius") if certified else ("prediction_accuracy",)
        for name in names:
            outcomes[f"{name}_difference"] = held(_row(draft, f"{name}_difference"), 0.0)
        if certified:
            outcomes["certify.logs-differ"] = any(item.id == "certify.logs-differ" for item in draft.findings)
            outcomes["certify.logs-differ found"] = outcomes["certify.logs-differ"]
        elif case.effect == NONE:
            outcomes["prediction_accuracy"] = held(
                _row(draft, "prediction_accuracy"), truths(case)["prediction_accuracy"]
            )
    return outcomes


def _logs(verdicts: dict[str, list[Verdict]], rule: Rule | None) -> Logs:
    radii = () if rule is None else rule.radii
    logs = tuple(
        NamedLog(
            name=name,
            path=Path(name),
            log=Log(
                path=name, verdicts=tuple(rows), digits=6, decimals=6, contradictions=(), certified=rule is not None
            ),
            rule=rule,
        )
        for name, rows in verdicts.items()
    )
    return Logs(
        logs=logs, verdicts={name: tuple(rows) for name, rows in verdicts.items()}, radii=radii, given=len(logs)
    )


def _counts(verdicts: list[Verdict], rule: Rule, groups: dict[str, tuple[str, ...]]) -> Counts:
    return Counts(inputs=Inputs(rule=rule, given=len(verdicts), attributes=groups), verdicts=tuple(verdicts))


def _row(draft: Draft, name: str, **where: str) -> Estimate | None:
    rows = (row for row in draft.estimates if row.name == name)
    return next((row for row in rows if all(row.where.get(key) == value for key, value in where.items())), None)


def _estimate(name: str, estimand: str, effects: tuple[str, ...] = (NONE,)) -> Check:
    return Check(name=name, kind="estimate", estimand=estimand, effects=effects, worlds=WORLDS_HERE)


def _finding(name: str, estimand: str, family: str, effect: str = NONE) -> Check:
    return Check(name=name, kind="finding", estimand=estimand, family=family, effects=(effect,), worlds=WORLDS_HERE)


CHECKS = (
    _estimate("prediction_accuracy", "share of images that predictions are right on"),
    *(
        _estimate(f"{name}_difference", "the same of two classifiers that err alike (0)")
        for name in ("certified_accuracy", "average_certified_radius", "prediction_accuracy")
    ),
    _finding("certify.logs-differ", "two logs differ in certified accuracy or radius (equal)", "all radii and logs"),
    _estimate("certified_accuracy", "share of a group's images that are right within the radius"),
    _estimate("abstention_rate", "share of a group's images without an answer"),
    _estimate("average_certified_radius", "mean certified radius of a group's images"),
    _estimate("average_certified_radius_published", "the same of another radius"),
    _estimate("average_certified_radius_gaussian", "the same of another radius"),
    _estimate("clean_accuracy", "share of a group's images that are right without noise"),
    _estimate("noisy_accuracy", "mean share of draws that are right, over a group's images", (NONE, HALF)),
    _estimate("draws_per_item", "mean draws of an image, with --mode decide"),
    *(
        _finding(f"false_certificate_bound[mode={mode}]", "some certificate is false", "all images, --family-wise")
        for mode in ("fixed", "decide")
    ),
    _finding("certify.uneven[group]", "two groups of a column differ in certified accuracy", "all of the column"),
    _finding("certify.uneven[label]", "two classes differ in certified accuracy", "all classes"),
    _finding("certify.noise-defeats", "mean share of right draws below one half (it is .5)", "itself", HALF),
    _finding("certify.noise-costs", "mean share of right draws below that without noise (equal)", "itself"),
    Check(
        name="certify.uneven[group]", kind="power", estimand="one group's images err by .35 more", effects=(GAP,),
        family="all groups of the column", worlds=WORLDS_HERE,
    ),
    Check(
        name="certify.logs-differ", kind="power", estimand="the second errs by .35 more", effects=(GAP,),
        family="all radii and logs", worlds=WORLDS_HERE,
    ),
)  # fmt: skip

_OF_A_LOG = "follows from the radii of a log, without chance"
REASONS = {
    "lipschitz_constant": "a proved bound, or the user's word",
    "implied_alpha": _OF_A_LOG,
    "reachable_share": _OF_A_LOG,
    "certify.implied-alpha": _OF_A_LOG,
    "certify.other-settings": _OF_A_LOG,
    "certify.unreachable-radii": _OF_A_LOG,
    "certify.doubtful-alpha": _OF_A_LOG,
    "certify.consistent-log": _OF_A_LOG,
    "p_value": "exact, or by the interval of its difference; certify.logs-differ rests on it",
    "certify.logs-alike": "tells what was not shown, with intervals",
    "certify.predictions": "tells prediction_accuracy, with its interval",
    "certify.nothing": "counts abstentions",
    "certify.accuracy": "tells certified_accuracy, with its interval",
    "certify.even": "tells what was not shown, with intervals",
    "attack_success": "an exact share of the images attacked; the planted planes of test_certify_attacks hold it",
    "attack_error_chance": "a chance that follows from alpha and the number of images",
    "certify.contradicted": "rests on attack_error_chance; test_attack_outcomes holds it on the boundary",
    "certify.contradiction-by-error": "rests on attack_error_chance; test_attack_outcomes holds it on the boundary",
    "certify.attacked": "tells attack_success, with its interval",
}

CALIBRATION = Calibration(
    checks=CHECKS,
    reasons=REASONS,
    simulate=simulate,
    effects={
        GAP: "the images of one group err by .35 more of what they got right",
        HALF: "images err on half of the draws on average",
    },
    quick=(
        *((Case(world=world, units=10, level=0.95), 4) for world in ("exchangeable", "ties")),
        (Case(world="rare-events", units=5, level=0.9), 4),
        (Case(world="exchangeable", units=20, level=0.95, effect=GAP), 2),
        (Case(world="exchangeable", units=10, level=0.95, effect=HALF), 4),
    ),
    full=lambda case: 400 if case.level == 0.95 and case.effect == NONE else 100,
    worlds=WORLDS_HERE,
)
