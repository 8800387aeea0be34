"""What do proper scores of drawn forecasts cost here, beside scoringrules, and which are nearer the law's own score?

`--score crps` is the score of one value, `--score energy` that of --width values. `miles` is `fair_crps`, or
`distances` and `fair_energy`, as `miles conditional` takes them. The others call scoringrules, version 0.10.0:
`crps_ensemble` and `es_ensemble` with `estimator="fair"`, and for the CRPS with `estimator="pwm"` too, which sorts and
gives the same number. numpy is what scoringrules takes when it is installed by itself; with numba beside it, it takes
that, which compiles before the clock starts. All sides take float64.

Who is nearer the truth? Draws and outcomes come from one standard normal law, whose score is on average
Gamma((d + 1) / 2) / Gamma(d / 2). With --few draws, the mean of --rows rows is held against it, that of the estimator
that scoringrules takes where none is named too.
"""

import argparse
import math
from collections.abc import Iterator
from typing import Any

import race

OPTIONS = {
    "score": race.Option("crps", "crps", "crps or energy"),
    "rows": race.Option(5_000, 100, "outcomes"),
    "draws": race.Option(100, 10, "draws of a forecast"),
    "width": race.Option(8, 3, "values of an outcome, for the energy score"),
    "few": race.Option(10, 5, "draws where scores are held against the truth"),
    "many": race.Option(100_000, 1_000, "outcomes there"),
}


def drawn(given: argparse.Namespace, rows: int, draws: int) -> tuple[Any, Any]:
    """Return outcomes, shape (rows, d), and draws, shape (rows, draws, d)."""
    import numpy as np

    rng = np.random.default_rng(0)
    width = 1 if given.score == "crps" else given.width
    return rng.standard_normal((rows, width)), rng.standard_normal((rows, draws, width))


def scored(given: argparse.Namespace, y: Any, samples: Any) -> Any:
    """Return the fair scores of miles."""
    from probes.conditional.scores import distances, fair_crps, fair_energy

    return fair_crps(y, samples) if given.score == "crps" else fair_energy(*distances(y, samples))


def asked(given: argparse.Namespace, y: Any, samples: Any, **how: str) -> Any:
    """Return the scores of scoringrules."""
    import scoringrules

    if given.score == "crps":
        return scoringrules.crps_ensemble(y[:, 0], samples[:, :, 0], **how)
    return scoringrules.es_ensemble(y, samples, **how)


def miles(given: argparse.Namespace) -> race.Job:
    """Score."""
    data = drawn(given, given.rows, given.draws)
    return lambda: {"score": scored(given, *data)}


def scoringrules(backend: str, estimator: str) -> race.Side:
    """Score by one estimator on one backend."""

    def side(given: argparse.Namespace) -> race.Job:
        if backend == "numba":
            # Without it the package takes numpy and says nothing.
            import numba  # noqa: F401
        if given.score == "energy" and estimator == "pwm":
            raise race.LeftOutError("the energy score has no such estimator")
        data = drawn(given, given.rows, given.draws)
        return lambda: {"score": asked(given, *data, estimator=estimator, backend=backend)}

    return side


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say how far mean scores are from that of the law, with their standard errors."""
    data = drawn(given, given.many, given.few)
    d = data[0].shape[1]
    true = math.gamma((d + 1) / 2) / math.gamma(d / 2)
    yield f"true mean score of a law against itself, d = {d}: {true:.5f}; with {given.few} draws:"
    sides = {"miles": lambda: scored(given, *data)}
    if len(found) > 1:
        sides["scoringrules, fair"] = lambda: asked(given, *data, estimator="fair", backend="numpy")
        sides["scoringrules, its default estimator"] = lambda: asked(given, *data, backend="numpy")
    for name, score in sides.items():
        values = score()
        error = values.std(ddof=1) / math.sqrt(len(values))
        yield f"    {name}: above it by {values.mean() - true:.5f}, standard error {error:.5f}"


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={
            "miles": miles,
            "scoringrules, numpy": scoringrules("numpy", "fair"),
            "scoringrules, numba": scoringrules("numba", "fair"),
            "scoringrules, pwm, numpy": scoringrules("numpy", "pwm"),
            "scoringrules, pwm, numba": scoringrules("numba", "pwm"),
        },
        remarks=remarks,
        packages=("scoringrules", "numba", "scipy"),
    )
