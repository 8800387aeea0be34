"""The lines of a dry run on what could be shown, and the law that they rest on."""

import numpy as np
import pytest

from audits.core.detectable import MOST_LISTED, Detectable, listed
from audits.group_rates.detectable_gaps import Design, least_gaps, left_out
from audits.statistics.rate_power import Law, expected, law_of, least_gap


def of(what: str, effect: float | None = 0.1, assuming: str = "a rate of 0.5") -> Detectable:
    return Detectable(what=what, effect=effect, units="9 users", assuming=assuming)


def test_nothing_is_listed_of_an_audit_that_says_nothing() -> None:
    assert listed((), 0.95, 0.1) == []


def test_an_effect_that_cannot_be_shown_has_no_size() -> None:
    assert of("gap", None).line == "gap: no size (9 users; a rate of 0.5)"
    assert "no number of units is known" in of("gap", None).asked(0.1)


@pytest.mark.parametrize("effect", [1e-12, 0.3, 0.5, 1.0001, 1e300])
def test_a_size_that_no_such_effect_can_have_needs_no_units(effect: float) -> None:
    area = Detectable(
        what="AUC", effect=0.6, units="9 users", assuming="", needed=lambda _: "9 users", possible=(0.5, 1.0)
    )
    assert area.asked(effect) == "AUC: no such size, it lies between 0.5 and 1"
    assert area.asked(0.6) == area.asked(1.0) == "AUC: needs 9 users"


def test_what_effects_assume_is_said_once_wherever_they_stand() -> None:
    lines = listed((of("a"), of("b"), of("c", assuming="another"), of("d")), 0.9)
    assert [what for what, _ in lines] == ["can show", "assuming", "", "", "", ""]
    assert lines[0][1] == "with probability 0.8, at the level 0.9:"
    assert lines[1][1] == "a rate of 0.5:" and lines[2][1] == "a: 0.1 or more (9 users)"
    assert lines[4][1] == "d: 0.1 or more (9 users)" and lines[5][1].endswith("another)")


def test_effects_beyond_the_most_are_counted() -> None:
    lines = listed(tuple(of(str(at), assuming=str(at)) for at in range(MOST_LISTED + 3)), 0.95, 0.2)
    assert [text for _, text in lines].count("and 3 more") == 2
    assert len(lines) == 2 * (MOST_LISTED + 2)


def test_a_law_does_not_hang_on_who_is_of_which_group() -> None:
    rng = np.random.default_rng(0)
    sizes = np.full(40, 100.0)
    errors = rng.binomial(100, np.repeat([0.1, 0.3], 20)).astype(float)
    shuffled = rng.permutation(errors)
    first, second = law_of(errors, sizes), law_of(shuffled, sizes)
    assert first.rate == second.rate and first.between == pytest.approx(second.between)
    assert first.kurtosis == pytest.approx(second.kurtosis)


def test_a_law_of_speakers_all_alike_is_that_of_words_alone() -> None:
    law = law_of(np.full(30, 20.0), np.full(30, 100.0))
    assert law.between == 0.0 and 0 < law.within < 0.1
    assert law_of(np.zeros(30), np.full(30, 100.0)).rate > 0


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_where_nothing_varies_a_gap_is_that_of_the_exact_intervals_over_speakers(rate: float) -> None:
    words = np.full(20, 66.0)
    law = law_of(rate * np.tile(words, 2), np.tile(words, 2))
    # Of 20 speakers without an error the upper end is at 1 - 0.025^(1 / 20) = 0.17, however many words they say.
    gap = least_gap(law, words, words, 0.025)
    assert gap is not None and 0.17 < gap < 0.25
    larger = least_gap(law, words, words, 0.025, factor=4.0)
    assert larger is not None and larger < 0.07


def test_a_high_rate_has_room_below() -> None:
    words = np.full(40, 100.0)
    low, high = (least_gap(Law(rate=rate, between=0.01), words, words, 0.025) for rate in (0.05, 0.95))
    assert low is not None and high == pytest.approx(low, rel=0.02)


