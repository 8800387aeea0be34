"""The answer: what was tested and rejected, what may be reported of it, and what may not."""

from collections.abc import Iterator, Sequence

from audits.core.context import Draft
from audits.core.numbers import decimals as digits
from audits.core.numbers import percent, written
from audits.core.records import Estimate
from audits.core.wording import first_of, listed, span
from audits.group_rates import METRIC_WORDS
from audits.group_rates.wording import compared, levels_of, spoken
from audits.speaker_groups import HYPOTHESES
from audits.speaker_groups.columns import PROFILES
from audits.speaker_groups.gap_findings import gap_headline
from audits.speaker_groups.hypotheses import Verdict
from audits.speaker_groups.measure import Counts
from audits.speaker_groups.wording import gap_words, who

MOST_NAMED, MOST_IN_A_SENTENCE = 6, 3
HYPOTHESIS_WORDS = {
    "parity": "the groups of an attribute err alike",
    "worst-group": "no group of an attribute errs more than what it is compared with",
    "conditional": "the groups of an attribute err alike once everything else is held fixed",
}
ByAttribute = dict[str, list[Verdict]]
"""Verdicts by attribute."""


def conclude(draft: Draft, counts: Counts) -> None:
    """Add the finding on the hypothesis, and set the answer."""
    verdicts = counts.verdicts
    if not verdicts:
        return
    rejected = sum(verdict.rejected for verdict in verdicts)
    located = sum(verdict.found for verdict in verdicts)
    some = f" In {located} of them a difference can be told." if located < rejected else ""
    # Nobody declared what stands where nothing was asked for.
    kind = "default" if counts.options.hypothesis == HYPOTHESES[0] else "declared"
    draft.find(
        "groups.conclusion",
        "info",
        f"Tested was that {HYPOTHESIS_WORDS[counts.options.hypothesis]}, in {METRIC_WORDS[counts.options.metric]}."
        f"{some}{_open(draft, counts)}",
        [row for verdict in verdicts for row in (verdict.row(draft), verdict.p_row(draft))],
        headline=f"The {kind} hypothesis is rejected in {rejected} of {len(verdicts)} tests.",
        how_sure=f"The chance of any false rejection among them is about {percent(1 - counts.level)} at most.",
    )
    spurious = _attributes(draft, "groups.spurious")
    shown: ByAttribute = {}
    for verdict in verdicts:
        if verdict.found and not _goes_with_others(draft, counts, verdict):
            shown.setdefault(verdict.by, []).append(verdict)
    order = sorted(shown, key=lambda by: -max(abs(verdict.row(draft).value) for verdict in shown[by]))
    largest = [max(shown[by], key=lambda verdict: abs(verdict.row(draft).value)) for by in order]
    draft.conclude(
        _title(draft, counts, [shown[by] for by in order]),
        numbers=[(verdict.row(draft), _number_words(counts, verdict, verdict.row(draft))) for verdict in largest],
        may=_may(draft, counts, shown, order),
        may_not=_may_not(draft, counts, spurious),
        verdicts=list(_verdicts(draft, counts)),
    )


def _open(draft: Draft, counts: Counts) -> str:
    """Return the sentence on p-values of shuffled labels whose own interval spans what decides."""
    alpha, unsure = 1 - counts.level, []
    for verdict in counts.verdicts:
        p = verdict.p_row(draft)
        if p.low is not None and p.high is not None and p.low < alpha < p.high:
            system = f" ({counts.data.systems[verdict.system]})" if len(counts.data.systems) > 1 else ""
            unsure.append(f"{verdict.by}{system} {span(p)}")
    if not unsure:
        return ""
    return (
        f" Other shuffles could decide otherwise by {first_of(unsure, MOST_IN_A_SENTENCE)}: the interval of p spans "
        f"{alpha:.4g}. More --permutations can decide it."
    )


def _verdicts(draft: Draft, counts: Counts) -> Iterator[tuple[Estimate, bool, str]]:
    """Yield what the declared test of each attribute shows, for the gap between its worst and its best group.

    Where it is another pair that differs, the cell names that; what goes with other columns speaks by its finding.
    """
    for verdict in counts.verdicts:
        where = counts.where(verdict.system, by=verdict.by, kind="absolute", adjusted="no")
        gap = draft.get("gap", **where)
        if gap is None or (verdict.found and _goes_with_others(draft, counts, verdict)):
            continue
        pair = f"{levels_of(verdict.group)} against {levels_of(verdict.against)}"
        words = f"shown for {pair}" if verdict.found else "not shown which groups" if verdict.rejected else ""
        yield gap, verdict.found, "" if verdict.row(draft) is gap else words


def _goes_with_others(draft: Draft, counts: Counts, verdict: Verdict) -> bool:
    where = counts.where(verdict.system, by=verdict.by, group=verdict.group)
    return any(claim.id == "groups.spurious" and claim.where == where for claim in draft.findings)


