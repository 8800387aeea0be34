"""Comparison of the groups of an attribute or crossing: gaps, references and tests."""

from dataclasses import dataclass, replace

import numpy as np

from audits.core.context import Draft
from audits.core.groups import MIN_WORDS, GroupSet
from audits.core.intervals import Interval, Undefined
from audits.core.wording import first_of, many
from audits.group_rates import comparing
from audits.group_rates.cautions import too_few_words
from audits.group_rates.comparing import KINDS
from audits.speaker_groups import Options
from audits.speaker_groups.counts import MetricCounts, Utterances, sums_of
from audits.statistics import GAP_METHOD, Family, Kind, MaybeEnds, gaps_to_one, gaps_to_others

RATIOS: tuple[Kind, ...] = ("ratio", "four_fifths")
"""Kinds that are 1 where two groups are alike."""
MOST_COMPARED = 100
"""Groups of one set that are compared at most: what all their pairs cost grows with the square."""
OTHERS = "others"
"""What a group is compared with where no group is named: all others of its set together."""
EXCESS_METHOD = (
    "square-and-add of Student intervals over speakers, each end on its own and simultaneous over all groups, or "
    "permutation where wider"
)
TO_ONE_METHOD = (
    "square-and-add of Student intervals over speakers, simultaneous over all groups against the reference, or "
    "permutation where wider"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(comparing.Comparison):
    """The groups of one set that have enough speakers and words, in one rate, for every system.

    Parameters
    ----------
    enough
        How many groups have enough speakers and words.
    reference
        What each group is compared with: overall, best, or the name of a group.
    too_small
        The group that was to be the reference and is too small; empty where there is none.
    """

    counts: MetricCounts
    enough: int
    too_small: str = ""

    @property
    def compared(self) -> bool:
        """Whether there are at least two groups to compare."""
        return len(self.names) > 1

    def between(self, system: int, pair: tuple[str, str]) -> Interval:
        """Return the absolute gap of two groups, which is always defined."""
        gap = self.gap(system, "absolute", pair)
        assert isinstance(gap, Interval)
        return gap

    def to_reference(self, system: int) -> tuple[str, dict[str, Interval]]:
        """Return the reference of the groups, and each group's rate less that of it, by name."""
        if self.reference == "overall":
            return OTHERS, self.gaps_to_others(system)
        fixed = self.reference != "best"
        reference = self.reference if fixed else self.extremes[system][1]
        own = self.names.index(reference)
        gaps = gaps_to_one(self.sums, self.chance, system, own, fixed=fixed, level=self.level)
        method = TO_ONE_METHOD if fixed else GAP_METHOD
        return reference, {
            name: self.interval(gaps[at], method) for at, name in enumerate(self.names) if name != reference
        }

    def excess(self, system: int, pair: tuple[str, str]) -> Interval:
        """Return the excess of a group's rate over the reference, for the one-sided test.

        The low end is the bound of that test, by joint intervals or shuffled labels, whichever is further: it lies
        above zero where the test rejects.
        """
        group, against = pair
        if against == OTHERS:
            found = gaps_to_others(self.sums, self.chance, system, level=self.level, one_sided=True)
        else:
            own = self.names.index(against)
            found = gaps_to_one(self.sums, self.chance, system, own, fixed=True, level=self.level, one_sided=True)
        return self.interval(found[self.names.index(group)], EXCESS_METHOD)

    def tested_pair(self, system: int, hypothesis: str) -> tuple[str, str]:
        """Return the group and its reference whose difference the test of a hypothesis is about."""
        family, one_sided = self._looked_at(hypothesis)
        _, group, against = self.clearest(system, family, one_sided=one_sided)
        return group, against or OTHERS

    def p_of(self, system: int, hypothesis: str) -> MaybeEnds:
        """Return the p-value, with its Monte Carlo interval, of parity or of no worst group."""
        family, one_sided = self._looked_at(hypothesis)
        return self.p_value(system, family, one_sided=one_sided)

    def _looked_at(self, hypothesis: str) -> tuple[Family, bool]:
        """Return the family of differences of a hypothesis, and whether it is one-sided."""
        worst = hypothesis == "worst-group"
        if "=" in self.reference:
            return "reference", worst
        return ("others", True) if worst and self.reference == "overall" else ("pairs", False)


def compare(
    data: Utterances, counts: MetricCounts, groups: GroupSet, options: Options, *, seed: int, level: float
) -> Comparison:
    """Return the comparison of the groups of a set with enough speakers and words, the largest if too many."""
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
        rate=(counts.metric,),
        unit=data.unit,
        permutations=options.permutations,
        seed=seed,
        level=level,
    )


def reference_of(by: str, options: Options) -> str:
    """Return the reference of a set of groups: a named group only where the set is its attribute."""
    named = next((text for text in options.reference if text.partition("=")[0] == by and "=" in text), None)
    return named or ("best" if "best" in options.reference else "overall")


def add_gaps(draft: Draft, data: Utterances, comparison: Comparison, options: Options) -> None:
    """Add the gaps of a set for every system, and warn of groups that are not compared."""
    _warn_of_groups(draft, comparison, options)
    if not comparison.compared:
        return
    for system in range(len(data.systems)):
        where = data.where(comparison.counts, system, by=comparison.by)
        for kind in (*KINDS, *RATIOS):
            gap = comparison.gap(system, kind)
            if isinstance(gap, Undefined):
                gap = replace(gap, where={**where, "kind": kind})
            draft.add(name_of(kind), gap, **where, kind=kind, adjusted="no")
        draft.add("noise_floor", comparison.noise_floor(system), **where)
        if not comparison.crossed:
            reference, gaps = comparison.to_reference(system)
            for group, gap in gaps.items():
                draft.add("gap_to_reference", gap, **where, group=group, reference=reference)


def name_of(kind: Kind) -> str:
    """Return the estimate's name of a gap of this kind; ratios have their own, since their neutral value is 1."""
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
        few = too_few_words(groups.by, f"{unit} ({options.min_speakers}) and words ({MIN_WORDS})")
        draft.warn("too-few-speakers", few, by=groups.by)
        return
    left_out = sorted(set(groups.names) - set(names))
    if left_out:
        draft.warn(
            "not-compared",
            f"By {groups.by}, {many(len(left_out), 'group is', 'groups are')} shown but not compared: too few "
            f"{unit} (under {options.min_speakers}) or words (under {MIN_WORDS}). "
            f"{first_of(left_out, 8)}.",
        )
