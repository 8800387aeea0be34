"""The rate of outputs with an error, corrected for what a metric misses and for its false alarms.

Rogan and Gladen (1978): of a share q that is flagged, with sensitivity se and specificity sp, (q + sp - 1) / (se + sp -
1) have an error. se and sp are those against people's labels where there are enough of both kinds. Else they are those
against planted errors, and the rate is that of errors of these kinds alone. Contexts are resampled together.
"""

from collections.abc import Sequence

import numpy as np

from audits.core.intervals import Interval, Undefined
from audits.faithfulness.faithful_texts import LEAST_LABELLED, OUTPUTS
from audits.faithfulness.measure import Counts
from audits.faithfulness.metrics import Floats
from audits.statistics import generator
from audits.statistics.bootstrap import cluster_weights, percentile_interval, ratio, resampled_sums

LEAST_POWER = 0.2
"""Sensitivity plus specificity less 1, below which a correction carries nothing."""
RESAMPLES, BLOCK = 2000, 100


def true_rate(flagged: Floats, sensitivity: Floats, specificity: Floats) -> Floats:
    """Return the corrected rate, within 0 and 1.

    >>> true_rate(np.array([0.30, 0.15]), np.array([0.80, 0.90]), np.array([0.85, 0.85])).round(4).tolist()
    [0.2308, 0.0]
    """
    return np.clip(ratio(flagged + specificity - 1, sensitivity + specificity - 1), 0.0, 1.0)


def corrected_rate(
    counts: Counts, system: str, metric: str, below: float, kinds: Sequence[str], *, level: float, seed: int
) -> Interval | Undefined:
    """Return a system's corrected rate, with a percentile interval over contexts.

    Parameters
    ----------
    below
        Score below which an output is flagged.
    kinds
        Planted errors that the sensitivity rests on, each at its least strength.
    """
    if counts.source == OUTPUTS:
        return Undefined(
            "Without references or labels no false alarms are known, so that no rate can be corrected.", "no-faithful"
        )
    sums = _sums(counts, system, metric, below, kinds)
    if not sums[1::2].any(axis=1).all():
        return Undefined("No output, faithful text or planted error has a score.", "few-outputs")
    rates = ratio(sums[::2].sum(axis=1), sums[1::2].sum(axis=1))
    power = rates[1] - rates[2]
    if power < LEAST_POWER:
        return Undefined(
            f"Sensitivity plus specificity less 1 is {power:.2f}, below {LEAST_POWER}: the metric tells too little.",
            "no-power",
        )
    rng = generator(seed, "corrected_rate", system, metric)
    # In blocks, so that memory does not grow with resamples times contexts.
    blocks = (cluster_weights(sums.shape[1], BLOCK, rng) for _ in range(RESAMPLES // BLOCK))
    drawn = np.concatenate([resampled_sums(weights, sums.T) for weights in blocks])
    flagged, sensitivity, alarms = (ratio(drawn[:, at], drawn[:, at + 1]) for at in (0, 2, 4))
    # A draw without any power is no estimate; that there are such draws makes the interval wide, not short.
    weak = sensitivity - alarms <= 0
    found = np.where(weak, np.where(np.arange(len(weak)) % 2, 0.0, 1.0), true_rate(flagged, sensitivity, 1 - alarms))
    ends = percentile_interval(found, int((sums[1::2] > 0).sum(axis=1).min()), level=level)
    if ends is None:
        return Undefined("There are too few contexts to resample.", "few-contexts")
    value = float(true_rate(rates[0], rates[1], 1 - rates[2]))
    if ends[0] == ends[1]:
        return Undefined("All resamples give the same rate: there are too few contexts, or no spread.", "no-spread")
    n = int(sums[1].sum())
    return Interval(
        value=value,
        low=min(ends[0], value),
        high=max(ends[1], value),
        method=f"Rogan-Gladen by {'labels' if by_labels(counts) else 'planted errors'}, bootstrap over contexts",
        n=n,
        unit="outputs",
    )


def by_labels(counts: Counts) -> bool:
    """Tell whether there are enough labels of both kinds for sensitivity and specificity to rest on these."""
    labels = [sample.label for sample in counts.samples]
    return min(labels.count(True), labels.count(False)) >= LEAST_LABELLED


def _sums(counts: Counts, system: str, metric: str, below: float, kinds: Sequence[str]) -> Floats:
    """Return flagged and all outputs of the system, planted errors, and faithful texts, by context: (6, contexts)."""
    contexts = counts.contexts
    faithful = contexts[counts.faithful]
    of_system = np.array([sample.system == system for sample in counts.samples])
    least = {
        one.corruption: one for one in sorted(counts.planted, key=lambda one: -one.strength) if one.corruption in kinds
    }
    scores = counts.scores[metric]
    labels = [sample.label for sample in counts.samples]
    if by_labels(counts):
        kinds_of = [np.array([label is value for label in labels]) for value in (False, True)]
        known = [(scores[side], contexts[side]) for side in kinds_of]
    else:
        planted = [one for one in least.values() if one.scores]
        wrong = np.concatenate([scores[:0], *(one.scores[metric] for one in planted)])
        of_wrong = np.concatenate([contexts[:0], *(faithful[one.rows] for one in planted)])
        known = [(wrong, of_wrong), (counts.faithful_scores[metric], faithful)]
    parts = [(scores[of_system], contexts[of_system]), *known]
    rows, count = [], int(contexts.max()) + 1
    for values, of in parts:
        there = np.isfinite(values)
        rows += [np.bincount(of[there], (values < below)[there], count), np.bincount(of[there], minlength=count)]
    return np.stack(rows).astype(np.float64)
