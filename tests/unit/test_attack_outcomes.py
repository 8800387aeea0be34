"""Is an image called turned as seldom by error as is said, and a certificate contradicted only beyond error?"""

from typing import Any

import numpy as np
import pytest
from chance import at_most
from headlines import faults
from scipy.stats import binom

from audits.certification import AUDIT, Options, measure
from audits.certification.attack_outcomes import (
    AttackCounts,
    Attacks,
    AttackSetting,
    attack_cost,
    error_chance,
    error_of,
    is_turned,
)
from audits.certification.attacking import setting_of
from audits.certification.certificates import ABSTAIN, Verdict
from audits.certification.estimates import estimates
from audits.certification.findings import findings
from audits.certification.inputs import Inputs
from audits.certification.records import records
from audits.certification.rules import Rule, rule_of
from audits.core.context import Draft
from audits.core.options import check_record
from audits.statistics.binomial import lower_limit
from probes.core.errors import InputError


def counted(selection: Any, votes: Any, **more: Any) -> AttackCounts:
    settings = {"index": 0, "multiple": 1, "top": 0, "blind": False}
    return AttackCounts(selection=np.array(selection), votes=np.array(votes), **{**settings, **more})


@pytest.mark.parametrize("draws", [1, 10, 37, 400])
@pytest.mark.parametrize("alpha", [0.001, 0.05])
def test_a_tie_is_called_turned_as_seldom_as_alpha_says(draws: int, alpha: float) -> None:
    # Exact, over all outcomes: at a tie of both classes the test errs most.
    wrong = sum(
        binom.pmf(rival, draws, 0.5) for rival in range(draws + 1)
        if is_turned(counted([5, 5], [draws - rival, rival]), alpha)
    )  # fmt: skip
    assert wrong <= alpha
    # And as often as whole votes allow.
    assert wrong >= alpha / 20 or 0.5**draws > alpha


def test_the_rival_is_named_by_the_draws_that_choose_alone() -> None:
    assert is_turned(counted([3, 6, 1], [100, 300, 100]), 0.001)
    # Class 2 wins by far, but the other draws named class 1.
    assert not is_turned(counted([3, 6, 1], [100, 100, 300]), 0.001)
    # Naming it by the tested votes would err more often than alpha: of many classes one is ahead by chance.
    rng, runs = np.random.default_rng(0), 400
    votes, others = (rng.multinomial(4000, np.full(40, 1 / 40), size=runs) for _ in range(2))
    turned = [is_turned(counted(*pair), 0.05) for pair in zip(others, votes, strict=True)]
    assert sum(turned) <= at_most(0.05, runs)
    peeked = [is_turned(counted(own, own), 0.05) for own in votes]
    assert sum(peeked) > at_most(0.05, runs)


def test_false_certificates_are_counted_over_the_images_chosen_not_over_those_certified() -> None:
    # All images lie on a boundary: no certificate of theirs is true, and all that are certified turn.
    rng, images, alpha = np.random.default_rng(1), 300, 0.05
    chances, over_attacked = [], []
    for _ in range(200):
        votes = rng.binomial(1000, 0.5, size=images)
        false = int((lower_limit(votes, np.full(images, 1000), alpha) > 0.5).sum())
        chances.append(error_chance(false, images, alpha))
        over_attacked.append(error_chance(false, false, alpha))
    found = np.array(chances)
    for level in (0.01, 0.05, 0.2):
        assert (found <= level).sum() <= at_most(level, len(found))
    # Over the attacked images it would be called impossible each time.
    assert max(over_attacked) < 1e-3
    # And it is not much too large: errors do happen as often.
    assert np.median(found) < 0.9


def rule_for(**options: Any) -> Rule:
    return rule_of(Options(**{"sigma": 0.5, "n": 1000, "radii": ("0.1",), **options}), images=200)


def attacked(hits: int, beyond: int, images: int = 100, *, blind: int = 0, certified: int = 80) -> Attacks:
    kept, lost = ([90, 10], [900, 100]), ([10, 90], [100, 900])
    rows = [
        counted(*(lost if place < some else kept), index=place, multiple=multiple, blind=place < blind)
        for multiple, some in ((1, hits), (2, beyond))
        for place in range(certified)
    ]
    return Attacks(setting=AttackSetting(steps=20, draws=32, images=images, alpha=0.001 / images), outcomes=tuple(rows))


