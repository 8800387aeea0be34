"""When does `anytime` stop: where the radii are settled either way, or where more draws would add little?"""

from typing import Any

import numpy as np
import pytest

from audits.certification import Options
from audits.certification.anytime_stopping import LEAST_SEEN, _hoped, _projected, settled
from audits.certification.bounds import Counts, Interval
from audits.certification.confidence_sequences import sequence_limits
from audits.certification.rules import Rule, rule_of


def asking(*radii: str, **options: Any) -> Rule:
    return rule_of(Options(**{"sigma": 0.5, "mode": "anytime", "radii": radii, **options}), images=1)


def test_drawing_stops_where_the_radii_are_settled_either_way() -> None:
    one, sure = Interval("one-sided", 0), np.array([100, 0])
    assert settled(sure, np.array([128, 0]), one, asking("0.25", "0.5"))
    assert not settled(sure, np.array([128, 0]), one, asking("0.25", "1"))
    assert settled(np.array([60, 40]), np.array([3000, 2000]), one, asking("0.5"))
    assert not settled(np.array([60, 40]), np.array([300, 200]), one, asking("0.1"))
    # A radius beyond the least open one does not matter.
    assert settled(np.array([60, 40]), np.array([3000, 2000]), one, asking("0.5", "1"))


@pytest.mark.parametrize("kind", ["one-sided", "two-class"])
def test_without_radii_drawing_stops_where_more_would_add_little(kind: Any) -> None:
    interval, chosen = Interval(kind, 0), np.array([90, 6, 4])
    shares = np.array([0.9, 0.06, 0.04])
    stops = {}
    for loss in (0.025, 0.1):
        rule = asking(target_loss=loss)
        votes = [(look, (shares * look).round().astype(np.int64)) for look in rule.looks]
        stops[loss] = next(look for look, counts in votes if settled(chosen, counts, interval, rule))
    assert 1000 < stops[0.1] < stops[0.025] / 3 < 20_000
    assert not settled(chosen, (shares * 800).astype(np.int64), interval, asking())
    # A class that is not expected to win has nothing to gain.
    assert settled(np.array([40, 60]), np.array([400, 640]), Interval("one-sided", 0), asking())


def stop(chosen: Counts, shares: list[float], interval: Interval, rule: Rule) -> int:
    """Return the look at which draws stop whose votes fall in these shares."""
    looks = ((look, (np.array(shares) * look).round().astype(np.int64)) for look in rule.looks)
    return next(look for look, votes in looks if settled(chosen, votes, interval, rule))


def test_what_all_draws_would_give_is_not_reckoned_from_a_few() -> None:
    interval, chosen = Interval("one-sided", 0), np.array([40, 60])
    # Nothing is expected of this class, but that is not said before a thousand draws, or all of them.
    assert stop(chosen, [0.4, 0.6], interval, asking()) == min(n for n in asking().looks if n >= LEAST_SEEN == 1000)
    assert stop(chosen, [0.4, 0.6], interval, asking(n=300)) == 300


def test_a_unanimous_vote_is_expected_to_lose_a_quarter_of_a_vote() -> None:
    for top in (0, 1, 2):
        seen = np.zeros(3, dtype=np.int64)
        seen[top] = 50
        found = _projected(seen, top, 1000)
        assert found[top] == pytest.approx(1000 * (1 - 0.25 / 50)) and found.sum() == pytest.approx(1000)
    assert _projected(np.array([45, 3, 2]), 0, 1000) == pytest.approx([900, 60, 40])


def test_the_loss_is_a_share_of_half_of_sigma_where_the_radius_is_smaller() -> None:
    interval, chosen = Interval("one-sided", 0), np.array([53, 47])
    rule = asking(target_loss=0.1)
    last = stop(chosen, [0.53, 0.47], interval, rule)
    votes = np.array([round(0.53 * last), last - round(0.53 * last)])
    reached = rule.geometry.radius(*sequence_limits(chosen, votes, interval, rule.share))
    whole = _projected(chosen + votes, 0, rule.n)
    expected = rule.geometry.radius(*sequence_limits(chosen, whole, interval, rule.share))
    assert 0 < expected < rule.geometry.sigma / 2
    # More than a tenth of so small a radius is given up, and no more than a tenth of sigma / 2.
    assert expected - rule.target_loss * rule.geometry.sigma / 2 <= reached < expected * (1 - rule.target_loss)


@pytest.mark.parametrize("kind", ["one-sided", "two-class"])
def test_what_may_be_hoped_for_lies_above_what_was_proved_and_comes_down_to_it(kind: Any) -> None:
    interval, chosen, shares, rule = (
        Interval(kind, 0),
        np.array([80, 15, 5]),
        np.array([0.8, 0.15, 0.05]),
        asking("0.6"),
    )
    hopes = []
    for draws in (100, 1000, 10_000, 100_000):
        votes = (shares * draws).round().astype(np.int64)
        hopes.append(_hoped(chosen, votes, interval, rule))
        assert hopes[-1] > rule.geometry.radius(*sequence_limits(chosen, votes, interval, rule.share))
    assert hopes == sorted(hopes, reverse=True)
    few = (shares * 100).astype(np.int64)
    assert not settled(chosen, few, interval, rule)
    # That a further radius is out of reach does not end the draws for a nearer one.
    assert hopes[0] < 3 and not settled(chosen, few, interval, asking("0.6", "3"))
    assert settled(chosen, (shares * 10_000).astype(np.int64), interval, rule)


@pytest.mark.parametrize("kind", ["one-sided", "two-class"])
def test_all_may_be_hoped_for_while_nothing_speaks_against_it(kind: Any) -> None:
    assert _hoped(np.array([100, 0]), np.array([64, 0]), Interval(kind, 0), asking("1.9")) == float("inf")
