"""How often do the intervals of pooled rates hold the truth?

`python tests/benchmarks/pooling_coverage.py N` prints the cover of all groups and of the first one, from N simulations,
and the mean squared error over that of the plain rates.
"""

import sys

import numpy as np
from numpy.typing import NDArray

from audits.statistics import shrink_rates

Floats = NDArray[np.float64]
WORLDS = {
    "20 groups of 5": (20, 5),
    "20 groups of 3": (20, 3),
    "40 groups of 2": (40, 2),
    "3 groups of 6": (3, 6),
    "8 of 10, the first uneven": (8, 10),
    "8 of 20, the first uneven": (8, 20),
    "8 of 10, words log-normal(1.2)": (8, 10),
    "8 of 10, one speaker has half of each": (8, 10),
    "8 of 10, talkative err more": (8, 10),
    "10 of 6, rare": (10, 6),
}


def drawn(world: str, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Draw true rates of groups, and the errors and words of their speakers."""
    groups, speakers = WORLDS[world]
    group = np.repeat(np.arange(groups), speakers)
    rates = rng.gamma(1 / 0.3**2, 0.2 * 0.3**2, groups) * (0.02 if "rare" in world else 1.0)
    words, spread = np.full(len(group), 60.0), np.full(len(group), 0.5)
    if "uneven" in world:
        spread[group == 0] = 1.5
    if "log-normal" in world:
        words = np.round(60 * np.exp(rng.normal(0, 1.2, len(group)))) + 1
    if "half" in world:
        words[::speakers] = 60.0 * (speakers - 1)
    own = rng.gamma(1 / spread**2, spread**2)
    if "talkative" in world:
        talkative = rng.random(len(group)) < 0.2
        words = np.where(talkative, 400.0, 20.0)
        own = np.where(talkative, 2.0, 0.5) / ((0.2 * 400 * 2 + 0.8 * 20 * 0.5) / (0.2 * 400 + 0.8 * 20))
    member = np.eye(groups)[group]
    return rates, rng.poisson(rates[group] * own * words)[:, None] * member, words[:, None] * member


def main(trials: int) -> None:
    """Print a row for each world."""
    for world in WORLDS:
        rng, every, first, apart = np.random.default_rng(0), [], [], []
        for _ in range(trials):
            rates, errors, sizes = drawn(world, rng)
            try:
                found = shrink_rates(errors, sizes)
            except ValueError:
                continue
            inside = (found.low <= rates) & (rates <= found.high)
            every.append(inside.mean())
            first.append(inside[0])
            apart.append([((value - rates) ** 2).mean() for value in (found.value, errors.sum(0) / sizes.sum(0))])
        own, raw = np.mean(apart, axis=0)
        print(f"{world}: {np.mean(every):.3f}, first {np.mean(first):.3f}, error {own / raw:.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
