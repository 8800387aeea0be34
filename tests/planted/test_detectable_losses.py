"""Do items, outputs and contexts show what the dry runs of audit-tracking and audit-faithfulness tell of them?"""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from audits.core.context import Cache, Context, Draft, Plan
from audits.core.detectable import Detectable
from audits.core.intervals import Interval
from audits.faithfulness import Options as FaithfulnessOptions
from audits.faithfulness import detectable as faithfulness
from audits.faithfulness.estimates import area_row, estimates
from audits.faithfulness.findings import findings
from audits.faithfulness.inputs import Inputs as FaithfulnessInputs
from audits.faithfulness.measure import Counts as FaithfulnessCounts
from audits.faithfulness.samples import Sample
from audits.faithfulness.trust_words import TRUSTED
from audits.tracking import Options as TrackingOptions
from audits.tracking import detectable as tracking
from audits.tracking.estimates import estimates as track
from audits.tracking.findings import findings as track_findings
from audits.tracking.inputs import Inputs as TrackingInputs
from audits.tracking.items import Item
from audits.tracking.measure import Counts as TrackingCounts
from audits.tracking.measure import Graded
from audits.tracking.predictions import Answer
from audits.tracking.scoring import Score
from probes.texts.evidence import Evidence, Grounded

CONTEXT = Context(cache=Cache(Path("nowhere")))
DEPTH, OTHERS, CHANCE = 3, (1, 2), 0.25


def items(count: int) -> tuple[Item, ...]:
    """Return as many items at three depths of two tasks, which are twins."""
    return tuple(
        Item(
            id=f"{task} {depth} {number}", task=task, prompt="", target="cup", options=("cup", "hat", "pen", "key"),
            n_ops=8, n_changes=depth, depth=depth if task == "pointer" else 1, twin=number,
        )
        for task in ("pointer", "overwrite")
        for depth in (*OTHERS, DEPTH)
        for number in range(count)
    )  # fmt: skip


def told_of_items(whole: tuple[Item, ...]) -> list[Detectable]:
    inputs = TrackingInputs(
        items=whole, skips=(), answers={"ours": {at: Answer(text="cup") for at in range(len(whole))}}, folder=None,
        scorings=("exact",), trainings=(), depths=(1, 2, 3), sizes=(), gammas=(),
    )  # fmt: skip
    plan = Plan(inputs=inputs, subject=None, data=(), cost=())
    return list(tracking.detectable(TrackingOptions(), plan, CONTEXT))


def draft_of(whole: tuple[Item, ...], rates: dict[int, float], rng: np.random.Generator) -> Draft:
    """Return the findings on a system that follows plain changes, and chained ones at these rates."""
    right = [item.task == "overwrite" or rng.random() < rates[item.depth] for item in whole]
    scores = {at: Score(hit, "cup" if hit else "hat") for at, hit in enumerate(right)}
    draft = Draft(level=0.95)
    counts = TrackingCounts(
        items=whole, graded=(Graded(system="ours", scoring="exact", scores=scores),), level_accuracy=0.9
    )
    track(draft, counts)
    track_findings(draft, counts)
    return draft


@pytest.mark.parametrize("count", [pytest.param(20, marks=pytest.mark.slow), 64])
def test_chaining_that_costs_as_much_as_told_is_found_four_times_in_five(count: int) -> None:
    whole, rng = items(count), np.random.default_rng(count)
    loss = next(one for one in told_of_items(whole) if "chaining" in one.what)
    assert loss.effect is not None and loss.units == f"{count} pairs a depth"
    found = {}
    for share in (1.0, 0.5):
        rates = dict.fromkeys(OTHERS, 1.0) | {DEPTH: 1 - share * loss.effect}
        drafts = [draft_of(whole, rates, rng) for _ in range(150)]
        found[share] = np.mean([any(claim.id == "tracking.chaining_cost" for claim in one.findings) for one in drafts])
    assert 0.72 <= found[1.0] <= 0.88 and found[0.5] <= 0.15


