"""The gaps between the groups of an attribute or crossing, and whether they could be chance."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from audits.context import Draft
from audits.groups import MIN_WORDS, GroupSet
from audits.intervals import Interval
from audits.speaker_groups import Options
from audits.speaker_groups.counts import MetricCounts, Utterances, sums_of
from audits.statistics import (
    GAP_METHOD,
    OTHERS_METHOD,
    RATIO_METHOD,
    Chance,
    Contrast,
    Ends,
    Family,
    Kind,
    MaybeEnds,
    SpeakerSums,
    clearest,
    extremes,
    gap_between,
    gaps_to_one,
    gaps_to_others,
    generator,
    monte_carlo_p,
    on_scale,
    shuffle_labels,
    undefined,
    unscaled,
)
from audits.wording import many

KINDS: tuple[Kind, ...] = ("absolute", "relative", "log_odds")
"""Kinds of gap, nought where two groups are alike."""
RATIOS: tuple[Kind, ...] = ("ratio", "four_fifths")
"""Kinds that are 1 where two groups are alike."""
MOST_COMPARED = 100
"""Groups of one set that are compared at most: what all their pairs cost grows with the square."""
OTHERS = "others"
"""What a group is compared with where no group is named: all others of its set together."""
PERMUTED = "permutation of labels over speakers"
EXCESS_METHOD = (
    "square-and-add of Student intervals over speakers, each end on its own and simultaneous over all groups, or "
    "permutation where wider"
)
TO_ONE_METHOD = (
    "square-and-add of Student intervals over speakers, simultaneous over all groups against the reference, or "
    "permutation where wider"
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The groups of one set that have enough speakers and words, in one rate.

    Parameters
    ----------
    names
        The groups that are compared; under two there is nothing to compare.
    enough
        How many groups have enough speakers and words.
    reference
        What each group is compared with: overall, best, or the name of a group.
    too_small
        The group that was to be the reference and is too small; empty where there is none.
    """

    counts: MetricCounts
    groups: GroupSet
    names: tuple[str, ...]
    enough: int
    sums: SpeakerSums
    reference: str
    too_small: str = ""
    unit: str
    permutations: int
    seed: int
    level: float

    @property
    def by(self) -> str:
        """The attribute, or several joined by `&`."""
        return self.groups.by

    @property
    def crossed(self) -> bool:
        """Whether these are intersections."""
        return "&" in self.by

    @property
    def compared(self) -> bool:
        """Whether there are two groups to compare."""
        return len(self.names) > 1

    @cached_property
    def chance(self) -> Chance:
        """What shuffled labels make of the gaps."""
        return shuffle_labels(
            self.sums,
            self.permutations,
            generator(self.seed, "permutation", self.counts.metric, self.by),
            level=self.level,
            reference=self.names.index(self.reference) if "=" in self.reference else None,
        )

    @cached_property
    def extremes(self) -> tuple[tuple[str, str], ...]:
        """The groups with the highest and the lowest rate, by system."""
        pairs = (extremes(self.sums, system) for system in range(self.counts.errors.shape[1]))
        return tuple((self.names[worst], self.names[best]) for worst, best in pairs)

    def interval(self, ends: Ends, method: str) -> Interval:
        """Return a number over the speakers of all groups that are compared."""
        value, low, high = ends
        return Interval(value=value, low=low, high=high, method=method, n=self.sums.people, unit=self.unit)

    def between(self, system: int, kind: Kind, pair: tuple[str, str]) -> Interval:
        """Return the gap of two groups, with an interval that holds whichever two were picked."""
        at = (self.names.index(pair[0]), self.names.index(pair[1]))
        ends = gap_between(self.sums, system, kind, at, level=self.level, chance=self.chance)
        return self.interval(unscaled(kind, ends), GAP_METHOD if kind == "absolute" else RATIO_METHOD)

    def undefined(self, system: int, kind: Kind) -> str:
        """Say why the worst and the best group have no gap of this kind; empty where they have one."""
        pair = self.extremes[system]
        rates = on_scale(self.sums.totals(), system, "absolute")[0]
        high, low = (float(rates[self.names.index(name)]) for name in pair)
        return undefined(kind, pair, (high, low))

    def to_reference(self, system: int) -> tuple[str, dict[str, Interval]]:
        """Return what the groups are compared with, and by name each group's rate less that of it."""
        if self.reference == "overall":
            others = gaps_to_others(self.sums, self.chance, system, level=self.level)
            return OTHERS, {
                name: self.interval(ends, OTHERS_METHOD) for name, ends in zip(self.names, others, strict=True)
            }
        fixed = self.reference != "best"
        reference = self.reference if fixed else self.extremes[system][1]
        own = self.names.index(reference)
        gaps = gaps_to_one(self.sums, self.chance, system, own, fixed=fixed, level=self.level)
        method = TO_ONE_METHOD if fixed else GAP_METHOD
        return reference, {
            name: self.interval(gaps[at], method) for at, name in enumerate(self.names) if name != reference
        }

    def excess(self, system: int, pair: tuple[str, str]) -> Interval:
        """Return by how much a group errs more than what all are compared with, as the one-sided test sees it.

        The low end is the bound of that test, by joint intervals or shuffled labels, whichever is further: it lies
        above nought where the test rejects.
        """
        group, against = pair
        if against == OTHERS:
            found = gaps_to_others(self.sums, self.chance, system, level=self.level, one_sided=True)
        else:
            own = self.names.index(against)
            found = gaps_to_one(self.sums, self.chance, system, own, fixed=True, level=self.level, one_sided=True)
        return self.interval(found[self.names.index(group)], EXCESS_METHOD)

    def clearest(self, system: int, hypothesis: str) -> tuple[float, str, str]:
        """Return the chance of the difference that is clearest by its joint interval, its group, and against what.

        It is what the test looks at: the largest difference may be that of a group too small to be sure of.
        """
        family, reference, one_sided = self._looked_at(hypothesis)
        chance, group, against = clearest(self.sums, system, family, reference=reference, one_sided=one_sided)
        return chance, self.names[group], OTHERS if against is None else self.names[against]

    def _looked_at(self, hypothesis: str) -> tuple[Family, int | None, bool]:
        """Return the differences that a hypothesis is about, the reference, and whether only excesses count."""
        worst = hypothesis == "worst-group"
        if "=" in self.reference:
            return "reference", self.names.index(self.reference), worst
        return ("others", None, True) if worst and self.reference == "overall" else ("pairs", None, False)

    def p_value(self, system: int, hypothesis: str) -> MaybeEnds:
        """Return the p-value, and its Monte Carlo interval, of parity or of there being no worst group.

        It is the larger of two: that of shuffled labels, which is exact where the groups' speakers are drawn from one
        population, and that of the joint intervals, which holds where groups of equal rates differ in spread or size.
        The latter is computed, not sampled, and has no interval.
        """
        family, _, one_sided = self._looked_at(hypothesis)
        compared: Contrast = family
        if one_sided:
            compared = "above_reference" if family == "reference" else "above"
        observed = float(self.chance.observed[compared][system])
        shuffled = monte_carlo_p(observed, self.chance.shuffled[compared][:, system], level=self.level)
        p = self.clearest(system, hypothesis)[0]
        return (p, None, None) if p > shuffled[0] else shuffled


