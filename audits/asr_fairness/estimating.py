"""From counts to rates: every group on every layer, with intervals over speakers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness import Options
from audits.asr_fairness.counts import HEAD, METRIC_WORDS, TASK_WORDS, Floats, TaskCounts, sums_of
from audits.asr_fairness.dealing import deal_rates, deal_shifts, deal_variance, with_deals
from audits.asr_fairness.inputs import Inputs
from audits.context import Context, Draft
from audits.groups import ALL, MIN_WORDS, reported_groups
from audits.records import Estimate
from audits.statistics import (
    SpeakerSums,
    cluster_weights,
    generator,
    mean_of_rates,
    parts_from_pooled,
    rate_intervals,
    ratio,
)
from audits.wording import parting, rates_part

MIN_REPORTED = 5
"""Speakers under which a rate is shown as resting on too few."""
TRIALS = {"wer": "words", "cer": "characters", "error": "clips"}
"""What a rate counts alike."""
MIN_ERRING = 5
"""Speakers with errors under which the interval of a rate tends to be too short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The recordings as statistics see them.

    Parameters
    ----------
    speakers
        Speaker number of each recording.
    weights
        How often each speaker is drawn in each bootstrap sample, shape (repeats, speakers); the same for
        all tasks, layers and groups, so that differences stay paired.
    names, member
        Every group that gets a rate and who is in it, shape (groups, recordings).
    shifts
        How much more each deal of the clips counts in each bootstrap sample, shape (repeats, deals).
    """

    speakers: NDArray[np.int64]
    weights: Floats
    names: list[str]
    member: NDArray[np.bool_]
    shifts: Floats = field(default_factory=lambda: np.zeros((0, 0)))


def cohort_of(inputs: Inputs, options: Options, context: Context) -> Cohort:
    """Draw the bootstrap samples and list the groups."""
    known = sorted({item.speaker for item in inputs.recordings})
    place = {name: number for number, name in enumerate(known)}
    names, member = reported_groups([item.clip.attributes for item in inputs.recordings], inputs.sets)
    rng = generator(context.seed, "bootstrap")
    return Cohort(
        speakers=np.array([place[item.speaker] for item in inputs.recordings], dtype=np.int64),
        weights=cluster_weights(len(known), options.bootstrap, rng),
        names=names,
        member=member,
        shifts=deal_shifts(
            options.repeats, options.bootstrap, generator(context.seed, "bootstrap", "deals"), level=context.level
        ),
    )


def add_error_rates(draft: Draft, counts: TaskCounts, cohort: Cohort, context: Context) -> dict[tuple[int, str], int]:
    """Add the error rate of every group on every layer; return their indices by layer column and group.

    The rate is pooled, errors over trials of all clips of the group, never a mean of clip rates.
    """
    sums = sums_of(counts, cohort.speakers, cohort.member)
    layers = len(counts.layers)
    sizes = np.repeat(sums.sizes[:, :, None], layers, axis=2)
    flat = (len(sums.sizes), -1)
    between = deal_variance(deal_rates(counts, cohort.member), context.level)
    extra = np.broadcast_to(between, sums.errors.shape[1:]).ravel()
    errors = sums.errors.reshape(flat)
    rates = rate_intervals(errors, sizes.reshape(flat), level=context.level, extra=extra)
    name = "control_error_rate" if counts.control else "error_rate"
    indices: dict[tuple[int, str], int] = {}
    for group, label in enumerate(cohort.names):
        if sums.sizes[:, group].sum() == 0:
            draft.warn("no-clips", "No clip of the group takes part in this task.", task=counts.task, group=label)
            continue
        _warn_small(draft, counts, sums, group, label)
        _warn_few_errors(draft, counts, sums, group, label)
        for column in range(layers):
            place = group * layers + column
            bounded = rates.method[place] != "none"
            indices[column, label] = draft.add(
                Estimate(
                    name=counts.named(name, column),
                    value=float(rates.value[place]),
                    low=float(rates.low[place]) if bounded else None,
                    high=_high(counts, float(rates.high[place])) if bounded else None,
                    level=context.level,
                    method=rates.method[place],
                    n=int(rates.clusters[place]),
                    unit="speakers",
                    where={**counts.place(column), "group": label},
                )
            )
    return indices


def warn_parted(draft: Draft, counts: TaskCounts, cohort: Cohort, context: Context) -> None:
    """Say in which groups those who say more err otherwise, on the layer with the least error and by the own head."""
    sums = sums_of(counts, cohort.speakers, cohort.member)
    columns = [column for column, layer in enumerate(counts.layers) if layer == HEAD or column == counts.best()]
    for column in columns:
        mean, above = mean_of_rates(sums.errors[:, :, column], sums.sizes)
        parts = parts_from_pooled(mean, above, level=context.level, tests=len(cohort.names))
        groups = [
            parting(cohort.names[at], mean.value[at], mean.value[at] - above.value[at]) for at in np.flatnonzero(parts)
        ]
        if groups:
            by = "By the checkpoint's own head: " if counts.layers[column] == HEAD else ""
            message = rates_part(groups, trials=TRIALS[counts.metric])
            draft.warn("rates-part", by + message, **counts.place(column))


def _high(counts: TaskCounts, high: float) -> float:
    return min(high, 1.0) if counts.metric == "error" else high


def _warn_small(draft: Draft, counts: TaskCounts, sums: SpeakerSums, group: int, label: str) -> None:
    speakers, trials = int(sums.speakers[group]), int(sums.sizes[:, group].sum())
    few_words = counts.task == "asr" and trials < MIN_WORDS
    if label == ALL or counts.control or not (speakers < MIN_REPORTED or few_words):
        return
    rest = f"{speakers} speaker{'s' * (speakers != 1)}" + (f" and {trials} reference units" if few_words else "")
    message = f"The rate of {label} rests on {rest} only."
    if speakers < 2:
        message += " There is no interval: one speaker says nothing about others."
    draft.warn("small-group", message, task=counts.task, metric=counts.metric, group=label)


def _warn_few_errors(draft: Draft, counts: TaskCounts, sums: SpeakerSums, group: int, label: str) -> None:
    """Say where a rate rests on the errors of very few speakers."""
    erring = (sums.errors[:, group] > 0).sum(0)
    layers = [str(counts.layers[column]) for column in np.flatnonzero((erring > 0) & (erring < MIN_ERRING))]
    if layers and sums.speakers[group] >= MIN_REPORTED and not counts.control:
        draft.warn(
            "few-errors",
            f"On layer {', '.join(layers)} all errors of {label} come from fewer than {MIN_ERRING} speakers: its "
            "rate hangs on whether such speakers were drawn.",
            **counts.where,
            group=label,
        )


def replicate_rates(counts: TaskCounts, cohort: Cohort) -> Floats:
    """Return the overall error of every layer in every bootstrap sample, shape (repeats, layers)."""
    everyone = np.ones((1, len(cohort.speakers)), dtype=bool)
    drawn = sums_of(counts, cohort.speakers, everyone).drawn(cohort.weights)
    drawn = with_deals(drawn, deal_rates(counts, everyone), cohort.shifts)
    return ratio(drawn.errors[:, 0], drawn.sizes)


def add_best_layer(draft: Draft, counts: TaskCounts, cohort: Cohort, context: Context) -> int:
    """Add the encoder's layer with the least overall error."""
    columns = counts.numbered()
    overall = counts.overall(columns)
    best = counts.layers[counts.best()]
    alike = [
        str(counts.layers[column]) for column, errors in zip(columns, overall, strict=True) if errors == min(overall)
    ]
    if len(alike) > 1:
        draft.warn(
            "tied-layers",
            f"Layers {', '.join(alike)} have the same least {METRIC_WORDS[counts.metric]} in "
            f"{TASK_WORDS[counts.task]}: layer {best} stands for them only as the first.",
            **counts.where,
            layer=best,
        )
    replicates = replicate_rates(counts, cohort)[:, columns]
    return add_layer_choice(draft, "best_layer", counts, cohort, columns, overall, replicates, context)


