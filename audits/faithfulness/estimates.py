"""The table of the audit, from counts: metrics by system, what each can see, and how they agree with people.

All intervals are over contexts, whose outputs are no independent observations, or over training runs where there are
several of a system.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined
from audits.core.records import Coordinate
from audits.faithfulness.corrected_rates import corrected_rate
from audits.faithfulness.faithful_texts import OUTPUTS
from audits.faithfulness.measure import NOISY, SHUFFLED, Counts, Planted
from audits.faithfulness.metrics import FLAGGED_BELOW, LABEL, PLAUSIBILITY, SEES, Floats, Integers
from audits.statistics import generator
from audits.statistics.clustered_areas import area_interval, clustered_area, clustered_mean, paired_share
from audits.statistics.clustered_rates import rate_intervals
from audits.statistics.mean_intervals import mean_interval
from audits.statistics.rank_correlation import spearman_rows

Bools = NDArray[np.bool_]
ALL = "all"
DROP = "drop"
UNIT = "contexts"
STRATA = (("overlap<0.25", 0.0, 0.25), ("overlap 0.25-0.6", 0.25, 0.6), ("overlap>0.6", 0.6, 1.01))
"""Of the share of the output's pairs of words that the context holds, by which metrics are looked at apart."""
UNITS = {"cxmi_token": "token", "cxmi_output": "output", "cxmi_minimum": "minimum"}
RUNS = "Student t over training runs and over contexts, together"
FEW = Undefined("There are too few outputs of this kind.", "few-outputs")


def estimates(draft: Draft, counts: Counts) -> None:
    """Fill the table."""
    groups = dict(_groups(counts))
    for metric, scores in counts.scores.items():
        _add_means(draft, counts, metric, scores, groups)
    _add_differences(draft, counts, groups)
    _add_mentions(draft, counts)
    _add_trust(draft, counts)
    _add_flags(draft, counts)
    _add_labels(draft, counts, groups)
    _add_doses(draft, counts, counts.planted, "rate")
    _add_doses(draft, counts, counts.decodes, "alpha")


def _groups(counts: Counts) -> Iterator[tuple[str, Bools]]:
    """Yield all outputs, then those of each level of each column of groups, as masks."""
    yield ALL, np.ones(len(counts.samples), dtype=bool)
    for column in dict.fromkeys(name for sample in counts.samples for name in sample.groups):
        levels = np.array([sample.groups[column] for sample in counts.samples])
        for level in sorted(set(levels.tolist())):
            yield f"{column}={level}", levels == level


def _masks(values: Sequence[str]) -> dict[str, Bools]:
    array = np.array(values)
    return {value: array == value for value in dict.fromkeys(values)}


def systems_of(counts: Counts) -> dict[str, Bools]:
    """Return the outputs of each system, as masks."""
    return _masks([sample.system for sample in counts.samples])


def _add_means(draft: Draft, counts: Counts, metric: str, scores: Floats, groups: Mapping[str, Bools]) -> None:
    for system, of_system in systems_of(counts).items():
        for group, inside in groups.items():
            used = of_system & inside & np.isfinite(scores)
            row = mean_row(scores[used], counts.contexts[used], draft.level)
            if group == ALL or isinstance(row, Interval):
                draft.add("metric", row, system=system, metric=metric, group=group)
            if metric in UNITS and group == ALL and isinstance(row, Interval):
                draft.add("cxmi", row, system=system, unit=UNITS[metric])


def mean_row(values: Floats, clusters: Integers, level: float, unit: str = UNIT) -> Interval | Undefined:
    """Return the mean over outputs, with an interval over their contexts."""
    if len(values) < 2:
        return FEW
    if np.ptp(values) == 0:
        why = f"All {len(values)} scores are {values[0]:.3g}: without spread there is no interval."
        return Undefined(why, "equal-scores")
    found = clustered_mean(values, clusters, level=level, unit=unit)
    return ended(found, "There are fewer than two contexts with a score.")


def ended(found: Interval, why: str) -> Interval | Undefined:
    """Return a number with its interval, or that there is none."""
    return Undefined(why, "few-contexts") if found.low is None else found


def area_row(
    scores: Floats,
    positive: Bools,
    clusters: Integers,
    level: float,
    *,
    strata: Integers | None = None,
    across: bool = False,
    tied: bool = False,
) -> Interval | Undefined:
    """Return the AUC of scores with an interval over contexts; scores that are all equal have one only if `tied`."""
    used = np.isfinite(scores)
    scores, positive, clusters = scores[used], positive[used], clusters[used]
    if min(positive.sum(), (~positive).sum()) < 2:
        return FEW
    if not tied and len(np.unique(scores)) < 2:
        return Undefined("All scores are equal, so that they tell nothing apart.", "equal-scores")
    found = clustered_area(scores, positive, clusters, strata=None if strata is None else strata[used], across=across)
    if found is None:
        return FEW
    return ended(area_interval(found, level=level, unit=UNIT), "There are too few contexts.")


