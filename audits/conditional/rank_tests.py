"""Tests of ranks and of coverage in every group, all of a candidate together (Holm), and what a rejection means.

Ranks of the true law are uniform. Where they lie off the middle the law is shifted; where outcomes are farther out than
draws it is too narrow, nearer too wide. The largest standardised effect among the tests that reject names it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from audits.conditional.counts import Counts, Rows
from audits.statistics import adjust
from probes.conditional.laws import Bools, Floats
from probes.conditional.ranks import Projection

COVERAGE = "interval"
"""Name of the projection of a test of coverage."""
FOLDED = (Projection("y0", False), Projection("folded", True))
"""Ranks among quantiles, and how far from the middle they lie."""
POWER = 0.8416
"""Quantile of the normal law at 80 %, the power that a deviation is given for."""
LOOSE = 0.3
"""Deviation beyond which a test that cannot see less of it shows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One test: the deviation of ranks from uniform (or of coverage from its level) in one group.

    Parameters
    ----------
    reach
        Half of the width of the band that holds the true deviation.
    detectable
        Deviation that is found in 4 of 5 such samples, with all tests of the candidate together.
    effects
        Standardised size by what it would mean.
    """

    test: str
    projection: str
    group: str
    n: int
    deviation: float
    reach: float
    p: float
    adjusted: float = 1.0
    detectable: float = 1.0
    effects: tuple[tuple[str, float], ...] = ()

    @property
    def meaning(self) -> tuple[float, str]:
        """The largest effect, and its name."""
        return max((size, word) for word, size in self.effects)


def tests_of(rows: Rows, counts: Counts, level: float, rng: np.random.Generator) -> tuple[Tested, ...]:
    """Return all tests of a candidate, with p-values as they are and adjusted (Holm); none where ranks test nothing."""
    if rows.untested:
        return ()
    alone = _first_of_laws(rows, counts.n, rng)
    found = []
    for group, inside in counts.groups.rows().items():
        used = inside & alone
        if used.sum() > 1:
            found += list(_in_group(rows, used, group, level))
    if not found:
        return ()
    adjusted = adjust([one.p for one in found], "holm")
    return tuple(
        replace(one, adjusted=p, detectable=_detectable(one, rows, (1 - level) / len(found)))
        for one, p in zip(found, adjusted, strict=True)
    )


def _first_of_laws(rows: Rows, n: int, rng: np.random.Generator) -> Bools:
    """Return one row, by chance, of those that share equal draws: their ranks are not independent."""
    alone = np.ones(n, dtype=bool)
    if rows.law is not None and rows.law.max() + 1 < n:
        order = rng.permutation(n)
        alone[:] = False
        alone[order[np.unique(rows.law[order], return_index=True)[1]]] = True
    return alone


def _in_group(rows: Rows, used: Bools, group: str, level: float) -> Iterator[Tested]:
    n = int(used.sum())
    if rows.pits is not None:
        for at, projection in enumerate(rows.projections):
            u = rows.pits[used, at]
            deviation, p = uniformity(u)
            effects = tuple(_effects(u, projection.radial))
            yield Tested(
                test="pit",
                projection=projection.name,
                group=group,
                n=n,
                deviation=deviation,
                reach=band(n, level),
                p=p,
                effects=effects,
            )
    elif rows.inside is not None and rows.level is not None:
        held = int(rows.inside[used].sum())
        away = held / n - rows.level
        # In the terms of ranks, for one threshold: half of the band of all would do.
        sure = math.sqrt(rows.level * (1 - rows.level) / n)
        yield Tested(
            test="coverage",
            projection=COVERAGE,
            group=group,
            n=n,
            deviation=abs(away),
            reach=band(n, level),
            p=coverage_p(held, n, rows.level, rows.calibration),
            effects=(("too-narrow", -away / sure), ("too-wide", away / sure)),
        )


def uniformity(u: Floats) -> tuple[float, float]:
    """Return the largest deviation of the distribution of ranks from uniform, and its exact p-value (Kolmogorov).

    >>> deviation, p = uniformity(np.array([0.1, 0.2, 0.3]))
    >>> round(deviation, 3), round(p, 3)
    (0.7, 0.054)
    """
    from scipy.stats import kstwo

    n, ordered = len(u), np.sort(u)
    steps = np.arange(n + 1) / n
    deviation = float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
    return deviation, float(min(kstwo.sf(deviation, n), 1.0))


def band(n: int, level: float) -> float:
    """Return the half width of the simultaneous band of a distribution function from n values (Massart 1990)."""
    return math.sqrt(math.log(2 / (1 - level)) / (2 * n))


def coverage_p(held: int, n: int, level: float, calibration: int) -> float:
    """Return the two-sided p-value of a count of outcomes inside an interval of this level.

    Of a conformal interval that was calibrated on m rows the coverage itself has the law beta(k, m + 1 - k), k =
    ceil((m + 1) level), so that the count is beta-binomial (Vovk 2012); else it is binomial.

    >>> round(coverage_p(84, 100, 0.9, 0), 3), round(coverage_p(84, 100, 0.9, 100), 3)
    (0.08, 0.199)
    """
    from scipy.stats import betabinom, binom

    k = math.ceil((calibration + 1) * level - 1e-9)
    law = betabinom(n, k, calibration + 1 - k) if calibration and k <= calibration else binom(n, level)
    return float(min(1.0, 2 * min(law.cdf(held), law.sf(held - 1))))


def _effects(u: Floats, radial: bool) -> Iterator[tuple[str, float]]:
    """Yield standardised effects: of location, variance 1/12 a row, and of spread, variance 1/180.

    Spread is that about the mean of the ranks: about their middle, ranks that all lie at one end would have the most.
    """
    n = len(u)
    location = math.sqrt(12 * n) * float((u - 0.5).mean())
    spread = math.sqrt(180 * n) * float(u.var() - 1 / 12)
    if radial:
        yield "too-narrow", max(location, spread)
        yield "too-wide", max(-location, -spread)
    else:
        yield "shifted", abs(location)
        yield "too-narrow", spread
        yield "too-wide", -spread


def _detectable(one: Tested, rows: Rows, alpha: float) -> float:
    if one.test == "coverage" and rows.level is not None:
        from scipy.stats import norm

        variance = rows.level * (1 - rows.level)
        error = math.sqrt(variance / one.n + (variance / (rows.calibration + 2) if rows.calibration else 0.0))
        return float(min(1.0, (norm.isf(alpha / 2) + POWER) * error))
    return max(_visible(one.n, alpha), rows.grain)


@cache
def _visible(n: int, alpha: float) -> float:
    from scipy.stats import kstwo

    return float(min(1.0, kstwo.isf(alpha, n) + POWER * 0.5 / math.sqrt(n)))
