"""What is the error rate of a small group likely to be, given those of all the others?

A rate from a few hundred words is mostly noise. Empirical Bayes draws it towards the rate of everybody, the more
so the fewer words there are and the more alike the groups are; how alike they are is learnt from the groups.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audits.statistics.binomial import clopper_pearson

Floats = NDArray[np.float64]
STEPS = 200
"""Spreads between groups over which an interval is averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunken:
    """Rates of groups drawn towards the rate of all, arrays of shape (groups,).

    `prior_mean` is the rate of all, `prior_words` how many words it weighs as much as (0: nothing was pooled), and
    `design_effect` how many times more a rate varies than if every word went wrong on its own.
    """

    value: Floats
    low: Floats
    high: Floats
    prior_words: float
    prior_mean: float
    design_effect: float


def shrink_rates(errors: Floats, sizes: Floats, *, level: float = 0.95) -> Shrunken:
    """Return the Gamma-Poisson empirical Bayes rates of groups, (E_g + k m) / (N_g + k).

    For group g with E_g errors in N_g words and rate e_g: m is the pooled rate, and k = d m / tau^2 (Clayton and
    Kaldor 1987 for d = 1). One design effect serves all groups, so that a group of one speaker has one too,

        d = sum_g sum_s (E_sg - e_g N_sg)^2 / sum_g E_g (1 - sum_s N_sg^2 / N_g^2), at least 1,

    over groups of two speakers or more; the bracket makes up for e_g being fitted. With the sampling variance
    d m / N_g the variance between groups is by moments (DerSimonian and Laird 1986, weights N_g, N of them in all)

        tau^2 = max(0, (sum_g N_g (e_g - m)^2 - (G - 1) d m) / (N - sum_g N_g^2 / N)).

    k is at most N: no group is pooled onto more than all that was heard. The interval has the quantiles of a Gamma
    distribution. With k known its variance would be d e / (N_g + k), shape (E_g + k m) / d; since k and m are
    estimated, that covers far too seldom with few groups. So the variance is averaged over a flat prior of tau
    (Gelman 2006), with m fitted anew for each tau and the spread of the means added, and taken times the square of
    Student's over the normal quantile for the degrees of freedom of d. A group without an error has the low end 0,
    as nothing speaks against that rate.

    What this ignores: that one speaker may be in several groups, that a speaker's errors may be more alike in one
    group than in another or where speakers have more words, and that the groups may have come in an order or from
    different populations. With fewer than about ten groups that differ much the raw rates are as good.

    Parameters
    ----------
    errors, sizes
        Errors and words of each speaker in each group, shape (speakers, groups). A speaker without words in a
        group is not in it.

    Returns
    -------
    Shrunken
        One group alone keeps its rate. Without a single error all rates are 0 with k = 0, d = 1, and the high end is
        the exact one (Clopper and Pearson) with the group's speakers as trials.

    Raises
    ------
    ValueError
        For a group without words, or where no group of two speakers or more has an error: how alike the errors of
        a speaker are cannot be told then.

    Examples
    --------
    Two groups alike in all but size: tau is 0 and k all 100 words, (1 + 100 * 0.21) / (10 + 100) = 0.2.

    >>> sizes = np.array([[5.0, 0.0], [5.0, 0.0], [0.0, 45.0], [0.0, 45.0]])
    >>> errors = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 8.0], [0.0, 12.0]])
    >>> found = shrink_rates(errors, sizes)
    >>> found.prior_mean, found.prior_words, np.round(found.value, 3).tolist()
    (0.21, 100.0, [0.2, 0.216])
    """
    if np.any(sizes.sum(axis=0) <= 0) or not sizes.size:
        raise ValueError("a group has no words: leave it out")
    if not errors.any():
        return _without_errors(sizes, level)
    groups = _groups(errors, sizes)
    tau2 = _variance_between(groups)
    words = 0.0
    if len(groups.rates) > 1:
        words = min(groups.effect * groups.mean / tau2, groups.sizes.sum()) if tau2 > 0 else groups.sizes.sum()
    value = (groups.errors + words * groups.mean) / (groups.sizes + words)
    low, high = _interval(value, _variance(value, groups), groups.freedom, level)
    low = np.where(groups.errors > 0, low, 0.0)
    return Shrunken(
        value=value,
        low=low,
        high=high,
        prior_words=float(words),
        prior_mean=groups.mean,
        design_effect=groups.effect,
    )


