"""The search for groups that stand out: found on half of the speakers, confirmed on the other half.

Every group and crossing is set against all others of its kind, and every crossing against what its parts lead to
expect. Nothing that is found by looking at many counts until speakers who took no part in the search show it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Draft
from audits.core.groups import MIN_WORDS
from audits.core.intervals import Interval
from audits.core.records import Estimate
from audits.group_rates import MIN_REPORTED
from audits.speaker_groups import Options
from audits.speaker_groups.counts import Floats, MetricCounts, Utterances, sums_of
from audits.speaker_groups.crossings import confirm_crossing, half_of, score_crossings
from audits.speaker_groups.designs import Design
from audits.speaker_groups.gaps import MOST_COMPARED, OTHERS
from audits.statistics import (
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
    p
        Corrected for all groups that were named, with its ends.
    size
        How far it stands out on the speakers who confirm; None where that could not be told.
    more
        Whether it errs more than expected, rather than less.
    """

    by: str
    group: str
    against: str
    p: MaybeEnds
    size: Interval | None
    more: bool
    confirmed: bool

    @property
    def name(self) -> str:
        """Name of the estimate of the size."""
        return "intersection_ratio" if self.against == PARTS else "confirmed_difference"

    def row(self, draft: Draft, **where: str) -> Estimate:
        """Return the estimate of the size."""
        return draft.row(self.name, **where, by=self.by, group=self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A tested group, and its p-value after Benjamini and Hochberg."""

    group: str
    against: str
    p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The tests of the search for one system, and its discoveries."""

    tests: tuple[Searched, ...]
    found: tuple[Discovery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A group with its own sums and those of all others, shape (speakers, 2, ...)."""

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


def search(data: Utterances, counts: MetricCounts, options: Options, *, seed: int, level: float) -> tuple[Search, ...]:
    """Search on half of the speakers and confirm on the others, for every system."""
    half = _halves(data, seed)
    candidates = _candidates(data, counts, half, options)
    # Half of the speakers are about half of every group.
    halved = replace(options, min_speakers=max(MIN_REPORTED, options.min_speakers // 2))
    found = []
    for system in range(len(data.systems)):
        tests = [
            *_against_others(candidates, half, system),
            *_against_parts(data, counts, candidates, half, system, halved),
        ]
        corrected = adjust([test.p for test in tests], "bh")
        named = [test for test, p in zip(tests, corrected, strict=True) if p < 1 - level and test.sign != 0]
        searched = (
            Searched(group=test.candidate.group, against=test.against, p=p)
            for test, p in zip(tests, corrected, strict=True)
        )
        confirmation = _Confirmation(
            data=data, counts=counts, half=~half, system=system, options=halved, seed=seed, level=level
        )
        found.append(Search(tests=tuple(searched), found=tuple(confirmation.confirm(named))))
    return tuple(found)


def add_search(draft: Draft, data: Utterances, counts: MetricCounts, system: int, search: Search) -> None:
    """Add the p-values of the search, then sizes and p-values of its discoveries."""
    where = data.where(counts, system)
    for item in search.tests:
        p = data.interval((item.p, None, None), "none", data.people)
        draft.add("p_value", p, **where, test=TESTS[item.against][0], group=item.group, correction="bh")
    for named in search.found:
        if named.size is not None:
            draft.add(named.name, named.size, **where, by=named.by, group=named.group)
    for named in search.found:
        p = data.interval(named.p, "none" if named.p[1] is None else CONFIRMED, data.people)
        draft.add("p_value", p, **where, test=TESTS[named.against][1], group=named.group, correction="holm")


def _halves(data: Utterances, seed: int) -> NDArray[np.bool_]:
    order = generator(seed, "discovery").permutation(data.people)
    half = np.zeros(data.people, dtype=bool)
    half[order[: (data.people + 1) // 2]] = True
    return half


def _candidates(data: Utterances, counts: MetricCounts, half: NDArray[np.bool_], options: Options) -> list[_Candidate]:
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
    counts: MetricCounts,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Confirmation:
    """The confirmation of discoveries on the speakers of `half`."""

    data: Utterances
    counts: MetricCounts
    half: NDArray[np.bool_]
    system: int
    options: Options
    seed: int
    level: float

    def confirm(self, named: Sequence[_Test]) -> list[Discovery]:
        """Return the discoveries, each with its p-value after Holm and its size."""
        permutations = enough_permutations(self.options.permutations, len(named), self.level)
        design = half_of(self.data, self.counts, self.system, self.half, self.options)
        checked = [
            self._against_others(test, permutations) if test.against == OTHERS else self._against_parts(test, design)
            for test in named
        ]
        corrected = adjust([raw[0] for raw, _, _ in checked], "holm")
        return [
            Discovery(
                by=test.candidate.by,
                group=test.candidate.group,
                against=test.against,
                p=scaled(raw, p),
                size=size,
                more=test.sign > 0,
                confirmed=p < 1 - self.level and beyond,
            )
            for test, (raw, size, beyond), p in zip(named, checked, corrected, strict=True)
        ]

    def _against_others(self, test: _Test, permutations: int) -> tuple[MaybeEnds, Interval, bool]:
        whole, system, level = test.candidate.sums, self.system, self.level
        half = self.half
        sums = SpeakerSums(errors=whole.errors[half], hits=whole.hits[half], sizes=whole.sizes[half])
        rng = generator(self.seed, "confirmation", self.counts.metric, test.candidate.group)
        chance = shuffle_labels(sums, permutations, rng, level=level)
        rates = on_scale(sums.totals(), system, "absolute")[0]
        # One-sided: only the direction that the search named counts.
        observed = float(chance.observed["pairs"][system]) * (1.0 if test.sign * (rates[0] - rates[1]) > 0 else -1.0)
        p = monte_carlo_p(observed, chance.shuffled["pairs"][:, system], level=level)
        found = rate_intervals(sums.errors[..., system], sums.sizes, level=level)
        # A speaker on both sides makes the two rates go together, and the interval too wide.
        ends = independent_difference(*((float(found.value[at]), *_ends(found, at)) for at in (1, 0)))
        size = self.data.interval(ends, DIFFERENCE, sums.people)
        return p, size, size.above(0) if test.sign > 0 else size.below(0)

    def _against_parts(self, test: _Test, design: Design) -> tuple[MaybeEnds, Interval | None, bool]:
        found = confirm_crossing(design, test.candidate.member, test.sign, self.level)
        if found is None:
            return (1.0, None, None), None, False
        p, ends, people = found
        size = self.data.interval(ends, BEYOND, people)
        return (p, None, None), size, size.above(1) if test.sign > 0 else size.below(1)


def _ends(found: RateIntervals, at: int) -> tuple[float, float]:
    """Return the interval of a rate, or the whole possible range where there is none."""
    low, high = float(found.low[at]), float(found.high[at])
    return (low, high) if np.isfinite(low) and np.isfinite(high) else (0.0, max(1.0, float(found.value[at])))