def add_layer_choice(
    draft: Draft,
    name: str,
    counts: TaskCounts,
    cohort: Cohort,
    columns: Sequence[int],
    values: Floats,
    replicates: Floats,
    context: Context,
    **where: str,
) -> int:
    """Add the first layer with the least value, with the range over which that choice moves.

    Parameters
    ----------
    columns, values, replicates
        The layers to choose from in rising order, what each has, and has in every bootstrap sample: shapes (layers,),
        (layers,) and (repeats, layers). NaN is never least.
    """
    layers = np.array([counts.layers[column] for column in columns], dtype=np.float64)
    lowest, highest = _least_layers(layers, replicates)
    first, last = (float(found[0]) for found in _least_layers(layers, values[None]))
    tail = (1 - context.level) / 2
    # An end is a layer that there is, never a mean of two.
    low, high = (
        float(np.quantile(found, share, method="inverted_cdf"))
        for found, share in ((lowest, tail), (highest, 1 - tail))
    )
    return draft.add(
        Estimate(
            name=name,
            value=first,
            low=min(low, first),
            high=max(high, last),
            level=context.level,
            method="percentile cluster bootstrap",
            n=len(np.unique(cohort.speakers[counts.clips])),
            unit="speakers",
            where={**counts.where, **where},
        )
    )


def _least_layers(layers: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the first and the last of the layers that have the least value, in every row.

    Examples
    --------
    >>> first, last = _least_layers(np.array([0.0, 1.0, 2.0]), np.array([[0.5, 0.2, 0.2], [0.1, np.nan, 0.3]]))
    >>> first.tolist(), last.tolist()
    ([1.0, 0.0], [2.0, 0.0])
    """
    known = np.nan_to_num(values, nan=np.inf)
    least = known <= known.min(axis=1, keepdims=True) + 1e-12
    return layers[least.argmax(axis=1)], layers[::-1][least[:, ::-1].argmax(axis=1)]