class _Groups(NamedTuple):
    """Sums and rates of the groups, the pooled rate, the design effect and its degrees of freedom."""

    errors: Floats
    sizes: Floats
    rates: Floats
    mean: float
    effect: float
    freedom: int


def _groups(errors: Floats, sizes: Floats) -> _Groups:
    wrong, words, speakers = errors.sum(axis=0), sizes.sum(axis=0), (sizes > 0).sum(axis=0)
    rates, several = wrong / words, speakers > 1
    expected = (wrong * (1 - ((sizes / words) ** 2).sum(axis=0)))[several].sum()
    if expected <= 0:
        raise ValueError("no group of two speakers or more has an error: how alike those of a speaker are is unknown")
    apart = ((errors - rates * sizes) ** 2).sum(axis=0)[several].sum()
    return _Groups(
        errors=wrong,
        sizes=words,
        rates=rates,
        mean=float(wrong.sum() / words.sum()),
        effect=max(1.0, float(apart / expected)),
        freedom=int((speakers - 1)[several].sum()),
    )


def _variance_between(groups: _Groups) -> float:
    words = groups.sizes.sum()
    apart = (groups.sizes * (groups.rates - groups.mean) ** 2).sum()
    chance = (len(groups.rates) - 1) * groups.effect * groups.mean
    room = words - (groups.sizes**2).sum() / words
    return max(0.0, float(apart - chance)) / float(room) if len(groups.rates) > 1 else 0.0


def _variance(value: Floats, groups: _Groups) -> Floats:
    """Return the expected squared distance of the true rates from `value`, averaged over tau."""
    sampling = groups.effect * groups.mean / groups.sizes
    if len(value) == 1:
        return sampling
    least, most = np.sqrt(sampling.min()), max(np.sqrt(sampling.max()), np.abs(groups.rates - groups.mean).max())
    # From spreads that are lost in the noise to ones beyond all that was seen.
    tau = np.geomspace(1e-3 * least, 10 * most, STEPS)[:, None]
    weight = 1 / (tau**2 + sampling)
    total = weight.sum(axis=1, keepdims=True)
    mean = (weight * groups.rates).sum(axis=1, keepdims=True) / total
    # Restricted likelihood of normal rates, times tau as the steps are even in its logarithm.
    log = (np.log(weight) - weight * (groups.rates - mean) ** 2).sum(axis=1, keepdims=True) - np.log(total)
    chance = np.exp((log - log.max()) / 2) * tau
    chance /= chance.sum()
    drawn = sampling * weight
    centre = (1 - drawn) * groups.rates + drawn * mean
    # The Gamma variance as if m were known, and what fitting m adds.
    spread = centre * (1 - drawn) * groups.effect / groups.sizes + drawn**2 / total
    return np.asarray((chance * (spread + (centre - value) ** 2)).sum(axis=0), dtype=np.float64)


def _interval(value: Floats, variance: Floats, freedom: int, level: float) -> tuple[Floats, Floats]:
    from scipy.stats import gamma, norm, t

    tail = (1.0 - level) / 2
    wider = variance * float(t.isf(tail, freedom) / norm.isf(tail)) ** 2
    shape, scale = value**2 / wider, wider / value
    # A very skew Gamma distribution may have its mean outside of its middle.
    low, high = gamma.ppf(tail, shape, scale=scale), gamma.isf(tail, shape, scale=scale)
    return low, np.maximum(high, value)


def _without_errors(sizes: Floats, level: float) -> Shrunken:
    speakers = (sizes > 0).sum(axis=0)
    none = np.zeros(sizes.shape[1])
    high = np.array([clopper_pearson(0, int(count), level=level)[1] for count in speakers])
    return Shrunken(value=none, low=none, high=high, prior_words=0.0, prior_mean=0.0, design_effect=1.0)