def _attributes(draft: Draft, id: str) -> dict[str, list[str]]:
    """Return the systems by attribute of which a kind of finding tells."""
    found: dict[str, list[str]] = {}
    for claim in draft.findings:
        if claim.id == id and "by" in claim.where:
            systems = found.setdefault(str(claim.where["by"]), [])
            systems += [name for name in [str(claim.where.get("system", ""))] if name not in systems]
    return found


def _title(draft: Draft, counts: Counts, shown: Sequence[Sequence[Verdict]]) -> str:
    """Return the answer in one sentence: of the attribute with the largest gap, for as many systems as show it."""
    if not shown:
        tests = len(counts.verdicts)
        return f"No gap between groups is shown in any of {tests} tests." if tests > 1 else "No gap is shown."
    first = shown[0][0]
    alike = [
        verdict.system
        for verdict in shown[0]
        if (verdict.group, verdict.against) == (first.group, first.against) and verdict.row(draft).value > 0
    ]
    systems = counts.data.systems
    if len(alike) < 2:
        return gap_headline(counts, first, first.row(draft))
    whom = (
        f"All {len(systems)} systems make"
        if len(alike) == len(systems)
        else f"{listed([systems[at] for at in alike])} make"
    )
    return f"{whom} more errors {compared(first.group, first.against, counts.data.unit)}."


def _number_words(counts: Counts, verdict: Verdict, gap: Estimate) -> str:
    more = "higher" if gap.value > 0 else "lower"
    system = f", {counts.data.systems[verdict.system]}" if len(counts.data.systems) > 1 else ""
    pair = compared(verdict.group, verdict.against, counts.data.unit)
    return f"{more} {METRIC_WORDS[counts.tested.metric]} {pair}{system}"


def _may(draft: Draft, counts: Counts, shown: ByAttribute, order: Sequence[str]) -> list[str]:
    lines = []
    for by in order[:MOST_NAMED]:
        if len(counts.data.systems) > 1:
            names = [f"{counts.data.systems[one.system]} {gap_words(one.row(draft))}" for one in shown[by]]
            lines.append(f"The gap by {by}: {first_of(names, MOST_NAMED)}.")
        else:
            lines.append(f"The gap by {by}: {gap_words(shown[by][0].row(draft))}.")
    confirmed = _confirmed(counts)
    if confirmed:
        more = len(confirmed) - MOST_IN_A_SENTENCE
        names = [*confirmed[:MOST_IN_A_SENTENCE], *([f"{more} more"] if more > 0 else [])]
        lines.append(
            f"The {'group' if len(confirmed) == 1 else f'{len(confirmed)} groups'} that the search found and other "
            f"{counts.data.unit} confirmed, with the size seen there: {listed(names)}."
        )
    return lines


def _confirmed(counts: Counts) -> list[str]:
    """Return the groups that the search confirmed, in words, with the systems for which it did."""
    found: dict[str, list[str]] = {}
    for name, search in zip(counts.data.systems, counts.searches, strict=True):
        for group in dict.fromkeys(item.group for item in search.found if item.confirmed):
            found.setdefault(group, []).append(name)
    several, unit = len(counts.data.systems) > 1, counts.data.unit
    return [spoken(group, unit) + (f" for {listed(systems)}" if several else "") for group, systems in found.items()]


def _may_not(draft: Draft, counts: Counts, spurious: dict[str, list[str]]) -> list[str]:
    several = len(counts.data.systems) > 1
    lines = []
    for by, systems in list(spurious.items())[:MOST_NAMED]:
        whom = f" of {listed(systems)}" if several else ""
        lines.append(f"That {by} itself makes the gap{whom}: most of it goes with what else differs.")
    for verdict in [verdict for verdict in counts.verdicts if not verdict.rejected][:MOST_NAMED]:
        rows = [verdict.row(draft)]
        if counts.options.hypothesis != "conditional":
            # The gap that the table has, of the worst and the best group, reaches as far at least.
            where = counts.where(verdict.system, by=verdict.by, kind="absolute", adjusted="no")
            rows += [row for row in [draft.get("gap", **where)] if row is not None]
        gap = max(rows, key=lambda row: max(abs(row.low or 0.0), abs(row.high or 0.0)))
        whom = who(counts.data, verdict.system)
        whom = "the system" if whom == "The system" else whom
        if gap.low is not None and gap.high is not None:
            far = written(max(gap.low, gap.high, key=abs), digits(gap))
            fixed = ", all else held fixed," if counts.options.hypothesis == "conditional" else ""
            lines.append(
                f"That {whom} errs alike by {verdict.by}: a gap of {far.removeprefix('-')}{fixed} still fits the data."
            )
    lines.append("What is only in the tables: it was not tested.")
    lines.append("A cause, or anything on recordings of another kind.")
    if counts.data.unit == PROFILES:
        lines.append("How far these people stand for others: without speakers, that rests on their profiles alone.")
    return lines
