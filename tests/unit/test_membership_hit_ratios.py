"""Is the share of members that are hit over that of non-members bounded from below, for all attacks at once?"""

import numpy as np
import pytest
from audited_points import attack_of
from scipy.stats import binom, norm

from audits.core.numbers import LOWER_BOUND
from audits.membership.hit_ratios import Hit, hits_of, ratio
from audits.membership.rates import hit_rate, judge_all
from audits.statistics import clopper_pearson
from audits.statistics.roc import Call, call_at, roc

N = 300
MEMBER = np.arange(2 * N) < N
EVERYBODY = np.ones(2 * N, dtype=bool)


def told(*rows: np.ndarray, fprs: tuple[float, ...] = (0.1, 0.01)) -> list[Hit]:
    attacks = [attack_of(f"a{number}", row, MEMBER) for number, row in enumerate(rows)]
    return hits_of(judge_all(attacks, 0.95, fprs), 0.95)


def test_it_is_the_lower_end_of_hits_over_the_upper_one_of_false_alarms() -> None:
    met = Call(0.0, 60, 300, 3, 300)
    # Two-sided intervals of 95 % have one-sided ends of 97.5 %.
    by_hand = clopper_pearson(60, 300)[0] / clopper_pearson(3, 300)[1]
    assert ratio(60, met, 0.01, 0.05) == pytest.approx(by_hand)
    # Ties may leave fewer alarms than were allowed, on which the threshold depends.
    assert ratio(60, Call(0.0, 60, 300, 1, 300), 0.01, 0.05) == pytest.approx(by_hand)
    assert ratio(0, met, 0.01, 0.05) == 0


@pytest.mark.parametrize("mu", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("steps", [None, 8])
def test_the_bound_holds_for_all_attacks_at_once(mu: float, steps: int | None) -> None:
    rng, wrong, runs = np.random.default_rng(0), 0, 600
    for _ in range(runs):
        above = False
        for _ in range(3):
            scores = rng.normal(size=2 * N) + mu * MEMBER
            # In steps: many have the same score.
            scores = scores if steps is None else np.round(scores * steps / 4) * 4 / steps
            met = call_at(roc(scores, MEMBER), 0.01)
            place = met.threshold if steps is None else met.threshold - 2 / steps
            true = norm.sf(place - mu) / norm.sf(place) if np.isfinite(met.threshold) else np.inf
            above |= ratio(met.hits, met, 0.01, 0.05 / 3) > true
        wrong += above
    assert wrong <= binom.ppf(0.999, runs, 0.05)


def test_it_is_told_at_one_rate_with_what_could_be_reached() -> None:
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=2 * N) + mu * MEMBER for mu in (3.0, 0.0)]
    strong, weak = told(*rows)
    row = strong.ratio
    assert strong.where == {"attack": "a0", "fpr": 0.01} and row.n == 2 * N
    assert row.low == row.value > 5 > 2 > weak.ratio.value and row.method.startswith(LOWER_BOUND)
    assert row.high == pytest.approx(ratio(N, strong.call, 0.01, 0.025)) and "shared by 2 attacks" in row.method
    assert hit_rate(strong.call, 0.95).value == strong.call.hits / N and strong.rate == 0.01


@pytest.mark.parametrize(
    ("fprs", "rate"),
    [((0.2, 0.05), 0.05), ((0.1, 0.02, 0.005), 0.02), ((0.005, 0.004), 0.005), ((0.001,), None), ((0.1, 0.001), 0.1)],
)
def test_the_rate_is_the_next_to_one_in_a_hundred_that_is_told(fprs: tuple[float, ...], rate: float | None) -> None:
    hits = told(np.random.default_rng(0).normal(size=2 * N), fprs=fprs)
    assert [one.where["fpr"] for one in hits] == ([] if rate is None else [rate])


def test_equal_scores_hit_nobody() -> None:
    assert told(np.ones(2 * N)) == []
