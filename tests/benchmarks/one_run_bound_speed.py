"""What does one bound of one run that may be reported cost here, beside jax-privacy's default?

`one_run_speed.py` times the search over pairs of guesses, and tells how often each bound is wrong; here a bound is
timed as it is reported. `miles` is the bound of `miles membership`, by its own functions: which share of the canaries
is guessed is chosen on one half, and the other half proves. `jax-privacy` is `CanaryScoreAuditor(...).epsilon_one_run`
of version 2.0.0 with its defaults: guesses "in" alone, all thresholds, Bonferroni. The two are different bounds, and
both may be reported: the higher is nearer the truth, which is told. MILES_JAX_PRIVACY names a folder with the packages
jax_privacy and dp_accounting, where they are not installed.
"""

import argparse
from collections.abc import Iterator

import one_run_speed
import race
from one_run_speed import ALPHA, DELTA

OPTIONS = {name: one_run_speed.OPTIONS[name] for name in ("canaries", "shift")}


def miles(given: argparse.Namespace) -> race.Job:
    """Choose on one half and prove on the other."""
    import numpy as np

    from audits.membership.bounding import SHARES
    from audits.statistics.one_run import count_guesses, one_run_epsilon

    scores, included = one_run_speed.drawn(given, given.shift, 0)
    order = np.random.default_rng(1).permutation(len(scores))
    halves = np.split(order, [len(order) // 2])

    def proved(half: "np.typing.NDArray[np.intp]", share: float) -> float:
        number = max(1, int(share * len(half) / 2))
        guesses = count_guesses(scores[half], included[half], number, number, order=np.arange(len(half)))
        return one_run_epsilon(guesses.correct, guesses.guesses, len(half), delta=DELTA, level=1 - ALPHA)

    def job() -> race.Result:
        best = max(SHARES, key=lambda share: proved(halves[0], share))
        return {"bound of miles": proved(halves[1], best)}

    return job


def theirs(given: argparse.Namespace) -> race.Job:
    """Ask for its default."""
    module = one_run_speed.jax_privacy()
    scores, included = one_run_speed.drawn(given, given.shift, 0)

    def job() -> race.Result:
        auditor = module.CanaryScoreAuditor(scores[included], scores[~included])
        return {"bound of jax-privacy": float(auditor.epsilon_one_run(ALPHA, DELTA))}

    return job


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Tell the true epsilon."""
    import membership_coverage

    yield f"true epsilon: {membership_coverage.truth(given.shift):.4f}"


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={"miles": miles, "jax-privacy": theirs},
        remarks=remarks,
        packages=("jax-privacy", "scipy"),
    )