def _add_differences(draft: Draft, counts: Counts, groups: Mapping[str, Bools]) -> None:
    """Add the differences of every two systems, by contexts that both have an output for."""
    masks = systems_of(counts)
    runs = np.array([sample.run for sample in counts.samples])
    labels = np.array([np.nan if sample.label is None else float(sample.label) for sample in counts.samples])
    judged = {LABEL: labels} if np.isfinite(labels).any() else {}
    for system, against in combinations(masks, 2):
        for metric, scores in {**judged, **counts.scores}.items():
            for group, inside in groups.items():
                defined = inside & np.isfinite(scores)
                sides = [defined & masks[name] for name in (system, against)]
                row = difference_row(scores, counts.contexts, sides, runs, draft.level)
                if isinstance(row, Undefined) and row.id == "few-shared-contexts":
                    draft.warn(row.id, f"{system} and {against}: {row.why}", system=system, against=against)
                elif group == ALL or isinstance(row, Interval):
                    draft.add("difference", row, system=system, against=against, metric=metric, group=group)


def difference_row(
    scores: Floats, contexts: Integers, sides: Sequence[Bools], runs: NDArray[np.str_], level: float
) -> Interval | Undefined:
    """Return the first side's mean less the second's: over shared contexts, and over runs where both have several."""
    count = int(contexts.max()) + 1
    totals, sizes = (
        np.stack([np.bincount(contexts[side], weights, count) for side, weights in zip(sides, parts, strict=True)])
        for parts in ([scores[side] for side in sides], [np.ones(int(side.sum())) for side in sides])
    )
    shared: Bools = np.asarray((sizes > 0).all(axis=0))
    if shared.sum() < 2:
        why = "they share fewer than two contexts (column context_id says which outputs share one)."
        return Undefined(why, "few-shared-contexts")
    means = totals[:, shared] / sizes[:, shared]
    apart = means[0] - means[1]
    found = mean_interval(apart, level=level)
    value = float(apart.mean())
    if found is None:
        return Undefined("All contexts differ by the same amount.", "no-spread")
    method, (low, high), n, unit = *found, int(shared.sum()), "contexts"
    within = shared[contexts]
    by_run = [_run_means(scores, side & within, runs) for side in sides]
    if min(map(len, by_run)) > 1:
        reach = _over_runs(by_run, level)
        method, n, unit = RUNS, min(map(len, by_run)), "runs"
        # Other runs and other contexts would both move it.
        low, high = value - math.hypot(value - low, reach), value + math.hypot(high - value, reach)
    return Interval(value=value, low=low, high=high, method=method, n=n, unit=unit)


def _run_means(scores: Floats, side: Bools, runs: NDArray[np.str_]) -> dict[str, float]:
    return {run: float(scores[side & (runs == run)].mean()) for run in sorted(set(runs[side].tolist())) if run}


def _over_runs(by_run: Sequence[Mapping[str, float]], level: float) -> float:
    """Return how far the ends lie from the mean: paired where the runs have the same names, else Welch's."""
    from scipy.stats import t

    first, second = (np.array(list(runs.values())) for runs in by_run)
    if by_run[0].keys() == by_run[1].keys():
        parts, freedom = [(first - second).var(ddof=1) / len(first)], len(first) - 1.0
    else:
        parts = [side.var(ddof=1) / len(side) for side in (first, second)]
        below = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (first, second), strict=True))
        freedom = sum(parts) ** 2 / below if below else 1.0
    return float(t.isf((1 - level) / 2, freedom) * np.sqrt(sum(parts)))


def _add_mentions(draft: Draft, counts: Counts) -> None:
    for kind, (mentions, unsupported) in counts.mentions.items():
        for system, inside in systems_of(counts).items():
            row = rate_row(unsupported[inside], mentions[inside], counts.contexts[inside], draft.level, "mentions")
            draft.add("unsupported_rate", row, system=system, kind=kind)


def rate_row(
    hits: NDArray[Any], sizes: NDArray[Any], contexts: Integers, level: float, unit: str
) -> Interval | Undefined:
    """Return the share of hits in all, pooled, with an interval over contexts."""
    number = np.unique(contexts, return_inverse=True)[1]
    above, below = (np.asarray(np.bincount(number, weights), dtype=np.float64) for weights in (hits, sizes))
    if not below.sum():
        return Undefined(f"There are no {unit}.", "no-mentions")
    found = rate_intervals(above[:, None], below[:, None], level=level)
    value, low, high = float(found.value[0]), float(found.low[0]), float(found.high[0])
    if not np.isfinite(low):
        return Undefined("There are fewer than two contexts.", "few-contexts")
    return Interval(value=value, low=low, high=high, method=found.method[0], n=int(below.sum()), unit=unit)


