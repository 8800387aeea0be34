"""What is said of points, claims, leaks and models, with numbers by hand: severities, verdicts, evidence."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audited_points import GivenCounts, attack_of, inputs_of, labelled
from headlines import says

from audits.core.context import Claim as Said
from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.numbers import bounded
from audits.core.records import SEVERITIES, Estimate, Warning
from audits.membership import Options
from audits.membership.bounding import ASSUMES_GDP, CERTIFIED, CLOPPER_PEARSON, GDP, HEURISTIC, ONE_RUN, Bounds, Proved
from audits.membership.claims import Claim
from audits.membership.copying import Copying
from audits.membership.estimates import add_bounds
from audits.membership.findings import NOTHING, findings
from audits.membership.hit_ratios import LARGE_TIMES, NOTABLE_TIMES, Hit
from audits.membership.leak_findings import LARGE, NOTABLE
from audits.membership.leaks import Difference, Leak
from audits.membership.membership_scores import ScoreSet
from audits.membership.rates import Judged, hit_rate, judge_all, of_area
from audits.membership.releases import Release
from audits.membership.scoring import model_where
from audits.statistics.roc import Gap, area

MEMBER = np.arange(80) < 40
POOL = labelled(MEMBER)
SAMPLES = 60
# At a false alarm rate of 0.1, 16 of 40 members are hit and 3 of 40 others.
FOUND = np.where(MEMBER, np.arange(80) < 16, np.arange(80) < 43).astype(float)
HITS = "finds 0.40 (0.25 to 0.57) of the members"
TURNED, EQUAL = -FOUND, np.ones(80)


class World:
    """A report in the making with numbers by hand, and what was counted for it."""

    def __init__(self, *, shifted: bool | None = None, scores: bool = False, **options: Any) -> None:
        self.draft = Draft()
        if shifted is not None:
            self.add("blind_auc", 0.7, 0.65 if shifted else 0.45, 0.75, classifier="trees")
        self.bounds: list[Bounds] = []
        self.leaks: list[Leak] = []
        self.gaps: list[Difference] = []
        self.claims: dict[str, Claim] = {}
        self.judged: list[Judged] = []
        self.hits: list[Hit] = []
        self.copying: list[Copying] = []
        self.scores, self.options = scores, Options(**options)

    def add(
        self, name: str, value: float, low: float | None = None, high: float | None = None, n: int = 80, **where: Any
    ) -> Estimate:
        method = "none" if low is None else "t"
        return self.draft.add(
            name, Interval(value=value, low=low, high=high, method=method, n=n, unit="points"), **where
        )

    def attacked(self, name: str, model: str = "", *, tier: str = "samples", scores: Any = FOUND) -> Judged:
        """Return an attack; one of the same name on the same model is the same."""
        for one in self.judged:
            if one.where == {"attack": name, **model_where(model)}:
                return one
        attack = attack_of(name, scores, MEMBER, model=model, tier=tier)
        (one,) = judge_all([attack], 0.95, (0.1,))
        self.judged.append(one)
        self.draft.add("auc", one.unless_constant(of_area(one.area, 0.95)), **one.where, tier=tier)
        self.draft.add("tpr", one.unless_constant(hit_rate(one.calls[0.1], 0.95)), **one.where, fpr=0.1)
        return one

    def claim(self, epsilon: float, model: str = "") -> None:
        self.claims[model] = Claim(epsilon=epsilon, delta=1e-5, source="as given")
        self.draft.add("epsilon_claimed", self.claims[model].interval, **model_where(model))

    def bound(
        self,
        name: str,
        epsilon: float,
        ceiling: float = 5.0,
        validity: str = HEURISTIC,
        model: str = "",
        *,
        rivals: int = 1,
        n: int = 80,
        scores: Any = FOUND,
        **more: float,
    ) -> None:
        """Add the bounds of an attack; `more` are those by further methods."""
        proved = {}
        for method, value in {CLOPPER_PEARSON: epsilon, GDP: 9.0, **more}.items():
            valid = {GDP: ASSUMES_GDP, ONE_RUN: CERTIFIED}.get(method, validity)
            ends = Interval(value=value, low=value, high=max(value, ceiling), method="t", n=n, unit="points")
            proved[method] = Proved(method=method, validity=valid, bound=ends)
        judged = self.attacked(name, model, scores=scores)
        self.bounds.append(Bounds(judged=judged, proved=proved, rivals=rivals))
        add_bounds(self.draft, self.bounds[-1])

    def leak(
        self, low: float, *, p: float = 0.001, access: str = "samples", name: str = "nearest", model: str = "",
        **more: Any,
    ) -> Leak:  # fmt: skip
        judged = self.attacked(name, model, **more)
        made = Leak(model=model, access=access, judged=judged, area=judged.area, p=p)
        self.add("leakage", low + 0.05, low, low + 0.1, **made.where)
        self.leaks.append(made)
        return made

    def hit(self, times: float, judged: Judged) -> Hit:
        """Add hits of an attack at few false alarms, which are of members so many times as often at the least."""
        ratio = Interval(value=times, low=times, high=40.0, method="Lower bound: by hand", n=80, unit="points")
        made = Hit(judged=judged, rate=0.1, ratio=ratio)
        self.draft.add("hit_ratio", ratio, **made.where)
        self.hits.append(made)
        return made

    def copied(
        self, members: tuple[float, float], others: tuple[float, float], *, p: float, match: str = "exact",
        model: str = "", samples: tuple[int, int] = (8, 0),
    ) -> None:  # fmt: skip
        """Add shares of copied points by their intervals, and counts of samples that copy."""
        sides = "members", "nonmembers"
        repeats = {side: np.arange(SAMPLES) < count for side, count in zip(sides, samples, strict=True)}
        made = Copying(model=model, match=match, radius=0.0, points={}, samples=repeats, p=p)
        for side, (low, high), count in zip(sides, (members, others), samples, strict=True):
            self.add(f"copied_{side}", (low + high) / 2, low, high, 40, **made.where)
            self.add("copies", count / SAMPLES, 0.0, 1.0, SAMPLES, side=side, **made.where)
        self.copying.append(made)

    def gap(self, first: Leak, second: Leak, value: float, p: float, half: float = 0.02) -> None:
        made = Difference(first=first, second=second, gap=Gap(value, value - half, value + half, p), p=p)
        self.draft.add("leakage_difference", made.interval, **made.where)
        self.gaps.append(made)

    def row(self, name: str, found: Leak | Difference | Hit) -> Estimate:
        return self.draft.row(name, **found.where)

    def warned(self, id: str) -> list[Warning]:
        return [one for one in self.draft.warnings if one.id == id]

    def found(self) -> dict[str, list[Said]]:
        releases = tuple(Release(name=model, claim=claim) for model, claim in self.claims.items())
        counts = GivenCounts(
            inputs=inputs_of(POOL, given=GIVEN if self.scores else None, releases=releases),
            options=self.options, judged=tuple(self.judged), hits=self.hits, copying=self.copying, bounds=self.bounds,
            leaks=self.leaks, gaps=self.gaps,
        )  # fmt: skip
        findings(self.draft, counts)
        found: dict[str, list[Said]] = {}
        for one in sorted(self.draft.findings, key=lambda one: -SEVERITIES.index(one.severity)):
            found.setdefault(one.id.removeprefix("membership."), []).append(one)
        return found


GIVEN = ScoreSet(
    path="s.csv", sha256="", layout="", scores={"score": FOUND}, member=MEMBER, names=(), include_prob=None,
    groups=None, one_run=False, given=80, skipped={}, notes=(),
)  # fmt: skip


# Claims.
@pytest.mark.parametrize(
    ("proved", "ceiling", "verdict"),
    [(2.01, 5.0, "violation"), (2.0, 5.0, "consistent"), (0.0, 2.0, "consistent"), (0.0, 1.99, "vacuous"),
     (1.9, 1.9, "vacuous"), (2.5, 2.5, "violation")],
)  # fmt: skip
def test_a_claim_of_2_is_judged_by_bound_and_ceiling(proved: float, ceiling: float, verdict: str) -> None:
    world = World()
    world.claim(2.0)
    world.bound("loss", proved, ceiling)
    (told,) = world.found()["verdict"]
    assert told.where == {"attack": "loss", "verdict": verdict}
    rows = told.evidence
    # The number of the headline comes first.
    names = ["epsilon_lower", "epsilon_ceiling"]
    assert [row.name for row in rows] == [*(reversed(names) if verdict == "vacuous" else names), "epsilon_claimed"]
    assert rows[verdict == "vacuous"].value == proved, "the bound that assumes least, not the largest"
    least = "loss shows at least" if proved else "loss shows nothing above"
    assert re.search(f"(proves at least|bound by attack loss is|{least}) {bounded(proved)}[.,]", says(told))
    assert told.how_sure == "95 %, delta 1e-05." and "epsilon = 2" in told.headline
    assert bounded(ceiling) in says(told).partition("perfect attack")[2]


@pytest.mark.parametrize(
    ("proved", "ceiling", "claimed", "told", "verdict"),
    [(1.37848, 4.20874, 1.0, ("1.37.",), "violation"), (1.37848, 4.20874, 2.0, ("1.37.", "prove 4.20."),
     "consistent"), (1.37848, 4.20874, 5.0, ("at least 1.37,", "at most 4.20."), "vacuous"),
     # In three digits these would lie on the claim, or on its other side.
     (2.0049, 4.0, 2.004, ("2.0049.",), "violation"), (1.0, 2.0049, 2.004, ("prove 2.0049.",), "consistent")],
)  # fmt: skip
def test_no_sentence_says_more_than_was_proved_or_provable(
    proved: float, ceiling: float, claimed: float, told: tuple[str, ...], verdict: str
) -> None:
    world = World()
    world.claim(claimed)
    world.bound("loss", proved, ceiling)
    (found,) = world.found()["verdict"]
    assert found.where["verdict"] == verdict and all(part in says(found) for part in told), says(found)


@pytest.mark.parametrize(
    ("proved", "claimed", "between"), [(1.5, None, False), (1.5, 1.6, False), (1.7, 1.6, True), (2.5, 1.6, False)]
)
def test_a_bound_below_an_accounted_claim_may_still_refute_the_training(
    proved: float, claimed: float | None, between: bool
) -> None:
    world = World()
    world.claim(2.0)
    world.claims[""] = replace(world.claims[""], least=claimed)
    world.bound("loss", proved)
    (found,) = world.found()["verdict"]
    assert ("tighter accountant may find" in says(found)) == between
    assert ("claimed epsilon ≤ 2.00" in says(found)) == (claimed is not None)
    assert not between or "between 1.60, below" in says(found)


@pytest.mark.parametrize(("validity", "severity"), [(CERTIFIED, "high"), (HEURISTIC, "medium")])
def test_a_violation_is_as_grave_as_its_bound_is_valid(validity: str, severity: str) -> None:
    world = World()
    world.claim(1.0)
    world.bound("loss", 2.0, validity=validity)
    (told,) = world.found()["verdict"]
    assert told.severity == severity and ("heuristic" in says(told)) == (validity == HEURISTIC)


SIDES = "40 members and 40 non-members"


@pytest.mark.parametrize(
    ("options", "validity", "rest"),
    [
        ({"coin_flip": 0.5}, CERTIFIED,
         "Valid only if, as you stated, each point was included by its own fair coin flip."),
        ({"independent": True}, CERTIFIED,
         "Valid only if, as you stated, every score is from a training run of its own."),
        ({}, HEURISTIC, "This is heuristic: points of one training run are no independent trials."),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("proved", "ceiling", "kind", "severity", "said"),
    [
        (3.14159, 5.0, "violation", None,
         f"The claimed epsilon = 2 is contradicted: PROOF 3.14. With {SIDES}, a perfect attack would prove 5.00. WORD"),
        (0.5, 4.321, "consistent", "info",
         f"The claimed epsilon = 2 is not contradicted: PROOF 0.500. With {SIDES}, a perfect attack would prove 4.32. "
         "WORD"),
        (0.0, 1.5, "vacuous", "medium",
         "Too few points to test epsilon = 2: a perfect attack could show at most 1.50. WORD As it is, attack loss "
         f"shows nothing above 0, with {SIDES}."),
    ],
)  # fmt: skip
def test_a_verdict_says_what_was_proved_what_could_be_and_on_whose_word(
    options: dict[str, Any], validity: str, rest: str, proved: float, ceiling: float, kind: str,
    severity: str | None, said: str,
) -> None:  # fmt: skip
    world = World(**options)
    world.claim(2.0)
    world.bound("loss", proved, ceiling, validity=validity)
    (told,) = world.found()["verdict"]
    proof = "attack loss proves at least" if validity == CERTIFIED else "the heuristic bound by attack loss is"
    said = said.replace("PROOF", proof).replace("WORD", rest)
    assert says(told) == f"{said} 95 %, delta 1e-05." and told.where["verdict"] == kind
    assert told.severity == (severity or ("high" if validity == CERTIFIED else "medium"))


def test_a_verdict_says_how_many_of_the_points_prove_it_and_how_many_attacks_share_the_error() -> None:
    world = World()
    world.claim(2.0, "gan-dp")
    world.bound("nearest", 0.0, 1.5, rivals=19, model="gan-dp", n=40)
    (told,) = world.found()["verdict"]
    assert "Too few points to test epsilon = 2 for gan-dp: a perfect attack could show at most" in told.headline
    assert f"attack nearest shows nothing above 0, with the bound resting on 40 of 80 points ({SIDES})." in says(told)
    assert "19 attacks share the error" in told.how_sure


def test_the_matrix_on_top_says_of_each_area_what_the_findings_say() -> None:
    world = World()
    world.leak(0.7, model="a")
    world.leak(0.6, p=0.2, model="b")
    world.leak(0.45, p=0.5, model="c")
    found = world.leak(0.45, p=0.5, model="d")
    world.hit(NOTABLE_TIMES, found.judged)
    said = {one.where["model"]: one for one in world.found()["leak"]}
    assert set(said) == {"a", "d"}
    assert world.draft.answer is not None
    told = [(one.shown, one.words) for one in world.draft.answer.verdicts]
    # The interval of b, 0.60 to 0.70, excludes 0.5 by itself.
    some = "on average not shown; some points are found"
    assert told == [(True, ""), (False, "not after correction"), (False, ""), (False, some)]


@pytest.mark.parametrize("scores", [True, False])
def test_equal_scores_uphold_no_claim_and_say_nothing_of_leakage(scores: bool) -> None:
    world = World(scores=scores)
    world.claim(3.0)
    world.bound("score", 0.0, scores=EQUAL)
    judged = world.judged[-1]
    world.leaks.append(Leak(model="", access="full", judged=judged, area=judged.area, p=0.5))
    world.add("leakage", 0.5, **world.leaks[0].where)
    found = world.found()
    (told,) = found["equal" if scores else "no-leak"]
    assert len(found) == 1 and told.severity == ("high" if scores else "info")
    assert (told.headline, told.statement) == (
        ("Nothing can be said of leakage: all given scores are equal.", "That is so of score. Give others.")
        if scores
        else ("Nothing can be said of leakage: all scores of score are equal.", "The attacker holds the full release.")
    )
    (warning,) = world.warned("no-verdict")
    assert warning.message == "The claimed epsilon of 3 was not judged: all scores are equal."


def test_a_model_that_no_attack_touched_or_only_flipped_ones_has_no_verdict() -> None:
    world = World()
    for model in ("untouched", "turned", "sound"):
        world.claim(1.0, model)
    world.bound("loss", 3.0, model="turned", scores=TURNED)
    world.bound("loss", 3.0, model="sound")
    world.bound("pia", 9.0, model="sound", scores=TURNED)
    found = world.found()
    assert [(one.where["model"], one.where["attack"]) for one in found["verdict"]] == [("sound", "loss")]
    warnings = {one.where["model"]: one.message for one in world.warned("no-verdict")}
    assert set(warnings) == {"untouched", "turned"}
    assert "no attack was made" in warnings["untouched"] and "wrong way round" in warnings["turned"]
    assert "flipped" not in found, "only of files is the direction somebody's word"


def test_a_bound_of_one_run_leads_where_there_is_one() -> None:
    world = World()
    world.claim(1.0)
    world.bound("loss", 3.0, **{ONE_RUN: 0.5})
    (told,) = world.found()["verdict"]
    assert told.where["verdict"] == "consistent" and told.evidence[0].value == 0.5


def test_every_violation_is_told_but_only_one_verdict_otherwise() -> None:
    world = World()
    world.claim(1.0)
    for name, proved in (("weak", 0.2), ("strong", 3.0), ("good", 2.0)):
        world.bound(name, proved, rivals=3)
    told = world.found()["verdict"]
    assert [one.where["attack"] for one in told] == ["strong", "good"]
    assert all("3 attacks share the error" in one.how_sure for one in told)
    calm = World()
    calm.claim(4.0)
    for name, proved in (("weak", 0.2), ("strong", 3.0)):
        calm.bound(name, proved)
    assert [one.where["attack"] for one in calm.found()["verdict"]] == ["strong"]


def test_each_model_is_held_to_its_own_claim() -> None:
    world = World()
    world.claim(1.0, "private")
    for model in ("private", "plain"):
        world.bound("loss", 2.0, model=model)
    (told,) = world.found()["verdict"]
    assert told.where == {"attack": "loss", "model": "private", "verdict": "violation"}
    assert "share the error" not in says(told) and "for private" in says(told)


@pytest.mark.parametrize("claimed", [True, False])
def test_sides_that_differ_without_the_model_stop_the_verdict(claimed: bool) -> None:
    world = World(shifted=True)
    if claimed:
        world.claim(1.0)
    world.bound("loss", 3.0)
    world.leak(0.8)
    found = world.found()
    assert "verdict" not in found and found["shifted"][0].severity == "high"
    assert ("No verdict" in says(found["shifted"][0])) == claimed
    assert len(world.warned("no-verdict")) == claimed
    assert "difference between the two sides" in says(found["leak"][0])
    assert found["shifted"][0].evidence[0].name == "blind_auc"


def test_sides_that_do_not_differ_stop_nothing() -> None:
    world = World(shifted=False)
    world.claim(1.0)
    world.bound("loss", 3.0)
    world.leak(0.8)
    found = world.found()
    assert {"verdict", "leak"} == set(found) and "two sides" not in says(found["leak"][0])


def test_scores_the_wrong_way_round_are_told_and_judge_no_claim() -> None:
    world = World(scores=True)
    world.claim(1.0)
    world.bound("loss", 3.0, scores=TURNED)
    found = world.found()
    assert set(found) == {"flipped"} and found["flipped"][0].severity == "high"
    assert found["flipped"][0].evidence[0].name == "auc"
    assert len(world.warned("no-verdict")) == 1
    world.bound("other", 0.5)
    assert [one.where["attack"] for one in world.found()["verdict"]] == ["other"]


# Leaks.
@pytest.mark.parametrize(
    ("low", "severity"), [(LARGE, "high"), (LARGE - 0.01, "medium"), (NOTABLE, "medium"), (NOTABLE - 0.01, "low")]
)
def test_a_leak_is_as_grave_as_the_low_end_of_its_area(low: float, severity: str) -> None:
    world = World()
    leak = world.leak(low)
    (told,) = world.found()["leak"]
    assert told.severity == severity and told.where == {"access": "samples", "attack": "nearest"}
    assert told.evidence == (world.row("leakage", leak), world.draft.row("tpr", attack="nearest", fpr=0.1))


@pytest.mark.parametrize(("low", "p"), [(0.5, 0.001), (0.45, 0.001), (0.55, 0.051), (0.55, 0.5)])
def test_a_leak_that_is_not_shown_is_said_with_what_would_have_been(low: float, p: float) -> None:
    world = World()
    world.leak(low, p=p)
    found = world.found()
    assert set(found) == {"no-leak"} and found["no-leak"][0].severity == "info"
    assert "would have been shown in four of five" in says(found["no-leak"][0])


@pytest.mark.parametrize(
    ("scores", "model", "access", "begins"),
    [(True, "", "weights", "these scores"), (False, "", "samples", "generated samples"),
     (False, "gan", "weights", "gan's weights"),
     (False, "gan", "full", "gan's full release")],
)  # fmt: skip
@pytest.mark.parametrize("p", [0.001, 0.5])
def test_a_leak_is_told_with_what_was_held(scores: bool, model: str, access: str, begins: str, p: float) -> None:
    world = World(scores=scores)
    world.leak(0.8, model=model, access=access, p=p)
    (told,) = world.found()["leak" if p < 0.05 else "no-leak"]
    assert told.headline.startswith(f"{'An attacker' if p < 0.05 else 'No attack'} with {begins} ")


def test_hits_are_told_only_of_an_attack_that_was_not_chosen() -> None:
    hits = f"The threshold that 3 of 40 non-members reach {HITS}."
    world = World()
    world.leak(0.8)
    (told,) = world.found()["leak"]
    assert told.statement.endswith(hits)
    chosen = World()
    leak = chosen.leak(0.8)
    chosen.leaks[0] = replace(leak, area=area(np.arange(80.0), MEMBER))
    (told,) = chosen.found()["leak"]
    assert "threshold" not in says(told) and "on the points that did not choose it" in says(told)
    assert told.evidence == (chosen.row("leakage", leak),)


# Hits at few false alarms.
@pytest.mark.parametrize("low", [0.52, NOTABLE, LARGE])
@pytest.mark.parametrize("times", [NOTABLE_TIMES - 0.01, NOTABLE_TIMES, LARGE_TIMES - 0.01, LARGE_TIMES])
def test_a_leak_is_as_grave_as_its_area_or_its_hits_make_it(low: float, times: float) -> None:
    world = World()
    leak = world.leak(low)
    world.hit(times, leak.judged)
    (told,) = world.found()["leak"]
    by_area = 2 if low >= LARGE else 1 if low >= NOTABLE else 0
    by_hits = 2 if times >= LARGE_TIMES else 1 if times >= NOTABLE_TIMES else 0
    assert told.severity == ("low", "medium", "high")[max(by_area, by_hits)]
    assert ("times as often as non-members." in says(told)) == (by_hits > 0)


def test_hits_that_are_hardly_ever_wrong_are_a_leak_where_the_area_shows_none() -> None:
    world = World()
    leak = world.leak(0.45, p=0.4, name="domias")
    nearest = world.attacked("nearest")
    hit = world.hit(6.594, nearest)
    found = world.found()
    assert set(found) == {"leak"}
    (told,) = found["leak"]
    assert told.severity == "high" and told.evidence == (
        world.row("tpr", hit),
        world.row("hit_ratio", hit),
        world.row("leakage", leak),
    )
    share = HITS.removeprefix("finds ").removesuffix(" of the members")
    assert told.headline == (
        f"An attacker with generated samples identifies some training points: {share} found at few false alarms."
    )
    assert told.statement == (
        "On average it is not shown: the best AUC, of domias, is 0.50 (0.45 to 0.55). The threshold of nearest that 3 "
        f"of 40 non-members reach {HITS}, at least 6.59 times as often as non-members."
    )


def test_hits_are_those_of_the_same_model_and_access_and_of_scores_the_right_way_round() -> None:
    world = World()
    for model in ("one", "two", "three", "four"):
        world.leak(0.45, p=0.4, model=model)
    world.hit(9.0, world.attacked("pia", "two"))
    world.hit(9.0, world.attacked("discriminator", "three", tier="full"))
    world.hit(9.0, world.attacked("loss", "four", scores=TURNED))
    found = world.found()
    assert [one.where["model"] for one in found["leak"]] == ["two"]
    assert [one.where["model"] for one in found["no-leak"]] == ["one", "three", "four"]


def test_hits_of_a_wider_access_are_told_where_they_are_another_attacks() -> None:
    for attack, count in (("nearest", 1), ("pia", 2)):
        world = World()
        world.leak(0.52)
        world.leak(0.52, access="weights")
        world.hit(3.0, world.judged[0])
        if attack == "pia":
            world.hit(6.0, world.attacked(attack, tier="denoiser"))
        assert len(world.found()["leak"]) == count


# Copies.
@pytest.mark.parametrize(
    ("members", "others", "p", "severity"),
    [((0.2, 0.3), (0.0, 0.1), 0.001, "high"), ((0.2, 0.3), (0.0, 0.11), 0.001, "medium"),
     ((0.2, 0.3), (0.0, 0.1), 0.051, None), ((0.6, 0.7), (0.5, 0.6), 0.001, "medium")],
)  # fmt: skip
def test_copies_are_a_leak_where_members_are_copied_more_often(
    members: tuple[float, float], others: tuple[float, float], p: float, severity: str | None
) -> None:
    world = World()
    world.copied(members, others, p=p)
    world.copied(members, others, p=p, match="near")
    found = world.found()
    assert set(found) == ({"copies"} if severity else {"copies-alike"})
    (told,) = found["copies" if severity else "copies-alike"]
    assert told.severity == (severity or "info") and told.where == {"match": "exact"}
    assert told.statement.startswith("8 of 60 samples repeat a member exactly, 0 a non-member. Of the non-members ")
    assert told.headline.startswith("No more copies of members") == (severity is None)
    assert told.headline.startswith("Samples repeat 0.") == (severity is not None)
    assert {row.name for row in told.evidence} == {
        "copies", "copied_members", "copied_nonmembers"
    }  # fmt: skip


def test_near_copies_are_told_where_exact_ones_are_not_shown_and_none_where_there_is_none() -> None:
    world = World()
    world.copied((0.0, 0.1), (0.0, 0.1), p=1.0, samples=(0, 0), model="gan")
    world.copied((0.2, 0.3), (0.0, 0.1), p=0.001, match="near", samples=(1, 0), model="gan")
    world.copied((0.0, 0.1), (0.0, 0.1), p=1.0, samples=(0, 0), model="ddpm")
    world.copied((0.0, 0.1), (0.0, 0.1), p=1.0, samples=(3, 2), match="near", model="ddpm")
    world.leak(0.45, p=0.4, model="gan")
    world.leak(0.45, p=0.4, model="ddpm")
    found = world.found()
    (told,) = found["copies"]
    assert told.statement.startswith("1 of 60 samples of gan repeats a member nearly, 0 a non-member")
    assert told.where == {"match": "near", "model": "gan"} and "copies-alike" not in found
    assert ["Points that are copied are included" in says(one) for one in found["no-leak"]] == [True, False]


def test_copies_of_sides_that_differ_may_be_that_difference() -> None:
    world = World(shifted=True)
    world.copied((0.2, 0.3), (0.0, 0.1), p=0.001)
    assert "difference between the two sides" in says(world.found()["copies"][0])


def test_flipped_scores_have_no_leak_of_their_own_to_be_missed() -> None:
    for scores in (True, False):
        world = World(scores=scores)
        world.leak(0.2, p=1.0, scores=TURNED)
        assert set(world.found()) == ({"flipped"} if scores else set())


def test_more_access_is_told_only_where_it_brings_a_better_attack() -> None:
    world = World()
    world.leak(0.6)
    world.leak(0.6, access="weights")
    world.leak(0.8, access="full", name="discriminator")
    told = world.found()["leak"]
    assert [(one.where["access"], one.severity) for one in told] == [("full", "high"), ("samples", "medium")]


# Models against each other.
def pair(value: float, p: float) -> World:
    world = World()
    first, second = (world.leak(0.6, access="weights", model=model) for model in ("ddpm", "gan"))
    world.gap(first, second, value, p)
    return world


@pytest.mark.parametrize(("value", "more"), [(0.1, "ddpm leaks more than gan"), (-0.1, "gan leaks more than ddpm")])
def test_which_model_leaks_more_is_said(value: float, more: str) -> None:
    world = pair(value, 0.01)
    (told,) = world.found()["more-leakage"]
    assert more in says(told) and told.severity == "low" and told.where == {"access": "weights"}
    assert told.evidence == (world.row("leakage_difference", world.gaps[0]),)


def test_a_difference_that_is_not_shown_is_said_so() -> None:
    (told,) = pair(0.1, 0.051).found()["alike"]
    assert "No difference" in told.headline and "once all comparisons are counted" in says(told)
    (told,) = pair(0.01, 0.5).found()["alike"]
    assert "all comparisons" not in says(told) and told.severity == "info"


def test_differences_of_one_access_are_one_finding() -> None:
    world = World()
    leaks = [world.leak(0.6, access="weights", model=model) for model in "abc"]
    for first, second, value, p in ((0, 1, 0.1, 0.01), (0, 2, 0.2, 0.01), (1, 2, 0.01, 0.6)):
        world.gap(leaks[first], leaks[second], value, p)
    (told,) = world.found()["more-leakage"]
    assert told.headline.startswith("a leaks more than c with the weights, by 0.2")
    assert "a leaks more than b (by" in says(told) and "No other difference" in says(told)
    assert told.evidence == tuple(world.row("leakage_difference", world.gaps[at]) for at in (1, 0))


@pytest.mark.parametrize(
    ("measure", "values", "words"),
    [
        ("held_out_loss", (0.1, 0.5), "gan predicts the noise of unseen points worse than ddpm"),
        ("held_out_loss", (0.1, NOTHING + 0.03), "gan does hardly better than to answer nothing"),
        ("held_out_loss", (0.1, 1.2), "gan does no better than to answer nothing"),
        ("held_out_loss", (0.5, 0.1), None),
        ("held_out_loss", (0.1, 0.11), None),
        ("recall", (0.8, 0.3), "Samples of gan cover less of fresh points than those of ddpm"),
        ("recall", (0.3, 0.8), None),
    ],
)
def test_a_model_that_leaks_less_since_it_learnt_less_is_told_once(
    measure: str, values: tuple[float, float], words: str | None
) -> None:
    world = pair(0.1, 0.01)
    world.gap(*(world.leak(0.6, access="full", model=model) for model in ("ddpm", "gan")), 0.1, 0.01)
    rows = [
        world.add("utility", value, value - 0.02, value + 0.02, model=model, measure=measure)
        for model, value in zip(("ddpm", "gan"), values, strict=True)
    ]
    found = world.found()
    assert len(found["more-leakage"]) == 2 and ("learnt-less" in found) == (words is not None)
    if words is not None:
        (told,) = found["learnt-less"]
        assert words in says(told) and told.severity == "low" and told.evidence == (rows[1], rows[0])
        assert told.headline.count("gan") == 1


def test_findings_stand_worst_first() -> None:
    world = World()
    world.claim(9.0)
    world.bound("loss", 0.1)
    world.leak(0.52)
    world.leak(0.8, access="weights", name="pia")
    world.leak(0.4, p=0.9, access="full", name="discriminator")
    world.found()
    order = [one.severity for one in world.draft.numbered()]
    assert order == sorted(order, key=SEVERITIES.index, reverse=True) and len(order) == 4
