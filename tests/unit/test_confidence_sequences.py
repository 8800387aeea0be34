"""The capital of a bet, the limit that it proves, and what `anytime` makes of it: the parts, one by one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import beta

from audits.certification import Options
from audits.certification.bounds import Interval
from audits.certification.confidence_sequences import PRIOR, Bet, sequence_limit, sequence_limits
from audits.certification.rules import Rule, batched_looks, rule_of, too_few
from audits.statistics.binomial import lower_limit
from probes.core.errors import InputError

GOAL = -np.log(0.001)


def bet(successes: float, failures: float, before: tuple[float, float]) -> Bet:
    return Bet(*(np.array(float(part)) for part in (successes, failures, before[0] + PRIOR, before[1] + PRIOR)))


@pytest.mark.parametrize("before", [(1, 0), (60, 40), (99, 1)])
@pytest.mark.parametrize(("successes", "failures", "p"), [(3, 1, 0.5), (40, 10, 0.7), (5, 0, 0.93)])
def test_the_capital_is_the_mean_of_what_the_stakes_win(
    successes: int, failures: int, p: float, before: tuple[int, int]
) -> None:
    stakes = beta(before[0] + PRIOR, before[1] + PRIOR)

    def won(q: float) -> float:
        return float((q / p) ** successes * ((1 - q) / (1 - p)) ** failures * stakes.pdf(q))

    expected = quad(won, p, 1, limit=400)[0] / stakes.sf(p)
    found = bet(successes, failures, before).log_capital(np.array(logit(p)))[0]
    assert float(np.exp(found)) == pytest.approx(expected, rel=1e-5)


@settings(max_examples=60)
@given(
    successes=st.integers(1, 3000),
    failures=st.integers(0, 3000),
    before=st.tuples(st.integers(1, 1000), st.integers(0, 1000)),
)
def test_the_limit_is_the_last_probability_that_lost(successes: int, failures: int, before: tuple[int, int]) -> None:
    limit = float(sequence_limit(successes, failures, 0.001, before))
    odds = np.linspace(-12, 12, 241)
    capital = Bet(*(np.full(241, part) for part in (successes, failures, before[0] + PRIOR, before[1] + PRIOR)))
    lost = capital.log_capital(odds)[0] >= GOAL
    # What lost lies below what did not: a limit between them tells all.
    assert (lost[:-1] >= lost[1:]).all()
    assert (lost == (expit(odds) <= limit)).all()
    # No limit for a number of draws fixed beforehand is above the exact one.
    assert limit <= float(lower_limit(successes, successes + failures, 0.001)) + 1e-9


def test_a_limit_may_be_asked_for_many_counts_at_once() -> None:
    votes, before = np.array([0, 1, 50, 990, 1000]), (np.array([1, 1, 60, 95, 100]), np.array([0, 5, 40, 5, 0]))
    many = sequence_limit(votes, 1000 - votes, 0.01, before)
    for place in range(5):
        one = float(sequence_limit(votes[place], 1000 - votes[place], 0.01, (before[0][place], before[1][place])))
        assert one == pytest.approx(many[place], abs=1e-8)
    assert many[0] == 0 and (np.diff(many) > 0).all()


def test_a_bet_that_nobody_would_make_proves_nothing() -> None:
    # All earlier draws failed so often that no stake above 0.9 is left in float64.
    assert float(sequence_limit(1000, 0, 0.001, (1, 5000))) < 0.9


def test_more_votes_for_the_fullest_rival_raise_its_limit() -> None:
    selection, found = np.array([60, 30, 10]), []
    for rival in (10, 100, 200, 300):
        low, high = sequence_limits(selection, np.array([600, rival, 400 - rival]), Interval("two-class", 0), 0.001)
        assert low < 0.6 and high <= 1 - low
        found.append((max(rival, 400 - rival), high))
    highs = [high for _, high in sorted(found)]
    assert highs == sorted(highs)
    # The rival of the fresh draws counts, whoever led the rivals in those that chose.
    assert sequence_limits(selection, np.array([600, 100, 300]), Interval("two-class", 0), 0.001) == sequence_limits(
        selection, np.array([600, 300, 100]), Interval("two-class", 0), 0.001
    )


def test_both_limits_of_two_classes_spend_half_of_alpha_and_are_shaped_by_the_draws_that_chose() -> None:
    selection, votes = np.array([60, 30, 10]), np.array([600, 150, 250])
    low, high = sequence_limits(selection, votes, Interval("two-class", 0), 0.01)
    assert low == float(sequence_limit(600, 400, 0.005, (60, 40)))
    assert high == 1 - float(sequence_limit(750, 250, 0.005, (70, 30))) < 1 - low
    alone = float(sequence_limit(600, 400, 0.01, (60, 40)))
    assert sequence_limits(selection, votes, Interval("one-sided", 0), 0.01) == (alone, 1 - alone)
    # All rivals together have no more than the top class leaves.
    assert sequence_limits(selection, np.array([600, 400, 0]), Interval("two-class", 0), 0.01)[1] == 1 - low


def asking(*radii: str, **options: Any) -> Rule:
    return rule_of(Options(**{"sigma": 0.5, "mode": "anytime", "radii": radii, **options}), images=1)


def test_every_look_of_anytime_has_all_of_alpha() -> None:
    rule = asking("0.5")
    assert rule.share == rule.alpha == 0.001
    assert rule.looks == batched_looks(100_000) and rule.looks[-1] == 100_000
    assert max(np.diff(rule.looks) / rule.looks[:-1]) <= 1 and all(look % 16 == 0 for look in rule.looks[:-1])
    assert rule.ceiling < rule_of(Options(sigma=0.5), images=1).ceiling
    assert rule_of(Options(sigma=0.5, mode="anytime"), images=1).radii[-1] <= rule.ceiling


def test_too_few_draws_for_a_bet_are_told() -> None:
    needed = too_few(asking(n=9))
    assert needed > 9 and too_few(asking(n=needed)) == 0
    assert asking(n=needed).ceiling >= 0 > asking(n=needed - 1).ceiling


@pytest.mark.parametrize(
    ("where", "options"),
    [
        ("--mode anytime, --lipschitz", {"lipschitz": "1"}),
        ("--mode anytime, --from-log", {"from_log": ("log.tsv",)}),
        ("--randomised, --mode anytime", {"randomised": True}),
    ],
)
def test_what_anytime_cannot_do_is_refused_with_a_way_out(where: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as raised:
        asking(**options)
    assert raised.value.where == where and raised.value.hint
