"""Do the warnings of a run say by what its draws stopped, and how seldom too few of them certify?"""

from dataclasses import replace
from typing import Any

import pytest
import torch

from audits.certification import AUDIT, Options, measure
from audits.certification.certificates import judge
from audits.certification.drawing_settings import DrawingSettings, settings_of
from audits.certification.estimates import estimates
from audits.certification.figures import figures
from audits.certification.findings import findings
from audits.certification.inputs import Inputs
from audits.certification.randomised_limits import randomised_lower_limit
from audits.certification.rules import Rule, rule_of
from audits.certification.sampling import Drawn
from audits.core.context import Draft
from probes.classifiers.smoothing import VoteCounts

BEFORE = settings_of(rule_of(Options(sigma=0.5, mode="decide", radii=("0.25",)), images=1))


def ruled(**options: Any) -> Rule:
    return rule_of(Options(**{"sigma": 0.5, "n": 1000, **options}), images=1)


def tally(*votes: int) -> VoteCounts:
    counts = torch.tensor(votes)
    return VoteCounts(int(counts.sum()), counts, counts * 0, counts * 0)


def drafted(rule: Rule, *, drawing: DrawingSettings | None = None, again: bool = False) -> tuple[Draft, str]:
    """Return the draft of a run, or of its counts judged again, and the caption of its first chart."""
    row = Drawn(index=0, label=0, clean=0, selection=tally(90, 10), looks=(tally(60, 4),), seconds=0.0, u=0.5)
    inputs = Inputs(rule=rule, given=1, stored=(row,) if again else (), drawing=drawing)
    counts, draft = (
        measure.Counts(inputs=inputs, verdicts=(judge(row, rule),), drawn=(row,)),
        Draft(measures=AUDIT.by_name),
    )
    estimates(draft, counts)
    findings(draft, counts)
    return draft, next(figures(draft, counts)).caption


def told(rule: Rule, *, drawing: DrawingSettings | None = None, again: bool = False) -> tuple[dict[str, str], str]:
    """Return the warnings of a run, or of its counts judged again, and what may be reported."""
    draft, _ = drafted(rule, drawing=drawing, again=again)
    assert draft.answer is not None
    return {warning.id: warning.message for warning in draft.warnings}, " ".join(draft.answer.may)


@pytest.mark.parametrize("mode", ["decide", "anytime"])
def test_a_run_says_that_it_stopped_by_its_radii(mode: str) -> None:
    rule = ruled(mode=mode, radii=("0.25", "0.5"))
    for warned, may in (told(rule), told(rule, drawing=settings_of(rule), again=True)):
        assert "the radii asked are decided: certified accuracy is meant at these radii" in warned["early-stopping"]
        assert "what was asked then" not in may


@pytest.mark.parametrize("mode", ["decide", "anytime"])
def test_counts_judged_by_other_radii_say_by_which_their_draws_stopped(mode: str) -> None:
    warned, may = told(ruled(mode=mode, radii=("0.5",)), drawing=BEFORE, again=True)
    assert "radii 0.25, not 0.5" in warned["drawn-otherwise"] and "more draws might" in warned["drawn-otherwise"]
    # Which would say it once more.
    assert "early-stopping" not in warned
    assert "draws until they settled what was asked then" in may
    warned, may = told(ruled(mode=mode, radii=("0.5",)), again=True)
    assert "do not say for which radii" in warned["drawn-otherwise"] and "early-stopping" not in warned
    assert "draws until they settled what was asked then" in may


def test_radii_that_differ_in_late_digits_are_told_apart() -> None:
    warned, _ = told(ruled(mode="decide", radii=("0.2500001",)), drawing=BEFORE, again=True)
    assert "radii 0.25, not 0.2500001" in warned["drawn-otherwise"]


def test_another_alpha_alone_leaves_both_warnings() -> None:
    warned, _ = told(ruled(mode="decide", radii=("0.25",), alpha=0.01), drawing=BEFORE, again=True)
    assert "alpha 0.001, not 0.01" in warned["drawn-otherwise"] and "average" in warned["early-stopping"]


