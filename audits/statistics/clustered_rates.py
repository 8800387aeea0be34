"""Intervals of pooled rates over few or uneven clusters, of which a few may make most errors.

No resampling: of few or uneven clusters, bootstrap samples see less spread than there is, some of them none at all.
Two variances are taken, each right where the other is not, and the larger of them counts. The jackknife's sees what
goes with the size of a cluster, but hardly more than one square where one cluster has most of the trials; that of
random cluster rates learns from all clusters how much rates differ, and lends it to the large one.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audits.statistics.bootstrap import ratio

Floats = NDArray[np.float64]

STUDENT_CLUSTERS = "Student t over clusters, on the scale of the rate and of its log odds"
EXACT_CLUSTERS = "Clopper-Pearson over clusters"
NO_INTERVAL = "none"
LEAST_FREEDOM = 3.0
"""Least degrees of freedom under a heavy tail: one outlying cluster must not make the interval useless."""
ALIKE = 1e-9
STEPS = 50
LEAST_DIFFERENCE = 0.1
"""Share of a rate by which the mean over clusters and the pooled rate must differ to be reported."""
BLOCK = 64
"""Columns solved at once, which limits memory to a few arrays of clusters by columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateIntervals:
    """Pooled rates with their intervals, arrays of shape (rates,); the ends are NaN where there is none."""

    value: Floats
    low: Floats
    high: Floats
    clusters: NDArray[np.int64]
    method: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Pooled rates and their standard errors, arrays of shape (rates,); NaN of fewer than two clusters.

    Parameters
    ----------
    value
        Pooled rate, errors over trials.
    error
        Standard error over clusters.
    freedom
        Degrees of freedom of the standard error.
    clusters, trials
        How many there are.
    top
        How high a rate may be: 1, or the highest of any cluster where that is above.
    """

    value: Floats
    error: Floats
    freedom: Floats
    clusters: NDArray[np.int64]
    trials: Floats
    top: Floats

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Mark the rates for which all clusters have 0, or all have 1, so that nothing varies."""
        certain: NDArray[np.bool_] = (self.clusters > 1) & (self.error == 0)
        return certain

    def wider(self, variance: Floats | float) -> "Spread":
        """Return the same rates with a further variance added to each."""
        return replace(self, error=np.sqrt(self.error**2 + variance))

    def half(self, tail: float) -> Floats:
        """Return Student's half-widths for a tail probability on each side."""
        from scipy.special import stdtrit

        half: Floats = -stdtrit(np.maximum(self.freedom, 1.0), tail) * self.error
        return half

    def ends(self, tail: float) -> tuple[Floats, Floats]:
        """Return the low and high ends of Student's intervals for a tail probability on each side.

        Each end is the further of two: on the scale of the rate, r -+ t s, and on that of the log odds, with the
        standard error s / (r (1 - r)), or where a cluster has a rate above 1, on that of the logarithm. Rates of few
        errors, and those of which a few clusters have most, are skewed, and another draw mostly lies above them. No end
        lies below 0, or above 1 where no cluster's rate does; the logarithm's end is at `top` at most.
        """
        return ends_within(self.value, self.half(tail), self.top)


