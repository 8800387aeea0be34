"""What all audits share: intervals, resampling by unit, permutation, multiplicity and differences.

Nothing here knows what was measured. Engines hand over sums per independent unit (speaker, document,
sample); these functions turn the sums into intervals and p-values and never run a model again.
"""

from audits.statistics.adjusted_gaps import adjusted_gap, adjusted_rates
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
from audits.statistics.faas import Undefined, fairness_adjusted_score
from audits.statistics.group_gaps import (
    GAP_METHOD,
    OTHERS_METHOD,
    Ends,
    Kind,
    all_pairs,
    extremes,
    gap_between,
    gaps_to_one,
    gaps_to_others,
    on_scale,
    spread_floor,
    stretched,
    undefined,
    unscaled,
)
from audits.statistics.group_sums import SpeakerSums, sum_by_speaker
from audits.statistics.inequality import (
    DifferentialFairness,
    Split,
    atkinson,
    differential_fairness,
    generalised_entropy,
)
from audits.statistics.label_shuffling import Chance, Contrast, shuffle_labels
from audits.statistics.linearised import Differences, linearised_differences
from audits.statistics.multiplicity import MaybeEnds, adjust, scaled
from audits.statistics.permutation import enough_permutations, monte_carlo_p, permuted_group_sums
from audits.statistics.poisson_gee import NotFitted, PoissonFit, fit_poisson_gee
from audits.statistics.poisson_tests import attenuation, coefficient_interval, coefficient_p, share_left, wald_test
from audits.statistics.pooling import Shrunken, shrink_rates
from audits.statistics.score_effects import score_effects
from audits.statistics.seeds import generator

__all__ = [
    "GAP_METHOD",
    "OTHERS_METHOD",
    "Chance",
    "Contrast",
    "Contrasts",
    "Differences",
    "DifferentialFairness",
    "Ends",
    "Kind",
    "MaybeEnds",
    "NotFitted",
    "PoissonFit",
    "RateIntervals",
    "Shrunken",
    "SpeakerSums",
    "Split",
    "Undefined",
    "adjust",
    "adjusted_gap",
    "adjusted_rates",
    "all_pairs",
    "atkinson",
    "attenuation",
    "clopper_pearson",
    "cluster_weights",
    "coefficient_interval",
    "coefficient_p",
    "differential_fairness",
    "enough_permutations",
    "extremes",
    "fairness_adjusted_score",
    "fit_poisson_gee",
    "gap_between",
    "gaps_to_one",
    "gaps_to_others",
    "generalised_entropy",
    "generator",
    "independent_difference",
    "linearised_differences",
    "mean_interval",
    "monte_carlo_p",
    "on_scale",
    "paired_difference",
    "percentile_interval",
    "permuted_group_sums",
    "rate_intervals",
    "ratio",
    "resampled_sums",
    "scaled",
    "score_effects",
    "share_left",
    "shrink_rates",
    "shuffle_labels",
    "simultaneous_contrasts",
    "spread_floor",
    "stretched",
    "sum_by_speaker",
    "undefined",
    "unscaled",
    "wald_test",
    "wilson",
]
