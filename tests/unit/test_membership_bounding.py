"""Is every bound called what it is, and is the error shared by all attacks of one model and by no others?"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from audited_points import attack_of, labelled

from audits.core.context import Draft
from audits.core.numbers import LOWER_BOUND, interval
from audits.core.records import Estimate
from audits.membership import Options, bounding
from audits.membership.bounding import Bounds, bound_all, provable
from audits.membership.claims import Claim
from audits.membership.estimates import add_bounds
from audits.membership.pool import Pool
from audits.membership.rates import judged_of
from audits.membership.scoring import Attack
from audits.membership.verdicts import find_verdicts
from audits.statistics.joint_beta import joint_beta
from audits.statistics.one_run import count_guesses, one_run_epsilon
from audits.statistics.one_run_fdp import one_run_fdp_epsilon
from audits.statistics.one_run_independent import one_run_independent_epsilon, one_run_independent_gdp_epsilon
from audits.statistics.threshold_selection import bound

N = 200
LEVEL = 0.95
MEMBER = np.arange(2 * N) < N
PLAIN, RUN = ("clopper-pearson", "gdp"), ("one-run", "one-run-fdp")
ASSUMED = {
    "one-run-fdp": "assumes-gdp",
    "one-run-independent": "assumes-independent-canaries",
    "one-run-independent-gdp": "assumes-independent-gdp",
}


@pytest.fixture
def pool() -> Pool:
    return labelled(MEMBER)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the credible intervals out, which take longest."""
    monkeypatch.setattr(bounding, "joint_beta", lambda *counts, **more: (0.0, 1.0))


def attack(seed: int = 0, mu: float = 2.0, model: str = "", judged: np.ndarray | None = None) -> Attack:
    scores = np.random.default_rng(seed).normal(size=2 * N) + mu * MEMBER
    return attack_of(f"attack-{seed}", scores, MEMBER, model=model, judged=judged)


def bounds(
    pool: Pool, *attacks: Attack, claims: Mapping[str, Claim] | None = None, **options: Any
) -> tuple[list[Bounds], Draft]:
    """Return the bounds of attacks, and the table that they stand in."""
    judged, draft = [judged_of(one, LEVEL) for one in attacks], Draft()
    found = bound_all(judged, pool, Options(**options), claims or {}, level=LEVEL, seed=0)
    for one in found:
        add_bounds(draft, one)
    return found, draft


def row_of(draft: Draft, found: Bounds, method: str) -> Estimate:
    return draft.row("epsilon_lower", **found.judged.where, method=method, validity=found.proved[method].validity)


def rows(draft: Draft, name: str, **where: str) -> list[Estimate]:
    return [one for one in draft.estimates if one.name == name and where.items() <= one.where.items()]


