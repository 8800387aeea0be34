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
from audits.statistics.group_gaps import (
    GAP_METHOD,
    OTHERS_METHOD,
    Ends,
    Kind,
    contrast,
    extremes,
    gap_between,
    gaps_to_others,
    on_scale,
    spread_floor,
    stretched,
    undefined,
    unscaled,
)
from audits.statistics.group_sums import SpeakerSums, sum_by_speaker
from audits.statistics.label_shuffling import Chance, shuffle_labels
from audits.statistics.multiplicity import adjust
from audits.statistics.permutation import monte_carlo_p, permuted_group_sums
from audits.statistics.seeds import generator

__all__ = [
    "GAP_METHOD",
    "OTHERS_METHOD",
    "Chance",
    "Contrasts",
    "Ends",
    "Kind",
    "RateIntervals",
    "SpeakerSums",
    "adjust",
    "clopper_pearson",
    "cluster_weights",
    "contrast",
    "extremes",
    "gap_between",
    "gaps_to_others",
    "generator",
    "independent_difference",
    "mean_interval",
    "monte_carlo_p",
    "on_scale",
    "paired_difference",
    "percentile_interval",
    "permuted_group_sums",
    "rate_intervals",
    "ratio",
    "resampled_sums",
    "shuffle_labels",
    "simultaneous_contrasts",
    "spread_floor",
    "stretched",
    "sum_by_speaker",
    "undefined",
    "unscaled",
    "wilson",
]
