"""Shrinkage of the error rates of small groups towards the pooled rate (Gamma-Poisson empirical Bayes).

A rate from a few hundred words is mostly noise. Empirical Bayes draws it towards the rate of everybody, the more
so the fewer words there are and the more alike the groups are; how alike is estimated from the groups.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audits.statistics.binomial import clopper_pearson
from audits.statistics.clustered_rates import LEAST_FREEDOM, ends_within, highest
from audits.statistics.moderated import squeeze
from audits.statistics.unit_moves import change_of_rate, variance_or_least

Floats = NDArray[np.float64]
STEPS = 200
"""Spreads between groups over which an interval is averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunken:
    """Rates of groups shrunk towards the rate of all, arrays of shape (groups,).

    `prior_mean` is the rate of all, `prior_words` how many words it weighs as much as for each group (0: nothing was
    pooled), and `design_effect` how many times more the rate of each varies than if every word went wrong on its own.
    """

    value: Floats
    low: Floats
    high: Floats
    prior_words: Floats
    prior_mean: float
    design_effect: Floats


def shrink_rates(errors: Floats, sizes: Floats, *, level: float = 0.95) -> Shrunken:
    """Return the Gamma-Poisson empirical Bayes rates of groups, (E_g + k_g m) / (N_g + k_g).

    For group g with E_g errors in N_g words, m is the pooled rate, and k_g = d_g m / tau^2 (Clayton and Kaldor 1987 for
    d = 1), at most as many words as all groups have together. d_g is the design effect (`_groups`), tau^2 the variance
    between groups (`_variance_between`); `_limits` has the interval.

    Not accounted for: that a speaker may be in several groups, and that the groups may have an order or come from
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
        For a group without words, or where no group of two speakers or more has an error: then nothing says how alike
        the errors of one speaker are.

    Examples
    --------
    Two groups alike in all but size: tau is 0 and k all 100 words, (1 + 100 * 0.21) / (10 + 100) = 0.2.

    >>> sizes = np.array([[5.0, 0.0], [5.0, 0.0], [0.0, 45.0], [0.0, 45.0]])
    >>> errors = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 8.0], [0.0, 12.0]])
    >>> found = shrink_rates(errors, sizes)
    >>> found.prior_mean, found.prior_words.tolist(), np.round(found.value, 3).tolist()
    (0.21, [100.0, 100.0], [0.2, 0.216])
    """
    if np.any(sizes.sum(axis=0) <= 0) or not sizes.size:
        raise ValueError("a group has no words: leave it out")
    if not errors.any():
        return _without_errors(sizes, level)
    groups = _groups(errors, sizes)
    tau2 = _variance_between(groups)
    most = groups.sizes.sum() if len(groups.rates) > 1 else 0.0
    words = np.minimum(groups.effects * groups.mean / tau2, most) if tau2 > 0 else np.full(len(groups.rates), most)
    value = (groups.errors + words * groups.mean) / (groups.sizes + words)
    low, high = _limits(value, groups, highest(errors, sizes).max(), level)
    return Shrunken(
        value=value,
        low=low,
        high=high,
        prior_words=words,
        prior_mean=groups.mean,
        design_effect=groups.effects,
    )


class _Groups(NamedTuple):
    """Sums and rates of the groups, the pooled rate, the design effects and their degrees of freedom.

    `alone` are the design effects as they were found, the common one for a group that has none of its own.
    """

    errors: Floats
    sizes: Floats
    rates: Floats
    mean: float
    effects: Floats
    alone: Floats
    freedom: Floats


