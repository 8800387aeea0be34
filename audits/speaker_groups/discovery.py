"""Which groups stand out: found on half of the speakers, confirmed on the other half?

Every group and crossing is set against all others of its kind, and every crossing against what its parts lead to
expect. Nothing that is found by looking at many counts until speakers who took no part in the search show it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.groups import MIN_WORDS
from audits.speaker_groups import Options
from audits.speaker_groups.counts import MIN_REPORTED, Counts, Floats, Utterances, place, sums_of
from audits.speaker_groups.crossings import Half, confirm_crossing, half_of, score_crossings
from audits.speaker_groups.gaps import MOST_COMPARED, OTHERS
from audits.statistics import (
    Ends,
    MaybeEnds,
    RateIntervals,
    SpeakerSums,
    adjust,
    enough_permutations,
    generator,
    independent_difference,
    linearised_differences,
    monte_carlo_p,
    on_scale,
    rate_intervals,
    scaled,
    shuffle_labels,
)

PARTS = "parts"
"""What a crossing is set against: what its attributes lead to expect. Else it is all `OTHERS`."""
TESTS = {
    OTHERS: ("discovery", "confirmation"),
    PARTS: ("discovery-beyond-parts", "confirmation-beyond-parts"),
}
"""Names of the tests of the search and of its confirmation, by what a group is set against."""
CONFIRMED = "permutation of labels over the other half of the speakers, Holm"
DIFFERENCE = "combined intervals of two rates, on speakers who took no part in the search"
BEYOND = "Poisson GEE with all attributes, clusters of speakers, on speakers who took no part in the search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """A group that the search named.

    Parameters
    ----------
    against
        `others` or `parts`.
    size
        How far it stands out on the speakers who confirm: index in the report, None where that could not be told.
    more
        Whether it errs more than expected, rather than less.
    """

    system: int
    group: str
    against: str
    size: int | None
    more: bool
    confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How many tests the search made of each system, and what it named."""

    tested: dict[int, int]
    found: tuple[Discovery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A group with the sums of its own and of all others, so of shape (speakers, 2, ...)."""

    by: str
    group: str
    member: NDArray[np.bool_]
    sums: SpeakerSums


@dataclass(frozen=True, slots=True)
class _Test:
    candidate: _Candidate
    against: str
    p: float
    sign: float


def search(draft: Draft, data: Utterances, counts: Counts, options: Options, context: Context) -> Search:
    """Search on half of the speakers and confirm on the others, for every system."""
    half = _halves(data, context)
    candidates = _candidates(data, counts, half, options)
    # Half of the speakers are about half of every group.
    halved = replace(options, min_speakers=max(MIN_REPORTED, options.min_speakers // 2))
    tested: dict[int, int] = {}
    found: list[Discovery] = []
    for system in range(len(data.systems)):
        tests = [
            *_against_others(candidates, half, system),
            *_against_parts(data, counts, candidates, half, system, halved),
        ]
        tested[system] = len(tests)
        named = []
        for test, p in zip(tests, adjust([test.p for test in tests], "bh"), strict=True):
            group, name = test.candidate.group, TESTS[test.against][0]
            _add_p(draft, data, counts, system, (p, None, None), name, "bh", group, "none", context)
            if p < 1 - context.level and test.sign != 0:
                named.append(test)
        found += _confirm(draft, data, counts, named, ~half, system, halved, context)
    return Search(tested=tested, found=tuple(found))


def _halves(data: Utterances, context: Context) -> NDArray[np.bool_]:
    order = generator(context.seed, "discovery").permutation(data.people)
    half = np.zeros(data.people, dtype=bool)
    half[order[: (data.people + 1) // 2]] = True
    return half


def _candidates(data: Utterances, counts: Counts, half: NDArray[np.bool_], options: Options) -> list[_Candidate]:
    """Return all groups that have enough speakers and words, and some speakers in both halves."""
    found = []
    for groups in data.sets:
        member = groups.masks
        sums = sums_of(data, counts, member)
        whole = SpeakerSums(errors=sums.errors.sum(1), hits=sums.hits.sum(1), sizes=sums.sizes.sum(1))
        enough = (sums.speakers >= options.min_speakers) & (sums.sizes.sum(0) >= MIN_WORDS)
        # Of two groups, one against the other says all.
        chosen = np.flatnonzero(enough)
        chosen = np.sort(chosen[np.argsort(-sums.speakers[chosen], kind="stable")[:MOST_COMPARED]])
        for at in chosen[: 1 if len(groups.names) == 2 else MOST_COMPARED].tolist():
            pair = SpeakerSums(
                errors=_and_rest(sums.errors, whole.errors, at),
                hits=_and_rest(sums.hits, whole.hits, at),
                sizes=_and_rest(sums.sizes, whole.sizes, at),
            )
            there = pair.sizes > 0
            if min(there[side].sum(0).min() for side in (half, ~half)) >= MIN_REPORTED:
                found.append(_Candidate(by=groups.by, group=groups.names[at], member=member[at], sums=pair))
    return found


def _and_rest(values: Floats, whole: Floats, at: int) -> Floats:
    return np.stack([values[:, at], whole - values[:, at]], axis=1)


def _against_others(candidates: Sequence[_Candidate], half: NDArray[np.bool_], system: int) -> list[_Test]:
    if not candidates:
        return []
    errors = np.stack([item.sums.errors[half][..., system] for item in candidates], axis=2)
    sizes = np.stack([item.sums.sizes[half] for item in candidates], axis=2)
    found = linearised_differences((errors[:, 0], errors[:, 1]), (sizes[:, 0], sizes[:, 1]))
    signs = np.sign(np.nan_to_num(found.value)).tolist()
    return [_Test(item, OTHERS, p, sign) for item, p, sign in zip(candidates, found.p().tolist(), signs, strict=True)]


def _against_parts(
    data: Utterances,
    counts: Counts,
    candidates: Sequence[_Candidate],
    half: NDArray[np.bool_],
    system: int,
    options: Options,
) -> list[_Test]:
    # Of three attributes a crossing would stand out through two of them alone.
    crossed = [item for item in candidates if item.by.count("&") == 1]
    two = {groups.by for groups in data.singles() if len(groups.names) == 2}
    # Of two by two groups all four say the same: the one that errs most stands for them.
    alike: dict[str, _Candidate] = {}
    for item in sorted(crossed, key=_rate):
        if set(item.by.split("&")) <= two:
            alike[item.by] = item
    crossed = [item for item in crossed if alike.get(item.by, item) is item]
    if not crossed:
        return []
    member = np.stack([item.member for item in crossed], axis=1)
    found = score_crossings(half_of(data, counts, system, half, options), member)
    if found is None:
        return []
    signs = np.sign(np.nan_to_num(found.value)).tolist()
    return [_Test(item, PARTS, p, sign) for item, p, sign in zip(crossed, found.p().tolist(), signs, strict=True)]


def _rate(item: _Candidate) -> float:
    return float(item.sums.errors[:, 0].sum() / item.sums.sizes[:, 0].sum())


def _confirm(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    named: Sequence[_Test],
    half: NDArray[np.bool_],
    system: int,
    options: Options,
    context: Context,
) -> list[Discovery]:
    options = replace(options, permutations=enough_permutations(options.permutations, len(named), context.level))
    design = half_of(data, counts, system, half, options)
    checked: list[tuple[_Test, MaybeEnds, int | None, bool]] = []
    for test in named:
        if test.against == OTHERS:
            checked.append(_against_others_again(draft, data, counts, test, half, system, options, context))
        else:
            checked.append(_against_parts_again(draft, data, counts, test, design, system, context))
    found = []
    for (test, raw, size, beyond), p in zip(checked, adjust([item[1][0] for item in checked], "holm"), strict=True):
        ends = scaled(raw, p)
        method = "none" if ends[1] is None else CONFIRMED
        group, name = test.candidate.group, TESTS[test.against][1]
        _add_p(draft, data, counts, system, ends, name, "holm", group, method, context)
        found.append(
            Discovery(
                system=system,
                group=group,
                against=test.against,
                size=size,
                more=test.sign > 0,
                confirmed=p < 1 - context.level and beyond,
            )
        )
    return found


def _against_others_again(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    test: _Test,
    half: NDArray[np.bool_],
    system: int,
    options: Options,
    context: Context,
) -> tuple[_Test, Ends, int, bool]:
    whole = test.candidate.sums
    sums = SpeakerSums(errors=whole.errors[half], hits=whole.hits[half], sizes=whole.sizes[half])
    rng = generator(context.seed, "confirmation", counts.metric, test.candidate.group)
    chance = shuffle_labels(sums, options.permutations, rng, level=context.level)
    rates = on_scale(sums.totals(), system, "absolute")[0]
    # One-sided: only the direction that the search named counts.
    observed = float(chance.observed["pairs"][system]) * (1.0 if test.sign * (rates[0] - rates[1]) > 0 else -1.0)
    p = monte_carlo_p(observed, chance.shuffled["pairs"][:, system], level=context.level)
    errors, sizes = sums.errors[..., system], sums.sizes
    found = rate_intervals(errors, sizes, level=context.level)
    # A speaker on both sides makes the two rates go together, and the interval too wide.
    ends = independent_difference(*((float(found.value[at]), *_ends(found, at)) for at in (1, 0)))
    size = _add_size(draft, data, counts, system, test, "confirmed_difference", ends, DIFFERENCE, sums.people, context)
    return test, p, size, ends[1] > 0 if test.sign > 0 else ends[2] < 0


def _ends(found: RateIntervals, at: int) -> tuple[float, float]:
    """Return the interval of a rate; all that it could be where there is none."""
    low, high = float(found.low[at]), float(found.high[at])
    return (low, high) if np.isfinite(low) and np.isfinite(high) else (0.0, max(1.0, float(found.value[at])))


def _against_parts_again(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    test: _Test,
    half: Half,
    system: int,
    context: Context,
) -> tuple[_Test, tuple[float, None, None], int | None, bool]:
    found = confirm_crossing(half, test.candidate.member, test.sign, context)
    if found is None:
        return test, (1.0, None, None), None, False
    p, ends, people = found
    size = _add_size(draft, data, counts, system, test, "intersection_ratio", ends, BEYOND, people, context)
    return test, (p, None, None), size, ends[1] > 1 if test.sign > 0 else ends[2] < 1


def _add_size(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    system: int,
    test: _Test,
    name: str,
    ends: Ends,
    method: str,
    people: int,
    context: Context,
) -> int:
    return draft.add(
        data.estimate(
            name,
            ends,
            method,
            people,
            place(data, counts, system, by=test.candidate.by, group=test.candidate.group),
            context.level,
        )
    )


def _add_p(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    system: int,
    ends: MaybeEnds,
    test: str,
    correction: str,
    group: str,
    method: str,
    context: Context,
) -> None:
    draft.add(
        data.estimate(
            "p_value",
            ends,
            method,
            data.people,
            place(data, counts, system, test=test, group=group, correction=correction),
            context.level,
        )
    )
