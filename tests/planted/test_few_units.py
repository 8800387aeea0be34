"""Pairs of runs between which nothing changed, judged by few or unequal units: how often is a change seen all the same?

Nominal is one pair of twenty. What cannot keep that is not paired.
"""

from typing import Any

import numpy as np
import pytest
from pairings import ById

from audits.core.records import Estimate
from audits.report.comparison.pairing import FEW, HARDLY, UNEQUAL, Matching, Paired
from audits.report.comparison.parts import Area, Parts, Ratio, Records, Rows
from audits.report.comparison.tables import Table

RUNS = 500


def most(runs: float) -> float:
    """Return six of a hundred, and the noise of so many pairs."""
    return 0.06 + 2 * np.sqrt(0.06 * 0.94 / runs)


def change(first: Parts, second: Parts) -> Paired | str:
    """Compare two runs of which every record is its own unit and stands in both."""
    every = np.arange(len(first.present()))
    runs = [
        Records(Table({}, len(every), ""), Rows({}, {}, {}), ById(made=lambda _, own=own: own), every, {})
        for own in (first, second)
    ]
    values = [own.value() for own in (first, second)]
    ends = (Estimate(name="x", value=one, low=-9, high=9, method="x", n=1, unit="x") for one in values)
    return Matching(*runs, every, (0, 0)).change(*ends)


def judged(pairs: Any) -> tuple[float, float, set[str]]:
    """Return the share of paired changes that are called one, the share of pairs that are paired, and why not."""
    found = [change(*pair) for pair in pairs]
    paired = [one for one in found if isinstance(one, Paired)]
    assert all((one.p < 0.05) == (not one.difference[1] <= 0 <= one.difference[2]) for one in paired)
    wrong = sum(one.p < 0.05 for one in paired) / max(1, len(paired))
    return wrong, len(paired) / len(found), {one for one in found if isinstance(one, str)}


def attacks(members: int, runs: int, rng: np.random.Generator) -> Any:
    """Draw scores of two equal attacks on the same points: some members, 300 others."""
    member = (np.arange(members + 300) < members) * 1.0
    for _ in range(runs):
        shared = rng.normal(size=len(member)) + 0.8 * member
        yield tuple(Area(shared + 0.7 * rng.normal(size=len(member)), member) for _ in range(2))


def systems(sizes: Any, rng: np.random.Generator) -> Any:
    """Draw word errors of two equal systems on the same speakers."""
    for _ in range(RUNS):
        words = np.asarray(sizes(rng), dtype=np.int64)
        level = rng.beta(1, 9, len(words))
        yield tuple(Ratio(rng.binomial(words, level) * 1.0, words * 1.0) for _ in range(2))


def flips(images: int, share: float, rng: np.random.Generator) -> Any:
    """Draw images of which a few are right in one run only, either as often as the other."""
    for _ in range(RUNS):
        turned = rng.choice([-1, 0, 1], images, p=[share / 2, 1 - share, share / 2])
        yield tuple(Ratio((turned == side) * 1.0, np.ones(images)) for side in (1, -1))


@pytest.mark.slow
@pytest.mark.parametrize(("members", "runs"), [(6, 400), (10, 200), (50, 200)])
def test_an_area_over_few_members_keeps_its_level(members: int, runs: int) -> None:
    wrong, paired, _ = judged(attacks(members, runs, np.random.default_rng(members)))
    assert 0.01 < wrong < most(runs) and paired == 1


@pytest.mark.parametrize("members", [2, 3, 4])
def test_an_area_over_hardly_any_members_is_not_paired(members: int) -> None:
    pair = next(attacks(members, 1, np.random.default_rng(0)))
    assert change(*pair) == FEW


UNLIKE = {
    "one of 20 has 84 % of the words": lambda rng: [2000] + [20] * 19,
    "two of 100 have nearly all": lambda rng: [5000, 5000] + [5] * 98,
}


@pytest.mark.parametrize("sizes", UNLIKE.values(), ids=UNLIKE)
def test_a_rate_that_few_speakers_decide_is_not_paired(sizes: Any) -> None:
    assert change(*next(systems(sizes, np.random.default_rng(0)))) == UNEQUAL


SPOKEN = {
    "8 speakers of very different size": (lambda rng: np.ceil(np.exp(rng.normal(3, 1.2, 8))), 0.0, 0.2),
    "20 speakers of very different size": (lambda rng: np.ceil(np.exp(rng.normal(3, 1.2, 20))), 0.02, 0.8),
    "one of 50 has a quarter": (lambda rng: [800] + [50] * 49, 0.02, 1.0),
    "80 alike": (lambda rng: [50] * 80, 0.03, 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "least", "often"), SPOKEN.values(), ids=SPOKEN)
def test_a_rate_over_unequal_speakers_keeps_its_level(sizes: Any, least: float, often: float) -> None:
    wrong, paired, why = judged(systems(sizes, np.random.default_rng(4)))
    assert least <= wrong < most(paired * RUNS)
    assert paired >= often and why <= {UNEQUAL, HARDLY}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("images", "share", "often"), [(1000, 0.004, 0.3), (1000, 0.01, 0.9), (12, 0.5, 0.7), (100, 0.3, 1.0)]
)
def test_a_handful_of_images_that_turn_is_judged_as_one(images: int, share: float, often: float) -> None:
    wrong, paired, why = judged(flips(images, share, np.random.default_rng(5)))
    assert wrong < most(RUNS) and paired >= often and why <= {HARDLY}


def test_four_images_of_a_thousand_show_nothing() -> None:
    """The exact test of four that turned alike (McNemar) has p = 0.125, of five 0.0625, of eight 0.008."""
    for turned, least, most in ((4, 1, 1), (5, 0.06, 0.1), (8, 0.005, 0.03)):
        after = (np.arange(1000) < turned) * 1.0
        found = change(Ratio(np.zeros(1000), np.ones(1000)), Ratio(after, np.ones(1000)))
        if turned < 5:
            assert found == HARDLY
            continue
        assert isinstance(found, Paired) and least < found.p < most


def test_few_large_moves_among_many_small_ones_count_as_few() -> None:
    rng = np.random.default_rng(6)
    before = rng.random(1000)
    after = before + 0.01 * rng.normal(size=1000) + 5.0 * (np.arange(1000) < 4)
    found = change(Ratio(before, np.ones(1000)), Ratio(after, np.ones(1000)))
    assert isinstance(found, Paired) and found.p > 0.06


def test_a_change_of_a_share_stays_within_one() -> None:
    after = (np.arange(6) < 5) * 1.0
    found = change(Ratio(np.zeros(6), np.ones(6)), Ratio(after, np.ones(6)))
    assert isinstance(found, Paired) and found.difference[2] == 1