def ends_within(value: Floats, reach: Floats, top: Floats) -> tuple[Floats, Floats]:
    """Return the ends of intervals, kept within the possible rates, from rates and Student's half-widths."""
    low, high = value - reach, value + reach
    inside = (value > 0) & (value < 1) & (top <= 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        odds = value / (1.0 - value)
        factor = np.exp(np.minimum(reach / (value * (1.0 - value)), 700.0))
        lower, upper = 1.0 / (1.0 + factor / odds), 1.0 / (1.0 + 1.0 / (odds * factor))
        above = np.minimum(value * np.exp(np.minimum(reach / value, 700.0)), top)
    low = np.where(inside, np.minimum(low, lower), low)
    high = np.where(inside, np.maximum(high, upper), np.where(value > 0, np.fmax(high, above), high))
    return np.maximum(low, 0.0), np.where(top <= 1, np.minimum(high, 1.0), high)


def spread_of(errors: Floats, sizes: Floats) -> Spread:
    """Return pooled rates sum(e) / sum(n) and their standard errors over whole clusters.

    With r the rate, r_i = e_i / n_i those of the m clusters and w_i = n_i / sum n their shares, the variance is the
    larger of

    - the jackknife's, linearised, sum_i (w_i (r_i - r) / (1 - w_i))^2 (CR3: MacKinnon, Nielsen and Webb 2023), and
    - that of clusters whose true rates vary with a variance u around a common mean, u sum w_i^2 + v / sum n, with u by
      the method of Paule and Mandel (1982) and v the variance of a trial, r (1 - r) (r itself where a cluster's rate is
      above 1), times the mean square of the standardised rates where that is below 1. Of clusters with one and the same
      rate, v is taken in full.

    Its degrees of freedom are m - 1, or fewer where the standardised rates of the clusters have a heavy tail: those of
    a sample variance of values with their kurtosis k, 2 m / (k - 1), both as seen and corrected for the bias of few
    values, and three at least.

    Parameters
    ----------
    errors, sizes
        Errors and trials of each cluster, shape (clusters, rates); a cluster without either is not in the group.
        Errors may exceed trials (insertions). A cluster with errors but no trial (words heard in silence) weighs
        nothing and moves the rate by e_i / sum n; it has no rate of its own, and counts as e_i + 1 for `Spread.top`.

    Examples
    --------
    >>> sizes = np.full((20, 1), 10.0)
    >>> found = spread_of(np.repeat([[2.0], [4.0]], 10, axis=0), sizes)
    >>> float(found.value[0]), round(float(found.error[0]), 4), float(found.freedom[0])
    (0.3, 0.0235, 19.0)
    """
    parts = [
        _spread(errors[:, start : start + BLOCK], sizes[:, start : start + BLOCK])
        for start in range(0, max(errors.shape[1], 1), BLOCK)
    ]
    names = ("value", "error", "freedom", "clusters", "trials", "top")
    return Spread(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def rate_intervals(errors: Floats, sizes: Floats, *, level: float = 0.95, extra: Floats | float = 0.0) -> RateIntervals:
    """Return pooled rates sum(e) / sum(n) with intervals from whole clusters.

    Student's on the standard error and the degrees of freedom of `spread_of`, with the ends of `Spread.ends`. Where no
    trial went wrong, or every one once, the interval is the exact one with the clusters as trials (Clopper and
    Pearson).

    Parameters
    ----------
    errors, sizes
        As in `spread_of`.
    extra
        Variance of each rate that clusters do not show, shape (rates,), such as that of a random split shared by all
        of them.

    Examples
    --------
    >>> sizes = np.full((30, 1), 10.0)
    >>> errors = np.repeat([[2.0], [4.0]], 15, axis=0)
    >>> rates = rate_intervals(errors, sizes)
    >>> float(rates.value[0]), round(float(rates.low[0]), 2), round(float(rates.high[0]), 2)
    (0.3, 0.26, 0.34)

    One speaker of ten makes most of the errors:

    >>> rates = rate_intervals(np.array([[1.0]] * 9 + [[12.0]]), np.full((10, 1), 20.0))
    >>> float(rates.value[0]), round(float(rates.low[0]), 2), round(float(rates.high[0]), 2)
    (0.105, 0.0, 0.46)
    """
    return intervals_of(spread_of(errors, sizes), level=level, extra=extra)


def intervals_of(found: Spread, *, level: float, extra: Floats | float = 0.0) -> RateIntervals:
    """Return rates with their intervals, as in `rate_intervals`, from their spread."""
    certain, several = found.certain, found.clusters > 1
    low, high = found.wider(extra).ends((1.0 - level) / 2)
    for rate in np.flatnonzero(certain):
        exact = _all_alike(float(found.value[rate]), int(found.clusters[rate]), level)
        low[rate], high[rate] = min(low[rate], exact[0]), max(high[rate], exact[1])
    names = np.where(several, np.where(certain, EXACT_CLUSTERS, STUDENT_CLUSTERS), NO_INTERVAL)
    return RateIntervals(
        value=found.value,
        low=np.where(several, low, np.nan),
        high=np.where(several, high, np.nan),
        clusters=found.clusters,
        method=tuple(names.tolist()),
    )


def mean_of_rates(errors: Floats, sizes: Floats) -> tuple[Spread, Spread]:
    """Return the means of the clusters' own rates, and by how much they lie above the pooled rates.

    The two part where clusters that have more trials err more, or less. The standard error of a mean is that of the
    clusters' rates, and at least that of their trials; a distance moves by (r_i - mean) / m - w_i (r_i - r) with each
    cluster, to first order.

    Parameters
    ----------
    errors, sizes
        As in `spread_of`.

    Examples
    --------
    >>> mean, above = mean_of_rates(np.array([[1.0], [2.0], [30.0]]), np.array([[10.0], [10.0], [60.0]]))
    >>> round(float(mean.value[0]), 3), round(float(above.value[0]), 3), round(float(above.error[0]), 3)
    (0.267, -0.146, 0.026)
    """
    pooled, inside = spread_of(errors, sizes), sizes > 0
    m = np.maximum(inside.sum(axis=0), 1).astype(np.float64)
    rates = np.where(inside, ratio(errors, sizes), 0.0)
    mean = rates.sum(axis=0) / m
    apart = np.where(inside, rates - mean, 0.0)
    noise = np.where(pooled.certain, 0.0, np.where(pooled.top > 1, mean, mean * (1.0 - mean)))
    least = noise * np.nansum(np.where(inside, 1 / np.where(inside, sizes, 1.0), 0.0), axis=0) / m**2
    # A cluster with errors but no trials has no rate of its own, yet it counts in the pooled rate.
    shift = apart / m - (errors - np.where(inside, pooled.value * sizes, 0.0)) / np.maximum(pooled.trials, 1e-300)
    scale = m / np.maximum(m - 1, 1.0)
    usable = pooled.clusters > 1
    made = [
        (mean, np.maximum((apart**2).sum(axis=0) * scale / m**2, least), apart),
        (mean - pooled.value, (shift**2).sum(axis=0) * scale, shift),
    ]
    own, above = (
        replace(
            pooled,
            value=value,
            error=np.where(usable, np.sqrt(variance), np.nan),
            freedom=np.where(usable, freedom_of(moves, pooled.clusters), np.nan),
        )
        for value, variance, moves in made
    )
    return own, above


def differs_from_pooled(mean: Spread, above: Spread, *, level: float, tests: int) -> NDArray[np.bool_]:
    """Tell where the mean over clusters and the pooled rate of `mean_of_rates` differ beyond chance.

    Their distance must be beyond chance (Student's t, Bonferroni over `tests` rates) and at least `LEAST_DIFFERENCE` of
    the mean.
    """
    beyond = np.abs(above.value) > above.half((1 - level) / 2 / tests)
    parts: NDArray[np.bool_] = (mean.clusters > 1) & beyond & (np.abs(above.value) >= LEAST_DIFFERENCE * mean.value)
    return parts


def highest(errors: Floats, sizes: Floats) -> Floats:
    """Return the highest possible value of each rate, shape (rates,): 1, or the highest of any cluster if larger.

    A cluster with errors and no trial has none; it counts as one error more than it has, so that it is above 1.
    """
    rates = np.where(sizes > 0, ratio(errors, sizes), np.where(errors > 0, errors + 1.0, 0.0))
    top: Floats = rates.max(axis=0, initial=1.0)
    return top


def _spread(errors: Floats, sizes: Floats) -> Spread:
    inside, silent = sizes > 0, (sizes <= 0) & (errors > 0)
    several, trials = inside.sum(axis=0), sizes.sum(axis=0)
    clusters = several + silent.sum(axis=0)
    value = ratio(errors.sum(axis=0), trials)
    rates = np.where(inside, ratio(errors, sizes), 0.0)
    share = ratio(sizes, np.broadcast_to(trials, sizes.shape))
    moves = np.where(silent, ratio(errors, trials + 0 * errors), ratio(share * (rates - value), 1.0 - share))
    top = np.where(silent.any(axis=0), np.fmax(highest(errors, sizes), value), highest(errors, sizes))
    certain = (value == 0) | ((value >= 1 - ALIKE) & (top <= 1))
    own = np.where(certain, 0.0, np.where(top > 1, value, value * (1.0 - value)))
    between, scaled = between_clusters(rates, ratio(own + 0 * sizes, sizes), inside, several)
    # Below 1 where clusters differ less than trials do by chance: listing each clip twice must not narrow the interval.
    quasi = np.minimum(ratio((scaled**2).sum(axis=0), np.maximum(several - 1.0, 1.0)), 1.0)
    alike = np.abs(np.where(inside, rates - value, 0.0)).max(axis=0, initial=0.0) <= ALIKE * np.maximum(value, 1.0)
    within = np.where(alike, 1.0, quasi) * ratio(own, trials)
    variance = np.maximum(np.nansum(moves**2, axis=0), between * np.nansum(share**2, axis=0) + within)
    # Clusters without trials cannot be standardised by them; there the unscaled moves count too.
    freedom = np.where(
        silent.any(axis=0),
        np.minimum(freedom_of(scaled, several), freedom_of(np.nan_to_num(moves), clusters)),
        freedom_of(scaled, several),
    )
    usable = several > 1
    return Spread(
        value=value,
        error=np.where(usable, np.where(certain, 0.0, np.sqrt(variance)), np.nan),
        freedom=np.where(usable, freedom, np.nan),
        clusters=np.where(usable, clusters, several).astype(np.int64),
        trials=trials,
        top=top,
    )


def between_clusters(
    rates: Floats, within: Floats, inside: NDArray[np.bool_], clusters: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return the variance of true rates between clusters, shape (rates,), and how far each rate lies from the mean.

    The variance at which the weighted squares of the rates about their weighted mean add up to m - 1 (Paule and Mandel
    1982), by Newton's steps, which come from below and never pass it; the distances are those of that point, in
    standard deviations.
    """
    between = np.zeros(rates.shape[1])
    # Rates that are 0 or 1 throughout vary neither within clusters nor between them.
    varies = np.nansum(np.where(inside, within, 0.0), axis=0) > 0
    for _ in range(STEPS):
        weight, apart = _weighted(rates, within, inside, between)
        excess = (weight * apart**2).sum(axis=0) - (clusters - 1)
        step = np.where(varies & (excess > 0), _or_zero(excess, (weight**2 * apart**2).sum(axis=0)), 0.0)
        between = between + step
        if np.all(step <= 1e-9 * between):
            break
    weight, apart = _weighted(rates, within, inside, between)
    return between, np.sqrt(weight) * apart


def _weighted(rates: Floats, within: Floats, inside: NDArray[np.bool_], between: Floats) -> tuple[Floats, Floats]:
    weight = _or_zero(inside, within + between)
    mean = _or_zero((weight * rates).sum(axis=0), weight.sum(axis=0))
    return weight, np.where(inside, rates - mean, 0.0)


def _or_zero(numerator: Floats | NDArray[np.bool_], denominator: Floats) -> Floats:
    """Divide, with 0 where there is nothing to divide by."""
    quotient: Floats = np.divide(numerator, denominator, out=np.zeros(denominator.shape), where=denominator > 0)
    return quotient


def freedom_of(scaled: Floats, clusters: NDArray[np.int64]) -> Floats:
    """Return the degrees of freedom of `spread_of` from the distances of the clusters, shape (clusters, rates)."""
    m = clusters.astype(np.float64)
    squares, fourth = (scaled**2).sum(axis=0), (scaled**4).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = np.where(squares > ALIKE, m * fourth / squares**2, 1.0)
        seen = np.where(kurtosis > 1, 2 * m / (kurtosis - 1), np.inf)
        corrected = (m - 1) / ((m - 2) * (m - 3)) * ((m + 1) * (kurtosis - 3) + 6) + 3
        unbiased = np.where((m > 3) & (corrected > 1), 2 * m / (corrected - 1), np.inf)
    heavy = np.minimum(seen, unbiased)
    return np.maximum(np.minimum(m - 1, np.maximum(heavy, LEAST_FREEDOM)), 1.0)


def _all_alike(value: float, clusters: int, level: float) -> tuple[float, float]:
    """Return the exact interval for rates of 0 or 1, where all clusters are alike."""
    from audits.statistics.binomial import clopper_pearson

    return clopper_pearson(0 if value == 0 else clusters, clusters, level=level)
