"""How many draws do the rules of `miles certify` take, what do they certify, and how often is it false?

Run `python tests/benchmarks/anytime_certificates.py [--runs 10000] [--seed 0] [--trial]`. An image has two classes, and
the probability of its top class follows from its true radius: p = Phi(R / sigma), sigma 0.5. No network is run. The
certificates are those of the audit's own limits; where draws stop is reckoned for all images together.

`spread`: true radii |N(0.5, 0.5)|, one image each; `at r`: all images have the radius r that is asked, which is the
hardest case. A certificate is false where its radius is above the true one, or its class is the wrong one.

Rules for the question "is the radius at least r?": `fixed`; `decide`; `staged`, exact limits after 100, 1,000, 10,000
and 120,000 draws at alpha / 4 (Voracek 2024); `anytime`; and `flat bet`, which is `anytime` but knows nothing of the
draws that choose. Rules for the average radius: `fixed`, `randomised`, `pilot`, `anytime`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from audits.certification import Options
from audits.certification.anytime_stopping import LEAST_SEEN
from audits.certification.confidence_sequences import PRIOR, Bet, sequence_limit
from audits.certification.randomised_limits import randomised_lower_limit
from audits.certification.rules import FIRST_LOOK, batched_looks, geometric_looks
from audits.certification.sampling import GRID
from audits.statistics.binomial import lower_limit

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

SIGMA, ALPHA, N0, N, PILOT = 0.5, 0.001, 100, 100_000, 1000
LOSS = Options().target_loss
RADII = (0.25, 0.5, 1.0, 1.5)
STAGES = (100, 1000, 10_000, 120_000)


class Images(Protocol):
    """Images whose votes can be asked for."""

    def first(self, draws: int) -> Floats:
        """Return votes for the class that most of so many draws of another kind chose, shape (images,)."""

    def until(self, draws: NDArray[np.int64] | int, live: Places) -> Floats:
        """Return votes for the class chosen, among the first so many fresh draws of some images."""


class Planted:
    """Images with known radii, whose votes are drawn."""

    def __init__(self, radii: Floats, rng: np.random.Generator) -> None:
        from scipy.special import ndtr

        self.radii, self.rng = radii, rng
        self.top = ndtr(radii / SIGMA)
        self.seen, self.made = np.zeros(len(radii)), np.zeros(len(radii), dtype=np.int64)

    def first(self, draws: int) -> Floats:
        """Choose a class for each image; of a wrong one nothing can be certified in truth."""
        votes = self.rng.binomial(draws, self.top)
        wrong = 2 * votes < draws
        self.top, self.radii = np.where(wrong, 1 - self.top, self.top), np.where(wrong, 0.0, self.radii)
        return np.where(wrong, draws - votes, votes).astype(np.float64)

    def until(self, draws: NDArray[np.int64] | int, live: Places) -> Floats:
        """Draw on."""
        more = draws - self.made[live]
        self.seen[live] += self.rng.binomial(more, self.top[live])
        self.made[live] += more
        return np.asarray(self.seen[live])


@dataclass(frozen=True)
class Outcome:
    """Draws of each image, those that choose included, and the limit of its class."""

    draws: Floats
    limits: Floats

    @property
    def radii(self) -> Floats:
        """Certified radii, 0 where there is none."""
        from scipy.special import ndtri

        return np.asarray(np.maximum(SIGMA * ndtri(np.maximum(self.limits, 0.5)), 0.0))


def fixed(images: Images, count: int) -> Outcome:
    """Draw all."""
    images.first(N0)
    votes = images.until(N, np.arange(count))
    return Outcome(np.full(count, N0 + N), lower_limit(votes, N, ALPHA))


def randomised(images: Images, count: int) -> Outcome:
    """Draw all, and break ties of counts by random numbers."""
    images.first(N0)
    votes = images.until(N, np.arange(count))
    u = 1.0 - np.random.default_rng(1).random(count)
    return Outcome(np.full(count, N0 + N), randomised_lower_limit(votes, N, ALPHA, u))


def staged(images: Images, count: int, radius: float, looks: tuple[int, ...]) -> Outcome:
    """Look with exact limits until the radius is proved, or above what the upper limit leaves; alpha in equal parts."""
    images.first(N0)
    share, least = ALPHA / len(looks), probability(radius)
    live, limits, draws = np.arange(count), np.zeros(count), np.zeros(count)
    for look in looks:
        votes = images.until(look, live)
        limits[live] = np.maximum(limits[live], lower_limit(votes, look, share))
        draws[live] = N0 + look
        live = live[(limits[live] < least) & (1 - lower_limit(look - votes, look, share) >= least)]
        if not len(live):
            break
    return Outcome(draws, limits)


def anytime(images: Images, count: int, radius: float, weight: float = 1.0) -> Outcome:
    """Bet until the radius is proved, or the other side of it is; `weight` is that of the draws that choose."""
    from scipy.special import logit

    chosen = images.first(N0) * weight
    other, odds, goal = N0 * weight - chosen, np.array(logit(probability(radius))), -np.log(ALPHA)
    live, votes, draws = np.arange(count), np.zeros(count), np.zeros(count)
    for look in batched_looks(N):
        votes[live], draws[live] = images.until(look, live), look
        own, rest = votes[live], look - votes[live]
        a, b = chosen[live] + PRIOR, other[live] + PRIOR
        # The capital falls as p rises: the limit has passed the radius where the capital there has passed its goal.
        above = Bet(own, rest, a, b).log_capital(odds)[0] >= goal
        below = Bet(rest, own, b, a).log_capital(-odds)[0] >= goal
        live = live[~(above | below)]
        if not len(live):
            break
    return Outcome(N0 + draws, sequence_limit(votes, draws - votes, ALPHA, (chosen, other)))


def anytime_radius(images: Images, count: int) -> Outcome:
    """Bet until all draws are expected to add little."""
    from scipy.special import ndtri

    chosen = images.first(N0)
    live, limits, draws = np.arange(count), np.zeros(count), np.zeros(count)
    for look in batched_looks(N):
        votes, before = images.until(look, live), (chosen[live], N0 - chosen[live])
        draws[live] = look
        if look < LEAST_SEEN:
            continue
        limits[live] = sequence_limit(votes, look - votes, ALPHA, before)
        seen, total = votes + chosen[live], N0 + look
        shares = np.minimum(seen, total - 0.25) / total
        with np.errstate(divide="ignore"):
            reached = SIGMA * ndtri(limits[live])
            projected = SIGMA * ndtri(sequence_limit(shares * N, (1 - shares) * N, ALPHA, before))
        live = live[(projected > 0) & (reached < projected - LOSS * np.maximum(projected, SIGMA / 2))]
        if not len(live):
            break
    return Outcome(N0 + draws, limits)


def pilot(images: Images, count: int) -> Outcome:
    """Let a pilot choose how many draws to make."""
    from scipy.special import ndtri

    shares = np.minimum(images.first(PILOT), PILOT - 0.25) / PILOT
    sizes = np.unique(np.geomspace(FIRST_LOOK, N, GRID).round().astype(np.int64))
    with np.errstate(divide="ignore"):
        radii = SIGMA * ndtri(lower_limit(shares[:, None] * sizes, sizes, ALPHA))
    most = radii[:, -1:]
    enough = (radii >= most - LOSS * np.maximum(most, SIGMA / 2)) | (most <= 0)
    asked = sizes[enough.argmax(1)]
    votes = images.until(asked, np.arange(count))
    return Outcome(PILOT + asked.astype(np.float64), lower_limit(votes, asked, ALPHA))


def probability(radius: float) -> float:
    """Return the least probability of the top class with this radius."""
    from scipy.special import ndtr

    return float(ndtr(radius / SIGMA))


DECISIONS: dict[str, Callable[[Images, int, float], Outcome]] = {
    "fixed": lambda images, count, radius: fixed(images, count),
    "decide": lambda images, count, radius: staged(images, count, radius, geometric_looks(N)),
    "staged": lambda images, count, radius: staged(images, count, radius, STAGES),
    "flat bet": lambda images, count, radius: anytime(images, count, radius, 0.0),
    "anytime": anytime,
}
AVERAGES = {"fixed": fixed, "randomised": randomised, "pilot": pilot, "anytime": anytime_radius}


def false_share(outcome: Outcome, images: Planted) -> int:
    """Return how many certificates are false."""
    return int((outcome.radii > images.radii + 1e-12).sum())


def table(runs: int, seed: int) -> Iterator[str]:
    """Yield the lines of the tables."""
    spread = np.abs(np.random.default_rng(seed).normal(0.5, 0.5, runs))
    yield "| world | rule | " + " | ".join(f"r = {radius:g}" for radius in RADII) + " |"
    yield "| --- | --- |" + " --- |" * len(RADII)
    for world in ("spread", "at r"):
        for name, rule in DECISIONS.items():
            cells = []
            for place, radius in enumerate(RADII):
                # The same images for every rule, not the same votes.
                images = Planted(spread if world == "spread" else np.full(runs, radius), _stream(seed, place, name))
                found = rule(images, runs, radius)
                proved = float((found.limits >= probability(radius)).mean())
                cells.append(f"{found.draws.mean():,.0f}; {proved:.3f}; {false_share(found, images)}")
            yield f"| {world} | {name} | " + " | ".join(cells) + " |"
    yield f"Each cell: mean draws; share certified at r; false certificates of {runs:,}."
    yield ""
    yield "| rule | mean draws | average radius | of that of fixed | false |"
    yield "| --- | --- | --- | --- | --- |"
    base = 0.0
    for name, average in AVERAGES.items():
        images = Planted(spread, _stream(seed, len(RADII), name))
        found = average(images, runs)
        mean = float(found.radii.mean())
        base = base or mean
        yield f"| {name} | {found.draws.mean():,.0f} | {mean:.4f} | {mean / base:.4f} | {false_share(found, images)} |"


def _stream(seed: int, place: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, place, *name.encode()])


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", action="store_true", help="few images, to see whether it runs")
    given: Any = parser.parse_args()
    for line in table(200 if given.trial else given.runs, given.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