def test_accuracy_as_far_above_guessing_as_told_is_shown_four_times_in_five() -> None:
    whole, rng = items(64), np.random.default_rng(0)
    above = next(one for one in told_of_items(whole) if "guessing" in one.what)
    assert above.effect is not None and "(0.25)" in above.what
    found = {}
    for share in (1.0, 0.5):
        rates = {1: CHANCE + share * above.effect, 2: CHANCE, 3: CHANCE}
        drafts = [draft_of(whole, rates, rng) for _ in range(150)]
        rows = [one.row("above_chance_depth", system="ours", task="pointer", scoring="exact") for one in drafts]
        found[share] = np.mean([(row.low or 0) >= 1 for row in rows])
    assert 0.72 <= found[1.0] <= 0.88 and found[0.5] <= 0.35


def test_items_that_a_loss_needs_show_it() -> None:
    loss = next(one for one in told_of_items(items(20)) if "chaining" in one.what)
    count = int(loss.asked(0.25).partition("needs ")[2].split()[0])
    larger = next(one for one in told_of_items(items(count)) if "chaining" in one.what)
    fewer = next(one for one in told_of_items(items(count - 1)) if "chaining" in one.what)
    assert larger.effect is not None and fewer.effect is not None and larger.effect <= 0.25 < fewer.effect + 0.02


def outputs(labels: dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]) -> tuple[Sample, ...]:
    return tuple(
        Sample(id=str(at), system=system, context_id=str(at), pair=Grounded(Evidence(""), "x"), label=bool(label))
        for system, of in labels.items()
        for at, label in enumerate(of.tolist())
    )


def told_of_outputs(samples: tuple[Sample, ...]) -> list[Detectable]:
    inputs = FaithfulnessInputs(
        samples=samples, apart={}, families=(), folders={}, template=None, rates=(0.1,), alphas=()
    )
    plan = Plan(inputs=inputs, subject=None, data=(), cost=())
    return list(faithfulness.detectable(FaithfulnessOptions(file=Path("rows.csv")), plan, CONTEXT))


def drawn(count: int, gap: float, rng: np.random.Generator) -> tuple[Sample, ...]:
    """Draw labels of two systems on the same contexts, some of which are hard for both."""
    hard = 0.25 * rng.choice([-1, 1], size=count)
    return outputs({name: rng.random(count) < 0.6 + hard - less for name, less in (("one", 0.0), ("two", gap))})


def decided(samples: tuple[Sample, ...]) -> bool:
    draft = Draft(level=0.95)
    counts = FaithfulnessCounts(samples=samples, apart={}, scores={})
    estimates(draft, counts)
    findings(draft, counts)
    return any(claim.id == "faithfulness.verdict" and claim.where["verdict"] != "undecided" for claim in draft.findings)


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_systems_that_differ_in_labels_as_much_as_told_are_told_apart(count: int) -> None:
    rng = np.random.default_rng(count)
    found = {1.0: 0, 0.5: 0}
    for _ in range(150):
        gap = next(one for one in told_of_outputs(drawn(count, 0.0, rng)) if "labels" in one.what and "one" in one.what)
        assert gap.effect is not None and gap.units == f"{count} shared contexts"
        for share in found:
            found[share] += decided(drawn(count, share * gap.effect, rng))
    assert 0.72 <= found[1.0] / 150 <= 0.88 and found[0.5] / 150 <= 0.45


@pytest.mark.parametrize("count", [60, 300])
def test_an_area_as_far_above_the_least_as_told_is_trusted_four_times_in_five(count: int) -> None:
    rng = np.random.default_rng(count)
    labels = np.concatenate([np.ones(count), np.zeros(count)]).astype(bool)
    area = next(one for one in told_of_outputs(outputs({"one": labels})) if "AUC against labels" in one.what)
    assert area.effect is not None
    found = {}
    for share in (1.0, 0.5):
        shift = math.sqrt(2) * float(norm.ppf(TRUSTED + share * area.effect))
        rows = [
            area_row(rng.normal(size=2 * count) + shift * labels, labels, np.arange(2 * count), 0.95)
            for _ in range(200)
        ]
        found[share] = np.mean([isinstance(row, Interval) and (row.low or 0) >= TRUSTED for row in rows])
    assert 0.72 <= found[1.0] <= 0.88 and found[0.5] <= 0.4
