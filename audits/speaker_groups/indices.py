"""Summary indices of a system: differential fairness, inequality, and the published FAAS."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Draft
from audits.core.groups import UNKNOWN
from audits.core.intervals import Interval, Undefined
from audits.group_rates import PERMUTED
from audits.speaker_groups.counts import Cohort, Floats, MetricCounts, Utterances
from audits.speaker_groups.gaps import Comparison
from audits.statistics import (
    SpeakerSums,
    Split,
    atkinson,
    blocks_of,
    differential_fairness,
    fairness_adjusted_score,
    generalised_entropy,
    generator,
    jackknife_interval,
    left_out,
    mean_and_quantiles,
    percentile_interval,
)
from audits.statistics import Undefined as NoScore

INDICES: dict[str, Callable[[Floats, NDArray[np.int64], Floats], Split]] = {
    "generalised_entropy": generalised_entropy,
    "atkinson": atkinson,
}
PARTS = ("total", "between", "within")
SIMULTANEOUS = "cluster bootstrap, simultaneous over all pairs of groups and both outcomes"
PERCENTILE = "percentile cluster bootstrap, less twice its bias, widened for few clusters"
JACKKNIFE = "Student t on the logarithm, jackknife over clusters"
SHUFFLES = 1000
BLOCK = 200
"""Shuffles that are held with their weights at once."""


def add_indices(draft: Draft, data: Utterances, comparisons: Sequence[Comparison], cohort: Cohort) -> None:
    """Add differential fairness for every compared attribute and crossing, and inequality for attributes."""
    for comparison in comparisons:
        drawn = comparison.sums.drawn(cohort.weights)
        for system in range(len(data.systems)):
            where = data.where(comparison.counts, system, by=comparison.by)
            draft.add("differential_fairness", _differential(comparison, drawn, system), **where)
            if not comparison.crossed:
                _add_inequality(draft, data, comparison, system, cohort)


def _differential(comparison: Comparison, drawn: SpeakerSums, system: int) -> Interval:
    totals = comparison.sums.totals()
    right, drawn_right = totals.hits[0, :, system], drawn.hits[..., system]
    found = differential_fairness(
        right,
        totals.sizes[0] - right,
        drawn_right,
        drawn.sizes - drawn_right,
        comparison.sums.speakers,
        level=comparison.level,
    )
    return comparison.interval((found.value, found.low, found.high), SIMULTANEOUS)


def _add_inequality(draft: Draft, data: Utterances, comparison: Comparison, system: int, cohort: Cohort) -> None:
    sums, level = comparison.sums, comparison.level
    where = data.where(comparison.counts, system, by=comparison.by)
    # A speaker in several groups counts in each with the clips of that group.
    people, groups = np.nonzero(sums.sizes)
    rates = sums.errors[people, groups, system] / sums.sizes[people, groups]
    benefits = np.maximum(0.0, 1.0 - rates)
    if not benefits.any():
        draft.warn(
            "no-benefit",
            f"{data.systems[system]} gets as many words wrong as there are for every speaker: no inequality of what "
            "they get right can be told.",
            **where,
        )
        return
    once = np.ones((1, len(people)))
    names, who = np.unique(people, return_inverse=True)
    rng = generator(comparison.seed, "inequality", comparison.counts.metric, comparison.by)
    shuffled = np.empty((SHUFFLES, len(people)), dtype=np.int32)
    for row in shuffled:
        row[:] = rng.permutation(groups)
    for index, measure in INDICES.items():
        value = measure(benefits, groups, once)
        samples = _joined(measure(benefits, groups, block) for block in blocks_of(cohort.weights, people))
        left = _joined(measure(benefits, groups, block) for block in blocks_of(left_out(len(names)), who))
        # Of n people, one has all the benefit at most.
        most = 1.0 if index == "atkinson" else (len(people) - 1) / 2
        for part in PARTS:
            if part == "between":
                ends = _between_ends(value, samples, comparison)
            else:
                ends = jackknife_interval(getattr(value, part)[0], getattr(left, part), level=level)
            whole = float(getattr(value, part)[0])
            if ends is None:
                name = f"{index.replace('_', ' ')} {part}"
                message = f"The {name} is left out: it has no interval, since too few {data.unit} move it."
                undefined = Undefined(message, id="no-interval", where=where)
                draft.add("entropy_index", undefined, **where, index=index, part=part)
                continue
            within = (whole, min(max(ends[0], 0.0), whole), max(min(ends[1], most), whole))
            method = PERCENTILE if part == "between" else JACKKNIFE
            draft.add("entropy_index", comparison.interval(within, method), **where, index=index, part=part)
        blocks = (shuffled[start : start + BLOCK].astype(np.int64) for start in range(0, SHUFFLES, BLOCK))
        chance = _joined(measure(benefits, block, np.ones(block.shape)) for block in blocks).between
        noise = comparison.interval(mean_and_quantiles(chance, level), PERMUTED)
        draft.add("entropy_noise_floor", noise, **where, index=index)


def _joined(parts: Iterable[Split]) -> Split:
    """Return the samples of several blocks as one."""
    found = list(parts)
    return Split(**{name: np.concatenate([getattr(part, name) for part in found]) for name in PARTS})


def _between_ends(value: Split, samples: Split, comparison: Comparison) -> tuple[float, float] | None:
    """Return the interval of a part between groups, corrected for noise, which resamples hold twice."""
    bias, people = float(np.nanmean(samples.between)) - float(value.between[0]), int(comparison.sums.speakers.min())
    ends = percentile_interval(samples.between - 2 * bias, people, level=comparison.level)
    about = percentile_interval(samples.between - bias, people, level=comparison.level)
    # The value has the noise too: where there is little else, it lies above the whole of the first interval.
    return None if ends is None or about is None else (ends[0], max(ends[1], about[1]))


def add_faas(draft: Draft, data: Utterances, counts: MetricCounts) -> None:
    """Add the Fairness Adjusted ASR Score of every system, with a warning of its limits."""
    used = counts.sizes > 0
    for groups in data.singles():
        used &= groups.member >= 0
    attributes = [data.labels(groups.by)[used] for groups in data.singles() if len(groups.names) > 1]
    clips = int(used.sum())
    for system in range(len(data.systems)):
        where = data.where(counts, system)
        try:
            rates: Floats = counts.errors[used, system] / counts.sizes[used]
            score = fairness_adjusted_score(rates, data.speakers[used], attributes).score
        except NoScore as reason:
            draft.warn("no-faas", f"{data.systems[system]} has no FAAS: {reason}.", **where)
            continue
        # At the level of earlier reports: it has no interval, and so none of its own.
        draft.add("faas", Interval(value=score, method="none", n=clips, unit="clips", level=0.95), **where)
    draft.warn(
        "faas-compatibility",
        "The FAAS is given for comparison with reports that use it, not as a measure: its scaling makes the score of "
        "an attribute of two levels the share of the better one, whatever the size of the gap, and it has no interval. "
        f"Clips with an {UNKNOWN} attribute are left out of it.",
    )
