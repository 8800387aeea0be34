"""How often does each system err on each group?

Rates are pooled, errors over the words of all clips of a group, never a mean of clip rates.
"""

from dataclasses import dataclass

import numpy as np

from audits.context import Context, Draft
from audits.groups import ALL, MIN_WORDS
from audits.speaker_groups.counts import MIN_REPORTED, Cohort, Counts, Utterances, place, sums_of
from audits.statistics import (
    SpeakerSums,
    intervals_of,
    mean_of_rates,
    parts_from_pooled,
    rate_intervals,
    shrink_rates,
    sum_by_speaker,
)
from audits.wording import many, parting, rates_part

NAMED = 12
MOST_SMALL = 60
"""Small groups that get a warning each."""
BLOCK = 128
"""Groups that are summed at once: memory does not grow with their number."""
EMPIRICAL_BAYES = "Student t about an empirical Bayes rate, on the scale of the rate and of its log odds"

Index = dict[tuple[int, str], int]
"""Where the rate of a system on a group stands in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The indices of the rates by metric, and the groups that rest on too few speakers or words."""

    rows: dict[str, Index]
    small: frozenset[str]


def add_rates(draft: Draft, data: Utterances, cohort: Cohort, context: Context) -> Rates:
    """Add the error rate of every group, the rates of each kind of error, and warn of small groups."""
    rows: dict[str, Index] = {}
    small: dict[str, int] = {}
    for counts in data.counts:
        rows[counts.metric] = {}
        for start in range(0, len(cohort.names), BLOCK):
            chosen = range(start, min(start + BLOCK, len(cohort.names)))
            sums = sums_of(data, counts, cohort.member[start : start + BLOCK])
            names = [cohort.names[group] for group in chosen]
            if counts is data.counts[0]:
                small |= _small(sums, names)
            rows[counts.metric] |= _add(draft, data, counts, "rate", sums, names, cohort, context)
    _warn_small(draft, data, small)
    _add_parts(draft, data, cohort, frozenset(small), context)
    return Rates(rows=rows, small=frozenset(small))


def _add(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    name: str,
    sums: SpeakerSums,
    names: list[str],
    cohort: Cohort,
    context: Context,
) -> Index:
    systems = len(data.systems)
    # One speaker has a rate, but nothing to draw from.
    several = np.flatnonzero(sums.speakers > 1)
    drawn = sums.of(several)
    sizes = np.repeat(drawn.sizes[:, :, None], systems, axis=2)
    flat = (len(sums.sizes), len(several) * systems)
    rates = rate_intervals(drawn.errors.reshape(flat), sizes.reshape(flat), level=context.level)
    at = {int(group): number * systems for number, group in enumerate(several)}
    found: Index = {}
    for group, label in enumerate(names):
        words = float(sums.sizes[:, group].sum())
        if words == 0:
            draft.warn("no-words", f"No clip of {label} has a word of reference: there is no rate.", group=label)
            continue
        for system in range(systems):
            number = at[group] + system if group in at else None
            bounded = number is not None and rates.method[number] != "none"
            found[system, label] = draft.add(
                data.estimate(
                    name,
                    (
                        float(sums.errors[:, group, system].sum()) / words,
                        float(rates.low[number]) if bounded else None,
                        float(rates.high[number]) if bounded else None,
                    ),
                    rates.method[number] if number is not None else "none",
                    int(sums.speakers[group]),
                    place(data, counts, system, group=label),
                    context.level,
                )
            )
    return found


def _small(sums: SpeakerSums, names: list[str]) -> dict[str, int]:
    """Return the groups that rest on too few speakers or words, with their speakers."""
    people, words = sums.speakers.tolist(), sums.sizes.sum(0).tolist()
    return {
        name: people[at]
        for at, name in enumerate(names)
        if name != ALL and (people[at] < MIN_REPORTED or words[at] < MIN_WORDS)
    }


