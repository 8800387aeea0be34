"""`miles audit-faithfulness`: scores of two systems whose areas, means and rates are known; no text is written."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from audits.core.context import Draft
from audits.faithfulness.estimates import estimates
from audits.faithfulness.faithful_texts import LABELLED
from audits.faithfulness.findings import findings
from audits.faithfulness.measure import Counts, Planted
from audits.faithfulness.samples import Sample
from calibration.checks import Calibration, Case, Check, Outcomes, held
from probes.texts.evidence import Evidence, Grounded

EDGE, STRONG = "edge", "strong"
SHIFT = {"none": 0.0, EDGE: math.sqrt(2) * float(norm.isf(0.2)), STRONG: 2.5}
"""By how much errors lower a score of unit variance: at the edge its area is 0.8, the least that is trusted."""
BETTER = {"none": 0.0, EDGE: 0.0, STRONG: 0.15}
"""How much more often the first system is faithful."""
RATE, SENSITIVE, SPECIFIC, SHARED = 0.6, 0.9, 0.95, 0.4
"""Share of faithful outputs, of errors that are flagged, of faithful texts that are not, and variance of contexts."""
HERE = "exchangeable"
SCORE, CHECKED = "score", "value_support"


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Hold the estimates of two systems against their truth, and the findings against what there is to find."""
    shift, better = SHIFT[case.effect], BETTER[case.effect]
    count = case.units
    context = rng.normal(size=count) * math.sqrt(SHARED)
    rates = {"first": RATE + better, "second": RATE}
    samples, scores, checked = [], [], []
    for system, rate in rates.items():
        faithful = rng.random(count) < rate
        scores.append(_scores(context, rng) - shift * ~faithful)
        checked.append(1.0 - (rng.random(count) < np.where(faithful, 1 - SPECIFIC, SENSITIVE)))
        samples += [
            Sample(id=str(at), system=system, context_id=str(at), pair=Grounded(Evidence(""), "x"), label=bool(label))
            for at, label in enumerate(faithful.tolist())
        ]
    both = {SCORE: np.concatenate(scores), CHECKED: np.concatenate(checked)}
    kept = np.flatnonzero([bool(sample.label) for sample in samples])
    texts = {name: values[kept] for name, values in both.items()}
    own = context[[int(samples[row].id) for row in kept]]
    after: dict[str, NDArray[np.float64]] = {
        SCORE: _scores(own, rng) - shift,
        CHECKED: np.asarray(rng.random(len(kept)) >= SENSITIVE, dtype=np.float64),
    }
    place = np.arange(len(kept))
    planted = tuple(
        Planted(corruption=kind, strength=0.1, rows=place, scores=made)
        for kind, made in (("value", after), ("drop", {SCORE: _scores(own, rng)}))
    )
    measured = {"scores": both, "faithful": kept, "faithful_scores": texts, "planted": planted}
    counts = Counts(samples=tuple(samples), apart={}, source=LABELLED, **measured)  # type: ignore[arg-type]
    draft = Draft(level=case.level, seed=int(rng.integers(2**31)))
    estimates(draft, counts)
    findings(draft, counts)
    area = float(norm.cdf(shift / math.sqrt(2)))
    within = float(norm.cdf(shift / math.sqrt(2 * (1 - SHARED))))
    verdicts = [claim for claim in draft.findings if claim.id == "faithfulness.verdict"]
    decided = any(claim.where["verdict"] != "undecided" for claim in verdicts)
    trust = {
        claim.where["corruption"]: claim.where["verdict"]
        for claim in draft.findings
        if claim.id == "faithfulness.trust" and claim.where["metric"] == SCORE
    }
    where: dict[str, Any] = {"metric": SCORE, "corruption": "value", "strength": 0.1}
    return {
        "metric": held(draft.get("metric", system="second", metric=SCORE, group="all"), -shift * (1 - RATE)),
        "difference": held(
            draft.get("difference", system="first", against="second", metric=SCORE, group="all"), shift * better
        ),
        "detection_auc[pairing=pooled]": held(draft.get("detection_auc", **where, pairing="pooled"), area),
        "detection_auc[pairing=paired]": held(draft.get("detection_auc", **where, pairing="paired"), within),
        "human_auc": held(draft.get("human_auc", metric=SCORE, scope="within_system", group="all"), area),
        "label_rate": held(draft.get("label_rate", system="second"), RATE),
        "false_alarm": held(draft.get("false_alarm", metric=CHECKED), 1 - SPECIFIC),
        "corrected_rate": held(draft.get("corrected_rate", system="second", metric=CHECKED), 1 - RATE),
        "omission_auc": held(draft.get("omission_auc", metric=SCORE), 0.5),
        "faithfulness.trust": trust.get("value") == "trusted",
        "faithfulness.trust found": trust.get("value") == "trusted",
        "faithfulness.verdict": decided,
        "faithfulness.verdict found": any(claim.where["verdict"] == "more" for claim in verdicts),
        "faithfulness.omission": "faithfulness.omission" in {claim.id for claim in draft.findings},
        "faithfulness.system_name": "faithfulness.system_name" in {claim.id for claim in draft.findings},
    }


