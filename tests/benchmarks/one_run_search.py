"""How much faster is the search for the best guesses of one run than the definition followed word for word?

Run `python tests/benchmarks/one_run_search.py [--canaries 100] [--delta 1e-5] [--rounds 5]` on a quiet machine. Both
search the same grid over the same scores, in turn. `words` bisects epsilon for each pair of numbers of guesses, and for
each epsilon adds up the probabilities below the count one after the other, each a call of scipy's `binom`; it takes
about 2 s for 100 canaries, 7 s for 200 and minutes for 1000. `lists` has scipy take each list of probabilities at once.
The table shows the median of wall seconds, its ratio to ours, and epsilon. `--ours-only` leaves out the others, for
up to a million canaries.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXACT = 1e-5
"""Bisection of the others ends here."""


def steepest_in_words(correct: int, guesses: int, q: float) -> float:
    """Return max_i P[v > Binomial >= v - i] / i, term by term."""
    from scipy.stats import binom

    total, most = 0.0, 0.0
    for i in range(1, correct + 1):
        total += float(binom.pmf(correct - i, guesses, q))
        most = max(most, total / i)
    return most


def steepest_in_lists(correct: int, guesses: int, q: float) -> float:
    """Return the same from one list."""
    import numpy as np
    from scipy.stats import binom

    i = np.arange(1, correct + 1)
    return float((np.cumsum(binom.pmf(correct - i, guesses, q)) / i).max(initial=0.0))


def slow(steepest: Callable[[int, int, float], float]) -> Callable[[Any, Any, Any, float], float]:
    """Return a search that bisects epsilon for every pair alone."""

    def p(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
        import numpy as np
        from scipy.stats import binom

        q = 1 / (1 + float(np.exp(-epsilon)))
        tail = float(binom.sf(correct - 1, guesses, q))
        return min(1.0, tail + 2 * canaries * delta * steepest(correct, guesses, q)) if delta else tail

    def search(scores: Any, included: Any, grid: Any, delta: float) -> float:
        import numpy as np

        ordered, best = included[np.argsort(scores)], 0.0
        for low, high in grid.tolist():
            correct = int((~ordered[:low]).sum() + ordered[len(ordered) - high :].sum())
            given = correct, low + high, len(ordered)
            under, over = 0.0, 1.0
            while p(*given, over, delta) < 0.05:
                over += 1
            while over - under > EXACT:
                middle = (under + over) / 2
                under, over = (middle, over) if p(*given, middle, delta) < 0.05 else (under, middle)
            best = max(best, under)
        return best

    return search


def ours(scores: Any, included: Any, grid: Any, delta: float) -> float:
    """Search all pairs at once."""
    from audits.statistics.one_run import one_run_search

    return one_run_search(scores, included, grid, delta=delta)[0]


def compare(given: argparse.Namespace) -> None:
    """Print the table."""
    import numpy as np

    from audits.statistics.one_run import published_grid

    rng = np.random.default_rng(0)
    included = rng.random(given.canaries) < 0.5
    scores, grid = rng.normal(size=given.canaries) + 2 * included, published_grid(given.canaries)
    jobs: dict[str, Callable[[Any, Any, Any, float], float]] = {"ours": ours}
    if not given.ours_only:
        jobs |= {"lists": slow(steepest_in_lists), "words": slow(steepest_in_words)}
    print(f"{given.canaries:,} canaries, {len(grid):,} pairs, delta {given.delta:g}, medians of {given.rounds} rounds")
    print(f"load of the last minute {os.getloadavg()[0]:.1f}")
    ours(scores, included, grid, given.delta)
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    values = {}
    for _ in range(given.rounds):
        for name, job in jobs.items():
            begun = time.perf_counter()
            values[name] = job(scores, included, grid, given.delta)
            seconds[name].append(time.perf_counter() - begun)
    middle = {name: statistics.median(spent) for name, spent in seconds.items()}
    print(f"{'job':<8}{'wall s':>12}{'ratio':>10}{'epsilon':>12}")
    for name in jobs:
        print(f"{name:<8}{middle[name]:>12.5f}{middle[name] / middle['ours']:>10.1f}{values[name]:>12.5f}")


def main() -> None:
    """Read the options."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--canaries", type=int, default=100)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ours-only", action="store_true")
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
