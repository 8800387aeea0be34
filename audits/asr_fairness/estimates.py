"""The estimates: the error of every group on every layer, the gaps between groups, and the choice of layers."""

from collections.abc import Sequence

import numpy as np

from audits.asr_fairness.cohort import Cohort, deal_rates, deal_spread, deal_variance, layer_choice, replicate_rates
from audits.asr_fairness.comparisons import Comparison
from audits.asr_fairness.counts import HEAD, TASK_WORDS, TEST, TaskCounts, named, sums_of
from audits.asr_fairness.data_warnings import warn_about_data
from audits.asr_fairness.measure import Counts
from audits.core.context import Draft
from audits.core.groups import ALL, MIN_WORDS
from audits.core.intervals import Interval
from audits.core.wording import first_of
from audits.group_rates import METRIC_WORDS, MIN_REPORTED
from audits.group_rates.cautions import too_few_words
from audits.group_rates.comparing import p_method
from audits.group_rates.rates import differing, differing_words, group_rates
from audits.statistics import SpeakerSums, adjust, mean_of_rates, scaled

TRIALS = {"wer": "words", "cer": "characters", "error": "clips"}
"""What a rate counts alike."""
MIN_ERRING = 5
"""Speakers with errors under which the interval of a rate tends to be too short."""


def estimates(draft: Draft, counts: Counts) -> None:
    """Add all estimates: rates, layers and gaps by metric, the rates of controls, and the corrected p-values."""
    warn_about_data(draft, counts)
    with draft.progress.phase("Statistics", len(counts.tasks), "metrics") as advance:
        for task in counts.tasks:
            add_rates(draft, task, counts.cohort)
            add_best_layer(draft, task, counts.cohort)
            warn_differing(draft, task, counts.cohort)
            add_spreads(draft, task, counts.cohort)
            _add_comparisons(draft, task, counts)
            advance(1)
    for control in counts.controls:
        add_rates(draft, control, counts.cohort)
    for task in counts.tasks:
        if task.compared:
            add_corrected(draft, counts.of(task))


def add_rates(draft: Draft, task: TaskCounts, cohort: Cohort) -> None:
    """Add the error rate of every group on every layer.

    The rate is pooled, errors over trials of all clips of the group, never a mean of clip rates.
    """
    sums = sums_of(task, cohort.speakers, cohort.member)
    between = deal_variance(deal_rates(task, cohort.member), draft.level)
    rates = group_rates(sums, level=draft.level, extra=between, most=1.0 if task.metric == "error" else np.inf)
    name = "control_error_rate" if task.control else "error_rate"
    for group, label in enumerate(cohort.names):
        if sums.sizes[:, group].sum() == 0:
            draft.warn("no-clips", "No clip of the group takes part in this task.", task=task.task, group=label)
            continue
        _warn_small(draft, task, sums, group, label)
        _warn_few_errors(draft, task, sums, group, label)
        for layer, rate in zip(task.layers, rates[group], strict=True):
            draft.add(named(name, layer), rate, **task.at(layer), group=label)


def _warn_small(draft: Draft, task: TaskCounts, sums: SpeakerSums, group: int, label: str) -> None:
    speakers, trials = int(sums.speakers[group]), int(sums.sizes[:, group].sum())
    few_words = task.task == "asr" and trials < MIN_WORDS
    if label == ALL or task.control or not (speakers < MIN_REPORTED or few_words):
        return
    rest = f"{speakers} speaker{'s' * (speakers != 1)}" + (f" and {trials} reference units" if few_words else "")
    message = f"The rate of {label} rests on {rest} only."
    if speakers < 2:
        message += " There is no interval: one speaker says nothing about others."
    draft.warn("small-group", message, task=task.task, metric=task.metric, group=label)


def _warn_few_errors(draft: Draft, task: TaskCounts, sums: SpeakerSums, group: int, label: str) -> None:
    """Warn where a rate rests on the errors of very few speakers."""
    erring = (sums.errors[:, group] > 0).sum(0)
    layers = [str(task.layers[column]) for column in np.flatnonzero((erring > 0) & (erring < MIN_ERRING))]
    if layers and sums.speakers[group] >= MIN_REPORTED and not task.control:
        draft.warn(
            "few-errors",
            f"On layer {', '.join(layers)} all errors of {label} come from fewer than {MIN_ERRING} speakers: its "
            "rate depends on whether such speakers were drawn.",
            **task.where,
            group=label,
        )