def compare(
    data: Utterances, counts: MetricCounts, groups: GroupSet, options: Options, *, seed: int, level: float
) -> Comparison:
    """Return the comparison of those groups of a set that have enough speakers and words, of the largest if many."""
    sums = sums_of(data, counts, groups.masks)
    chosen = np.flatnonzero((sums.speakers >= options.min_speakers) & (sums.sizes.sum(0) >= MIN_WORDS))
    enough = len(chosen)
    if enough > MOST_COMPARED:
        chosen = np.sort(chosen[np.argsort(-sums.speakers[chosen], kind="stable")[:MOST_COMPARED]])
    names = tuple(groups.names[at] for at in chosen)
    reference = reference_of(groups.by, options)
    too_small = reference if "=" in reference and reference not in names else ""
    return Comparison(
        counts=counts,
        groups=groups,
        names=names,
        enough=enough,
        sums=sums.of(chosen),
        reference="overall" if too_small else reference,
        too_small=too_small,
        unit=data.unit,
        permutations=options.permutations,
        seed=seed,
        level=level,
    )


def reference_of(by: str, options: Options) -> str:
    """Return what the groups of a set are compared with: a named group only where the set is that attribute."""
    named = next((text for text in options.reference if text.partition("=")[0] == by and "=" in text), None)
    return named or ("best" if "best" in options.reference else "overall")


