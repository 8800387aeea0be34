"""What is said of points, claims, leaks and models, with numbers by hand: severities, verdicts, evidence."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audits.context import Draft
from audits.membership import Options
from audits.membership.bounding import ASSUMES_GDP, CERTIFIED, CLOPPER_PEARSON, GDP, HEURISTIC, ONE_RUN, Bounds, Proved
from audits.membership.claims import Claim
from audits.membership.judging import LARGE, NOTABLE, NOTHING, judge
from audits.membership.leaking import Difference, Leak
from audits.records import Estimate, Finding
from audits.statistics.roc import Area, Call, area

CONTEXT = SimpleNamespace(level=0.95)
MEMBER = np.arange(80) < 40
AREA: Area = area(np.random.default_rng(0).normal(size=80), MEMBER)


class World:
    """A report in the making with numbers by hand."""

    def __init__(self, *, shifted: bool | None = None, scores: bool = False) -> None:
        self.draft = Draft()
        blind = None
        if shifted is not None:
            place = self.add("blind_auc", 0.7, 0.65, 0.75, classifier="trees")
            blind = SimpleNamespace(places={"trees": place}, shifted=place if shifted else None)
        self.bounds: list[Bounds] = []
        self.leaks: list[Leak] = []
        self.gaps: list[Difference] = []
        self.claims: dict[str, Claim] = {}
        self.claims_at: dict[str, int] = {}
        self.utilities: dict[tuple[str, str], int] = {}
        self.blind = blind
        self.judged: list[SimpleNamespace] = []
        self.inputs, self.options = SimpleNamespace(given=object() if scores else None), Options()

    def add(self, name: str, value: float, low: float | None = None, high: float | None = None, **where: object) -> int:
        method = "none" if low is None else "t"
        row = Estimate(name=name, value=value, low=low, high=high, method=method, n=80, unit="points", where=where)
        return self.draft.add(row)

    def attacked(self, name: str, model: str = "", *, flipped: bool = False) -> SimpleNamespace:
        where = {"model": model} if model else {}
        label = f"{name} on {model}" if model else name
        attack = SimpleNamespace(name=name, where=where, label=label, setting="", member=MEMBER)
        places = {"tpr 0.1": self.add("tpr", 0.4, 0.3, 0.5, fpr=0.1), "auc": self.add("auc", 0.3, 0.2, 0.4)}
        calls = {"tpr 0.1": Call(0.0, 16, 40, 3, 40)}
        self.judged.append(SimpleNamespace(attack=attack, area=AREA, places=places, calls=calls, flipped=flipped))
        return self.judged[-1]

    def claim(self, epsilon: float, model: str = "") -> None:
        self.claims[model] = Claim(epsilon=epsilon, delta=1e-5, source="as given")
        self.claims_at[model] = self.add("epsilon_claimed", epsilon)

    def bound(
        self,
        name: str,
        epsilon: float,
        ceiling: float = 5.0,
        validity: str = HEURISTIC,
        model: str = "",
        *,
        rivals: int = 1,
        flipped: bool = False,
        **more: float,
    ) -> None:
        """Add the bounds of an attack; `more` are those by further methods."""
        proved = {}
        for method, value in {CLOPPER_PEARSON: epsilon, GDP: 9.0, **more}.items():
            valid = {GDP: ASSUMES_GDP, ONE_RUN: CERTIFIED}.get(method, validity)
            proved[method] = Proved(
                method=method, validity=valid, epsilon=value, ceiling=ceiling,
                place=self.add("epsilon_lower", value, value, max(value, ceiling)),
                ceiling_place=self.add("epsilon_ceiling", ceiling),
            )  # fmt: skip
        judged: Any = self.attacked(name, model, flipped=flipped)
        self.bounds.append(Bounds(judged=judged, proved=proved, rivals=rivals))

    def leak(
        self, low: float, *, p: float = 0.001, access: str = "samples", name: str = "nearest", model: str = ""
    ) -> Leak:
        judged = self.attacked(name, model)
        place = self.add("leakage", low + 0.05, low, low + 0.1)
        made = Leak(model=model, access=access, judged=judged, area=AREA, p=p, place=place)  # type: ignore[arg-type]
        self.leaks.append(made)
        return made

    def gap(self, first: Leak, second: Leak, value: float, p: float, half: float = 0.02) -> None:
        place = self.add("leakage_difference", value, value - half, value + half)
        self.gaps.append(Difference(first=first, second=second, p=p, place=place))

    def found(self) -> dict[str, list[Finding]]:
        judge(self.draft, self, CONTEXT)  # type: ignore[arg-type]
        found: dict[str, list[Finding]] = {}
        for one in self.draft.findings:
            found.setdefault(one.id.removeprefix("membership."), []).append(one)
        return found


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
    rows = [world.draft.estimates[place] for place in told.evidence]
    assert [row.name for row in rows] == ["epsilon_lower", "epsilon_ceiling", "epsilon_claimed"]
    assert rows[0].value == proved, "the bound that assumes least, not the largest"
    assert (f"{proved:.3g}" in told.statement and "delta 1e-05" in told.statement) or verdict == "vacuous"


@pytest.mark.parametrize(("validity", "severity"), [(CERTIFIED, "high"), (HEURISTIC, "medium")])
def test_a_violation_is_as_grave_as_its_bound_is_valid(validity: str, severity: str) -> None:
    world = World()
    world.claim(1.0)
    world.bound("loss", 2.0, validity=validity)
    (told,) = world.found()["verdict"]
    assert told.severity == severity and ("certified" in told.statement) == (validity == CERTIFIED)


def test_a_bound_of_one_run_leads_where_there_is_one() -> None:
    world = World()
    world.claim(1.0)
    world.bound("loss", 3.0, **{ONE_RUN: 0.5})
    (told,) = world.found()["verdict"]
    assert told.where["verdict"] == "consistent" and world.draft.estimates[told.evidence[0]].value == 0.5


def test_every_violation_is_told_but_only_one_verdict_otherwise() -> None:
    world = World()
    world.claim(1.0)
    for name, proved in (("weak", 0.2), ("strong", 3.0), ("good", 2.0)):
        world.bound(name, proved, rivals=3)
    told = world.found()["verdict"]
    assert [one.where["attack"] for one in told] == ["strong", "good"]
    assert all("one of 3 attacks that share the error" in one.statement for one in told)
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
    assert "share the error" not in told.statement and "for private" in told.statement


@pytest.mark.parametrize("claimed", [True, False])
def test_sides_that_differ_without_the_model_stop_the_verdict(claimed: bool) -> None:
    world = World(shifted=True)
    if claimed:
        world.claim(1.0)
    world.bound("loss", 3.0)
    world.leak(0.8)
    found = world.found()
    assert "verdict" not in found and found["shifted"][0].severity == "high"
    assert ("No verdict" in found["shifted"][0].statement) == claimed
    assert [one.id for one in world.draft.warnings] == (["no-verdict"] if claimed else [])
    assert "difference between the two sides" in found["leak"][0].statement
    assert world.draft.estimates[found["shifted"][0].evidence[0]].name == "blind_auc"


def test_sides_that_do_not_differ_stop_nothing() -> None:
    world = World(shifted=False)
    world.claim(1.0)
    world.bound("loss", 3.0)
    world.leak(0.8)
    found = world.found()
    assert {"verdict", "leak"} == set(found) and "two sides" not in found["leak"][0].statement


def test_scores_the_wrong_way_round_are_told_and_judge_no_claim() -> None:
    world = World(scores=True)
    world.claim(1.0)
    world.bound("loss", 3.0, flipped=True)
    found = world.found()
    assert set(found) == {"flipped"} and found["flipped"][0].severity == "high"
    assert world.draft.estimates[found["flipped"][0].evidence[0]].name == "auc"
    assert [one.id for one in world.draft.warnings] == ["no-verdict"]
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
    assert told.evidence == (leak.place, leak.judged.places["tpr 0.1"])


@pytest.mark.parametrize(("low", "p"), [(0.5, 0.001), (0.45, 0.001), (0.55, 0.051), (0.55, 0.5)])
def test_a_leak_that_is_not_shown_is_said_with_what_would_have_been(low: float, p: float) -> None:
    world = World()
    world.leak(low, p=p)
    found = world.found()
    assert set(found) == {"no-leak"} and found["no-leak"][0].severity == "info"
    assert "would have been shown in four of five" in found["no-leak"][0].statement


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
    assert more in told.statement and told.severity == "low" and told.where == {"access": "weights"}
    assert told.evidence == (world.gaps[0].place,)


def test_a_difference_that_is_not_shown_is_said_so() -> None:
    (told,) = pair(0.1, 0.051).found()["alike"]
    assert "no difference" in told.statement and "once all comparisons are counted" in told.statement
    (told,) = pair(0.01, 0.5).found()["alike"]
    assert "all comparisons" not in told.statement and told.severity == "info"


def test_differences_of_one_access_are_one_finding() -> None:
    world = World()
    leaks = [world.leak(0.6, access="weights", model=model) for model in "abc"]
    for first, second, value, p in ((0, 1, 0.1, 0.01), (0, 2, 0.2, 0.01), (1, 2, 0.01, 0.6)):
        world.gap(leaks[first], leaks[second], value, p)
    (told,) = world.found()["more-leakage"]
    assert "a leaks more than b (by" in told.statement and "No other difference" in told.statement
    assert told.evidence == (world.gaps[0].place, world.gaps[1].place)


@pytest.mark.parametrize(
    ("losses", "words"),
    [((0.1, 0.5), "Part of the difference may be that gan learnt less"), ((0.1, NOTHING + 0.05), "hardly better"),
     ((0.1, 1.2), "no better than to answer nothing"), ((0.5, 0.1), None), ((0.1, 0.11), None)],
)  # fmt: skip
def test_a_model_that_learnt_less_is_said_to(losses: tuple[float, float], words: str | None) -> None:
    world = pair(0.1, 0.01)
    for model, loss in zip(("ddpm", "gan"), losses, strict=True):
        world.utilities[model, "held_out_loss"] = world.add("utility", loss, loss - 0.02, loss + 0.02)
    (told,) = world.found()["more-leakage"]
    assert ("predicts the noise of unseen points worse" in told.statement) == (words is not None)
    assert words is None or words in told.statement
    assert len(told.evidence) == (1 if words is None else 3)


def test_findings_stand_worst_first() -> None:
    world = World()
    world.claim(9.0)
    world.bound("loss", 0.1)
    world.leak(0.52)
    world.leak(0.8, access="weights", name="pia")
    world.leak(0.4, p=0.9, access="full", name="discriminator")
    world.found()
    order = [one.severity for one in world.draft.findings]
    assert order == sorted(order, key=["high", "medium", "low", "info"].index) and len(order) == 4
