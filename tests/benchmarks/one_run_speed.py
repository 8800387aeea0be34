"""How fast are the bounds of one run, and how often do they claim a leak where there is none?

The job: for each pair (k-, k+) of the grid that Privacy Meter tries, count the right guesses and find the largest
epsilon that they refute (Steinke, Nasr and Jagielski 2023, theorem 5.2); the result is the largest of all. `all at
once` is `one_run_search`, which computes what the theorem needs for all pairs together; no audit calls it, since the
largest of all is no bound without a correction, but its function for one pair is that of `miles membership`. `word for
word` follows the theorem in plain Python: for each pair it bisects epsilon to 1e-6, and for each epsilon adds up the
binomial probabilities one after the other. `jax-privacy` has its function for one pair (`_epsilon_one_run`, version
2.0.0) told the largest epsilon so far, as its own search over thresholds does.

Then two bounds that may be reported: that of `miles membership` (a share of canaries chosen on one half and guessed in
the other) and jax-privacy's default (guesses "in" alone, all thresholds, Bonferroni). Last, of --nulls draws in which
nothing leaks, how many give an epsilon above 0? 5 % may. MILES_JAX_PRIVACY names a folder with the packages
jax_privacy and dp_accounting, where they are not installed.
"""

import argparse
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from functools import cache
from math import exp, lgamma, log1p
from pathlib import Path
from typing import Any

import numpy as np
import race

ALPHA, DELTA, EXACT = 0.05, 1e-5, 1e-6
OPTIONS = {
    "canaries": race.Option(1_000, 60, "each included by a fair coin"),
    "shift": race.Option(2.0, 2.0, "of the scores of those included, in standard deviations"),
    "nulls": race.Option(200, 10, "draws in which nothing leaks"),
}


def drawn(given: argparse.Namespace, shift: float, seed: int) -> tuple[Any, Any]:
    """Return scores and who was included."""
    rng = np.random.default_rng(seed)
    included = rng.random(given.canaries) < 0.5
    return rng.normal(size=given.canaries) + shift * included, included


def in_words(correct: int, guesses: int, canaries: int) -> float:
    """Return the largest epsilon that the guesses refute, as the theorem says."""

    def p(epsilon: float) -> float:
        right, wrong = -log1p(exp(-epsilon)), -epsilon - log1p(exp(-epsilon))
        mass = [
            exp(lgamma(guesses + 1) - lgamma(k + 1) - lgamma(guesses - k + 1) + k * right + (guesses - k) * wrong)
            for k in range(guesses + 1)
        ]
        total = steepest = 0.0
        for i in range(1, correct + 1):
            total += mass[correct - i]
            steepest = max(steepest, total / i)
        return min(1.0, sum(mass[correct:]) + 2 * canaries * DELTA * steepest)

    low, high = 0.0, 1.0
    while p(high) < ALPHA:
        high += 1
    while high - low > EXACT:
        middle = (low + high) / 2
        low, high = (middle, high) if p(middle) < ALPHA else (low, middle)
    return low


def over_pairs(bound: Callable[[float, int, int, int], float]) -> race.Side:
    """Return a side that bounds pair after pair, given the best so far, correct, guesses and canaries."""

    def side(given: argparse.Namespace) -> race.Job:
        from audits.statistics.one_run import published_grid

        scores, included = drawn(given, given.shift, 0)

        def job() -> race.Result:
            ordered, best = included[np.argsort(scores)], 0.0
            for low, high in published_grid(len(ordered)).tolist():
                correct = int((~ordered[:low]).sum() + ordered[len(ordered) - high :].sum())
                best = max(best, bound(best, correct, low + high, len(ordered)))
            return {"epsilon": best}

        return job

    return side


@cache
def jax_privacy() -> Any:
    """Load the one file without the package, which needs jax, and the one of dp_accounting that it needs."""
    if "miles_race_auditing" in sys.modules:
        return sys.modules["miles_race_auditing"]
    sys.modules["dp_accounting"] = _loaded("miles_race_gaussian", "dp_accounting", "gaussian_mechanism.py")
    return _loaded("miles_race_auditing", "jax_privacy", "auditing.py")


def _loaded(name: str, package: str, file: str) -> types.ModuleType:
    found = importlib.util.find_spec(package)
    places = found.submodule_search_locations if found else None
    named = os.environ.get("MILES_JAX_PRIVACY")
    # The folder may hold one of the two, and the other be installed.
    tried = [*([Path(named) / package / file] if named else []), *([Path(places[0]) / file] if places else [])]
    place = next((one for one in tried if one.is_file()), None)
    if place is None:
        raise race.LeftOutError(f"no {package}/{file}: install {package}, or name a folder by MILES_JAX_PRIVACY")
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(given: argparse.Namespace) -> race.Job:
    """Follow the theorem."""
    return over_pairs(lambda best, right, guesses, canaries: in_words(right, guesses, canaries))(given)


def theirs(given: argparse.Namespace) -> race.Job:
    """Ask jax-privacy for each pair."""
    one = jax_privacy()._epsilon_one_run
    return over_pairs(lambda best, right, guesses, canaries: float(one(best, canaries, guesses, right, ALPHA, DELTA)))(
        given
    )


def searched(scores: Any, included: Any) -> float:
    """Return the best of all pairs as miles finds it."""
    from audits.statistics.one_run import one_run_search, published_grid

    return one_run_search(scores, included, published_grid(len(scores)), delta=DELTA, level=1 - ALPHA)[0]


def at_once(given: argparse.Namespace) -> race.Job:
    """Search all pairs at once."""
    scores, included = drawn(given, given.shift, 0)
    return lambda: {"epsilon": searched(scores, included)}


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say what the bounds that may be reported are, and how often each is wrong where nothing leaks."""
    import membership_coverage

    assert membership_coverage.DELTA == DELTA

    def default(scores: Any, included: Any) -> float:
        auditor = jax_privacy().CanaryScoreAuditor(scores[included], scores[~included])
        return float(auditor.epsilon_one_run(ALPHA, DELTA))

    yield f"true epsilon: {membership_coverage.truth(given.shift):.4f} where scores leak, 0 in the other draws"
    with membership_coverage.audits() as make:
        sides: dict[str, Callable[[Any, Any, int], float]] = {
            "miles membership, split": lambda scores, included, seed: (
                make(scores, included, seed).bounds("split", coin_flip=0.5)["one-run"].epsilon
            ),
            "published search, no correction": lambda scores, included, _: searched(scores, included),
        }
        if "jax-privacy" in found:
            sides["jax-privacy, its default"] = lambda scores, included, _: default(scores, included)
        for name, bound in sides.items():
            leaking = bound(*drawn(given, given.shift, 0), 0)
            above = sum(bound(*drawn(given, 0.0, seed), seed) > 0 for seed in range(1, given.nulls + 1))
            yield f"{name}: epsilon {leaking:.4f}; above 0 in {above} of {given.nulls} draws without a leak"


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={"all at once": at_once, "jax-privacy": theirs, "word for word": words},
        base="all at once",
        remarks=remarks,
        packages=("scipy",),
    )