@pytest.mark.parametrize(
    ("options", "validities"),
    [
        ({}, {"clopper-pearson": "heuristic", "gdp": "assumes-gdp"}),
        ({"independent": True}, {"clopper-pearson": "certified", "gdp": "assumes-gdp"}),
        ({"independent": True, "delta": 0.0}, {"clopper-pearson": "certified"}),
        ({"independent": True, "selection": "fixed", "threshold": 1.0},
         {"clopper-pearson": "certified", "gdp": "assumes-gdp"}),
        ({"coin_flip": 0.5},
         {"clopper-pearson": "heuristic", "gdp": "assumes-gdp", "one-run": "certified", **ASSUMED}),
        ({"coin_flip": 0.5, "selection": "bonferroni", "delta": 0.0},
         {"clopper-pearson": "heuristic", "one-run": "certified"}),
        ({"coin_flip": 0.5, "selection": "fixed", "threshold": 0.1},
         {"one-run": "certified", **ASSUMED}),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("quick")
def test_only_what_rests_on_coins_or_on_runs_of_their_own_is_certified(
    pool: Pool, options: dict[str, Any], validities: dict[str, str]
) -> None:
    (found,), draft = bounds(pool, attack(), **options)
    assert {name: one.validity for name, one in found.proved.items()} == validities
    assert found.leading.method == ("one-run" if "coin_flip" in options else "clopper-pearson")
    for name, one in found.proved.items():
        row = draft.row("epsilon_lower", attack="attack-0", method=name, validity=one.validity)
        top = draft.row("epsilon_ceiling", attack="attack-0", method=name)
        assert row.low == row.value == one.epsilon > 0
        assert row.high == top.value == one.ceiling >= one.epsilon
        assert row.level == 0.95
    assert len(rows(draft, "epsilon_lower")) == len(rows(draft, "epsilon_ceiling")) == len(validities)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "options",
    [{}, {"delta": 0.0}, {"selection": "fixed", "threshold": 1.0}, {"coin_flip": 0.5},
     {"coin_flip": 0.5, "selection": "bonferroni"}, {"coin_flip": 0.5, "selection": "fixed", "threshold": 0.1}],
)  # fmt: skip
@pytest.mark.usefixtures("quick")
def test_what_is_provable_before_the_run_is_the_ceiling_after_it(
    pool: Pool, options: dict[str, Any], count: int
) -> None:
    found, _ = bounds(pool, *(attack(seed) for seed in range(count)), **options)
    assert {one.leading.ceiling for one in found} == {
        provable(pool, Options(**options), count, LEVEL, delta=options.get("delta", 1e-5))
    }


@pytest.mark.parametrize("selection", ["split", "bonferroni", "fixed"])
@pytest.mark.usefixtures("quick")
def test_plain_bounds_are_those_of_the_engine(pool: Pool, selection: str) -> None:
    threshold = 1.0 if selection == "fixed" else None
    one = attack(1)
    (found,), draft = bounds(pool, one, selection=selection, threshold=threshold, independent=True)
    for method in PLAIN:
        expected = bound(
            one.scores,
            MEMBER,
            delta=1e-5,
            alpha=0.05,
            selection=selection,
            gaussian=method == "gdp",
            chooses=pool.chooses,
            threshold=threshold,
        )
        assert found.proved[method].epsilon == pytest.approx(expected.epsilon, rel=1e-12)
        assert found.proved[method].ceiling == pytest.approx(expected.ceiling, rel=1e-12)
        row = row_of(draft, found, method)
        assert row.n == (N if selection == "split" else 2 * N)
        said = {"split": "other half", "bonferroni": f"{expected.tried} thresholds", "fixed": "as given"}[selection]
        assert said in row.method
        assert ("Gaussian" in row.method) == (method == "gdp")


@pytest.mark.usefixtures("quick")
def test_one_run_bounds_are_those_of_the_engine(pool: Pool) -> None:
    one = attack(2)
    for selection in ("fixed", "bonferroni", "split"):
        threshold = 0.2 if selection == "fixed" else None
        (found,), draft = bounds(pool, one, selection=selection, threshold=threshold, coin_flip=0.5)
        used, tail, shares = np.ones(2 * N, dtype=bool), 0.05, bounding.SHARES

        def proved(mask: np.ndarray, share: float, tail: float, of: Any) -> float:
            each = int(share * mask.sum() / 2)
            met = count_guesses(one.scores[mask], MEMBER[mask], each, each)
            return float(of(met.correct, met.guesses, int(mask.sum()), delta=1e-5, level=1 - tail))

        if selection == "fixed":
            shares = (0.2,)
        elif selection == "bonferroni":
            tail /= len(shares)
        else:
            used = ~pool.chooses
            shares = (max(shares, key=lambda share: proved(pool.chooses, share, 0.05, one_run_epsilon)),)
        for method, of in zip(RUN, (one_run_epsilon, one_run_fdp_epsilon), strict=True):
            expected = max(proved(used, share, tail, of) for share in shares)
            assert found.proved[method].epsilon == pytest.approx(expected, rel=1e-9) != 0
            assert row_of(draft, found, method).n == used.sum()
        # A perfect attack reaches the ceiling: it guesses as many as pay most.
        perfect = attack_of("p", MEMBER + np.linspace(0, 0.5, 2 * N), MEMBER, judged=one.judged)
        (top,), _ = bounds(pool, perfect, selection=selection, threshold=threshold, coin_flip=0.5)
        assert top.proved["one-run"].epsilon == pytest.approx(top.proved["one-run"].ceiling, rel=1e-6)
        assert top.proved["one-run"].ceiling == pytest.approx(found.proved["one-run"].ceiling, rel=1e-6)


@pytest.mark.parametrize("selection", ["fixed", "bonferroni", "split"])
@pytest.mark.usefixtures("quick")
def test_bounds_of_canaries_that_do_not_interfere_are_those_of_the_engine(pool: Pool, selection: str) -> None:
    threshold = 0.2 if selection == "fixed" else None
    one = attack(2)
    (found,), draft = bounds(pool, one, selection=selection, threshold=threshold, coin_flip=0.5)
    shares = (0.2,) if selection == "fixed" else bounding.SHARES
    used = ~pool.chooses if selection == "split" else np.ones(2 * N, dtype=bool)
    tail = 0.05 / len(shares) if selection == "bonferroni" else 0.05

    def proved(mask: np.ndarray, share: float, of: Any) -> float:
        each = int(share * mask.sum() / 2)
        met = count_guesses(one.scores[mask], MEMBER[mask], each, each)
        return float(of(met.correct, met.guesses, int(mask.sum()), delta=1e-5, level=1 - tail))

    # The share of each is chosen for itself.
    for method, of in (
        ("one-run-independent", one_run_independent_epsilon),
        ("one-run-independent-gdp", one_run_independent_gdp_epsilon),
    ):
        tried = shares
        if selection == "split":
            tried = (max(shares, key=lambda share: proved(pool.chooses, share, of)),)
        assert found.proved[method].epsilon == pytest.approx(max(proved(used, share, of) for share in tried), rel=1e-9)
        row = row_of(draft, found, method)
        assert row.n == used.sum() and "canaries held not to interfere" in row.method
        assert ("Gaussian" in row.method) == method.endswith("gdp")
    assert found.proved["one-run-independent"].epsilon < found.proved["one-run-independent-gdp"].epsilon


@pytest.mark.usefixtures("quick")
def test_no_verdict_rests_on_canaries_that_do_not_interfere(pool: Pool) -> None:
    (found,), table = bounds(pool, attack(mu=3.0), coin_flip=0.5)
    certified = found.proved["one-run"].epsilon
    assumed = {name: found.proved[name].epsilon for name in ASSUMED}
    assert found.leading is found.proved["one-run"] and min(assumed.values()) > certified
    # A claim that the estimates exceed, and the certified bound does not.
    claim = Claim(epsilon=(certified + min(assumed.values())) / 2, delta=1e-5, source="as given")
    counts = SimpleNamespace(claims={"": claim}, bounds=[found], options=Options(coin_flip=0.5))
    table.add("epsilon_claimed", claim.interval)
    find_verdicts(table, counts)  # type: ignore[arg-type]
    (told,) = [one for one in table.findings if one.id == "membership.verdict"]
    assert told.where["verdict"] == "consistent" and told.severity == "info"
    assert {one.where.get("method") for one in told.evidence} == {"one-run", None}


@pytest.mark.usefixtures("quick")
def test_attacks_on_one_model_share_the_error_and_models_do_not(pool: Pool) -> None:
    one, two, alone = attack(1, model="a"), attack(2, model="a"), attack(1, model="b")
    found, draft = bounds(pool, one, two, alone, independent=True, selection="bonferroni")
    for made, tail in zip(found, (0.025, 0.025, 0.05), strict=True):
        of = made.judged.attack
        expected = bound(of.scores, MEMBER, delta=1e-5, alpha=tail, selection="bonferroni")
        assert made.proved["clopper-pearson"].epsilon == pytest.approx(expected.epsilon, rel=1e-12)
        row = row_of(draft, made, "clopper-pearson")
        assert ("shared by 2 attacks" in row.method) == (tail < 0.05)
        assert row.level == 0.95
    assert found[0].proved["clopper-pearson"].epsilon < found[2].proved["clopper-pearson"].epsilon


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("selection", ["bonferroni", "split", "fixed"])
def test_an_attack_that_says_yes_or_no_proves_what_it_knows(pool: Pool, selection: str) -> None:
    answers = {"sure": MEMBER * 1.0, "blind": np.zeros(2 * N)}
    sure, blind = (replace(attack(2), name=name, scores=scores) for name, scores in answers.items())
    threshold = 0.2 if selection == "fixed" else None
    (found, nothing), _ = bounds(pool, sure, blind, selection=selection, coin_flip=0.5, threshold=threshold)
    # Two attacks share the error; a perfect one proves its ceiling, and one that tells nothing apart nothing.
    assert found.proved["one-run"].epsilon == pytest.approx(found.proved["one-run"].ceiling)
    assert found.proved["one-run"].epsilon > 2
    assert nothing.proved["one-run"].epsilon == 0


@pytest.mark.usefixtures("quick")
def test_one_run_bounds_share_the_error_too(pool: Pool) -> None:
    many = [attack(seed, mu=1.0 + seed / 10) for seed in range(3)]
    more, _ = bounds(pool, *many, coin_flip=0.5, selection="fixed", threshold=0.5)
    for made in more:
        of = made.judged.attack
        met = count_guesses(of.scores, MEMBER, 100, 100)
        expected = one_run_epsilon(met.correct, 200, 2 * N, delta=1e-5, level=1 - 0.05 / 3)
        assert made.proved["one-run"].epsilon == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("quick")
def test_each_model_is_bounded_at_the_delta_that_was_claimed_for_it(pool: Pool) -> None:
    claims = {"a": Claim(epsilon=1.0, delta=0.05, source="as given")}
    found, _ = bounds(pool, attack(1, model="a"), attack(1, model="b"), claims=claims, delta=1e-3)
    one, other = (made.proved["clopper-pearson"].epsilon for made in found)
    for value, delta in ((one, 0.05), (other, 1e-3)):
        expected = bound(attack(1).scores, MEMBER, delta=delta, alpha=0.05, selection="split", chooses=pool.chooses)
        assert value == pytest.approx(expected.epsilon, rel=1e-12)
    assert one < other


def test_what_is_credible_is_that_of_the_counts_of_the_plain_bound(pool: Pool) -> None:
    one = attack(3, mu=1.0)
    _, draft = bounds(pool, one, selection="fixed", threshold=0.5)
    (row,) = rows(draft, "epsilon_credible")
    reached = one.scores >= 0.5
    counts = [int((reached == called)[member == MEMBER].sum())
              for called, member in ((True, True), (False, False), (True, False), (False, True))]  # fmt: skip
    low, high = joint_beta(*counts, delta=1e-5)
    assert (row.low, row.high) == pytest.approx((low, high))
    assert row.value == pytest.approx(sum(joint_beta(*counts, delta=1e-5, level=1e-6)) / 2, abs=1e-5)
    assert row.low < row.value < row.high
    assert "credible" in row.method


@pytest.mark.parametrize(
    ("claimed", "rivals"), [("", [2, 2, 1, 1]), ("a", [2, 2, 1, 1]), ("ab", [3, 3, 3, 1]), ("abc", [4, 4, 4, 4])]
)
@pytest.mark.usefixtures("quick")
def test_the_attacks_on_all_models_with_a_claim_share_the_error(pool: Pool, claimed: str, rivals: list[int]) -> None:
    given = [attack(seed, model=model) for seed, model in enumerate("aabc")]
    claims = {model: Claim(epsilon=1.0, delta=1e-5, source="as given") for model in claimed}
    found, draft = bounds(pool, *given, claims=claims, selection="bonferroni")
    assert [made.rivals for made in found] == rivals
    for one, made, shared in zip(given, found, rivals, strict=True):
        expected = bound(one.scores, MEMBER, delta=1e-5, alpha=0.05 / shared, selection="bonferroni")
        assert made.proved["clopper-pearson"].epsilon == pytest.approx(expected.epsilon, rel=1e-12)
        method = row_of(draft, made, "clopper-pearson").method
        assert (f"error shared by {shared} attacks" in method) == (shared > 1)


@pytest.mark.usefixtures("quick")
def test_a_bound_tells_the_counts_that_it_rests_on(pool: Pool) -> None:
    one = attack(6)
    (found,), draft = bounds(pool, one, selection="fixed", threshold=1.0)
    called = one.scores >= 1.0
    missed, alarms = int((~called & MEMBER).sum()), int((called & ~MEMBER).sum())
    for name in PLAIN:
        method = row_of(draft, found, name).method
        assert method.startswith(LOWER_BOUND)
        assert f"{missed:,} of {N} members missed, {alarms:,} of {N} others called" in method
    (found,), draft = bounds(pool, one, selection="fixed", threshold=0.2, coin_flip=0.5)
    met = count_guesses(one.scores, MEMBER, 40, 40)
    for name in RUN:
        method = row_of(draft, found, name).method
        assert method.startswith(LOWER_BOUND) and f"80 of {2 * N} guessed, {met.correct} right" in method
    assert interval(row_of(draft, found, "one-run")).startswith("at least; ")


@pytest.mark.parametrize(
    ("higher_is", "losses", "threshold"),
    [
        ("member", True, 1.0),
        ("nonmember", True, -1.0),
        ("nonmember", False, -1.0),
        (None, True, -1.0),
        (None, False, 1.0),
    ],
)
@pytest.mark.usefixtures("quick")
def test_a_threshold_is_in_the_units_of_the_file(
    pool: Pool, higher_is: str | None, losses: bool, threshold: float
) -> None:
    # Scores of which less means member are turned on reading: minus one in the file is one here. A folder of several
    # models of which nothing was said holds scores of members, which are not.
    pool = replace(pool, losses=losses)
    one = attack(7)
    options = {"scores": Path("s.csv"), "higher_is": higher_is, "selection": "fixed", "threshold": threshold}
    (found,), _ = bounds(pool, one, **options)
    expected = bound(one.scores, MEMBER, delta=1e-5, alpha=0.05, selection="fixed", threshold=1.0)
    assert found.proved["clopper-pearson"].epsilon == pytest.approx(expected.epsilon, rel=1e-12) != 0


@pytest.mark.parametrize(("mu", "flipped"), [(-1.0, True), (0.0, False), (1.0, False)])
def test_scores_that_are_higher_for_others_beyond_chance_are_flipped(mu: float, flipped: bool) -> None:
    assert judged_of(attack(8, mu), 0.95).flipped == flipped


def test_what_is_beyond_chance_is_decided_by_the_level() -> None:
    # Slightly lower for members: beyond chance at nine in ten, not at all but one in a million.
    one = attack(8, -0.3)
    assert judged_of(one, 0.9).flipped and not judged_of(one, 1 - 1e-6).flipped


@pytest.mark.usefixtures("quick")
def test_points_that_chose_a_setting_prove_nothing(pool: Pool) -> None:
    # On the points that chose, the attack is perfect; on the others it is worthless.
    plain = attack(4, mu=0.0, judged=~pool.chooses)
    scores = np.where(pool.chooses, 20.0 * MEMBER + plain.scores, plain.scores)
    tuned = attack_of("tuned", scores, MEMBER, judged=plain.judged)
    for selection in ("split", "bonferroni"):
        (found,), draft = bounds(pool, tuned, selection=selection, coin_flip=0.5)
        every = dict.fromkeys((*PLAIN, "one-run", *ASSUMED), 0.0)
        assert {name: one.epsilon for name, one in found.proved.items()} == every
        assert {row_of(draft, found, name).n for name in found.proved} == {N}


@pytest.mark.usefixtures("quick")
def test_points_without_a_score_are_left_out_of_every_bound(pool: Pool) -> None:
    there = np.arange(2 * N) % 4 != 0
    full = attack(5)
    part = replace(attack_of("part", np.where(there, full.scores, 0.0), MEMBER, judged=there), usable=there)
    for selection in ("split", "bonferroni"):
        (found,), draft = bounds(pool, part, selection=selection, coin_flip=0.5)
        used = there & ~pool.chooses if selection == "split" else there
        assert {row_of(draft, found, name).n for name in found.proved} == {int(used.sum())}
        expected = bound(
            full.scores[there],
            MEMBER[there],
            delta=1e-5,
            alpha=0.05,
            selection=selection,
            chooses=pool.chooses[there],
        )
        assert found.proved["clopper-pearson"].epsilon == pytest.approx(expected.epsilon, rel=1e-12)
