"""Which bound of one training run is closest to the truth, and which are above it too often?

Run `python tests/benchmarks/one_run_bounds.py [--audits 400] [--worlds NAME,...] [--trial]`. Each audit draws who of
1,000 canaries is included, by fair coins, and a score of each from a mechanism whose epsilon is known. All bounds that
`miles membership --coin-flip 0.5` makes are computed from these scores by the audit's own code, and those of
jax-privacy 2.0.0 by its CanaryScoreAuditor, as it is by default (Bonferroni over its thresholds) and with its Split.
MILES_JAX_PRIVACY names a folder with the packages jax_privacy and dp_accounting; without them its rows are left out.

Told are the median bound and in how many audits it was above the truth, with the interval of Clopper and Pearson of
95 %. At most 5 % may be. In the first worlds canaries do not interfere:

- `none`, `medium`, `large`: a Gaussian mechanism of mu = 0, 1 and 2 for each canary.

In the others they do, and the epsilon of the whole mechanism is known, too:

- `shared-shift`: noise that is added to all scores alike, beside noise of their own. Whoever knows the others' coins
  can subtract most of it: mu = 2 is of the whole.
- `shared-size`, `block-size`: how sure an outcome of the Gaussian mechanism is does not depend on the coin. Here it is
  drawn once for all canaries, or for each twenty; given it, a coin is told by a response of its own. Each canary's
  trade-off curve, with all other coins known, is that of mu = 2.
- `revealed`: in one run of five, 50 coins are revealed together, else nothing: (0, 0.01)-private.

400 audits take 2 minutes (`none`, `revealed`) to 10 (`shared-size`) on one core, most of it for jax-privacy.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CANARIES, LEVEL, DELTA = 1000, 0.95, 1e-5
SHARED = 0.5
"""Share of the variance of the noise that all canaries have in common."""
BLOCK = 20
TOGETHER, OFTEN = 50, 0.2
"""Coins that are revealed together, and how often they are."""
TRIAL = 20
"""Audits of a world with --trial."""


def gaussian(mu: float, rng: np.random.Generator, shared: float = 0.0) -> tuple[Floats, Bools]:
    """Draw scores with normal noise, of which a share is the same for all canaries."""
    included = rng.random(CANARIES) < 0.5
    # With the others' coins known, what is left of the noise has the variance 1 / (inverse covariance).
    left = (1 - shared) / (1 - shared / (1 - shared + CANARIES * shared))
    noise = np.sqrt(shared) * rng.standard_normal() + np.sqrt(1 - shared) * rng.standard_normal(CANARIES)
    return noise + mu * np.sqrt(left) * included, included


def sized(mu: float, rng: np.random.Generator, block: int) -> tuple[Floats, Bools]:
    """Draw scores whose size is the same for all canaries of a block."""
    included = rng.random(CANARIES) < 0.5
    blocks = CANARIES // block
    size = np.abs(rng.standard_normal(blocks) + mu / 2 * rng.choice([-1, 1], blocks)).repeat(block)
    told = rng.random(CANARIES) < 1 / (1 + np.exp(-mu * size))
    return np.where(told == included, size, -size), included


def revealed(rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Draw noise, and with it some coins, all or none of them."""
    included = rng.random(CANARIES) < 0.5
    scores = rng.standard_normal(CANARIES)
    if rng.random() < OFTEN:
        some = rng.permutation(CANARIES)[:TOGETHER]
        scores[some] = np.where(included[some], 10, -10) + scores[some]
    return scores, included


@dataclass(frozen=True)
class World:
    """Scores of a mechanism: either mu-Gaussian, or 0-private at `delta`."""

    draw: Callable[[np.random.Generator], tuple[Floats, Bools]]
    mu: float = 2.0
    delta: float = DELTA

    @property
    def truth(self) -> float:
        """Return the epsilon at `delta`."""
        from audits.statistics.epsilon_bounds import gdp_epsilon

        return gdp_epsilon(self.mu, self.delta)


