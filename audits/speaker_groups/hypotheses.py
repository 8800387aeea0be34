"""The declared hypothesis: its test of every attribute and system, with Holm's correction over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.records import Estimate
from audits.group_rates.comparing import p_method
from audits.speaker_groups.adjusting import Adjustment
from audits.speaker_groups.counts import Utterances
from audits.speaker_groups.gaps import Comparison
from audits.statistics import MaybeEnds, adjust, scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference that a test is about: of a group and what it is compared `against`, a group or others.

    Parameters
    ----------
    name, where
        The estimate that tells it.
    """

    group: str
    against: str
    name: str
    where: Mapping[str, str]
    size: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of the declared test of one attribute for one system.

    Parameters
    ----------
    raw, p
        The p-value with its ends, and corrected for all declared tests.
    where
        Coordinates of both p-values but for the correction.
    rejected
        Whether the test rejects what was declared.
    found
        Whether, beyond that, the interval of the difference leaves out zero.
    """

    system: int
    comparison: Comparison
    raw: MaybeEnds
    p: float
    where: Mapping[str, str]
    difference: Difference
    rejected: bool
    found: bool

    @property
    def by(self) -> str:
        """The attribute."""
        return self.comparison.by

    @property
    def group(self) -> str:
        """The group whose difference is tested."""
        return self.difference.group

    @property
    def against(self) -> str:
        """What that group is compared with."""
        return self.difference.against

    def row(self, draft: Draft) -> Estimate:
        """Return the estimate of the difference."""
        return draft.row(self.difference.name, **self.difference.where)

    def p_row(self, draft: Draft) -> Estimate:
        """Return the estimate of the corrected p-value."""
        return draft.row("p_value", **self.where, correction="holm")


def verdicts_of(
    data: Utterances,
    comparisons: Sequence[Comparison],
    adjustments: Sequence[Adjustment],
    hypothesis: str,
    level: float,
) -> tuple[Verdict, ...]:
    """Test a hypothesis for every attribute and system that has a test."""
    tests: list[tuple[int, Comparison, MaybeEnds, Difference]] = []
    for comparison in comparisons:
        for system in range(len(data.systems)):
            if comparison.crossed:
                continue
            where = data.where(comparison.counts, system, by=comparison.by)
            if hypothesis != "conditional":
                p = comparison.p_of(system, hypothesis)
                tests.append((system, comparison, p, _difference(comparison, system, hypothesis, where)))
                continue
            term = next((item.term(comparison.by) for item in adjustments if item.system == system), None)
            if term is not None:
                (group, against), size = term.extremes, term.gaps["absolute"]
                where |= {"kind": "absolute", "adjusted": "yes"}
                difference = Difference(group=group, against=against, name="gap", where=where, size=size)
                tests.append((system, comparison, (term.p, None, None), difference))
    corrected = adjust([raw[0] for _, _, raw, _ in tests], "holm")
    return tuple(
        Verdict(
            system=system,
            comparison=comparison,
            raw=raw,
            p=p,
            where=data.where(comparison.counts, system, test=hypothesis, by=comparison.by),
            difference=difference,
            rejected=p < 1 - level,
            found=p < 1 - level and beyond(difference.size, hypothesis),
        )
        for (system, comparison, raw, difference), p in zip(tests, corrected, strict=True)
    )


def _difference(comparison: Comparison, system: int, hypothesis: str, where: Mapping[str, str]) -> Difference:
    """Return the clearest difference or, for a one-sided test, its excess."""
    pair = group, against = comparison.tested_pair(system, hypothesis)
    reference = {**where, "group": group, "reference": against}
    if hypothesis == "worst-group" and comparison.reference != "best":
        name, size = "excess", comparison.excess(system, pair)
    elif pair == comparison.extremes[system]:
        name, size = "gap", comparison.between(system, pair)
        reference = {**where, "kind": "absolute", "adjusted": "no"}
    else:
        name = "gap_to_reference"
        compared_with, gaps = comparison.to_reference(system)
        known = gaps.get(group) if compared_with == against else None
        size = known or comparison.between(system, pair)
    return Difference(group=group, against=against, name=name, where=reference, size=size)


def beyond(gap: Interval | Estimate, hypothesis: str) -> bool:
    """Tell whether the interval excludes 0, on the upper side only unless the hypothesis is parity."""
    return gap.above(0) or (hypothesis == "parity" and gap.below(0))


def add_tests(draft: Draft, data: Utterances, verdicts: Sequence[Verdict]) -> None:
    """Add the differences that are no rows yet, then every p-value raw and corrected."""
    for verdict in verdicts:
        difference = verdict.difference
        if draft.get(difference.name, **difference.where) is None:
            draft.add(difference.name, difference.size, **difference.where)
    for verdict in verdicts:
        for correction, ends, how in (
            ("none", verdict.raw, ""),
            ("holm", scaled(verdict.raw, verdict.p), ", Holm over all tests of the hypothesis"),
        ):
            p = data.interval(ends, p_method(ends, how), verdict.comparison.sums.people)
            draft.add("p_value", p, **verdict.where, correction=correction)
