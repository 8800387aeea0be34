"""Do certificates of `anytime` hold whenever one stops? The chance that any limit is false is summed exactly."""

from typing import Any

import numpy as np
import pytest
import torch
from chance import at_most
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import binom, norm

from audits.certification import Options
from audits.certification.certificates import judge
from audits.certification.confidence_sequences import PRIOR, Bet
from audits.certification.rules import rule_of
from audits.certification.sampling import draw
from audits.statistics.binomial import lower_limit
from probes.classifiers.smoothing import VoteCounts

DRAWS = 600


def ever(p: float, stops: NDArray[np.bool_]) -> float:
    """Return the chance that votes of probability p ever come to a count where `stops`, shape (draws, votes)."""
    alive, gone = np.array([1.0]), 0.0
    for row, there in enumerate(stops):
        alive = np.convolve(alive, [1 - p, p])
        hit = there[: row + 2]
        gone += float(alive[hit].sum())
        alive[hit] = 0.0
    return gone


def capital_at(p: float, before: tuple[int, int]) -> NDArray[np.float64]:
    """Return the logarithm of the capital at p after each number of draws and of votes."""
    draws, votes = np.arange(1, DRAWS + 1)[:, None], np.arange(DRAWS + 1)[None]
    found = np.full((DRAWS, DRAWS + 1), -np.inf)
    # No more votes than draws; and the bet has one shape, of which what depends on it alone is computed once.
    row, vote = np.nonzero(votes <= draws)
    shape = [np.array(part + PRIOR) for part in before]
    found[row, vote] = Bet(vote.astype(float), row + 1.0 - vote, *shape).log_capital(np.array(logit(p)))[0]
    return found


@pytest.mark.parametrize("before", [(90, 10), (100, 0), (60, 40), (1, 0)])
@pytest.mark.parametrize("p", [0.5, 0.8413, 0.977])
def test_no_limit_at_any_draw_is_false_more_often_than_alpha(p: float, before: tuple[int, int]) -> None:
    # The limit passes p just where the capital at p reaches its goal; whoever stops at the worst moment is counted.
    alpha = 0.05
    error = ever(p, capital_at(p, before) >= -np.log(alpha))
    assert error <= alpha
    # Whoever expected fewer votes than come does not get there in so few draws.
    assert (error > 0) == (p < 0.9 or before[1] == 0)


def test_exact_limits_read_at_every_draw_are_false_far_more_often() -> None:
    votes, alpha = np.arange(DRAWS + 1), 0.05
    fixed = np.stack([lower_limit(np.minimum(votes, n), n, alpha) > 0.8413 for n in range(1, DRAWS + 1)])
    assert ever(0.8413, fixed) > 3 * alpha
    assert binom.pmf(votes, DRAWS, 0.8413)[fixed[-1]].sum() <= alpha


def test_a_goal_of_half_of_it_would_be_false_too_often() -> None:
    # ln(1 / alpha / 2), as one peer has it, is the goal for 2 alpha.
    alpha = 0.05
    shares = [ever(0.8413, capital_at(0.8413, before) >= np.log(1 / (2 * alpha))) for before in ((84, 16), (90, 10))]
    assert max(shares) > alpha


class Planted:
    """Stands in for the counts of an image: votes drawn from known class probabilities."""

    index, seconds = 0, 0.0

    def __init__(self, shares: NDArray[np.float64], rng: np.random.Generator) -> None:
        self.shares, self.rng = shares, rng
        self.known: dict[str, Any] = {}

    def clean(self) -> int:
        return int(self.shares.argmax())

    def save(self) -> None:
        pass

    def until(self, stream: str, draws: int) -> VoteCounts:
        known = self.known.get(stream, np.zeros(len(self.shares), dtype=np.int64))
        self.known[stream] = known + self.rng.multinomial(draws - int(known.sum()), self.shares)
        votes = torch.from_numpy(self.known[stream])
        return VoteCounts(draws, votes, votes * 0, votes * 0)


@pytest.mark.parametrize("interval", ["one-sided", "two-class"])
@pytest.mark.parametrize("radii", [("0.5",), ()])
def test_certificates_of_the_engine_are_false_no_more_often_than_alpha(radii: tuple[str, ...], interval: str) -> None:
    rng, runs = np.random.default_rng(12), 60
    rule = rule_of(
        Options(sigma=0.5, mode="anytime", n=3000, radii=radii, alpha=0.05, n0=30, interval=interval, target_loss=0.1),
        images=1,
    )
    top = float(norm.cdf(1.0))
    shares = np.array([top, 1 - top]) if interval == "one-sided" else np.array([0.6, 0.25, 0.15])
    true = 0.25 * (norm.ppf(shares[0]) - norm.ppf(shares[1]))
    false, draws = 0, set()
    for _ in range(runs):
        counts: Any = Planted(shares, rng)
        drawn = draw(counts, 0, rule)
        draws.add(drawn.looks[-1].draws)
        false += judge(drawn, rule).radius > true
    assert false <= at_most(rule.alpha, runs)
    assert len(draws) > 1
    assert list(counts.known) == ["selection", "estimation"]


def test_clear_images_stop_early_and_keep_one_look() -> None:
    rng, rule = np.random.default_rng(1), rule_of(Options(sigma=0.5, mode="anytime", radii=("0.5",)), images=1)
    for share in (0.99, 0.6):
        counts: Any = Planted(np.array([share, 1 - share]), rng)
        drawn = draw(counts, 0, rule)
        assert drawn.draws <= 1000 and len(drawn.looks) == 1
        assert (judge(drawn, rule).radius >= 0.5) == (share == 0.99)