def _add_trust(draft: Draft, counts: Counts) -> None:
    """Add what each metric sees of the errors that were planted, and of content that was left out."""
    faithful = counts.contexts[counts.faithful]
    for planted in (*counts.planted, *(counts.decodes[1:] if counts.decodes and counts.decodes[0].scores else ())):
        clusters = faithful[planted.rows]
        for metric, after in planted.scores.items():
            if planted.corruption == NOISY:
                before = counts.decodes[0].scores[metric]
                pooled = _pooled(before, after, faithful[counts.decodes[0].rows], clusters, draft.level)
            else:
                before = counts.faithful_scores[metric]
                # Texts in which this error cannot be planted may differ from the others in their scores.
                pooled = _pooled(before[planted.rows], after, clusters, clusters, draft.level)
            where: dict[str, Coordinate] = {
                "metric": metric,
                "corruption": planted.corruption,
                "strength": planted.strength,
            }
            if metric != PLAUSIBILITY:
                draft.add("detection_auc", pooled, **where, pairing="pooled")
            if planted.corruption != NOISY:
                both = _paired(before[planted.rows], after, clusters, draft.level)
                draft.add("detection_auc", both, **where, pairing="paired")
    _add_omissions(draft, counts)


def _pooled(
    before: Floats, after: Floats, faithful: Integers, clusters: Integers, level: float
) -> Interval | Undefined:
    """Return the AUC of faithful texts against those with an error, of other contexts."""
    scores = np.concatenate((before, after))
    positive = np.arange(len(scores)) < len(before)
    return area_row(scores, positive, np.concatenate((faithful, clusters)), level, across=True, tied=True)


def _paired(before: Floats, after: Floats, clusters: Integers, level: float) -> Interval | Undefined:
    used = np.isfinite(before) & np.isfinite(after)
    if used.sum() < 2:
        return FEW
    found = paired_share(after[used], before[used], clusters[used], level=level, unit=UNIT)
    return ended(found, "There are fewer than two contexts.")


def _add_omissions(draft: Draft, counts: Counts) -> None:
    """Add how far each metric takes what is left out for invention: what published data know, else what was planted."""
    omits = [sample.omits for sample in counts.samples]
    if any(omits):
        known = np.array(
            [omit is not None and sample.label is True for omit, sample in zip(omits, counts.samples, strict=True)]
        )
        clean = known & ~np.array([bool(omit) for omit in omits])
        for metric, scores in counts.scores.items():
            row = area_row(scores[known], clean[known], counts.contexts[known], draft.level)
            draft.add("omission_auc", row, metric=metric)
        return
    least = min((one.strength for one in counts.planted if one.corruption == DROP), default=None)
    for one in draft.select("detection_auc", corruption=DROP, strength=least or 0.0, pairing="pooled"):
        found = Interval(value=one.value, low=one.low, high=one.high, method=one.method, n=one.n, unit=one.unit)
        draft.add("omission_auc", found, metric=str(one.where["metric"]))


def _add_flags(draft: Draft, counts: Counts) -> None:
    """Add how many faithful texts are flagged, and of each system the rate of errors that this leaves."""
    faithful = counts.contexts[counts.faithful]
    for metric, below in FLAGGED_BELOW.items():
        if metric not in counts.faithful_scores:
            continue
        scores = counts.faithful_scores[metric]
        there = np.isfinite(scores)
        alarms = (scores < below).astype(np.float64)
        alarm = rate_row(alarms[there], np.ones(int(there.sum())), faithful[there], draft.level, "outputs")
        if counts.source != OUTPUTS:
            draft.add("false_alarm", alarm, metric=metric)
        kinds = SEES.get(metric, ("name", "value", "number", "negation"))
        for system in systems_of(counts):
            row = corrected_rate(counts, system, metric, below, kinds, level=draft.level, seed=draft.seed)
            draft.add("corrected_rate", row, system=system, metric=metric)