def add_gaps(draft: Draft, data: Utterances, comparison: Comparison, options: Options) -> None:
    """Add the gaps of a set for every system, and warn of the groups that are not compared."""
    _warn_of_groups(draft, comparison, options)
    if not comparison.compared:
        return
    for system in range(len(data.systems)):
        where = data.where(comparison.counts, system, by=comparison.by)
        for kind in (*KINDS, *RATIOS):
            if why := comparison.undefined(system, kind):
                draft.warn("undefined-gap", why, **where, kind=kind)
            else:
                gap = comparison.between(system, kind, comparison.extremes[system])
                draft.add(name_of(kind), gap, **where, kind=kind, adjusted="no")
        draft.add("noise_floor", _chance_gap(comparison, system), **where)
        if not comparison.crossed:
            reference, gaps = comparison.to_reference(system)
            for group, gap in gaps.items():
                draft.add("gap_to_reference", gap, **where, group=group, reference=reference)


def _chance_gap(comparison: Comparison, system: int) -> Interval:
    """Return the gap that shuffled labels make."""
    tail = (1 - comparison.level) / 2
    permuted = comparison.chance.gaps[:, system]
    low, high = np.quantile(permuted, [tail, 1 - tail]).tolist()
    floor = float(permuted.mean())
    return comparison.interval((floor, min(low, floor), max(high, floor)), PERMUTED)


def name_of(kind: Kind) -> str:
    """Return the name of the estimate of a gap of this kind: ratios have their own, since 1 is none for them."""
    return "gap_ratio" if kind in RATIOS else "gap"


def _warn_of_groups(draft: Draft, comparison: Comparison, options: Options) -> None:
    by, unit = comparison.by, comparison.unit
    if comparison.enough > MOST_COMPARED:
        draft.warn(
            "too-many-groups",
            f"By {by}, {comparison.enough} groups have enough {unit} and words; the {MOST_COMPARED} with the "
            f"most {unit} are compared. --values or --bin can unite some.",
            by=by,
        )
    if comparison.counts.metric == options.metric:
        _warn_left_out(draft, comparison, options)
    if comparison.too_small and comparison.compared:
        draft.warn(
            "reference-too-small",
            f"{comparison.too_small} has too few {unit} or words to compare others with: by {by}, all others stand "
            "in its place.",
            by=by,
        )


def _warn_left_out(draft: Draft, comparison: Comparison, options: Options) -> None:
    groups, names, unit = comparison.groups, comparison.names, comparison.unit
    if len(groups.names) < 2:
        if "&" not in groups.by:
            level = groups.names[0] if groups.names else "no known level"
            draft.warn(
                "constant-attribute",
                f"The column {groups.by} has one level only ({level}): it has a rate, and nothing to compare.",
                by=groups.by,
            )
        return
    if len(names) < 2:
        draft.warn(
            "too-few-speakers",
            f"By {groups.by}, fewer than two groups have enough {unit} ({options.min_speakers}) and words "
            f"({MIN_WORDS}): no gap is estimated.",
            by=groups.by,
        )
        return
    left_out = sorted(set(groups.names) - set(names))
    if left_out:
        draft.warn(
            "not-compared",
            f"By {groups.by}, {many(len(left_out), 'group is', 'groups are')} shown but not compared: too few "
            f"{unit} (under {options.min_speakers}) or words (under {MIN_WORDS}). "
            f"{', '.join(left_out[:8])}{' and others' if len(left_out) > 8 else ''}.",
        )
