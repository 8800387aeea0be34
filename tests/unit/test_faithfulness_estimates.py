"""Do estimates and findings of grounding hold where chance, a missing number or few runs could make them claim more?"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from headlines import faults

from audits.core.context import Claim, Draft
from audits.core.intervals import Interval
from audits.core.records import Estimate
from audits.faithfulness.detectable import _differences
from audits.faithfulness.estimates import difference_row, estimates
from audits.faithfulness.faithful_texts import REFERENCES
from audits.faithfulness.findings import _sign, findings
from audits.faithfulness.measure import NOISY, Counts, Planted
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


def verdict_on(draft: Draft, system: str, against: str) -> Claim:
    where = {"system": system, "against": against}
    (claim,) = [
        one for one in draft.findings if one.id == "faithfulness.verdict" and where.items() <= dict(one.where).items()
    ]
    return claim


def test_a_verdict_of_few_shared_contexts_says_first_of_how_many() -> None:
    claim = verdict_on(judged(two_systems(), {}), "a", "b")
    assert claim.where["verdict"] == "more"
    assert claim.statement.startswith("Judged over 20 of 41 contexts: those in which both systems have a label.")


def test_a_verdict_counts_the_contexts_that_were_judged_and_not_all_that_both_wrote_for() -> None:
    unjudged = [sample(300 + side, one, context_id=f"more {at}") for at in range(21) for side, one in enumerate("ab")]
    draft = judged([*two_systems(alone=0), *unjudged], {})
    # 20 with labels, 21 with outputs of both and no label, and that of the third system.
    said = "Judged over 20 of 42 contexts: those in which both systems have a label."
    assert verdict_on(draft, "a", "b").statement.startswith(said)


def test_an_undecided_verdict_says_on_how_many_contexts_it_rests() -> None:
    draft = judged(two_systems(shared=4, alone=37), {})
    claim = verdict_on(draft, "a", "b")
    assert claim.where["verdict"] == "undecided"
    said = "Judged over 4 of 41 contexts: those in which both systems have a label. The labels show no difference."
    assert claim.statement.startswith(said)
    # One shared context gives no difference at all.
    said = "Both systems have an output in 1 of 41 contexts. No metric that is trusted here has a difference"
    assert verdict_on(draft, "a", "c").statement.startswith(said)


def test_a_verdict_of_metrics_counts_the_contexts_that_have_a_score_of_both() -> None:
    rng = np.random.default_rng(0)
    samples = [sample(at, "ab"[at % 2], context_id=str(at // 2)) for at in range(160)]
    rows = np.arange(160)
    before = rng.normal(size=160)
    scores = {"m": before.copy(), "other": before.copy()}
    scores["m"][:20], scores["other"][:8] = np.nan, np.nan
    planted = Planted(corruption="value", strength=1.0, rows=rows, scores=dict.fromkeys(scores, before - 9))
    counts = {"source": REFERENCES, "faithful": rows, "faithful_scores": dict.fromkeys(scores, before)}
    claim = verdict_on(judged(samples, scores, **counts, planted=(planted,)), "a", "b")
    assert claim.where["verdict"] == "undecided" and {row.n for row in claim.evidence} == {70, 76}
    said = "Judged over 70 to 76 of 80 contexts: those in which both systems have a score."
    assert claim.statement.startswith(said)


@pytest.mark.parametrize(("runs", "said"), [(3, "3 runs of each system"), (4, "4 runs of b and 3 of a")])
def test_a_verdict_over_runs_counts_contexts_too(runs: int, said: str) -> None:
    samples = [
        sample(at, system, run=str(run), label=system == "b" or at % 3 > 0, context_id=str(at))
        for system, count in (("b", runs), ("a", 3))
        for at in range(20)
        for run in range(count)
    ]
    draft = judged([*samples, *(sample(100 + at, "b", run="0", context_id=str(at)) for at in range(20, 41))], {})
    claim = verdict_on(draft, "b", "a")
    assert claim.evidence[0].unit == "runs"
    said = f"Judged over {said}, in 20 of 41 contexts: those in which both systems have a label."
    assert claim.statement.startswith(said)


def unlike(system: str, count: int, *, label: Callable[[int], bool | None], start: int = 0) -> list[Sample]:
    return [sample(at, system, label=label(at), context_id=str(start + at)) for at in range(count)]


def compared(draft: Draft) -> int:
    return len({(row.where["system"], row.where["against"]) for row in draft.select("difference", group="all")})


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(two_systems(), id="one pair shares contexts"),
        pytest.param(
            [*two_systems(alone=0), *unlike("d", 6, label=lambda at: at % 2 == 0),
             *unlike("e", 6, label=lambda at: at % 3 == 0)],
            id="two pairs of four systems",
        ),
        pytest.param(
            [*unlike("a", 9, label=lambda at: at % 2 == 0), *unlike("b", 9, label=lambda at: at % 3 == 0),
             *unlike("c", 9, label=lambda at: None)],
            id="a third system without labels",
        ),
        pytest.param(
            [*unlike("a", 9, label=lambda at: at % 2 == 0), *unlike("b", 9, label=lambda at: at % 2 == 0),
             *unlike("c", 9, label=lambda at: at % 3 == 0)],
            id="a pair that never differs",
        ),
        pytest.param(
            [*unlike("a", 9, label=lambda at: True), *unlike("b", 9, label=lambda at: False),
             *unlike("c", 9, label=lambda at: at % 3 == 0)],
            id="a pair that always differs by the same",
        ),
    ],
)  # fmt: skip
def test_a_plan_corrects_for_the_pairs_of_systems_that_get_a_difference_as_the_run_does(
    samples: list[Sample],
) -> None:
    tests = compared(judged(samples, {}))
    inputs = SimpleNamespace(samples=samples, families={}, rates=())
    found = [row for row in _differences(inputs, 0.95) if "labels" in row.what]  # type: ignore[arg-type]
    assert found and tests
    pairs = {"strictest" in row.assuming for row in found} == {True}
    assert pairs is (tests > 1)
    for row in found:
        assert not pairs or f"the strictest of {tests} pairs of systems" in row.assuming


def test_a_plan_without_scores_corrects_for_all_pairs_that_share_contexts() -> None:
    samples = [one for name in "abc" for one in unlike(name, 9, label=lambda at: None)]
    inputs = SimpleNamespace(samples=samples, families={"overlap": None}, rates=())
    (found,) = _differences(inputs, 0.95)  # type: ignore[arg-type]
    assert "the strictest of 3 pairs of systems (Bonferroni)" in found.assuming


def trust(**areas: Mapping[str, tuple[float, float]]) -> Draft:
    """Return what is found of metrics whose areas have these intervals, by kind of error."""
    draft = Draft(level=0.95, seed=0)
    for metric, kinds in areas.items():
        for kind, (low, high) in kinds.items():
            where: dict[str, Any] = {"metric": metric, "corruption": kind, "strength": 1.0, "pairing": "pooled"}
            middle = (low + high) / 2
            found = Interval(value=middle, low=low, high=high, method="jackknife", n=19, unit="contexts", level=0.95)
            draft.add("detection_auc", found, **where)
    findings(draft, Counts(samples=(sample(0),), apart={}, scores={}))
    return draft


GOOD, WIDE, FAR, NONE, PART = (0.85, 0.95), (0.66, 1.0), (0.45, 0.9), (0.45, 0.55), (0.55, 0.75)


@pytest.mark.parametrize(
    ("areas", "title"),
    [
        (
            {"m": {"number": GOOD, "negation": NONE}},
            "M can be trusted for changed numbers; none can be trusted for negations.",
        ),
        (
            {"m": {"number": GOOD, "negation": PART}},
            "M can be trusted for changed numbers; none can be trusted for negations.",
        ),
        (
            {"m": {"number": GOOD, "negation": WIDE}},
            "M can be trusted for changed numbers; whether any can be trusted for negations is undecided.",
        ),
        (
            {"m": {"number": GOOD, "negation": FAR}},
            "M can be trusted for changed numbers; whether any can be trusted for negations is undecided.",
        ),
        # Undecided of another metric than the one that is trusted.
        (
            {"m": {"number": GOOD, "negation": NONE}, "n": {"number": NONE, "negation": FAR}},
            "M can be trusted for changed numbers; whether any can be trusted for negations is undecided.",
        ),
        (
            {"m": {"number": GOOD, "value": WIDE, "negation": NONE}},
            "M can be trusted for changed numbers, none for negations; "
            "whether any can for swapped values is undecided.",
        ),
        ({"m": {"number": GOOD, "negation": GOOD}}, "M can be trusted for changed numbers and negations."),
        ({"m": {"number": NONE, "negation": WIDE}}, "There are too few contexts to tell which metric can be trusted."),
        ({"m": {"number": NONE}}, "No metric can be trusted for any kind of error on these data."),
        # What PARENT sees was not measured, however wide its interval.
        (
            {"parent_precision": {"number": WIDE}, "m": {"number": NONE}},
            "No metric can be trusted for any kind of error on these data.",
        ),
        (
            {"parent_precision": {"negation": WIDE}, "m": {"number": GOOD, "negation": NONE}},
            "M can be trusted for changed numbers; none can be trusted for negations.",
        ),
    ],
)
def test_the_title_calls_no_kind_untrusted_that_its_findings_leave_undecided(
    areas: Mapping[str, Mapping[str, tuple[float, float]]], title: str
) -> None:
    draft = trust(**areas)
    assert draft.answer is not None and draft.answer.title == title
    assert not [fault for fault in faults(draft) if fault.startswith("answer")]


def test_a_title_that_would_be_long_counts_kinds() -> None:
    kinds = {"number": GOOD, "name": GOOD, "value": NONE, "negation": WIDE}
    answer = trust(m=kinds).answer
    assert answer is not None and answer.title == "M can be trusted for 2 of 4 kinds of error."


def test_the_page_tells_each_sentence_of_trust_and_its_bounds() -> None:
    page = " ".join(Path("docs/audits/faithfulness.md").read_text(encoding="utf-8").split())
    (row,) = re.findall(r"\| `blind` \| ([^|]*) \|", page)
    for words in ("below 0.5", "the better text", "below 0.6", "is blind", "does not see", "from 0.8", "too few texts"):
        assert words in row
    prose, _, _ = page.partition("## Estimates")
    assert "takes the error for the better text where the interval ends below 0.5" in prose


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
    draft = trust(m={"number": (low, high)})
    (claim,) = draft.findings
    assert claim.where["verdict"] == verdict and claim.headline.startswith(f"M {said}: AUC")
    assert draft.answer is not None
    undecided = "There are too few contexts to tell which metric can be trusted."
    assert (draft.answer.title == undecided) is (low < 0.8 <= high)
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
