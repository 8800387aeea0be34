"""What all audits share: intervals, resampling by unit, permutation, multiplicity and differences.

Nothing here knows what was measured. Engines hand over sums per independent unit (speaker, document,
sample); these functions turn the sums into intervals and p-values and never run a model again.
"""

from audits.statistics.binomial import clopper_pearson, wilson
from audits.statistics.bootstrap import (
    RateIntervals,
    cluster_weights,
    mean_interval,
    percentile_interval,
    rate_intervals,
    ratio,
    resampled_sums,
)
from audits.statistics.contrasts import Contrasts, simultaneous_contrasts
from audits.statistics.differences import independent_difference, paired_difference
from audits.statistics.multiplicity import adjust
from audits.statistics.permutation import monte_carlo_p, permuted_group_sums
from audits.statistics.seeds import generator

__all__ = [
    "Contrasts",
    "RateIntervals",
    "adjust",
    "clopper_pearson",
    "cluster_weights",
    "generator",
    "independent_difference",
    "mean_interval",
    "monte_carlo_p",
    "paired_difference",
    "percentile_interval",
    "permuted_group_sums",
    "rate_intervals",
    "ratio",
    "resampled_sums",
    "simultaneous_contrasts",
    "wilson",
]