def _scores(context: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw scores of unit variance, of which texts of one context share a part."""
    return np.asarray(context + rng.normal(size=len(context)) * math.sqrt(1 - SHARED))


def _check(name: str, kind: str, estimand: str, *effects: str, family: str = "itself") -> Check:
    return Check(name=name, kind=kind, estimand=estimand, effects=effects, family=family, worlds=(HERE,))  # type: ignore[arg-type]


ALL = ("none", EDGE, STRONG)
CALIBRATION = Calibration(
    checks=(
        _check("metric", "estimate", "mean score of a system", *ALL),
        _check("difference", "estimate", "difference of mean scores", *ALL),
        _check("detection_auc[pairing=pooled]", "estimate", "area against errors in other contexts", *ALL),
        _check("detection_auc[pairing=paired]", "estimate", "share of pairs in the right order", *ALL),
        _check("human_auc", "estimate", "area against labels within systems", *ALL),
        _check("label_rate", "estimate", "share of faithful outputs", *ALL),
        _check("false_alarm", "estimate", "share of faithful texts that are flagged", *ALL),
        _check("corrected_rate", "estimate", "share of outputs with an error", *ALL),
        _check("omission_auc", "estimate", "omissions leave the score alone", *ALL),
        _check("faithfulness.trust", "finding", "the true area is 0.8 or less", "none", EDGE),
        _check("faithfulness.verdict", "finding", "the systems do not differ", "none", EDGE, family="trusted metrics"),
        _check("faithfulness.omission", "finding", "omissions leave the score alone", *ALL),
        _check("faithfulness.system_name", "finding", "the systems do not differ", "none", EDGE),
        _check("faithfulness.trust", "power", "the true area is 0.96", STRONG),
        _check("faithfulness.verdict", "power", "one system errs in 0.25 of outputs, the other in 0.4", STRONG),
    ),
    reasons={
        "unsupported_rate": "the interval of rates, as of label_rate",
        "cxmi": "the same numbers as metric",
        "system_only_auc": "the area of a score with as many values as there are systems",
        "dose_response": "the mean of numbers within -1 and 1, by the interval of metric",
        "faithfulness.dose": "tells dose_response, with its interval",
    },
    simulate=simulate,
    effects={
        EDGE: "errors lower scores until the area is 0.8; the systems do not differ",
        STRONG: "errors lower scores by 2.5 standard deviations; one system errs less often",
    },
    grid=tuple(
        Case(world=HERE, units=units, level=level, effect=effect)
        for effect in ("none", EDGE, STRONG)
        for units in (50, 200)
        for level in ((0.9, 0.95) if effect == "none" else (0.95,))
    ),
    full=lambda case: 1000,
    quick=tuple((Case(world=HERE, units=100, level=0.95, effect=effect), 40) for effect in ("none", EDGE, STRONG)),
    worlds=(HERE,),
)
