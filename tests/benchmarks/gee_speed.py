"""What does a model of error rates with variances from whole speakers cost here, beside statsmodels?

`miles` is `fit_poisson_gee`: coefficients, plain and bias-reduced covariance (Mancl and DeRouen 2001), and what each
speaker adds to them. `statsmodels` calls its GEE bare, version 0.15.0: Poisson, offset of the logarithm of the words,
independent working correlation, `cov_type="bias_reduced"`, and no formula, frame or summary. `statsmodels, plain` asks
for the plain covariance alone, which cannot be left out: the bias-reduced one comes on top of it. Both stop at their
own precision. The design has --columns columns: ones, levels of attributes, and a number of each clip.

Who is nearer the truth? At the exact coefficients the score X'(errors - expected) is 0 in every column. It is taken in
extended precision at what each side found, and divided by the errors in all.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import race

OPTIONS = {
    "clips": race.Option(26_000, 800, "recordings"),
    "speakers": race.Option(1_000, 60, "who speak them"),
    "columns": race.Option(12, 4, "of the design"),
}


def drawn(given: argparse.Namespace) -> tuple[Any, Any, Any, Any]:
    """Return errors, words, design and speakers."""
    import numpy as np

    rng = np.random.default_rng(0)
    # The clips of a speaker stand together, as statsmodels sorts them anyway.
    speaker = np.sort(np.arange(given.clips) % given.speakers)
    words = rng.integers(5, 25, given.clips).astype(float)
    levels = given.columns - 2
    level = rng.permutation(np.arange(given.speakers) % (levels + 1))[speaker]
    control = rng.normal(size=given.clips)
    design = np.stack(
        [np.ones(given.clips), *(level == one for one in range(1, levels + 1)), control], axis=1, dtype=float
    )
    own = rng.gamma(6.25, 0.16, given.speakers)[speaker]
    effects = np.linspace(-0.3, 0.3, levels + 1)[level] + 0.1 * control
    errors = rng.poisson(0.12 * words * own * np.exp(effects)).astype(float)
    return errors, words, design, speaker


def miles(given: argparse.Namespace) -> race.Job:
    """Fit."""
    from audits.statistics import fit_poisson_gee

    data = drawn(given)

    def job() -> race.Result:
        fit = fit_poisson_gee(*data)
        return {"coefficients": fit.coefficients, "covariance": fit.covariance, "plain covariance": fit.robust}

    return job


def statsmodels(kind: str) -> race.Side:
    """Fit with one of its covariances."""

    def side(given: argparse.Namespace) -> race.Job:
        import numpy as np
        import statsmodels.api as sm

        errors, words, design, speaker = drawn(given)

        def job() -> race.Result:
            model = sm.GEE(
                errors,
                design,
                groups=speaker,
                family=sm.families.Poisson(),
                cov_struct=sm.cov_struct.Independence(),
                offset=np.log(words),
            )
            fit = model.fit(cov_type=kind)
            covariance = {"covariance": fit.cov_robust_bc} if kind == "bias_reduced" else {}
            return {"coefficients": fit.params, **covariance, "plain covariance": fit.cov_robust}

        return job

    return side


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say how far the coefficients of each side are from the root of the score, and the covariances apart."""
    import numpy as np

    errors, words, design, _ = (one.astype(np.longdouble) for one in drawn(given))
    for side, rows in found.items():
        at = rows[0].result["coefficients"].astype(np.longdouble)
        score = design.T @ (errors - words * np.exp(design @ at))
        yield f"{side}: largest score, over all errors: {float(np.abs(score).max() / errors.sum()):.1e}"
    for name in ("covariance", "plain covariance"):
        for side, rows in found.items():
            if side != "miles" and "miles" in found and name in rows[0].result:
                one, two = rows[0].result[name], found["miles"][0].result[name]
                scale = np.sqrt(np.outer(np.diag(two), np.diag(two)))
                yield f"{side}, {name}: apart by {np.abs((one - two) / scale).max():.1e} of the standard errors"


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={
            "miles": miles,
            "statsmodels": statsmodels("bias_reduced"),
            "statsmodels, plain": statsmodels("robust"),
        },
        remarks=remarks,
        packages=("statsmodels", "scipy"),
    )