def judged(attacks: Attacks | None, rule: Rule) -> tuple[measure.Counts, Draft]:
    rows = [
        Verdict(index=place, label=0, predict=0 if place < 80 else ABSTAIN, radius=0.4, seconds=0.0, correct=True,
                clean=0, draws=1100, noisy=(900, 1000))
        for place in range(200)
    ]  # fmt: skip
    counts = measure.Counts(inputs=Inputs(rule=rule, given=200), verdicts=tuple(rows), attacks=attacks)
    draft = Draft(measures=AUDIT.by_name)
    estimates(draft, counts)
    findings(draft, counts)
    return counts, draft


def found(draft: Draft) -> dict[str, str]:
    return {claim.id: claim.severity for claim in draft.findings}


def said(draft: Draft) -> str:
    return " ".join(claim.words for claim in draft.findings)


def test_no_image_turned_within_its_radius_and_some_beyond() -> None:
    _, draft = judged(attacked(0, 40), rule_for())
    assert found(draft)["certify.attacked"] == "info"
    assert not {"certify.contradicted", "certify.contradiction-by-error"} & set(found(draft))
    within, beyond = (draft.row("attack_success", multiple=multiple) for multiple in (1, 2))
    assert (within.value, beyond.value, within.n, beyond.n, beyond.level) == (0.0, 0.5, 80, 80, 0.95)
    assert (within.method, within.low) == ("Clopper-Pearson", 0.0)
    assert draft.get("attack_error_chance") is None
    assert "Within the certified radius it turned none." in said(draft)
    assert "proves nothing" in said(draft) and "attack-fails" in {warning.id for warning in draft.warnings}
    assert draft.answer is not None and any("attack" in text.lower() for text in draft.answer.may_not)
    assert faults(draft) == []


def headline(draft: Draft, id: str) -> str:
    return next(claim.headline for claim in draft.findings if claim.id == id)


def cited(draft: Draft) -> list[str]:
    assert draft.answer is not None
    return [text for text in draft.answer.may if "attack" in text]


WITHIN = "Within the certified radius an attack turned none of {} attacked images: {}. That proves no certificate."


def test_how_many_images_were_attacked_stands_beside_the_share_that_turned() -> None:
    _, draft = judged(attacked(0, 4, certified=20), rule_for())
    turned = "turned 4 of 20 attacked images: 0.20 (0.06 to 0.44)."
    assert headline(draft, "certify.attacked") == f"Twice as far as certified, the attack {turned}"
    none = WITHIN.format(20, "0.00 (0.00 to 0.17)")
    assert cited(draft) == [none, f"Twice as far as certified, an attack {turned}"]
    for hits, id in ((20, "certify.contradicted"), (1, "certify.contradiction-by-error")):
        _, draft = judged(attacked(hits, 40), rule_for())
        assert f"turned {hits} of 80 attacked images" in headline(draft, id) and faults(draft) == []


def test_an_attack_that_turned_nothing_beyond_the_certificates_is_not_cited_as_safety() -> None:
    _, draft = judged(attacked(0, 0, certified=3), rule_for())
    assert cited(draft) == [WITHIN.format(3, "0.00 (0.00 to 0.71)")]
    none = "turned none of 3 attacked images: 0.00 (0.00 to 0.71)."
    assert headline(draft, "certify.attacked") == f"Twice as far as certified, the attack {none}"
    assert faults(draft) == []


def test_an_image_that_error_alone_may_have_turned_is_cited_with_the_certificates() -> None:
    _, draft = judged(attacked(1, 0), rule_for())
    assert cited(draft) == [headline(draft, "certify.contradiction-by-error")]
    assert cited(judged(attacked(10, 40), rule_for())[1]) == []


