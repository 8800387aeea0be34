"""Do estimates and findings of grounding hold where chance, a missing number or few runs could make them claim more?"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.records import Estimate
from audits.faithfulness.detectable import _differences
from audits.faithfulness.estimates import difference_row, estimates
from audits.faithfulness.findings import _sign, findings
from audits.faithfulness.measure import NOISY, REFERENCES, Counts, Planted
from audits.faithfulness.samples import Sample
from probes.texts.evidence import Evidence, Grounded


def sample(at: int, system: str = "one", **more: Any) -> Sample:
    given = {"id": str(at), "context_id": str(at), "pair": Grounded(Evidence(""), "x"), **more}
    return Sample(system=system, **given)


def judged(samples: Sequence[Sample], scores: Mapping[str, Any], **more: Any) -> Draft:
    draft = Draft(level=0.95, seed=0)
    counts = Counts(samples=tuple(samples), apart={}, scores=scores, **more)
    estimates(draft, counts)
    findings(draft, counts)
    return draft


def test_names_of_systems_that_do_not_differ_tell_nothing() -> None:
    found = []
    for seed in range(8):
        labels = np.random.default_rng(seed).random(320) < 0.5
        draft = judged([sample(at, f"system {at % 40}", label=bool(one)) for at, one in enumerate(labels)], {})
        found += draft.select("system_only_auc")
        assert "faithfulness.system_name" not in {claim.id for claim in draft.findings}
    assert abs(np.mean([row.value for row in found]) - 0.5) < 0.05


def test_names_of_systems_that_differ_tell_as_much_as_their_rates() -> None:
    labels = [at % 4 != place for place in (0, 4) for at in range(400)]
    draft = judged([sample(at, str(at // 400), label=one) for at, one in enumerate(labels)], {})
    # Of 400 and 300 faithful outputs and 100 others, all of the first system; halves differ a little in size.
    assert abs(draft.select("system_only_auc")[0].value - (400 + 300 / 2) / 700) < 1e-3


def test_decodes_are_judged_by_metrics_that_faithful_texts_have_no_score_of() -> None:
    rows = np.arange(20)
    spread = np.linspace(0, 1, 20)
    decodes = [
        Planted(corruption=NOISY, strength=alpha, rows=rows, scores={"parent_precision": spread - alpha})
        for alpha in (0.0, 0.5, 1.0, 0.0)
    ]
    draft = judged(
        [sample(at) for at in range(20)],
        {"parent_precision": spread},
        source=REFERENCES,
        faithful=rows,
        decodes=tuple(decodes),
    )
    assert len(draft.select("detection_auc", corruption=NOISY)) == 3


def test_a_difference_over_runs_is_covered_where_contexts_matter_as_much_as_trainings() -> None:
    contexts, runs, covered, repeats = 40, 20, 0, 400
    rng = np.random.default_rng(0)
    system, run, context = (part.ravel() for part in np.meshgrid(range(2), range(runs), range(contexts), indexing="ij"))
    for _ in range(repeats):
        # Of the mean difference, trainings and contexts both have the variance 2 / runs.
        scores = (
            rng.normal(size=(2, runs))[system, run]
            + rng.normal(size=(2, contexts))[system, context] * (contexts / runs) ** 0.5
        )
        found = difference_row(scores, context, [system == 0, system == 1], run.astype(str), 0.95)
        assert isinstance(found, Interval) and found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
    # 95 % less three standard errors.
    assert covered / repeats > 0.917


def test_many_metrics_over_few_runs_are_corrected_by_the_tails_of_few_runs() -> None:
    given = {"name": "difference", "value": 1.0, "level": 0.95, "method": "t", "n": 3, "unit": "runs", "where": {}}
    row = Estimate(low=0.4, high=1.6, **given)  # type: ignore[arg-type]
    # Student's quantiles with 2 degrees of freedom are 4.30 and, for ten at once, 14.09.
    assert [_sign(row, tests) for tests in (1, 2, 10)] == [1, 1, 0]


def test_a_system_without_names_of_runs_is_one_training_run() -> None:
    samples = [
        sample(at, "ab"[at % 2], run=str(at % 4 // 2) if at % 2 else "", context_id=str(at // 4)) for at in range(40)
    ]
    draft = judged(samples, {"good": np.random.default_rng(0).random(40)})
    assert [warning.where for warning in draft.warnings if warning.id == "one-training-run"] == [{"system": "a"}]
    (found,) = [claim for claim in draft.findings if claim.id == "faithfulness.verdict"]
    assert "One training run of a:" in found.statement and "Each system" not in found.statement


def test_few_texts_do_not_make_a_metric_blind() -> None:
    rows = np.arange(8)
    before = np.array([0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    few = Planted(corruption="value", strength=1.0, rows=rows, scores={"m": before - 0.25})
    many = np.arange(400)
    wide = Planted(corruption="value", strength=1.0, rows=many, scores={"m": np.tile(before, 50)})
    for planted, place, said in ((few, rows, "M is not shown to see"), (wide, many, "M is blind to")):
        scores = np.tile(before, len(place) // 8)
        counts = {"source": REFERENCES, "faithful": place, "faithful_scores": {"m": scores}, "planted": (planted,)}
        draft = judged([sample(at) for at in place.tolist()], {"m": scores}, **counts)
        (claim,) = [one for one in draft.findings if one.id == "faithfulness.trust"]
        assert claim.where["verdict"] == "blind" and claim.headline.startswith(said)


def two_systems(shared: int = 20, alone: int = 21) -> list[Sample]:
    """Systems a and b share some contexts, in which b is right in a quarter; a and c share one, b and c none."""
    both = [
        sample(2 * at + side, "ab"[side], label=side == 0 or at % 4 == 0, context_id=f"both {at}")
        for at in range(shared)
        for side in (0, 1)
    ]
    rest = [sample(100 + at, "a", label=at % 2 == 0) for at in range(alone)]
    return [*both, *rest, sample(200, "c", label=True, context_id="100")]


def test_a_verdict_of_few_shared_contexts_says_first_of_how_many() -> None:
    draft = judged(two_systems(), {})
    (claim,) = [one for one in draft.findings if one.where.get("verdict") == "more"]
    assert claim.statement.startswith("Judged over 20 of 41 contexts: those for which both systems have an output.")


def test_a_plan_corrects_for_the_pairs_of_systems_that_share_contexts_as_the_run_does() -> None:
    samples = two_systems()
    draft = judged(samples, {})
    assert {(row.where["system"], row.where["against"]) for row in draft.select("difference")} == {("a", "b")}
    more = [sample(300 + side, one, label=bool(side), context_id=f"cd {at}")
            for at in range(3) for side, one in enumerate("cd")]  # fmt: skip
    inputs = SimpleNamespace(samples=[*samples, *more], families={}, rates=())
    found = [row for row in _differences(inputs, 0.95) if "labels" in row.what]  # type: ignore[arg-type]
    assert found
    for row in found:
        assert "the strictest of 2 pairs of systems that share 2 contexts or more (Bonferroni)" in row.assuming


@pytest.mark.parametrize(
    ("low", "high", "verdict", "said"),
    [
        (0.49, 0.79, "blind", "does not see changed numbers well"),
        (0.45, 0.55, "blind", "is blind to changed numbers on these data"),
        (0.50, 0.60, "blind", "does not see changed numbers well"),
        (0.40, 0.80, "blind", "is not shown to see changed numbers"),
        (0.30, 0.45, "blind", "takes changed numbers for the better text"),
        (0.66, 1.00, "weak", "sees changed numbers, how well is not shown"),
        (0.51, 0.80, "weak", "sees changed numbers, how well is not shown"),
        (0.51, 0.79, "weak", "sees changed numbers only in part"),
        (0.80, 1.00, "trusted", "sees changed numbers"),
    ],
)
def test_words_of_trust_go_by_both_ends_and_the_verdict_by_the_low_one(
    low: float, high: float, verdict: str, said: str
) -> None:
    draft = Draft(level=0.95, seed=0)
    where = {"metric": "m", "corruption": "number", "strength": 1.0, "pairing": "pooled"}
    area = Interval(value=(low + high) / 2, low=low, high=high, method="jackknife", n=19, unit="contexts", level=0.95)
    draft.add("detection_auc", area, **where)
    findings(draft, Counts(samples=(sample(0),), apart={}, scores={}))
    (claim,) = draft.findings
    assert claim.where["verdict"] == verdict and claim.headline.startswith(f"M {said}: AUC")
    undecided = low < 0.8 <= high
    assert draft.answer is not None
    assert draft.answer.title.startswith("There are too few contexts") is undecided or verdict == "trusted"
    assert not any("blind" in words for words in draft.answer.may_not) or said.startswith("is blind")


def test_outputs_that_a_model_cannot_score_are_counted() -> None:
    draft = judged([sample(at) for at in range(6)], {"cxmi_token": np.array([0.1, 0.2, np.nan, 0.3, 0.4, np.nan])})
    (warning,) = [one for one in draft.warnings if one.id == "no-score"]
    assert warning.message.startswith("2 of 6 outputs have no CXMI token")


def test_a_score_that_falls_with_every_dose_of_every_text_is_no_missing_number() -> None:
    rows = np.arange(20)
    scores = {alpha: {"good": np.linspace(0, 1, 20) - alpha} for alpha in (0.0, 0.5, 1.0)}
    decodes = [Planted(corruption=NOISY, strength=one, rows=rows, scores=scores[one]) for one in (0.0, 0.5, 1.0, 0.0)]
    draft = judged([sample(at) for at in range(20)], scores[0.0], faithful=rows, decodes=tuple(decodes))
    row = draft.get("dose_response", metric="good", knob="alpha")
    assert row is not None and row.value == row.low == -1 and row.high is not None and -0.8 < row.high < -0.6
    assert "falls" in {claim.where["verdict"] for claim in draft.findings if claim.id == "faithfulness.dose"}