def add_best_layer(draft: Draft, task: TaskCounts, cohort: Cohort) -> None:
    """Add the encoder's layer with the least overall error."""
    layers = task.encoder_layers
    overall = task.overall(layers)
    alike = [str(layer) for layer, errors in zip(layers, overall, strict=True) if errors == min(overall)]
    if len(alike) > 1:
        draft.warn(
            "tied-layers",
            f"Layers {', '.join(alike)} have the same least {METRIC_WORDS[task.metric]} in "
            f"{TASK_WORDS[task.task]}: layer {task.best} stands for them only as the first.",
            **task.where,
            layer=task.best,
        )
    replicates = replicate_rates(task, cohort)[:, task.columns(layers)]
    draft.add("best_layer", layer_choice(task, cohort, overall, replicates), **task.where)


def warn_differing(draft: Draft, task: TaskCounts, cohort: Cohort) -> None:
    """Warn of groups where rates depend on the amount of speech, on the best layer and by the own head."""
    sums = sums_of(task, cohort.speakers, cohort.member)
    for column, layer in enumerate(task.layers):
        if layer not in task.judged:
            continue
        means = mean_of_rates(sums.errors[:, :, column], sums.sizes)
        groups = list(differing(*means, cohort.names, level=draft.level, tests=len(cohort.names)))
        if groups:
            by = "By the checkpoint's own head: " if layer == HEAD else ""
            draft.warn("rates-part", by + differing_words(groups, trials=TRIALS[task.metric]), **task.at(layer))


def add_spreads(draft: Draft, task: TaskCounts, cohort: Cohort) -> None:
    """Add the spread of the overall error between deals of the clips, on every layer."""
    dealt = deal_rates(task, cohort.everyone)
    if dealt is not None:
        for column, layer in enumerate(task.layers):
            draft.add("deal_spread", deal_spread(dealt[:, 0, column], draft.level), **task.at(layer), group=ALL)


def _add_comparisons(draft: Draft, task: TaskCounts, counts: Counts) -> None:
    known, least = {comparison.by: comparison for comparison in counts.of(task)}, counts.cohort.min_speakers
    for groups in counts.inputs.sets:
        comparison = known.get(groups.by)
        if comparison is None:
            few = too_few_words(groups.by, f"speakers ({least}) and words")
            draft.warn("too-few-speakers", few, **task.where, by=groups.by)
            continue
        left_out = set(groups.names) - set(comparison.names)
        if left_out:
            draft.warn(
                "not-compared",
                f"By {groups.by}, {len(left_out)} group{'s' * (len(left_out) != 1)} with too few speakers (under "
                f"{least}) or words {'are' if len(left_out) != 1 else 'is'} shown but not compared: "
                f"{first_of(sorted(left_out), 8)}.",
                **task.where,
                by=groups.by,
            )
        add_gaps(draft, comparison)


def add_gaps(draft: Draft, comparison: Comparison) -> None:
    """Add gaps of all kinds, each group against the others, noise floor, p-values, and the pattern over layers."""
    for name, where, found in comparison.numbers():
        draft.add(name, found, **where)


def add_corrected(draft: Draft, comparisons: Sequence[Comparison]) -> None:
    """Add the p-values of a task where groups are judged, by Holm for all its comparisons there."""
    rows = [
        draft.row(named("p_value", layer), **comparison.at(layer, test=TEST, correction="none"))
        for layer in (comparisons[0].task.judged if comparisons else ())
        for comparison in comparisons
    ]
    for raw, p in zip(rows, adjust([row.value for row in rows], "holm"), strict=True):
        ends = scaled((raw.value, raw.low, raw.high), p)
        method = p_method(ends, ", Holm over the attributes of the task")
        value, low, high = ends
        corrected = Interval(value=value, low=low, high=high, method=method, n=raw.n, unit=raw.unit)
        draft.add(raw.name, corrected, **{**raw.where, "correction": "holm"})