def _groups(errors: Floats, sizes: Floats) -> _Groups:
    """Sum up the groups, and estimate how many times more a rate varies than if every word went wrong on its own.

    For group g with rate e_g and speakers s that design effect is

        sum_s (E_sg - e_g N_sg)^2 / E_g (1 - sum_s N_sg^2 / N_g^2);

    the bracket makes up for e_g being fitted. The common d is the sum of the numerators over that of the denominators,
    over groups of two speakers or more, at least 1. d_g is the group's own where that is larger, else d: a group whose
    speakers are more unlike than those of others keeps its noise, and one that looks even by chance loses none.

    Degrees of freedom are the group's own where its design effect is (those of `unit_moves.variance`, and no fewer than
    its rate has at the least), else as many as the groups have together by how alike their design effects are (Smyth
    2004).
    """
    wrong, words = errors.sum(axis=0), sizes.sum(axis=0)
    speakers = (sizes > 0).sum(axis=0)
    rates, several = wrong / words, speakers > 1
    expected = wrong * (1 - ((sizes / words) ** 2).sum(axis=0))
    if expected[several].sum() <= 0:
        raise ValueError("no group of two speakers or more has an error: how alike those of a speaker are is unknown")
    apart = ((errors - rates * sizes) ** 2).sum(axis=0)
    found = float(apart[several].sum() / expected[several].sum())
    common = max(1.0, found)
    effects, raw = np.full(len(rates), common), np.full(len(rates), common)
    left = np.full(len(rates), float((speakers - 1)[several].sum()))
    own = np.flatnonzero(several & (expected > 0))
    if len(own) > 1:
        alone = apart[own] / expected[own]
        freedom = np.array([_freedom(errors[:, at], sizes[:, at]) for at in own])
        drawn = squeeze(alone, freedom)
        # A group with one speaker, or without an error, uses the common degrees of freedom.
        left[:] = np.clip(drawn.prior_df, 1.0, left)
        # At least as many as the interval of the group's own rate would use.
        floor = np.minimum(speakers[own] - 1.0, LEAST_FREEDOM)
        left[own] = np.where(alone > common, np.maximum(freedom, floor), drawn.freedom)
        effects[own] = np.maximum(alone, common)
        raw[own] = alone if found > 1 else common
    return _Groups(
        errors=wrong,
        sizes=words,
        rates=rates,
        mean=float(wrong.sum() / words.sum()),
        effects=effects,
        alone=raw,
        freedom=left,
    )


def _freedom(errors: Floats, sizes: Floats) -> float:
    there = (sizes > 0) | (errors > 0)
    return variance_or_least(change_of_rate(errors[there], sizes[there])[1])[1]


def _variance_between(groups: _Groups) -> float:
    """Return the variance of the true rates between groups by moments (DerSimonian and Laird 1986).

    With weights N_g, N of them in all, and the sampling variance d_g m / N_g it is

        tau^2 = max(0, (sum_g N_g (e_g - m)^2 - m sum_g d_g (1 - N_g / N)) / (N - sum_g N_g^2 / N)),

    in which d_g is the group's own also where it is smaller than the common one.
    """
    words = groups.sizes.sum()
    apart = (groups.sizes * (groups.rates - groups.mean) ** 2).sum()
    chance = groups.mean * (groups.alone * (1 - groups.sizes / words)).sum()
    room = words - (groups.sizes**2).sum() / words
    return max(0.0, float(apart - chance)) / float(room) if len(groups.rates) > 1 else 0.0


def _limits(value: Floats, groups: _Groups, top: float, level: float) -> tuple[Floats, Floats]:
    """Return Student's limits with the ends of `Spread.ends`; `top`, what any speaker reached, is possible for all.

    A group without an error has the low end 0, as nothing speaks against that rate.
    """
    from scipy.special import stdtrit

    reach = -stdtrit(np.maximum(groups.freedom, 1.0), (1.0 - level) / 2) * np.sqrt(_variance(value, groups))
    low, high = ends_within(value, reach, np.full(len(value), top))
    return np.where(groups.errors > 0, low, 0.0), high


def _variance(value: Floats, groups: _Groups) -> Floats:
    """Return the expected squared distance of the true rates from `value`, averaged over tau.

    With k known it would be that of a Gamma distribution, d e / (N_g + k). Since k and m are estimated, such intervals
    cover far too seldom with few groups. So it is averaged over a flat prior of tau (Gelman 2006), with m fitted anew
    for each tau and the spread of the means added.
    """
    sampling = groups.effects * groups.mean / groups.sizes
    if len(value) == 1:
        return sampling
    least, most = np.sqrt(sampling.min()), max(np.sqrt(sampling.max()), np.abs(groups.rates - groups.mean).max())
    # From spreads far below the noise to spreads far above all that was observed.
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
    # The Gamma variance given m, plus the variance of the fitted m.
    spread = centre * (1 - drawn) * groups.effects / groups.sizes + drawn**2 / total
    return np.asarray((chance * (spread + (centre - value) ** 2)).sum(axis=0), dtype=np.float64)


def _without_errors(sizes: Floats, level: float) -> Shrunken:
    speakers = (sizes > 0).sum(axis=0)
    none = np.zeros(sizes.shape[1])
    high = np.array([clopper_pearson(0, int(count), level=level)[1] for count in speakers])
    return Shrunken(value=none, low=none, high=high, prior_words=none, prior_mean=0.0, design_effect=none + 1)