def test_more_contradictions_than_error_explains_are_a_grave_finding_and_no_certificate_is_cited() -> None:
    rule = rule_for()
    _, draft = judged(attacked(10, 40), rule)
    assert found(draft)["certify.contradicted"] == "high"
    chance = draft.row("attack_error_chance")
    # Certificate and test can both be wrong, of all 100 images chosen.
    assert chance.value == pytest.approx(float(binom.sf(9, 100, 0.001 + 0.001 / 100)), rel=1e-9, abs=0)
    assert chance.n == 100 and chance.value < 1e-10
    assert "certificate is false" in said(draft) and "test of the attacked image errs" in said(draft)
    assert "turned none" not in said(draft)
    answer = draft.answer
    assert answer is not None and "contradicted" in answer.title
    assert not any("certified accuracy" in text for text in answer.may)
    assert any("more answers than error explains" in text for text in answer.may_not)
    assert faults(draft) == []


def test_a_contradiction_that_error_alone_may_make_is_a_small_finding() -> None:
    _, draft = judged(attacked(1, 40), rule_for())
    assert found(draft)["certify.contradiction-by-error"] == "low"
    assert "certify.contradicted" not in found(draft)
    assert draft.row("attack_error_chance").value == pytest.approx(1 - (1 - 0.00101) ** 100, rel=1e-9)
    assert any("certified accuracy" in text for text in draft.answer.may) if draft.answer else False
    assert faults(draft) == []


def test_the_error_of_a_family_wise_run_is_that_of_its_certificates() -> None:
    assert error_of(attacked(0, 0), rule_for(family_wise=True)) == pytest.approx(0.001 / 200 + 0.001 / 100)


def test_the_error_of_the_test_is_shared_by_the_images_chosen() -> None:
    options = Options(sigma=0.5, alpha=0.01, attack_steps=5, attack_draws=8, attack_images=30)
    for images, chosen in ((200, 30), (20, 20)):
        expected = AttackSetting(steps=5, draws=8, images=chosen, alpha=0.01 / chosen)
        assert setting_of(options, images) == expected


def test_attacks_without_gradients_and_without_images_are_said() -> None:
    _, draft = judged(attacked(0, 0, blind=3), rule_for())
    (blind,) = [warning.message for warning in draft.warnings if warning.id == "attack-blind"]
    assert "6 attacks of 160" in blind
    _, draft = judged(attacked(0, 0, certified=0), rule_for())
    assert [warning.id for warning in draft.warnings].count("attack-none") == 1
    assert draft.select("attack_success") == [] and "certify.attacked" not in found(draft)


def test_records_say_what_became_of_each_image_and_only_where_images_were_attacked() -> None:
    counts, _ = judged(attacked(2, 3), rule_for())
    rows = records(counts)
    assert [row["attack_within"] for row in rows[:4]] == ["turned", "turned", "not turned", "not turned"]
    assert [row["attack_beyond"] for row in rows[:4]] == ["turned", "turned", "turned", "not turned"]
    assert {row["attack_within"] for row in rows[80:]} == {""}
    plain, draft = judged(None, rule_for())
    assert "attack_within" not in records(plain)[0] and "attack" not in said(draft)


def test_the_cost_of_attacks_counts_passes_forward_and_back() -> None:
    options = Options(sigma=0.5, n=1000, n0=50, attack_steps=10, attack_draws=8, attack_images=30)
    ((_, words),) = attack_cost(options, rule_for(n=1000, n0=50), 20, (1, 8, 8))
    # 20 images at two distances: 10 steps of 8 draws each, and 1,050 draws on what they made.
    assert "at most 40:" in words and f"{40 * (80 + 1050):,} forwards" in words and "3,200 backward" in words
    assert attack_cost(Options(sigma=0.5), rule_for(), 20, (1, 8, 8)) == ()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"attack_draws": 8}, "--attack-draws"),
        ({"attack_images": 8}, "--attack-images"),
        ({"attack_steps": 5, "lipschitz": "1.0"}, "--attack-steps"),
        ({"attack_steps": 5, "from_log": ("a.tsv",)}, "--attack-steps"),
        ({"attack_steps": -1}, "--attack-steps"),
        ({"attack_steps": 5, "attack_images": 0}, "--attack-images"),
    ],
    ids=str,
)
def test_options_of_an_attack_that_mean_nothing_are_refused(options: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as error:
        check_record(Options(sigma=0.5, **options))
    assert error.value.where == where and error.value.hint