def _warn_small(draft: Draft, data: Utterances, small: dict[str, int]) -> None:
    """Name the small groups, one by one where they are few, else by attribute and crossing."""
    if len(small) <= MOST_SMALL:
        for name, people in small.items():
            message = f"The rates of {name} rest on fewer than {MIN_REPORTED} {data.unit} or {MIN_WORDS} words"
            message += ": there is no interval, since one says nothing about others." if people == 1 else "."
            draft.warn("small-group", message, group=name)
        return
    sets: dict[str, list[str]] = {}
    for name in small:
        sets.setdefault("&".join(part.partition("=")[0] for part in name.split("&")), []).append(name)
    for by, names in sets.items():
        alone = sum(small[name] < 2 for name in names)
        message = (
            f"By {by}, {many(len(names), 'group rests', 'groups rest')} on fewer than {MIN_REPORTED} {data.unit} or "
            f"{MIN_WORDS} words: {', '.join(names[:NAMED])}{' and others' if len(names) > NAMED else ''}."
        )
        if alone:
            message += f" {alone} of them {'have' if alone > 1 else 'has'} one at most, and so no interval."
        draft.warn("small-group", message)


def _add_parts(draft: Draft, data: Utterances, cohort: Cohort, small: frozenset[str], context: Context) -> None:
    """Add substitutions, deletions and insertions a word, for all groups that are not too small."""
    counts = data.counts[0]
    chosen = [group for group, name in enumerate(cohort.names) if name not in small]
    for part, errors in counts.parts.items():
        for start in range(0, len(chosen), BLOCK):
            part_of = chosen[start : start + BLOCK]
            sums = sum_by_speaker(errors, counts.hits, counts.sizes, data.speakers, cohort.member[part_of])
            names = [cohort.names[group] for group in part_of]
            _add(draft, data, counts, f"{part}_rate", sums, names, cohort, context)
    if not counts.parts:
        draft.warn(
            "kinds-unknown",
            "Only the sum of errors is known: there are no rates of substitutions, deletions and insertions, and a "
            "word is counted as right as far as errors leave room for it.",
        )


def add_speaker_rates(draft: Draft, data: Utterances, cohort: Cohort, metric: str, context: Context) -> None:
    """Add the mean of the speakers' own rates in every group, and warn where it parts from the pooled rate.

    A pooled rate is that of the words: who says much weighs much. Where those err more, or less, it hangs on how many
    of them were drawn, and its interval cannot know of any who were not.
    """
    counts = data.of(metric)
    parted: dict[int, list[str]] = {}
    for start in range(0, len(cohort.names), BLOCK):
        names = cohort.names[start : start + BLOCK]
        sums = sums_of(data, counts, cohort.member[start : start + BLOCK])
        for system in range(len(data.systems)):
            mean, above = mean_of_rates(sums.errors[..., system], sums.sizes)
            rates = intervals_of(mean, level=context.level)
            parts = parts_from_pooled(mean, above, level=context.level, tests=len(cohort.names))
            for at in np.flatnonzero(sums.speakers > 1):
                where = place(data, counts, system, group=names[at])
                ends = (float(rates.value[at]), float(rates.low[at]), float(rates.high[at]))
                draft.add(
                    data.estimate("speaker_rate", ends, rates.method[at], int(rates.clusters[at]), where, context.level)
                )
                if parts[at]:
                    parted.setdefault(system, []).append(parting(names[at], ends[0], ends[0] - above.value[at]))
    for system, groups in parted.items():
        draft.warn("rates-part", rates_part(groups, data.unit), **place(data, counts, system))


def add_shrunken(draft: Draft, data: Utterances, metric: str, context: Context) -> None:
    """Add rates pulled towards the rate of all groups of a set, the more the fewer words a group has."""
    counts = data.of(metric)
    for groups in data.sets:
        sums = sums_of(data, counts, groups.masks)
        kept = np.flatnonzero(sums.sizes.sum(0) > 0)
        if len(kept) < 2:
            continue
        for system in range(len(data.systems)):
            try:
                found = shrink_rates(sums.errors[:, kept, system], sums.sizes[:, kept], level=context.level)
            except ValueError as reason:
                draft.warn("not-pooled", f"By {groups.by}, no rates are pooled: {reason}.", by=groups.by)
                continue
            for at, group in enumerate(kept):
                draft.add(
                    data.estimate(
                        "shrunken_rate",
                        (float(found.value[at]), float(found.low[at]), float(found.high[at])),
                        EMPIRICAL_BAYES,
                        int(sums.speakers[group]),
                        place(data, counts, system, group=groups.names[group]),
                        context.level,
                    )
                )
