"""Statistics that all audits share: intervals, resampling by unit, permutation, multiplicity and differences.

Nothing here knows what was measured. Engines hand over sums per independent unit (speaker, document,
sample); these functions turn the sums into intervals and p-values and never run a model again.
"""

from audits.statistics.adjusted_gaps import adjusted_gap, adjusted_rates
from audits.statistics.binomial import clopper_pearson, exact_share, wilson
from audits.statistics.bootstrap import (
    blocks_of,
    cluster_counts,
    cluster_weights,
    mean_and_quantiles,
    percentile_interval,
    ratio,
    resampled_sums,
)
from audits.statistics.clustered_rates import (
    RateIntervals,
    differs_from_pooled,
    intervals_of,
    mean_of_rates,
    rate_intervals,
)
from audits.statistics.contrasts import Contrasts, all_pairs, simultaneous_contrasts
from audits.statistics.differences import independent_difference
from audits.statistics.faas import Undefined, fairness_adjusted_score
from audits.statistics.families import Family, joint_chance, tail_of
from audits.statistics.group_gaps import (
    GAP_METHOD,
    OTHERS_METHOD,
    RATIO_METHOD,
    Ends,
    Kind,
    clearest,
    extremes,
    gap_between,
    gaps_to_one,
    gaps_to_others,
    on_scale,
    reaching,
    spread_between,
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
from audits.statistics.jackknife import jackknife_interval, left_out
from audits.statistics.label_shuffling import Chance, Contrast, shuffle_labels
from audits.statistics.linearised import Differences, linearised_differences
from audits.statistics.mean_intervals import mean_interval
from audits.statistics.multiplicity import MaybeEnds, adjust, scaled
from audits.statistics.permutation import (
    FEW_RESAMPLES,
    OUT_OF_REACH,
    enough_permutations,
    few_resamples,
    monte_carlo_p,
    out_of_reach,
    permuted_group_sums,
)
from audits.statistics.poisson_gee import NotFitted, PoissonFit, Summed, fit_poisson_gee
from audits.statistics.poisson_tests import attenuation, coefficient_interval, coefficient_p, share_left, wald_test
from audits.statistics.pooling import Shrunken, shrink_rates
from audits.statistics.score_effects import score_effects
from audits.statistics.seeds import generator
from audits.statistics.student_contrasts import StudentContrasts, student_contrasts
from audits.statistics.unit_moves import Floats, Side, change_of_rate, student, variance_or_least

__all__ = [
    "FEW_RESAMPLES",
    "GAP_METHOD",
    "OTHERS_METHOD",
    "OUT_OF_REACH",
    "RATIO_METHOD",
    "Chance",
    "Contrast",
    "Contrasts",
    "Differences",
    "DifferentialFairness",
    "Ends",
    "Family",
    "Floats",
    "Kind",
    "MaybeEnds",
    "NotFitted",
    "PoissonFit",
    "RateIntervals",
    "Shrunken",
    "Side",
    "SpeakerSums",
    "Split",
    "StudentContrasts",
    "Summed",
    "Undefined",
    "adjust",
    "adjusted_gap",
    "adjusted_rates",
    "all_pairs",
    "atkinson",
    "attenuation",
    "blocks_of",
    "change_of_rate",
    "clearest",
    "clopper_pearson",
    "cluster_counts",
    "cluster_weights",
    "coefficient_interval",
    "coefficient_p",
    "differential_fairness",
    "differs_from_pooled",
    "enough_permutations",
    "exact_share",
    "extremes",
    "fairness_adjusted_score",
    "few_resamples",
    "fit_poisson_gee",
    "gap_between",
    "gaps_to_one",
    "gaps_to_others",
    "generalised_entropy",
    "generator",
    "independent_difference",
    "intervals_of",
    "jackknife_interval",
    "joint_chance",
    "left_out",
    "linearised_differences",
    "mean_and_quantiles",
    "mean_interval",
    "mean_of_rates",
    "monte_carlo_p",
    "on_scale",
    "out_of_reach",
    "percentile_interval",
    "permuted_group_sums",
    "rate_intervals",
    "ratio",
    "reaching",
    "resampled_sums",
    "scaled",
    "score_effects",
    "share_left",
    "shrink_rates",
    "shuffle_labels",
    "simultaneous_contrasts",
    "spread_between",
    "student",
    "student_contrasts",
    "sum_by_speaker",
    "tail_of",
    "undefined",
    "unscaled",
    "variance_or_least",
    "wald_test",
    "wilson",
]
