"""Single numbers for the fairness of a system: differential fairness, inequality indices, and the FAAS of others."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.groups import UNKNOWN
from audits.records import Estimate
from audits.speaker_groups.counts import Cohort, Counts, Floats, Utterances, place
from audits.speaker_groups.gaps import PERMUTED, GapRow
from audits.statistics import (
    Split,
    Undefined,
    atkinson,
    differential_fairness,
    fairness_adjusted_score,
    generalised_entropy,
    generator,
    jackknife_interval,
    left_out,
    percentile_interval,
)

INDICES: dict[str, Callable[[Floats, NDArray[np.int64], Floats], Split]] = {
    "generalised_entropy": generalised_entropy,
    "atkinson": atkinson,
}
PARTS = ("total", "between", "within")
SIMULTANEOUS = "cluster bootstrap, simultaneous over all pairs of groups and both outcomes"
PERCENTILE = "percentile cluster bootstrap, less twice its bias, widened for few clusters"
JACKKNIFE = "Student t on the logarithm, jackknife over clusters"
SHUFFLES = 1000


def add_indices(draft: Draft, data: Utterances, rows: Sequence[GapRow], cohort: Cohort, context: Context) -> None:
    """Add differential fairness for every attribute and crossing that is compared, inequality for attributes."""
    for row in rows:
        for system in range(len(data.systems)):
            _add_differential(draft, data, row, system, context)
            if not row.crossed:
                _add_inequality(draft, data, row, system, cohort, context)


def _add_differential(draft: Draft, data: Utterances, row: GapRow, system: int, context: Context) -> None:
    right, drawn_right = row.sums.totals().hits[0, :, system], row.drawn.hits[..., system]
    words = row.sums.totals().sizes[0]
    found = differential_fairness(
        right, words - right, drawn_right, row.drawn.sizes - drawn_right, row.sums.speakers, level=context.level
    )
    draft.add(
        data.estimate(
            "differential_fairness",
            (found.value, found.low, found.high),
            SIMULTANEOUS,
            row.sums.people,
            place(data, row.counts, system, by=row.by),
            context.level,
        )
    )


def _add_inequality(draft: Draft, data: Utterances, row: GapRow, system: int, cohort: Cohort, context: Context) -> None:
    # A speaker in several groups counts in each with what was heard there.
    people, groups = np.nonzero(row.sums.sizes)
    rates = row.sums.errors[people, groups, system] / row.sums.sizes[people, groups]
    benefits = np.maximum(0.0, 1.0 - rates)
    if not benefits.any():
        draft.warn(
            "no-benefit",
            f"{data.systems[system]} gets as many words wrong as there are for every speaker: no inequality of what "
            "they get right can be told.",
            **place(data, row.counts, system, by=row.by),
        )
        return
    once = np.ones((1, len(people)))
    names, who = np.unique(people, return_inverse=True)
    rng = generator(context.seed, "inequality", row.counts.metric, row.by)
    shuffled = np.stack([rng.permutation(groups) for _ in range(SHUFFLES)])
    for index, measure in INDICES.items():
        value = measure(benefits, groups, once)
        samples = measure(benefits, groups, cohort.weights[:, people])
        left = measure(benefits, groups, left_out(len(names))[:, who])
        # Of n people, one has all the benefit at most.
        most = 1.0 if index == "atkinson" else (len(people) - 1) / 2
        for part in PARTS:
            if part == "between":
                ends = _between_ends(value, samples, row, context)
            else:
                ends = jackknife_interval(getattr(value, part)[0], getattr(left, part), level=context.level)
            _add_part(draft, data, row, system, index, part, (float(getattr(value, part)[0]), ends, most), context)
        chance = measure(benefits, shuffled, np.ones(shuffled.shape)).between
        low, high = np.quantile(chance, [(1 - context.level) / 2, (1 + context.level) / 2]).tolist()
        floor = float(chance.mean())
        draft.add(
            data.estimate(
                "entropy_noise_floor",
                (floor, min(low, floor), max(high, floor)),
                PERMUTED,
                row.sums.people,
                place(data, row.counts, system, by=row.by, index=index),
                context.level,
            )
        )


def _between_ends(value: Split, samples: Split, row: GapRow, context: Context) -> tuple[float, float] | None:
    """Return the interval of a part between groups: noise makes it too large, and that of a resample has it twice."""
    bias, people = float(np.nanmean(samples.between)) - float(value.between[0]), int(row.sums.speakers.min())
    ends = percentile_interval(samples.between - 2 * bias, people, level=context.level)
    about = percentile_interval(samples.between - bias, people, level=context.level)
    # The value has the noise too: where there is little else, it lies above the whole of the first interval.
    return None if ends is None or about is None else (ends[0], max(ends[1], about[1]))


def _add_part(
    draft: Draft,
    data: Utterances,
    row: GapRow,
    system: int,
    index: str,
    part: str,
    found: tuple[float, tuple[float, float] | None, float],
    context: Context,
) -> None:
    """Add a part of an index: its value, the ends of its interval, and how large it can be at most."""
    value, interval, most = found
    if interval is None:
        draft.warn(
            "no-interval",
            f"The {index.replace('_', ' ')} {part} is left out: it has no interval, since too few {data.unit} move it.",
            **place(data, row.counts, system, by=row.by),
        )
        return
    draft.add(
        data.estimate(
            "entropy_index",
            (value, min(max(interval[0], 0.0), value), max(min(interval[1], most), value)),
            PERCENTILE if part == "between" else JACKKNIFE,
            row.sums.people,
            place(data, row.counts, system, by=row.by, index=index, part=part),
            context.level,
        )
    )


def add_faas(draft: Draft, data: Utterances, counts: Counts) -> None:
    """Add the fairness adjusted ASR score of every system, with the warning of what it cannot show."""
    used = counts.sizes > 0
    for groups in data.singles():
        used &= groups.member >= 0
    attributes = [data.labels(groups.by)[used] for groups in data.singles() if len(groups.names) > 1]
    clips = int(used.sum())
    for system in range(len(data.systems)):
        where = place(data, counts, system)
        try:
            rates: Floats = counts.errors[used, system] / counts.sizes[used]
            score = fairness_adjusted_score(rates, data.speakers[used], attributes).score
        except Undefined as reason:
            draft.warn("no-faas", f"{data.systems[system]} has no FAAS: {reason}.", **where)
            continue
        draft.add(Estimate(name="faas", value=score, method="none", n=clips, unit="clips", where=where))
    draft.warn(
        "faas-compatibility",
        "The FAAS is given for comparison with reports that use it, not as a measure: its scaling makes the score of "
        "an attribute of two levels the share of the better one, whatever the size of the gap, and it has no interval. "
        f"Clips with an {UNKNOWN} attribute are left out of it.",
    )
