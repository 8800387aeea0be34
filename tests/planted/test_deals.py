"""Do intervals of speaker identification hold the truth, where the deal of the clips moves all speakers of a group?"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from audits.asr_fairness.cohort import Cohort, deal_shifts
from audits.asr_fairness.comparisons import compare
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.estimates import add_gaps, add_rates
from audits.core.context import Draft
from audits.core.groups import group_sets, reported_groups
from audits.statistics import cluster_weights

Ends = tuple[float, float]
PEOPLE, CLIPS, RATES = 15, 8, (0.3, 0.45)
"""Speakers of each of two groups, clips of each, and how often the probes mistake the speakers of each group."""
OWN = 0.06
"""Standard deviation of the error rate over the speakers of a group."""


def judged(deals: int, shared: float, rng: np.random.Generator, own_spread: float) -> tuple[Ends, Ends]:
    """Return the ends of the gap of the second group over the first, and of the rate of the first.

    Speakers, clips and deals are drawn anew. `shared` is the standard deviation of what one deal adds to the error
    rate of everyone in a group. Beside that, each deal is a chance of its own for every clip.
    """
    speaker = np.repeat(np.arange(2 * PEOPLE), CLIPS)
    group = speaker // PEOPLE
    own = np.array(RATES)[group] + rng.normal(0, own_spread, 2 * PEOPLE)[speaker]
    # Uniform for each clip and deal, of which most is the clip's own and the same in every deal.
    clip, dealt = rng.normal(size=len(speaker)), rng.normal(size=(deals, len(speaker)))
    luck = norm.cdf(np.sqrt(0.8) * clip + np.sqrt(0.2) * dealt)
    wrong: NDArray[np.bool_] = (luck < own + rng.normal(0, shared, (deals, 2))[:, group])[:, :, None]
    errors = wrong.mean(0)
    counts = TaskCounts(
        task="sid", metric="error", layers=(0,), clips=np.arange(len(speaker)), errors=errors, hits=1 - errors,
        sizes=np.ones(len(speaker)), deals=wrong,
    )  # fmt: skip
    labels = [{"by": str(label)} for label in group]
    sets = group_sets(labels, ["by"], max_order=1)
    names, member = reported_groups(labels, sets)
    weights, shifts = cluster_weights(2 * PEOPLE, 400, rng), deal_shifts(deals, 400, rng, level=0.95)
    cohort = Cohort(
        speakers=speaker, weights=weights, names=names, member=member, shifts=shifts, min_speakers=5, permutations=100,
        seed=int(rng.integers(2**31)),
    )  # fmt: skip
    draft = Draft()
    add_rates(draft, counts, cohort)
    comparison = compare(sets[0], counts, cohort)
    assert comparison is not None
    add_gaps(draft, comparison)
    gap = draft.row("gap", **comparison.at(0, kind="absolute"))
    rate = draft.row("error_rate", **counts.at(0), group="by=0")
    assert None not in (gap.low, gap.high, rate.low, rate.high)
    low, high = float(gap.low or 0), float(gap.high or 0)
    ends = (low, high) if comparison.worst(0) == "by=1" else (-high, -low)
    return ends, (float(rate.low or 0), float(rate.high or 0))


def covered(deals: int, shared: float, replications: int = 250, own_spread: float = OWN) -> tuple[float, float]:
    """Return how often the gap, and the rate of the first group, lie in their intervals."""
    rng = np.random.default_rng(20)
    ends = np.array([judged(deals, shared, rng, own_spread) for _ in range(replications)])
    truth = np.array([RATES[1] - RATES[0], RATES[0]])
    gap, rate = ((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean(0).tolist()
    return gap, rate


def test_what_a_deal_does_to_all_of_a_group_is_in_the_intervals() -> None:
    """By the spread of speakers alone, the gap would be covered 0.916 times and the rate 0.892 times."""
    gap, rate = covered(5, 0.06)
    assert gap >= 0.935 and rate >= 0.935, (gap, rate)


@pytest.mark.slow
def test_of_few_deals_it_is_in_the_intervals_even_where_speakers_are_alike() -> None:
    """With normal quantiles for the deals, rates of alike speakers would be covered 0.74 to 0.86 times."""
    for deals in (2, 3, 5):
        gap, rate = covered(deals, 0.06, own_spread=0.0)
        assert gap >= 0.935 and rate >= 0.935, (deals, gap, rate)


def test_of_one_deal_it_is_not() -> None:
    """Which is why a warning says so."""
    gap, rate = covered(1, 0.06)
    assert gap < 0.85 and rate < 0.85, (gap, rate)


@pytest.mark.slow
def test_deals_that_speakers_do_not_share_are_covered_by_speakers_already() -> None:
    for deals in (1, 5):
        gap, rate = covered(deals, 0.0)
        assert 0.92 <= gap <= 0.995 and 0.92 <= rate <= 0.995, (deals, gap, rate)