def test_draws_that_stopped_by_a_loss_say_so_whatever_radii_are_asked_later() -> None:
    drawing = replace(BEFORE, radii=(), target_loss=0.2)
    for radii in ((), ("0.5",)):
        warned, may = told(ruled(mode="anytime", radii=radii, target_loss=0.2), drawing=drawing, again=True)
        assert "draws until more are expected to add 0.2 of the radius at most, n = 1,000 an image" in may
        assert "expected to add 0.2 of the radius at most" in warned["early-stopping"]
        assert "sigma / 2" in warned["early-stopping"] and "decided" not in warned["early-stopping"]


def test_a_run_without_radii_names_the_loss_that_it_stopped_by() -> None:
    loss = "draws until more are expected to add 0.025 of the radius at most, n = 1,000 an image at the most, after"
    may = told(ruled(mode="anytime"))[1]
    assert loss in may and "what is asked" not in may
    assert "draws until they settle what is asked" in told(ruled(mode="anytime", radii=("0.25",)))[1]
    # Nor is a loss named by counts that do not say what they stopped by.
    assert "draws until they settled what was asked then" in told(ruled(mode="anytime"), again=True)[1]


@pytest.mark.parametrize("mode", ["fixed", "pilot"])
def test_where_no_radius_stops_draws_nothing_is_said(mode: str) -> None:
    assert "early-stopping" not in told(ruled(mode=mode, radii=("0.25",)))[0]


def test_a_pilot_chooses_in_the_place_of_the_draws_that_choose() -> None:
    assert "after a pilot of 200 that chooses, alpha" in told(ruled(mode="pilot", pilot=200))[1]
    assert "after n0 = 100 that choose, alpha" in told(ruled())[1]


def test_too_few_draws_are_told_with_and_without_a_random_number() -> None:
    assert "not even unanimous votes" in told(ruled(n=5))[0]["few-draws"]
    lucky = told(ruled(n=5, randomised=True))[0]["few-draws"]
    assert "probability 0.0320 at most" in lucky and "it takes 10 draws at least" in lucky
    # Of all random numbers just so many give a unanimous vote a limit of 1/2.
    limits = [float(randomised_lower_limit(5, 5, 0.001, u)) for u in (0.0319, 0.0321)]
    assert limits[0] > 0.5 > limits[1]
    for options in ({"n": 10}, {"n": 10, "randomised": True}):
        assert "few-draws" not in told(ruled(**options))[0]


def test_a_randomised_run_says_that_luck_takes_part_and_what_it_does_to_the_ceiling() -> None:
    draft, caption = drafted(ruled(n=100, randomised=True))
    (said,) = [warning.message for warning in draft.warnings if warning.id == "randomised-limits"]
    assert "depends on a random number of its own" in said and "guarantee" in said
    # sigma Phi^-1(p) with p = (1/2)^(1/100) for the luckiest number, 0.001^(1/100) for the unluckiest one.
    assert "beyond 1.24, where all draws agree and the random number of the image is the luckiest" in caption
    assert "with the unluckiest one not beyond 0.751" in caption
    for options in ({}, {"mode": "anytime"}, {"lipschitz": "1"}):
        rule = rule_of(
            Options(sigma=0.5, n=100, **options), images=1, lipschitz=1.0 if "lipschitz" in options else None
        )
        draft, caption = drafted(rule)
        assert "randomised-limits" not in {warning.id for warning in draft.warnings}
        assert "random number" not in caption and "luck" not in caption


def test_a_radius_that_no_draws_certify_is_not_to_be_reported() -> None:
    draft, _ = drafted(ruled(radii=("0.25", "5")))
    assert draft.answer is not None
    may, may_not = " ".join(draft.answer.may), " ".join(draft.answer.may_not)
    assert "at radius 0.25" in may and "at radius 5" not in may and "Settings:" in may
    assert "Certified accuracy at radius 5: n = 1,000 draws cannot certify it, whatever the classifier" in may_not
    assert "beyond-ceiling" in {warning.id for warning in draft.warnings}
    draft, _ = drafted(ruled(radii=("0.25",)))
    assert draft.answer is not None and "whatever the classifier" not in " ".join(draft.answer.may_not)
