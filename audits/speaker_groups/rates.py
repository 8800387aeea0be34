"""Error rates of each system on each group.

Rates are pooled, errors over the words of all clips of a group, never a mean of clip rates.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import numpy as np

from audits.core.context import Draft
from audits.core.groups import ALL, MIN_WORDS
from audits.core.wording import first_of, many
from audits.group_rates import MIN_REPORTED
from audits.group_rates.rates import differing, differing_words, group_rates, rate_at
from audits.speaker_groups.counts import Cohort, MetricCounts, Utterances, sums_of
from audits.statistics import SpeakerSums, intervals_of, mean_of_rates, shrink_rates, sum_by_speaker

NAMED = 12
MOST_SMALL = 60
"""Small groups that get a warning each."""
BLOCK = 128
"""Groups that are summed at once: memory does not grow with their number."""
EMPIRICAL_BAYES = "Student t about an empirical Bayes rate, on the scale of the rate and of its log odds"


def small_groups(data: Utterances, cohort: Cohort) -> dict[str, int]:
    """Return the groups with too few speakers or words, with their speakers."""
    counts = data.counts[0]
    # Of the systems it only matters whether one has an error.
    errors = counts.errors.max(axis=1, keepdims=True)
    found: dict[str, int] = {}
    for start in range(0, len(cohort.names), BLOCK):
        chosen = slice(start, start + BLOCK)
        sums = sum_by_speaker(errors, errors, counts.sizes, data.speakers, cohort.member[chosen])
        rows = zip(cohort.names[chosen], sums.speakers.tolist(), sums.sizes.sum(0).tolist(), strict=True)
        found |= {
            name: people for name, people, words in rows if name != ALL and (people < MIN_REPORTED or words < MIN_WORDS)
        }
    return found


def add_rates(draft: Draft, data: Utterances, cohort: Cohort, small: Mapping[str, int]) -> None:
    """Add the error rate of every group, the rates of each kind of error, and warn of small groups."""
    for counts in data.counts:
        for start in range(0, len(cohort.names), BLOCK):
            sums = sums_of(data, counts, cohort.member[start : start + BLOCK])
            _add(draft, data, counts, "rate", sums, cohort.names[start : start + BLOCK])
    _warn_small(draft, data, small)
    _add_parts(draft, data, cohort, small)


def _add(
    draft: Draft, data: Utterances, counts: MetricCounts, name: str, sums: SpeakerSums, names: Sequence[str]
) -> None:
    # One speaker has a rate, but nothing to draw from.
    several = np.flatnonzero(sums.speakers > 1)
    drawn = dict(zip(several.tolist(), group_rates(sums.of(several), level=draft.level, unit=data.unit), strict=True))
    for group, label in enumerate(names):
        words = float(sums.sizes[:, group].sum())
        if words == 0:
            draft.warn("no-words", f"No clip of {label} has a word of reference: there is no rate.", group=label)
            continue
        for system in range(len(data.systems)):
            if group in drawn:
                # Who was silent everywhere is of the group, though no rate rests on them.
                rate = replace(drawn[group][system], n=int(sums.speakers[group]))
            else:
                alone = float(sums.errors[:, group, system].sum()) / words
                rate = data.interval((alone, None, None), "none", int(sums.speakers[group]))
            draft.add(name, rate, **data.where(counts, system, group=label))


def _warn_small(draft: Draft, data: Utterances, small: Mapping[str, int]) -> None:
    """Warn of small groups, one by one where they are few, else by attribute and crossing."""
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
            f"{MIN_WORDS} words: {first_of(names, NAMED)}."
        )
        if alone:
            message += f" {alone} of them {'have' if alone > 1 else 'has'} one at most, and so no interval."
        draft.warn("small-group", message)


def _add_parts(draft: Draft, data: Utterances, cohort: Cohort, small: Container[str]) -> None:
    """Add substitutions, deletions and insertions per word, for all groups that are not too small."""
    counts = data.counts[0]
    chosen = [group for group, name in enumerate(cohort.names) if name not in small]
    for part, errors in counts.parts.items():
        for start in range(0, len(chosen), BLOCK):
            part_of = chosen[start : start + BLOCK]
            sums = sum_by_speaker(errors, counts.hits, counts.sizes, data.speakers, cohort.member[part_of])
            names = [cohort.names[group] for group in part_of]
            _add(draft, data, counts, f"{part}_rate", sums, names)
    if not counts.parts:
        draft.warn(
            "kinds-unknown",
            "Only the sum of errors is known: there are no rates of substitutions, deletions and insertions, and a "
            "word is counted as right as far as errors leave room for it.",
        )


def add_speaker_rates(draft: Draft, data: Utterances, cohort: Cohort, metric: str) -> None:
    """Add the mean of the speakers' own rates in every group, and warn where it differs from the pooled rate."""
    counts = data.of(metric)
    apart: dict[int, list[str]] = {}
    for start in range(0, len(cohort.names), BLOCK):
        names = cohort.names[start : start + BLOCK]
        sums = sums_of(data, counts, cohort.member[start : start + BLOCK])
        for system in range(len(data.systems)):
            mean, above = mean_of_rates(sums.errors[..., system], sums.sizes)
            rates = intervals_of(mean, level=draft.level)
            for at in np.flatnonzero(sums.speakers > 1).tolist():
                where = data.where(counts, system, group=names[at])
                draft.add("speaker_rate", rate_at(rates, at, unit=data.unit), **where)
            if found := list(differing(mean, above, names, level=draft.level, tests=len(cohort.names))):
                apart.setdefault(system, []).extend(found)
    for system, groups in apart.items():
        draft.warn("rates-part", differing_words(groups, data.unit), **data.where(counts, system))


def add_shrunken(draft: Draft, data: Utterances, metric: str) -> None:
    """Add rates shrunk towards the rate of all groups of a set, the more the fewer words a group has."""
    counts = data.of(metric)
    for groups in data.sets:
        sums = sums_of(data, counts, groups.masks)
        kept = np.flatnonzero(sums.sizes.sum(0) > 0)
        if len(kept) < 2:
            continue
        for system in range(len(data.systems)):
            try:
                found = shrink_rates(sums.errors[:, kept, system], sums.sizes[:, kept], level=draft.level)
            except ValueError as reason:
                draft.warn("not-pooled", f"By {groups.by}, no rates are pooled: {reason}.", by=groups.by)
                continue
            for at, group in enumerate(kept):
                ends = (float(found.value[at]), float(found.low[at]), float(found.high[at]))
                rate = data.interval(ends, EMPIRICAL_BAYES, int(sums.speakers[group]))
                draft.add("shrunken_rate", rate, **data.where(counts, system, group=groups.names[group]))