WORLDS: Mapping[str, World] = {
    "none": World(partial(gaussian, 0.0), mu=0.0),
    "medium": World(partial(gaussian, 1.0), mu=1.0),
    "large": World(partial(gaussian, 2.0)),
    "shared-shift": World(partial(gaussian, 2.0, shared=SHARED)),
    "shared-size": World(partial(sized, 2.0, block=CANARIES)),
    "block-size": World(partial(sized, 2.0, block=BLOCK)),
    "revealed": World(revealed, mu=0.0, delta=OFTEN * TOGETHER / CANARIES),
}


def ours(make: Callable[..., Any], world: World, scores: Floats, included: Bools, seed: int) -> dict[str, float]:
    """Return the bounds of `miles membership` with thresholds from the other half, as is its default."""
    found = make(scores, included, seed).bounds("split", coin_flip=0.5, delta=world.delta)
    return {f"miles {method} ({one.validity})": one.epsilon for method, one in found.items()}


def theirs(module: Any, world: World, scores: Floats, included: Bools, seed: int) -> dict[str, float]:
    """Return the bounds of jax-privacy."""
    auditor, alpha = module.CanaryScoreAuditor(scores[included], scores[~included]), 1 - LEVEL
    found = {"jax-privacy epsilon_from_gdp": auditor.epsilon_from_gdp(alpha, world.delta)}
    for name in ("epsilon_clopper_pearson", "epsilon_one_run", "epsilon_one_run_fdp"):
        for strategy, words in ((module.Bonferroni(), ""), (module.Split(seed=seed), ", Split")):
            bound = getattr(auditor, name)(alpha, world.delta, threshold_strategy=strategy)
            found[f"jax-privacy {name}{words}"] = bound
    return {name: float(value) for name, value in found.items()}


def audited(name: str, audits: int, make: Callable[..., Any], module: Any) -> dict[str, Floats]:
    """Return the bounds of a world by method, one for each audit."""
    world, rng = WORLDS[name], np.random.default_rng([list(WORLDS).index(name), 35])
    rows = []
    for seed in range(audits):
        scores, included = world.draw(rng)
        row = ours(make, world, scores, included, seed)
        rows.append(row | (theirs(module, world, scores, included, seed) if module is not None else {}))
    return {method: np.array([row[method] for row in rows]) for method in rows[0]}


def told(name: str, found: Mapping[str, Floats]) -> Iterator[str]:
    """Return the table of a world."""
    from audits.statistics.binomial import clopper_pearson

    world = WORLDS[name]
    yield f"\n{name}: true epsilon {world.truth:.2f} at delta {world.delta:g}, {CANARIES:,} canaries"
    yield "| bound | median | above the truth |"
    yield "| --- | --- | --- |"
    for method, values in found.items():
        above = int((values > world.truth).sum())
        low, high = (100 * end for end in clopper_pearson(above, len(values), level=LEVEL))
        mark = " <-- OFF" if low > 100 * (1 - LEVEL) else ""
        share = f"{100 * above / len(values):.1f} % ({low:.1f} to {high:.1f}){mark}"
        yield f"| {method} | {np.median(values):.2f} | {share} |"


def jax_privacy() -> Any:
    """Return the module of jax-privacy, or None where it is not there."""
    import one_run_speed
    import race

    try:
        return one_run_speed.jax_privacy()
    except race.LeftOutError as missing:
        print(f"without jax-privacy: {missing}")
        return None


def main() -> None:
    """Read the options and print the tables."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=400)
    parser.add_argument("--worlds", default=",".join(WORLDS), help=", ".join(WORLDS))
    parser.add_argument("--trial", action="store_true", help=f"{TRIAL} audits of each world")
    given = parser.parse_args()
    import membership_coverage

    module = jax_privacy()
    with membership_coverage.audits() as make:
        for name in given.worlds.split(","):
            start = time.process_time()
            found = audited(name, TRIAL if given.trial else given.audits, make, module)
            print("\n".join(told(name, found)))
            print(f"{len(next(iter(found.values()))):,} audits, {time.process_time() - start:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
