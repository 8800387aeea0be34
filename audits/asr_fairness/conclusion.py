"""The answer: the largest gaps, what may be reported of them, and what may not."""

from collections.abc import Sequence

from audits.asr_fairness.contrasts import Contrast, by_size, gap_headline, judged_words, within
from audits.asr_fairness.counts import BASELINE, HEAD, TaskCounts, named
from audits.asr_fairness.measure import Counts
from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import decimals, written
from audits.core.records import KEY_NUMBERS
from audits.core.wording import listed, many, span
from audits.group_rates import METRIC_WORDS
from audits.group_rates.wording import columns_of, compared, spoken

MOST_NAMED = 6


def conclude(draft: Draft, counts: Counts, judged: Sequence[Contrast], reported: Sequence[Contrast]) -> None:
    """Set the answer.

    Parameters
    ----------
    judged
        All contrasts of all tasks.
    reported
        Those with a finding of their own.
    """
    reported = by_size(reported)
    draft.conclude(
        _title(judged, reported),
        numbers=[(contrast.gap, _number_words(contrast)) for contrast in reported[:KEY_NUMBERS]],
        may=_may(draft, counts, reported),
        may_not=_may_not(draft, counts, judged, reported),
    )


def _title(judged: Sequence[Contrast], reported: Sequence[Contrast]) -> str:
    if reported:
        return gap_headline(reported[0])
    if not judged:
        return "No groups could be compared: too few speakers."
    return f"No gap between groups is shown in {many(len(judged), 'comparison', 'comparisons')}."


def _number_words(contrast: Contrast) -> str:
    comparison, layer = contrast.comparison, contrast.layer
    pair = compared(comparison.worst(layer), comparison.best(layer))
    return f"higher {METRIC_WORDS[comparison.task.metric]} {pair}, {judged_words(comparison.task, layer)}"


def _far(contrast: Contrast) -> str:
    """Return the largest gap that still fits the data."""
    return written(contrast.gap.high or 0.0, decimals(contrast.gap))


def _may(draft: Draft, counts: Counts, reported: Sequence[Contrast]) -> list[str]:
    lines = [
        f"The gap by {columns_of(one.by)} {within(one.comparison.task, one.layer)}: {span(one.gap)}."
        for one in reported[:MOST_NAMED]
    ]
    patterns = [claim for claim in draft.findings if claim.id == "fairness.layer-pattern"]
    lines += [claim.headline for claim in patterns if claim.headline.startswith("Layers")]
    options = counts.options
    for task in counts.tasks:
        row = draft.get("error_rate", **task.at(task.best), group=ALL)
        if not task.compared or row is None:
            continue
        dealt = f", dealt {many(options.repeats, 'time', 'times')}" if task.deals is not None else ""
        lines.append(
            f"The least {METRIC_WORDS[task.metric]} of linear probes ({options.folds} folds{dealt}), on layer "
            f"{task.best}: {span(row)}."
        )
        own = draft.get(named("error_rate", HEAD), **task.at(HEAD), group=ALL)
        if own is not None:
            lines.append(f"The {METRIC_WORDS[task.metric]} of {judged_words(task, HEAD)}: {span(own)}.")
    return lines


def _may_not(draft: Draft, counts: Counts, judged: Sequence[Contrast], reported: Sequence[Contrast]) -> list[str]:
    lines = []
    for one in reported:
        comparison, worst = one.comparison, one.comparison.worst(one.layer)
        before = draft.get("gap_to_others", **comparison.at(BASELINE, group=worst))
        if before is not None and before.above(0) and one.layer != HEAD:
            lines.append(
                f"That the encoder alone makes the gap of {spoken(worst)}: without it, on log-mel energies, it is "
                f"{span(before)}."
            )
    silent: dict[str, list[Contrast]] = {}
    for one in judged:
        if not one.shown and not one.crossed and one.gap.high is not None:
            silent.setdefault(within(one.comparison.task, one.layer), []).append(one)
    for where, alike in silent.items():
        few = alike[:MOST_NAMED]
        by, far = " or ".join(one.by for one in few), listed([_far(one) for one in few])
        fits = f"gaps of {far} still fit" if len(few) > 1 else f"a gap of {far} still fits"
        lines.append(f"That groups by {by} fare alike {where}: {fits} the data.")
    limited = [warning.where for warning in draft.warnings if warning.id == "at-the-limit"]
    judged_on = [(task, layer) for task in counts.tasks if task.compared for layer in task.judged]
    lines += [
        f"Much on the groups {within(task, layer)}: next to all or no trials go wrong there."
        for task, layer in judged_on
        if task.at(layer) in limited
    ]
    tasks: list[TaskCounts] = [task for task in counts.tasks if task.compared]
    if any(len(task.encoder_layers) > 1 for task in tasks):
        lines.append("In which layer a gap arises: whether layers differ in it was not tested.")
    if any(task.task == "sid" for task in tasks):
        lines.append("Errors in telling other speakers apart: identification is among these speakers only.")
    lines.append("What fine-tuning would do: a probe shows what a linear map reads off frozen layers.")
    lines.append("A cause, or anything on recordings of another kind.")
    return lines
