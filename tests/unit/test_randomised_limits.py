"""Do randomised limits spend their error exactly? Every count is enumerated, and every random number."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audits.certification import Options
from audits.certification.bounds import Interval, vote_limits
from audits.certification.certificates import judge
from audits.certification.randomised_limits import randomised_lower_limit, uniform_of
from audits.certification.rules import rule_of
from audits.certification.sampling import Drawn
from audits.statistics.binomial import lower_limit
from probes.classifiers.smoothing import VoteCounts
from probes.core.errors import InputError


def error(p: float, n: int, alpha: float) -> float:
    """Return the probability that the limit lies above p, over all counts and random numbers."""
    chances = binom.pmf(np.arange(n + 1), n, p)
    # Counts that hardly ever come add nothing that is seen here.
    votes = np.flatnonzero(chances > 1e-15)
    low, high = np.zeros(len(votes)), np.ones(len(votes))
    # Limits fall as u rises: those above p belong to all u up to the one that is sought here.
    for _ in range(40):
        u = (low + high) / 2
        above = randomised_lower_limit(votes, n, alpha, u) > p
        low, high = np.where(above, u, low), np.where(above, high, u)
    return float(chances[votes] @ low)


@pytest.mark.parametrize(("n", "alpha"), [(1, 0.05), (10, 0.001), (37, 0.05), (100, 0.001), (400, 0.01)])
def test_the_error_is_alpha_to_the_last_digit(n: int, alpha: float) -> None:
    top = 2 ** (-1 / n)
    for p in (share for share in (0.02, 0.3, 0.5, 0.6, 0.8413, 0.99 * top) if share < top):
        assert error(p, n, alpha) == pytest.approx(alpha, rel=1e-6), p
    # Beyond what a unanimous vote may claim nothing is false.
    assert error(min(1.01 * top, 1 - 1e-9), n, alpha) == pytest.approx(0, abs=1e-9)


def test_limits_lie_between_those_of_this_count_and_the_next() -> None:
    votes, rng = np.arange(101), np.random.default_rng(0)
    exact = lower_limit(votes, 100, 0.001)
    assert randomised_lower_limit(votes, 100, 0.001, 1.0) == pytest.approx(exact, abs=1e-12)
    found = randomised_lower_limit(votes, 100, 0.001, 1.0 - rng.random(101))
    assert (found >= exact - 1e-12).all() and (found[:-1] <= exact[1:] + 1e-12).all()
    # Never beyond what half of the error is left for, however small the number.
    assert float(randomised_lower_limit(100, 100, 0.001, 1e-300)) == pytest.approx(2 ** (-1 / 100))


def test_random_numbers_are_of_the_seed_and_the_image_and_lie_in_0_1() -> None:
    numbers = np.array([[uniform_of(seed, index) for index in range(300)] for seed in (0, 1)])
    assert len(np.unique(numbers)) == 600 and ((numbers > 0) & (numbers <= 1)).all()
    assert numbers.mean() == pytest.approx(0.5, abs=4 / np.sqrt(12 * 600))


def judged(u: float | None, **options: Any) -> Any:
    import torch

    def tally(*votes: int) -> VoteCounts:
        counts = torch.tensor(votes)
        return VoteCounts(int(counts.sum()), counts, counts * 0, counts * 0)

    rule = rule_of(Options(**{"sigma": 0.5, "n": 1000, **options}), images=1)
    drawn = Drawn(index=0, label=0, clean=0, selection=tally(90, 10), looks=(tally(940, 60),), seconds=0.0, u=u)
    return judge(drawn, rule)


def test_certificates_take_the_number_of_their_image() -> None:
    plain, lucky, unlucky = judged(None), judged(0.01, randomised=True), judged(1.0, randomised=True)
    assert unlucky.radius == plain.radius < lucky.radius
    assert (plain.u, lucky.u) == (None, 0.01)
    # A number that was drawn for another rule decides nothing.
    assert judged(0.01).radius == plain.radius and judged(0.01).u is None


def test_both_limits_of_two_classes_are_randomised() -> None:
    votes, interval = np.array([700, 200, 100]), Interval("two-class", 0)
    low, high = vote_limits(votes, interval, 0.001)
    lucky = vote_limits(votes, interval, 0.001, lambda k, n, alpha: randomised_lower_limit(k, n, alpha, 0.01))
    assert lucky[0] > low and lucky[1] < high


def test_no_claim_goes_beyond_the_ceiling() -> None:
    rule = rule_of(Options(sigma=0.5, n=100, randomised=True), images=1)
    top = float(randomised_lower_limit(100, 100, rule.share, 1e-12))
    assert rule.geometry.radius(top, 1 - top) <= rule.ceiling + 1e-9
    assert rule.ceiling > rule_of(Options(sigma=0.5, n=100), images=1).ceiling


@pytest.mark.parametrize("other", [{"randomised": True}, {"lipschitz": "1"}], ids=str)
def test_counts_of_anytime_are_not_sent_to_a_mode_that_they_do_not_have(other: dict[str, Any]) -> None:
    with pytest.raises(InputError) as raised:
        rule_of(Options(sigma=0.5, mode="anytime", from_counts=Path("run"), **other), images=1)
    assert "draw anew, without --from-counts" in raised.value.hint and "--mode" not in raised.value.hint
    with pytest.raises(InputError) as raised:
        rule_of(Options(sigma=0.5, mode="anytime", **other), images=1)
    assert "--mode fixed, decide or pilot" in raised.value.hint


def test_soft_outputs_are_not_randomised() -> None:
    with pytest.raises(InputError) as raised:
        rule_of(Options(sigma=0.5, randomised=True, lipschitz="1"), images=1, lipschitz=1.0)
    assert raised.value.where == "--randomised, --lipschitz" and raised.value.hint
