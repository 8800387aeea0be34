"""Is every threshold that was looked at paid for, and is the choice blind to what the bound rests on?"""

import math
from typing import Any

import numpy as np
import pytest

from audits.membership import SELECTIONS
from audits.statistics.epsilon_bounds import ceiling, epsilon_of_rates, error_rates, gdp_epsilon, mu_of_rates
from audits.statistics.roc import call, roc
from audits.statistics.threshold_selection import CANDIDATES, Bound, bound, candidates

GIVEN: dict[str, Any] = {"delta": 1e-5, "alpha": 0.05}


def drawn(seed: int, n: int = 300, mu: float = 1.5, *, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng, member = np.random.default_rng(seed), np.arange(2 * n) < n
    scores = rng.normal(size=2 * n) + mu * member
    return (np.round(scores, 1) if ties else scores), member


def half(points: int, seed: int = 0) -> np.ndarray:
    """Return a half of the members, who come first, and of the others."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.arange(points // 2) < points // 4) for _ in range(2)])


def proved(found: Bound, alpha: float, *, gaussian: bool = False) -> float:
    """Return what the counts of a bound prove."""
    met = found.call
    rates = error_rates(met.hits, met.members, met.alarms, met.others, alpha)
    return gdp_epsilon(float(mu_of_rates(*rates)), 1e-5) if gaussian else float(epsilon_of_rates(*rates, 1e-5))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("most", [2, 7, 20, CANDIDATES])
def test_candidates_do_not_depend_on_who_is_a_member(ties: bool, most: int) -> None:
    scores, member = drawn(0, ties=ties)
    found = [
        roc(scores, np.random.default_rng(seed).permutation(member)).thresholds[
            candidates(roc(scores, np.random.default_rng(seed).permutation(member)), most)
        ]
        for seed in range(5)
    ]
    for one in found[1:]:
        assert one.tolist() == found[0].tolist()
    assert 0 < len(found[0]) <= most


@pytest.mark.parametrize("points", [2, 3, 10, 101, 5000])
def test_candidates_call_given_numbers_dense_at_both_ends(points: int) -> None:
    curve = roc(np.arange(points, dtype=float), np.arange(points) % 2 == 0)
    called = (curve.hits + curve.alarms)[candidates(curve)]
    assert called[0] == 1
    assert called[-1] == points - 1
    assert len(called) <= CANDIDATES
    # As many points are called at one end as are left out at the other.
    assert sorted(points - called) == called.tolist()
    if points == 5000:
        assert np.diff(called).max() < points / 8
        assert called[:6].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_group_of_equal_scores_is_called_whole_or_not_at_all() -> None:
    scores = np.array([3.0, 2.0, 2.0, 2.0, 2.0, 1.0])
    curve = roc(scores, np.array([1, 0, 1, 0, 1, 0], dtype=bool))
    # Ranks within the group fall back to the stricter threshold before it.
    assert curve.thresholds[candidates(curve)].tolist() == [3.0, 2.0]
    assert not len(candidates(roc(np.ones(6), np.arange(6) < 3)))


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("threshold", [-9.0, 0.75, 2.0, 9.0])
def test_a_fixed_threshold_proves_what_its_counts_do(gaussian: bool, threshold: float) -> None:
    scores, member = drawn(1)
    found = bound(scores, member, **GIVEN, selection="fixed", threshold=threshold, gaussian=gaussian)
    assert found.call == call(scores, member, threshold)
    assert found.epsilon == proved(found, 0.05, gaussian=gaussian)
    assert found.tried == 1
    assert (found.epsilon > 0) == (abs(threshold) < 9)


def test_a_fixed_bound_by_hand() -> None:
    # All of 100 members and none of 100 others are called.
    scores, member = np.repeat([1.0, 0.0], 100), np.arange(200) < 100
    found = bound(scores, member, delta=0.0, alpha=0.05, selection="fixed", threshold=0.5)
    limit = 1 - 0.025 ** (1 / 100)
    assert found.epsilon == found.ceiling == pytest.approx(math.log((1 - limit) / limit))
    assert (found.call.hits, found.call.alarms) == (100, 0)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_all_that_are_tried_share_the_error(gaussian: bool, ties: bool) -> None:
    scores, member = drawn(2, ties=ties)
    found = bound(scores, member, **GIVEN, selection="bonferroni", gaussian=gaussian)
    curve = roc(scores, member)
    tried = candidates(curve)
    each = [
        bound(scores, member, delta=1e-5, alpha=0.05 / len(tried), selection="fixed", threshold=t, gaussian=gaussian)
        for t in curve.thresholds[tried].tolist()
    ]
    assert found.tried == len(tried) > 20
    assert found.epsilon == max(one.epsilon for one in each) > 0
    assert found.epsilon == proved(found, 0.05 / len(tried), gaussian=gaussian)
    assert found.ceiling == each[0].ceiling


@pytest.mark.parametrize("gaussian", [False, True])
def test_split_chooses_on_one_half_and_proves_on_the_other(gaussian: bool) -> None:
    scores, member = drawn(3)
    chooses = half(len(scores))
    rest = ~chooses
    found = bound(scores, member, **GIVEN, selection="split", chooses=chooses, gaussian=gaussian)
    assert found.call == call(scores[rest], member[rest], found.call.threshold)
    assert (found.call.members, found.call.others) == (150, 150)
    assert found.epsilon == proved(found, 0.05, gaussian=gaussian) > 0
    # Other members in the half that proves do not move the threshold, nor do other scores.
    moved = member.copy()
    moved[rest] = np.random.default_rng(0).permutation(member[rest])
    again = bound(scores, moved, **GIVEN, selection="split", chooses=chooses, gaussian=gaussian)
    assert again.call.threshold == found.call.threshold
    assert again.epsilon < found.epsilon
    shifted = np.where(rest, -scores, scores)
    assert bound(shifted, member, **GIVEN, selection="split", chooses=chooses).epsilon == 0
    # The threshold is the best of the candidates of the half that chooses.
    curve = roc(scores[chooses], member[chooses])
    tried = curve.thresholds[candidates(curve)].tolist()
    merits = {
        t: bound(
            scores[chooses],
            member[chooses],
            delta=1e-5,
            alpha=0.05 / len(tried),
            selection="fixed",
            threshold=t,
            gaussian=gaussian,
        ).epsilon
        for t in tried
    }
    assert merits[found.call.threshold] == max(merits.values())


def test_where_nothing_is_proved_split_takes_a_threshold_in_the_middle() -> None:
    scores, member = drawn(4, mu=0.0)
    found = bound(scores, member, **GIVEN, selection="split", chooses=half(len(scores)))
    assert found.epsilon == 0
    assert 0.2 < (found.call.hits + found.call.alarms) / 300 < 0.8


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("gaussian", [False, True])
def test_equal_scores_prove_nothing(selection: str, gaussian: bool) -> None:
    scores, member = np.ones(40), np.arange(40) < 20
    found = bound(
        scores,
        member,
        **GIVEN,
        selection=selection,
        chooses=half(40),
        threshold=1.0 if selection == "fixed" else None,
        gaussian=gaussian,
    )
    assert found.epsilon == 0
    assert found.ceiling > 0


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("gaussian", [False, True])
def test_scores_that_lie_apart_nearly_reach_the_ceiling_and_nothing_exceeds_it(selection: str, gaussian: bool) -> None:
    def made(scores: np.ndarray) -> Bound:
        return bound(
            scores,
            member,
            **GIVEN,
            selection=selection,
            chooses=half(200),
            threshold=0.0 if selection == "fixed" else None,
            gaussian=gaussian,
        )

    member = np.arange(200) < 100
    perfect = made(np.where(member, 1.0, -1.0) + np.linspace(-0.5, 0.5, 200))
    assert perfect.epsilon == pytest.approx(perfect.ceiling, rel=0.2)
    for seed in range(20):
        found = made(np.random.default_rng(seed).normal(size=200) + seed / 5 * member)
        assert 0 <= found.epsilon <= found.ceiling == perfect.ceiling
    if not gaussian and selection == "fixed":
        assert perfect.ceiling == ceiling(100, 100, delta=1e-5, alpha=0.05)


@pytest.mark.parametrize(
    "more",
    [{"selection": "fixed"}, {"selection": "split"}, {"selection": "fixed", "threshold": 0.0, "member": "nobody"},
     {"selection": "split", "chooses": "members"}],
)  # fmt: skip
def test_what_is_missing_is_refused(more: dict[str, Any]) -> None:
    scores, member = drawn(5, n=20)
    if more.get("chooses") == "members":
        more["chooses"] = member
    if more.pop("member", None):
        member = np.zeros(40, dtype=bool)
    with pytest.raises(ValueError, match=r"needs|given"):
        bound(scores, member, **GIVEN, **more)
