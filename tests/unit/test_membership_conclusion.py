"""Does the answer name the delta at which a claim was judged: a model's own, or that of a search over several runs?"""

from pathlib import Path

import numpy as np
import pytest
from audited_points import GivenCounts, attack_of, inputs_of, labelled
from headlines import STATEMENT_WORDS, faults, says

from audits.core.context import Claim as Said
from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.testing import drafted
from audits.membership import AUDIT, bounding, figures
from audits.membership.bounding import CERTIFIED, CLOPPER_PEARSON, HEURISTIC, Bounds, Proved
from audits.membership.claims import Claim, searched
from audits.membership.conclusion import conclude
from audits.membership.estimates import add_bounds
from audits.membership.rates import judge_all
from audits.membership.releases import Release
from audits.membership.scoring import model_where
from audits.membership.verdicts import find_verdicts

MEMBER = np.arange(80) < 40


def concluded(claims: dict[str, Claim], proved: float, ceiling: float = 5.0) -> Draft:
    """Return a draft in which an attack on each model proves so much, with its verdicts and the answer."""
    draft, bounds = Draft(), []
    for model, claim in claims.items():
        (judged,) = judge_all([attack_of("loss", MEMBER.astype(float), MEMBER, model=model)], 0.95, (0.1,))
        ends = Interval(value=proved, low=proved, high=ceiling, method="t", n=80, unit="points")
        one = Proved(method=CLOPPER_PEARSON, validity=HEURISTIC, bound=ends)
        bounds.append(Bounds(judged=judged, proved={CLOPPER_PEARSON: one}, rivals=1))
        add_bounds(draft, bounds[-1])
        draft.add("epsilon_claimed", claim.interval, **model_where(model))
    releases = tuple(Release(name=model, claim=claim) for model, claim in claims.items())
    counts = GivenCounts(inputs=inputs_of(labelled(MEMBER), releases=releases), bounds=bounds)
    find_verdicts(draft, counts)
    conclude(draft, counts)
    assert not faults(draft)
    return draft


def claim(epsilon: float, delta: float, runs: int = 1) -> Claim:
    return searched(Claim(epsilon=epsilon, delta=delta, source="as given"), runs, "--runs-tried")


def verdict(draft: Draft) -> Said:
    (found,) = (one for one in draft.findings if one.id == "membership.verdict")
    return found


def may(draft: Draft) -> str:
    assert draft.answer is not None
    return " ".join(draft.answer.may)


def test_each_model_of_a_suite_is_told_at_its_own_delta() -> None:
    draft = concluded({"ddpm": claim(2, 1e-3), "gan": claim(2, 1e-6)}, 1.5)
    assert "Epsilon of ddpm is at least 1.5" in may(draft).replace("1.50", "1.5")
    first, second = draft.answer.may if draft.answer else ("", "")
    assert "ddpm" in first and "at delta 0.001 " in first and "gan" in second and "at delta 1e-06 " in second


def test_of_a_search_the_delta_is_that_of_all_runs() -> None:
    draft = concluded({"": claim(1, 1e-5, runs=3)}, 1.5)
    assert "at delta 3e-05 " in may(draft)
    assert draft.answer is not None and any("a single run" in line for line in draft.answer.may_not)
    assert not any("a single run" in line for line in concluded({"": claim(3, 1e-5)}, 1.5).answer.may_not)


@pytest.mark.parametrize(
    ("proved", "ceiling", "kind", "headline", "of_one"),
    [(0.5, 5.0, "consistent", "The search's epsilon = 3 is not contradicted", False),
     (1.5, 5.0, "consistent", "The search's epsilon = 3 is not contradicted", True),
     (3.5, 5.0, "violation", "The search's epsilon = 3 is contradicted", False),
     (0.5, 2.0, "vacuous", "Too few points to test the search's epsilon = 3", False)],
)  # fmt: skip
def test_the_search_is_judged_and_the_claim_of_a_run_is_told(
    proved: float, ceiling: float, kind: str, headline: str, of_one: bool
) -> None:
    draft = concluded({"": claim(1, 1e-5, runs=3)}, proved, ceiling)
    told = verdict(draft)
    assert told.where["verdict"] == kind and told.headline.startswith(headline)
    assert told.how_sure == "95 %, delta 3e-05."
    assert "the search over 3 runs, each of which claims 1 at delta 1e-05." in says(told)
    # What is proved between both claims contradicts that of a run, if it were the only one.
    assert ("a single run would be contradicted" in says(told)) == of_one
    alone = says(verdict(concluded({"": claim(3, 3e-5)}, proved, ceiling)))
    assert "search" not in alone and "run would" not in alone


WITHDRAW = "Withdraw the claimed epsilon that is contradicted"
ADD = "Test the claimed epsilon with more points or canaries: so few can contradict none."


@pytest.mark.parametrize(
    ("claimed", "step"),
    # Proved is 1.5, and a perfect attack would prove 5.
    [((1,), f"{WITHDRAW}."), ((6,), ADD), ((2,), ""), ((6, 7), ADD), ((1, 1), f"{WITHDRAW}."), ((6, 2), ""),
     *(((1, other), f"{WITHDRAW}; test the others with more points and canaries.") for other in (2, 6))],
)  # fmt: skip
def test_what_to_do_follows_from_what_became_of_the_claims(claimed: tuple[float, ...], step: str) -> None:
    draft = concluded({f"m{place}": claim(epsilon, 1e-5) for place, epsilon in enumerate(claimed)}, 1.5)
    assert draft.answer is not None and draft.answer.next_step == step


def test_of_an_accounted_search_nothing_is_told_from_below() -> None:
    one = Claim(epsilon=2.0, delta=1e-5, source="accounted", least=1.0)
    told = says(verdict(concluded({"": one}, 1.5)))
    assert "lies between 1.00, below which no accountant of these steps can go" in told
    of_search = says(verdict(concluded({"": searched(one, 3, "")}, 1.5, ceiling=9.0)))
    assert "lies between" not in of_search and "the search over 3 runs, each of which claims at most 2.00" in of_search


def test_planted_canaries_refute_one_run_and_not_the_best_of_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "figures", lambda *given: iter(()))
    monkeypatch.setattr(bounding, "joint_beta", lambda *counts, **more: (0.0, 10.0))
    draws = np.random.default_rng(0)
    included = draws.random(1000) < 0.5
    np.savez(tmp_path / "c.npz", scores=included + draws.normal(size=1000), included=included)
    asked = {"scores": tmp_path / "c.npz", "higher_is": "member", "coin_flip": 0.5, "epsilon": 0.75}
    one, best = (drafted(AUDIT, {**asked, "runs_tried": runs}) for runs in (1, 4))
    assert verdict(one).where["verdict"] == "violation" and verdict(best).where["verdict"] == "consistent"
    assert CERTIFIED in verdict(best).evidence[0].where.values()
    # At a larger delta less epsilon is proved.
    assert 0.75 < verdict(best).evidence[0].value < verdict(one).evidence[0].value
    assert next(row.value for row in best.estimates if row.name == "epsilon_claimed") == 3.0
    assert [one.message for one in best.warnings if one.id == "search"] and not any(
        row.id == "search" for row in one.warnings
    )
    assert "delta 4e-05" in may(best) and "delta 1e-05" in may(one)
    assert not faults(best) and all(len(row.statement.split()) <= STATEMENT_WORDS for row in best.findings)