def _add_labels(draft: Draft, counts: Counts, groups: Mapping[str, Bools]) -> None:
    """Add the rates of labels, and how metrics agree with them: pooled, within a system, and for the same context."""
    judged = np.array([sample.label is not None for sample in counts.samples])
    if not judged.any():
        return
    faithful = np.array([bool(sample.label) for sample in counts.samples])
    contexts, masks = counts.contexts, systems_of(counts)
    for system, inside in masks.items():
        used = inside & judged
        row = rate_row(
            faithful[used].astype(np.float64), np.ones(int(used.sum())), contexts[used], draft.level, "outputs"
        )
        draft.add("label_rate", row, system=system)
    if len({bool(one) for one in faithful[judged]}) < 2:
        return
    number = np.unique([sample.system for sample in counts.samples], return_inverse=True)[1]
    if len(masks) > 1:
        half = generator(draft.seed, "halves of the contexts").permutation(int(contexts.max()) + 1)[contexts] % 2
        rates = _rates_elsewhere(faithful, judged, masks.values(), half)
        row = area_row(rates[judged], faithful[judged], contexts[judged], draft.level, strata=half[judged])
        draft.add("system_only_auc", row)
    scopes = {"pooled": None, "within_system": number, "same_context": contexts}
    several = {**groups, **_strata(counts), **{f"system={name}": inside for name, inside in masks.items()}}
    for metric, scores in counts.scores.items():
        for group, inside in several.items() if len(masks) > 1 else {**groups, **_strata(counts)}.items():
            used = inside & judged
            for scope, strata in scopes.items() if group == ALL else [("pooled", None)]:
                if scope == "within_system" and len(masks) < 2:
                    continue
                row = area_row(
                    scores[used],
                    faithful[used],
                    contexts[used],
                    draft.level,
                    strata=None if strata is None else strata[used],
                )
                if isinstance(row, Interval) or (group == ALL and scope == "pooled"):
                    draft.add("human_auc", row, metric=metric, scope=scope, group=group)


def _rates_elsewhere(faithful: Bools, judged: Bools, systems: Iterable[Bools], half: Integers) -> Floats:
    """Return of each output the rate of labels of its system in the other half of the contexts, NaN without any.

    Rates of the same labels would tell these apart even where systems do not differ.
    """
    rates = np.full(len(judged), np.nan)
    for inside in systems:
        for side in (0, 1):
            other = inside & judged & (half != side)
            rates[inside & (half == side)] = faithful[other].mean() if other.any() else np.nan
    return rates


def _strata(counts: Counts) -> dict[str, Bools]:
    """Return the outputs by how much of them the context holds word by word, where that was measured."""
    if "bigram_precision" not in counts.scores:
        return {}
    share = counts.scores["bigram_precision"]
    return {name: (share >= low) & (share < high) for name, low, high in STRATA}


def _add_doses(draft: Draft, counts: Counts, planted: Sequence[Planted], knob: str) -> None:
    """Add the rank correlation of score and dose within each text, over all kinds of error that are no omission."""
    faithful = counts.contexts[counts.faithful]
    kinds = [kind for kind in dict.fromkeys(one.corruption for one in planted) if kind not in (DROP, SHUFFLED)]
    metrics = dict.fromkeys(metric for one in planted for metric in one.scores)
    for metric in metrics:
        found, clusters = [], []
        for kind in kinds:
            doses = [one for one in planted if one.corruption == kind and metric in one.scores]
            # The last decodes are those without noise, once more with another seed.
            doses = doses if knob == "rate" else [one for one in doses if one is not planted[-1]]
            table = np.full((len(faithful), len(doses) + 1), np.nan)
            if knob == "rate":
                table[:, 0] = counts.faithful_scores[metric]
            for column, one in enumerate(doses, start=1):
                table[one.rows, column] = one.scores[metric]
            strengths = np.array([0.0, *(one.strength for one in doses)])
            used = np.isfinite(table).all(axis=1) if knob == "rate" else np.isfinite(table[:, 1:]).all(axis=1)
            table, strengths = (table, strengths) if knob == "rate" else (table[:, 1:], strengths[1:])
            if used.any() and len(strengths) > 2:
                ranks = spearman_rows(np.broadcast_to(strengths, table[used].shape), table[used])
                # A text whose score never moves does not answer to the dose.
                found.append(np.nan_to_num(ranks, nan=0.0))
                clusters.append(faithful[used])
        if found:
            row = _dose_row(np.concatenate(found), np.concatenate(clusters), draft.level)
            draft.add("dose_response", row, metric=metric, knob=knob)


def _dose_row(ranks: Floats, clusters: Integers, level: float) -> Interval | Undefined:
    """Return the mean rank correlation; where every text falls in perfect order, by the share of those that do."""
    if len(ranks) < 2 or ranks.max() > -1 + 1e-9:
        return mean_row(ranks, clusters, level)
    share = rate_row(np.ones(len(ranks)), np.ones(len(ranks)), clusters, level, UNIT)
    if isinstance(share, Undefined) or share.low is None:
        return share
    return replace(share, value=-1.0, low=-1.0, high=1 - 2 * share.low)