def test_no_fewer_units_are_needed_than_are_compared() -> None:
    sizes = np.kron(np.eye(2), np.ones((40, 1))) * 200
    law = Law(rate=0.2, between=0.01)
    (free,) = least_gaps(Design(what="gap", names=("a=f", "a=m"), sizes=sizes), law)
    (held,) = least_gaps(Design(what="gap", names=("a=f", "a=m"), sizes=sizes, fewest=10), law)
    assert free.asked(0.5).endswith("needs 5 and 5 speakers")
    assert held.asked(0.5).endswith("needs 10 and 10 speakers")
    assert held.asked(0.05) == free.asked(0.05)


def test_a_law_of_rates_above_one_has_room_above() -> None:
    law = law_of(np.array([150.0, 20.0, 30.0, 40.0] * 5), np.full(20, 100.0))
    assert law.open and least_gap(law, np.full(60, 100.0), np.full(60, 100.0), 0.025) is not None


def test_a_few_loud_speakers_are_worth_fewer() -> None:
    law = Law(rate=0.2, between=0.01)
    even, uneven = np.full(20, 100.0), np.concatenate([np.full(19, 20.0), [1620.0]])
    assert even.sum() * 1.0 == 2000 == uneven.sum()
    assert expected(law, uneven, 0.2).true > 2 * expected(law, even, 0.2).true
    assert (least_gap(law, even, even, 0.025) or 9) < (least_gap(law, uneven, even, 0.025) or 9)


def test_more_speakers_show_smaller_gaps() -> None:
    law, sizes = Law(rate=0.2, between=0.01), np.full(20, 100.0)
    found = [least_gap(law, sizes, sizes, 0.025, factor=factor) or 9 for factor in (0.5, 1, 2, 8)]
    assert found == sorted(found, reverse=True)
    # As many again of the same are as a group of twice as many.
    assert found[2] == pytest.approx(least_gap(law, np.full(40, 100.0), np.full(40, 100.0), 0.025), rel=1e-6)


def test_one_speaker_in_a_group_shows_nothing() -> None:
    assert least_gap(Law(rate=0.2, between=0.01), np.full(1, 9.0), np.full(40, 9.0), 0.025) is None


def test_the_hardest_pair_is_of_the_smallest_groups_and_comes_first() -> None:
    people = (12, 40, 240)
    sizes = np.zeros((sum(people), 3))
    for at, start in enumerate((0, 12, 52)):
        sizes[start : start + people[at], at] = 60.0
    names = ("a=indian", "a=irish", "a=us")
    law = Law(rate=0.2, between=0.01)
    pairs = least_gaps(Design(what="gap", names=names, sizes=sizes), law)
    assert [one.what for one in pairs] == ["gap, indian and irish", "gap, irish and us"]
    assert pairs[0].units == "12 and 40 speakers" and (pairs[0].effect or 0) > (pairs[1].effect or 9)
    one = least_gaps(Design(what="gap", names=names, sizes=sizes, family="reference", reference=2), law)
    assert [each.what for each in one] == ["gap, indian and us", "gap, irish and us"]
    rest = least_gaps(Design(what="gap", names=names, sizes=sizes, family="others"), law)
    assert rest[0].what == "gap, indian and all others" and rest[0].units == "12 and 280 speakers"


def test_more_tests_ask_for_a_larger_gap() -> None:
    sizes = np.kron(np.eye(2), np.ones((40, 1))) * 100
    law = Law(rate=0.2, between=0.01)
    alone, among = (
        least_gaps(Design(what="gap", names=("a=x", "a=y"), sizes=sizes, chance=chance), law)[0].effect
        for chance in (0.05, 0.005)
    )
    assert alone is not None and among is not None and among > 1.2 * alone


def test_never_fewer_units_are_asked_for_than_make_a_group() -> None:
    sizes = np.kron(np.eye(2), np.ones((40, 1))) * 100
    law = Law(rate=0.2, between=0.01)
    (gap,) = least_gaps(Design(what="gap", names=("a=x", "a=y"), sizes=sizes, fewest=10), law)
    assert gap.asked(0.7) == "gap, x and y: needs 10 and 10 speakers"
    assert "10 speakers in each group" in left_out("gap", ("a=z",), (3,), "why", "speakers", 10).asked(0.1)
