"""With which interval is a number told? Means, differences and ratios over samples, and spectra."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from audits.context import Context, Draft
from audits.records import Coordinate, Estimate
from audits.spectra.measuring import Setup
from audits.spectra.tally import Floats, Running
from audits.statistics import cluster_weights, generator, percentile_interval
from audits.statistics.mean_intervals import ALIKE, claim_interval, mean_interval, ratio_interval

SAMPLES = 2000
"""Bootstrap samples."""
FEWEST = 8
"""Samples below which nothing is resampled."""
PERCENTILE = "bootstrap over samples, percentile"
OVER_SAMPLES = "over samples"
CLAIMED = "Student t on half of the degrees of freedom widened for skew, over samples, all grids together"
LOG_STUDENT = "Student t over samples, of the logarithm"

Where = Mapping[str, Coordinate]
Statistic = Callable[[Floats], Floats]


class Estimator:
    """Adds estimates to a draft; every bootstrap draws the same samples."""

    def __init__(self, draft: Draft, setup: Setup, context: Context) -> None:
        self.draft, self.setup, self.level = draft, setup, context.level
        self.seed = context.seed

    def mean(self, name: str, column: Floats, **where: Coordinate) -> None:
        """Add the mean of one number a sample that is never below zero.

        Where every sample has exactly zero, both sides of a comparison were the same computation: nothing was sampled.
        """
        if len(column) > 1 and not column.any():
            self._put(name, 0.0, None, None, "exact", len(column), where)
            return
        self._mean(name, column, where, positive=True)

    def difference(self, name: str, column: Floats, **where: Coordinate) -> None:
        """Add the mean of one difference a sample."""
        self._mean(name, column, where, positive=False)

    def _mean(self, name: str, column: Floats, where: Where, *, positive: bool) -> None:
        value = float(column.mean())
        if not math.isfinite(value):
            self._undefined(name, where)
            return
        found = mean_interval(column, level=self.level, positive=positive)
        if found is None:
            self._without(name, value, len(column), where)
            return
        method, (low, high) = found
        self._put(name, value, low, high, f"{method}, {OVER_SAMPLES}", len(column), where)

    def claim(self, name: str, column: Floats, claims: int, **where: Coordinate) -> None:
        """Add the mean of one difference a sample, of which it will be claimed on which side of zero it lies.

        Parameters
        ----------
        claims
            Such means in the report; their intervals hold together.
        """
        value = float(column.mean())
        if not math.isfinite(value):
            self._undefined(name, where)
            return
        ends = claim_interval(column, level=self.level, claims=claims)
        if ends is None:
            self._without(name, value, len(column), where)
            return
        self._put(name, value, *ends, CLAIMED, len(column), where)

    def share_of(self, name: str, part: Floats, whole: Floats, **where: Coordinate) -> None:
        """Add the ratio of two sums over samples, the first of them a part of the second."""
        self._ratio(name, part, whole, lambda value: min(value, 1.0), where)

    def ratio(self, name: str, above: Floats, below: Floats, **where: Coordinate) -> None:
        """Add the ratio of two sums over samples."""
        self._ratio(name, above, below, lambda value: value, where)

    def root_ratio(self, name: str, above: Floats, below: Floats, **where: Coordinate) -> None:
        """Add the root of the ratio of two sums over samples."""
        self._ratio(name, above, below, math.sqrt, where)

    def _ratio(self, name: str, above: Floats, below: Floats, shown: Callable[[float], float], where: Where) -> None:
        """Add a ratio as `shown`, both sums being of numbers that are never below zero."""
        with np.errstate(invalid="ignore", divide="ignore"):
            value = float(above.sum() / below.sum())
        if not math.isfinite(value):
            self._undefined(name, where)
            return
        found = ratio_interval(above, below, level=self.level)
        if found is None:
            self._without(name, shown(value), len(above), where)
            return
        method, (low, high) = found
        self._put(name, shown(value), shown(low), shown(high), f"{method}, {OVER_SAMPLES}", len(above), where)

    def resampled(self, name: str, columns: Floats, statistic: Statistic, **where: Coordinate) -> None:
        """Add a statistic of the means of columns, shape (n, k); `statistic` maps (..., k) to (...)."""
        n = len(columns)
        value = float(statistic(columns.mean(axis=0)))
        if not math.isfinite(value):
            self._undefined(name, where)
            return
        if n < FEWEST:
            self._without(name, value, n, where, few=FEWEST)
            return
        weights = cluster_weights(n, SAMPLES, generator(self.seed, "spectra", "bootstrap"))
        ends = percentile_interval(statistic(weights @ columns / n), n, level=self.level)
        if ends is None:
            self._without(name, value, n, where, few=FEWEST)
            return
        self._put(name, value, min(ends[0], value), max(ends[1], value), PERCENTILE, n, where)

    def share(self, name: str, count: int, n: int, **where: Coordinate) -> None:
        """Add the share of samples of which something is true."""
        from audits.statistics import clopper_pearson

        low, high = clopper_pearson(count, n, level=self.level)
        self._put(name, count / n, low, high, "Clopper-Pearson", n, where)

    def energies(self, running: Running, taps: Sequence[str], resolution: int) -> None:
        """Add the spectrum of every stage, shape (stages, wavenumbers)."""
        from scipy.stats import t

        n = running.n
        reach = float(t.ppf((1 + self.level) / 2, n - 1)) if n > 1 else 0.0
        # Of the logarithm: energies are never below zero and span many powers of ten.
        relative = running.error / np.maximum(running.mean, np.finfo(float).tiny) if n > 1 else np.zeros(0)
        for place, tap in enumerate(taps):
            for wavenumber, value in enumerate(running.mean[place].tolist()):
                where: Where = {"tap": tap, "resolution": resolution, "wavenumber": wavenumber}
                if n < 2 or not relative[place, wavenumber] > ALIKE:
                    self._without("energy", value, n, where)
                    continue
                # A level next to one and two samples would leave what a double can hold.
                factor = math.exp(min(reach * float(relative[place, wavenumber]), 600.0))
                self._put("energy", value, value / factor, value * factor, LOG_STUDENT, n, where)

    def _undefined(self, name: str, where: Where) -> None:
        self.draft.warn("undefined", f"{name} is not defined here: it would divide by zero.", **where)

    def _without(self, name: str, value: float, n: int, where: Where, few: int = 2) -> None:
        """Add a number without an interval, and why it has none."""
        why = f"rests on {n} samples: too few for an interval."
        if n >= few:
            why = f"has no interval where all {n} samples have the same: that tells nothing of how others would differ."
        self.draft.warn("no-interval", f"{name} {why}")
        self.draft.add(
            Estimate(name=name, value=value, level=self.level, method="none", n=n, unit="samples", where=dict(where))
        )

    def _put(
        self, name: str, value: float, low: float | None, high: float | None, method: str, n: int, where: Where
    ) -> None:
        self.draft.add(
            Estimate(
                name=name,
                value=value,
                low=low,
                high=high,
                level=self.level,
                method=method,
                n=n,
                unit="samples",
                where=dict(where),
            )
        )
